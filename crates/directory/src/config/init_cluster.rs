//! Init cluster (an extended operation of this server): a server that is alone becomes the first
//! member of a cluster.
//!
//! The value of the request is JSON; `roster cluster init -H` asks. The server answers, and begins
//! once more as that member.
//!
//! Invariant: it takes the privilege `config-write`.

use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;

use super::asking::{self, malformed};
use super::join;
use super::monitor_sources::FirstMember;
use crate::bind::recheck;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation that makes a server the first member of a cluster.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.5";

/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 1 << 10;
/// The highest number that a first member can have; those that join get higher ones.
const MEMBER_MAX: u64 = 65_535;

impl FirstMember {
    fn read(value: Option<&[u8]>) -> Result<Self, Refusal> {
        let asked: Self = asking::value(value, VALUE_MAX_BYTES, "is not a member")?;
        if !(1..=MEMBER_MAX).contains(&asked.member) {
            return Err(malformed(format!("the number of a member is from 1 to {MEMBER_MAX}")));
        }
        if asked.url.is_empty() {
            return Err(malformed("the URL for clients is missing".to_owned()));
        }
        join::check_places(&asked.address, &asked.url).map_err(malformed)?;
        Ok(asked)
    }
}

/// Has the server begin once more as a member.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let access = session.access();
    asking::needs_config_write(access, "making a server the member of a cluster")?;
    let asked = FirstMember::read(request.value)?;
    let directory = &worker.directory;
    recheck::check(directory, &directory.state.load(), worker.snapshot.view()?, access)?;
    let refused = |why: String| Refusal::new(ResultCode::UnwillingToPerform, why);
    if directory.monitors.cluster.get().is_some() {
        return Err(refused("this server is a member of a cluster already".to_owned()));
    }
    let begin = directory.monitors.cluster_init.get().ok_or_else(|| {
        refused("this server cannot begin once more by itself: stop it for that".to_owned())
    })?;
    let who = session.who();
    let begun = begin(&asked);
    tracing::info!(by = %who.dn, authz = %who.authz, connection = who.session, ?asked,
        refused = begun.as_ref().err().map(tracing::field::display),
        "this server was asked to become the first member of a cluster");
    begun.map_err(refused)?;
    Ok(Next::Answered(sink.extended(Some(OID), None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_read_and_what_is_none_is_refused() {
        let read = |value: &str| FirstMember::read(Some(value.as_bytes()));
        let good = r#"{"member": 1, "address": "192.0.2.1:7636", "url": "ldap://192.0.2.1"}"#;
        assert_eq!(read(good).unwrap().member, 1);
        for (value, says) in [
            ("", "not a member"),
            ("[]", "not a member"),
            (&good.replace("\"url\"", "\"uri\""), "not a member"),
            (&good.replace(": 1,", ": 0,"), "from 1 to 65535"),
            (&good.replace(": 1,", ": 65536,"), "from 1 to 65535"),
            (&good.replace(":7636", ""), "not HOST:PORT"),
            (&good.replace("192.0.2.1:7636", "a\\\"b:7636"), "not HOST:PORT"),
            (&good.replace("ldap://", "http://"), "not one of LDAP"),
            (&good.replace("ldap://192.0.2.1", ""), "URL for clients is missing"),
            (&good.replace("\"ldap", &format!("\"{}", " ".repeat(VALUE_MAX_BYTES))), "longer"),
        ] {
            let refusal = read(value).unwrap_err();
            assert_eq!(refusal.code, ResultCode::ProtocolError);
            assert!(refusal.diagnostic.contains(says), "{value}: {}", refusal.diagnostic);
        }
    }
}
