//! What is lost when the server that took a write is killed right after its answer, and does not
//! come back: whether the others have the write within ten seconds.
//!
//! In every other round a load writes to the same server meanwhile. In a cluster of roster, the
//! server that takes the write is the leader in two rounds, then a follower in two.

use std::fmt::Write as _;
use std::time::Duration;

use testing::client::Client;
use testing::crash::server::{now, pause};

use super::Run;
use super::trio::{Kind, Trio, differing, person, shows, writing};
use crate::ground::note;
use crate::load::{Load, Started};

/// How long the others have to show the write.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether they do.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// Who is written to.
const WRITTEN_TO: u64 = 2;
/// Connections of the load, how long it runs before the write, and at most.
const BUSY_CONNECTIONS: u64 = 10;
const BUSY_BEFORE: Duration = Duration::from_millis(1500);
const BUSY_SECONDS: u64 = 60;

/// What became of the writes of some rounds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Count {
    rounds: u64,
    /// Of the two others, both have it, one, or none.
    on_both: u64,
    on_one: u64,
    lost: u64,
}

/// What became of all writes to a kind of server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    kind: Kind,
    quiet: Count,
    busy: Count,
    /// People that differ when all three have run again.
    differing: usize,
}

/// All rounds.
pub(super) fn measure(run: &Run<'_>, trio: &mut Trio) -> Result<Losses, String> {
    let (mut quiet, mut busy) = (Count::default(), Count::default());
    for round in 0..run.asked.rounds {
        let is_busy = round % 2 == 1;
        let found = self::round(run, trio, round, is_busy)?;
        let what = if is_busy { "beside a load" } else { "alone" };
        let name = trio.kind.title();
        note(&format!("  {name}: round {}, {what}: {found} of 2 have the write", round + 1));
        if is_busy { &mut busy } else { &mut quiet }.put(found);
    }
    trio.settle_all()?;
    Ok(Losses { kind: trio.kind, quiet, busy, differing: differing(&trio.held()?) })
}

/// How many of the others have what was written to one that was killed.
fn round(run: &Run<'_>, trio: &mut Trio, round: u64, is_busy: bool) -> Result<usize, String> {
    let taker = match (trio.kind, (round / 2) % 2) {
        (Kind::Roster, 0) => trio.first()?,
        (Kind::Roster, _) => (trio.first()? + 1) % trio.servers.len(),
        (Kind::Slapd | Kind::OpenDj, _) => round as usize % trio.servers.len(),
    };
    trio.settle(taker)?;
    let (dn, value) = (person(WRITTEN_TO), format!("round {round} of {}", std::process::id()));
    let mut client = trio.server(taker)?.enter()?;
    let load = is_busy.then(|| load(run, trio, taker)).transpose()?;
    if load.is_some() {
        pause(BUSY_BEFORE);
    }
    let answer = client.call(&writing(&dn, &value));
    let killed = trio.servers.get_mut(taker).map_or(Ok(()), crate::servers::Server::kill);
    killed?;
    // It has nobody to ask any more.
    drop(load);
    match answer {
        Ok(answer) if answer.code == 0 => {}
        Ok(answer) => {
            return Err(format!("a write ended with {}: {}", answer.code, answer.diagnostic));
        }
        Err(error) => return Err(error.to_string()),
    }
    let found = look(trio, taker, &dn, &value)?;
    trio.servers.get_mut(taker).map_or(Ok(()), crate::servers::Server::start_again)?;
    Ok(found)
}

/// Modifies on one server, until this is dropped.
fn load(run: &Run<'_>, trio: &Trio, taker: usize) -> Result<Started, String> {
    let words = ["modify".to_owned(), "--dn".to_owned(), run.modified()];
    let load = Load::new(trio.server(taker)?, BUSY_SECONDS, &words).connections(BUSY_CONNECTIONS);
    load.start(&run.ground.program, &run.asked.setup.with).map(|running| running.alone())
}

/// How many of the others show a value in time.
fn look(trio: &Trio, taker: usize, dn: &str, value: &str) -> Result<usize, String> {
    let others = trio.servers.iter().enumerate().filter(|(place, _)| *place != taker);
    let clients: Result<Vec<Client>, String> = others.map(|(_, one)| one.enter()).collect();
    let (mut left, begin, mut found) = (clients?, now(), 0);
    loop {
        let mut without = Vec::new();
        for mut client in left {
            match shows(&mut client, dn, value)? {
                true => found += 1,
                false => without.push(client),
            }
        }
        if without.is_empty() || begin.elapsed() > LOOK_MAX {
            return Ok(found);
        }
        left = without;
        pause(LOOK_PAUSE);
    }
}

impl Count {
    fn put(&mut self, found: usize) {
        self.rounds += 1;
        match found {
            0 => self.lost += 1,
            1 => self.on_one += 1,
            _ => self.on_both += 1,
        }
    }

    fn text(self) -> String {
        let Self { rounds, on_both, on_one, lost } = self;
        format!("{rounds} | {on_both} | {on_one} | {lost}")
    }
}

/// All kinds.
pub(super) fn table(all: &[Losses]) -> String {
    let mut text = "| the server that took a write is killed after its answer | rounds | both \
                    others have it | one has it | none has it | people that differ at the end |\n\
                    |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for one in all {
        let (name, quiet, busy) = (one.kind.title(), one.quiet.text(), one.busy.text());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {name}, nothing else written | {quiet} | |");
        let differing = one.differing;
        let _ = writeln!(text, "| {name}, beside a load of writes | {busy} | {differing} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_nobody_has_is_lost() {
        let (mut quiet, mut busy) = (Count::default(), Count::default());
        [2, 2, 1].into_iter().for_each(|found| quiet.put(found));
        [0, 2].into_iter().for_each(|found| busy.put(found));
        let text = table(&[Losses { kind: Kind::Slapd, quiet, busy, differing: 3 }]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let want = [
            "| OpenLDAP, nothing else written | 3 | 2 | 1 | 0 | |",
            "| OpenLDAP, beside a load of writes | 2 | 1 | 0 | 1 | 3 |",
        ];
        assert_eq!(rows, want);
    }
}
