//! Signing in with an account: whether it may be used, what its policy says before and after the
//! password is looked at, and what is noted of it.
//!
//! Invariant: what keeps an account from being used is told in controls and in the log; the answer
//! is that of a wrong password, and takes as long.

use std::sync::{Arc, LazyLock};

use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead as _};
use store::{Lsn, StoreError, StoredEntry, View};

use crate::bind::failure::BindFailure;
use crate::bind::refusals::invalid_credentials;
use crate::bind::remark::BindRemark;
use crate::directory::{Directory, State};
use crate::groups::member_entry::MemberEntry;
use crate::password_policy::attempt::{Attempt, GuessedAccount};
use crate::password_policy::attempts::{Guess, Own};
use crate::password_policy::pending::{Accounts, FoundAccount, NotNow};
use crate::password_policy::switches::Off;
use crate::password_policy::{
    AccountState, Governing, PasswordPolicy, PolicyError, Rejected, netscape,
};
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;
use crate::virtual_attributes::switched_off;

/// An account whose password is to be looked at.
#[derive(Debug)]
pub(crate) struct Login {
    id: EntryId,
    lsn: Lsn,
    /// Why it is off, whatever its password.
    barred: Option<BindFailure>,
    governing: Option<Arc<Governing>>,
    /// The state in its entry; the default where nothing asks for it.
    stored: AccountState,
}

/// How often an account is read that changes each time before it is decided on; then the bind is
/// refused.
const LOOKS_MAX: u32 = 100;

/// What is asked where there is no policy.
static NONE: LazyLock<PasswordPolicy> = LazyLock::new(PasswordPolicy::default);

impl Login {
    /// Reads what decides about the account of `entry`.
    ///
    /// # Errors
    /// When the groups cannot be read by which policies govern it: nobody signs in then.
    pub(crate) fn read(
        directory: &Directory,
        state: &State,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
        key: &DnKey,
    ) -> Result<Self, StoreError> {
        let policies = directory.rules.password_policies.load();
        let account = MemberEntry::new(view, &state.schema, entry).keyed(key);
        let governing = policies.of(&account)?;
        let barred = bar(directory, state, view, entry, &account)?;
        let is_asked = governing.is_some() || directory.accounts.keeps_last_login();
        let stored = match is_asked {
            true => AccountState::read(entry, &state.schema),
            false => AccountState::default(),
        };
        Ok(Self { id: entry.id(), lsn: view.lsn(), barred, governing, stored })
    }

    /// Reads the account of an entry as it is now. It may have gone meanwhile.
    pub(crate) fn again(worker: &mut Worker, id: EntryId) -> Result<Self, Refusal> {
        let directory = &worker.directory;
        let state = directory.state.load();
        let view = worker.snapshot.view()?;
        let entry = view.entry(id)?.ok_or_else(invalid_credentials)?;
        let key = DnKey::from_text(&state.schema, entry.dn())
            .map_err(|error| Refusal::new(ResultCode::Other, error.to_string()))?;
        Ok(Self::read(directory, &state, view, &entry, &key)?)
    }

    /// Whose it is.
    pub(crate) fn id(&self) -> EntryId {
        self.id
    }

    fn seen(&self) -> FoundAccount<'_> {
        let policy = self.governing.as_ref().map_or(&*NONE, |one| &one.policy);
        FoundAccount { id: self.id, policy, stored: &self.stored, lsn: self.lsn }
    }

    fn is_noted(&self, accounts: &Accounts) -> bool {
        self.governing.is_some() || accounts.keeps_last_login()
    }

    /// Whether the password counts. It is looked at even when it does not, so that nobody can tell
    /// by the time it takes.
    pub(crate) fn may_try(&self, directory: &Directory, own: Own<'_>) -> Result<(), Refusal> {
        if let Some(why) = self.barred {
            return Err(barred(why));
        }
        if !self.is_noted(&directory.accounts) {
            return Ok(());
        }
        match directory.accounts.may_try(&self.seen(), own, directory.clock.now()) {
            // It is asked again when the password was looked at.
            Ok(()) | Err(NotNow::Stale) => Ok(()),
            Err(not_now) => Err(refusal(not_now)),
        }
    }

    /// The client will know that the password is not one that is answered at once: a guess, which
    /// counts from now on. None where nothing counts it, or where the account cannot be used now.
    pub(crate) fn begin(self, directory: &Arc<Directory>, guess: Guess) -> Option<Attempt> {
        let Self { id, lsn, barred, ref governing, ref stored } = self;
        let governing = Arc::clone(governing.as_ref().filter(|_| barred.is_none())?);
        directory.accounts.begin(&self.seen(), &guess, directory.clock.now()).then(|| {
            let account = GuessedAccount { id, lsn, governing, stored: stored.clone() };
            Attempt::new(&directory.accounts, &directory.clock, account, guess)
        })
    }

    /// The password was looked at: a note of it, and whether the account may be used.
    ///
    /// Refuses a right password when the policy does, and every wrong one.
    pub(crate) fn settle(
        mut self,
        worker: &mut Worker,
        own: Own<'_>,
        is_right: bool,
    ) -> Result<(), Refusal> {
        let directory = Arc::clone(&worker.directory);
        let mut looks = 0;
        loop {
            if let Some(why) = self.barred {
                return Err(barred(why));
            }
            if !self.is_noted(&directory.accounts) {
                break;
            }
            looks += 1;
            let now = directory.clock.now();
            match directory.accounts.settle(&self.seen(), own, is_right, now) {
                Ok(remark) => {
                    worker.request.remark = BindRemark::of(remark, self.id);
                    break;
                }
                Err(NotNow::Stale) if looks < LOOKS_MAX => self = Self::again(worker, self.id)?,
                Err(not_now) => return Err(refusal(not_now)),
            }
        }
        match is_right {
            true => Ok(()),
            false => Err(invalid_credentials().failed_for(BindFailure::WrongPassword)),
        }
    }
}

/// Refuses an account that is off. For proofs that are no passwords, of which the policy has
/// nothing to say.
pub(crate) fn check_usable(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    entry: &StoredEntry<'_>,
) -> Result<(), Refusal> {
    let account = MemberEntry::new(view, &state.schema, entry);
    bar(directory, state, view, entry, &account)?.map_or(Ok(()), |why| Err(barred(why)))
}

/// Whether an account is on: not disabled, expired, or locked by somebody.
pub(crate) fn is_usable(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    entry: &StoredEntry<'_>,
) -> Result<bool, StoreError> {
    let account = MemberEntry::new(view, &state.schema, entry);
    Ok(bar(directory, state, view, entry, &account)?.is_none())
}

/// What keeps an account from being used by whatever proof.
fn bar(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    entry: &StoredEntry<'_>,
    account: &MemberEntry<'_>,
) -> Result<Option<BindFailure>, StoreError> {
    let now = directory.clock.now();
    let (rules, schema) = (&directory.rules, &state.schema);
    let switches = switched_off::switches(rules, view, schema, &state.switches, entry)?;
    Ok(match switches.check(now) {
        Err(Off::Disabled) => Some(BindFailure::AccountDisabled),
        Err(Off::Expired) => Some(BindFailure::AccountExpired),
        Ok(()) => {
            let is_locked = rules.password_policies.load().is_locked(account, now)?;
            is_locked.then_some(BindFailure::AccountLocked)
        }
    })
}

fn barred(why: BindFailure) -> Refusal {
    invalid_credentials().because(PolicyError::AccountLocked).failed_for(why)
}

fn refusal(not_now: NotNow) -> Refusal {
    match not_now {
        NotNow::Rejected(rejected) => {
            let refusal = invalid_credentials().because(rejected.error());
            match rejected {
                Rejected::Locked => refusal.failed_for(BindFailure::AccountLocked),
                Rejected::Delayed(_) => refusal.failed_for(BindFailure::TooSoon),
                Rejected::Expired => refusal.failed_for(BindFailure::PasswordExpired),
                // Of changes of passwords, not of binds.
                Rejected::ChangeNotAllowed | Rejected::OldPasswordMissing | Rejected::TooYoung => {
                    refusal
                }
            }
        }
        NotNow::Busy | NotNow::Stale => Refusal::new(
            ResultCode::Busy,
            "too many binds wait for their account state to be recorded; try again",
        ),
    }
}

/// What a refused bind is told unasked.
pub(crate) fn unasked(refusal: &Refusal) -> Option<(&'static str, Vec<u8>)> {
    match refusal.policy {
        Some(PolicyError::PasswordExpired) => netscape::control(Err(Rejected::Expired)),
        Some(_) | None => None,
    }
}
