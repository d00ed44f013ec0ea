//! Crash rounds: a real server is killed at random moments under real clients, started again, and
//! must hold exactly what it acknowledged.
//!
//! Each round: clients write at full speed; the server is killed (or stopped, or killed again while
//! it recovers), started again, and everything is compared: entries with all their attributes,
//! names, indexes. Every so many rounds `roster check` looks at the files themselves.
//! Start at [`run`]; what must be there is in `model`, how it is compared in `verify`.
//!
//! Invariant: the data directory lives over all rounds, so damage that shows late shows too.

mod load;
mod model;
pub mod server;
mod verify;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::load::{Door, Signals, Told};
use self::model::{Owner, SIDES, TOP, Which};
use self::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, kill, now, pause};
use crate::chance::Chance;
use crate::client::{Attributes, Change, ChangeKind, Client, Request};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and where its data go.
    pub place: Place,
    /// How many times.
    pub rounds: u64,
    /// Where chance starts. The moments of death depend on the machine too.
    pub seed: u64,
    /// Concurrent clients.
    pub clients: usize,
    /// Entries of each client.
    pub people: usize,
    /// The longest time under load in one round.
    pub load_max: Duration,
    /// `roster check` after every so many rounds.
    pub check_every: u64,
    /// Settings that take turns from round to round, beside those of the place.
    pub variants: Vec<Vec<(String, String)>>,
    /// What to damage behind the harness's back, to see that it notices.
    pub fault: Option<Fault>,
}

/// Damage done on purpose after the first restart: what a server that loses writes would do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// An acknowledged entry is gone.
    Lost,
    /// One attribute of an acknowledged request is not as it was written.
    Half,
    /// An entry is there that nobody made.
    Extra,
    /// An entry has another name.
    Renamed,
}

impl Fault {
    /// All kinds, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("lost", Self::Lost),
        ("half", Self::Half),
        ("extra", Self::Extra),
        ("renamed", Self::Renamed),
    ];
}

/// Sums over all rounds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Rounds that went well.
    pub rounds: u64,
    /// Times the server was killed.
    pub kills: u64,
    /// Writes acknowledged, all of which were found.
    pub acknowledged: u64,
    /// Writes unanswered at the server's end that were done.
    pub done: u64,
    /// Writes unanswered at the server's end that were not done at all.
    pub undone: u64,
    /// Answers that said that nothing was done.
    pub refused: u64,
    /// Entries read on another connection right after the answer.
    pub read_back: u64,
    /// Offline checks.
    pub checks: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, kills, acknowledged, done, undone, refused, read_back, checks } = self;
        write!(
            f,
            "{rounds} rounds, {kills} kills: {acknowledged} writes acknowledged and all there, \
             {done} unanswered ones done, {undone} not done, none half, {refused} refused, \
             {read_back} read back at once on another connection, {checks} checks clean"
        )
    }
}

/// What went wrong, and in which round.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Counted from 1; 0 before the first.
    pub round: u64,
    /// How the round went.
    pub story: String,
    /// What is wrong.
    pub faults: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "round {}: {}", self.round, self.story)?;
        write!(f, "  {}", self.faults.join("\n  "))
    }
}

/// How a round ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    /// Killed while clients write.
    Kill,
    /// Killed while nobody writes, some time after the last answer.
    KillIdle,
    /// Killed under load, then again so many times while it starts.
    KillAtStart(u64),
    /// Killed under load, then again just after it began to serve.
    KillAgain,
    /// Stopped while clients write.
    Stop,
    /// Asked to stop while clients write, and killed before it was done.
    StopAndKill,
}

/// Runs all rounds; `progress` gets a line for each.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Totals, Failure> {
    let failed =
        |error: String| Failure { round: 0, story: "at first".to_owned(), faults: vec![error] };
    options.place.init().map_err(failed)?;
    let owners = (0..options.clients).map(|number| Owner::new(number, options.people)).collect();
    let mut run =
        Run { options, owners, totals: Totals::default(), running: None, start: FIRST_START };
    run.start_server(0).and_then(|()| run.fixed_entries()).map_err(failed)?;
    for round in 1..=options.rounds {
        let mut story = String::new();
        let begin = now();
        let result = run.round(round, &mut story);
        let faults = match result {
            Ok(faults) => faults,
            Err(error) => vec![error],
        };
        if !faults.is_empty() {
            return Err(Failure { round, story, faults });
        }
        run.totals.rounds += 1;
        let seconds = begin.elapsed().as_secs_f64();
        progress(&format!("round {round}/{}  {story}, {seconds:.1} s", options.rounds));
    }
    Ok(run.totals)
}

struct Run<'o> {
    options: &'o Options,
    owners: Vec<Owner>,
    totals: Totals,
    running: Option<Running>,
    /// How long the last start took: the time in which a start can be disturbed.
    start: Duration,
}

impl Run<'_> {
    fn place(&self, round: u64) -> Place {
        let mut place = self.options.place.clone();
        let variants = self.options.variants.len() as u64;
        if variants > 0
            && let Some(variant) = self.options.variants.get((round % variants) as usize)
        {
            place.environment.extend(variant.iter().cloned());
        }
        place
    }

    fn start_server(&mut self, round: u64) -> Result<(), String> {
        let running = self.place(round).start()?;
        self.start = running.start;
        self.running = Some(running);
        Ok(())
    }

    fn door(&self) -> Result<Door, String> {
        let running = self.running.as_ref().ok_or("no server is running")?;
        let (dn, password) = (ADMIN_DN.to_owned(), ADMIN_PASSWORD.to_owned());
        Ok(Door { address: running.address, dn, password })
    }

    fn enter(&self) -> Result<Client, String> {
        self.door()?.enter().map_err(|error| error.to_string())
    }

    /// Makes the entries below which clients work.
    fn fixed_entries(&self) -> Result<(), String> {
        let mut client = self.enter()?;
        let sides = SIDES.map(|side| (format!("{side},{TOP}"), side));
        let top = (TOP.to_owned(), TOP.split(',').next().unwrap_or_default());
        for (dn, rdn) in [top].into_iter().chain(sides) {
            let ou = rdn.trim_start_matches("ou=").to_owned();
            let attributes: Attributes = [("objectClass", "organizationalUnit"), ("ou", &ou)]
                .map(|(name, value)| (name.to_owned(), [value.to_owned()].into()))
                .into();
            let answer = client.call(&Request::Add { dn: dn.clone(), attributes });
            match answer {
                Ok(answer) if answer.code == 0 => {}
                other => return Err(format!("cannot add {dn}: {other:?}")),
            }
        }
        Ok(())
    }

    /// One round; what is wrong in the end.
    fn round(&mut self, round: u64, story: &mut String) -> Result<Vec<String>, String> {
        let mut chance = Chance::new(self.options.seed, round);
        let ending = ending(&mut chance);
        let load = chance.below(self.options.load_max.as_millis() as u64 + 1).max(LOAD_MIN_MS);
        let load = Duration::from_millis(load);
        story.push_str(&format!("{ending:?} after {} ms", load.as_millis()));
        let (told, mut faults) = self.under_load(round, ending, load, &mut chance)?;
        let [acknowledged, refused, read_back] = told;
        story.push_str(&format!(": {acknowledged} acknowledged"));
        if self.options.check_every > 0 && round.is_multiple_of(self.options.check_every) {
            self.check(story)?;
        }
        if self.running.is_none() {
            self.options.place.keep_copy("before-restart");
            self.start_server(round)?;
        }
        story.push_str(&format!(", {} ms to serve", self.start.as_millis()));
        let mut client = self.enter()?;
        if let Some(fault) = self.options.fault {
            damage(&mut client, &self.owners, fault)?;
        }
        let (verified, mut more) = verify::verify(&mut client, &mut self.owners)
            .map_err(|error| format!("while comparing: {error}"))?;
        faults.append(&mut more);
        story.push_str(&format!(
            ", {} unanswered done, {} not, {} entries and {} searches fine",
            verified.done, verified.undone, verified.entries, verified.searches
        ));
        self.totals.acknowledged += acknowledged;
        self.totals.refused += refused;
        self.totals.read_back += read_back;
        self.totals.done += verified.done as u64;
        self.totals.undone += verified.undone as u64;
        if !faults.is_empty() {
            // Nothing more may change what there is to look at.
            self.running.take().map_or(Ok(()), Running::kill)?;
        }
        Ok(faults)
    }

    /// Lets clients write until the server has ended as planned; afterwards it may run again.
    fn under_load(
        &mut self,
        round: u64,
        ending: Ending,
        load: Duration,
        chance: &mut Chance,
    ) -> Result<([u64; 3], Vec<String>), String> {
        let door = self.door()?;
        let signals = Arc::new(Signals::default());
        let owners = std::mem::take(&mut self.owners);
        let results: (Vec<Told>, Result<(), String>) = std::thread::scope(|scope| {
            let clients: Vec<_> = owners
                .into_iter()
                .map(|owner| {
                    let stream = round.wrapping_mul(STREAMS) + owner.number as u64 + 1;
                    let chance = Chance::new(self.options.seed, stream);
                    let (door, signals) = (&door, &signals);
                    scope.spawn(move || load::run(door, owner, chance, signals))
                })
                .collect();
            // The time counts from the first answer: a busy machine takes a while to get there.
            let begin = now();
            while signals.answered.load(Ordering::Relaxed) == 0
                && clients.iter().any(|client| !client.is_finished())
                && begin.elapsed() < FIRST_ANSWER_MAX
            {
                pause(Duration::from_millis(1));
            }
            pause(load);
            if ending == Ending::KillIdle {
                signals.stop.store(true, Ordering::Relaxed);
                while clients.iter().any(|client| !client.is_finished()) {
                    pause(Duration::from_millis(1));
                }
                pause(Duration::from_millis(chance.below(IDLE_MAX_MS)));
            }
            let ended = self.end(ending, chance);
            let told = clients.into_iter().filter_map(|client| client.join().ok()).collect();
            (told, ended)
        });
        let (told, ended) = results;
        ended?;
        let mut sums = [0; 3];
        let mut faults = Vec::new();
        for one in told {
            for (sum, count) in sums.iter_mut().zip([one.acknowledged, one.refused, one.read_back])
            {
                *sum += count;
            }
            faults.extend(one.faults);
            self.owners.push(one.owner);
        }
        if self.owners.len() < self.options.clients {
            return Err("a client panicked".to_owned());
        }
        self.disturb(round, ending, chance)?;
        Ok((sums, faults))
    }

    /// Ends the running server as planned.
    fn end(&mut self, ending: Ending, chance: &mut Chance) -> Result<(), String> {
        let running = self.running.take().ok_or("no server is running")?;
        match ending {
            Ending::Stop => {
                let status = running.stop()?;
                if !status.success() {
                    return Err(format!("the server stopped with {status}"));
                }
                return Ok(());
            }
            Ending::StopAndKill => {
                running.ask_to_stop()?;
                pause(Duration::from_micros(chance.below(STOP_MAX_US)));
            }
            Ending::Kill | Ending::KillIdle | Ending::KillAtStart(_) | Ending::KillAgain => {}
        }
        self.totals.kills += 1;
        running.kill()
    }

    /// Disturbs the start that follows, if the ending says so.
    fn disturb(&mut self, round: u64, ending: Ending, chance: &mut Chance) -> Result<(), String> {
        match ending {
            Ending::KillAtStart(times) => {
                for _ in 0..times {
                    let mut child = self.place(round).spawn(&[])?;
                    let limit = self.start.as_micros() as u64 * 12 / 10;
                    pause(Duration::from_micros(chance.below(limit)));
                    kill(&mut child)?;
                    self.totals.kills += 1;
                }
            }
            Ending::KillAgain => {
                self.start_server(round)?;
                pause(Duration::from_micros(chance.below(AGAIN_MAX_US)));
                self.totals.kills += 1;
                self.running.take().map_or(Ok(()), Running::kill)?;
            }
            Ending::Kill | Ending::KillIdle | Ending::Stop | Ending::StopAndKill => {}
        }
        Ok(())
    }

    /// The files by themselves.
    fn check(&mut self, story: &mut String) -> Result<(), String> {
        self.options.place.keep_copy("before-check");
        let output = self.options.place.offline(&["check"])?;
        self.totals.checks += 1;
        story.push_str(&format!(", check: {}", output.trim().replace('\n', "; ")));
        Ok(())
    }
}

fn ending(chance: &mut Chance) -> Ending {
    match chance.below(20) {
        0..9 => Ending::Kill,
        9..11 => Ending::KillIdle,
        11..15 => Ending::KillAtStart(1 + chance.below(3)),
        15..17 => Ending::KillAgain,
        17 => Ending::Stop,
        _ => Ending::StopAndKill,
    }
}

/// Does what a server that loses writes would do, to an entry that has nothing in flight.
fn damage(client: &mut Client, owners: &[Owner], fault: Fault) -> Result<(), String> {
    let certain = owners.iter().find_map(|owner| {
        let mut slots = owner.slots().filter(|(which, _)| matches!(which, Which::Person(_)));
        slots.find_map(|(which, slot)| {
            let entry = slot.state.as_ref().filter(|_| slot.pending.is_none())?;
            let container = owner.containers.get(entry.place)?;
            container.pending.is_none().then(|| (owner.dn(which, entry), entry.attributes.clone()))
        })
    });
    // A round may end before anybody is added: the next one damages.
    let Some((dn, attributes)) = certain else { return Ok(()) };
    let superior = dn.split_once(',').map_or("", |(_, superior)| superior).to_owned();
    let request = match fault {
        Fault::Lost => Request::Delete { dn },
        Fault::Half => {
            let (kind, attribute) = (ChangeKind::Replace, "description".to_owned());
            let changes = vec![Change { kind, attribute, values: vec!["as it was".to_owned()] }];
            Request::Modify { dn, changes }
        }
        Fault::Extra => {
            let mut attributes = attributes;
            attributes.insert("uid".to_owned(), ["extra".to_owned()].into());
            attributes.remove("roomNumber");
            Request::Add { dn: format!("uid=extra,{superior}"), attributes }
        }
        Fault::Renamed => {
            let new_rdn = "uid=renamed".to_owned();
            Request::ModifyDn { dn, new_rdn, delete_old_rdn: false, new_superior: None }
        }
    };
    match client.call(&request) {
        Ok(answer) if answer.code == 0 => Ok(()),
        other => Err(format!("the damage cannot be done: {other:?}")),
    }
}

/// Settings that take turns from round to round, so that what is rare by default is not rare.
pub fn variants() -> Vec<Vec<(String, String)>> {
    let small = [("ROSTER_STORE__OVERLAY_MAX_MIB", "1"), ("ROSTER_STORE__JOURNAL_KEEP_MIB", "0")];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    vec![Vec::new(), small.map(owned).to_vec()]
}

/// Removes everything a run left.
pub fn clean(folder: &PathBuf) {
    // What cannot be removed is left to the system's cleaning of temporary files.
    let _ = fs::remove_dir_all(folder);
}

/// A start is taken to last this long before the first was seen.
const FIRST_START: Duration = Duration::from_millis(100);
/// The first answer of a round is waited for no longer than this.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(60);
/// Clients have at least this time to write.
const LOAD_MIN_MS: u64 = 10;
/// Longest rest before a kill without load.
const IDLE_MAX_MS: u64 = 100;
/// Longest time between asking to stop and killing.
const STOP_MAX_US: u64 = 40_000;
/// Longest time a server lives that is killed again.
const AGAIN_MAX_US: u64 = 30_000;
/// Streams of chance for each round.
const STREAMS: u64 = 1 << 20;
