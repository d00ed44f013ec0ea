//! Streams of changes while servers and readers are killed: each reader goes on from what it had
//! kept, and in the end has every change once, in order, and all entries as the server has them.
//!
//! The readers are processes: python-ldap (`clients/streams.py`) and `roster changes`. The servers
//! and their clients are those of `crash.rs` and `cluster_faults.rs`, which also judge whether the
//! servers themselves hold what they acknowledged. `ROSTER_STREAM_ROUNDS` makes the runs long.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::have;
use testing::chance::Chance;
use testing::client::{Attributes, Client, Request};
use testing::cluster;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, now, pause};
use testing::crash::{Options, run};

const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/streams.py");
/// The readers; all but the last are the script's.
const KINDS: [&str; 5] = ["numbers", "cookies", "persistent", "sync", COMMAND];
/// `roster changes`.
const COMMAND: &str = "command";
/// The entry with which every stream ends.
const END: &str = "ou=the end,dc=example,dc=com";
/// How long readers may take to come to the end.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is looked at of the end of a file: more than a change takes.
const TAIL_BYTES: u64 = 4 << 20;

/// Processes that read, one of each kind.
struct Readers {
    roster: PathBuf,
    /// Names the listeners.
    ready: PathBuf,
    folder: PathBuf,
    children: Vec<Option<Child>>,
    kills: u64,
}

impl Readers {
    fn new(place: &Place) -> Self {
        let folder = place.folder.join("readers");
        fs::create_dir_all(&folder).unwrap();
        let (roster, ready) = (place.roster.clone(), place.folder.join("ready"));
        Self { roster, ready, folder, children: KINDS.map(|_| None).into(), kills: 0 }
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(kind)
    }

    /// Starts those that do not run. The script's readers never end by themselves.
    fn tend(&mut self) {
        for (at, kind) in KINDS.iter().enumerate() {
            let child = self.children[at].as_mut();
            let ended = child.and_then(|child| child.try_wait().unwrap());
            if let Some(status) = ended {
                assert!(
                    *kind == COMMAND || status.signal().is_some(),
                    "the reader '{kind}' ended with {status}: {}",
                    fs::read_to_string(self.errors(kind)).unwrap_or_default()
                );
                self.children[at] = None;
            }
            if self.children[at].is_none() {
                self.children[at] = match *kind {
                    COMMAND => self.command(),
                    kind => Some(self.script(kind)),
                };
            }
        }
    }

    fn errors(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{kind}.errors"))
    }

    fn appended(path: &Path) -> File {
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    fn script(&self, kind: &str) -> Child {
        let mut command = Command::new(PYTHON);
        command.args([SCRIPT, "read", kind]).arg(&self.ready).arg(&self.folder);
        command.stdin(Stdio::null()).stderr(Self::appended(&self.errors(kind)));
        command.spawn().unwrap()
    }

    /// `roster changes` behind what its file has, once there is a place to begin with.
    fn command(&self) -> Option<Child> {
        let file = self.file(COMMAND);
        let from = match cut(&file) {
            Some(number) => number,
            None => begun(&self.file("numbers"))? + 1,
        };
        let door = Door::of(&self.ready)?;
        let mut command = Command::new(&self.roster);
        let urls = door.urls.join(" ");
        command.args(["changes", "--json", "--from", &from.to_string(), "-H", &urls]);
        command.args(["-D", &door.dn, "-w", &door.password]).stdin(Stdio::null());
        command.stdout(Self::appended(&file)).stderr(Self::appended(&self.errors(COMMAND)));
        Some(command.spawn().unwrap())
    }

    fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.children[at].take() {
            let _ = child.kill();
            let _ = child.wait();
            self.kills += 1;
        }
    }

    /// Adds the last entry once all have begun, so that there is a change for each of them, and
    /// waits until all have it.
    fn finish(&mut self, door: &Door) {
        // The command begins where the first has begun.
        self.until_all("begin", |kind, tail| kind == COMMAND || !tail.is_empty());
        door.add_end();
        self.until_all("come to the end", |_, tail| tail.contains(END));
        (0..KINDS.len()).for_each(|at| self.kill(at));
    }

    fn until_all(&mut self, what: &str, is_so: impl Fn(&str, &str) -> bool) {
        let begin = now();
        loop {
            self.tend();
            let lacks = |kind: &&str| !is_so(kind, &tail(&self.file(kind)));
            let lacking: Vec<&str> = KINDS.into_iter().filter(lacks).collect();
            if lacking.is_empty() {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "they do not {what}: {lacking:?}");
            pause(Duration::from_millis(50));
        }
    }

    /// Compares what they have with a server; the sums.
    fn judge(&self, door: &Door) -> String {
        let (is_right, said) = self.judged(door, &KINDS);
        assert!(is_right, "{said}");
        // A change less in any of them would be noticed.
        for kind in KINDS {
            let file = self.file(kind);
            let whole = fs::read_to_string(&file).unwrap();
            let lines: Vec<&str> = whole.lines().collect();
            let is_left_out = |(at, line): &(usize, &&str)| match kind {
                "persistent" | "sync" => line.contains(END),
                _ => *at == lines.len() / 2,
            };
            let left = lines.iter().enumerate().filter(|one| !is_left_out(one));
            let left: Vec<&str> = left.map(|(_, line)| *line).collect();
            fs::write(&file, format!("{}\n", left.join("\n"))).unwrap();
            let (is_right, said) = self.judged(door, &[kind]);
            assert!(!is_right && said.contains("WRONG "), "{kind}: {said}");
            fs::write(&file, whole).unwrap();
        }
        format!("{} kills of readers; {said}", self.kills)
    }

    fn judged(&self, door: &Door, kinds: &[&str]) -> (bool, String) {
        let mut command = Command::new(PYTHON);
        command.args([SCRIPT, "judge", &door.urls[0], &door.dn, &door.password]);
        let output = command.arg(&self.folder).args(kinds).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        (output.status.success(), said)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        (0..KINDS.len()).for_each(|at| self.kill(at));
    }
}

/// Keeps readers running, and kills one after the other, until it is told to stop.
struct Killing {
    stop: std::sync::Arc<AtomicBool>,
    thread: JoinHandle<Readers>,
}

impl Killing {
    fn start(mut readers: Readers, seed: u64) -> Self {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let is_over = std::sync::Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut chance = Chance::new(seed, 1 << 30);
            while !is_over.load(Ordering::Relaxed) {
                readers.tend();
                pause(Duration::from_millis(100 + chance.below(500)));
                readers.kill(chance.below(KINDS.len() as u64) as usize);
            }
            readers
        });
        Self { stop, thread }
    }

    fn stop(self) -> Readers {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Cuts the lines of the last number off, whose parts may not all be there; the number.
fn cut(path: &Path) -> Option<u64> {
    let text = tail(path);
    let whole = text.rfind('\n')? + 1;
    let number = |line: &str| {
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        told["number"].as_u64().unwrap()
    };
    let lines: Vec<&str> = text[..whole].lines().collect();
    let last = number(lines.last()?);
    let same = lines.iter().rev().take_while(|line| number(line) == last);
    let cut: usize = same.map(|line| line.len() + 1).sum();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - (text.len() - whole + cut) as u64).unwrap();
    Some(last)
}

/// The last lines of a file, as far as they are looked at.
fn tail(path: &Path) -> String {
    let Ok(mut file) = File::open(path) else { return String::new() };
    let length = file.metadata().unwrap().len();
    let from = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from)).unwrap();
    let mut octets = Vec::new();
    file.read_to_end(&mut octets).unwrap();
    let text = String::from_utf8(octets).unwrap();
    match (from, text.split_once('\n')) {
        (1.., Some((_, rest))) => rest.to_owned(),
        _ => text,
    }
}

/// The number behind which a reader of numbers began.
fn begun(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let (line, _) = text.split_once('\n')?;
    let began: serde_json::Value = serde_json::from_str(line).unwrap();
    began["begin"].as_u64()
}

/// Where to enter, and as whom.
struct Door {
    urls: Vec<String>,
    dn: String,
    password: String,
}

impl Door {
    /// What a ready file says.
    fn of(ready: &Path) -> Option<Self> {
        let text = fs::read_to_string(ready).ok()?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let nodes = text.lines().filter(|line| line.starts_with("node "));
        let nodes: Vec<&str> = nodes.filter_map(|line| line.split(' ').nth(3)).collect();
        let all = if nodes.is_empty() { vec![value("ldap ")?] } else { nodes };
        Some(Self {
            urls: all.iter().map(|address| format!("ldap://{address}")).collect(),
            dn: value("admin_dn ").unwrap_or(ADMIN_DN).to_owned(),
            password: value("admin_password ").unwrap_or(ADMIN_PASSWORD).to_owned(),
        })
    }

    /// Adds the entry with which every stream ends, as soon as a server takes it.
    fn add_end(&self) {
        let attributes: Attributes = [("objectClass", "organizationalUnit"), ("ou", "the end")]
            .map(|(name, value)| (name.to_owned(), [value.to_owned()].into()))
            .into();
        let add = Request::Add { dn: END.to_owned(), attributes };
        let begin = now();
        let mut said = String::new();
        while begin.elapsed() < PATIENCE {
            for url in &self.urls {
                let address = url.trim_start_matches("ldap://").parse().unwrap();
                let answer = Client::connect(address).and_then(|mut client| {
                    client.bind(&self.dn, &self.password)?;
                    client.call(&add)
                });
                match answer {
                    // entryAlreadyExists: one before did it.
                    Ok(answer) if [0, 68].contains(&answer.code) => return,
                    other => said = format!("{other:?}"),
                }
            }
            pause(Duration::from_millis(100));
        }
        panic!("{END} cannot be added: {said}");
    }
}

fn rounds(short: u64) -> u64 {
    let asked = std::env::var("ROSTER_STREAM_ROUNDS").ok();
    asked.map_or(short, |rounds| rounds.parse().expect("ROSTER_STREAM_ROUNDS is a number"))
}

/// Segments go to the archive as soon as they may.
fn settings(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let small = [("ROSTER_STORE__OVERLAY_MAX_MIB", "1"), ("ROSTER_STORE__JOURNAL_KEEP_MIB", "0")];
    let all = small.iter().chain(more);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn place(folder: &tempfile::TempDir, environment: Vec<(String, String)>) -> Place {
    let roster = PathBuf::from(env!("CARGO_BIN_EXE_roster"));
    Place { roster, folder: folder.path().to_owned(), environment }
}

fn progress(story: &mut String, line: &str) {
    if std::env::var("ROSTER_STREAM_ROUNDS").is_ok() {
        eprintln!("{line}");
    }
    story.extend([line, "\n"]);
}

/// What failed leaves its files, to be looked at.
fn kept<T>(folder: tempfile::TempDir, work: impl FnOnce(&tempfile::TempDir) -> T) -> T {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&folder)));
    done.unwrap_or_else(|panic| {
        eprintln!("the data are kept in {}", folder.keep().display());
        std::panic::resume_unwind(panic)
    })
}

#[test]
fn streams_are_whole_whatever_is_killed() {
    if !have(PYTHON, &["-c", "import ldap"]) {
        return;
    }
    kept(tempfile::tempdir().unwrap(), |folder| {
        let rounds = rounds(20);
        let place = place(folder, settings(&[("ROSTER_ARCHIVE__MAX_MIB", "256")]));
        let options = Options {
            place: place.clone(),
            rounds,
            seed: 3,
            clients: 2,
            people: 12,
            load_max: Duration::from_millis(400),
            check_every: rounds / 2,
            variants: Vec::new(),
            fault: None,
        };
        let killing = Killing::start(Readers::new(&place), options.seed);
        let mut story = String::new();
        let totals = run(&options, &mut |line| progress(&mut story, line));
        let mut readers = killing.stop();
        let totals = totals.unwrap_or_else(|failure| panic!("{failure}\n{story}"));
        assert!(totals.kills > 0 && totals.acknowledged > 0, "{totals}");
        let running = place.start().unwrap();
        let door = Door::of(&readers.ready).unwrap();
        readers.finish(&door);
        let sums = readers.judge(&door);
        eprintln!("{totals}\n{sums}");
        running.kill().unwrap();
    });
}

#[test]
fn streams_go_on_at_other_members() {
    if !have(PYTHON, &["-c", "import ldap"]) {
        return;
    }
    kept(tempfile::tempdir().unwrap(), |folder| {
        let place = place(folder, settings(&[]));
        let options = cluster::Options {
            place: place.clone(),
            nodes: 3,
            until: cluster::Until::Rounds(rounds(4)),
            seed: 3,
            clients: 3,
            pause_max: Duration::from_secs(1),
            faults: cluster::Kind::named("kill").unwrap().with_nodes(3),
            judges_each: false,
            syncs_lie: false,
            verifies: false,
            before: None,
        };
        let killing = Killing::start(Readers::new(&place), options.seed);
        let mut story = String::new();
        let totals = cluster::run(&options, &mut |line| progress(&mut story, line));
        let mut readers = killing.stop();
        let totals = totals.unwrap_or_else(|failure| panic!("{failure}\n{story}"));
        let door = Door::of(&readers.ready).unwrap();
        let _members = members(&readers.ready);
        readers.finish(&door);
        let sums = readers.judge(&door);
        eprintln!("{totals}\n{sums}");
    });
}

/// Processes that are ended with the test.
struct Members(Vec<Child>);

impl Drop for Members {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The members that a ready file names, started again.
fn members(ready: &Path) -> Members {
    let text = fs::read_to_string(ready).unwrap();
    let data = text.lines().filter(|line| line.starts_with("node "));
    let data = data.filter_map(|line| line.split(" data ").nth(1)?.split(" role ").next());
    let start = |data: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roster"));
        command.args(["serve", "--data", data]).envs(settings(&[])).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    Members(data.map(start).collect())
}
