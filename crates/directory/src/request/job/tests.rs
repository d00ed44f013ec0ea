//! How often the request of a job is decoded and resolved: counted, so that it is the same each
//! time.

use std::cell::Cell;
use std::sync::Arc;

use aci::GlobalAcis;
use environment::{ManualClock, Timestamp};
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{
    Control, Controls, ControlsBuf, DerefAliases, Message, MessageId, Request, Scope,
    SearchRequest, Strings, StringsBuf,
};
use ldap::result::ResultCode;
use offline::{ImportOptions, Source, import};

use super::{Job, JobDone, Ran};
use crate::directory::{Directory, State};
use crate::options::DirectoryOptions;
use crate::request::controls::sort;
use crate::request::limits::Limits;
use crate::request::session::{Peer, Session};
use crate::request::sink::{Flow, Part};
use crate::request::worker::{Next, Worker};

const SUFFIX: &str = "dc=example,dc=com";
const PEOPLE: u32 = 20;

thread_local! {
    static DECODED: Cell<u32> = const { Cell::new(0) };
    static RESOLVED: Cell<u32> = const { Cell::new(0) };
}

/// The copy of a message that a job has was decoded.
pub(crate) fn note_decoded() {
    DECODED.set(DECODED.get() + 1);
}

/// A search request was resolved against the schema.
pub(crate) fn note_resolved() {
    RESOLVED.set(RESOLVED.get() + 1);
}

struct Served {
    _dir: tempfile::TempDir,
    worker: Worker,
    session: Session,
}

/// A directory whose searches all go to the pool, and park after each entry.
fn served(limit: impl FnOnce(&mut Limits)) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let clock = || ManualClock::at(Timestamp(1_700_000_000_000_000));
    let suffixes = [Dn::parse(SUFFIX).unwrap()];
    Directory::init(&data, &suffixes, None, GlobalAcis::Public, Arc::new(clock())).unwrap();
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..PEOPLE {
        ldif.push_str(&format!(
            "dn: uid=u{number},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: u{number}\ncn: c\n\
             sn: s\n\n"
        ));
    }
    let sources = vec![Source::new("test", ldif.as_bytes())];
    import(&data, sources, &ImportOptions::default(), &clock(), &mut ()).unwrap();
    let mut options = DirectoryOptions::new(data);
    options.limits.inline_candidates_max = 0;
    options.limits.chunk_bytes = 1;
    options.journal_segment_bytes = 1 << 20;
    limit(&mut options.limits);
    let directory = Directory::open(options, Arc::new(clock())).unwrap();
    let (worker, session) = (directory.worker(), directory.session(Peer::default()));
    Served { _dir: dir, worker, session }
}

/// A search for all people.
fn message(is_sorted: bool) -> Vec<u8> {
    let keys = write_sort_keys(&[SortKey { attribute: "uid", rule: None, reverse: false }]);
    let mut controls = ControlsBuf::new();
    if is_sorted {
        controls.push(Control { oid: sort::OID, critical: true, value: Some(&keys) });
    }
    let mut attributes = StringsBuf::new();
    attributes.push("cn");
    encoded(1, attributes.as_ref(), controls.as_ref())
}

fn encoded(id: i32, attributes: Strings<'_>, controls: Controls<'_>) -> Vec<u8> {
    let search = SearchRequest {
        base: SUFFIX,
        scope: Scope::Subtree,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter: Filter::parse("(objectClass=inetOrgPerson)").unwrap(),
        attributes,
    };
    let mut message = Vec::new();
    let op = Request::Search(search);
    Message { id: MessageId(id), op, controls }.encode(&mut message);
    message
}

impl Served {
    /// Puts another version of the schema in force, which says the same.
    fn change_schema(&self) {
        let directory = &self.worker.directory;
        let state = directory.state.load_full();
        let schema = state.schema.with_change(&[], &[]).unwrap();
        let state = State::new(Arc::new(schema), state.schema_times.clone());
        directory.state.store(Arc::new(state));
    }

    /// A search for so many attributes.
    fn job_with(&mut self, id: i32, attributes: u32) -> Job {
        let names: Vec<String> = (0..attributes).map(|number| format!("l;x-{number}")).collect();
        let mut wanted = StringsBuf::new();
        names.iter().for_each(|name| wanted.push(name));
        let message = encoded(id, wanted.as_ref(), ControlsBuf::new().as_ref());
        let next = self.worker.handle(&mut self.session, &message, &mut Vec::new());
        let Next::Later(job) = next else { panic!("it is for the pool") };
        job
    }

    fn job(&mut self, is_sorted: bool) -> Job {
        let next = self.worker.handle(&mut self.session, &message(is_sorted), &mut Vec::new());
        let Next::Later(job) = next else { panic!("it is for the pool") };
        job
    }

    /// Runs a job to its end; `between` happens each time it has parked. Says how often it did.
    fn run(&mut self, mut job: Job, mut between: impl FnMut(&mut Self)) -> (u32, JobDone) {
        let mut parked = 0;
        loop {
            match self.worker.run(job, &mut |_: Part| Flow::Park) {
                Ran::Done(done) => return (parked, done),
                Ran::Parked(rest) => job = rest,
                Ran::Broken => panic!("it cannot be read"),
            }
            parked += 1;
            between(self);
        }
    }
}

/// What a search of all people takes: how often it has parked, and how often it was decoded and
/// resolved from when it was handled on.
fn counted(served: &mut Served, is_sorted: bool) -> (u32, u32, u32) {
    DECODED.set(0);
    RESOLVED.set(0);
    let job = served.job(is_sorted);
    let (parked, done) = served.run(job, |_| ());
    assert_eq!(done.completion.code, Some(ResultCode::Success));
    assert_eq!(done.completion.entries, PEOPLE);
    (parked, DECODED.get(), RESOLVED.get())
}

#[test]
fn a_search_that_parks_is_decoded_once_and_resolved_once() {
    for is_sorted in [false, true] {
        let mut served = served(|_| ());
        // It was resolved where requests are read, before it was too large for there.
        assert_eq!(counted(&mut served, is_sorted), (PEOPLE, 1, 1), "sorted: {is_sorted}");
        let budget = &served.worker.directory.budgets.parked;
        assert!(budget.hold(MAX, MAX).is_some(), "all of it was given back");
    }
}

#[test]
fn without_room_only_the_message_is_kept() {
    for is_sorted in [false, true] {
        let mut served = served(|limits| limits.parked_max_bytes = 0);
        // And once where requests are read.
        let want = (PEOPLE, PEOPLE + 1, PEOPLE + 2);
        assert_eq!(counted(&mut served, is_sorted), want, "sorted: {is_sorted}");
    }
}

/// Jobs that wait for a thread, or for their client, held what their requests mean whatever it was.
#[test]
fn what_waiting_requests_mean_has_a_limit() {
    let mut served = served(|_| ());
    let jobs: Vec<Job> = (1..=1_000).map(|id| served.job_with(id, 3_000)).collect();
    let kept = jobs.iter().filter(|job| job.resolved.is_some()).count();
    assert!((10..500).contains(&kept), "{kept} requests are kept");
    let budget = &served.worker.directory.budgets.parked;
    assert!(budget.hold(MAX / 2, MAX).is_some(), "there is room for sorted lists");
    drop(jobs);
    assert!(budget.hold(MAX, MAX).is_some(), "all of it was given back");
}

/// What a name or an attribute of a parked search meant may be something else by now.
#[test]
fn a_search_is_resolved_again_when_the_schema_has_changed() {
    let mut served = served(|_| ());
    let job = served.job(false);
    RESOLVED.set(0);
    let mut times = 0;
    let (parked, done) = served.run(job, |served| {
        times += 1;
        if times == 3 {
            served.change_schema();
        }
    });
    assert_eq!((parked, done.completion.entries), (PEOPLE, PEOPLE));
    assert_eq!(RESOLVED.get(), 1);
}

const MAX: usize = 64 << 20;
