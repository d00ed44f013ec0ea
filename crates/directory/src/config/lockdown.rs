//! Lockdown (an extended operation of this server): only administrators on this machine are served.
//!
//! It is of one server, kept in memory, and ends with the process. The values are JSON; `roster
//! lockdown` asks.
//!
//! Invariant: while it is off, a request pays one relaxed load for it.
//! Invariant: while it is on, no request is carried out but those of sessions from this machine
//! that hold `bypass-lockdown`, and what leads there: binds and StartTLS from this machine.

use std::sync::atomic::Ordering;

use aci::Privilege;
use ldap::message::{ExtendedRequest, Request};
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

use super::asking;
use crate::bind::recheck;
use crate::directory::Directory;
use crate::request::cancel;
use crate::request::extended::START_TLS;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::{Peer, Session};
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation that locks a server down.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.8";

/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 1 << 8;

/// The value of the request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AskedLockdown {
    /// What it is to be; none: as it is.
    #[serde(default)]
    pub on: Option<bool>,
}

/// The value of the answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LockdownState {
    /// Whether the server is locked down now.
    pub on: bool,
    /// Whether it was before.
    pub was_on: bool,
}

/// Refuses what is not served during a lockdown.
pub(crate) fn check(
    directory: &Directory,
    session: &Session,
    request: &Request<'_>,
) -> Result<(), Refusal> {
    match directory.monitors.is_locked_down.load(Ordering::Relaxed) {
        false => Ok(()),
        true => check_served(session, request),
    }
}

#[cold]
fn check_served(session: &Session, request: &Request<'_>) -> Result<(), Refusal> {
    let leads_there = match request {
        Request::Bind(_) => true,
        Request::Extended(extended) => extended.oid == START_TLS,
        _ => false,
    };
    // It only has the server do less.
    if matches!(request, Request::Extended(extended) if extended.oid == cancel::OID) {
        return Ok(());
    }
    let is_served = is_of_this_machine(session.peer())
        && (leads_there || session.own_access().has(Privilege::BypassLockdown));
    match is_served {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::Unavailable,
            "the server is locked down: only administrators on its own machine are served; use \
             another server, or try again later",
        )),
    }
}

/// Whether a connection comes from this machine: by the Unix socket, or from a loopback address.
/// What a proxy tells says nothing about the way here.
fn is_of_this_machine(peer: &Peer) -> bool {
    let is_loopback = || peer.ip.is_some_and(|ip| ip.to_canonical().is_loopback());
    peer.local_user.is_some() || (!peer.is_proxied && is_loopback())
}

/// Begins or ends a lockdown, or tells of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let access = session.access();
    asking::needs(access, Privilege::ServerLockdown, "a lockdown of the server")?;
    let AskedLockdown { on } = match request.value {
        None => AskedLockdown::default(),
        given => asking::value(given, VALUE_MAX_BYTES, "asks for no lockdown")?,
    };
    let directory = &worker.directory;
    recheck::check(directory, &directory.state.load(), worker.snapshot.view()?, access)?;
    if on == Some(true) {
        let state = directory.state.load();
        recheck::check(directory, &state, worker.snapshot.view()?, session.own_access())?;
        check_can_end(session)?;
    }
    let lockdown = &directory.monitors.is_locked_down;
    let was_on = match on {
        Some(on) => lockdown.swap(on, Ordering::Relaxed),
        None => lockdown.load(Ordering::Relaxed),
    };
    let state = LockdownState { on: on.unwrap_or(was_on), was_on };
    if state.on != was_on {
        let who = session.who();
        tracing::warn!(by = %who.dn, authz = %who.authz, connection = who.session, on = state.on,
            "the lockdown of this server was begun or ended");
    }
    let value = serde_json::to_vec(&state)
        .map_err(|error| Refusal::new(ResultCode::Other, error.to_string()))?;
    Ok(Next::Answered(sink.extended(Some(OID), Some(&value))))
}

/// Whoever begins it must be served during it: otherwise nobody may be left to end it.
fn check_can_end(session: &Session) -> Result<(), Refusal> {
    if !session.own_access().has(Privilege::BypassLockdown) {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "beginning a lockdown needs the privilege bypass-lockdown, too: without it you could \
             not end it",
        ));
    }
    if !is_of_this_machine(session.peer()) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a lockdown is begun on the machine of the server, by its Unix socket or a loopback \
             address: from elsewhere you could not end it",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::read::fresh::level::DefaultReadLevel;
    use crate::request::session::LocalUser;

    #[test]
    fn this_machine_is_known_by_its_socket_and_loopback_addresses() {
        let check = |ip: Option<&str>, is_proxied: bool, is_local: bool, want: bool| {
            let peer = Peer {
                address: String::new(),
                ip: ip.map(|text| text.parse::<IpAddr>().unwrap()),
                is_proxied,
                local_user: is_local.then_some(LocalUser { uid: 0, gid: 0 }),
                secure: false,
                read_level: DefaultReadLevel::default(),
            };
            assert_eq!(is_of_this_machine(&peer), want, "{peer:?}");
        };
        check(None, false, true, true);
        for loopback in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
            check(Some(loopback), false, false, true);
            check(Some(loopback), true, false, false);
        }
        check(Some("192.0.2.1"), false, false, false);
        check(Some("::ffff:192.0.2.1"), false, false, false);
        check(None, false, false, false);
    }
}
