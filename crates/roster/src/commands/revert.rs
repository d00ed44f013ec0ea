//! `roster revert`: undoes one change.

use std::io::Write as _;

use clap::Args;
use ldap::filter::{AvaFilter, Filter};

use crate::changes::inverse::Undoing;
use crate::changes::names::Names;
use crate::changes::{self, Start};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Undo one change: bring back what it deleted, delete what it added, and give entries the values
/// and names that they had before it.
///
/// Works on a running server, as its administrator, as far as changes are kept. It refuses if what
/// it changed has changed since.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The number of the change, as 'roster history' and 'roster changes' show it
    #[arg(value_name = "NUMBER")]
    number: u64,

    /// Print what would be done, as LDIF, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Also if it was changed since
    #[arg(short = 'f', long)]
    force: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster revert -n 1042 -W
  roster revert 1042 -W";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let kept = changes::kept(&mut connection)?;
    let (number, value) = (options.number, options.number.to_string().into_bytes().into());
    let filter = Filter::Equality(AvaFilter { description: "changeNumber", value });
    let mut all = Vec::new();
    changes::read(&mut connection, Start::Number(number), Some(&filter), &mut |change| {
        all.push(change);
        Ok(())
    })?;
    if all.is_empty() {
        return Err(Failure::refused(match kept.first.filter(|first| *first > number) {
            Some(first) => format!("change {number} is not kept any more: the first is {first}"),
            None => format!("change {number} changed no entry, or there is none yet"),
        })
        .hint("'roster history DN' shows the changes of an entry with their numbers"));
    }
    let names = Names::of(&mut connection)?;
    let is_forced = options.force;
    let steps = Undoing::new(&mut connection, &names, is_forced).steps(&all)?;
    if options.dry_run {
        let mut out = output::out();
        steps.iter().try_for_each(|step| out.write_all(&step.permissive_ldif()))?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    for (done, step) in steps.iter().enumerate() {
        step.carry_out(&mut connection).map_err(|failure| match done {
            0 => failure,
            done => failure.hint(format!("{done} of {} steps were done before", steps.len())),
        })?;
        output::line(format_args!("{} {}", step.dn(), step.what()))?;
    }
    if steps.is_empty() {
        output::note(format_args!("roster: nothing is left of change {number}"));
    }
    Ok(Exit::Done)
}
