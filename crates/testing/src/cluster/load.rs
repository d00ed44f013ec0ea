//! One client of a cluster: adds entries and counts in entries of its own, at one node after the
//! other, and keeps account of what the answers promise.
//!
//! Invariant: one request is in flight at a time, and an entry of which a write has no certain
//! outcome is not written again. So each entry has at most two states that are right.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::nodes::Door;
use crate::chance::Chance;
use crate::client::{Attributes, Change, ChangeKind, Client, ClientError, Request, Search};
use crate::crash::server::{SUFFIX, now, pause};

/// What the clients share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where the nodes are: some come anew elsewhere.
    doors: RwLock<Vec<Door>>,
    /// No more requests are to be sent.
    pub(super) stop: AtomicBool,
    /// A client has seen something that is not right: the run need not go on.
    pub(super) is_wrong: AtomicBool,
    /// What that was.
    pub(super) wrong: Mutex<Vec<String>>,
    /// No requests are to be sent for now.
    pub(super) hold: AtomicBool,
    /// How many octets more a modification has.
    pub(super) padding: AtomicUsize,
    /// Whether a disk may be full, and writes refused for it.
    pub(super) may_be_full: bool,
    /// A release may lead that leaves names of deleted entries in groups.
    pub(super) may_dangle: bool,
    /// The node that applies nothing any more, and hands on what it is asked for.
    pub(super) stuck: AtomicUsize,
    pub(super) acknowledged: AtomicU64,
    pub(super) gap: Mutex<Gap>,
    /// The accounts of clients that send nothing while they are held, by number.
    pub(super) shown: Mutex<BTreeMap<usize, Account>>,
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
    /// When it was added.
    pub(super) span: Option<Span>,
}

/// From when a request was sent until its answer was there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Span {
    pub(super) asked: Instant,
    pub(super) answered: Instant,
}

/// What came of one client.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// By name; without those that are deleted again. What is not in here must not be there.
    pub(super) written: BTreeMap<String, Written>,
    /// Who was added to the client's group and not deleted since; whether that is certain. What is
    /// not in here must not be there.
    pub(super) members: BTreeMap<String, bool>,
    /// How many were deleted again.
    pub(super) deleted: u64,
    /// Answers by result code.
    pub(super) codes: BTreeMap<i64, u64>,
    /// Requests whose connection was gone or that nobody answered.
    pub(super) unanswered: u64,
    /// Reads at a node that applies nothing any more which showed less than its connection had.
    pub(super) stale: u64,
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

    /// Forgets what came after it was as it was `before`.
    pub(super) fn leave_out(&mut self, before: Self) {
        *self = Self { last: now(), longest: before.longest };
    }
}

impl Shared {
    pub(super) fn new(doors: Vec<Door>, may_be_full: bool, may_dangle: bool) -> Self {
        Self {
            doors: RwLock::new(doors),
            stop: AtomicBool::new(false),
            is_wrong: AtomicBool::new(false),
            wrong: Mutex::default(),
            hold: AtomicBool::new(false),
            padding: AtomicUsize::new(0),
            may_be_full,
            may_dangle,
            stuck: AtomicUsize::new(NOBODY),
            acknowledged: AtomicU64::new(0),
            gap: Mutex::new(Gap::new()),
            shown: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_held(&self) -> bool {
        self.hold.load(Ordering::SeqCst) && !self.is_over()
    }

    /// Tells where the nodes are from now on.
    pub(super) fn move_to(&self, doors: Vec<Door>) {
        *self.doors.write().unwrap_or_else(PoisonError::into_inner) = doors;
    }

    /// Where the node is whose turn it is, and which one that is.
    fn door(&self, turn: usize) -> Option<(usize, Door)> {
        let doors = self.doors.read().unwrap_or_else(PoisonError::into_inner);
        let which = turn.checked_rem(doors.len())?;
        Some((which, doors.get(which)?.clone()))
    }

    fn is_home(&self, number: usize, door: usize) -> bool {
        self.door(number).is_some_and(|(home, _)| home == door)
    }

    /// The accounts of clients that are held.
    pub(super) fn shown(&self) -> MutexGuard<'_, BTreeMap<usize, Account>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one client until it is told to stop.
pub(super) fn run(number: usize, shared: &Arc<Shared>, chance: Chance) -> Account {
    let mut load = Load::new(number, Arc::clone(shared), chance);
    let mut turn = number;
    while !shared.is_over() {
        load.wait_while_held();
        let Some((which, door)) = shared.door(turn) else { break };
        match door.enter() {
            Ok(mut client) => {
                load.door = which;
                let is_home = shared.is_home(number, which);
                let requests = if is_home { HOME_REQUESTS } else { AWAY_REQUESTS };
                if load.write(&mut client, requests) {
                    turn = number;
                } else {
                    turn += 1;
                }
            }
            // That one is not there now, or does not sign anybody in yet.
            Err(_) => {
                turn += 1;
                pause(RETRY_AFTER);
            }
        }
    }
    load.account
}

/// A client, and what it was answered.
pub(super) struct Load {
    number: usize,
    shared: Arc<Shared>,
    chance: Chance,
    pub(super) account: Account,
    serial: u64,
    /// The node it is connected to.
    door: usize,
    /// The entry whose number is raised.
    counting: Option<String>,
    /// Its group is there.
    has_group: bool,
    /// The entry that is to be a member of the group.
    joining: Option<String>,
    /// Entries that it wanted to add and has not deleted, in that order.
    kept: VecDeque<String>,
    /// What this connection has shown.
    seen: Option<Seen>,
}

/// The highest number of an entry that one connection has acknowledged or shown: it must not show
/// a lower one any more.
struct Seen {
    dn: String,
    count: u64,
}

/// What a client asks for, and what must be answered if the cluster decides it.
enum Step {
    Add,
    /// Its group, without members.
    AddGroup,
    /// An entry becomes a member of the group.
    Join(String),
    /// An entry without an attribute that it must have.
    AddIncomplete,
    /// An entry that is there.
    AddAgain(String),
    Count(String),
    Read(String),
    /// The oldest entry, so that a long run has no more of them than a short one.
    Delete(String),
}

impl Load {
    pub(super) fn new(number: usize, shared: Arc<Shared>, chance: Chance) -> Self {
        Self {
            number,
            shared,
            chance,
            account: Account::default(),
            serial: 0,
            door: NOBODY,
            counting: None,
            has_group: false,
            joining: None,
            kept: VecDeque::new(),
            seen: None,
        }
    }

    /// Adds an entry; the code of the answer.
    pub(super) fn probe(&mut self, client: &mut Client) -> Result<i64, ClientError> {
        let outcome = self.add(client, true);
        if matches!(outcome, Ok(SUCCESS)) {
            self.acknowledge();
        }
        outcome
    }

    /// Sends so many requests, or until the connection is gone; whether it is still there.
    fn write(&mut self, client: &mut Client, requests: u32) -> bool {
        self.seen = None;
        for _ in 0..requests {
            self.wait_while_held();
            if self.shared.is_over() {
                break;
            }
            let step = self.next();
            let done = match step {
                Step::Add => self.add(client, true),
                Step::AddGroup => self.add_group(client),
                Step::Join(dn) => self.join(client, dn),
                Step::AddIncomplete => self.add(client, false),
                Step::AddAgain(dn) => self.add_again(client, dn),
                Step::Count(dn) => self.count(client, dn),
                Step::Delete(dn) => self.delete(client, dn),
                Step::Read(dn) => {
                    match self.read(client, &dn) {
                        Ok(()) => continue,
                        Err(ClientError::Gone(_) | ClientError::Late) => return false,
                        Err(error) => self.fault(format!("read of {dn}: {error}")),
                    }
                    return false;
                }
            };
            match done {
                Ok(SUCCESS) => self.acknowledge(),
                // Whoever asks again at once only takes time from those that elect.
                Ok(BUSY | UNAVAILABLE | OTHER | NO_ROOM) => pause(RETRY_AFTER),
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

    /// Waits while no requests are to be sent, and shows its account meanwhile.
    fn wait_while_held(&self) {
        while self.shared.is_held() {
            self.shared.shown().insert(self.number, self.account.clone());
            while self.shared.is_held() {
                pause(RETRY_AFTER);
            }
            // Whoever holds the clients again now finds the account as it is.
            self.shared.shown().remove(&self.number);
        }
    }

    fn next(&mut self) -> Step {
        if !self.has_group {
            return Step::AddGroup;
        }
        if let Some(dn) = self.joining.take() {
            return Step::Join(dn);
        }
        if let Some(dn) = self.oldest() {
            return Step::Delete(dn);
        }
        match (self.counting.clone(), self.chance.below(STEPS)) {
            (None, _) => Step::Add,
            (Some(dn), 0) => Step::AddAgain(dn),
            (_, 1) => Step::AddIncomplete,
            (Some(dn), 2 | 3) => Step::Read(dn),
            (Some(dn), drawn) if drawn < STEPS / 2 => Step::Count(dn),
            (Some(_), _) => Step::Add,
        }
    }

    /// What is to be deleted, if there are too many.
    fn oldest(&mut self) -> Option<String> {
        while self.kept.len() > KEPT_MAX {
            let dn = self.kept.pop_front()?;
            let written = self.account.written.get(&dn)?;
            match written.fate {
                Fate::Acknowledged if written.unknown.is_none() => return Some(dn),
                // What nobody has added must not be there: that needs no note.
                Fate::Refused => drop(self.account.written.remove(&dn)),
                // It is not written again.
                Fate::Acknowledged | Fate::Unknown => {}
            }
        }
        None
    }

    fn acknowledge(&self) {
        self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.shared.gap.lock().unwrap_or_else(PoisonError::into_inner).acknowledged();
    }

    fn fault(&mut self, what: String) {
        if self.account.faults.len() < FAULTS_MAX {
            let what = format!("client {}: {what}", self.number);
            let wrong = self.shared.wrong.lock();
            wrong.unwrap_or_else(PoisonError::into_inner).push(what.clone());
            self.account.faults.push(what);
        }
        self.shared.is_wrong.store(true, Ordering::Relaxed);
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
        let asked = now();
        let outcome = self.call(client, &addition(&dn, &uid, complete));
        let span = Some(Span { asked, answered: now() });
        let fate = match outcome {
            Ok(SUCCESS) => Fate::Acknowledged,
            Ok(OTHER) | Err(_) => Fate::Unknown,
            Ok(_) => Fate::Refused,
        };
        let can_count = complete && fate == Fate::Acknowledged;
        if can_count && (self.counting.is_none() || self.chance.once_in(COUNTED_EVERY)) {
            self.counting = Some(dn.clone());
        }
        if can_count && self.has_group {
            self.joining = Some(dn.clone());
        }
        match outcome {
            Ok(SUCCESS) if !complete => self.fault(format!("an incomplete entry was added: {dn}")),
            Ok(CLASS_VIOLATION) if !complete => {}
            Ok(code) => self.expect(code, "add", &dn),
            Err(_) => {}
        }
        self.kept.push_back(dn.clone());
        self.account.written.insert(dn, Written { fate, count: 0, unknown: None, span });
        outcome
    }

    fn add_group(&mut self, client: &mut Client) -> Result<i64, ClientError> {
        let dn = group_dn(self.number);
        let mut attributes = Attributes::new();
        attributes.insert("objectClass".to_owned(), ["groupOfEntries".to_owned()].into());
        let outcome = self.call(client, &Request::Add { dn: dn.clone(), attributes });
        match outcome {
            // It was asked for before, and nobody knew what came of that.
            Ok(SUCCESS | ALREADY_EXISTS) => self.has_group = true,
            Ok(code) => self.expect(code, "add", &dn),
            Err(_) => {}
        }
        outcome
    }

    fn join(&mut self, client: &mut Client, member: String) -> Result<i64, ClientError> {
        let dn = group_dn(self.number);
        let changes = vec![change(ChangeKind::Add, MEMBER, member.clone())];
        let outcome = self.call(client, &Request::Modify { dn: dn.clone(), changes });
        match outcome {
            Ok(SUCCESS) => drop(self.account.members.insert(member, true)),
            Ok(OTHER) | Err(_) => drop(self.account.members.insert(member, false)),
            Ok(code) => self.expect(code, "add a member", &dn),
        }
        outcome
    }

    fn add_again(&mut self, client: &mut Client, dn: String) -> Result<i64, ClientError> {
        let outcome = self.call(client, &addition(&dn, "again", true));
        match outcome {
            Ok(SUCCESS) => self.fault(format!("an acknowledged entry was not there: {dn}")),
            Ok(ALREADY_EXISTS) | Err(_) => {}
            Ok(code) => self.expect(code, "add again", &dn),
        }
        if matches!(outcome, Ok(OTHER) | Err(_)) {
            self.counting = None;
            // It may be decided much later: were the entry gone by then, it would be there again.
            self.kept.retain(|kept| *kept != dn);
        }
        outcome
    }

    fn count(&mut self, client: &mut Client, dn: String) -> Result<i64, ClientError> {
        let count = self.account.written.get(&dn).map_or(0, |written| written.count) + 1;
        // Refused where the number that was acknowledged last is lost.
        let mut changes = vec![
            change(ChangeKind::Delete, COUNTER, (count - 1).to_string()),
            change(ChangeKind::Add, COUNTER, count.to_string()),
        ];
        let padding = self.shared.padding.load(Ordering::Relaxed);
        if padding > 0 {
            changes.push(change(ChangeKind::Replace, "description", self.padding(padding)));
        }
        let outcome = self.call(client, &Request::Modify { dn: dn.clone(), changes });
        if let Some(written) = self.account.written.get_mut(&dn) {
            match outcome {
                Ok(SUCCESS) => {
                    written.count = count;
                    self.seen = Some(Seen { dn: dn.clone(), count });
                }
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

    /// Deletes an entry that was acknowledged: it must be there, with the number that it has.
    fn delete(&mut self, client: &mut Client, dn: String) -> Result<i64, ClientError> {
        if self.counting.as_ref() == Some(&dn) {
            self.counting = None;
        }
        if self.account.written.get(&dn).is_some_and(|written| written.count > 0) {
            let counted = self.count(client, dn.clone());
            if !matches!(counted, Ok(SUCCESS)) {
                self.kept.push_front(dn);
                return counted;
            }
            self.acknowledge();
        }
        let outcome = self.call(client, &Request::Delete { dn: dn.clone() });
        match outcome {
            Ok(SUCCESS) => {
                self.account.written.remove(&dn);
                // One whose addition may be decided later may be there again, as a name.
                let is_certain =
                    self.account.members.get(&dn).is_some_and(|is_certain| *is_certain);
                if is_certain && self.shared.may_dangle {
                    self.account.members.insert(dn.clone(), false);
                } else if is_certain {
                    self.account.members.remove(&dn);
                }
                self.account.deleted += 1;
            }
            Ok(OTHER) | Err(_) => {
                if let Some(written) = self.account.written.get_mut(&dn) {
                    written.fate = Fate::Unknown;
                }
                if let Some(is_certain) = self.account.members.get_mut(&dn) {
                    *is_certain = false;
                }
            }
            Ok(_) => self.kept.push_front(dn.clone()),
        }
        if let Ok(code) = outcome {
            self.expect(code, "delete", &dn);
        }
        outcome
    }

    /// A text of so many octets, without order in it: it must not get smaller on the disk.
    fn padding(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 16);
        while text.len() < length {
            text.push_str(&format!("{:016x}", self.chance.draw()));
        }
        text
    }

    /// Reads the number of an entry: it must be one that was written, and not lower than what this
    /// connection has shown of it.
    fn read(&mut self, client: &mut Client, dn: &str) -> Result<(), ClientError> {
        let search = Search {
            base: dn.to_owned(),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: vec![COUNTER.to_owned()],
        };
        let found = client.search(&search)?;
        let values = found.entries.first().and_then(|(_, attributes)| attributes.get(COUNTER));
        let read = values.and_then(|values| values.first()?.parse::<u64>().ok());
        let seen = self.seen.as_ref().filter(|seen| seen.dn == dn).map(|seen| seen.count);
        let last = self.account.written.get(dn).map_or(0, |written| written.count);
        match (found.code, read) {
            (BUSY | UNAVAILABLE, _) => {}
            (SUCCESS, Some(read)) if read <= last && seen.is_none_or(|seen| read >= seen) => {
                self.seen = Some(Seen { dn: dn.to_owned(), count: read });
            }
            (SUCCESS, Some(read)) if read <= last && self.is_stuck() => self.account.stale += 1,
            (NO_SUCH_OBJECT, _) if self.is_stuck() => self.account.stale += 1,
            // This node may not have it yet.
            (NO_SUCH_OBJECT, _) if seen.is_none() => {}
            (code, read) => self.fault(format!(
                "read of {dn}: answered {code} with {read:?}; written {last}, seen {seen:?}"
            )),
        }
        Ok(())
    }

    fn is_stuck(&self) -> bool {
        self.shared.stuck.load(Ordering::Relaxed) == self.door
    }

    /// Nothing else can be answered to a request that is right.
    fn expect(&mut self, code: i64, what: &str, dn: &str) {
        let is_full = code == NO_ROOM && self.shared.may_be_full;
        if ![SUCCESS, OTHER, BUSY, UNAVAILABLE].contains(&code) && !is_full {
            self.fault(format!("{what}: {dn}: answered {code}"));
        }
    }
}

fn change(kind: ChangeKind, attribute: &str, value: String) -> Change {
    Change { kind, attribute: attribute.to_owned(), values: vec![value] }
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

/// The name of the group of a client.
pub(super) fn group_dn(number: usize) -> String {
    format!("cn=group {number},ou=people,{SUFFIX}")
}

/// The place of no node.
pub(super) const NOBODY: usize = usize::MAX;
/// The attribute in which a client counts.
pub(super) const COUNTER: &str = "employeeNumber";
/// The attribute that names the members of a group.
pub(super) const MEMBER: &str = "member";
/// RFC 4511 §4.1.9: success.
pub(super) const SUCCESS: i64 = 0;
/// Result code: noSuchObject.
const NO_SUCH_OBJECT: i64 = 32;
/// Result code: busy.
pub(super) const BUSY: i64 = 51;
/// Result code: unavailable.
pub(super) const UNAVAILABLE: i64 = 52;
/// Result code: unwillingToPerform, where there is no room on the disk.
pub(super) const NO_ROOM: i64 = 53;
/// Result code: objectClassViolation.
const CLASS_VIOLATION: i64 = 65;
/// Result code: entryAlreadyExists.
const ALREADY_EXISTS: i64 = 68;
/// Result code: other. What was asked for may be done or not.
pub(super) const OTHER: i64 = 80;
/// Requests of one connection at the node where a client began.
const HOME_REQUESTS: u32 = 100;
/// Requests at another node, before it goes back: else all gather at the one that came back first.
const AWAY_REQUESTS: u32 = 5;
/// One request in so many is one that must be refused, of each of two kinds; about half count.
const STEPS: u64 = 20;
/// One added entry in so many is the next to count in.
const COUNTED_EVERY: u64 = 20;
/// Entries that a client has at most, but for those of which nobody knows.
const KEPT_MAX: usize = 500;
/// A client that was not served waits so long.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// Faults told in full of one client.
const FAULTS_MAX: usize = 10;
