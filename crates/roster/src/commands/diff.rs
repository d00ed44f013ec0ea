//! `roster diff`: what differs between two moments.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use environment::Timestamp;
use ldap::filter::{AvaFilter, Filter};

use crate::account::moment;
use crate::changes::difference::Difference;
use crate::changes::names::Names;
use crate::changes::{self, Start};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Show what differs between two moments, as LDIF that turns the first into the second.
///
/// Works on a running server, as far as changes are kept. Of each entry it shows what became of it
/// in between; what came and went again is not shown, nor is what only servers set.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// A time, or a duration before now such as 2h. Given twice: from the first to the second; else
    /// up to now
    #[arg(long, value_name = "TIME", required = true, value_parser = time)]
    at: Vec<Timestamp>,

    /// Only this entry and what is below it, or was
    #[arg(short = 'b', long, value_name = "DN")]
    base: Option<String>,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster diff --at 2h -W
  roster diff --at 2027-01-31T18:00:00Z --at 2027-01-31T19:00:00Z -W
  roster diff --at 2d --at 1d -b ou=people,dc=example,dc=com -W";

/// Change logs tell whole seconds.
const SECOND_US: u64 = Duration::from_secs(1).as_micros() as u64;

fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(length) = moment::length(text) {
        return Ok(moment::before_now(length));
    }
    moment::parsed(text).map_err(|_| {
        "expected a duration such as 2h, or a time such as 2027-01-31T18:00:00Z".into()
    })
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let (from, to) = match *options.at {
        [from] => (from, moment::now()),
        [from, to] if from <= to => (from, to),
        [_, _] => return Err(Failure::local("the first --at is after the second")),
        _ => return Err(Failure::local("give --at once or twice")),
    };
    let base = options.base.as_deref().map(|base| Names::unchanged().key_of(base)).transpose()?;
    let mut connection = options.server.connect()?;
    let kept = changes::kept(&mut connection)?;
    // Before the first change of all there was nothing that is not known.
    if let Some(first) = kept.first.filter(|first| *first > 1)
        && let Some(begun) = changes::begun(&mut connection)?
        && moment::parsed(&begun).is_ok_and(|time| from.0 < time.0)
    {
        return Err(Failure::refused(format!(
            "changes are kept from {begun} on (change {first}), which is after {}",
            from.generalized_time()
        ))
        .hint("a backup of that time may be compared with one of today: 'roster export'"));
    }
    let value = to.generalized_time().into_bytes().into();
    let until = Filter::LessOrEqual(AvaFilter { description: "changeTime", value });
    let start = Start::Time(Timestamp(from.0.saturating_add(SECOND_US)));
    let mut difference = Difference::new();
    changes::read(&mut connection, start, Some(&until), &mut |change| difference.put(&change))?;
    let mut out = output::out();
    for step in difference.steps(base.as_ref()) {
        out.write_all(&step.permissive_ldif())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}
