//! What the directory here says of a branch that follows: who follows, whom, and where it is. It is
//! a value of `roster-follow` in `cn=Following,cn=config`.
//!
//! Invariant: it is changed only from what was read, so of two that change it one fails; and who is
//! not named in it any more changes nothing in the branch.
//! Invariant: where the answer to a change does not come, or does not say whether it was made, the
//! line itself is asked.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{ClientError, Connection, Outcome, SearchFor};
use environment::{Chance as _, OsChance};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use schema::{DnKey, Schema};

use crate::failure::Failure;
use crate::online::{now, wait};

/// A branch that follows, as the directory says it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct FollowLine {
    name: String,
    pub(super) source: String,
    refers: bool,
    pub(super) session: String,
    /// It grows while somebody follows.
    beat: u64,
    pub(super) position: Option<Position>,
    branch: String,
}

/// How far the source was followed: everything before it is here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Position {
    /// A cookie of RFC 4533.
    Cookie(Vec<u8>),
    /// A place in a change log: a number or a cookie.
    Log(Vec<u8>),
}

impl Position {
    fn text(&self) -> String {
        let (kind, octets) = match self {
            Self::Cookie(octets) => ("sync", octets),
            Self::Log(octets) => ("log", octets),
        };
        format!("{kind}:{}", STANDARD.encode(octets))
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, octets) = text.split_once(':')?;
        let octets = STANDARD.decode(octets).ok()?;
        match kind {
            "sync" => Some(Self::Cookie(octets)),
            "log" => Some(Self::Log(octets)),
            _ => None,
        }
    }
}

impl FollowLine {
    fn text(&self) -> String {
        let Self { name, source, refers, session, beat, position, branch } = self;
        let refer = if *refers { " refer" } else { "" };
        let position = position.as_ref().map_or_else(|| "-".to_owned(), Position::text);
        format!(
            "{name}: from {source}{refer} session {session} at {beat}/{position} below {branch}"
        )
    }

    /// A position for which the directory has no room is none.
    fn shorten(&mut self) {
        if self.text().len() > LINE_MAX_BYTES {
            self.position = None;
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(": from ")?;
        let (source, rest) = rest.split_once(' ')?;
        let (refers, rest) = match rest.strip_prefix("refer ") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (session, rest) = rest.strip_prefix("session ")?.split_once(" at ")?;
        let (place, branch) = rest.split_once(" below ")?;
        let (beat, position) = place.split_once('/')?;
        Some(Self {
            name: name.to_owned(),
            source: source.to_owned(),
            refers,
            session: session.to_owned(),
            beat: beat.parse().ok()?,
            position: Position::parse(position),
            branch: branch.to_owned(),
        })
    }
}

/// How a line is taken over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Claim {
    /// From nobody who still follows.
    IfFree,
    /// From whoever follows.
    InAnyCase,
}

/// The line of one branch, and the right to change the branch.
pub(super) struct Held {
    line: FollowLine,
    schema: Arc<Schema>,
    branch: DnKey,
}

impl Held {
    /// The line of a branch; none if it does not follow.
    pub(super) fn look(
        connection: &mut Connection,
        schema: &Schema,
        branch: &DnKey,
    ) -> Result<Option<FollowLine>, Failure> {
        let attributes = [ATTRIBUTE];
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: &attributes,
            ..SearchFor::below(CONFIG, Filter::Present("objectClass"))
        };
        let found = connection.search(&asked)?;
        if found.outcome.code == ResultCode::NoSuchObject {
            return Err(Failure::refused("this server does not know how to follow another one")
                .hint(crate::connect::ADMINISTRATOR_HINT));
        }
        found.outcome.clone().into_result("search")?;
        let lines = found.entries.iter().flat_map(|entry| entry.texts(ATTRIBUTE));
        let is_it = |line: &FollowLine| {
            DnKey::from_text(schema, &line.branch).is_ok_and(|key| key == *branch)
        };
        Ok(lines.filter_map(FollowLine::parse).find(is_it))
    }

    /// Begins to follow: from now on nobody else changes the branch.
    pub(super) fn begin(
        connection: &mut Connection,
        asked: Begun<'_>,
        schema: &Arc<Schema>,
        key: &DnKey,
    ) -> Result<Self, Failure> {
        let Begun { branch, source, refers } = asked;
        let line = FollowLine {
            name: name_of(branch),
            source: source.to_owned(),
            refers,
            session: new_session(),
            beat: 1,
            position: None,
            branch: branch.to_owned(),
        };
        let text = line.text();
        let added = [(ModifyOperation::Add, ATTRIBUTE, &[&*text][..])];
        connection.modify(CONFIG, &added)?.into_result("beginning")?;
        Ok(Self { line, schema: Arc::clone(schema), branch: key.clone() })
    }

    /// Takes over a line that is there.
    pub(super) fn take(
        connection: &mut Connection,
        line: FollowLine,
        schema: &Arc<Schema>,
        branch: &DnKey,
        claim: Claim,
    ) -> Result<Self, Failure> {
        if claim == Claim::IfFree && line.beat > 0 {
            let begin = now();
            while begin.elapsed() < FREE_AFTER {
                wait(LOOK_EVERY);
                let other = Self::look(connection, schema, branch)?;
                if other.as_ref().is_some_and(|other| other.beat == 0) {
                    break;
                }
                if other.as_ref() != Some(&line) {
                    let why = format!("another 'roster follow' follows {} already", line.source);
                    return Err(Failure::refused(why).hint(
                        "end it first, or run this one with --cut-over or --take-over, which has \
                         it end",
                    ));
                }
            }
        }
        // Whoever still follows notes its position between one's look and one's change.
        let mut turns = TURNS_MAX;
        loop {
            let line = Self::look(connection, schema, branch)?.ok_or_else(gone)?;
            let mut held = Self { line, schema: Arc::clone(schema), branch: branch.clone() };
            let session = new_session();
            let change = |line: &mut FollowLine| {
                line.beat += 1;
                line.session.clone_from(&session);
            };
            match held.put(connection, change) {
                Err(failure) if turns > 0 && failure.message == LOST => turns -= 1,
                done => return done.map(|()| held),
            }
        }
    }

    /// Who follows, as requests name it.
    pub(super) fn session(&self) -> &str {
        &self.line.session
    }

    /// Where it is.
    pub(super) fn position(&self) -> Option<&Position> {
        self.line.position.as_ref()
    }

    /// Notes where it is, or that it is there still.
    pub(super) fn save(
        &mut self,
        connection: &mut Connection,
        position: Option<Position>,
    ) -> Result<(), Failure> {
        self.put(connection, |line| {
            line.beat += 1;
            line.position.clone_from(&position);
        })
    }

    /// Ends well: whoever comes next need not wait.
    pub(super) fn release(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        self.put(connection, |line| line.beat = 0)
    }

    /// Whether the branch follows at all.
    pub(super) fn is_there(&self, connection: &mut Connection) -> Result<bool, Failure> {
        Ok(Self::look(connection, &self.schema, &self.branch)?.is_some())
    }

    /// Ends following: the branch is like any other one.
    pub(super) fn lift(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let mut turns = UNCLEAR_TURNS_MAX;
        loop {
            let text = self.line.text();
            let outcome =
                connection.modify(CONFIG, &[(ModifyOperation::Delete, ATTRIBUTE, &[&*text])])?;
            if !is_unclear(outcome.code) {
                return Ok(outcome.into_result(NOTING)?);
            }
            match Self::look(connection, &self.schema, &self.branch)? {
                None => return Ok(()),
                Some(line) => self.adopt(line)?,
            }
            again(&mut turns, outcome)?;
        }
    }

    fn put(
        &mut self,
        connection: &mut Connection,
        change: impl Fn(&mut FollowLine),
    ) -> Result<(), Failure> {
        let mut turns = UNCLEAR_TURNS_MAX;
        loop {
            let before = self.line.text();
            let mut after = self.line.clone();
            change(&mut after);
            after.shorten();
            let text = after.text();
            let changes = [
                (ModifyOperation::Delete, ATTRIBUTE, &[&*before][..]),
                (ModifyOperation::Add, ATTRIBUTE, &[&*text][..]),
            ];
            let outcome = connection.modify(CONFIG, &changes)?;
            if outcome.is_success() {
                self.line = after;
                return Ok(());
            }
            if !is_unclear(outcome.code) {
                return Ok(outcome.into_result(NOTING)?);
            }
            let line = Self::look(connection, &self.schema, &self.branch)?.ok_or_else(gone)?;
            if line == after {
                self.line = after;
                return Ok(());
            }
            self.adopt(line)?;
            again(&mut turns, outcome)?;
        }
    }

    /// Takes the line as it is found, if it is still this one who follows: an answer was lost.
    fn adopt(&mut self, line: FollowLine) -> Result<(), Failure> {
        if line.session != self.line.session {
            return Err(lost());
        }
        self.line = line;
        Ok(())
    }
}

/// Waits before a change of the line is tried again; after so many turns it is left to a new
/// connection.
fn again(turns: &mut u32, outcome: Outcome) -> Result<(), Failure> {
    if *turns == 0 {
        let failure = Failure::from(ClientError::Refused { operation: NOTING, outcome });
        return Err(Failure { is_passing: true, ..failure });
    }
    *turns -= 1;
    wait(UNCLEAR_WAIT);
    Ok(())
}

/// Whether an outcome leaves it open what the line is now: it was changed before, though the
/// answer was lost, or whoever takes the writes of a cluster did not answer.
fn is_unclear(code: ResultCode) -> bool {
    matches!(
        code,
        ResultCode::NoSuchAttribute
            | ResultCode::Other
            | ResultCode::Unavailable
            | ResultCode::Busy
            | ResultCode::Referral
    )
}

/// A branch that is to follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun<'b> {
    pub(super) branch: &'b str,
    pub(super) source: &'b str,
    pub(super) refers: bool,
}

/// Has a branch be like any other one, whoever follows; the source that it followed.
pub(super) fn end(
    connection: &mut Connection,
    schema: &Schema,
    branch: &DnKey,
) -> Result<Option<String>, Failure> {
    let mut turns = TURNS_MAX;
    loop {
        let Some(line) = Held::look(connection, schema, branch)? else { return Ok(None) };
        match lift(connection, &line) {
            Err(failure) if turns > 0 && failure.message == LOST => turns -= 1,
            done => return done.map(|()| Some(line.source)),
        }
    }
}

fn lift(connection: &mut Connection, line: &FollowLine) -> Result<(), Failure> {
    let text = line.text();
    done(connection.modify(CONFIG, &[(ModifyOperation::Delete, ATTRIBUTE, &[&*text])])?)
}

fn done(outcome: Outcome) -> Result<(), Failure> {
    match outcome.code {
        ResultCode::NoSuchAttribute => Err(lost()),
        _ => Ok(outcome.into_result(NOTING)?),
    }
}

/// Another one follows now.
pub(super) fn lost() -> Failure {
    Failure::refused(LOST)
}

/// Nobody follows any more.
fn gone() -> Failure {
    Failure::refused(GONE)
}

/// Whether a failure says that nobody follows any more, so that changes are made here.
pub(super) fn is_gone(failure: &Failure) -> bool {
    failure.message == GONE
}

/// Whether a failure says that another one follows now, or nobody.
pub(super) fn is_lost(failure: &Failure) -> bool {
    failure.message == LOST
}

fn new_session() -> String {
    let mut octets = [0; 8];
    OsChance.fill(&mut octets);
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// A name for a branch, of the letters that names may have.
fn name_of(branch: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    branch.chars().take(NAME_MAX_CHARS).map(plain).collect()
}

const LOST: &str = "another 'roster follow' has taken over, or following has ended";
const GONE: &str = "following has ended: the branch here is like any other one";
/// What is done to the line, in words.
const NOTING: &str = "noting of the position";
/// A line whose change has no clear outcome is changed again so often, with pauses.
const UNCLEAR_TURNS_MAX: u32 = 20;
const UNCLEAR_WAIT: Duration = Duration::from_millis(100);
/// A line that changes under the hands of who changes it is looked at so often.
const TURNS_MAX: u32 = 50;
const CONFIG: &str = "cn=Following,cn=config";
const ATTRIBUTE: &str = "roster-follow";
const NAME_MAX_CHARS: usize = 60;
/// What the server takes of a line.
const LINE_MAX_BYTES: usize = 4096;
/// Who follows says so that often when nothing changes.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(4);
/// Who has not said so for this long does not follow any more.
const FREE_AFTER: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_is_too_long_is_none() {
        let line = |octets| FollowLine {
            name: "a".to_owned(),
            source: "ldap://old:389".to_owned(),
            refers: false,
            session: "00ff".to_owned(),
            beat: 7,
            position: Some(Position::Cookie(vec![b'x'; octets])),
            branch: "dc=x".to_owned(),
        };
        for (octets, is_kept) in [(3_000, true), (3_100, false)] {
            let mut line = line(octets);
            line.shorten();
            assert_eq!(line.position.is_some(), is_kept);
            assert!(line.text().len() <= LINE_MAX_BYTES);
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for (refers, position) in [
            (false, None),
            (true, Some(Position::Cookie(b"rid=000,csn=a b/c".to_vec()))),
            (false, Some(Position::Log(vec![0xff, 0]))),
        ] {
            let line = FollowLine {
                name: name_of("dc=a b,dc=x"),
                source: "ldap://old:389".to_owned(),
                refers,
                session: "00ff".to_owned(),
                beat: 7,
                position,
                branch: "dc=a b,dc=x".to_owned(),
            };
            assert_eq!(FollowLine::parse(&line.text()), Some(line));
        }
        for bad in ["", "a: from x", "a: from x session s at 1 below dc=x", "a: b"] {
            assert_eq!(FollowLine::parse(bad), None, "{bad}");
        }
    }
}
