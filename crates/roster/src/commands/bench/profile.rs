//! The published benchmarks, by name.

use std::fmt::Write as _;

use clap::Args;

use super::common::{Common, Defaults};
use super::options::AddOptions;
use super::running::StepsBefore;
use crate::bench::plan::Stream;
use crate::bench::profiles::{PROFILES, Profile, Setup};
use crate::failure::{Exit, Failure};
use crate::output;

/// Repeat a published benchmark.
///
/// Each profile has the parameters it was published with; --connections, --duration, --entries and
/// all other options override them. 'roster bench --list' says what each repeats.
#[derive(Args, Debug)]
pub(super) struct Run {
    /// The name of the profile
    #[arg(value_name = "PROFILE", value_parser = profile)]
    profile: &'static Profile,

    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    add: AddOptions,
}

impl Run {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (profile, common) = (self.profile, &self.common);
        let connections = common.connections_or(profile.connections);
        let people = &common.people;
        let setup = Setup {
            entries: people.entries,
            suffix: people.suffix.clone(),
            connections,
            first: self.add.first(people),
        };
        let streams = profile.streams(&setup)?;
        if self.add.remove && !streams.iter().any(Stream::adds) {
            let name = profile.name;
            return Err(Failure::local(format!("{name} adds nothing that could be removed")));
        }
        let apply = |stream: Stream| {
            // A rate of the profile's own stays: it is part of what is repeated.
            if stream.rate.is_some() {
                return stream;
            }
            let removes = stream.removes || (self.add.remove && stream.adds());
            common.applied(Stream { removes, ..stream }, connections)
        };
        let streams: Vec<Stream> = streams.into_iter().map(apply).collect();
        let defaults = Defaults { duration_s: profile.duration_s, warmup_s: profile.warmup_s };
        let plan = common.plan(profile.name, streams, defaults);
        let (prime_s, null_s) = profile.phases_s.unwrap_or_default();
        common.run_after(&plan, &StepsBefore { prime_s, null_s })
    }
}

/// All profiles, one after the other.
pub(super) fn list() -> Result<Exit, Failure> {
    let mut text = String::new();
    for profile in PROFILES {
        let Profile { name, repeats, published, connections, duration_s, .. } = profile;
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "{name}\n    {repeats}\n    {connections} connections, {duration_s} s; {published}\n"
        );
    }
    output::line(format_args!("{}", text.trim_end()))?;
    Ok(Exit::Done)
}

fn profile(name: &str) -> Result<&'static Profile, String> {
    Profile::named(name).ok_or_else(|| "'roster bench --list' shows all of them".to_owned())
}
