//! New passwords: whether the policy accepts them, and what becomes of the account.
//!
//! In two steps. [`judge`] is asked where a request is resolved: there slow hashes can be waited
//! for, so that a new password is compared with the used ones. [`decide`] is asked by the writer,
//! on what the changes before it left.
//!
//! Invariant: what was found out is good for the very passwords it was found out about. When the
//! entry has others by the time of the decision, or another policy governs it, the client is asked
//! to try again.
//! Invariant: a password that was set by somebody else gives way to another one, or stays as it is.
//! Invariant: nothing is told before the right to write the password was decided on: the verdict of
//! the first step is a value that the writer reads.
//! Invariant: the history is no way to guess passwords. Whether one was used before is told last,
//! so that who guesses wrong has changed the password; and where the change might be undone (no-op,
//! a transaction), only to who has sent the old one, which counts as a bind does.

use std::sync::Arc;

use aci::{Access, Privilege};
use auth::password;
use environment::Timestamp;
use ldap::result::ResultCode;
use schema::{AttributeDescription, DnKey, Entry, EntryRead, Schema};
use store::{Resolved, StoredEntry};

use super::account::{AccountState, Changed, Changer, Rejected};
use super::control::PolicyError;
use super::quality::{Fault, NewPassword, OWN_VALUES_MAX, Words};
use super::rules::{HashedFrom, PasswordPolicy};
use super::set::Governing;
use super::verdict::{Requester, Verdict};
use crate::bind::hashing::Behind;
use crate::groups::member_entry::MemberEntry;
use crate::password_policy::verdict::Storing;
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;
use crate::write::decision::Decide;
use crate::write::rehash::queue::current_form;

/// Passwords as a request brings them.
#[derive(Default)]
pub(crate) struct SentPasswords<'r> {
    /// New ones in clear text.
    pub(crate) clear: Vec<&'r [u8]>,
    /// New ones that name a scheme: hashed, or clear text that looks so.
    pub(crate) hashed: Vec<&'r [u8]>,
    /// There are new ones that are hashed by their syntax (RFC 3112).
    pub(crate) has_keys: bool,
    /// The old one, in clear text.
    pub(crate) old: Option<&'r [u8]>,
    /// Even when all is well, the change may not be made, or be undone.
    pub(crate) is_trial: bool,
}

impl<'r> SentPasswords<'r> {
    /// Takes a new value of an attribute that is hashed when it comes in clear text, or of one
    /// that is not.
    pub(crate) fn take(&mut self, value: &'r [u8], is_hashable: bool) {
        match is_hashable {
            true if password::is_hashed(value) => self.hashed.push(value),
            true => self.clear.push(value),
            false => self.has_keys = true,
        }
    }
}

/// How the new passwords of a request are stored; none when they are refused: then nothing is
/// hashed, and the writer tells why.
pub(crate) fn storing(verdict: &Result<Verdict, Refusal>) -> Option<Storing> {
    let verdict =
        verdict.as_ref().ok().filter(|verdict| verdict.requester != Requester::Stranger)?;
    Some(Storing { keeps_hashed: verdict.keeps_hashed, scheme: verdict.scheme() })
}

/// What there is of an entry before the change.
#[derive(Default)]
struct Known {
    governing: Option<Arc<Governing>>,
    state: AccountState,
    /// Values that a new password must not be made of.
    own: Vec<String>,
    stored: Vec<Vec<u8>>,
}

/// Looks at the new passwords of an entry that is there.
///
/// # Errors
/// The verdict of the policy, to be told when the right to write the password was decided on.
pub(crate) fn judge(
    worker: &mut Worker,
    access: &Access,
    key: &DnKey,
    sent: &SentPasswords<'_>,
) -> Result<Verdict, Refusal> {
    let requester = Requester::of(access, key);
    // What is not allowed costs nothing, and says nothing.
    let known =
        if requester == Requester::Stranger { Known::default() } else { known(worker, key)? };
    judge_known(worker, access, requester, false, sent, known)
}

/// Looks at the passwords of an entry to be added.
///
/// # Errors
/// The verdict of the policy, to be told when the right to add the entry was decided on.
pub(crate) fn judge_new(
    worker: &mut Worker,
    access: &Access,
    key: &DnKey,
    entry: &Entry,
    sent: &SentPasswords<'_>,
) -> Result<Verdict, Refusal> {
    let requester = if access.is_root() { Requester::Root } else { Requester::Administrator };
    let policies = worker.directory.rules.password_policies.load_full();
    let mut governing = None;
    let mut own = Vec::new();
    if !policies.is_empty() {
        let schema = Arc::clone(&worker.directory.state.load().schema);
        let view = worker.snapshot.view()?;
        // As it will be: the filter of a subtree may ask for a superior class.
        let mut entry = entry.clone();
        entry.add_superior_classes(&schema)?;
        governing = policies.of(&MemberEntry::new(view, &schema, &entry).keyed(key))?;
        if let Some(governing) = &governing {
            own = own_values(&governing.policy, &entry, &schema);
        }
    }
    let known = Known { governing, own, ..Known::default() };
    judge_known(worker, access, requester, true, sent, known)
}

/// What there is of an entry; nothing when it is not there, which the writer will tell.
fn known(worker: &mut Worker, key: &DnKey) -> Result<Known, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load();
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(key)? else { return Ok(Known::default()) };
    let Some(entry) = view.entry(id)? else { return Ok(Known::default()) };
    let account = MemberEntry::new(view, &state.schema, &entry).keyed(key);
    let governing = directory.rules.password_policies.load().of(&account)?;
    let mut known = Known { governing, ..Known::default() };
    if let Some(governing) = &known.governing {
        known.state = directory.accounts.state(view, &entry, &governing.policy, &*directory.clock);
        known.own = own_values(&governing.policy, &entry, &state.schema);
    }
    known.stored = password::stored_in(&entry, &state.schema.well_known().user_password);
    Ok(known)
}

fn own_values(policy: &PasswordPolicy, entry: &dyn EntryRead, schema: &Schema) -> Vec<String> {
    let mut own = Vec::new();
    for name in &policy.quality.own_attributes {
        let Ok(description) = schema.describe(name) else { continue };
        entry.visit_values(&description, &mut |_, value| {
            own.extend(std::str::from_utf8(value).ok().map(str::to_owned));
            own.len() < OWN_VALUES_MAX
        });
    }
    own
}

fn judge_known(
    worker: &mut Worker,
    access: &Access,
    requester: Requester,
    is_added: bool,
    sent: &SentPasswords<'_>,
    known: Known,
) -> Result<Verdict, Refusal> {
    let Known { governing, state, own, stored } = known;
    let (mut compared, mut was_used) = (Vec::new(), false);
    let is_privileged = access.has(Privilege::PasswordReset);
    let policy = governing.as_ref().map(|governing| &governing.policy);
    // The own one is held to the rules, whatever one may do with those of others.
    let is_privileged = is_privileged && requester != Requester::Owner;
    let keeps_hashed =
        is_privileged || policy.is_some_and(|one| one.hashed == HashedFrom::Everybody);
    check_clear(sent, requester, keeps_hashed)?;
    // Nobody can tell how good a password there is behind keys.
    if sent.has_keys && !keeps_hashed && requester != Requester::Root {
        return Err(refused_for(Fault::Hashed));
    }
    // What is not stored as it is, is clear text.
    let mut clear = sent.clear.clone();
    if !keeps_hashed {
        clear.extend(&sent.hashed);
    }
    let has_hashed = sent.has_keys || (keeps_hashed && !sent.hashed.is_empty());
    if let Some(governing) = &governing {
        let policy = &governing.policy;
        if has_hashed && requester != Requester::Root {
            if policy.hashed == HashedFrom::Nobody || !keeps_hashed {
                return Err(refused_for(Fault::Hashed));
            }
            policy.check_hashed().map_err(refused_for)?;
        }
        let has_to_change = requester.has_to_change(policy, &state);
        // Nobody can tell whether it is the one that was to be changed.
        if has_to_change && has_hashed {
            return Err(refused_for(Fault::Hashed));
        }
        let now = worker.directory.clock.now();
        // Who may not change it, or does not send the old one, has nothing compared.
        if requester == Requester::Owner {
            may_change(&state, policy, sent.old.is_some(), now)?;
        }
        if requester.is_checked(policy) {
            check_quality(policy, &clear, sent.old, &own)?;
            if policy.remembers() || has_to_change {
                check_earnest(sent, requester)?;
                let used = state.used(policy, now).map(|one| one.as_bytes().to_vec());
                compared = stored.into_iter().chain(used).collect();
                was_used = is_any_behind(worker, &clear, &compared);
            }
        }
    } else if requester == Requester::Owner && worker.directory.credentials.passwords().check_own {
        check_quality(&PasswordPolicy::built_in(), &clear, sent.old, &[])?;
    }
    let (sends_old, has_clear) = (sent.old.is_some(), !clear.is_empty());
    Ok(Verdict {
        requester,
        is_added,
        sends_old,
        keeps_hashed,
        has_clear,
        governing,
        compared,
        was_used,
    })
}

/// Refuses hashes where they would be taken for clear text: the hash would become the password, and
/// the password behind it would not sign in any more.
fn check_clear(
    sent: &SentPasswords<'_>,
    requester: Requester,
    keeps_hashed: bool,
) -> Result<(), Refusal> {
    let is_hash = |values: &[&[u8]]| values.iter().any(|one| password::is_well_formed(one));
    match requester != Requester::Stranger
        && (is_hash(&sent.clear) || (!keeps_hashed && is_hash(&sent.hashed)))
    {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::ConstraintViolation,
            "send the password itself, over TLS: hashes are accepted in add and modify only, for \
             other accounts, from users with the privilege password-reset",
        )
        .because(Fault::Hashed.error())),
    }
}

fn check_quality(
    policy: &PasswordPolicy,
    clear: &[&[u8]],
    old: Option<&[u8]>,
    own: &[String],
) -> Result<(), Refusal> {
    let own = own.iter().map(String::as_str).collect::<Vec<_>>();
    let old = old.map(String::from_utf8_lossy);
    for clear in clear {
        let clear = String::from_utf8_lossy(clear);
        let new = NewPassword { clear: &clear, old: old.as_deref(), own: &own };
        policy.check_quality(&new, Words::built_in()).map_err(refused_for)?;
    }
    Ok(())
}

/// Refuses to compare new passwords with old ones for a change that might not be made. Who may set
/// the passwords of others learns nothing by it that deleting a password does not tell.
fn check_earnest(sent: &SentPasswords<'_>, requester: Requester) -> Result<(), Refusal> {
    match requester == Requester::Owner && sent.is_trial && sent.old.is_none() {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the password history is not checked for a change that may not be made: send the old \
             password, or use neither the no-op control nor a transaction",
        )),
    }
}

/// Whether any of the new passwords is behind a stored form. All are compared, whatever the first
/// ones say: the time it takes tells nothing.
fn is_any_behind(worker: &mut Worker, clear: &[&[u8]], stored: &[Vec<u8>]) -> bool {
    let behind = clear.iter().map(|clear| worker.which(clear, stored));
    behind.fold(false, |any, one| any | matches!(one, Behind::At(_)))
}

/// Refuses people a change of their own password that they may not make now.
fn may_change(
    state: &AccountState,
    policy: &PasswordPolicy,
    sends_old: bool,
    now: Timestamp,
) -> Result<(), Refusal> {
    state.may_change(policy, sends_old, now).map_err(|rejected| {
        let (code, why) = answer(rejected);
        Refusal::new(code, why).because(rejected.error())
    })
}

fn refused_for(fault: Fault) -> Refusal {
    Refusal::new(ResultCode::ConstraintViolation, fault.reason()).because(fault.error())
}

/// An entry whose password is changed.
pub(crate) struct Target<'t> {
    pub(crate) key: &'t DnKey,
    /// As it was; none when it is added.
    pub(crate) stored: Option<&'t StoredEntry<'t>>,
    /// One of its passwords was sent.
    pub(crate) proves_old: bool,
    /// What the request itself sets: that stays.
    pub(crate) touched: &'t [Arc<AttributeDescription>],
}

/// Decides on a change of the password on what the entries before it left, and puts the state of
/// the account into the entry. Gives the attributes that it set.
///
/// # Errors
/// When the policy does not allow the change now.
pub(crate) fn decide(
    decide: &Decide<'_>,
    verdict: &Verdict,
    target: &Target<'_>,
    after: &mut Entry,
) -> Result<Vec<Arc<AttributeDescription>>, Refusal> {
    let directory = decide.directory;
    let policies = directory.rules.password_policies.load();
    let account: &dyn EntryRead = match target.stored {
        Some(stored) => stored,
        None => &*after,
    };
    let account = MemberEntry::new(decide.view, &decide.state.schema, account).keyed(target.key);
    let governing = policies.of(&account)?;
    if governing != verdict.governing {
        return Err(changed_meanwhile());
    }
    let mut set = drop_keys(target, after, &decide.state.schema)?;
    let Some(governing) = governing else { return Ok(set) };
    let policy = &governing.policy;
    let (state, was) = match target.stored {
        Some(stored) => (
            directory.accounts.state(decide.view, stored, policy, &*directory.clock),
            AccountState::read(stored, &decide.state.schema),
        ),
        None => <(AccountState, AccountState)>::default(),
    };
    let now = directory.clock.now();
    if verdict.requester == Requester::Owner && !verdict.is_added {
        may_change(&state, policy, verdict.sends_old && target.proves_old, now)?;
    }
    let schema = &decide.state.schema;
    let password = &schema.well_known().user_password;
    let old = stored_passwords(target.stored, password);
    let has_to_change = verdict.requester.has_to_change(policy, &state) && !verdict.is_added;
    let is_compared_with = policy.remembers() || has_to_change;
    if verdict.has_clear && verdict.requester.is_checked(policy) && is_compared_with {
        let used = state.used(policy, now).map(str::as_bytes);
        if !old.iter().map(Vec::as_slice).chain(used).all(|one| is_compared(decide, verdict, one)) {
            return Err(changed_meanwhile());
        }
    }
    let new = after.values(password);
    if new.len() > 1 && !policy.allow_multiple && verdict.requester != Requester::Root {
        return Err(Refusal::new(
            ResultCode::ConstraintViolation,
            "the password policy allows one password",
        ));
    }
    if new == old.as_slice() {
        return Ok(set);
    }
    if has_to_change && (new.is_empty() || new.iter().any(|one| old.contains(one))) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the password was set by somebody else: choose a different one",
        )
        .because(PolicyError::ChangeAfterReset));
    }
    let by = match verdict.requester {
        _ if verdict.is_added => Changer::Adder,
        Requester::Owner => Changer::Owner,
        Requester::Root | Requester::Administrator | Requester::Stranger => Changer::Administrator,
    };
    let old = old.iter().filter_map(|one| std::str::from_utf8(one).ok()).collect::<Vec<_>>();
    let state = state.after_change(policy, &Changed { by, old: &old, now });
    set.extend(put(&was, &state, target.touched, after, schema)?);
    Ok(set)
}

/// With a password that goes its keys go (`authPassword`, RFC 3112), or else one could still sign
/// in with it, and so does what an import has left under an option; unless the request sets them
/// itself. Gives the attributes that it dropped.
fn drop_keys(
    target: &Target<'_>,
    after: &mut Entry,
    schema: &Schema,
) -> Result<Vec<Arc<AttributeDescription>>, Refusal> {
    let known = schema.well_known();
    let (password, keys) = (&known.user_password, &known.auth_password);
    let going = after.attributes().iter().map(|one| Arc::clone(&one.description)).filter(|one| {
        let is_other = keys.covers(one) || (one.is_password() && !one.options().is_empty());
        is_other && !target.touched.contains(one)
    });
    let going = going.collect::<Vec<_>>();
    if target.stored.is_none() || going.is_empty() {
        return Ok(Vec::new());
    }
    let (old, new) = (stored_passwords(target.stored, password), after.values(password));
    let all_stay = !old.is_empty() && old.iter().all(|one| new.contains(one));
    if all_stay || new == old.as_slice() {
        return Ok(Vec::new());
    }
    for description in &going {
        after.replace_values(schema, description, Vec::new())?;
    }
    Ok(going)
}

/// Whether the new passwords were compared with this stored form, or with what it was before it
/// was stored anew.
fn is_compared(decide: &Decide<'_>, verdict: &Verdict, stored: &[u8]) -> bool {
    let now = [stored.to_vec()];
    verdict
        .compared
        .iter()
        .any(|one| current_form(decide.directory.credentials.rehasher(), &now, one).is_some())
}

fn stored_passwords(
    stored: Option<&StoredEntry<'_>>,
    password: &AttributeDescription,
) -> Vec<Vec<u8>> {
    stored.map(|stored| password::stored_in(stored, password)).unwrap_or_default()
}

/// Puts what is different into the entry.
fn put(
    was: &AccountState,
    state: &AccountState,
    touched: &[Arc<AttributeDescription>],
    after: &mut Entry,
    schema: &Schema,
) -> Result<Vec<Arc<AttributeDescription>>, Refusal> {
    let mut set = Vec::new();
    for ((name, now), (_, before)) in state.attributes().into_iter().zip(was.attributes()) {
        let Ok(description) = schema.describe(name) else { continue };
        if now == before || touched.contains(&description) {
            continue;
        }
        let values = now.into_iter().map(String::into_bytes).collect();
        after.replace_values(schema, &description, values)?;
        set.push(description);
    }
    Ok(set)
}

/// What a change that is refused so is answered, and why.
fn answer(rejected: Rejected) -> (ResultCode, &'static str) {
    match rejected {
        Rejected::Locked | Rejected::Delayed(_) => {
            (ResultCode::UnwillingToPerform, "the account is locked")
        }
        Rejected::Expired => (ResultCode::UnwillingToPerform, "the password has expired"),
        Rejected::ChangeNotAllowed => (
            ResultCode::InsufficientAccessRights,
            "the password policy does not let people change their own password",
        ),
        Rejected::OldPasswordMissing => (
            ResultCode::InsufficientAccessRights,
            "the old password must be sent, too: delete it in the modify that adds the new one, \
             or use the password modify operation",
        ),
        Rejected::TooYoung => (
            ResultCode::ConstraintViolation,
            "the password was changed recently and cannot be changed again yet",
        ),
    }
}

/// The refusal of an old password that nobody may try now.
pub(crate) fn shut() -> Refusal {
    let (code, why) = answer(Rejected::Locked);
    Refusal::new(code, why).because(Rejected::Locked.error())
}

/// What an update is told whose passwords were not hashed because there was no right to set them,
/// when there is one by the time of the decision.
pub(crate) fn allowed_meanwhile() -> Refusal {
    Refusal::new(
        ResultCode::Busy,
        "the right to set the password was given at the same time; try again",
    )
}

fn changed_meanwhile() -> Refusal {
    Refusal::new(
        ResultCode::Busy,
        "the password or its policy was changed at the same time; try again",
    )
}
