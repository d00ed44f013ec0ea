//! `roster export`: writes entries of a data directory as LDIF.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use directory::{ExportError, ExportOptions};
use ldap::message::Scope;

use crate::connect::{Login, OnlineOptions};
use crate::failure::{Exit, Failure};
use crate::online::export::ENTRY_MAX_BYTES;
use crate::{online, output};

/// Write entries as LDIF, with operational attributes and hashed passwords.
///
/// A server may serve the directory meanwhile: what is written is the state of one moment, with
/// everything that was acknowledged before the start. A superior comes before its subordinates, so
/// that the file can be imported again.
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

    /// Only this entry and those below it
    #[arg(short, long, value_name = "BASE")]
    base: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only entries that match this filter
    #[arg(value_name = "FILTER")]
    filter: Option<String>,

    #[command(flatten)]
    server: OnlineOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster export --data ./data -o backup.ldif
  roster export --data ./data -b ou=people,dc=example,dc=com '(sn=Curie)'";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let login = options.server.login()?.map(|login| login.for_answers(ENTRY_MAX_BYTES));
    match &options.output {
        None => {
            let mut out = output::out();
            write(options, login.as_ref(), &mut out, Failure::from)?;
            out.flush()?;
        }
        Some(path) => {
            let failed = |error| Failure::path("write", path, &error);
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            write(options, login.as_ref(), &mut file, failed)?;
            file.flush().and_then(|()| file.get_ref().sync_all()).map_err(failed)?;
        }
    }
    Ok(Exit::Done)
}

fn write(
    options: &Options,
    login: Option<&Login>,
    out: &mut dyn Write,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let Some(data) = &options.data.as_ref().filter(|_| login.is_none()) else {
        let asked = online::export::Asked {
            base: options.base.as_deref(),
            scope: Scope::Subtree,
            filter: options.filter.as_deref(),
            attributes: &[],
        };
        let Some(login) = login else {
            return Err(Failure::local("neither --data nor -H says where from"));
        };
        return match online::export::export(login, &asked, out) {
            Ok(_) => Ok(()),
            Err(ended) => Err(ended.into_failure(failed)),
        };
    };
    let asked = ExportOptions {
        base: options.base.as_deref(),
        filter: options.filter.as_deref(),
        ..ExportOptions::default()
    };
    match directory::export(data, &asked, out) {
        Ok(_) => Ok(()),
        Err(ExportError::Directory(error)) => Err(error.into()),
        Err(ExportError::Asked(reason)) => Err(Failure::local(reason)),
        Err(ExportError::Output(error)) => Err(failed(error)),
    }
}
