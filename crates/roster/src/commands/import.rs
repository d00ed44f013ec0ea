//! `roster import`: loads an LDIF file into a data directory that no server uses.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use directory::{ImportError, ImportOptions, SystemClock};
use indicatif::ProgressBar;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;

/// Load the entries of an LDIF file.
///
/// No server may use the data directory meanwhile. Entries are checked like added ones; clear-text
/// passwords are hashed; operational attributes in the file are kept. All entries are loaded, or,
/// when one is wrong, none.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory
    #[arg(short, long, value_name = "DIR", env = "ROSTER_SERVER__DATA")]
    data: PathBuf,

    /// The LDIF file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  roster import --data ./data examples/people.ldif
  roster generate examples/people.template | roster import --data ./data -";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let name = options.file.display().to_string();
    let entries = if name == "-" {
        let source = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
        load(&options.data, source, "standard input")?
    } else {
        let failed = |error| Failure::path("read", &options.file, &error);
        let file = File::open(&options.file).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::local(format!("cannot read {name}: it is a directory")));
        }
        let length = metadata.is_file().then_some(metadata.len());
        let bar = progress::bar(length, "bytes");
        bar.set_message("reading");
        let source = BufReader::with_capacity(BUFFER_BYTES, Watched { source: file, bar: &bar });
        let loaded = load(&options.data, source, &name);
        bar.finish_and_clear();
        loaded?
    };
    output::line(format_args!("{entries} entries loaded"))?;
    Ok(Exit::Done)
}

/// Loads all entries of `source`, which messages call `name`.
pub(crate) fn load(data: &Path, source: impl BufRead + Send, name: &str) -> Result<u64, Failure> {
    let options = ImportOptions::default();
    match directory::import(data, source, &options, &SystemClock::new(), &mut |_, _, _| {}) {
        Ok(report) => Ok(report.entries),
        Err(ImportError::Directory(error)) => Err(error.into()),
        Err(ImportError::File { line, reason }) => {
            let message = format!("{name}:{line}: {reason}");
            Err(Failure::local(message).hint("nothing was loaded: correct the file and try again"))
        }
    }
}

/// A reader that moves a progress bar.
struct Watched<'b> {
    source: File,
    bar: &'b ProgressBar,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.bar.inc(read as u64);
        Ok(read)
    }
}

const BUFFER_BYTES: usize = 256 * 1024;
