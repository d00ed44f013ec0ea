//! What a search tells of accounts beside their entries: the account usability control (Sun's), and
//! `pwdPolicySubentry` and `pwdExpirationTime` where no entry has them.
//!
//! Invariant: nothing of an account is looked at unless it is asked for.
//! Invariant: whether an account can be used is told to itself, to who has the privilege
//! `password-reset`, and to who may read `pwdAccountLockedTime` of the entry, and to nobody else.
//! Invariant: which policy governs an account is told to itself, to who has the privilege
//! `password-reset`, and to who may see the entry of the policy: others learn neither that there is
//! that policy nor, by it, that the entry has a password.

use std::cell::RefCell;
use std::sync::Arc;

use aci::{Access, Privilege, Rights};
use auth::password;
use ldap::control_value::usability::OID;
use schema::{AttributeDescription, DnKey, EntryRead as _, Selection};
use store::{Resolved, StoredEntry, View};

use crate::access::guard::Guard;
use crate::directory::{Directory, State};
use crate::password_policy::governed::GovernedAccount;
use crate::read::effective_rights::WithLines;
use crate::request::controls::request::RequestControls;
use crate::request::controls::response::ResponseControl;

/// What of accounts a search asks for.
pub(crate) struct AccountsAsked {
    usability: bool,
    policy: Option<Arc<AttributeDescription>>,
    expiration: Option<Arc<AttributeDescription>>,
    locked: Option<Arc<AttributeDescription>>,
    /// The policy that was come upon last, and whether the asker may see its entry.
    seen: RefCell<Option<(String, bool)>>,
}

impl AccountsAsked {
    /// None when it asks for nothing of theirs.
    pub(crate) fn of(
        controls: &RequestControls<'_>,
        selection: &Selection,
        directory: &Directory,
        state: &State,
    ) -> Option<Self> {
        let usability = controls.account_usability;
        let has_policies = GovernedAccount::may_have_policy(&directory.rules);
        let may_select = has_policies && selection.may_select_operational();
        if !usability && !may_select {
            return None;
        }
        let describe = |name: &str| state.schema.describe(name).ok();
        let asked = |name: &str| {
            describe(name).filter(|description| has_policies && selection.selects(description))
        };
        let (policy, expiration) = (asked("pwdPolicySubentry"), asked("pwdExpirationTime"));
        let is_asked = usability || policy.is_some() || expiration.is_some();
        let locked = describe("pwdAccountLockedTime");
        let seen = RefCell::default();
        is_asked.then_some(Self { usability, policy, expiration, locked, seen })
    }

    /// The account behind an entry, one that has a password, as far as the asker may know of it.
    pub(crate) fn account(
        &self,
        directory: &Directory,
        state: &State,
        guard: &Guard<'_>,
        view: &View<'_>,
        stored: &StoredEntry<'_>,
    ) -> Option<(GovernedAccount, DnKey)> {
        let password = &state.schema.well_known().user_password;
        if password::stored_in(stored, password).is_empty() {
            return None;
        }
        let key = DnKey::from_text(&state.schema, stored.dn()).ok()?;
        let mut known = GovernedAccount::of(directory, state, view, stored, &key).ok()?;
        known.account.switches = known.switches(directory, state, view, stored).ok()?;
        let access = guard.access();
        let is_told = access.key() == Some(&key) || access.has(Privilege::PasswordReset);
        known.name = known.name.filter(|name| is_told || self.sees(name, state, guard, view));
        Some((known, key))
    }

    /// Whether the asker may see the entry of a policy.
    fn sees(&self, policy: &str, state: &State, guard: &Guard<'_>, view: &View<'_>) -> bool {
        let mut seen = self.seen.borrow_mut();
        if let Some((last, is_seen)) = &*seen
            && last == policy
        {
            return *is_seen;
        }
        let key = DnKey::from_text(&state.schema, policy).ok();
        let id = key.and_then(|key| match view.resolve(&key) {
            Ok(Resolved::Found(id)) => Some(id),
            Ok(_) | Err(_) => None,
        });
        let entry = id.and_then(|id| view.entry(id).ok().flatten());
        let is_seen = entry.is_some_and(|entry| guard.anywhere(|guard| guard.on(&entry).may_see()));
        *seen = Some((policy.to_owned(), is_seen));
        is_seen
    }

    /// The entry with what is computed about its account.
    pub(crate) fn beside<'e>(
        &self,
        entry: &'e dyn schema::EntryRead,
        known: &GovernedAccount,
    ) -> WithLines<'e, Arc<AttributeDescription>> {
        let mut lines = Vec::new();
        let mut put = |description: &Option<Arc<AttributeDescription>>, value: Option<String>| {
            if let (Some(description), Some(value)) = (description, value) {
                let mut is_there = false;
                entry.visit_values(description, &mut |_, _| {
                    is_there = true;
                    false
                });
                if !is_there {
                    lines.push((Arc::clone(description), value));
                }
            }
        };
        put(&self.policy, known.name.clone());
        let expiry = known.account.state.expiry(&known.policy);
        put(&self.expiration, expiry.map(|expiry| expiry.generalized_time()));
        WithLines::new(entry, lines)
    }

    /// The control that goes with the entry.
    pub(crate) fn control(
        &self,
        known: &GovernedAccount,
        key: &DnKey,
        access: &Access,
        rights: &Rights<'_>,
        directory: &Directory,
    ) -> Option<ResponseControl> {
        if !self.usability {
            return None;
        }
        let may_know = access.key() == Some(key)
            || access.has(Privilege::PasswordReset)
            || self.locked.as_ref().is_some_and(|locked| rights.may_read(locked));
        let usability = may_know.then(|| {
            let now = directory.clock.now();
            known.account.usability(&known.policy, now)
        })?;
        Some(ResponseControl { oid: OID, value: Some(usability.encode()) })
    }
}
