//! `roster bench report`: runs as a page.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use crate::bench::page::page;
use crate::bench::record::BenchRecord;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::whole_file::WholeFile;

/// Make a page of one or more runs, for a browser.
///
/// The page is one file that loads nothing and runs nothing. Runs of the same job are compared,
/// with ratios to the first; a run whose label begins with 'echo' is the floor for the others.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Records of runs, made by 'roster bench JOB --output FILE'
    #[arg(value_name = "RUN", required = true, num_args = 1..=RUNS_MAX)]
    runs: Vec<PathBuf>,

    /// Where the page is written
    #[arg(short, long, value_name = "FILE", default_value = "benchmark.html")]
    output: PathBuf,

    /// The title of the page; by default the names of the servers
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  roster bench search --server-pid $(pidof roster) --output roster.json
  roster bench search -H ldap://127.0.0.1:389 --server-pid $(pidof slapd) --output slapd.json
  roster bench report roster.json slapd.json -o page.html";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let records: Vec<BenchRecord> =
        options.runs.iter().map(|path| BenchRecord::read(path)).collect::<Result<_, _>>()?;
    let text = page(&records, options.title.as_deref());
    let path = &options.output;
    let failed = |error| Failure::path("write", path, &error);
    let mut file = WholeFile::create(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.finish().map_err(failed)?;
    let runs = if records.len() == 1 { "run" } else { "runs" };
    let count = records.len();
    output::line(format_args!("wrote {} ({count} {runs})", path.display()))?;
    Ok(Exit::Done)
}

/// Runs of one page.
const RUNS_MAX: usize = 100;
