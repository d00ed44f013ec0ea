//! `roster export`: writes entries of a data directory as LDIF.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use directory::{ExportError, ExportOptions};

use crate::failure::{Exit, Failure};
use crate::output;

/// Write entries as LDIF, with operational attributes and hashed passwords.
///
/// A server may serve the directory meanwhile: what is written is the state of one moment, with
/// everything that was acknowledged before the start. A superior comes before its subordinates, so
/// that the file can be imported again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory
    #[arg(short, long, value_name = "DIR", env = "ROSTER_SERVER__DATA")]
    data: PathBuf,

    /// Only this entry and those below it
    #[arg(short, long, value_name = "BASE")]
    base: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only entries that match this filter
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  roster export --data ./data -o backup.ldif
  roster export --data ./data -b ou=people,dc=example,dc=com '(sn=Curie)'";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.output {
        None => {
            let mut out = output::out();
            write(options, &mut out, Failure::from)?;
            out.flush()?;
        }
        Some(path) => {
            let failed = |error| Failure::path("write", path, &error);
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            write(options, &mut file, failed)?;
            file.flush().and_then(|()| file.get_ref().sync_all()).map_err(failed)?;
        }
    }
    Ok(Exit::Done)
}

fn write(
    options: &Options,
    out: &mut dyn Write,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let asked = ExportOptions {
        base: options.base.as_deref(),
        filter: options.filter.as_deref(),
        ..ExportOptions::default()
    };
    match directory::export(&options.data, &asked, out) {
        Ok(_) => Ok(()),
        Err(ExportError::Directory(error)) => Err(error.into()),
        Err(ExportError::Asked(reason)) => Err(Failure::local(reason)),
        Err(ExportError::Output(error)) => Err(failed(error)),
    }
}
