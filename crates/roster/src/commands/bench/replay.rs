//! `roster bench replay`: the load of a recorded day.

use std::path::PathBuf;

use clap::Args;
use offline::Source;

use super::common::{Common, Defaults};
use super::jobs::CONNECTIONS;
use super::options::{AddOptions, ModifyOptions};
use crate::bench::jobs;
use crate::bench::plan::Stream;
use crate::bench::record::ReplayedLog;
use crate::bench::replay::jobs::{Wishes, Writes};
use crate::bench::replay::recorded::Recorded;
use crate::bench::replay::sample::Sample;
use crate::failure::{Exit, Failure};

/// Repeat the load of an access log.
///
/// It asks the same kinds of requests at the same times, with filters, bases and attributes of the
/// same form, about other entries: names and values are drawn from the directory. Reads roster's
/// own access log in both formats, plain or compressed. Updates are left out without --writes, and
/// binds without --password.
#[derive(Args, Debug)]
pub(super) struct Replay {
    /// Access logs; '-' is standard input
    #[arg(value_name = "FILE", required = true, num_args = 1..=FILES_MAX)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    common: Common,

    /// How many times as fast as it was recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,

    /// How many entries names and values are drawn from: the first of each naming context
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sample: u32,

    /// Repeat simple binds, all with this password. A wrong one locks accounts
    // Another id than that of the login's own password.
    #[arg(id = "entry_password", long = "password", value_name = "PASSWORD")]
    password: Option<String>,

    /// Repeat updates: each modify replaces --attribute of an entry, each add adds an entry of
    /// examples/people.template, each delete deletes an entry that was added so
    #[arg(long)]
    writes: bool,

    #[command(flatten)]
    modify: ModifyOptions,
    #[command(flatten)]
    add: AddOptions,
}

impl Replay {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        if self.common.has_rate() {
            return Err(Failure::local("the log says when requests are due")
                .hint("use --speed instead of --rate"));
        }
        let mut recorded = self.read()?;
        let lines = recorded.lines;
        if recorded.shapes.is_empty() {
            let failure = Failure::local(format!("none of {lines} lines is a request to repeat"));
            return Err(match recorded.first_bad.first() {
                Some(bad) => failure.hint(format!("is it an access log of roster? {bad}")),
                None => failure,
            });
        }
        let wishes = self.wishes();
        wishes.choose(&mut recorded);
        let mut connection = self.common.server.connect()?;
        let attributes = Wishes::attributes(&recorded);
        let sample = Sample::draw(&mut connection, &attributes, self.sample as usize)?;
        drop(connection);
        let stream = wishes.stream(&mut recorded, &sample)?;
        let length = stream.pace.as_ref().map(|pace| pace.duration().as_secs_f64());
        let length_s = length.unwrap_or_default();
        let log = ReplayedLog {
            lines,
            requests: recorded.shapes.iter().map(|(_, count)| count).sum(),
            shapes: recorded.shapes.iter().filter(|(_, count)| *count > 0).count() as u64,
            length_s: length_s * self.speed,
            speed: self.speed,
            left_out: recorded.left_out,
            dropped: recorded.dropped,
            bad_lines: recorded.bad_lines,
            first_bad: recorded.first_bad,
        };
        let removes = self.add.remove && stream.adds();
        let connections = stream.connections;
        let stream = self.common.applied(Stream { removes, ..stream }, connections);
        let defaults = Defaults { duration_s: (length_s.ceil() as u32).max(1), warmup_s: 0 };
        let plan = self.common.plan("replay", vec![stream], defaults);
        self.common.run_log(&plan, log)
    }

    fn read(&self) -> Result<Recorded, Failure> {
        let mut logs = Vec::new();
        for path in &self.files {
            let failed = |error| Failure::path("read", path, &error);
            let source = match path.as_os_str() == "-" {
                true => Source::new("standard input", std::io::stdin()),
                false => Source::open(path).map_err(failed)?,
            };
            logs.push(source.plain().map_err(failed)?);
        }
        Recorded::read(logs.iter_mut().map(|(name, octets)| (&**name, octets)))
    }

    fn wishes(&self) -> Wishes {
        let people = &self.common.people;
        let writes = self.writes.then(|| Writes {
            attribute: self.modify.attribute.clone(),
            value: self.modify.value.clone(),
            people: jobs::people(&people.suffix, self.add.first(people)),
        });
        Wishes {
            password: self.password.clone(),
            writes,
            speed: self.speed,
            connections: self.common.connections_or(CONNECTIONS),
            seed: self.common.seed(),
        }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| (0.01..=1_000.0).contains(speed));
    speed.ok_or_else(|| "a speed is from 0.01 to 1000".to_owned())
}

/// Files of one replay.
const FILES_MAX: usize = 1_000;
