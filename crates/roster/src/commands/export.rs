//! `roster export`: writes entries of a data directory as LDIF.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use environment::{Clock as _, SystemClock, Timestamp};
use indicatif::{HumanBytes, ProgressBar};
use ldap::ldif::LDIF_FOLD_COLUMNS;
use ldap::message::Scope;
use offline::in_order::Compression;
use offline::{ExportError, ExportOptions, ExportReport, export_watched};

use super::generate::{parse_threads, threads};
use crate::connect::{Login, OnlineOptions};
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Until};
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::online::export::{ENTRY_MAX_BYTES, ExportQuery};
use crate::whole_file::WholeFile;
use crate::{online, output, progress};

/// Write entries as LDIF, with operational attributes and hashed passwords.
///
/// A server may serve the directory meanwhile: the file shows the directory at one moment, with
/// everything that was acknowledged before the start. A superior comes before its subordinates. So
/// the file can be imported, and an export of that import is the same file. A file gets its name
/// when it is complete; until then it is FILE.part.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory, if no server is named with -H
    #[arg(
        short,
        long,
        value_name = "DIR",
        env = DATA_VARIABLE,
        default_value = DATA_DEFAULT,
        hide_env_values = true
    )]
    data: PathBuf,

    /// Only this entry and those below it
    #[arg(short, long, value_name = "BASE")]
    base: Option<String>,

    /// How far below the base: itself, one level, it and all below, or all below without it
    #[arg(short, long, value_name = "SCOPE", default_value = "sub")]
    scope: AskedScope,

    /// Only entries that match this filter; the same as FILTER
    #[arg(short = 'a', long = "filter", value_name = "FILTER")]
    filter: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Compress the output; by default the suffix of FILE decides: .gz or .zst
    #[arg(long, value_name = "HOW")]
    compress: Option<AskedCompression>,

    /// Write operational attributes, too, if attributes are named; otherwise they are always
    /// written
    #[arg(long)]
    operational: bool,

    /// Leave operational attributes out
    #[arg(long, conflicts_with = "operational")]
    no_operational: bool,

    /// Write what a replica needs, too: the position in the history and the entries' numbers
    #[arg(short, long, conflicts_with_all = ["no_operational", "base", "filter", "words", "uri"])]
    replication_state: bool,

    /// Sort by name: the same entries give the same file, whatever their history
    #[arg(long, conflicts_with = "uri")]
    sort: bool,

    /// Fold lines at this column; 0 folds none
    #[arg(long, value_name = "COLUMN", default_value_t = LDIF_FOLD_COLUMNS)]
    wrap: usize,

    /// Threads that format the text; one for each core by default
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZero<usize>>,

    /// Only entries that match, with only these attributes: * user, + operational
    #[arg(value_name = "FILTER] [ATTRIBUTE")]
    words: Vec<String>,

    #[command(flatten)]
    server: OnlineOptions,
}

/// The scopes, by the names OpenLDAP gives them.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AskedScope {
    Base,
    One,
    Sub,
    #[value(alias = "subordinate")]
    Children,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AskedCompression {
    None,
    Gzip,
    Zstd,
}

const EXAMPLES: &str = "\
Examples:
  roster export --data ./data -o backup.ldif
  roster export --data ./data -o backup.ldif.zst
  roster export --data ./data -b ou=people,dc=example,dc=com '(sn=Curie)' cn mail
  roster export --data ./data --no-operational | ldapadd -H ldap://other -D cn=admin -W
  roster export -H ldap://server -D cn=admin -W -o backup.ldif";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let login = options.server.login()?.map(|login| login.for_answers(ENTRY_MAX_BYTES));
    let login = login.as_ref();
    match &options.output {
        None => {
            // A progress bar would be lost among the entries.
            let is_watched = output::is_watched() && !io::stdout().is_terminal();
            let mut out = output::out();
            write(options, login, &mut out, is_watched, Failure::from)?;
            out.flush()?;
        }
        Some(path) => {
            let failed = |error| Failure::path("write", path, &error);
            let mut file = WholeFile::create_private(path).map_err(failed)?;
            let is_watched = output::is_watched();
            let interrupted = interrupt::flag()?;
            let mut out = Until { out: &mut file, interrupted: &interrupted };
            let told = write(options, login, &mut out, is_watched, failed);
            let told = interrupt::told(&interrupted, told)?;
            file.finish().map_err(failed)?;
            output::line(format_args!("{told}"))?;
        }
    }
    Ok(Exit::Done)
}

/// Writes what is asked for; returns what to say about it.
fn write(
    options: &Options,
    login: Option<&Login>,
    out: &mut dyn Write,
    is_watched: bool,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<String, Failure> {
    let clock = SystemClock::new();
    let started = clock.now();
    if let Some(login) = login {
        let report = write_online(options, login, out, failed)?;
        return Ok(summary(&report, started, clock.now()));
    }
    let data = &options.data;
    let (filter, attributes) = options.words();
    let mut attributes: Vec<&str> = attributes.iter().map(String::as_str).collect();
    if options.operational && !attributes.is_empty() {
        attributes.push("+");
    }
    let asked = ExportOptions {
        base: options.base.as_deref(),
        scope: options.scope.into(),
        filter,
        attributes: &attributes,
        is_without_operational: options.no_operational,
        is_by_name: options.sort,
        has_replication_state: options.replication_state,
        fold_columns: options.wrap,
        compression: options.compression(),
        threads: threads(options.threads),
        ..ExportOptions::default()
    };
    let bar = match is_watched {
        true => progress::bar(Some(0), "entries"),
        false => ProgressBar::hidden(),
    };
    bar.set_message("export");
    let report = export_watched(data, &asked, out, &mut |report| {
        bar.set_length(report.expected);
        bar.set_position(report.entries);
    });
    bar.finish_and_clear();
    match report {
        Ok(report) => Ok(summary(&report, started, clock.now())),
        Err(ExportError::Directory(error)) => Err(error.into()),
        Err(ExportError::Asked(reason)) => Err(Failure::local(reason)),
        Err(ExportError::Output(error)) => Err(failed(error)),
    }
}

/// Writes what is asked of a server.
fn write_online(
    options: &Options,
    login: &Login,
    out: &mut dyn Write,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<ExportReport, Failure> {
    if options.compression() != Compression::None {
        return Err(Failure::local("an export from a server cannot be compressed here")
            .hint("export to standard output, and compress that"));
    }
    let (filter, attributes) = options.words();
    let mut attributes = attributes.to_vec();
    match (options.no_operational, attributes.is_empty()) {
        (true, true) => attributes.push("*".to_owned()),
        (true, false) => attributes.retain(|name| name != "+"),
        (false, false) if options.operational => attributes.push("+".to_owned()),
        (false, _) => {}
    }
    let asked = ExportQuery {
        base: options.base.as_deref(),
        scope: options.scope.into(),
        filter,
        attributes: &attributes,
    };
    let mut counted = Counted { out, bytes: 0 };
    let mut buffered = BufWriter::new(&mut counted);
    let entries = match online::export::export(login, &asked, &mut buffered) {
        Ok(entries) => entries,
        Err(ended) => return Err(ended.into_failure(failed)),
    };
    buffered.flush().map_err(failed)?;
    drop(buffered);
    Ok(ExportReport { entries, written_bytes: counted.bytes, ..ExportReport::default() })
}

/// Counts what is written.
struct Counted<'o> {
    out: &'o mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.out.write(octets)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Options {
    /// The filter and the attributes: as with ldapsearch, a first word with `=` is the filter.
    fn words(&self) -> (Option<&str>, &[String]) {
        match (self.filter.as_deref(), self.words.as_slice()) {
            (None, [first, attributes @ ..]) if first.contains('=') => (Some(first), attributes),
            (filter, attributes) => (filter, attributes),
        }
    }

    fn compression(&self) -> Compression {
        match (self.compress, &self.output) {
            (Some(AskedCompression::None), _) | (None, None) => Compression::None,
            (Some(AskedCompression::Gzip), _) => Compression::Gzip,
            (Some(AskedCompression::Zstd), _) => Compression::Zstd,
            (None, Some(path)) => Compression::of_name(&path.to_string_lossy()),
        }
    }
}

impl From<AskedScope> for Scope {
    fn from(asked: AskedScope) -> Self {
        match asked {
            AskedScope::Base => Self::Base,
            AskedScope::One => Self::One,
            AskedScope::Sub => Self::Subtree,
            AskedScope::Children => Self::Subordinate,
        }
    }
}

fn summary(report: &ExportReport, started: Timestamp, ended: Timestamp) -> String {
    let seconds = (ended.0.saturating_sub(started.0) as f64 / 1e6).max(0.001);
    let ExportReport { entries, written_bytes, .. } = *report;
    let rate = (entries as f64 / seconds) as u64;
    let bytes = HumanBytes(written_bytes);
    format!("{entries} entries exported, {bytes} in {seconds:.1} s: {rate} entries/s")
}
