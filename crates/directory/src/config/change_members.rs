//! Change members (an extended operation of this server): who takes part in the cluster.
//!
//! The value of request and response is JSON; `roster cluster promote` and the like ask. Whoever
//! leads carries it out; a pool thread waits for that.
//!
//! Invariant: it takes the privilege `config-write`, when it is asked for and when it is begun.
//! Invariant: one change at a time is waited for here, and no longer than [`WAIT_MAX`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use history::log::{MemberChange, MembersChanged, MembersError};
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

use super::asking::{self, malformed};
use super::join;
use super::promotion;
use crate::bind::recheck;
use crate::directory::Directory;
use crate::request::completion::Completion;
use crate::request::extended::call::Call;
use crate::request::job::Job;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// The OID of the extended operation that changes the members of a cluster.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.3.2";

/// How long a change is waited for; what has begun may go on.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
/// What is waited beyond that for the answer itself.
pub(super) const WAIT_MORE: Duration = Duration::from_secs(2);
/// The longest value of the request, in bytes.
const VALUE_MAX_BYTES: usize = 16 << 10;
/// The most members that one change names.
const MEMBERS_MAX: usize = 255;

/// What the extended operation that changes the members of a cluster asks for; its value is this as
/// JSON.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MembersRequest {
    /// Learners become voters, all at once.
    Promote {
        /// Their numbers; 1 to 255.
        members: BTreeSet<u64>,
    },
    /// Voters become learners, all at once.
    Demote {
        /// Their numbers; 1 to 255.
        members: BTreeSet<u64>,
    },
    /// Members leave for ever.
    Remove {
        /// Their numbers; 1 to 255.
        members: BTreeSet<u64>,
    },
    /// A learner takes the place of a voter, which leaves for ever.
    Replace {
        /// The number of the voter.
        member: u64,
        /// The number of the learner.
        by: u64,
    },
    /// A member is found elsewhere from now on.
    Rename {
        /// Its number.
        member: u64,
        /// Where the members reach it, `HOST:PORT`; empty or missing: where it was.
        #[serde(default)]
        address: String,
        /// Where clients reach it, an LDAP URL; empty or missing: where it was.
        #[serde(default)]
        url: String,
    },
    /// Another voter leads.
    Transfer {
        /// Its number.
        to: u64,
    },
}

/// What is answered.
#[derive(Serialize)]
struct Answer {
    /// `done`, or `already` where nothing was to be done.
    outcome: &'static str,
}

impl MembersRequest {
    /// Reads the value of a request.
    fn read(value: Option<&[u8]>) -> Result<MemberChange, Refusal> {
        let asked: Self = asking::value(value, VALUE_MAX_BYTES, "is not a change")?;
        let change = match asked {
            Self::Promote { members: ids } => MemberChange::Promote { ids },
            Self::Demote { members: ids } => MemberChange::Demote { ids },
            Self::Remove { members: ids } => MemberChange::Remove { ids },
            Self::Replace { member, by } => MemberChange::Replace { old: member, new: by },
            Self::Rename { member, address, url } => {
                let address_to_check = if address.is_empty() { "a:1" } else { &address };
                join::check_places(address_to_check, &url).map_err(malformed)?;
                MemberChange::Rename { id: member, address, url }
            }
            Self::Transfer { to } => MemberChange::Transfer { id: to },
        };
        match &change {
            MemberChange::Promote { ids }
            | MemberChange::Demote { ids }
            | MemberChange::Remove { ids }
                if ids.len() > MEMBERS_MAX =>
            {
                Err(malformed(format!("more than {MEMBERS_MAX} members are named")))
            }
            _ => Ok(change),
        }
    }
}

/// Checks it, and gives it to a pool thread.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    _sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let access = session.access();
    asking::needs_config_write(access, "changing the members")?;
    let change = MembersRequest::read(request.value)?;
    let directory = &worker.directory;
    recheck::check(directory, &directory.state.load(), worker.snapshot.view()?, access)?;
    if directory.monitors.cluster.get().is_none() {
        return Err(no_member());
    }
    let who = session.who();
    tracing::info!(by = %who.dn, authz = %who.authz, connection = who.session, ?change,
        "a change of the members was asked for");
    let denied = call.controls.denied.clone();
    Ok(Next::Later(Job::whole(session, call.envelope, denied, &worker.directory.clock)))
}

/// Waits on a pool thread until the change is in force.
pub(crate) fn run_job(
    worker: &mut Worker,
    job: &Job,
    request: &ExtendedRequest<'_>,
    sink: &mut ResponseSink<'_>,
) -> Completion {
    let outcome = changed(worker, job, request);
    match outcome {
        Ok(changed) => {
            let outcome = match changed {
                MembersChanged::AlreadySo => "already",
                MembersChanged::Done | MembersChanged::Joined(_) => "done",
            };
            let json = serde_json::to_vec(&Answer { outcome }).unwrap_or_default();
            sink.extended(Some(OID), Some(&json))
        }
        Err(refusal) => sink.end(refusal, ldap::message::Controls::EMPTY),
    }
}

fn changed(
    worker: &mut Worker,
    job: &Job,
    request: &ExtendedRequest<'_>,
) -> Result<MembersChanged, Refusal> {
    let directory = Arc::clone(&worker.directory);
    // It has waited for its turn.
    recheck::check(&directory, &directory.state.load(), worker.snapshot.view()?, &job.access)?;
    let change = MembersRequest::read(request.value)?;
    // What is read here is of the time before the change.
    worker.snapshot.release();
    let keys = keys_of_leaving(&directory, &change);
    let changed = carry_out(&directory, change)?;
    // Else their tokens would undo it.
    if let Err(refusal) = promotion::forget_keys(worker, &keys) {
        tracing::warn!(reason = %refusal.diagnostic, "tokens of members are left over");
    }
    Ok(changed)
}

/// The keys with which those have joined that a change makes learners, or has leave.
pub(super) fn keys_of_leaving(directory: &Directory, change: &MemberChange) -> BTreeSet<String> {
    let old;
    let ids = match change {
        MemberChange::Demote { ids } | MemberChange::Remove { ids } => ids,
        MemberChange::Replace { old: id, .. } => {
            old = BTreeSet::from([*id]);
            &old
        }
        MemberChange::Join { .. }
        | MemberChange::Promote { .. }
        | MemberChange::Rename { .. }
        | MemberChange::Transfer { .. } => {
            return BTreeSet::new();
        }
    };
    let Some(teller) = directory.monitors.cluster.get() else { return BTreeSet::new() };
    let members = (teller.members)();
    let leaving = members.into_iter().filter(|one| ids.contains(&one.member));
    leaving.map(|one| one.key).filter(|key| !key.is_empty()).collect()
}

/// Has whoever leads change the members, and waits for it.
pub(super) fn carry_out(
    directory: &Directory,
    change: MemberChange,
) -> Result<MembersChanged, Refusal> {
    let _changing = begin(directory)?;
    ask(directory, change)
}

/// Begins to wait for a change: one at a time, so that no more than one thread of the pool waits.
pub(super) fn begin(directory: &Directory) -> Result<Changing<'_>, Refusal> {
    let is_changing = &directory.monitors.is_changing;
    if is_changing.swap(true, Ordering::AcqRel) {
        let why = "another change of the members is under way";
        return Err(Refusal::new(ResultCode::Busy, why));
    }
    Ok(Changing(is_changing))
}

/// As [`carry_out`], where the change was begun.
pub(super) fn ask(directory: &Directory, change: MemberChange) -> Result<MembersChanged, Refusal> {
    let teller = directory.monitors.cluster.get().ok_or_else(no_member)?;
    let (told, heard) = sync_channel(1);
    // Who asked may not wait any more.
    (teller.change)(change, Box::new(move |outcome| drop(told.try_send(outcome))));
    let outcome = heard.recv_timeout(WAIT_MAX + WAIT_MORE);
    let outcome =
        outcome.unwrap_or_else(|_| Err(MembersError::Unknown("no answer came in time".to_owned())));
    outcome.map_err(|error| {
        let code = match &error {
            MembersError::Unsupported | MembersError::Refused(_) => ResultCode::UnwillingToPerform,
            MembersError::NotDeciding => ResultCode::Unavailable,
            MembersError::Unknown(_) => ResultCode::Other,
        };
        let why = match error {
            MembersError::NotDeciding => "no member leads: the members were not changed".to_owned(),
            error => error.to_string(),
        };
        Refusal::new(code, why)
    })
}

/// A change is waited for until this is dropped.
pub(super) struct Changing<'a>(&'a AtomicBool);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

pub(super) fn no_member() -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, "this server is not a member of a cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(value: &str, says: &str) {
        let refusal = MembersRequest::read(Some(value.as_bytes())).unwrap_err();
        assert_eq!(refusal.code, ResultCode::ProtocolError);
        assert!(refusal.diagnostic.contains(says), "{}", refusal.diagnostic);
    }

    #[test]
    fn a_change_is_read_and_what_is_none_is_refused() {
        let read = |value: &str| MembersRequest::read(Some(value.as_bytes())).ok();
        let ids = BTreeSet::from([4, 65_600]);
        assert_eq!(
            read(r#"{"change": "promote", "members": [65600, 4]}"#),
            Some(MemberChange::Promote { ids })
        );
        assert_eq!(
            read(r#"{"change": "replace", "member": 3, "by": 65600}"#),
            Some(MemberChange::Replace { old: 3, new: 65_600 })
        );
        assert_eq!(
            read(r#"{"change": "transfer", "to": 2}"#),
            Some(MemberChange::Transfer { id: 2 })
        );
        assert_eq!(
            read(r#"{"change": "rename", "member": 3, "address": "192.0.2.9:7636"}"#),
            Some(MemberChange::Rename {
                id: 3,
                address: "192.0.2.9:7636".to_owned(),
                url: String::new()
            })
        );
        check_refused(
            r#"{"change": "rename", "member": 3, "address": "192.0.2.9"}"#,
            "is not HOST:PORT",
        );
        check_refused("", "the value is not a change");
        check_refused(r#"{"change": "join"}"#, "the value is not a change");
        check_refused(r#"{"change": "demote", "members": [-1]}"#, "the value is not a change");
        check_refused(r#"{"change": "transfer", "to": 2, "more": 1}"#, "the value is not");
        let many: Vec<String> = (0..256).map(|id: u32| id.to_string()).collect();
        let many = format!(r#"{{"change": "remove", "members": [{}]}}"#, many.join(","));
        check_refused(&many, "more than 255 members");
        check_refused(&" ".repeat(VALUE_MAX_BYTES + 1), "longer than 16384 bytes");
    }
}
