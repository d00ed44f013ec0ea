//! One client of a cluster: adds entries and counts in entries of its own, at one node after the
//! other, and keeps account of what the answers promise.
//!
//! Invariant: one request is in flight at a time, and an entry of which a write has no certain
//! outcome is not written again. So each entry has at most two states that are right.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::nodes::Door;
use crate::chance::Chance;
use crate::client::{Attributes, Change, ChangeKind, Client, ClientError, Request};
use crate::crash::server::{SUFFIX, now, pause};

/// What the clients share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) doors: Vec<Door>,
    /// No more requests are to be sent.
    pub(super) stop: AtomicBool,
    pub(super) acknowledged: AtomicU64,
    pub(super) gap: Mutex<Gap>,
}

/// The longest time without an acknowledged write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    last: Instant,
    longest: Duration,
}

/// Whether an entry was added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    Acknowledged,
    /// Nobody knows; it may be there or not.
    Unknown,
    /// It must not be there.
    Refused,
}

/// An entry that a client wanted to add.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Written {
    pub(super) fate: Fate,
    /// The last number that was acknowledged.
    pub(super) count: u64,
    /// The number of a write without a certain outcome.
    pub(super) unknown: Option<u64>,
}

/// What came of one client.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// By name.
    pub(super) written: BTreeMap<String, Written>,
    /// Answers by result code.
    pub(super) codes: BTreeMap<i64, u64>,
    /// Requests whose connection was gone or that nobody answered.
    pub(super) unanswered: u64,
    pub(super) faults: Vec<String>,
}

impl Gap {
    pub(super) fn new() -> Self {
        Self { last: now(), longest: Duration::ZERO }
    }

    fn acknowledged(&mut self) {
        self.longest = self.longest();
        self.last = now();
    }

    /// The longest so far, the one that lasts included.
    pub(super) fn longest(&self) -> Duration {
        self.longest.max(self.last.elapsed())
    }

    /// Forgets those that are over.
    pub(super) fn restart(&mut self) {
        self.longest = Duration::ZERO;
    }
}

impl Shared {
    pub(super) fn new(doors: Vec<Door>) -> Self {
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { doors, stop, acknowledged, gap: Mutex::new(Gap::new()) }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs one client until it is told to stop.
pub(super) fn run(number: usize, shared: &Shared, chance: Chance) -> Account {
    let account = Account::default();
    let mut load = Load { number, shared, chance, account, serial: 0, counting: None };
    let mut turn = number;
    while !shared.is_over() {
        let doors = shared.doors.len().max(1);
        let Some(door) = shared.doors.get(turn % doors) else { break };
        turn += 1;
        match door.enter() {
            Ok(mut client) => {
                if load.write(&mut client) {
                    turn = number;
                }
            }
            // That one is not there now, or does not sign anybody in yet.
            Err(_) => pause(RETRY_AFTER),
        }
    }
    load.account
}

struct Load<'l> {
    number: usize,
    shared: &'l Shared,
    chance: Chance,
    account: Account,
    serial: u64,
    /// The entry whose number is raised.
    counting: Option<String>,
}

/// What a client asks for, and what must be answered if the cluster decides it.
enum Step {
    Add,
    /// An entry without an attribute that it must have.
    AddIncomplete,
    /// An entry that is there.
    AddAgain(String),
    Count(String),
}

impl Load<'_> {
    /// Writes until the connection is gone, or was used for long; whether it is still there.
    fn write(&mut self, client: &mut Client) -> bool {
        for _ in 0..CONNECTION_WRITES {
            if self.shared.is_over() {
                break;
            }
            let step = self.next();
            let done = match step {
                Step::Add => self.add(client, true),
                Step::AddIncomplete => self.add(client, false),
                Step::AddAgain(dn) => self.add_again(client, dn),
                Step::Count(dn) => self.count(client, dn),
            };
            match done {
                Ok(SUCCESS) => self.acknowledge(),
                // Whoever asks again at once only takes time from those that elect.
                Ok(BUSY | UNAVAILABLE | OTHER) => pause(RETRY_AFTER),
                Ok(_) => {}
                Err(ClientError::Gone(_) | ClientError::Late) => {
                    self.account.unanswered += 1;
                    return false;
                }
                Err(error) => {
                    self.account.unanswered += 1;
                    self.fault(error.to_string());
                    return false;
                }
            }
        }
        true
    }

    fn next(&mut self) -> Step {
        match (self.counting.clone(), self.chance.below(STEPS)) {
            (None, _) => Step::Add,
            (Some(dn), 0) => Step::AddAgain(dn),
            (_, 1) => Step::AddIncomplete,
            (Some(dn), drawn) if drawn < STEPS / 2 => Step::Count(dn),
            (Some(_), _) => Step::Add,
        }
    }

    fn acknowledge(&self) {
        self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.shared.gap.lock().unwrap_or_else(PoisonError::into_inner).acknowledged();
    }

    fn fault(&mut self, what: String) {
        if self.account.faults.len() < FAULTS_MAX {
            self.account.faults.push(format!("client {}: {what}", self.number));
        }
    }

    fn call(&mut self, client: &mut Client, request: &Request) -> Result<i64, ClientError> {
        let answer = client.call(request)?;
        *self.account.codes.entry(answer.code).or_default() += 1;
        Ok(answer.code)
    }

    fn add(&mut self, client: &mut Client, complete: bool) -> Result<i64, ClientError> {
        self.serial += 1;
        let uid = format!("client{}-{}", self.number, self.serial);
        let dn = format!("uid={uid},ou=people,{SUFFIX}");
        let outcome = self.call(client, &addition(&dn, &uid, complete));
        let fate = match outcome {
            Ok(SUCCESS) => Fate::Acknowledged,
            Ok(OTHER) | Err(_) => Fate::Unknown,
            Ok(_) => Fate::Refused,
        };
        let can_count = complete && fate == Fate::Acknowledged;
        if can_count && (self.counting.is_none() || self.chance.once_in(COUNTED_EVERY)) {
            self.counting = Some(dn.clone());
        }
        match outcome {
            Ok(SUCCESS) if !complete => self.fault(format!("an incomplete entry was added: {dn}")),
            Ok(CLASS_VIOLATION) if !complete => {}
            Ok(code) => self.expect(code, "add", &dn),
            Err(_) => {}
        }
        self.account.written.insert(dn, Written { fate, count: 0, unknown: None });
        outcome
    }

    fn add_again(&mut self, client: &mut Client, dn: String) -> Result<i64, ClientError> {
        let code = self.call(client, &addition(&dn, "again", true))?;
        match code {
            SUCCESS => self.fault(format!("an acknowledged entry was not there: {dn}")),
            ALREADY_EXISTS => {}
            _ => self.expect(code, "add again", &dn),
        }
        if code == OTHER {
            self.counting = None;
        }
        Ok(code)
    }

    fn count(&mut self, client: &mut Client, dn: String) -> Result<i64, ClientError> {
        let count = self.account.written.get(&dn).map_or(0, |written| written.count) + 1;
        let kind = ChangeKind::Replace;
        let change =
            Change { kind, attribute: COUNTER.to_owned(), values: vec![count.to_string()] };
        let outcome = self.call(client, &Request::Modify { dn: dn.clone(), changes: vec![change] });
        if let Some(written) = self.account.written.get_mut(&dn) {
            match outcome {
                Ok(SUCCESS) => written.count = count,
                Ok(OTHER) | Err(_) => {
                    written.unknown = Some(count);
                    self.counting = None;
                }
                Ok(_) => {}
            }
        }
        if let Ok(code) = outcome {
            self.expect(code, "modify", &dn);
        }
        outcome
    }

    /// Nothing else can be answered to a request that is right.
    fn expect(&mut self, code: i64, what: &str, dn: &str) {
        if ![SUCCESS, OTHER, BUSY, UNAVAILABLE].contains(&code) {
            self.fault(format!("{what}: {dn}: answered {code}"));
        }
    }
}

fn addition(dn: &str, uid: &str, complete: bool) -> Request {
    let mut attributes = Attributes::new();
    let mut put = |name: &str, value: &str| {
        attributes.insert(name.to_owned(), [value.to_owned()].into());
    };
    put("objectClass", "inetOrgPerson");
    put("uid", uid);
    put("cn", uid);
    put(COUNTER, "0");
    if complete {
        put("sn", uid);
    }
    Request::Add { dn: dn.to_owned(), attributes }
}

/// The attribute in which a client counts.
pub(super) const COUNTER: &str = "employeeNumber";
/// RFC 4511 §4.1.9: success.
const SUCCESS: i64 = 0;
/// Result code: busy.
pub(super) const BUSY: i64 = 51;
/// Result code: unavailable.
pub(super) const UNAVAILABLE: i64 = 52;
/// Result code: objectClassViolation.
const CLASS_VIOLATION: i64 = 65;
/// Result code: entryAlreadyExists.
const ALREADY_EXISTS: i64 = 68;
/// Result code: other. What was asked for may be done or not.
pub(super) const OTHER: i64 = 80;
/// Requests of one connection. Then a client goes back to the node where it began, so that not all
/// gather at the one that was never killed.
const CONNECTION_WRITES: u64 = 100;
/// One request in so many is one that must be refused, of each of two kinds; about half count.
const STEPS: u64 = 20;
/// One added entry in so many is the next to count in.
const COUNTED_EVERY: u64 = 20;
/// A client that was not served waits so long.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// Faults told in full of one client.
const FAULTS_MAX: usize = 10;
