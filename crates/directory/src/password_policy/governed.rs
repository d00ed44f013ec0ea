//! An account together with the policy that governs it.

use schema::DnKey;
use store::{StoreError, StoredEntry, View};

use super::rules::PasswordPolicy;
use super::standing::Account;
use super::switches::Switches;
use crate::directory::{Directory, State};
use crate::groups::member_entry::MemberEntry;
use crate::rules::RulesInForce;
use crate::virtual_attributes::switched_off;

/// An account, and the policy that governs it.
pub(crate) struct GovernedAccount {
    /// The name of the policy's entry; none where none governs.
    pub(crate) name: Option<String>,
    /// The policy; no rules where none governs.
    pub(crate) policy: PasswordPolicy,
    /// The account.
    pub(crate) account: Account,
}

impl GovernedAccount {
    /// Of a stored entry, with what binds left and is not in the entry yet.
    pub(crate) fn of(
        directory: &Directory,
        state: &State,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
        key: &DnKey,
    ) -> Result<Self, StoreError> {
        let account = MemberEntry::new(view, &state.schema, entry).keyed(key);
        let governing = directory.rules.password_policies.load().of(&account)?;
        let (name, policy) = match governing {
            Some(governing) => (Some(governing.name.to_string()), governing.policy.clone()),
            None => (None, PasswordPolicy::default()),
        };
        let account_state = directory.accounts.state(view, entry, &policy, &*directory.clock);
        let account = Account::new(account_state, entry, &state.schema, &state.switches);
        Ok(Self { name, policy, account })
    }

    /// What switches the account off, by what its entry stores and by what it is given. What is
    /// written goes by what is stored alone.
    pub(crate) fn switches(
        &self,
        directory: &Directory,
        state: &State,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
    ) -> Result<Switches, StoreError> {
        let (rules, types) = (&directory.rules, &state.switches);
        switched_off::switches(rules, view, &state.schema, types, entry)
    }

    /// Whether any account of the directory may be governed by a policy.
    pub(crate) fn may_have_policy(rules: &RulesInForce) -> bool {
        !rules.password_policies.load().is_empty()
    }
}
