//! What the policy says of the new passwords of a request, found out where it is resolved and read
//! by the writer.

use std::sync::Arc;

use aci::{Access, Privilege};
use auth::password::Scheme;
use ldap::result::ResultCode;
use schema::DnKey;

use super::account::AccountState;
use super::control::PolicyError;
use super::rules::PasswordPolicy;
use super::set::Governing;
use crate::request::refusal::Refusal;

/// Who asks for a change of a password.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Requester {
    /// The root identity, for whom there are no rules.
    Root,
    /// Who may set the passwords of others.
    Administrator,
    /// Whose password it is.
    Owner,
    /// Somebody else, who will be refused.
    Stranger,
}

impl Requester {
    pub(super) fn of(access: &Access, key: &DnKey) -> Self {
        if access.is_root() {
            Self::Root
        } else if access.key() == Some(key) {
            // Who acts as somebody else has no say in the password of that one.
            if access.prover().is_none() { Self::Owner } else { Self::Stranger }
        } else if access.has(Privilege::PasswordReset) {
            Self::Administrator
        } else {
            Self::Stranger
        }
    }

    /// Whether quality and history matter.
    pub(super) fn is_checked(self, policy: &PasswordPolicy) -> bool {
        match self {
            Self::Root => false,
            Self::Administrator => !policy.skips_administrators,
            Self::Owner | Self::Stranger => true,
        }
    }

    /// Whether the asker has to put another password in the place of one that somebody else set.
    pub(super) fn has_to_change(self, policy: &PasswordPolicy, state: &AccountState) -> bool {
        self == Self::Owner && policy.forces_change() && state.is_reset
    }
}

/// What was found out about the passwords of a request.
pub(crate) struct Verdict {
    pub(super) requester: Requester,
    pub(super) is_added: bool,
    pub(super) sends_old: bool,
    pub(super) keeps_hashed: bool,
    /// There are new ones in clear text.
    pub(super) has_clear: bool,
    pub(super) governing: Option<Arc<Governing>>,
    /// Stored forms that the new ones were compared with.
    pub(super) compared: Vec<Vec<u8>>,
    /// One of the new ones is behind one of those.
    pub(super) was_used: bool,
}

impl Verdict {
    /// How new passwords of the entry are stored, if not as the settings have it.
    pub(crate) fn scheme(&self) -> Option<Scheme> {
        self.governing.as_ref()?.policy.scheme
    }

    /// What is to be told of the new passwords when nothing else stands against the change.
    pub(crate) fn late(&self) -> Option<Refusal> {
        self.was_used.then(|| {
            let why = "the password was used before";
            Refusal::new(ResultCode::ConstraintViolation, why)
                .because(PolicyError::PasswordInHistory)
        })
    }

    /// The policy whose quality a password that the server makes up has to have.
    pub(crate) fn policy(&self) -> Option<&PasswordPolicy> {
        self.governing.as_ref().map(|governing| &governing.policy)
    }
}

/// How the new passwords of a request are stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storing {
    /// Hashed values stay.
    pub(crate) keeps_hashed: bool,
    /// In which scheme, if not in that of the settings.
    pub(crate) scheme: Option<Scheme>,
}
