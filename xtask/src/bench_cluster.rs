//! `cargo xtask bench-cluster`: what several roster servers with one log cost and take, on one
//! machine: writes by number of nodes and of clients, searches on a follower that applies, how far
//! followers are behind, and the same writes on three OpenLDAP and three OpenDJ servers, with what
//! each loses when the server that took a write is killed after its answer; as tables for
//! `docs/performance.md`.
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

mod arrival;
mod lag;
mod losses;
mod reads;
mod seeds;
mod stages;
mod trio;
mod writes;

use std::fmt::Write as _;
use std::path::PathBuf;

use self::trio::Kind;
use crate::Error;
use crate::ground::{Ground, Setup, load_average, machine, note};
use crate::options;
use crate::servers::Server;
use crate::servers::peers::{OPENDJ_PACKAGES, SLAPD_PACKAGES};
use crate::servers::{self, members};
use crate::test::install_missing;

/// People, length of a load in seconds, and turns unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
const DEFAULT_SECONDS: u64 = 2;
const DEFAULT_TURNS: u64 = 5;
const QUICK_ENTRIES: u64 = 20_000;
const QUICK_TURNS: u64 = 3;
/// Numbers of nodes, and of connections with one request outstanding each.
const DEFAULT_NODES: [u64; 3] = [1, 3, 5];
const QUICK_NODES: [u64; 2] = [1, 3];
const DEFAULT_CONNECTIONS: [u64; 5] = [1, 10, 50, 200, 1000];
const QUICK_CONNECTIONS: [u64; 2] = [1, 50];
/// How often a server is killed after it answered a write.
const DEFAULT_ROUNDS: u64 = 20;
const QUICK_ROUNDS: u64 = 4;
/// How many nodes there may be.
const NODES: [u64; 3] = [1, 3, 5];
/// Connections where their number is not what is measured.
const CONNECTIONS: u64 = 50;
/// The first made-up person that is added: far behind those that are loaded.
const FIRST_ADDED: u64 = 100_000_000;
/// Numbers between the people that one load adds and those of the next.
const ADDED_STEP: u64 = 10_000_000;

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    /// Writes by number of nodes and connections.
    Writes,
    /// Searches on a follower that applies.
    Reads,
    /// How far followers are behind.
    Lag,
    /// Loads like the published ones, over all nodes, and a consumer that is fed.
    Seeds,
    /// Writes until all three have them, beside other servers.
    Peers,
    /// What is lost when the server that took a write is killed.
    Losses,
}

impl Part {
    const ALL: [(&'static str, Self); 6] = [
        ("writes", Self::Writes),
        ("reads", Self::Reads),
        ("lag", Self::Lag),
        ("seeds", Self::Seeds),
        ("peers", Self::Peers),
        ("losses", Self::Losses),
    ];
}

/// Measures a part and gives its tables.
type Measure = fn(&mut Run<'_>) -> Result<String, String>;

/// What the command line says.
#[derive(Debug)]
struct Asked {
    setup: Setup,
    nodes: Vec<u64>,
    connections: Vec<u64>,
    rounds: u64,
    parts: Vec<Part>,
    kinds: Vec<Kind>,
}

/// A measurement under way.
struct Run<'a> {
    asked: &'a Asked,
    ground: &'a Ground<'a>,
    people: PathBuf,
    /// The number of the next person to add.
    next: u64,
    /// What gave no figures.
    wrong: Vec<String>,
}

/// A kind of write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Job {
    Modify,
    Add,
}

impl Job {
    const ALL: [Self; 2] = [Self::Modify, Self::Add];

    const fn name(self) -> &'static str {
        match self {
            Self::Modify => "modify",
            Self::Add => "add",
        }
    }
}

/// Runs everything that `arguments` ask for and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    if asked.has(Part::Peers) || asked.has(Part::Losses) {
        for (kind, packages) in [(Kind::Slapd, SLAPD_PACKAGES), (Kind::OpenDj, OPENDJ_PACKAGES)] {
            if asked.kinds.contains(&kind) {
                install_missing(packages)?;
            }
        }
    }
    let mut wrong = Vec::new();
    asked.setup.measure("bench-cluster", |ground| measure(&asked, ground, &mut wrong))?;
    if wrong.is_empty() { Ok(()) } else { Err(Error::Wrong(wrong.join("; "))) }
}

/// All tables. What gives no figures comes into `wrong`; the rest has its own.
fn measure(asked: &Asked, ground: &Ground<'_>, wrong: &mut Vec<String>) -> Result<String, String> {
    let setup = &asked.setup;
    let mut text = format!(
        "{} people; loads of {} s after a second of warm-up; all on one machine. {}. {}.\n",
        setup.entries,
        setup.seconds,
        machine(),
        load_average()
    );
    let people = ground.people(&[])?;
    let mut run = Run { asked, ground, people, next: FIRST_ADDED, wrong: Vec::new() };
    let parts: [(Part, Measure); 4] = [
        (Part::Writes, writes::measure),
        (Part::Reads, reads::measure),
        (Part::Lag, lag::measure),
        (Part::Seeds, seeds::measure),
    ];
    for (part, measure) in parts {
        if asked.has(part) {
            let table = measure(&mut run).unwrap_or_else(|error| run.gives_none(error));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{table}");
        }
    }
    if asked.has(Part::Peers) || asked.has(Part::Losses) {
        let _ = writeln!(text, "\n{}", trio::measure(&mut run));
    }
    wrong.append(&mut run.wrong);
    Ok(text)
}

impl Run<'_> {
    /// So many nodes, loaded and started.
    fn nodes(&self, name: &str, count: u64) -> Result<Vec<Server>, String> {
        note(&format!("{name}: starting {count} of roster"));
        let folder = self.ground.folder.join(format!("{name}-{count}"));
        let program = &self.ground.program;
        match count {
            1 => Ok(vec![servers::roster(program, &folder, &self.people)?]),
            count => members::start(program, &folder, &self.people, count as usize),
        }
    }

    /// Notes what gave no figures, and tells it in their place.
    fn gives_none(&mut self, error: String) -> String {
        note(&error);
        let text = format!("No figures: {error}\n");
        self.wrong.push(error);
        text
    }

    /// The words of a load that `roster bench` understands; nobody is added twice.
    fn words(&mut self, job: Job) -> Vec<String> {
        let words = |words: [&str; 3]| words.map(str::to_owned).to_vec();
        match job {
            Job::Modify => words(["modify", "--dn", &self.modified()]),
            Job::Add => {
                let first = self.next;
                self.next += ADDED_STEP;
                words(["add", "--first", &first.to_string()])
            }
        }
    }

    /// The people that are modified: not the first few, whom others write to.
    fn modified(&self) -> String {
        crate::load::people(&format!("{}-{}", trio::KEPT + 1, self.asked.setup.entries))
    }
}

impl Asked {
    fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let is_quick = arguments.iter().any(|word| word == "--quick");
    let setup = match is_quick {
        true => Setup::new(QUICK_ENTRIES, DEFAULT_SECONDS, QUICK_TURNS),
        false => Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, DEFAULT_TURNS),
    };
    let either = |full: &[u64], quick: &[u64]| if is_quick { quick } else { full }.to_vec();
    let mut asked = Asked {
        setup,
        nodes: either(&DEFAULT_NODES, &QUICK_NODES),
        connections: either(&DEFAULT_CONNECTIONS, &QUICK_CONNECTIONS),
        rounds: if is_quick { QUICK_ROUNDS } else { DEFAULT_ROUNDS },
        parts: Part::ALL.map(|(_, part)| part).to_vec(),
        kinds: Kind::ALL.map(|(_, kind)| kind).to_vec(),
    };
    options::read(arguments, |name, value| {
        match name {
            "--quick" => {}
            "--nodes" => {
                asked.nodes = value.numbers()?;
                if !asked.nodes.iter().all(|count| NODES.contains(count)) {
                    return Err(Error::usage("--nodes takes some of 1,3,5"));
                }
            }
            "--connections" => asked.connections = value.numbers()?,
            "--rounds" => asked.rounds = value.number()?,
            "--only" => asked.parts = named(name, &value.text()?, &Part::ALL)?,
            "--servers" => asked.kinds = named(name, &value.text()?, &Kind::ALL)?,
            _ => return asked.setup.take(name, value),
        }
        Ok(true)
    })?;
    if asked.setup.entries <= trio::KEPT {
        return Err(Error::usage(format!("--entries takes more than {}", trio::KEPT)));
    }
    Ok(asked)
}

/// Those that a list names.
fn named<T: Copy>(option: &str, text: &str, all: &[(&str, T)]) -> Result<Vec<T>, Error> {
    let known = |word: &str| all.iter().find(|(name, _)| *name == word).map(|(_, one)| *one);
    let found: Option<Vec<T>> = text.split(',').map(known).collect();
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        Error::usage(format!("{option} takes some of {}", names.join(",")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = parse(&[]).unwrap();
        assert_eq!((asked.setup.entries, asked.rounds, asked.parts.len()), (100_000, 20, 6));
        let asked = parse(&words("--only lag,losses --nodes 3 --quick --entries 50")).unwrap();
        assert_eq!(asked.parts, [Part::Lag, Part::Losses]);
        assert_eq!((asked.setup.entries, asked.nodes), (50, vec![3]));
        for wrong in ["--nodes 2", "--only all", "--servers 389", "--entries 5", "--rounds 0"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
