//! Plays scripts against a target, one dialogue after the other.
//!
//! Each dialogue gets a fresh directory; the first step that fails ends its dialogue.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::expect::{self, Answer};
use crate::request;
use crate::response::{self, Body};
use crate::script::{Dialogue, ExpectedKind, RequestSpec, Script, ScriptError, Step};
use crate::target::{Received, Target};
use crate::template::Captures;

/// The most messages read for one step.
const MESSAGES_PER_STEP_MAX: usize = 10_000;

/// A server that scripts can be played against.
pub trait Peer {
    /// Starts over with exactly the entries of an LDIF file.
    fn fresh(&mut self, ldif: &Path) -> Result<Box<dyn Target + '_>, String>;

    /// Who `{root}` is.
    fn root_dn(&self) -> &str {
        "cn=Directory Manager"
    }

    /// The password of `{root}`.
    fn root_password(&self) -> &str {
        "secret"
    }

    /// How its process ended by itself, if it is one and did.
    fn died(&mut self) -> Option<String> {
        None
    }
}

/// How one dialogue ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// File name of the script.
    pub script: String,
    /// Title of the dialogue.
    pub title: String,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
}

/// Where and why a dialogue failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The script.
    pub path: PathBuf,
    /// The line of the expectation that was not met, or of the request.
    pub line: usize,
    /// For a person; may have several lines.
    pub reason: String,
    /// How the server's process ended under the dialogue, which then says nothing of its answers.
    pub died: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

/// Plays all `*.ldap` files of a directory, in the order of their names.
pub fn run_directory(directory: &Path, peer: &mut dyn Peer) -> Result<Vec<Outcome>, ScriptError> {
    let mut outcomes = Vec::new();
    for path in script_paths(directory)? {
        outcomes.extend(run_script(&Script::read(&path)?, peer));
    }
    Ok(outcomes)
}

/// Plays all `*.ldap` files of a directory on `threads` threads, each with a
/// peer of its own.
///
/// # Panics
/// When a thread does.
pub fn run_directory_beside<P: Peer>(
    directory: &Path,
    threads: usize,
    peer: impl Fn() -> P + Sync,
) -> Result<Vec<Outcome>, ScriptError> {
    let scripts: Vec<Script> =
        script_paths(directory)?.iter().map(|path| Script::read(path)).collect::<Result<_, _>>()?;
    let next = AtomicUsize::new(0);
    let play = || {
        let mut peer = peer();
        let mut played = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(script) = scripts.get(number) else { return played };
            played.push((number, run_script(script, &mut peer)));
        }
    };
    let mut played: Vec<(usize, Vec<Outcome>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(play)).collect();
        let played = threads.into_iter().map(|thread| thread.join().expect("scripts do not panic"));
        played.flatten().collect()
    });
    played.sort_by_key(|(number, _)| *number);
    Ok(played.into_iter().flat_map(|(_, outcomes)| outcomes).collect())
}

/// Plays the project's own scripts against peers, which must say everything as written. Dialogues
/// wait for disks more than they compute, so several are played at a time.
///
/// # Panics
/// With the dialogues that went otherwise, or when the scripts cannot be read.
pub fn check_all<P: Peer>(peer: impl Fn() -> P + Sync) {
    const AT_A_TIME: usize = 4;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let outcomes =
        run_directory_beside(&scripts, AT_A_TIME, peer).unwrap_or_else(|error| panic!("{error}"));
    let failures: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some(format!("{}: {}", outcome.title, outcome.failure.as_ref()?)))
        .collect();
    assert!(outcomes.len() >= 400, "only {} dialogues were found", outcomes.len());
    let (failed, all) = (failures.len(), outcomes.len());
    assert!(failures.is_empty(), "{failed} of {all} failed:\n{}", failures.join("\n"));
}

/// Copies a data directory, so that a dialogue can start from one that was loaded once.
pub fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The `*.ldap` files of a directory, sorted.
pub fn script_paths(directory: &Path) -> Result<Vec<PathBuf>, ScriptError> {
    let fail = |error: std::io::Error| ScriptError {
        path: directory.to_owned(),
        line: 0,
        reason: error.to_string(),
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "ldap") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Plays every dialogue of a script.
pub fn run_script(script: &Script, peer: &mut dyn Peer) -> Vec<Outcome> {
    let outcome = |dialogue: &Dialogue| {
        let failure = run_dialogue(script, dialogue, peer).err();
        let failure = failure.map(|(line, reason)| {
            let (path, died) = (script.path.clone(), peer.died());
            Failure { path, line, reason, died }
        });
        Outcome { script: script.name(), title: dialogue.title.clone(), failure }
    };
    script.dialogues.iter().map(outcome).collect()
}

fn run_dialogue(
    script: &Script,
    dialogue: &Dialogue,
    peer: &mut dyn Peer,
) -> Result<(), (usize, String)> {
    let directory = script.path.parent().unwrap_or(Path::new("."));
    let captures = Captures::from([
        ("root".to_owned(), peer.root_dn().as_bytes().to_vec()),
        ("rootpassword".to_owned(), peer.root_password().as_bytes().to_vec()),
    ]);
    let ldif = directory.join("data").join(&dialogue.fixture);
    let target = peer.fresh(&ldif).map_err(|reason| (dialogue.line, reason))?;
    let mut play = Play { target, captures, connections: BTreeMap::new() };
    dialogue.steps.iter().try_for_each(|step| play.step(step))
}

/// A dialogue under way.
struct Play<'a> {
    target: Box<dyn Target + 'a>,
    captures: Captures,
    /// By name: the target's number and the message id used last.
    connections: BTreeMap<String, (usize, i64)>,
}

impl Play<'_> {
    fn step(&mut self, step: &Step) -> Result<(), (usize, String)> {
        let fail = |reason| (step.line, reason);
        let (connection, id) = match self.connections.get(&step.connection) {
            Some((connection, id)) => (*connection, id + 1),
            None => (self.target.open(), 1),
        };
        self.connections.insert(step.connection.clone(), (connection, id));
        let octets = request::encode(step, id, &self.captures).map_err(fail)?;
        self.target.send(connection, &octets);
        let answer = self.collect(step, connection, id).map_err(fail)?;
        expect::check(&step.expected, &answer, &mut self.captures)
            .map_err(|(line, reason)| (if line == 0 { step.line } else { line }, reason))
    }

    /// Reads until the step is answered: as many results as it expects, or the end.
    fn collect(&mut self, step: &Step, connection: usize, id: i64) -> Result<Answer, String> {
        let count = |wanted: fn(&ExpectedKind) -> bool| {
            step.expected.iter().filter(|one| wanted(&one.kind)).count()
        };
        let until_closed =
            count(|kind| matches!(kind, ExpectedKind::Closed | ExpectedKind::Disconnect { .. }))
                > 0;
        let notices = count(|kind| matches!(kind, ExpectedKind::Notice { .. }));
        let mut results_left = count(|kind| matches!(kind, ExpectedKind::Result { .. }));
        let final_tag = request::final_tag(&step.request);
        if final_tag.is_some() {
            results_left = results_left.max(1);
        }
        results_left += notices;
        let mut answer = Answer::default();
        while until_closed || results_left > 0 {
            let message = match self.target.receive(connection) {
                Received::Message(message) => message,
                Received::Closed => {
                    answer.closed = true;
                    break;
                }
                Received::Nothing => break,
            };
            let response = response::decode(&message)
                .ok_or_else(|| format!("not a response: {message:02x?}"))?;
            let raw = matches!(step.request, RequestSpec::Raw(_));
            if !raw && response.id != id && response.id != 0 {
                return Err(format!("an answer to message {}, not {id}", response.id));
            }
            if let Body::Result(_) = &response.body {
                if final_tag.is_some_and(|tag| tag != response.tag) && response.id != 0 {
                    return Err(format!("an answer of type {:02x}", response.tag));
                }
                results_left = results_left.saturating_sub(1);
            }
            answer.responses.push(response);
            if answer.responses.len() > MESSAGES_PER_STEP_MAX {
                return Err(format!("more than {MESSAGES_PER_STEP_MAX} messages"));
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::{ENUMERATED, INTEGER, OCTET_STRING, SEQUENCE, SET, put, put_number, put_with};

    /// A server that gives the same answer whatever it is asked.
    struct Canned(Vec<Received>);

    impl Peer for Canned {
        fn fresh(&mut self, _ldif: &Path) -> Result<Box<dyn Target + '_>, String> {
            Ok(Box::new(CannedTarget(self.0.clone())))
        }
    }

    struct CannedTarget(Vec<Received>);

    impl Target for CannedTarget {
        fn open(&mut self) -> usize {
            0
        }

        fn send(&mut self, _connection: usize, _octets: &[u8]) {}

        fn receive(&mut self, _connection: usize) -> Received {
            if self.0.is_empty() { Received::Nothing } else { self.0.remove(0) }
        }
    }

    fn message(id: i64, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Received {
        let mut out = Vec::new();
        put_with(&mut out, SEQUENCE, |out| {
            put_number(out, INTEGER, id);
            put_with(out, tag, fill);
        });
        Received::Message(out)
    }

    fn result(id: i64, tag: u8, code: i64, matched: &str, diagnostic: &str) -> Received {
        message(id, tag, |out| {
            put_number(out, ENUMERATED, code);
            put(out, OCTET_STRING, matched.as_bytes());
            put(out, OCTET_STRING, diagnostic.as_bytes());
        })
    }

    fn entry(dn: &str, description: &str, values: &[&str]) -> Received {
        message(1, 0x64, |out| {
            put(out, OCTET_STRING, dn.as_bytes());
            put_with(out, SEQUENCE, |out| {
                put_with(out, SEQUENCE, |out| {
                    put(out, OCTET_STRING, description.as_bytes());
                    put_with(out, SET, |out| {
                        for value in values {
                            put(out, OCTET_STRING, value.as_bytes());
                        }
                    });
                });
            });
        })
    }

    fn notice() -> Received {
        message(0, 0x78, |out| {
            put_number(out, ENUMERATED, 2);
            put(out, OCTET_STRING, b"");
            put(out, OCTET_STRING, b"");
            put(out, 0x8a, b"1.3.6.1.4.1.1466.20036");
        })
    }

    /// Whether a dialogue of one step passes when the server gives these answers.
    #[track_caller]
    fn check(step: &str, answers: &[Received], want: Result<(), usize>) {
        let text = format!("# Rule.\ngiven x.ldif\n# --- title\n{step}");
        let script = Script::parse(Path::new("x.ldap"), &text).unwrap();
        let outcomes = run_script(&script, &mut Canned(answers.to_vec()));
        let failure = outcomes[0].failure.as_ref();
        assert_eq!(failure.map_or(Ok(()), |one| Err(one.line)), want, "{failure:?}");
    }

    #[test]
    fn a_result_must_have_code_matched_dn_and_diagnostic() {
        let answer = [result(1, 0x6b, 32, "dc=a", "No such thing")];
        check("delete x\n=> noSuchObject matched=dc=a", &answer, Ok(()));
        check("delete x\n=> noSuchObject matched={any} diagnostic~such", &answer, Ok(()));
        check("delete x\n=> success matched=dc=a", &answer, Err(5));
        check("delete x\n=> noSuchObject", &answer, Err(5));
        check("delete x\n=> noSuchObject matched=dc=a diagnostic~else", &answer, Err(5));
    }

    #[test]
    fn an_answer_must_belong_to_the_request() {
        check("delete x\n=> success", &[result(2, 0x6b, 0, "", "")], Err(4));
        check("delete x\n=> success", &[result(1, 0x69, 0, "", "")], Err(4));
        check("delete x\n=> success", &[], Err(5));
        check("delete x\n=> success", &[Received::Closed], Err(5));
        check("delete x\n=> success", &[Received::Message(vec![1, 0])], Err(4));
    }

    #[test]
    fn entries_must_be_the_expected_ones() {
        let done = || result(1, 0x65, 0, "", "");
        let search = "search base x (a=b)\n";
        let two = [entry("dc=b", "cn", &["b"]), entry("dc=a", "CN", &["1", "2"]), done()];
        let a = "=> entry dc=a\n  cn: 2\n  cn: 1\n";
        let b = "=> entry dc=b\n  cn: b\n";
        check(&format!("{search}{a}{b}=> success"), &two, Ok(()));
        check(&format!("{search}=> entries 2\n=> success"), &two, Ok(()));
        check(&format!("{search}=> entries 1\n=> success"), &two, Err(5));
        check(&format!("{search}{a}=> success"), &two, Err(4));
        check(&format!("{search}{a}{b}=> entry dc=c\n=> success"), &two, Err(10));
        check(&format!("{search}{a}=> entry dc=b\n=> success"), &two, Err(8));
        check(&format!("{search}{a}=> entry dc=b …\n=> success"), &two, Ok(()));
        check(&format!("{search}{a}=> entry dc=b …\n  !cn\n=> success"), &two, Err(8));
        check(&format!("{search}{b}=> entry dc=a\n  cn: 1\n=> success"), &two, Err(7));
        check(&format!("{search}{b}=> entry dc=a\n  cn: 1\n  cn: …\n=> success"), &two, Ok(()));
        check(&format!("{search}{a}=> entry dc=b\n  cn\n=> success"), &two, Err(8));
        check(&format!("{search}{a}=> entry dc=b\n  cn: c\n=> success"), &two, Err(8));
    }

    #[test]
    fn a_reference_must_be_expected() {
        let reference = message(1, 0x73, |out| put(out, OCTET_STRING, b"ldap://a"));
        let answers = [reference, result(1, 0x65, 0, "", "")];
        check("search base x (a=b)\n=> reference ldap://a\n=> success", &answers, Ok(()));
        check("search base x (a=b)\n=> reference ldap://b\n=> success", &answers, Err(5));
        check("search base x (a=b)\n=> success", &answers, Err(4));
    }

    #[test]
    fn a_notice_of_disconnection_is_no_result() {
        let end = [notice(), Received::Closed];
        check("raw 00\n=> disconnect protocolError\n=> closed", &end, Ok(()));
        check("raw 00\n=> disconnect unavailable\n=> closed", &end, Err(5));
        check("raw 00\n=> disconnect protocolError\n=> closed", &[notice()], Err(6));
        check("delete x\n=> protocolError", &end, Err(5));
        check("unbind\n=> closed", &[Received::Closed], Ok(()));
        check("unbind\n=> closed", &[], Err(5));
    }
}
