//! Who may act as somebody else: by proxied authorization (RFC 4370, and its first version), or by
//! an authorization identity of a SASL bind.
//!
//! Invariant: nobody becomes another without the privilege `proxied-auth` and the right `proxy` on
//! the other's entry, and the refusal is the same whether there is such an entry or not.

use aci::{Access, Identity, Privilege, Right};
use ldap::result::ResultCode;
use schema::DnKey;

use crate::access::group_limits;
use crate::access::guard::{Viewer, guarded};
use crate::bind::user_name::{Found, UserName};
use crate::bind::{identity_mapper, login};
use crate::directory::State;
use crate::request::controls::request::{Proxied, RequestControls};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

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
    let (view, groups) = worker.snapshot.view_with_groups()?;
    let name = match proxied {
        Proxied::Anonymous => return Ok(Access::of(Identity::Anonymous)),
        Proxied::Dn(name) => UserName::Dn(name),
        Proxied::User(name) => UserName::User(name),
    };
    let found = match identity_mapper::find(directory, &state, view, name) {
        Err(refusal) if refusal.code == ResultCode::InvalidDnSyntax => None,
        found => found?,
    };
    let viewer = Viewer { directory, access: session.access(), view, schema: &state.schema };
    let access = found
        .and_then(|found| access_as(&viewer, &state, found).transpose())
        .unwrap_or_else(|| Err(denied()))?;
    let given = group_limits::with_groups(&state, view, groups, &access)?;
    Ok(match given {
        Some(grants) => access.granted(grants),
        None => access,
    })
}

/// The access of whoever was found, if the viewer may act as them: with the privilege
/// `proxied-auth` and the right `proxy` on the entry, or the administrator as itself. Nobody else
/// becomes the administrator.
pub(crate) fn access_as(
    viewer: &Viewer<'_>,
    state: &State,
    found: Found,
) -> Result<Option<Access>, Refusal> {
    let &Viewer { directory, access, view, .. } = viewer;
    // Who acts as somebody else already goes no further: the first would be forgotten.
    if !access.has(Privilege::ProxiedAuth) || access.prover().is_some() {
        return Ok(None);
    }
    let id = match found {
        Found::Root => return Ok(access.is_root().then(|| access.clone())),
        Found::Entry(id) => id,
    };
    let Some(entry) = view.entry(id)? else { return Ok(None) };
    let may = guarded(viewer, &DnKey::root(), |guard| guard.on(&entry).may_entry(Right::Proxy));
    // Who cannot sign in does nothing through others either.
    if !may || !login::is_usable(directory, state, view, &entry)? {
        return Ok(None);
    }
    let other = identity_mapper::access_of(&directory.credentials.root, state, view, found)?;
    Ok(other.map(|other| other.proved_by(access.entry())))
}

fn denied() -> Refusal {
    Refusal::new(
        ResultCode::AuthorizationDenied,
        "the identity may not act as the requested authorization identity",
    )
}
