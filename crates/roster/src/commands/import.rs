//! `roster import`: loads an LDIF file into a data directory that no server uses.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use directory::{ImportError, ImportOptions, Source, SystemClock};

use crate::failure::{Exit, Failure};
use crate::online::{self, ImportServer};
use crate::output;

/// Load the entries of an LDIF file.
///
/// No server may use the data directory meanwhile. Entries are checked like added ones; clear-text
/// passwords are hashed; operational attributes in the file are kept. All entries are loaded, or,
/// when one is wrong, none.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory
    #[arg(
        short,
        long,
        value_name = "DIR",
        env = "ROSTER_SERVER__DATA",
        required_unless_present = "uri"
    )]
    data: Option<PathBuf>,

    /// The LDIF file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    server: ImportServer,
}

const EXAMPLES: &str = "\
Examples:
  roster import --data ./data examples/people.ldif
  roster generate examples/people.template | roster import --data ./data -";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let source = if options.file.as_os_str() == "-" {
        Source::new("standard input", io::stdin())
    } else {
        let source = Source::open(&options.file);
        source.map_err(|error| Failure::path("read", &options.file, &error))?
    };
    let entries = match (options.server.named()?, &options.data) {
        (Some((login, pace)), _) => {
            let asked = ImportOptions::default();
            let report = online::import::import(&login, vec![source], &asked, pace, &mut ())?;
            output::line(format_args!("{report}"))?;
            return Ok(Exit::Done);
        }
        (None, Some(data)) => load(data, source)?,
        (None, None) => return Err(Failure::local("neither --data nor -H says where to")),
    };
    output::line(format_args!("{entries} entries loaded"))?;
    Ok(Exit::Done)
}

/// Loads all entries of `source`, which messages call by its name.
pub(crate) fn load(data: &Path, source: Source<'_>) -> Result<u64, Failure> {
    let options = ImportOptions::default();
    let name = source.name().to_owned();
    match directory::import(data, vec![source], &options, &SystemClock::new(), &mut ()) {
        Ok(report) => Ok(report.imported),
        Err(ImportError::Directory(error)) => Err(error.into()),
        Err(ImportError::File { line, reason }) => {
            let message = format!("{name}:{line}: {reason}");
            Err(Failure::local(message).hint("nothing was loaded: correct the file and try again"))
        }
    }
}
