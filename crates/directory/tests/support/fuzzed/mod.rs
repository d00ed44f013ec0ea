//! Whole sessions from octets: what a server does between the socket and `directory`, with any
//! requests in any order, and with peers and threads that fail.
//!
//! Always: an answer is a well-formed message that answers a request of its session, each request
//! is answered once or was given up, nothing stays outstanding, and no answer has a value that
//! nobody here may read.

mod requests;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use auth::password::{HashCosts, PasswordStorage, Scheme};
use directory::{
    AdminPassword, Directory, DirectoryOptions, Flow, GlobalAcis, HashJob, Job, Next, Part, Peer,
    Ran, Session, Tls, Worker,
};
use environment::{ManualClock, Timestamp};
use ldap::ber::{Frame, frame};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{
    AddRequest, AttributesBuf, Authentication, BindRequest, CompareRequest, Control, Controls,
    ControlsBuf, DecodeLimits, DeleteRequest, DerefAliases, ExtendedRequest, Message, MessageId,
    Modification, ModificationsBuf, ModifyDnRequest, ModifyOperation, ModifyRequest,
    PartialAttribute, Request, Response, Scope, SearchRequest, StringsBuf, ValuesBuf,
};
use ldap::result::ResultCode;
use tempfile::TempDir;

use requests::Choices;
use tree::{ADMIN_PASSWORD, ANNA, BERT, PASSWORD, ROOT_DN, SUFFIX, entries};

/// In values that nobody but the administrator may read, and in no input.
const MARKER: &[u8] = b"SECRETMARKER";

/// A directory, the threads that work on it, and what there is to ask for.
pub struct World {
    directory: Arc<Directory>,
    clock: Arc<ManualClock>,
    worker: Worker,
    pool: Worker,
    controls: Vec<String>,
    operations: Vec<String>,
    /// How often what was answered.
    pub told: BTreeMap<(&'static str, &'static str), usize>,
    /// Somebody cannot sign in any more.
    is_worn: bool,
    /// Requests since it was made: it grows with what is added.
    requests: usize,
    _data: TempDir,
}

/// One connection.
struct Speaker {
    session: Session,
    /// Requests that are to be answered.
    expected: HashMap<i32, usize>,
    /// Requests that may be answered: nobody knows what they were.
    possible: HashMap<i32, usize>,
    jobs: Vec<(Job, usize)>,
    hash: Option<Box<HashJob>>,
    writes: Vec<(MessageId, Receiver<Vec<u8>>)>,
    /// The message at hand is one of those.
    is_unread: bool,
    /// So often requests were given up.
    given_up: usize,
    next_id: i32,
    /// Of the last extended response, such as the name of a transaction.
    value: Vec<u8>,
    is_closed: bool,
}

impl World {
    /// A directory with people, groups, rules, a password policy, and what nobody may read.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix("sessions").tempdir_in(place).unwrap();
        let path = folder.path().join("data");
        let clock = Arc::new(ManualClock::at(Timestamp(1_767_225_600_000_000)));
        let suffix = Dn::parse(SUFFIX).unwrap();
        let storage = Scheme::Ssha.into();
        let admin = AdminPassword { clear: ADMIN_PASSWORD.as_bytes(), storage };
        let acis = GlobalAcis::Public;
        Directory::init(&path, &[suffix], Some(admin), acis, Arc::<ManualClock>::clone(&clock))
            .unwrap();
        let mut options = DirectoryOptions::new(&path);
        options.journal_segment_bytes = 1 << 20;
        // Slow enough to be put off, and no slower.
        let costs = HashCosts { pbkdf2_iterations: 10, ..HashCosts::default() };
        options.passwords.storage = PasswordStorage { scheme: Scheme::Pbkdf2Sha256, costs };
        options.offers_tls = true;
        // So that searches go to the pool, and come in several chunks.
        options.limits.inline_output_max_bytes = 1_000;
        let directory = Directory::open(options, Arc::<ManualClock>::clone(&clock)).unwrap();
        let (worker, pool) = (directory.worker(), directory.worker());
        let (controls, operations) = (Vec::new(), Vec::new());
        let mut world = Self {
            directory,
            clock,
            worker,
            pool,
            controls,
            operations,
            told: BTreeMap::new(),
            is_worn: false,
            requests: 0,
            _data: folder,
        };
        world.fill();
        world
    }

    fn fill(&mut self) {
        let mut root = Speaker::new(&self.directory);
        assert_eq!(root.bind(self, ROOT_DN, ADMIN_PASSWORD), ResultCode::Success);
        for (name, attributes) in entries() {
            let mut list = AttributesBuf::new();
            for (description, value) in &attributes {
                let mut values = ValuesBuf::new();
                values.push(value.as_bytes());
                list.push(PartialAttribute { description, values: values.as_ref() });
            }
            let add = AddRequest { name: &name, attributes: list.as_ref() };
            let code = root.ask(self, Request::Add(add));
            assert_eq!(code, ResultCode::Success, "{name}");
        }
        let all = ["+"].into_iter().collect::<StringsBuf>();
        let dse = SearchRequest {
            base: "",
            scope: Scope::Base,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::Present("objectClass"),
            attributes: all.as_ref(),
        };
        let _ = root.ask(self, Request::Search(dse));
        assert!(self.controls.len() > 10 && self.operations.len() > 3);
        self.told.clear();
    }

    /// Whether it has grown so much that a new one is better.
    pub fn is_old(&self) -> bool {
        self.is_worn || self.requests > REQUESTS_MAX
    }

    /// Has sessions do what the octets say. Panics when something is wrong.
    pub fn run(&mut self, octets: &[u8]) {
        if octets.windows(MARKER.len()).any(|window| window == MARKER) {
            return;
        }
        let mut choices = Choices(octets);
        let mut speakers = [0, 1, 2].map(|who| self.speaker(who));
        for _ in 0..STEPS_MAX {
            if choices.0.is_empty() {
                break;
            }
            let who = choices.below(speakers.len());
            let speaker = &mut speakers[who];
            speaker.step(self, &mut choices);
            speaker.check();
            if speaker.is_closed {
                speaker.end(self);
                *speaker = self.speaker(who);
            }
        }
        speakers.iter_mut().for_each(|speaker| speaker.end(self));
    }

    /// A connection of one of the three: nobody, a person, and an administrator of persons.
    fn speaker(&mut self, who: usize) -> Speaker {
        let mut speaker = Speaker::new(&self.directory);
        if let Some(name) = [ANNA, BERT].get(who.wrapping_sub(1)) {
            // What was done before may keep them out.
            self.is_worn |= speaker.bind(self, name, PASSWORD) != ResultCode::Success;
        }
        speaker
    }
}

impl Speaker {
    fn new(directory: &Arc<Directory>) -> Self {
        let peer = Peer { address: "127.0.0.1:1".to_owned(), ..Peer::default() };
        Self {
            session: directory.session(peer),
            expected: HashMap::new(),
            possible: HashMap::new(),
            is_unread: false,
            jobs: Vec::new(),
            hash: None,
            writes: Vec::new(),
            given_up: 0,
            next_id: 0,
            value: Vec::new(),
            is_closed: false,
        }
    }

    fn bind(&mut self, world: &mut World, name: &str, password: &str) -> ResultCode {
        let authentication = Authentication::Simple(password.as_bytes());
        self.ask(world, Request::Bind(BindRequest { version: 3, name, authentication }))
    }

    /// One request to its end.
    fn ask(&mut self, world: &mut World, op: Request<'_>) -> ResultCode {
        let octets = self.encode(op, Controls::EMPTY);
        let mut last = self.feed(world, &octets);
        while let Some(code) = self.go_on(world, usize::MAX) {
            last = last.or(code);
        }
        last.expect("every request is answered")
    }

    fn encode(&mut self, op: Request<'_>, controls: Controls<'_>) -> Vec<u8> {
        self.next_id += 1;
        let mut out = Vec::new();
        Message { id: MessageId(self.next_id), op, controls }.encode(&mut out);
        out
    }

    /// One thing that happens.
    fn step(&mut self, world: &mut World, choices: &mut Choices<'_>) {
        let is_full = self.session.outstanding() >= OUTSTANDING_MAX;
        match choices.below(16) {
            0 | 1 => _ = self.go_on(world, usize::MAX),
            // The client is gone in the middle of an answer.
            2 => _ = self.go_on(world, choices.below(4)),
            3 => match choices.below(4) {
                0 => world.clock.advance(Duration::from_secs(1 << choices.below(16))),
                1 if self.writes.is_empty() && self.jobs.is_empty() && self.hash.is_none() => {
                    self.session.set_tls(Tls::default());
                }
                _ => {
                    if world.worker.recheck(&mut self.session).is_err() {
                        self.give_up();
                        self.is_closed = true;
                    }
                }
            },
            // No further message is handled meanwhile.
            _ if self.hash.is_some() || is_full => _ = self.go_on(world, usize::MAX),
            4 => {
                let octets = choices.octets().to_vec();
                let _ = self.feed(world, &octets);
            }
            5 | 6 => {
                let mut octets = self.draw(world, choices);
                for _ in 0..=choices.below(4) {
                    let at = usize::from(choices.octet()) | usize::from(choices.octet()) << 8;
                    if let Some(octet) = octets.get_mut(at % 300) {
                        *octet = choices.octet();
                    }
                }
                let _ = self.feed(world, &octets);
            }
            _ => {
                let octets = self.draw(world, choices);
                let _ = self.feed(world, &octets);
            }
        }
    }

    /// What a connection does with octets: whole messages are handled, and anything else ends it.
    fn feed(&mut self, world: &mut World, octets: &[u8]) -> Option<ResultCode> {
        let Ok(Frame::Complete(length)) = frame(octets, MESSAGE_MAX_BYTES) else {
            self.is_closed = true;
            return None;
        };
        let message = &octets[..length];
        let decoded = Message::<Request<'_>>::decode(message, &DecodeLimits::default());
        let answered = match &decoded {
            Ok(decoded) => {
                if matches!(decoded.op, Request::Bind(_) | Request::Abandon(_) | Request::Unbind) {
                    self.given_up += 1;
                }
                decoded.op.kind().answered_by().map(|_| decoded.id.0)
            }
            Err(failure) => {
                self.given_up += 1;
                if let Some(id) = failure.id {
                    *self.possible.entry(id.0).or_default() += 1;
                }
                None
            }
        };
        if let Some(id) = answered {
            *self.expected.entry(id).or_default() += 1;
        }
        let waiting = answered.map(|id| self.expected[&id]);
        world.requests += 1;
        let mut out = Vec::new();
        let next = world.worker.handle(&mut self.session, message, &mut out);
        let is_done = matches!(next, Next::Answered(_));
        self.is_unread = decoded.is_err();
        let code = self.follow(world, next, &out);
        self.is_unread = false;
        if let (true, Some(id), Some(waiting)) = (is_done, answered, waiting) {
            let left = self.expected.get(&id).copied().unwrap_or(0);
            assert_eq!(left + 1, waiting, "a request was not answered once: {message:02x?}");
        }
        code
    }

    fn follow(&mut self, world: &mut World, next: Next, out: &[u8]) -> Option<ResultCode> {
        let code = self.take(world, out);
        match next {
            Next::Answered(_) => {}
            Next::Write(pending) => {
                let (sender, receiver) = channel();
                self.writes.push((pending.id(), receiver));
                pending.submit(Box::new(move |done| drop(sender.send(done.bytes))));
            }
            Next::Later(job) => self.jobs.push((job, self.given_up)),
            Next::Hash(job) => {
                // A transaction may have expired.
                assert!(code.is_none(), "answered before the password was looked at");
                assert!(self.hash.replace(job).is_none(), "two at once");
            }
            Next::Wait(_) => panic!("a server that is alone has nothing to wait for"),
            Next::StartTls(_) => self.session.set_tls(Tls::default()),
            Next::Close(_) => self.is_closed = true,
        }
        code
    }

    /// Something that is under way goes on; none when nothing is. Of a job, the client takes so
    /// many chunks.
    fn go_on(&mut self, world: &mut World, chunks: usize) -> Option<Option<ResultCode>> {
        if let Some(job) = self.hash.take() {
            *world.told.entry(("bind", "hash")).or_default() += 1;
            let mut out = Vec::new();
            let done = job.run();
            let next = world.worker.resume(&mut self.session, done, &mut out);
            return Some(self.follow(world, next, &out));
        }
        if let Some((job, given_up)) = self.jobs.pop() {
            *world.told.entry(("search", "job")).or_default() += 1;
            return Some(self.run_job(world, (job, given_up), chunks));
        }
        let (id, receiver) = self.writes.pop()?;
        let answer = receiver.recv().expect("every write is answered");
        self.session.forget(id);
        Some(self.take(world, &answer))
    }

    fn run_job(
        &mut self,
        world: &mut World,
        (job, given_up): (Job, usize),
        chunks: usize,
    ) -> Option<ResultCode> {
        let id = job.id().0;
        let (mut taken, mut is_gone) = (Vec::new(), false);
        let mut job = job;
        let mut done = loop {
            let ran = world.pool.run(job, &mut |Part { bytes: chunk, .. }: Part| {
                assert!(!is_gone, "a job goes on for nobody");
                is_gone = taken.len() >= chunks;
                if is_gone {
                    return Flow::Stop;
                }
                taken.push(chunk);
                if taken.len() % 2 == 0 { Flow::Park } else { Flow::Continue }
            });
            match ran {
                Ran::Done(done) => break done,
                Ran::Parked(parked) => {
                    if parked.waits_for_change() {
                        // It would wait for as long as the client does.
                        self.give_up();
                    }
                    job = parked;
                }
                Ran::Broken => panic!("it cannot be read"),
            }
            self.session.renew(&mut job);
        };
        taken.push(std::mem::take(&mut done.end));
        self.session.finish(&done);
        let before = self.expected.get(&id).copied().unwrap_or(0);
        let code = self.take(world, &taken.concat());
        let after = self.expected.get(&id).copied().unwrap_or(0);
        self.is_closed |= is_gone;
        let may_be_silent = is_gone || given_up != self.given_up;
        assert!(may_be_silent || after + 1 == before, "a search has no end");
        code
    }

    /// Nobody waits any more.
    fn give_up(&mut self) {
        self.given_up += 1;
        self.session.abandon_all();
    }

    /// The connection is gone: what is under way ends, and nothing is left.
    fn end(&mut self, world: &mut World) {
        self.give_up();
        while self.go_on(world, 0).is_some() {}
        assert_eq!(self.session.outstanding(), 0, "something is outstanding for ever");
    }

    /// What holds after every step.
    fn check(&self) {
        let under_way = self.jobs.len() + self.writes.len() + usize::from(self.hash.is_some());
        assert_eq!(self.session.outstanding(), under_way, "what is outstanding is under way");
    }

    /// Looks at what is sent; returns the last result code.
    fn take(&mut self, world: &mut World, out: &[u8]) -> Option<ResultCode> {
        let leaks = out.windows(MARKER.len()).any(|window| window == MARKER);
        let name = self.session.identity().dn().map(|dn| dn.as_str().to_owned());
        assert!(!leaks || name.as_deref() == Some(ROOT_DN), "{name:?} was shown a secret: {out:?}");
        let (mut rest, mut last) = (out, None);
        while !rest.is_empty() {
            let Ok(Frame::Complete(length)) = frame(rest, usize::MAX) else {
                panic!("an answer that is no message: {rest:02x?}");
            };
            let (message, after) = rest.split_at(length);
            let decoded = Message::<Response<'_>>::decode(message, &DecodeLimits::default())
                .unwrap_or_else(|failure| panic!("{failure:?}: {message:02x?}"));
            last = self.take_one(world, &decoded).or(last);
            rest = after;
        }
        last
    }

    fn take_one(
        &mut self,
        world: &mut World,
        message: &Message<'_, Response<'_>>,
    ) -> Option<ResultCode> {
        let id = message.id.0;
        let is_asked = self.expected.get(&id).is_some_and(|count| *count > 0);
        let (kind, code) = match &message.op {
            Response::SearchEntry { dn, attributes } => {
                assert!(is_asked, "an entry for a request that is over: {message:?}");
                *world.told.entry(("search", "entry")).or_default() += 1;
                if dn.is_empty() && world.controls.is_empty() {
                    let all = |wanted: &str| {
                        let values = attributes.iter().filter(|one| one.description == wanted);
                        let values = values.flat_map(|one| one.values.iter());
                        values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
                    };
                    world.controls = all("supportedControl");
                    world.operations = all("supportedExtension");
                }
                return None;
            }
            Response::SearchReference(_) | Response::Intermediate { .. } => {
                assert!(is_asked, "an answer to a request that is over: {message:?}");
                return None;
            }
            // RFC 4511 §4.4: of the server's own accord.
            Response::Extended { .. } if message.id == MessageId::UNSOLICITED && !is_asked => {
                return None;
            }
            Response::Extended { result, value, .. } => {
                self.value = value.unwrap_or_default().to_vec();
                ("extended", result.code)
            }
            Response::Bind { result, .. } => ("bind", result.code),
            Response::SearchDone(result) => ("search", result.code),
            Response::Modify(result) => ("modify", result.code),
            Response::Add(result) => ("add", result.code),
            Response::Delete(result) => ("delete", result.code),
            Response::ModifyDn(result) => ("modifyDn", result.code),
            Response::Compare(result) => ("compare", result.code),
        };
        *world.told.entry((kind, code.name())).or_default() += 1;
        let list =
            if is_asked && !self.is_unread { &mut self.expected } else { &mut self.possible };
        let count = list.get_mut(&id).filter(|count| **count > 0);
        *count.unwrap_or_else(|| panic!("an answer to no request: {message:?}")) -= 1;
        Some(code)
    }
}

const OCTETS_MAX: u8 = 64;
const OUTSTANDING_MAX: usize = 8;
const MESSAGE_MAX_BYTES: usize = 1 << 20;
const STEPS_MAX: usize = 200;
const REQUESTS_MAX: usize = 2_000;
