//! That no change is missing in the audit log, and none twice, whatever happens to disk and
//! process.

use std::sync::mpsc;
use std::thread::JoinHandle;

use crossbeam_channel::unbounded;
use directory::{AdminPassword, DirectoryOptions, GlobalAcis, Next, Peer};
use environment::SystemClock;
use ldap::dn::Dn;
use ldap::message::{
    AddRequest, AttributesBuf, Authentication, BindRequest, Controls, Message, MessageId,
    PartialAttribute, Request, ValuesBuf,
};

use super::super::file::tests::{File, Memory, NOW};
use super::super::file::{Retention, Rotation};
use super::*;

/// A directory, and files in memory for its audit log.
struct Fixture {
    memory: Memory,
    directory: Arc<Directory>,
    _data: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("data");
        let clock = Arc::new(SystemClock::new());
        let suffix = Dn::parse("dc=example,dc=org").unwrap();
        let storage = auth::password::Scheme::Ssha.into();
        let admin = AdminPassword { clear: b"secret", storage };
        Directory::init(&path, &[suffix], Some(admin), GlobalAcis::Public, clock.clone()).unwrap();
        let directory = Directory::open(DirectoryOptions::new(&path), clock).unwrap();
        Self { memory: Memory::default(), directory, _data: data }
    }

    /// Adds organizational units with these numbers.
    fn add(&self, numbers: std::ops::Range<usize>) {
        self.add_with(numbers, &[("objectClass", &[b"organizationalUnit"])]);
    }

    /// Adds organizational units with these numbers and these attributes.
    fn add_with(&self, numbers: std::ops::Range<usize>, with: &[(&str, &[&[u8]])]) {
        let mut worker = self.directory.worker();
        let mut session = self.directory.session(Peer::default());
        let mut ask = |op: Request<'_>| {
            let mut message = Vec::new();
            let id = MessageId(1);
            Message { id, op, controls: Controls::EMPTY }.encode(&mut message);
            let mut out = Vec::new();
            let completion = match worker.handle(&mut session, &message, &mut out) {
                Next::Write(pending) => {
                    let (answer, answered) = mpsc::channel();
                    pending.submit(Box::new(move |done| answer.send(done.completion).unwrap()));
                    session.forget(id);
                    answered.recv().unwrap()
                }
                Next::Answered(completion) => completion,
                _ => panic!("nothing here takes another way"),
            };
            assert_eq!(completion.code, Some(ldap::result::ResultCode::Success));
        };
        let authentication = Authentication::Simple(b"secret");
        let name = "cn=Directory Manager";
        ask(Request::Bind(BindRequest { version: 3, name, authentication }));
        for number in numbers {
            let mut attributes = AttributesBuf::new();
            let values = with.iter().map(|(_, all)| {
                let mut values = ValuesBuf::new();
                all.iter().for_each(|value| values.push(value));
                values
            });
            let values = values.collect::<Vec<_>>();
            for ((description, _), values) in with.iter().zip(&values) {
                attributes.push(PartialAttribute { description, values: values.as_ref() });
            }
            let name = format!("ou=unit {number},dc=example,dc=org");
            ask(Request::Add(AddRequest { name: &name, attributes: attributes.as_ref() }));
        }
    }

    fn start(&self, rotation: Rotation) -> Running {
        let files: Arc<dyn Files> = Arc::new(self.memory.clone());
        let path = PathBuf::from("logs/audit.log");
        let (retention, keeper) = (Retention::default(), unbounded().0);
        let file =
            LogFile::open(Arc::clone(&files), path, rotation, retention, keeper, NOW).unwrap();
        let control = Arc::<Control>::default();
        let form = Form { is_json: true, shows_hashes: false };
        let auditor = Auditor::new(&self.directory, file, files, form, Arc::clone(&control));
        Running { control, thread: thread::spawn(move || auditor.work()) }
    }

    /// All that was logged, the older files first.
    fn text(&self) -> String {
        let names = self.memory.names();
        let is_log = |name: &&String| name.ends_with(".log");
        names.iter().filter(is_log).map(|name| self.memory.text(name)).collect()
    }

    /// Every unit was logged, in order and once.
    #[track_caller]
    fn check(&self, units: usize) {
        let text = self.text();
        let units_logged = text.lines().filter_map(|line| {
            line.contains("\"kind\":\"add\"").then_some(())?;
            line.split("\"dn\":\"ou=unit ").nth(1)?.split(',').next()?.parse::<usize>().ok()
        });
        assert_eq!(units_logged.collect::<Vec<_>>(), (0..units).collect::<Vec<_>>(), "{text}");
        assert!(!text.contains("missing"), "{text}");
    }
}

struct Running {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

impl Running {
    fn stop(self) {
        self.control.stop.store(true, Ordering::Release);
        self.control.doorbell.wake();
        self.thread.join().unwrap();
    }

    fn wait_for(&self, is_so: impl Fn(&Control) -> bool) {
        while !is_so(&self.control) {
            thread::yield_now();
        }
    }

    fn has_error(&self) -> bool {
        self.control.state("audit", "").error.is_some()
    }
}

#[test]
fn changes_from_before_the_log_was_switched_on_are_in_it() {
    let fixture = Fixture::new();
    fixture.add(0..3);
    let running = fixture.start(Rotation::default());
    fixture.add(3..6);
    running.stop();
    fixture.check(6);
    let position = position::read(&fixture.memory, std::path::Path::new("logs/audit.log")).unwrap();
    assert_eq!(position.lsn, fixture.directory.log().applied());
}

#[test]
fn a_full_disk_delays_changes_and_loses_none() {
    let fixture = Fixture::new();
    let running = fixture.start(Rotation::default());
    fixture.memory.state().room = Some(500);
    fixture.add(0..20);
    while !running.has_error() {
        thread::yield_now();
    }
    fixture.memory.state().room = None;
    running.control.doorbell.wake();
    running.wait_for(|control| control.lines.load(Ordering::Relaxed) >= 20);
    assert!(!running.has_error());
    running.stop();
    fixture.check(20);
    // Also when the server ends meanwhile.
    let running = fixture.start(Rotation::default());
    fixture.memory.state().room = Some(500);
    fixture.add(20..40);
    while !running.has_error() {
        thread::yield_now();
    }
    running.stop();
    fixture.memory.state().room = None;
    fixture.start(Rotation::default()).stop();
    fixture.check(40);
}

#[test]
fn what_a_killed_server_had_written_behind_the_position_is_written_anew() {
    let fixture = Fixture::new();
    fixture.add(0..3);
    fixture.start(Rotation::default()).stop();
    let position_file = PathBuf::from("logs/audit.log.position");
    let saved = fixture.memory.state().files.get(&position_file).cloned().unwrap();
    let put_back =
        |saved: &File| fixture.memory.state().files.insert(position_file.clone(), saved.clone());
    fixture.add(3..9);
    fixture.start(Rotation::default()).stop();
    fixture.check(9);
    let whole = fixture.text();
    // Whatever of the rest was on the disk, whole lines or not.
    let log = PathBuf::from("logs/audit.log");
    for cut in [0, 1, 100, 777] {
        put_back(&saved);
        let mut state = fixture.memory.state();
        let octets = &mut state.files.get_mut(&log).unwrap().octets;
        octets.truncate(whole.len() - cut);
        drop(state);
        fixture.start(Rotation::default()).stop();
        assert_eq!(fixture.text(), whole);
    }
}

#[test]
fn a_server_that_was_killed_before_the_first_position_begins_anew() {
    let fixture = Fixture::new();
    fixture.memory.put("audit.log");
    let running = fixture.start(Rotation::default());
    running.wait_for(|_| !fixture.memory.names().iter().all(|name| name == "audit.log"));
    let position_file = PathBuf::from("logs/audit.log.position");
    let saved = fixture.memory.state().files.get(&position_file).cloned().unwrap();
    fixture.add(0..5);
    running.stop();
    fixture.memory.state().files.insert(position_file, saved);
    fixture.start(Rotation::default()).stop();
    fixture.check(5);
}

#[test]
fn changes_are_logged_once_when_files_are_put_aside_all_the_time() {
    let fixture = Fixture::new();
    for round in 0..5 {
        let rotation = Rotation { size_bytes: 1, ..Rotation::default() };
        let running = fixture.start(rotation);
        fixture.add(round * 10..round * 10 + 10);
        running.stop();
    }
    fixture.check(50);
    assert!(fixture.memory.names().len() > 5, "{:?}", fixture.memory.names());
}

#[test]
fn a_log_of_a_directory_that_was_restored_says_so() {
    let fixture = Fixture::new();
    fixture.add(0..3);
    fixture.start(Rotation::default()).stop();
    let later = fixture.directory.log().applied().0 + 100;
    fixture
        .memory
        .replace(
            std::path::Path::new("logs/audit.log.position"),
            &format!("lsn {later}\nfile 1\nlength 1\n"),
        )
        .unwrap();
    fixture.start(Rotation::default()).stop();
    assert!(fixture.text().contains("\"kind\":\"note\",\"note\":\"the log has changes up to"));
}

#[test]
fn names_that_the_schema_has_no_more_are_told_without_values() {
    let fixture = Fixture::new();
    fixture.add(0..1);
    let mut tail = fixture.directory.log().tail(fixture.directory.log().applied()).unwrap();
    let record = tail.next_within(Duration::ZERO).unwrap().unwrap();
    let schema = fixture.directory.schema();
    // The octets name an attribute of the same length that nobody has defined.
    let bytes = record.bytes.to_vec();
    let at = bytes.windows(11).position(|window| window == b"objectClass").unwrap();
    let mut bytes = bytes;
    bytes[at..at + 11].copy_from_slice(b"nobodyKnows");
    let mut decoder = Decoder::new(schema);
    let decoded = decoder.decode(&bytes).unwrap();
    let mut out = Vec::new();
    let form = Form { is_json: false, shows_hashes: true };
    text::record(&mut out, form, &decoded, decoder.guessed());
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("\nnobodyKnows: {hidden}\n"), "{out}");
}

#[test]
fn secrets_that_are_no_passwords_here_are_hidden_as_well() {
    let fixture = Fixture::new();
    let with: &[(&str, &[&[u8]])] = &[
        ("objectClass", &[b"organizationalUnit", b"extensibleObject"]),
        ("nisSecretKey", &[b"hunter2"]),
        ("description", &[b"in clear"]),
    ];
    fixture.add_with(0..1, with);
    fixture.start(Rotation::default()).stop();
    let text = fixture.text();
    assert!(!text.contains("hunter2") && text.contains("in clear"), "{text}");
}
