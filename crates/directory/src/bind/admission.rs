//! The end of a bind: the session becomes whoever the client proved to be, unless too many
//! connections of that identity are there already.

use aci::{Access, Identity};
use ldap::result::ResultCode;

use crate::access::group_limits;
use crate::directory::Directory;
use crate::request::identity_limits::{CountedConnection, IdentityLimits};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

/// From now on the session is that identity, with the limits of its entry and of its groups.
pub(super) fn admit(
    worker: &mut Worker,
    session: &mut Session,
    access: Access,
    mechanism: &'static str,
) -> Result<(), Refusal> {
    let mut access = access;
    if access.entry().is_some() {
        let (view, known) = worker.snapshot.view_with_groups()?;
        let given =
            group_limits::with_groups(&worker.directory.state.load(), view, known, &access)?;
        if let Some(grants) = given {
            access = access.granted(grants);
        }
    }
    let connection = count_connection(&worker.directory, session, &access)?;
    session.bind_as(access, mechanism, connection);
    Ok(())
}

/// Its place among the connections of whoever has just proved to be `access`, where those are
/// counted.
fn count_connection(
    directory: &Directory,
    session: &Session,
    access: &Access,
) -> Result<Option<CountedConnection>, Refusal> {
    let (Identity::Entry(_), Some(key)) = (access.identity(), access.key()) else {
        return Ok(None);
    };
    let (grants, limits) = (access.grants(), &directory.limits());
    let policy = match directory.rules.policies.is_empty() {
        true => None,
        false => directory.rules.policies.identity_limits(session, key),
    };
    let (connections, operations) = policy.unwrap_or_default();
    let limits = IdentityLimits {
        connections_max: grants
            .connections_max
            .or(connections)
            .unwrap_or(limits.connections_per_identity_max),
        operations_max: grants
            .operations_max
            .or(operations)
            .unwrap_or(limits.operations_per_identity_max),
    };
    if limits == IdentityLimits::default() {
        return Ok(None);
    }
    match directory.budgets.identities.count_connection(key, limits) {
        Some(connection) => Ok(Some(connection)),
        None => Err(Refusal::new(
            ResultCode::Busy,
            "too many connections of your identity; close one, or try again later",
        )),
    }
}
