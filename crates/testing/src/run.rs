//! Plays scripts against a target, one dialogue after the other.
//!
//! Each dialogue gets a fresh directory; the first step that fails ends its dialogue.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

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
    let outcome = |dialogue: &Dialogue| Outcome {
        script: script.name(),
        title: dialogue.title.clone(),
        failure: run_dialogue(script, dialogue, peer).err().map(|(line, reason)| Failure {
            path: script.path.clone(),
            line,
            reason,
        }),
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
        let mut results_left = count(|kind| matches!(kind, ExpectedKind::Result { .. }));
        let final_tag = request::final_tag(&step.request);
        if final_tag.is_some() {
            results_left = results_left.max(1);
        }
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
