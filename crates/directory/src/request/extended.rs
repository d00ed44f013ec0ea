//! Extended operations (RFC 4511 §4.12): a table of those that are known.

pub(crate) mod call;

use aci::Privilege;
use ldap::control_value::policy_state;
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use schema::DnKey;

use self::call::Call;
use crate::access::guard::{Viewer, guarded};
use crate::config::{
    change_members, init_cluster, join, lockdown, reload_settings, stop_server, verify,
};
use crate::directory::Directory;
use crate::read::why;
use crate::request::cancel;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::{account_state, password_modify, transaction, transactions};

#[cfg(test)]
mod tests;

/// What starts an extended operation.
type Start = fn(
    &mut Worker,
    &mut Session,
    &ExtendedRequest<'_>,
    &Call<'_>,
    &mut ResponseSink<'_>,
) -> Result<Next, Refusal>;

/// StartTLS.
pub(crate) const START_TLS: &str = "1.3.6.1.4.1.1466.20037";

/// Who am I?
pub(crate) const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

/// All supported extended operations.
const OPERATIONS: &[(&str, Start)] = &[
    (START_TLS, start_tls),
    (password_modify::value::OID, password_modify::start),
    (WHO_AM_I, who_am_i),
    (cancel::OID, cancel),
    (transactions::START, transaction::start),
    (transactions::END, transaction::end),
    (policy_state::OID, account_state::start),
    (policy_state::PING_OID, account_state::start),
    (why::OID, why::start),
    (change_members::OID, change_members::start),
    (join::OID, join::start),
    (verify::OID, verify::start),
    (init_cluster::OID, init_cluster::start),
    (reload_settings::OID, reload_settings::start),
    (stop_server::OID, stop_server::start),
    (lockdown::OID, lockdown::start),
];

/// The OIDs for `supportedExtension` of a session's root DSE.
pub(crate) fn supported(offers_tls: bool) -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(oid, _)| *oid).filter(move |oid| offers_tls || *oid != START_TLS)
}

/// Whether StartTLS can succeed on this connection.
pub(crate) fn offers_tls(directory: &Directory, session: &Session) -> bool {
    directory.offers_tls && session.peer().local_user.is_none()
}

/// Begins the operation the request names.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let known = OPERATIONS.iter().find(|(oid, _)| *oid == request.oid);
    let Some((_, start)) = known else {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            format!("extended operation {} is not known", request.oid),
        ));
    };
    check_allowed(worker, session, request.oid)?;
    start(worker, session, request, call, sink)
}

/// Refuses what the rules do not let the asker call.
fn check_allowed(worker: &mut Worker, session: &Session, oid: &str) -> Result<(), Refusal> {
    let access = session.access();
    if access.has(Privilege::BypassAcl) {
        return Ok(());
    }
    let directory = &worker.directory;
    let state = directory.state.load();
    let viewer = Viewer { directory, access, view: worker.snapshot.view()?, schema: &state.schema };
    if guarded(&viewer, &DnKey::root(), |guard| guard.may_extend(oid)) {
        return Ok(());
    }
    Err(Refusal::new(
        ResultCode::InsufficientAccessRights,
        "the identity may not call this extended operation",
    ))
}

/// StartTLS (RFC 4511 §4.14).
fn start_tls(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    if !offers_tls(&worker.directory, session) {
        // Not supported by configuration is not supported (RFC 4511 §4.14.2).
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            "this server offers no TLS on this connection",
        ));
    }
    if request.value.is_some() {
        return Err(Refusal::new(ResultCode::ProtocolError, "StartTLS has no value"));
    }
    if session.is_secure() {
        return Err(Refusal::new(ResultCode::OperationsError, "TLS is in use already"));
    }
    if session.outstanding() > 0 {
        return Err(Refusal::new(
            ResultCode::OperationsError,
            "StartTLS must wait until all other requests are answered",
        ));
    }
    // What was asked for without protection is not to be carried out under it.
    session.transactions().clear();
    Ok(Next::StartTls(sink.extended(Some(request.oid), None)))
}

/// Who am I? (RFC 4532).
fn who_am_i(
    _worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    if request.value.is_some() {
        return Err(Refusal::new(ResultCode::ProtocolError, "Who am I? has no value"));
    }
    let name = session.identity().authorization_id();
    Ok(Next::Answered(sink.extended(None, Some(name.as_bytes()))))
}

/// Cancel (RFC 3909): the other request ends as soon as whoever works on it looks. A session
/// reaches its own requests alone; binds and StartTLS are never under way when another request is
/// read.
fn cancel(
    _worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let value = request.value.unwrap_or_default();
    let id = cancel::read(value).map_err(|_| {
        Refusal::new(ResultCode::ProtocolError, "the value of Cancel is not a message id")
    })?;
    if id == call.envelope.id {
        return Err(Refusal::new(ResultCode::CannotCancel, "a Cancel request cannot be canceled"));
    }
    if session.was_canceled_ahead(call.envelope.id) {
        return Ok(Next::Answered(sink.extended(None, None)));
    }
    session.cancel(id).map_err(|code| {
        let why = match code {
            ResultCode::TooLate => "the request has been carried out already",
            _ => "no such request is in progress in this session",
        };
        Refusal::new(code, why)
    })?;
    Ok(Next::Answered(sink.extended(None, None)))
}
