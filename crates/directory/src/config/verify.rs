//! Verify (an extended operation of this server): comparing what all members of the cluster have
//! stored.
//!
//! The value of request and response is JSON; `roster cluster verify` asks: once to begin, and then
//! again and again how far it is. So nothing here waits, and a client that is gone asks no more,
//! which ends the comparison.
//!
//! Invariant: it takes the privilege `config-write`, whenever it is asked for.

use history::log::{EntryDifference, OddMember, Oddity, Verification, VerificationState};
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

use super::asking;
use super::change_members::no_member;
use super::monitor_sources::VerifyAsked;
use crate::bind::recheck;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation that compares the data of the members.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.4";

/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 1 << 10;
/// The most differences in one answer.
const DIFFERENCES_MAX: usize = 100;

/// What is asked; the value of the operation is this as JSON.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "verify", rename_all = "kebab-case", deny_unknown_fields)]
pub enum VerifyRequest {
    /// Begin to compare.
    Start {},
    /// How far it is. Who does not ask for 15 seconds wants it no more.
    Look {
        /// The number of the comparison.
        run: u64,
        /// So many differences were told before.
        told: usize,
    },
    /// End it.
    Stop {
        /// The number of the comparison.
        run: u64,
    },
}

/// What is answered: how far a comparison is, or what it found.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct VerifyAnswer {
    /// The number of the comparison.
    pub run: u64,
    /// `running`, `done` or `stopped`.
    pub state: String,
    /// Why it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// So many entries were compared.
    pub entries: u64,
    /// Of about so many.
    pub of_entries: u64,
    /// So many octets of them were read on each member.
    pub bytes: u64,
    /// The change after which the first slice was compared; 0 before.
    pub first_lsn: u64,
    /// The change after which the last slice was compared; 0 before.
    pub last_lsn: u64,
    /// So many common positions were looked for.
    pub positions: u64,
    /// All members.
    pub members: Vec<VerifyMember>,
    /// How many entries and other rows differ.
    pub differing: u64,
    /// How many of them can be told.
    pub named: usize,
    /// Those behind the ones that were told before, 100 at the most.
    pub differences: Vec<VerifyDifference>,
}

/// A member in a comparison.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct VerifyMember {
    /// Its number.
    pub member: u64,
    /// What it has that is not what a majority has.
    pub differing: u64,
    /// Why it was not compared, or not to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}

/// An entry, or another row, that is not the same on all members.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct VerifyDifference {
    /// The number of the entry; 0 for what is none.
    pub entry: u64,
    /// Its name, or that of the row.
    pub name: String,
    /// Its `entryUUID`.
    pub uuid: String,
    /// Whether a majority has the same: else nobody knows which members are right.
    pub clear: bool,
    /// Those that have something else than most.
    pub members: Vec<VerifyOdd>,
}

/// A member that has something else than most.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct VerifyOdd {
    /// Its number.
    pub member: u64,
    /// `missing`, `surplus`, `unreadable` or `differs`.
    pub how: String,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it has another name, or lies elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name: bool,
    /// Which attributes have other values; never the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
}

impl VerifyRequest {
    fn read(value: Option<&[u8]>) -> Result<Self, Refusal> {
        asking::value(value, VALUE_MAX_BYTES, "does not ask for a comparison")
    }
}

impl VerifyAnswer {
    /// What is told to one who was told so many differences.
    fn of(told: Verification, known: usize) -> Self {
        let (state, why) = match told.state {
            VerificationState::Running => ("running", None),
            VerificationState::Done => ("done", None),
            VerificationState::Stopped(why) => ("stopped", Some(why)),
        };
        let members = told.members.into_iter().map(|one| VerifyMember {
            member: one.member,
            differing: one.differing,
            not_compared: one.not_compared,
        });
        let named = told.differences.len();
        let more = told.differences.into_iter().skip(known).take(DIFFERENCES_MAX);
        Self {
            run: told.run,
            state: state.to_owned(),
            why,
            entries: told.entries,
            of_entries: told.of_entries,
            bytes: told.bytes,
            first_lsn: told.lsns.0.0,
            last_lsn: told.lsns.1.0,
            positions: told.positions,
            members: members.collect(),
            differing: told.differing,
            named,
            differences: more.map(VerifyDifference::of).collect(),
        }
    }
}

impl VerifyDifference {
    fn of(told: EntryDifference) -> Self {
        let EntryDifference { id, name, uuid, odd, is_clear } = told;
        let members = odd.into_iter().map(VerifyOdd::of).collect();
        Self { entry: id, name, uuid, clear: is_clear, members }
    }
}

impl VerifyOdd {
    fn of(OddMember { member, how }: OddMember) -> Self {
        let (how, why, name, attributes) = match how {
            Oddity::Missing => ("missing", None, false, Vec::new()),
            Oddity::Surplus => ("surplus", None, false, Vec::new()),
            Oddity::Unreadable(why) => ("unreadable", Some(why), false, Vec::new()),
            Oddity::Differs { is_name, attributes } => ("differs", None, is_name, attributes),
        };
        Self { member, how: how.to_owned(), why, name, attributes }
    }
}

/// Begins a comparison, tells how far it is, or ends it.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let access = session.access();
    asking::needs_config_write(access, "comparing the data of the members")?;
    let asked = VerifyRequest::read(request.value)?;
    let directory = &worker.directory;
    recheck::check(directory, &directory.state.load(), worker.snapshot.view()?, access)?;
    let teller = directory.monitors.cluster.get().ok_or_else(no_member)?;
    let who = session.who();
    let (what, known) = match asked {
        VerifyRequest::Start {} => {
            tracing::info!(by = %who.dn, authz = %who.authz, connection = who.session,
                "a comparison of the data was asked for");
            (VerifyAsked::Start, 0)
        }
        VerifyRequest::Look { run, told } => (VerifyAsked::Look(run), told),
        VerifyRequest::Stop { run } => (VerifyAsked::Stop(run), 0),
    };
    let told = (teller.verify)(what).map_err(|why| Refusal::new(ResultCode::Busy, why))?;
    let told = told.ok_or_else(|| {
        Refusal::new(ResultCode::NoSuchOperation, "there is no comparison with this number")
    })?;
    let json = serde_json::to_vec(&VerifyAnswer::of(told, known)).unwrap_or_default();
    Ok(Next::Answered(sink.extended(Some(OID), Some(&json))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_and_what_is_not_is_refused() {
        let read = |value: &str| VerifyRequest::read(Some(value.as_bytes())).ok();
        assert_eq!(read(r#"{"verify": "start"}"#), Some(VerifyRequest::Start {}));
        let look = VerifyRequest::Look { run: 7, told: 2 };
        assert_eq!(read(r#"{"verify": "look", "run": 7, "told": 2}"#), Some(look));
        assert_eq!(read(r#"{"verify": "stop", "run": 7}"#), Some(VerifyRequest::Stop { run: 7 }));
        for value in ["", "{}", r#"{"verify": "stop"}"#, r#"{"verify": "start", "run": 7}"#] {
            assert_eq!(read(value), None, "{value}");
        }
        assert_eq!(read(&" ".repeat(VALUE_MAX_BYTES + 1)), None);
        assert!(VerifyRequest::read(None).is_err());
    }
}
