//! Proxied authorization (RFC 4370, and its first version): a request is carried out as somebody
//! else.
//!
//! Invariant: nobody becomes another without the privilege `proxied-auth` and the right `proxy` on
//! the other's entry, and the refusal is the same whether there is such an entry or not.

use std::sync::Arc;

use aci::{Access, Identity, Privilege, Right};
use ldap::ber::{DecodeError, Reader, Tag};
use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{Control, Scope};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead as _, ResolvedFilter, Truth};
use store::{Ask, Resolved, View};

use super::{RequestControls, malformed};
use crate::directory::State;
use crate::guard::{Guard, Site, guarded};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::worker::Worker;

/// The OID of the first version.
pub(crate) const V1: &str = "2.16.840.1.113730.3.4.12";
/// The OID of RFC 4370.
pub(crate) const V2: &str = "2.16.840.1.113730.3.4.18";

/// As whom a request is to be carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proxied<'a> {
    Anonymous,
    Dn(&'a str),
    User(&'a str),
}

/// Takes the first version: a sequence of a DN.
pub(super) fn take_v1<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    let value = control.value.unwrap_or_default();
    let name = v1_name(value)
        .ok()
        .and_then(|octets| std::str::from_utf8(octets).ok())
        .ok_or_else(|| malformed("the value of the proxied authorization control is no name"))?;
    let proxied = if name.is_empty() { Proxied::Anonymous } else { Proxied::Dn(name) };
    put(taken, control, proxied)
}

/// Takes the control of RFC 4370: an authzId (RFC 4513 §5.2.1.8).
pub(super) fn take_v2<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    let value = std::str::from_utf8(control.value.unwrap_or_default());
    let value = value.map_err(|_| malformed("the authorization identity is not UTF-8"))?;
    let proxied = if value.is_empty() || value == "dn:" {
        Proxied::Anonymous
    } else if let Some(name) = value.strip_prefix("dn:") {
        Proxied::Dn(name)
    } else if let Some(name) = value.strip_prefix("u:") {
        Proxied::User(name)
    } else {
        return Err(malformed("an authorization identity begins with dn: or u:"));
    };
    put(taken, control, proxied)
}

fn put<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
    proxied: Proxied<'a>,
) -> Result<(), Refusal> {
    // RFC 4370 §3: a server that ignored it would do what nobody asked for.
    if !control.critical {
        return Err(malformed("the proxied authorization control must be critical"));
    }
    if taken.proxied.is_some() {
        return Err(malformed("a proxied authorization control was sent twice"));
    }
    taken.proxied = Some(proxied);
    Ok(())
}

fn v1_name(value: &[u8]) -> Result<&[u8], DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    outer.end()?;
    let name = sequence.octets(Tag::OCTET_STRING)?;
    sequence.end()?;
    Ok(name)
}

/// Makes the session act as the identity that its request asks for, until it is told otherwise.
/// Refuses with `authorizationDenied`.
pub(crate) fn assume(
    worker: &mut Worker,
    session: &mut Session,
    controls: &RequestControls<'_>,
) -> Result<(), Refusal> {
    let Some(proxied) = controls.proxied else { return Ok(()) };
    if !session.access().has(Privilege::ProxiedAuth) {
        return Err(denied());
    }
    let access = match proxied {
        Proxied::Anonymous => Access::of(Identity::Anonymous),
        Proxied::Dn(_) | Proxied::User(_) => found(worker, session, proxied)?,
    };
    session.assume(access);
    Ok(())
}

fn found(worker: &mut Worker, session: &Session, proxied: Proxied<'_>) -> Result<Access, Refusal> {
    let directory = &worker.directory;
    let state = directory.state.load();
    let schema = &state.schema;
    let view = worker.snapshot.view()?;
    let site = Site { directory, access: session.access(), view, schema };
    guarded(&site, &DnKey::root(), |guard| {
        if let Proxied::Dn(name) = proxied
            && DnKey::from_text(schema, name).is_ok_and(|key| key == directory.root.key)
        {
            // Nobody becomes more than they are.
            return if session.access().is_root() {
                Ok(Access::clone(session.access()))
            } else {
                Err(denied())
            };
        }
        let id = find(view, &state, proxied)?.ok_or_else(denied)?;
        access(guard, view, &state, id)
    })
}

/// The access of an entry, if the asker may have it.
fn access(
    guard: &Guard<'_>,
    view: &View<'_>,
    state: &Arc<State>,
    id: EntryId,
) -> Result<Access, Refusal> {
    let entry = view.entry(id)?.ok_or_else(denied)?;
    if !guard.on(&entry).may_entry(Right::Proxy) {
        return Err(denied());
    }
    let name = Dn::parse(entry.dn())?;
    let key = DnKey::from_dn(&state.schema, &name).map_err(|_| denied())?;
    Ok(Access::with(Identity::Entry(name), state.grants.read(&entry)).keyed(key))
}

fn find(view: &View<'_>, state: &State, proxied: Proxied<'_>) -> Result<Option<EntryId>, Refusal> {
    let schema = &state.schema;
    let name = match proxied {
        Proxied::Anonymous => return Ok(None),
        Proxied::Dn(name) => {
            let Ok(key) = DnKey::from_text(schema, name) else { return Ok(None) };
            return Ok(match view.resolve(&key)? {
                Resolved::Found(id) => Some(id),
                Resolved::Missing { .. } | Resolved::NoContext => None,
            });
        }
        Proxied::User(name) => name,
    };
    // The one entry with this uid.
    let filter = Filter::Equality(AvaFilter { description: "uid", value: name.as_bytes().into() });
    let filter = ResolvedFilter::resolve(&filter, schema);
    let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
    let mut found = None;
    for entry in plan.entries(view, EntryId::ROOT) {
        let entry = entry?;
        if plan.exact || filter.matches(schema, &entry) == Truth::True {
            if found.is_some() {
                return Ok(None);
            }
            found = Some(entry.id());
        }
    }
    Ok(found)
}

fn denied() -> Refusal {
    Refusal::new(
        ResultCode::AuthorizationDenied,
        "the identity may not act as the one that was asked for",
    )
}
