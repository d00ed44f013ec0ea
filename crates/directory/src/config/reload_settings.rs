//! Reload settings (an extended operation of this server): the server reads again what its machine
//! says, as on SIGHUP, and tells what came of it.
//!
//! The values are JSON; `roster reload` asks. A request without a number has the settings read, and
//! its answer has the number of that; a request with the number tells how far it is. So nobody's
//! thread waits for a file.
//!
//! Invariant: it takes the privilege `config-write`.

use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use serde::Deserialize;

use super::asking;
use crate::bind::recheck;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation that has a server read its own settings again.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.6";

/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 1 << 8;

/// What is asked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedReload {
    /// How far this one is; none: one is to begin.
    #[serde(default)]
    number: Option<u64>,
}

/// Has the settings read, or tells of it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let access = session.access();
    asking::needs_config_write(access, "having the settings of a server read again")?;
    let asked = match request.value {
        None => AskedReload::default(),
        given => asking::value(given, VALUE_MAX_BYTES, "asks for no reload")?,
    };
    let directory = &worker.directory;
    recheck::check(directory, &directory.state.load(), worker.snapshot.view()?, access)?;
    let reload = directory.monitors.settings_reload.get().ok_or_else(|| {
        let why = "this server keeps the settings that it was started with";
        Refusal::new(ResultCode::UnwillingToPerform, why)
    })?;
    let told = reload(asked.number);
    if asked.number.is_none() {
        let who = session.who();
        tracing::info!(by = %who.dn, authz = %who.authz, connection = who.session,
            number = told.number, "the settings are to be read again");
    }
    let value = serde_json::to_vec(&told)
        .map_err(|error| Refusal::new(ResultCode::Other, error.to_string()))?;
    Ok(Next::Answered(sink.extended(Some(OID), Some(&value))))
}
