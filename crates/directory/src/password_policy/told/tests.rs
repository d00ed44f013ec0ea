//! What is told of accounts is written once in a round, and whoever told it hears when it is.

use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::password_policy::pending::AccountWriter;
use crate::password_policy::{PasswordPolicy, PasswordPolicyOptions};
use crate::request::completion::WriteDone;

const ANNA: EntryId = EntryId(7);
const SECOND: u64 = 1_000_000;
const ALARM: Round = Round { forgets: true, takes_all: true, is_last: false, hands_on: false };
const NOW: Round = Round { forgets: false, takes_all: false, ..ALARM };

type Replies = Receiver<Result<WriteDone, LostUpdate>>;

/// A table that others tell, with the thread that does not run.
fn table(accounts_max: usize) -> (Accounts, AccountWriter) {
    let options = PasswordPolicyOptions { accounts_max, ..PasswordPolicyOptions::default() };
    Accounts::new(&options, Some(1))
}

fn failure(at: u64) -> Event {
    Event { at: Timestamp(at), what: What::Failure, is_counted: false }
}

/// Tells of failures of an account at these times; the account is locked after 100.
fn tell(accounts: &Accounts, id: EntryId, failures: &[u64], is_urgent: bool) -> Replies {
    let (sender, replies) = channel();
    assert!(accounts.admit_told(1));
    let telling = Telling::new(1, Box::new(move |reply| drop(sender.send(reply))));
    let policy = PasswordPolicy { lockout: true, max_failures: 100, ..PasswordPolicy::default() };
    let stored = super::super::AccountState::default();
    let account = FoundAccount { id, policy: &policy, stored: &stored, lsn: Lsn(1) };
    let events = failures.iter().map(|at| failure(*at)).collect();
    let told = AccountEvents { id, events, told: Vec::new(), is_urgent };
    accounts.tell(&account, &told, &telling, Timestamp(100 * SECOND));
    replies
}

/// What is taken of accounts: how many failures others told.
fn taken(accounts: &Accounts, round: Round) -> Vec<(EntryId, usize)> {
    let writes = accounts.take(round).into_iter().flatten();
    writes.map(|one| (one.id, one.told.len())).collect()
}

fn code(replies: &Replies) -> Option<ResultCode> {
    replies.try_recv().unwrap().unwrap().completion.code
}

#[test]
fn an_account_is_written_once_in_a_round_whoever_tells_of_it() {
    let (accounts, _thread) = table(10);
    for second in 1..6 {
        let at = |part| second * SECOND + part;
        let replies =
            [1, 2, 3].map(|node| tell(&accounts, ANNA, &[at(node), at(10 + node)], false));
        // Another account is locked meanwhile: that is no reason to hurry.
        let urgent = tell(&accounts, EntryId(9), &[at(0)], true);
        assert_eq!(taken(&accounts, NOW), [(EntryId(9), 1)]);
        accounts.told_written(&[EntryId(9)], &Ok(()));
        assert_eq!(code(&urgent), Some(ResultCode::Success));
        assert_eq!(taken(&accounts, ALARM), [(ANNA, 6)]);
        assert!(replies.iter().all(|one| one.try_recv().is_err()), "it is not written yet");
        let later = tell(&accounts, ANNA, &[at(20)], false);
        accounts.told_written(&[ANNA], &Ok(()));
        assert!(replies.iter().all(|one| code(one) == Some(ResultCode::Success)));
        assert!(later.try_recv().is_err());
        assert_eq!(taken(&accounts, NOW), []);
        assert_eq!(taken(&accounts, ALARM), [(ANNA, 1)]);
        accounts.told_written(&[ANNA], &Ok(()));
        assert_eq!(code(&later), Some(ResultCode::Success));
        assert_eq!(taken(&accounts, ALARM), []);
    }
    assert!(accounts.is_idle());
}

#[test]
fn what_is_told_twice_is_kept_once() {
    let (accounts, _thread) = table(10);
    let first = tell(&accounts, ANNA, &[1, 2], false);
    let second = tell(&accounts, ANNA, &[2, 3], false);
    assert_eq!(taken(&accounts, ALARM), [(ANNA, 3)]);
    let third = tell(&accounts, ANNA, &[1], false);
    accounts.told_written(&[ANNA], &Ok(()));
    // It is there, and was forgotten by nobody yet.
    let fourth = tell(&accounts, ANNA, &[1, 3], true);
    for replies in [first, second, third, fourth] {
        assert_eq!(code(&replies), Some(ResultCode::Success));
    }
    assert_eq!(taken(&accounts, NOW), []);
}

#[test]
fn what_is_not_written_here_is_told_to_all_who_wait_for_it_and_forgotten() {
    let (accounts, _thread) = table(10);
    for lost in [LostUpdate::Unknown, LostUpdate::NotDeciding { leader: None }] {
        let sent = tell(&accounts, ANNA, &[1], false);
        assert_eq!(taken(&accounts, ALARM), [(ANNA, 1)]);
        // It tells the first one again, which may be lost with the write.
        let both = tell(&accounts, ANNA, &[1, 2], false);
        accounts.told_written(&[ANNA], &Err(NotWritten::Lost(lost.clone())));
        for replies in [sent, both] {
            assert_eq!(replies.try_recv().unwrap().unwrap_err(), lost);
        }
        assert!(accounts.is_idle());
    }
}

#[test]
fn a_node_that_does_not_decide_any_more_gives_up_what_it_was_told() {
    let (accounts, _thread) = table(10);
    let replies = tell(&accounts, ANNA, &[1], false);
    assert_eq!(taken(&accounts, Round { hands_on: true, ..NOW }), []);
    let lost = LostUpdate::NotDeciding { leader: None };
    assert_eq!(replies.try_recv().unwrap().unwrap_err(), lost);
    assert!(accounts.is_idle());
    // As when the table goes, with the process.
    let replies = tell(&accounts, ANNA, &[1], false);
    drop(accounts);
    assert_eq!(replies.try_recv().unwrap().unwrap_err(), lost);
}

#[test]
fn no_more_accounts_wait_than_may() {
    let (accounts, _thread) = table(3);
    let _replies = tell(&accounts, ANNA, &[1], false);
    assert!(!accounts.admit_told(3));
    assert!(accounts.admit_told(2));
    assert!(!accounts.admit_told(1));
    accounts.release_told(2);
    // One that is there already takes no more room.
    let _replies = tell(&accounts, ANNA, &[2], false);
    assert!(accounts.admit_told(2));
}
