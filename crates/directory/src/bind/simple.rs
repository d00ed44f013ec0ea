//! Simple bind: anonymous, or by name and password (RFC 4513 §5.1).

use aci::{Access, Identity, Privileges};
use auth::password::{self, HashCostMax};
use ldap::result::ResultCode;
use schema::DnKey;

use super::login::Login;
use crate::bind::failure::BindFailure;
use crate::bind::hashing::{Behind, Questions};
use crate::bind::password_cache::{Account, Remembered};
use crate::bind::refusals::invalid_credentials;
use crate::bind::user_name::{Found, UserName};
use crate::bind::{identity_mapper, rehash};
use crate::directory::Directory;
use crate::password_policy::attempts::{Guess, Own};
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;

/// How far a simple bind came on the thread that read it.
pub(crate) enum Simple {
    /// To its end.
    Verified(Box<Access>),
    /// The password is stored in a form that takes long to verify.
    NeedsHash(Questions),
}

/// What the name of a simple bind is: a DN (RFC 4511 §4.2), or where the settings allow it the name
/// of a user.
pub(crate) fn bind_name<'n>(worker: &Worker, name: &'n str) -> UserName<'n> {
    if worker.directory.credentials.authentication().bind_by_name {
        UserName::of_bind(name)
    } else {
        UserName::Dn(name)
    }
}

/// Begins a simple bind, or goes on with it when what it asked for is known.
///
/// Refuses with `invalidCredentials` alike when the name does not exist, has no password, or the
/// password is wrong; and no refusal takes less time than verifying a password that is stored like
/// new ones.
pub(super) fn start(
    worker: &mut Worker,
    name: UserName<'_>,
    password: &[u8],
) -> Result<Simple, Refusal> {
    if let Some(identity) = without_password(name, password)? {
        return Ok(Simple::Verified(Box::new(Access::of(identity))));
    }
    let access = attempt(worker, name, password, Look::Cached)?;
    if let Some(access) = access {
        return Ok(Simple::Verified(access));
    }
    let questions = worker.request.hashing.questions();
    questions.map(Simple::NeedsHash).ok_or_else(invalid_credentials)
}

/// Where a password that takes long to verify is looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Look {
    /// Among those that were verified lately, first.
    Cached,
    /// Nowhere: its hash is computed.
    Slow,
}

/// Goes as far as it can without waiting; none where hashes are asked for.
fn attempt(
    worker: &mut Worker,
    name: UserName<'_>,
    password: &[u8],
    look: Look,
) -> Result<Option<Box<Access>>, Refusal> {
    let held = worker.request.hashing.take_attempt();
    let mut candidate = candidate(worker, name)?;
    let login = candidate.as_mut().and_then(|one| one.login.take());
    // The name may have changed hands meanwhile.
    let held = held.filter(|held| login.as_ref().is_some_and(|login| login.id() == held.id()));
    let own = held.as_ref().map_or(Own::None, |held| Own::Held(held.guess()));
    let may_try = login.as_ref().map_or(Ok(()), |login| login.may_try(&worker.directory, own));
    let stored = candidate.as_ref().map(|one| one.passwords.as_slice()).unwrap_or_default();
    stored.iter().for_each(|stored| worker.directory.credentials.scram_keys.note(stored));
    let behind = match (worker.which(password, stored), &may_try) {
        (Behind::At(_), Err(_)) => Behind::Nowhere,
        (behind, _) => behind,
    };
    match (behind, candidate) {
        (Behind::Pending, candidate) => {
            // What is stored has changed: it is looked at from the beginning.
            if let Some(held) = held {
                held.take_back();
            }
            let Some(candidate) = candidate.filter(|_| look == Look::Cached) else {
                return Ok(None);
            };
            match remembered(worker, &candidate, login, password, may_try.is_ok()) {
                Some(Ok(())) => Ok(Some(Box::new(candidate.access))),
                // It is refused all the same, and so as late as ever.
                Some(Err(_)) => attempt(worker, name, password, Look::Slow),
                None => Ok(None),
            }
        }
        (Behind::At(place), Some(candidate)) => {
            right(worker, candidate, login, password, place, own)
        }
        (Behind::At(_), None) => Err(invalid_credentials()),
        (Behind::Nowhere, candidate) if must_wait(worker, candidate.as_ref(), password) => {
            match held {
                Some(held) => *worker.request.hashing.known().attempt() = Some(held),
                // A right one would have been answered by now.
                None => {
                    let guess = worker.directory.accounts.guess();
                    begin(worker, login.filter(|_| may_try.is_ok()), guess);
                }
            }
            Ok(None)
        }
        (Behind::Nowhere, candidate) => {
            may_try?;
            let failure = failure_of(candidate.as_ref());
            let settled = login.map_or(Ok(()), |login| login.settle(worker, own, false));
            Err(match settled {
                // The account has no say in it; there may be nothing to compare with.
                Ok(()) => invalid_credentials().failed_for(failure),
                Err(refusal) if refusal.failure == Some(BindFailure::WrongPassword) => {
                    refusal.failed_for(failure)
                }
                Err(refusal) => refusal,
            })
        }
    }
}

/// Why no password that a candidate has is the one that was sent.
fn failure_of(candidate: Option<&Candidate>) -> BindFailure {
    match candidate {
        None => BindFailure::NoSuchEntry,
        Some(candidate) if candidate.passwords.is_empty() => BindFailure::NoPassword,
        Some(_) => BindFailure::WrongPassword,
    }
}

/// The password is behind the stored value at this place.
fn right(
    worker: &mut Worker,
    candidate: Candidate,
    login: Option<Login>,
    password: &[u8],
    place: usize,
    own: Own<'_>,
) -> Result<Option<Box<Access>>, Refusal> {
    if let Some(login) = login
        && let Err(refusal) = login.settle(worker, own, true)
    {
        // It is refused as late as a wrong one.
        return match must_wait(worker, Some(&candidate), password) {
            true => Ok(None),
            false => Err(refusal),
        };
    }
    if worker.request.hashing.has_waited() {
        candidate.cache(worker, place, password);
    }
    if let (Some(key), Some(old)) = (&candidate.key, candidate.passwords.get(place)) {
        rehash::after_bind(worker, &candidate.access, key, old, password);
    }
    Ok(Some(Box::new(candidate.access)))
}

/// Whether a password that takes long to verify was verified lately, and what comes of it; none
/// when its hash decides.
fn remembered(
    worker: &mut Worker,
    candidate: &Candidate,
    login: Option<Login>,
    password: &[u8],
    may_try: bool,
) -> Option<Result<(), Refusal>> {
    if !may_try {
        // Nobody learns by the time whether it is right. Where others are trying the very same
        // password it is one with theirs.
        let guess = candidate.guess(worker, password)?;
        begin(worker, login, guess);
        return None;
    }
    match candidate.remembered(worker, password) {
        Remembered::This(digest) => {
            worker.request.hashing.known().forget_questions();
            let own = Own::Same(&Guess::Of(digest));
            Some(login.map_or(Ok(()), |login| login.settle(worker, own, true)))
        }
        Remembered::Another(digest) => {
            begin(worker, login, Guess::Of(digest));
            None
        }
        // Who does not wait for the answer learns nothing.
        Remembered::Nothing => None,
    }
}

/// A guess begins to wait for its hash.
fn begin(worker: &mut Worker, login: Option<Login>, guess: Guess) {
    let attempt = login.and_then(|login| login.begin(&worker.directory, guess));
    *worker.request.hashing.known().attempt() = attempt.map(Box::new);
    worker.request.hashing.known().set_silence_tells(true);
}

/// Whether a wrong password waits for a hash now, so that it is refused as late as one that is
/// stored like new ones.
fn must_wait(worker: &mut Worker, candidate: Option<&Candidate>, password: &[u8]) -> bool {
    let Worker { directory, request, .. } = worker;
    let is_late = candidate.is_some_and(|one| one.takes_as_long_as_new(directory));
    let decoy = directory.credentials.decoy.get();
    let decoy = std::slice::from_ref(&**decoy);
    !is_late && request.hashing.which(directory.hash_rules(), password, decoy) == Behind::Pending
}

/// The binds that carry no password: anonymous (RFC 4513 §5.1.1) and unauthenticated (§5.1.2).
fn without_password(name: UserName<'_>, password: &[u8]) -> Result<Option<Identity>, Refusal> {
    match (name == UserName::Dn(""), password.is_empty()) {
        (true, true) => Ok(Some(Identity::Anonymous)),
        (false, true) => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a bind with a name needs a password; an empty one proves nothing",
        )),
        (true, false) => Err(invalid_credentials()),
        (false, false) => Ok(None),
    }
}

/// Who a name is, and what its password must match one of.
pub(crate) struct Candidate {
    pub(crate) access: Access,
    /// None for the administrator, who has no entry.
    pub(crate) key: Option<DnKey>,
    /// None for the administrator, whom no policy governs.
    login: Option<Login>,
    pub(crate) passwords: Vec<Vec<u8>>,
}

impl Candidate {
    /// What verified passwords are kept under; of the administrator, and of whoever has a
    /// privilege, none are.
    fn account(&self) -> Option<Account<'_>> {
        let (id, key) = (self.access.entry()?, self.key.as_ref()?);
        let grants = self.access.grants();
        let has_power =
            grants.privileges != Privileges::NONE || grants.unindexed_search_with_control;
        (!has_power).then_some(Account { id, key })
    }

    /// Whether it takes long to look at its passwords.
    fn is_slow(&self, max: &HashCostMax) -> bool {
        self.passwords.iter().any(|one| password::is_slow(one, max))
    }

    /// Whether a look at its passwords takes as long as one at a password that is stored now.
    fn takes_as_long_as_new(&self, directory: &Directory) -> bool {
        let (new, options) = (directory.credentials.decoy.get(), directory.credentials.passwords());
        let (new, max) = (&**new, &options.cost_max);
        let is_enough = |one: &Vec<u8>| password::takes_as_long(one, new, max);
        // One look at a fast one is as long as another.
        let is_fast = !self.passwords.is_empty() && !password::is_slow(new, max);
        is_fast || self.passwords.iter().any(is_enough)
    }

    /// Whether `clear` was found lately to be behind one of the stored values that there are, or
    /// something else was.
    fn remembered(&self, worker: &Worker, clear: &[u8]) -> Remembered {
        let directory = &worker.directory;
        let cache = directory.credentials.password_cache.as_ref().zip(self.account());
        cache.map_or(Remembered::Nothing, |(cache, account)| {
            cache.find(account, clear, &self.passwords, directory.clock.elapsed())
        })
    }

    /// What tells `clear` from other guesses.
    fn guess(&self, worker: &Worker, clear: &[u8]) -> Option<Guess> {
        let cache = worker.directory.credentials.password_cache.as_ref().zip(self.account());
        cache.map(|(cache, account)| Guess::Of(cache.digest(account, clear, &self.passwords)))
    }

    /// Keeps for further binds that `clear` is behind the stored value at `place`, if finding out
    /// took long.
    fn cache(&self, worker: &Worker, place: usize, clear: &[u8]) {
        let directory = &worker.directory;
        let Some(cache) = &directory.credentials.password_cache else { return };
        let is_slow = self.is_slow(&directory.credentials.passwords().cost_max);
        match (self.account(), self.access.entry()) {
            (Some(account), _) if is_slow => {
                let now = directory.clock.elapsed();
                cache.put(account, clear, &self.passwords, place, now);
            }
            // It may have had none before.
            (None, Some(id)) => cache.forget(id),
            (Some(_) | None, _) => {}
        }
    }
}

/// Looks `name` up; `None` when it stands for nobody.
fn candidate(worker: &mut Worker, name: UserName<'_>) -> Result<Option<Candidate>, Refusal> {
    let Worker { directory, snapshot, names, .. } = worker;
    let state = directory.state.load();
    let view = snapshot.view()?;
    let asked = match name {
        UserName::Dn(name) => Some(
            names
                .key(&state.schema, name)
                .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?,
        ),
        UserName::User(_) => None,
    };
    let found = match &asked {
        Some(key) => identity_mapper::find_dn(&directory.credentials.root, view, key)?,
        None => identity_mapper::find(directory, &state, view, name)?,
    };
    let entry = match found {
        None => return Ok(None),
        Some(Found::Root) => {
            let access = directory.credentials.root.access();
            let passwords = vec![directory.credentials.root.password()];
            return Ok(Some(Candidate { access, key: None, login: None, passwords }));
        }
        Some(Found::Entry(id)) => view.entry(id)?,
    };
    let Some(entry) = entry else {
        return Ok(None);
    };
    let passwords = password::stored_in(&entry, &state.schema.well_known().user_password);
    let access = match asked {
        Some(key) => identity_mapper::access_keyed(&state, &entry, key)?,
        None => identity_mapper::access(&state, &entry)?,
    };
    let key = access.key().cloned();
    let login = key.as_ref().map(|key| Login::read(directory, &state, view, &entry, key));
    let login = login.transpose()?;
    Ok(Some(Candidate { access, key, login, passwords }))
}
