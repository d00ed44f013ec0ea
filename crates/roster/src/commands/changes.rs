//! `roster changes`: what changes, as it changes.

use std::thread;
use std::time::Duration;

use clap::Args;
use ldap::filter::Filter;

use crate::account::moment;
use crate::changes::{self, Start};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Print the changes of a running server, as they are made.
///
/// Works with every server that has 'cn=changelog'. Reading takes the privilege changelog-read and
/// an ACI for cn=changelog; the administrator has both. The output is LDIF that 'ldapmodify' can
/// apply elsewhere, or a JSON object in each line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Only changes for which this filter is true, such as '(changeType=delete)'
    #[arg(value_name = "FILTER")]
    filter: Option<String>,

    /// Where to begin: 'now', the number of a change, a time, or a duration before now such as 2h
    #[arg(long, value_name = "WHERE", default_value = "now", value_parser = start)]
    from: Start,

    /// Stop at the last change there is, instead of waiting for more
    #[arg(long)]
    once: bool,

    /// Print JSON, an object in each line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster changes -W
  roster changes --from 2h --once -W
  roster changes --from 1040 --json -W '(targetDN=uid=anna,ou=people,dc=example,dc=com)'
  roster changes --from 2027-01-31T18:00:00Z -W '(changeType=delete)'";

/// How often the server is asked for more.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Where reading begins, as it is written.
fn start(text: &str) -> Result<Start, String> {
    if text == "now" {
        return Ok(Start::Now);
    }
    if let Ok(number) = text.parse() {
        return Ok(Start::Number(number));
    }
    if let Ok(length) = moment::length(text) {
        return Ok(Start::Time(moment::before_now(length)));
    }
    moment::parsed(text).map(Start::Time).map_err(|_| {
        "expected 'now', a number, a duration such as 2h, or a time such as 2027-01-31T18:00:00Z"
            .to_owned()
    })
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let filter = options.filter.as_deref().map(Filter::parse).transpose();
    let filter =
        filter.map_err(|error| Failure::local(format!("the filter cannot be read: {error}")))?;
    let mut connection = options.server.connect()?;
    let mut from = options.from;
    if let Start::Number(number) = from
        && let Some(first) = changes::kept(&mut connection)?.first.filter(|first| *first > number)
    {
        output::note(format_args!("roster: the first change that the server has is {first}"));
    }
    loop {
        let next = changes::read(&mut connection, from, filter.as_ref(), &mut |change| {
            changes::print(&change, options.json)
        })?;
        if options.once {
            return Ok(Exit::Done);
        }
        from = Start::Next(next);
        thread::park_timeout(ASK_EVERY);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn places_to_begin_are_read() {
        assert_eq!(start("now"), Ok(Start::Now));
        assert_eq!(start("1040"), Ok(Start::Number(1_040)));
        assert!(matches!(start("2h").unwrap(), Start::Time(_)));
        let time = environment::Timestamp(1_800_000_000_000_000);
        assert_eq!(start("2027-01-15T08:00:00Z"), Ok(Start::Time(time)));
        assert!(start("yesterday").unwrap_err().contains("a duration such as 2h"));
    }
}
