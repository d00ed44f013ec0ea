//! Stop server (an extended operation of this server): it ends in order, as on SIGTERM, or begins
//! anew.
//!
//! The values are JSON; `roster stop` and `roster restart` ask. The server answers before it
//! begins. Each answer has the moment this run of the server began, so that whoever waits for the
//! next one knows it from this one.
//!
//! Invariant: stopping takes the privilege `server-shutdown`, beginning anew `server-restart`.

use aci::Privilege;
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

use super::asking;
use super::monitor_sources::StopKind;
use crate::bind::recheck;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation that has a server stop or begin anew.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.7";

/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 1 << 8;

/// The value of the request.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AskedStop {
    /// What it is to do.
    pub action: StopKind,
}

/// Has the server end, or tells of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let AskedStop { action } = asking::value(request.value, VALUE_MAX_BYTES, "asks for no stop")?;
    let access = session.access();
    let (privilege, what) = match action {
        StopKind::Stop => (Privilege::ServerShutdown, "stopping the server"),
        StopKind::Restart | StopKind::Tell => {
            (Privilege::ServerRestart, "having the server begin anew")
        }
    };
    asking::needs(access, privilege, what)?;
    let directory = &worker.directory;
    recheck::check(directory, &directory.state.load(), worker.snapshot.view()?, access)?;
    let refused = |why: String| Refusal::new(ResultCode::UnwillingToPerform, why);
    let stop = directory.monitors.stop.get().ok_or_else(|| {
        refused("this server ends with whoever started it: stop it there".to_owned())
    })?;
    let told = stop(action);
    if action != StopKind::Tell {
        let who = session.who();
        tracing::info!(by = %who.dn, authz = %who.authz, connection = who.session, ?action,
            refused = told.as_ref().err().map(tracing::field::display),
            "this server was asked to end");
    }
    let value = serde_json::to_vec(&told.map_err(refused)?)
        .map_err(|error| Refusal::new(ResultCode::Other, error.to_string()))?;
    Ok(Next::Answered(sink.extended(Some(OID), Some(&value))))
}
