//! What the password policy remarks of an account whose owner signs in: it goes into the controls
//! of the response.

use ldap::message::{Control, ControlsBuf};
use schema::EntryId;

use crate::password_policy::{self, PolicyError, Remark, netscape, response_value};

/// What a bind that succeeds is told, and about whom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BindRemark {
    remark: Remark,
    account: Option<EntryId>,
}

impl BindRemark {
    /// What is remarked of an account.
    pub(super) fn of(remark: Remark, account: EntryId) -> Self {
        Self { remark, account: Some(account) }
    }

    /// The account that may do nothing before its password is changed.
    pub(crate) fn must_change(&self) -> Option<EntryId> {
        self.account.filter(|_| self.remark.must_change)
    }

    /// Adds what is remarked to the controls of the answer of a bind.
    pub(crate) fn add_to(&self, controls: &mut ControlsBuf, is_asked: bool) {
        let error = self.remark.must_change.then_some(PolicyError::ChangeAfterReset);
        if is_asked {
            let value = response_value(self.remark.warning, error);
            let oid = password_policy::REQUEST;
            controls.push(Control { oid, critical: false, value: Some(&value) });
        }
        if let Some((oid, value)) = netscape::control(Ok(self.remark)) {
            controls.push(Control { oid, critical: false, value: Some(&value) });
        }
    }
}
