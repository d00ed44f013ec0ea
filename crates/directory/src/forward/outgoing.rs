//! Updates that this node has handed on, until they are answered.
//!
//! Of each connection one is under way at a time, so that they are decided in their order; the next
//! one leaves when it is answered. Where nobody decides, or the answer was lost, an update is sent
//! again with the same id, until the time for it is over. That begins when it comes, and again
//! whenever the node that decides answers the one before it.
//!
//! Invariant: none overtakes an update of the same connection that came before it, also not one
//! that this node was to decide, and gives up with the lead.
//! Invariant: each is answered exactly once, and what may have happened is never called a failure.
//! Invariant: what waits here is bounded in requests and in octets, over all and for each who asks;
//! what is on its way is as `window.rs` says.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, after, bounded, never, select};
use environment::Clock;
use history::log::{CommitError, CommitLog, NotNow, ReadLevel, Role, RoleWatcher};
use history::record::RecordHead;
use ldap::dn::Dn;
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;
use ldap::url::LdapUrl;
use rustc_hash::FxHashMap;
use store::Lsn;
use zeroize::Zeroizing;

use super::answer::{Answered, ForwardedAnswer};
use super::forwarder::{ForwardError, Forwarder, OTHER_VERSION, REQUEST_MAX_BYTES};
use super::known_requests::KnownRequests;
use super::line::{Line, Place};
use super::octets::Unreadable;
use super::request::Forwardable;
use super::window::Window;
use crate::request::asker_bytes::{AskerBytes, SMALL_BYTES};
use crate::request::asker_queues::Asker;
use crate::request::cancel::{Cancel, Ending};
use crate::request::completion::{Completion, WriteDone};
use crate::request::limits::Limits;
use crate::request::outbox::{Post, To, refused};
use crate::request::refusal::Refusal;

/// An update that is handed on.
pub(crate) struct Outgoing {
    pub(crate) forwardable: Forwardable,
    pub(crate) id: MessageId,
    pub(crate) operation: OperationKind,
    pub(crate) cancel: Cancel,
    pub(crate) to: To,
    /// Whether it is too late to cancel it.
    pub(crate) is_begun: bool,
    /// Whoever was asked first may have carried it out.
    pub(crate) may_have_happened: bool,
}

impl Outgoing {
    /// Who asks, and octets on the way.
    fn size(&self) -> (Asker, usize) {
        (self.forwardable.asker, self.forwardable.request.len())
    }
}

/// What the other node has answered, if anything.
type Heard = Result<Zeroizing<Vec<u8>>, ForwardError>;

/// An update under way, and how long it is tried.
struct Underway {
    outgoing: Outgoing,
    until: Duration,
    /// Octets that are counted for it.
    held_bytes: usize,
    /// The node that decides has answered it.
    is_heard: bool,
}

/// How updates are handed on.
pub(crate) struct ForwardingOptions<'o> {
    pub(crate) limits: &'o Limits,
    /// Clients are told who decides instead.
    pub(crate) refers: bool,
    pub(crate) known: Arc<KnownRequests>,
}

/// Hands updates on, and waits for the answers.
pub(crate) struct Forwarding {
    forwarder: Arc<dyn Forwarder>,
    log: Arc<dyn CommitLog>,
    clock: Arc<dyn Clock>,
    /// What this node is, as it was told last.
    role: Arc<ArcSwap<Role>>,
    refers: bool,
    wait_max: Duration,
    requests_max: usize,
    asker_requests_max: usize,
    /// How many are not answered.
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
    bell: Sender<()>,
    /// The role is another one since the thread looked.
    has_new_role: Arc<AtomicBool>,
    known: Arc<KnownRequests>,
}

struct Waiting {
    /// Of each connection that has updates, those decided here included.
    lines: FxHashMap<u64, Line<Underway>>,
    of_askers: FxHashMap<Asker, usize>,
    bytes: AskerBytes,
    /// To be sent by the thread: they were behind others.
    ready: Vec<Underway>,
    window: Window<Underway>,
    /// They have waited in the window, and may go.
    let_in: Vec<Underway>,
    /// To be sent again after a while.
    again: Vec<Underway>,
    /// Answered, and not applied here yet: in the order in which they were answered.
    applying: BTreeMap<u64, Applying>,
    /// How many were ever among them.
    answered: u64,
    is_closed: bool,
}

/// An answer that waits until this node has applied what it tells of.
struct Applying {
    until: Duration,
    underway: Underway,
    done: WriteDone,
}

impl Forwarding {
    /// Starts the thread that sends again; it ends when this is dropped.
    pub(crate) fn start(
        forwarder: Arc<dyn Forwarder>,
        log: &Arc<dyn CommitLog>,
        clock: &Arc<dyn Clock>,
        options: ForwardingOptions<'_>,
    ) -> Arc<Self> {
        let ForwardingOptions { limits, refers, known } = options;
        let (bell, rung) = bounded(1);
        let role = Arc::new(ArcSwap::from_pointee(Role::Following { leader: None }));
        let has_new_role = Arc::<AtomicBool>::default();
        let (told, is_new, ring) = (Arc::clone(&role), Arc::clone(&has_new_role), bell.clone());
        log.watch(Box::new(move |role| {
            told.store(Arc::new(role.clone()));
            is_new.store(true, Ordering::Release);
            let _ = ring.try_send(());
        }));
        let waiting = Waiting {
            lines: FxHashMap::default(),
            of_askers: FxHashMap::default(),
            bytes: AskerBytes::new(limits.write_queue_max_bytes),
            ready: Vec::new(),
            window: Window::new(),
            let_in: Vec::new(),
            again: Vec::new(),
            applying: BTreeMap::new(),
            answered: 0,
            is_closed: false,
        };
        let forwarding = Arc::new(Self {
            forwarder,
            log: Arc::clone(log),
            clock: Arc::clone(clock),
            role,
            refers,
            wait_max: limits.forward_wait_max,
            requests_max: limits.write_queue_max,
            asker_requests_max: limits.write_queue_asker_max,
            count: AtomicUsize::new(0),
            waiting: Mutex::new(waiting),
            bell,
            has_new_role,
            known,
        });
        let weak = Arc::downgrade(&forwarding);
        thread::Builder::new()
            .name("forward".to_owned())
            .spawn(move || serve(&weak, &rung))
            .expect("a process that starts can start one more thread");
        forwarding
    }

    /// The requests that were carried out.
    pub(crate) fn known(&self) -> &Arc<KnownRequests> {
        &self.known
    }

    /// The last record that is visible here.
    pub(crate) fn applied(&self) -> Lsn {
        self.log.applied()
    }

    /// What a record says that is visible here; none where it is not kept any more.
    pub(crate) fn record(&self, lsn: Lsn) -> Option<RecordHead> {
        let record = self.log.tail(lsn).ok()?.next_within(Duration::ZERO).ok()??;
        RecordHead::read(&record.bytes).ok()
    }

    /// What this node is to its log.
    pub(crate) fn role(&self) -> Arc<Role> {
        self.role.load_full()
    }

    /// Whether another node decides, or nobody.
    pub(crate) fn hands_on(&self) -> bool {
        matches!(&**self.role.load(), Role::Following { .. } | Role::Alone)
    }

    /// Has `watcher` told what this node is, now and whenever that changes.
    pub(crate) fn watch(&self, watcher: RoleWatcher) {
        self.log.watch(watcher);
    }

    /// Whether an update of this connection is to be handed on: another node decides, or updates of
    /// the connection that were handed on are to come before it.
    pub(crate) fn takes(&self, session: u64) -> bool {
        match &**self.role.load() {
            Role::Following { .. } | Role::Alone => true,
            // A log that failed is for its operator: the reason is told.
            Role::Deciding(_) | Role::Failed(_) => {
                self.count.load(Ordering::Acquire) > 0
                    && self.lock().lines.get(&session).is_some_and(Line::is_handed_on)
            }
        }
    }

    /// An update of this connection is decided here: what comes after it and is handed on waits for
    /// it.
    pub(crate) fn turn(self: &Arc<Self>, session: u64) -> Turn {
        let place = self.lock().lines.entry(session).or_default().enter();
        Turn { forwarding: Arc::clone(self), session, place, is_over: false }
    }

    /// What a client is told instead of handing on its update of the entry `name`, where settings
    /// say so.
    pub(crate) fn referral(&self, name: Option<&str>) -> Option<Refusal> {
        if !self.refers {
            return None;
        }
        Some(match &*self.role() {
            Role::Following { leader: Some(leader) } => Refusal {
                referrals: vec![naming(leader, name)],
                ..Refusal::new(ResultCode::Referral, "another server takes the writes")
            },
            Role::Following { leader: None } | Role::Alone | Role::Deciding(_) => {
                (&CommitError::NoQuorum).into()
            }
            Role::Failed(reason) => (&CommitError::Fatal(reason.clone())).into(),
        })
    }

    /// Hands on an update of a client; where too much is under way it is refused.
    pub(crate) fn submit(self: &Arc<Self>, outgoing: Outgoing) {
        let octets = outgoing.forwardable.request.len();
        if octets > REQUEST_MAX_BYTES {
            let why = "the request is too large to be handed to the server that takes the writes";
            return answer(outgoing, &Refusal::new(ResultCode::AdminLimitExceeded, why));
        }
        let held_bytes = if octets > SMALL_BYTES { octets } else { 0 };
        let admitted = self.lock().admit(self, outgoing.forwardable.asker, held_bytes);
        if let Err(refusal) = admitted {
            return answer(outgoing, &refusal);
        }
        self.begin(outgoing, held_bytes, None);
    }

    /// Hands on an update that was taken already, and is not decided here after all.
    pub(crate) fn take_over(self: &Arc<Self>, mut outgoing: Outgoing) {
        let turn = outgoing.forwardable.turn.take();
        let mut waiting = self.lock();
        if waiting.is_closed {
            drop(waiting);
            return answer(outgoing, &Refusal::shutting_down());
        }
        waiting.count(outgoing.forwardable.asker);
        drop(waiting);
        self.begin(outgoing, 0, turn);
    }

    fn begin(self: &Arc<Self>, outgoing: Outgoing, held_bytes: usize, turn: Option<Turn>) {
        self.count.fetch_add(1, Ordering::AcqRel);
        let until = self.clock.elapsed() + self.wait_max;
        let session = outgoing.forwardable.session;
        let underway = Underway { outgoing, until, held_bytes, is_heard: false };
        let mut waiting = self.lock();
        let line = waiting.lines.entry(session).or_default();
        let next = match turn {
            Some(turn) => line.give_up(turn.over(), underway),
            None => line.join(underway),
        };
        drop(waiting);
        if let Some(next) = next {
            self.send(next);
        }
    }

    /// Sends one, as soon as there is room for it on the way.
    fn send(self: &Arc<Self>, underway: Underway) {
        let (asker, octets) = underway.outgoing.size();
        let entered = self.lock().window.enter(asker, octets, underway);
        if let Some(underway) = entered {
            self.ask(underway);
        }
    }

    /// Sends one that has room on the way, unless its client has given it up.
    fn ask(self: &Arc<Self>, underway: Underway) {
        let (asker, octets) = underway.outgoing.size();
        let within = underway.until.saturating_sub(self.clock.elapsed());
        let Some(underway) = self.wanted(underway) else {
            return self.leave(asker, octets, false);
        };
        if let Role::Failed(reason) = &**self.role.load() {
            // What it did elsewhere would not be seen here.
            let refusal = match underway.outgoing.may_have_happened {
                true => unknown(),
                false => (&CommitError::Fatal(reason.clone())).into(),
            };
            self.leave(asker, octets, false);
            return self.refuse(underway, refusal);
        }
        let request = underway.outgoing.forwardable.request.clone();
        let this = Arc::clone(self);
        let heard = Box::new(move |heard| this.heard(underway, heard));
        self.forwarder.forward(request, within, heard);
    }

    /// One is not on its way any more; whether it was answered. Others have room for that.
    fn leave(&self, asker: Asker, octets: usize, is_heard: bool) {
        let mut waiting = self.lock();
        let mut let_in = waiting.window.leave(asker, octets);
        if let_in.is_empty() {
            return;
        }
        // They have waited for this answer, and not for somebody who decides.
        let until = self.clock.elapsed() + self.wait_max;
        for one in let_in.iter_mut().filter(|one| is_heard && !one.outgoing.is_begun) {
            one.until = until;
        }
        waiting.let_in.append(&mut let_in);
        drop(waiting);
        self.ring();
    }

    /// The update, if its client has not given it up; from here on it is too late for that. One
    /// that was given up is answered so.
    fn wanted(self: &Arc<Self>, mut underway: Underway) -> Option<Underway> {
        let outgoing = &mut underway.outgoing;
        if outgoing.is_begun {
            return Some(underway);
        }
        match outgoing.cancel.decide() {
            Ending::Own => {
                outgoing.is_begun = true;
                return Some(underway);
            }
            Ending::Abandoned => {
                let completion = Completion::of(outgoing.id, Some(outgoing.operation));
                self.end(underway, WriteDone { bytes: Vec::new(), completion });
            }
            Ending::Canceled => self.refuse(underway, Refusal::new(ResultCode::Canceled, "")),
        }
        None
    }

    /// Takes what the other node says, or that it says nothing.
    fn heard(self: &Arc<Self>, mut underway: Underway, heard: Heard) {
        let said = match heard {
            Ok(octets) => ForwardedAnswer::decode(&octets).unwrap_or_else(unreadable),
            Err(ForwardError::NotSent) => ForwardedAnswer::NotDeciding { leader: None },
            Err(ForwardError::Unknown) => ForwardedAnswer::Unknown,
        };
        let may_have_happened = underway.outgoing.may_have_happened;
        let (asker, octets) = underway.outgoing.size();
        self.leave(asker, octets, said.is_of_one_who_decides());
        match said {
            ForwardedAnswer::Answered(answered) => {
                let lsn = answered.lsn;
                let done = done(&underway.outgoing, answered);
                // A server that ends or fails has done nothing of it, and another may decide soon.
                // One that is full says nothing of what whoever was asked first may still do.
                if has_code(&done, ResultCode::Unavailable)
                    || may_have_happened && has_code(&done, ResultCode::Busy)
                {
                    return self.again(underway);
                }
                underway.is_heard = true;
                self.wait_until_applied(underway, lsn, done);
            }
            ForwardedAnswer::NotDeciding { .. } => self.again(underway),
            ForwardedAnswer::Refused { .. } if may_have_happened => self.again(underway),
            ForwardedAnswer::Refused { code, diagnostic } => {
                underway.is_heard = true;
                self.refuse(underway, Refusal::new(code, diagnostic));
            }
            ForwardedAnswer::Unknown => {
                underway.outgoing.may_have_happened = true;
                self.again(underway);
            }
        }
    }

    /// Has it sent again after a while, or gives it up.
    fn again(self: &Arc<Self>, underway: Underway) {
        let mut waiting = self.lock();
        if waiting.is_closed || self.clock.elapsed() >= underway.until {
            let is_closed = waiting.is_closed;
            drop(waiting);
            let Some(underway) = self.wanted(underway) else { return };
            let refusal = match underway.outgoing.may_have_happened {
                true => unknown(),
                false if is_closed => Refusal::shutting_down(),
                false => (&CommitError::NoQuorum).into(),
            };
            return self.refuse(underway, refusal);
        }
        waiting.again.push(underway);
        self.ring();
    }

    /// Answers when this node has applied the change that the answer tells of. Where it takes too
    /// long the answer is as true; where this node applies nothing any more it would be no success
    /// that the client could see here.
    fn wait_until_applied(self: &Arc<Self>, underway: Underway, lsn: Lsn, done: WriteDone) {
        if self.log.applied() >= lsn {
            return self.end(underway, done);
        }
        let mut waiting = self.lock();
        let is_first = waiting.applying.is_empty();
        waiting.answered += 1;
        let number = waiting.answered;
        // With the lock held: none ends its wait before one that was answered before it.
        let until = self.clock.elapsed() + self.wait_max;
        waiting.applying.insert(number, Applying { until, underway, done });
        drop(waiting);
        if is_first {
            self.ring();
        }
        let this = Arc::clone(self);
        let applied = move |outcome: Result<Lsn, NotNow>| {
            let applying = this.lock().applying.remove(&number);
            if let Some(Applying { underway, done, .. }) = applying {
                this.end_unapplied(underway, done, outcome.is_err());
            }
        };
        self.log.barrier(ReadLevel::AtLeast(lsn), Box::new(applied));
    }

    /// As [`Self::end`]; a success that this node never applies, because its log has failed, is
    /// told as an outcome that is not known.
    fn end_unapplied(self: &Arc<Self>, underway: Underway, done: WriteDone, is_unapplied: bool) {
        let has_failed = matches!(&**self.role.load(), Role::Failed(_));
        if is_unapplied && has_failed && has_code(&done, ResultCode::Success) {
            return self.refuse(underway, unapplied());
        }
        self.end(underway, done);
    }

    fn refuse(self: &Arc<Self>, underway: Underway, refusal: Refusal) {
        let which = (underway.outgoing.id, Some(underway.outgoing.operation));
        self.end(underway, refused(which, refusal));
    }

    /// Sends the answer; the next one of the connection may leave.
    fn end(self: &Arc<Self>, underway: Underway, done: WriteDone) {
        let Underway { outgoing, held_bytes, until, is_heard } = underway;
        let Forwardable { session, asker, .. } = outgoing.forwardable;
        Post::default().send(outgoing.to, done);
        let mut waiting = self.lock();
        waiting.release(asker, held_bytes);
        self.count.fetch_sub(1, Ordering::AcqRel);
        // What comes after it has waited for its answer, and not for somebody who decides.
        let until = if is_heard { self.clock.elapsed() + self.wait_max } else { until };
        self.go_on(waiting, session, |line| {
            let next = line.answered()?;
            Some(Underway { until: next.until.max(until), ..next })
        });
    }

    /// One of a connection is answered: the next one may leave.
    fn go_on(
        &self,
        mut waiting: MutexGuard<'_, Waiting>,
        session: u64,
        next: impl FnOnce(&mut Line<Underway>) -> Option<Underway>,
    ) {
        let Some(line) = waiting.lines.get_mut(&session) else { return };
        let next = next(line);
        if line.is_empty() {
            waiting.lines.remove(&session);
        }
        // Not from here: many in a line would each be sent by the one before.
        if let Some(next) = next {
            waiting.ready.push(next);
            drop(waiting);
            self.ring();
        }
    }

    fn ring(&self) {
        let _ = self.bell.try_send(());
    }

    /// Sends what is to be sent now, and ends what has waited too long; whether more waits.
    fn round(self: &Arc<Self>, sends_again: bool) -> bool {
        let sends_again = self.has_new_role.swap(false, Ordering::AcqRel) || sends_again;
        let now = self.clock.elapsed();
        let mut waiting = self.lock();
        let mut to_send = std::mem::take(&mut waiting.ready);
        if sends_again || waiting.is_closed {
            to_send.append(&mut waiting.again);
        }
        let is_closed = waiting.is_closed;
        let mut late = Vec::new();
        while let Some(first) = waiting.applying.first_entry()
            && (is_closed || first.get().until <= now)
        {
            late.push(first.remove());
        }
        let let_in = std::mem::take(&mut waiting.let_in);
        if is_closed {
            to_send.append(&mut waiting.window.give_up());
        }
        drop(waiting);
        for Applying { underway, done, .. } in late {
            self.end_unapplied(underway, done, true);
        }
        for underway in let_in {
            if is_closed || now >= underway.until {
                let (asker, octets) = underway.outgoing.size();
                self.leave(asker, octets, false);
                self.again(underway);
            } else {
                self.ask(underway);
            }
        }
        for underway in to_send {
            if is_closed || now >= underway.until {
                self.again(underway);
            } else {
                self.send(underway);
            }
        }
        let waiting = self.lock();
        !waiting.again.is_empty() || !waiting.applying.is_empty()
    }

    /// Nothing is handed on any more; what is not known to have happened is answered so.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.ring();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An update that this node decides, until it is answered or handed on.
pub(crate) struct Turn {
    forwarding: Arc<Forwarding>,
    session: u64,
    place: Place,
    is_over: bool,
}

impl Turn {
    /// Whether an update of the same connection that came before it is handed on: it has to follow.
    pub(crate) fn is_behind(&self) -> bool {
        let Self { forwarding, session, place, .. } = self;
        forwarding.count.load(Ordering::Acquire) > 0
            && forwarding.lock().lines.get(session).is_some_and(|line| line.is_behind(*place))
    }

    /// It is handed on in this place.
    fn over(mut self) -> Place {
        self.is_over = true;
        self.place
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            let Self { forwarding, session, place, .. } = &*self;
            forwarding.go_on(forwarding.lock(), *session, |line| line.answered_here(*place));
        }
    }
}

impl fmt::Debug for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarding").field("role", &self.role()).finish_non_exhaustive()
    }
}

impl Waiting {
    /// Counts one more, if there may be.
    fn admit(&mut self, of: &Forwarding, asker: Asker, octets: usize) -> Result<(), Refusal> {
        if self.is_closed {
            return Err(Refusal::shutting_down());
        }
        let own = self.of_askers.get(&asker).copied().unwrap_or(0);
        let is_full = match asker {
            Asker::Root => own >= of.requests_max,
            Asker::Entry(_) | Asker::Address(_) | Asker::Local => {
                own >= of.asker_requests_max
                    || (own > 0 && of.count.load(Ordering::Acquire) >= of.requests_max)
            }
        };
        if is_full {
            let why = "too many writes are waiting; try again";
            return Err(Refusal::new(ResultCode::Busy, why));
        }
        if octets > 0 && !self.bytes.hold(asker, octets) {
            return Err(Refusal::new(
                ResultCode::Busy,
                "large writes that wait take too much memory; try again when one is answered",
            ));
        }
        self.count(asker);
        Ok(())
    }

    fn count(&mut self, asker: Asker) {
        *self.of_askers.entry(asker).or_default() += 1;
    }

    fn release(&mut self, asker: Asker, octets: usize) {
        if octets > 0 {
            self.bytes.release(asker, octets);
        }
        if let Some(own) = self.of_askers.get_mut(&asker) {
            *own -= 1;
            if *own == 0 {
                self.of_askers.remove(&asker);
            }
        }
    }
}

/// What the thread does until there is nothing to hand on for any more.
fn serve(forwarding: &Weak<Forwarding>, rung: &Receiver<()>) {
    let (mut alarm, mut is_armed) = (never(), false);
    loop {
        let is_time = select! {
            recv(rung) -> ring => match ring {
                Ok(()) => false,
                Err(_) => return,
            },
            recv(alarm) -> _ => {
                (alarm, is_armed) = (never(), false);
                true
            }
        };
        let Some(forwarding) = forwarding.upgrade() else { return };
        if forwarding.round(is_time) && !is_armed {
            (alarm, is_armed) = (after(SEND_AGAIN_EVERY), true);
        }
    }
}

/// Answers one that is not under way.
fn answer(outgoing: Outgoing, refusal: &Refusal) {
    let which = (outgoing.id, Some(outgoing.operation));
    let refusal = if outgoing.may_have_happened { unknown() } else { refusal.clone() };
    Post::default().send(outgoing.to, refused(which, refusal));
}

/// The response as the client is sent it.
fn done(outgoing: &Outgoing, answered: Answered) -> WriteDone {
    let Answered { is_wrong_guess, policy, code, diagnostic, response: bytes, .. } = answered;
    let completion = Completion {
        code,
        diagnostic: diagnostic.into(),
        policy,
        is_wrong_guess,
        bytes: bytes.len() as u64,
        ..Completion::of(outgoing.id, Some(outgoing.operation))
    };
    WriteDone { bytes, completion }
}

/// What an answer says that cannot be read.
fn unreadable(error: Unreadable) -> ForwardedAnswer {
    if error == Unreadable::OTHER_VERSION {
        // The members' status and logs say which of them speaks what.
        let (code, diagnostic) = (ResultCode::Unavailable, OTHER_VERSION.to_owned());
        return ForwardedAnswer::Refused { code, diagnostic };
    }
    tracing::warn!(%error, "the node that decides has sent an answer that is none");
    ForwardedAnswer::Unknown
}

fn has_code(done: &WriteDone, code: ResultCode) -> bool {
    done.completion.code == Some(code)
}

/// A URL of another server, with the entry that a client is to ask it for.
fn naming(url: &str, name: Option<&str>) -> String {
    let (Ok(mut parsed), Some(Ok(name))) = (LdapUrl::parse(url), name.map(Dn::parse)) else {
        return url.to_owned();
    };
    parsed.dn = name;
    parsed.to_string()
}

/// The answer to a request of which nobody knows whether it has happened.
fn unknown() -> Refusal {
    Refusal::new(
        ResultCode::Other,
        "the outcome is unknown: the server that takes the writes did not answer; check whether it \
         happened before you try again",
    )
}

/// The answer to a request that was carried out where it is decided, and has no effect here.
fn unapplied() -> Refusal {
    Refusal::new(
        ResultCode::Other,
        "the outcome is unknown: the log of this server has failed, and it does not apply what the \
         server that takes the writes has carried out; check there whether it happened before you \
         try again",
    )
}

/// How long an update waits before it is sent again, where the role of this node stays as it is.
const SEND_AGAIN_EVERY: Duration = Duration::from_millis(50);
