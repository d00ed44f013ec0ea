//! What becomes of lines when there is no room for them.

use std::path::PathBuf;

use crossbeam_channel::unbounded;
use directory::{DirectoryOptions, GlobalAcis, LogState, Peer};
use environment::ManualClock;
use ldap::dn::Dn;

use super::super::access_recorder::{AccessRecorder, ConnectionLog};
use super::super::file::tests::{Memory, NOW};
use super::super::file::{Retention, Rotation};
use super::super::ring::ring;
use super::*;

/// A log writer with one worker, whose ring is small.
struct Fixture {
    memory: Memory,
    writer: LogWriter,
    recorder: AccessRecorder,
    directory: Arc<Directory>,
    clock: Arc<ManualClock>,
    _data: tempfile::TempDir,
}

impl Fixture {
    fn new(rotation: Rotation) -> Self {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("data");
        let clock = Arc::new(ManualClock::at(NOW));
        let suffix = Dn::parse("dc=example,dc=org").unwrap();
        Directory::init(&path, &[suffix], None, GlobalAcis::Public, clock.clone()).unwrap();
        let directory = Directory::open(DirectoryOptions::new(&path), clock.clone()).unwrap();
        let memory = Memory::default();
        let path = PathBuf::from("logs/access.log");
        let (files, retention) = (Arc::new(memory.clone()), Retention::default());
        let file = LogFile::open(files, path, rotation, retention, unbounded().0, NOW).unwrap();
        let (producer, consumer) = ring(0);
        let epoch = Instant::now();
        let control = Arc::<Control>::default();
        let (doorbell, refusals) = (Arc::clone(&control.doorbell), Arc::default());
        let recorder = AccessRecorder::on(Arc::default(), producer, doorbell, refusals, epoch);
        let writer = LogWriter::new(vec![consumer], file, Form::Json, control, &directory, epoch);
        Self { memory, writer, recorder, directory, clock, _data: data }
    }

    /// Connections that come and go, with two lines each.
    fn connections(&self, count: usize) {
        for _ in 0..count {
            let session = self.directory.session(Peer::default());
            let mut connection_log = ConnectionLog::new("ldap");
            self.recorder.connected(&mut connection_log, &session);
            self.recorder.disconnected(&mut connection_log, &session);
        }
    }

    fn state(&self) -> LogState {
        self.writer.control.state("access", "")
    }

    fn lines(&self) -> Vec<String> {
        self.memory.text("access.log").lines().map(str::to_owned).collect()
    }
}

#[test]
fn what_finds_no_room_in_memory_is_counted_and_the_log_says_so() {
    let mut fixture = Fixture::new(Rotation::default());
    fixture.connections(1_000);
    fixture.writer.drain();
    let dropped = fixture.state().dropped;
    assert!(dropped > 100, "{dropped}");
    let lines = fixture.lines();
    let report = format!(
        "\"kind\":\"dropped\",\"count\":{dropped},\"reason\":\"the log did not keep up\"}}"
    );
    assert!(lines.last().unwrap().ends_with(&report), "{lines:?}");
    assert_eq!(fixture.state().lines as usize, lines.len() - 1);
    // A connection that has a line has its end, too, as soon as there is room.
    fixture.connections(1);
    fixture.writer.drain();
    let count = |kind: &str| fixture.lines().iter().filter(|line| line.contains(kind)).count();
    assert_eq!(count("\"connect\""), count("\"disconnect\""));
    assert_eq!(fixture.state().dropped, dropped);
}

#[test]
fn on_a_full_disk_lines_are_counted_and_the_log_goes_on_afterwards() {
    let mut fixture = Fixture::new(Rotation::default());
    fixture.connections(1);
    fixture.writer.drain();
    fixture.memory.state().room = Some(100);
    fixture.connections(2);
    fixture.writer.drain();
    let state = fixture.state();
    assert_eq!((state.lines, state.dropped, state.error.is_some()), (2, 4, true));
    fixture.connections(1);
    fixture.writer.drain();
    assert_eq!((fixture.state().dropped, fixture.lines().len()), (6, 2));
    fixture.memory.state().room = None;
    fixture.connections(1);
    fixture.writer.drain();
    let state = fixture.state();
    assert_eq!((state.lines, state.dropped, state.error), (4, 6, None));
    let lines = fixture.lines();
    let report = "\"kind\":\"dropped\",\"count\":6,\"reason\":\"the file could not be written\"}";
    assert!(lines[2].ends_with(report), "{lines:?}");
    assert_eq!(lines.len(), 5);
}

#[test]
fn the_file_is_put_aside_by_the_clock_although_nothing_is_logged() {
    let rotation = Rotation { every: Duration::from_secs(3_600), ..Rotation::default() };
    let mut fixture = Fixture::new(rotation);
    fixture.connections(1);
    fixture.writer.drain();
    fixture.clock.advance(Duration::from_secs(3_601));
    fixture.writer.drain();
    assert_eq!(fixture.memory.names(), ["access-20261122121214Z.log", "access.log"]);
    assert_eq!(fixture.lines().len(), 0);
}
