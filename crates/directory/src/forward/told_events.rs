//! What binds at another node left, as that node tells it the one that decides.
//!
//! Invariant: it counts for binds here before anything of it is written; what locks an account is
//! written at once.

use std::sync::Arc;

use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use crate::groups::member_entry::MemberEntry;
use crate::password_policy::account_event::AccountEvents;
use crate::password_policy::pending::FoundAccount;
use crate::password_policy::told::{NotWritten, Telling};
use crate::password_policy::{AccountState, PasswordPolicy};
use crate::request::outbox::{ForwardedReply, refused};
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;

impl Worker {
    /// Takes note of what another node tells of accounts; `reply` is told when all of it is
    /// written, or why it is not.
    pub(super) fn note_told(&mut self, accounts: &[AccountEvents], reply: ForwardedReply) {
        let directory = Arc::clone(&self.directory);
        if !directory.accounts.admit_told(accounts.len()) {
            let why = "too many accounts wait for their state to be recorded; tell it later";
            let which = (MessageId(0), Some(OperationKind::Modify));
            return reply(Ok(refused(which, Refusal::new(ResultCode::Busy, why))));
        }
        let telling = Telling::new(accounts.len(), reply);
        for told in accounts {
            if let Err(refusal) = self.note_told_of_one(told, &telling) {
                directory.accounts.release_told(1);
                telling.fail(&NotWritten::Refused(refusal));
            }
        }
    }

    fn note_told_of_one(
        &mut self,
        told: &AccountEvents,
        telling: &Arc<Telling>,
    ) -> Result<(), Refusal> {
        let directory = &self.directory;
        let state = directory.state.load();
        let view = self.snapshot.view()?;
        let Some(entry) = view.entry(told.id)? else {
            directory.accounts.release_told(1);
            telling.is_done_with_one();
            return Ok(());
        };
        let policies = directory.rules.password_policies.load();
        let governing = policies.of(&MemberEntry::new(view, &state.schema, &entry))?;
        let none = PasswordPolicy::default();
        let policy = governing.as_ref().map_or(&none, |one| &one.policy);
        let stored = AccountState::read(&entry, &state.schema);
        let account = FoundAccount { id: told.id, policy, stored: &stored, lsn: view.lsn() };
        directory.accounts.tell(&account, told, telling, directory.clock.now());
        Ok(())
    }
}
