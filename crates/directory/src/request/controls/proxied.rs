//! Proxied authorization (RFC 4370, and its first version): a request is carried out as somebody
//! else.
//!
//! Invariant: nobody becomes another without the privilege `proxied-auth` and the right `proxy` on
//! the other's entry, and the refusal is the same whether there is such an entry or not.

use aci::{Access, Identity, Privilege, Right};
use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::Control;
use ldap::result::ResultCode;
use schema::DnKey;

use super::{RequestControls, malformed};
use crate::access::guard::{Site, guarded};
use crate::bind::identity_mapper;
use crate::bind::login;
use crate::bind::user_name::{Found, UserName};
use crate::directory::State;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

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
    put(taken, proxied)
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
    put(taken, proxied)
}

/// Refuses one that is not critical with any request (RFC 4370 §3): a server that ignored it would
/// do what nobody asked for.
pub(super) fn check_critical(control: &Control<'_>) -> Result<(), Refusal> {
    match !control.critical && [V1, V2].contains(&control.oid) {
        false => Ok(()),
        true => Err(malformed("the proxied authorization control must be critical")),
    }
}

fn put<'a>(taken: &mut RequestControls<'a>, proxied: Proxied<'a>) -> Result<(), Refusal> {
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
    let view = worker.snapshot.view()?;
    let name = match proxied {
        Proxied::Anonymous => return Ok(Access::of(Identity::Anonymous)),
        Proxied::Dn(name) => UserName::Dn(name),
        Proxied::User(name) => UserName::User(name),
    };
    let found = match identity_mapper::find(directory, &state, view, name) {
        Err(refusal) if refusal.code == ResultCode::InvalidDnSyntax => None,
        found => found?,
    };
    let site = Site { directory, access: session.access(), view, schema: &state.schema };
    found
        .and_then(|found| access_as(&site, &state, found).transpose())
        .unwrap_or_else(|| Err(denied()))
}

/// The access of whoever was found, if the one at the site may act as them: with the privilege
/// `proxied-auth` and the right `proxy` on the entry, or the administrator as itself. Nobody else
/// becomes the administrator.
pub(crate) fn access_as(
    site: &Site<'_>,
    state: &State,
    found: Found,
) -> Result<Option<Access>, Refusal> {
    let &Site { directory, access, view, .. } = site;
    // Who acts as somebody else already goes no further: the first would be forgotten.
    if !access.has(Privilege::ProxiedAuth) || access.prover().is_some() {
        return Ok(None);
    }
    let id = match found {
        Found::Root => return Ok(access.is_root().then(|| access.clone())),
        Found::Entry(id) => id,
    };
    let Some(entry) = view.entry(id)? else { return Ok(None) };
    let may = guarded(site, &DnKey::root(), |guard| guard.on(&entry).may_entry(Right::Proxy));
    // Who cannot sign in does nothing through others either.
    if !may || login::check_usable(directory, state, &entry).is_err() {
        return Ok(None);
    }
    let other = identity_mapper::access_of(directory, state, view, found)?;
    Ok(other.map(|other| other.proved_by(access.entry())))
}

fn denied() -> Refusal {
    Refusal::new(
        ResultCode::AuthorizationDenied,
        "the identity may not act as the one that was asked for",
    )
}
