//! Three servers that hold the same, of each kind in its turn: what one takes comes to the others.
//!
//! Invariant: what is waited for is the last write. Whoever shows it has what came before it from
//! the same server, unless that was away: slapd then sends what was missed in any order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use testing::client::{Change, ChangeKind, Client, Request, Search};
use testing::crash::server::{SUFFIX, now, pause};

use super::{Part, Run, arrival, losses};
use crate::ground::note;
use crate::servers::{Server, members, replicas};

/// The first people, whom no load changes.
pub(super) const KEPT: u64 = 9;
/// Whose description says what was written last.
const MARKED: u64 = 1;
/// How long the last write may take until all have it.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long all may take until they hold the same, after that.
const SAME_AFTER: Duration = Duration::from_secs(30);
/// How often it is looked whether they have.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// The attribute that loads modify, too.
pub(super) const WRITTEN: &str = "description";

/// A kind of server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Roster,
    Slapd,
    OpenDj,
}

impl Kind {
    pub(super) const ALL: [(&'static str, Self); 3] =
        [("roster", Self::Roster), ("slapd", Self::Slapd), ("opendj", Self::OpenDj)];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Roster => "roster",
            Self::Slapd => "OpenLDAP",
            Self::OpenDj => "OpenDJ",
        }
    }
}

/// The servers of a kind.
pub(super) struct Trio {
    pub(super) kind: Kind,
    pub(super) servers: Vec<Server>,
    /// Marks so far: each is another value.
    marks: u64,
}

/// Everything that is measured with each kind.
pub(super) fn measure(run: &mut Run<'_>) -> String {
    let (mut arrivals, mut lost) = (Vec::new(), Vec::new());
    let mut notes = String::new();
    for kind in run.asked.kinds.clone() {
        // What stops one server stops no other.
        let done = Trio::start(run, kind).and_then(|mut trio| {
            if run.asked.has(Part::Peers) {
                arrivals.push(arrival::measure(run, &mut trio)?);
            }
            if run.asked.has(Part::Losses) {
                lost.push(losses::measure(run, &mut trio)?);
            }
            Ok(())
        });
        if let Err(error) = done {
            let told = run.gives_none(format!("three of {}: {error}", kind.title()));
            notes.push_str(&told);
        }
    }
    let mut text = String::new();
    if run.asked.has(Part::Peers) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", arrival::table(&arrivals));
    }
    if run.asked.has(Part::Losses) {
        let _ = writeln!(text, "{}", losses::table(&lost));
    }
    text + &notes
}

impl Trio {
    fn start(run: &Run<'_>, kind: Kind) -> Result<Self, String> {
        note(&format!("setting up three of {}", kind.title()));
        let (folder, begin) = (run.ground.folder.join("trio"), now());
        let servers = match kind {
            Kind::Roster => run.nodes("trio", 3)?,
            Kind::Slapd => replicas::slapd(&folder, &run.people)?,
            Kind::OpenDj => replicas::opendj(&folder, &run.people)?,
        };
        let mut trio = Self { kind, servers, marks: 0 };
        trio.settle_all()?;
        note(&format!("  after {:.0} s", begin.elapsed().as_secs_f64()));
        Ok(trio)
    }

    /// The one that takes writes best: the leader, where there is one.
    pub(super) fn first(&self) -> Result<usize, String> {
        match self.kind {
            Kind::Roster => members::leader(&self.servers),
            Kind::Slapd | Kind::OpenDj => Ok(0),
        }
    }

    pub(super) fn server(&self, place: usize) -> Result<&Server, String> {
        let missing = || format!("there is no {} at {place}", self.kind.title());
        self.servers.get(place).ok_or_else(missing)
    }

    /// Writes something on one of them and waits until the others show it.
    pub(super) fn settle(&mut self, from: usize) -> Result<(), String> {
        self.marks += 1;
        let value = format!("mark {}", self.marks);
        let dn = person(MARKED);
        write(&mut self.server(from)?.enter()?, &dn, &value)?;
        let begin = now();
        for server in &self.servers {
            let mut client = server.enter()?;
            while !shows(&mut client, &dn, &value)? {
                if begin.elapsed() > PATIENCE {
                    let seconds = PATIENCE.as_secs();
                    let (name, to) = (self.kind.title(), server.address);
                    return Err(format!("{name}: a write has not come to {to} after {seconds} s"));
                }
                pause(LOOK_PAUSE);
            }
        }
        Ok(())
    }

    /// Waits so from each of them: then all have what any had.
    pub(super) fn settle_all(&mut self) -> Result<(), String> {
        (0..self.servers.len()).try_for_each(|from| self.settle(from))
    }

    /// The people that each has, with what was written to them; as soon as all hold the same, or
    /// after a while.
    pub(super) fn held(&self) -> Result<Vec<BTreeMap<String, Vec<u8>>>, String> {
        let begin = now();
        loop {
            let held: Result<Vec<_>, String> = self.servers.iter().map(held).collect();
            let held = held?;
            if differing(&held) == 0 || begin.elapsed() > SAME_AFTER {
                return Ok(held);
            }
        }
    }
}

/// How many entries are not the same on all.
pub(super) fn differing(held: &[BTreeMap<String, Vec<u8>>]) -> usize {
    let mut all: Vec<&String> = held.iter().flat_map(BTreeMap::keys).collect();
    all.sort();
    all.dedup();
    let Some((first, others)) = held.split_first() else { return 0 };
    let is_same = |name: &&&String| others.iter().all(|one| one.get(**name) == first.get(**name));
    all.len() - all.iter().filter(is_same).count()
}

fn held(server: &Server) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let search = Search {
        base: format!("ou=people,{SUFFIX}"),
        scope: 1,
        filter: "(objectClass=person)".to_owned(),
        attributes: vec![WRITTEN.to_owned()],
    };
    let tree = server.enter()?.search_tree(&search);
    let tree = tree.map_err(|error| format!("{}: {error}", server.name))?;
    let values = |all: Vec<(String, Vec<Vec<u8>>)>| {
        all.into_iter().flat_map(|(_, values)| values).collect::<Vec<_>>().join(&0)
    };
    Ok(tree.into_iter().map(|(name, all)| (name, values(all))).collect())
}

/// The name of a person.
pub(super) fn person(number: u64) -> String {
    format!("uid=user.{number},ou=people,{SUFFIX}")
}

/// The request that gives an entry this value.
pub(super) fn writing(dn: &str, value: &str) -> Request {
    let change = Change {
        kind: ChangeKind::Replace,
        attribute: WRITTEN.to_owned(),
        values: vec![value.to_owned()],
    };
    Request::Modify { dn: dn.to_owned(), changes: vec![change] }
}

fn write(client: &mut Client, dn: &str, value: &str) -> Result<(), String> {
    match client.call(&writing(dn, value)) {
        Ok(answer) if answer.code == 0 => Ok(()),
        Ok(answer) => Err(format!("a write ended with {}: {}", answer.code, answer.diagnostic)),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether an entry has this value.
pub(super) fn shows(client: &mut Client, dn: &str, value: &str) -> Result<bool, String> {
    let search = Search {
        base: dn.to_owned(),
        scope: 0,
        filter: "(objectClass=*)".to_owned(),
        attributes: vec![WRITTEN.to_owned()],
    };
    let found = client.search(&search).map_err(|error| error.to_string())?;
    let values = found.entries.first().and_then(|(_, attributes)| attributes.get(WRITTEN));
    Ok(values.is_some_and(|values| values.contains(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_counted_once() {
        let held = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().into()));
            all.collect::<BTreeMap<String, Vec<u8>>>()
        };
        let one = held(&[("a", "1"), ("b", "2")]);
        assert_eq!(differing(&[one.clone(), one.clone(), one.clone()]), 0);
        // One lacks an entry, and another has a value of its own and an entry more.
        let (two, three) = (held(&[("a", "1")]), held(&[("a", "2"), ("b", "2"), ("c", "")]));
        assert_eq!(differing(&[one.clone(), two.clone()]), 1);
        assert_eq!(differing(&[one, two, three]), 3);
    }
}
