//! `roster top`: what a running server does, live.

use std::time::Duration;

use clap::Args;

use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::top;

/// Show what a running server does: operations and latencies, CPU, queues, store, journal, logs.
///
/// Reads cn=monitor over LDAP, as an identity with the privilege config-read, such as the
/// administrator, or the owner of the server's process through ldapi://. In a terminal it shows a
/// page, otherwise a line for each interval. Keys: q quits, space pauses. If the server does not
/// answer for a second, the page says so; if the connection is lost, it reconnects.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Seconds from one reading to the next
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    every: Duration,

    /// Show everything of one interval, and exit
    #[arg(long)]
    once: bool,

    /// Print a JSON object for each interval
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster top -W
  roster top -H ldapi://%2Fvar%2Flib%2Froster%2Fldapi
  roster top --once -H ldaps://ldap.example.com -y password.txt
  roster top --json --every 10 -W >> figures.jsonl";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let Options { every, once, json, server } = options;
    let shown = top::Options { every: *every, is_once: *once, is_json: *json };
    top::run(server.login()?, &shown)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "it is a number from 0.1 to 3600".to_owned())
}
