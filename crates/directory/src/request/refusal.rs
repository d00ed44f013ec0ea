//! The protocol's answer "no", and the one place where a failure becomes a result code.

use std::borrow::Cow;

use aci::Denied;
use auth::Malformed;
use history::log::CommitError;
use history::record::RecordError;
use ldap::dn::DnError;
use ldap::message::{LdapResult, StringsBuf};
use ldap::result::ResultCode;
use schema::{EntryError, Violation};
use store::StoreError;

use crate::bind::failure::BindFailure;
use crate::password_policy::PolicyError;

/// Why a request was not carried out: a value, not a failure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    /// What the client is told.
    pub(crate) code: ResultCode,
    /// The nearest superior that exists, for the codes of RFC 4511 §4.1.9; else empty.
    pub(crate) matched: String,
    /// What the client did wrong and what to do; lower case, no full stop.
    pub(crate) diagnostic: Cow<'static, str>,
    /// URLs where to go on; only with `referral` (RFC 4511 §4.1.10).
    pub(crate) referrals: Vec<String>,
    /// What the password policy control says of it, to who asked for that.
    pub(crate) policy: Option<PolicyError>,
    /// Of a bind, what it failed for: nobody but the access log is told.
    pub(crate) failure: Option<BindFailure>,
}

impl Refusal {
    /// A refusal with a diagnostic.
    pub(crate) fn new(code: ResultCode, diagnostic: impl Into<Cow<'static, str>>) -> Self {
        let (matched, referrals) = (String::new(), Vec::new());
        let (diagnostic, policy, failure) = (diagnostic.into(), None, None);
        Self { code, matched, diagnostic, referrals, policy, failure }
    }

    /// That of what comes when the directory is being shut down.
    pub(crate) fn shutting_down() -> Self {
        Self::new(ResultCode::Unavailable, "the server is shutting down")
    }

    /// That of a change which was made, where a success would have to say what is not known any
    /// more.
    pub(crate) fn value_lost() -> Self {
        Self::new(
            ResultCode::Other,
            "the change was made, and what was to be answered is lost; ask for it again",
        )
    }

    /// It is refused by a password policy.
    pub(crate) fn because(self, error: PolicyError) -> Self {
        Self { policy: Some(error), ..self }
    }

    /// It refuses a bind that failed for this.
    pub(crate) fn failed_for(self, failure: BindFailure) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// `noSuchObject`, naming the nearest superior the asker may see.
    pub(crate) fn no_such_object(
        matched: String,
        diagnostic: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { matched, ..Self::new(ResultCode::NoSuchObject, diagnostic) }
    }

    /// The wire form of this refusal; `urls` is filled with the referrals and must outlive it.
    pub(crate) fn to_result<'a>(&'a self, urls: &'a mut StringsBuf) -> LdapResult<'a> {
        for url in &self.referrals {
            urls.push(url);
        }
        LdapResult {
            code: self.code,
            matched_dn: &self.matched,
            diagnostic: &self.diagnostic,
            referrals: urls.as_ref(),
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(Malformed(what): Malformed) -> Self {
        Self::new(ResultCode::ProtocolError, what)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full | StoreError::NoRoom { .. } => {
                Self::new(ResultCode::UnwillingToPerform, DISK_FULL)
            }
            // What the client sends decides on these, and they name nothing of anybody else's.
            StoreError::TooLarge { .. } | StoreError::TooMany { .. } => {
                Self::new(ResultCode::UnwillingToPerform, error.to_string())
            }
            StoreError::TooManyValues { .. } => {
                Self::new(ResultCode::AdminLimitExceeded, error.to_string())
            }
            StoreError::Interrupted => {
                Self::new(ResultCode::TimeLimitExceeded, "the operation exceeded its time limit")
            }
            StoreError::NotADirectory { .. }
            | StoreError::NotADataDirectory { .. }
            | StoreError::NotEmpty { .. }
            | StoreError::NewerFormat { .. }
            | StoreError::OlderFormat { .. }
            | StoreError::InUse { .. }
            | StoreError::DataFile { .. }
            | StoreError::Io { .. }
            | StoreError::Log(_)
            | StoreError::Lmdb(_)
            | StoreError::Corrupt(_)
            | StoreError::ContextsOverlap { .. }
            | StoreError::Diverged { .. }
            | StoreError::Invalid { .. } => {
                // The cause is the operator's business, not the client's.
                tracing::error!(%error, "the store failed");
                Self::new(ResultCode::Other, "the store of the server failed; its log says why")
            }
        }
    }
}

/// What those are told of whom nothing happened; the others have an answer of their own, see
/// [`CommitError::is_unknown`].
impl From<&CommitError> for Refusal {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::NotDeciding { leader: Some(leader) } => Self {
                referrals: vec![leader.clone()],
                ..Self::new(ResultCode::Referral, "another server takes the writes")
            },
            CommitError::NotDeciding { leader: None } | CommitError::NoQuorum => Self::new(
                ResultCode::Unavailable,
                "no server takes writes at the moment; try again",
            ),
            CommitError::Stale { .. } | CommitError::Busy => Self::new(
                ResultCode::Busy,
                "the server could not write the change; nothing was changed; try again",
            ),
            CommitError::NoSpace => Self::new(ResultCode::UnwillingToPerform, DISK_FULL),
            CommitError::TooLarge { .. } => {
                Self::new(ResultCode::UnwillingToPerform, error.to_string())
            }
            CommitError::Unknown { .. } | CommitError::Fatal(_) => Self::new(
                ResultCode::Unavailable,
                "this server takes no changes any more: its log has failed, or it was removed from \
                 its cluster; its operator finds the reason in what it logs, mends it, and \
                 restarts it",
            ),
        }
    }
}

impl From<&RecordError> for Refusal {
    fn from(error: &RecordError) -> Self {
        Self::new(ResultCode::UnwillingToPerform, format!("the change cannot be logged: {error}"))
    }
}

impl From<Violation> for Refusal {
    fn from(violation: Violation) -> Self {
        Self::new(violation.code, violation.diagnostic)
    }
}

impl From<EntryError> for Refusal {
    fn from(error: EntryError) -> Self {
        Violation::from(error).into()
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::new(ResultCode::InsufficientAccessRights, denied.to_string())
    }
}

impl From<DnError> for Refusal {
    fn from(error: DnError) -> Self {
        Self::new(ResultCode::InvalidDnSyntax, format!("invalid DN: {error}"))
    }
}

/// What is told when there is no room.
const DISK_FULL: &str =
    "the disk of the server is full: nothing can be written until there is room";
