//! `roster import`: loads LDIF into a data directory that no server uses, or into a running server.

use std::fs;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use auth::password::Scheme;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use directory::enforcement::modes::ModeLine;
use directory::{GlobalAcis, Held};
use environment::SystemClock;
use ldap::dn::Dn;
use offline::{
    Configuration, ImportError, ImportMode, ImportOptions, ImportReport, OnRefusal, Source, Tally,
};
use schema::Schema;
use store::{RefusalReason, Store, StoreOptions};

use super::generate::{parse_threads, threads};
use crate::access::access;
use crate::connect::Login;
use crate::failure::{Exit, Failure};
use crate::import_watch::{ImportWatch, summary};
use crate::interrupt;
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::migration::{self, Applied, Target};
use crate::online::import::Pace;
use crate::online::{self, ImportServer};
use crate::output;
use crate::rejects::Rejects;
use crate::whole_file::part_of;

/// Load the entries of LDIF files.
///
/// No server may use the data directory meanwhile. Entries are checked like added ones; clear-text
/// passwords are hashed; operational attributes in the files are kept. All entries are loaded, or
/// none if one is refused and --reject-file is not given. The old data stay until the very end: an
/// import that fails or is killed changes nothing.
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

    /// LDIF files, plain or compressed by gzip or zstd, read one after the other; - is standard
    /// input
    #[arg(value_name = "FILE", required_unless_present = "configuration")]
    files: Vec<PathBuf>,

    /// Only check: report every error, load nothing; exits with code 1 if there is one
    #[arg(long, conflicts_with = "uri")]
    check: bool,

    /// Load the other entries if some are refused, and write the refused ones here, each with its
    /// reason
    #[arg(long, value_name = "FILE")]
    reject_file: Option<PathBuf>,

    /// Write the skipped entries here, each with its reason
    #[arg(long, value_name = "FILE")]
    skip_file: Option<PathBuf>,

    /// Only entries of this subtree; may be given several times
    #[arg(long, value_name = "DN", value_parser = parse_dn)]
    include_branch: Vec<Dn>,

    /// No entries of this subtree; may be given several times
    #[arg(long, value_name = "DN", value_parser = parse_dn)]
    exclude_branch: Vec<Dn>,

    /// Only entries that match
    #[arg(long, value_name = "FILTER", conflicts_with = "uri")]
    include_filter: Option<String>,

    /// No entries that match
    #[arg(long, value_name = "FILTER", conflicts_with = "uri")]
    exclude_filter: Option<String>,

    /// Add to the existing entries; this is the default
    #[arg(long, conflicts_with_all = ["replace_existing", "clear"])]
    append: bool,

    /// Replace existing entries that have the same name
    #[arg(long, conflicts_with = "clear")]
    replace_existing: bool,

    /// Replace all existing entries
    #[arg(long, conflicts_with = "uri")]
    clear: bool,

    /// The memory to use, such as 4G; by default half of what the machine or the container has free
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "uri")]
    memory: Option<u64>,

    /// Threads; one for each core by default
    #[arg(long, value_name = "N", value_parser = parse_threads, conflicts_with = "uri")]
    threads: Option<NonZero<usize>>,

    /// Who reads what is not secret, apart from the ACIs in entries: nobody (closed), authenticated
    /// users (signed-in), or anyone (public); by default it stays as it is, or is closed if the
    /// data contain ACIs or come from OpenLDAP
    #[arg(long, value_name = "WHO", value_parser = access(), conflicts_with = "uri")]
    access: Option<GlobalAcis>,

    /// What becomes of entries that break a rule of the schema, from now on: 'RULE: MODE', such as
    /// 'syntax: warn'; may be given for several rules
    #[arg(long, value_name = "MODE", value_parser = parse_mode, conflicts_with = "uri")]
    schema_mode: Vec<ModeLine>,

    /// Compress records from now on
    #[arg(long, conflicts_with = "uri")]
    compress: bool,

    /// How clear-text passwords are stored
    #[arg(long, value_name = "SCHEME", default_value = "SSHA512", ignore_case = true,
        value_parser = scheme(), conflicts_with = "uri")]
    password_scheme: Scheme,

    /// Print what was translated, the schemes of the passwords, and what the schema lacks
    #[arg(long, conflicts_with = "uri")]
    report: bool,

    /// Write definitions of what the schema lacks here, guessed from the entries
    #[arg(long, value_name = "FILE", conflicts_with = "uri")]
    schema_file: Option<PathBuf>,

    /// The configuration of another server, as LDIF: after the import, what it does by itself
    /// (OpenLDAP, 389, OpenDJ) becomes settings here, or is listed as not translated
    #[arg(long, value_name = "FILE")]
    configuration: Option<PathBuf>,

    /// Write those settings here as change records, instead of making them
    #[arg(long, value_name = "FILE", requires = "configuration")]
    settings_file: Option<PathBuf>,

    /// Do not translate: apply no rules for exports of other servers
    #[arg(long, conflicts_with = "uri")]
    no_translate: bool,

    /// Print progress, errors and the summary as JSON lines on standard error
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ImportServer,
}

const EXAMPLES: &str = "\
Examples:
  roster import --data ./data examples/people.ldif
  roster import --data ./data --check people.ldif.gz groups.ldif.zst
  roster import --data ./data --reject-file rejected.ldif people.ldif
  roster import --data ./data --configuration dse.ldif export.ldif
  roster generate examples/people.template | roster import --data ./data -";

/// Schemes by what settings call them, too; a load of many is best done with a fast one.
fn scheme() -> impl TypedValueParser<Value = Scheme> {
    PossibleValuesParser::new(Scheme::words())
        .map(|word| Scheme::of_word(&word.to_ascii_uppercase()).unwrap_or_default())
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let server = options.server.named()?;
    options.check_outputs(server.is_some())?;
    let configuration = options.configuration(server.is_some())?;
    let target = match &server {
        Some((login, _)) => Target::Server(login),
        None => Target::Data(&options.data),
    };
    let imported = if options.files.is_empty() { Exit::Done } else { options.load(&server)? };
    let Some(configuration) = configuration else { return Ok(imported) };
    match options.settle(&configuration, target)? {
        Exit::Done => Ok(imported),
        other => Ok(other),
    }
}

impl Options {
    /// Loads the entries of the files.
    fn load(&self, server: &Option<(Login, Pace)>) -> Result<Exit, Failure> {
        let sources = self.sources()?;
        let cancel = interrupt::flag()?;
        let file = |path: &Option<PathBuf>| path.as_deref().map(Rejects::create).transpose();
        let (rejects, skips) = (file(&self.reject_file)?, file(&self.skip_file)?);
        let mut asked = self.asked();
        asked.cancel = Some(cancel.clone());
        let mut watch = ImportWatch::new(self.json, rejects, skips, cancel);
        let result = match server {
            Some((login, pace)) => {
                online::import::import(login, sources, &asked, *pace, &mut watch)
            }
            None => {
                let data = &self.data;
                let imported =
                    offline::import(data, sources, &asked, &SystemClock::new(), &mut watch);
                imported.map_err(|error| self.refusal(error))
            }
        };
        // That a file could not be written is why the import was cancelled. When nothing was loaded
        // the files stay as they were: they may be what was to be loaded.
        watch.finish(result.is_ok() || server.is_some())?;
        self.tell(&result?)
    }

    /// Reads what another server is set to, before anything is loaded.
    fn configuration(&self, is_online: bool) -> Result<Option<Configuration>, Failure> {
        let Some(path) = &self.configuration else { return Ok(None) };
        let source = Source::open(path).map_err(|error| Failure::path("read", path, &error))?;
        let read = match !is_online && self.data.exists() {
            true => Configuration::read_for(&self.data, source),
            false => Configuration::read(source, None),
        };
        read.map(Some).map_err(|error| Failure::local(error).hint("nothing was loaded or set"))
    }

    /// Tells what a configuration comes to, and makes its settings, or writes them.
    fn settle(&self, found: &Configuration, target: Target<'_>) -> Result<Exit, Failure> {
        output::line(format_args!("{}", found.to_string().trim_end()))?;
        if let Some(path) = &self.settings_file {
            fs::write(path, found.ldif()).map_err(|error| Failure::path("write", path, &error))?;
            let path = path.display();
            output::note(format_args!(
                "roster: note: the settings are in {path}, and are not made: review them, and give \
                 them to ldapmodify"
            ));
            return Ok(Exit::Done);
        }
        if self.check {
            return Ok(Exit::Done);
        }
        let Applied { made, unchanged, refused } = migration::apply(found, target)?;
        output::line(format_args!(
            "Settings: {made} made, {unchanged} as they were, {refused} refused"
        ))?;
        Ok(if refused > 0 { Exit::Refused } else { Exit::Done })
    }

    fn sources(&self) -> Result<Vec<Source<'static>>, Failure> {
        let open = |path: &PathBuf| {
            if path.as_os_str() == "-" {
                return Ok(Source::new("standard input", io::stdin()));
            }
            Source::open(path).map_err(|error| Failure::path("read", path, &error))
        };
        self.files.iter().map(open).collect()
    }

    /// What is written must not be lost to, nor take away, what is read.
    fn check_outputs(&self, is_online: bool) -> Result<(), Failure> {
        let identity = |path: &Path| {
            fs::metadata(path).ok().map(|file| (file.is_file(), file.dev(), file.ino()))
        };
        let is_source = |path: &Path| {
            let found = identity(path).filter(|(is_file, ..)| *is_file);
            let mut read = self.files.iter().chain(&self.configuration);
            found.is_some() && read.any(|file| identity(file) == found)
        };
        let is_device = |path: &Path| identity(path).is_some_and(|(is_file, ..)| !is_file);
        if let (Some(rejects), Some(skips)) = (&self.reject_file, &self.skip_file)
            && rejects == skips
            && !is_device(rejects)
        {
            let path = rejects.display();
            let message = format!("{path} cannot be both the reject file and the skip file");
            return Err(Failure::local(message));
        }
        // Offline it is read to its end before it is replaced, and what it loses is loaded.
        let is_kept = is_online || self.check;
        let written = [(&self.reject_file, is_kept), (&self.skip_file, is_kept)];
        let always = [(&self.schema_file, true), (&self.settings_file, true)];
        for (path, is_kept) in written.into_iter().chain(always) {
            let Some(path) = path else { continue };
            if is_source(&part_of(path)) || (is_kept && is_source(path)) {
                let path = path.display();
                let message = format!("{path} is to be imported and would be overwritten");
                return Err(Failure::local(message).hint("name another file to write"));
            }
        }
        Ok(())
    }

    fn asked(&self) -> ImportOptions {
        let held = match (self.clear, self.replace_existing) {
            (true, _) => Held::Clear,
            (false, true) => Held::Replace,
            (false, false) => Held::Keep,
        };
        let goes_on = self.reject_file.is_some();
        ImportOptions {
            password_storage: self.password_scheme.into(),
            threads: threads(self.threads),
            memory_bytes: self.memory,
            held,
            mode: if self.check { ImportMode::Check } else { ImportMode::Load },
            on_refusal: if goes_on { OnRefusal::Continue } else { OnRefusal::Stop },
            include: self.include_branch.clone(),
            exclude: self.exclude_branch.clone(),
            include_filter: self.include_filter.clone(),
            exclude_filter: self.exclude_filter.clone(),
            translate: !self.no_translate,
            global_acis: self.access,
            schema_modes: self.schema_mode.clone(),
            compress: self.compress,
            keep_text: goes_on || self.skip_file.is_some(),
            ..ImportOptions::default()
        }
    }

    /// Why nothing was loaded, and what to do about schema that is not known.
    fn refusal(&self, error: ImportError) -> Failure {
        let hint = match &error {
            ImportError::Refused { report, .. } => {
                if let Err(failure) = self.tell_translation(&report.translation) {
                    return failure;
                }
                report.translation.hint().map(|hint| match &self.schema_file {
                    Some(path) => format!(
                        "review the definitions in {}, put the file into the directory 'schema' of \
                         the data directory, and try again",
                        path.display()
                    ),
                    None => hint,
                })
            }
            ImportError::Directory(_)
            | ImportError::Asked(_)
            | ImportError::Source { .. }
            | ImportError::Panicked
            | ImportError::NoMemory(_)
            | ImportError::Interrupted => None,
        };
        let hint = hint.or_else(|| self.contexts_hint(&error));
        match hint {
            Some(hint) => failure(error, true).hint(format!("nothing was loaded; {hint}")),
            None => failure(error, true),
        }
    }

    /// Which naming contexts there are, where an entry is in none of them.
    fn contexts_hint(&self, error: &ImportError) -> Option<String> {
        if !error.to_string().contains(RefusalReason::OutsideContexts.name()) {
            return None;
        }
        let store =
            Store::open_read_only(&self.data, &StoreOptions::default(), Schema::builtin()).ok()?;
        let names: Vec<String> = store.naming_contexts().names().map(ToString::to_string).collect();
        Some(format!(
            "the naming contexts are {}; 'roster naming-context add DN' adds one",
            names.join(" and ")
        ))
    }

    /// Prints what was translated, and writes what is offered, as it was asked for.
    fn tell_translation(&self, translation: &Tally) -> Result<(), Failure> {
        if self.report {
            output::line(format_args!("{}", translation.to_string().trim_end()))?;
        }
        if let (Some(path), Some(text)) = (&self.schema_file, translation.schema_file()) {
            fs::write(path, text).map_err(|error| Failure::path("write", path, &error))?;
        }
        Ok(())
    }

    /// Prints how it went.
    fn tell(&self, report: &ImportReport) -> Result<Exit, Failure> {
        if self.json {
            output::json_note(&summary(report));
        }
        tell_reasons(report, if self.check { usize::MAX } else { REASONS_SHOWN })?;
        self.tell_translation(&report.translation)?;
        for warning in report.translation.warnings() {
            output::note(format_args!("roster: warning: {warning}"));
        }
        if let Some(access) = &report.access {
            output::note(format_args!("roster: note: {access}"));
        }
        output::line(format_args!("{report}"))?;
        if self.check && report.rejected > 0 {
            return Ok(Exit::Refused);
        }
        if let (Some(path), 1..) = (&self.reject_file, report.rejected) {
            let (count, path) = (report.rejected, path.display());
            output::note(format_args!("roster: note: {count} entries were refused: see {path}"));
        }
        Ok(Exit::Done)
    }
}

/// Prints how often each reason refused an entry, the most frequent first.
fn tell_reasons(report: &ImportReport, shown: usize) -> Result<(), Failure> {
    let mut reasons: Vec<(&String, &u64)> = report.reasons.iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    for (reason, times) in reasons.iter().take(shown) {
        output::line(format_args!("{times:>10} × {reason}"))?;
    }
    if reasons.len() > shown {
        output::line(format_args!("{:>10} … and {} more reasons", "", reasons.len() - shown))?;
    }
    Ok(())
}

/// Loads all entries of `source`, which messages call by its name.
pub(crate) fn load(data: &Path, source: Source<'_>) -> Result<u64, Failure> {
    let options = ImportOptions::default();
    match offline::import(data, vec![source], &options, &SystemClock::new(), &mut ()) {
        Ok(report) => Ok(report.imported),
        Err(error) => Err(failure(error, false)),
    }
}

/// Why nothing was loaded. Of refused entries each was shown already if `is_shown`.
fn failure(error: ImportError, is_shown: bool) -> Failure {
    const HINT: &str = "nothing was loaded: correct the file and try again";
    match error {
        ImportError::Directory(error) => error.into(),
        ImportError::Asked(reason) => Failure::local(reason),
        ImportError::NoMemory(reason) => Failure::local(reason).hint(
            "nothing was loaded: 160M, 64M for each thread and 90 bytes for each entry are enough \
             for --memory",
        ),
        error @ ImportError::Panicked => Failure::local(error)
            .hint("nothing was loaded: this is a bug in roster, please report the message above"),
        ImportError::Interrupted => Failure::interrupted("interrupted: nothing was changed"),
        error @ ImportError::Source { .. } => Failure::local(error).hint(HINT),
        ImportError::Refused { report, .. } if is_shown => {
            let _ = tell_reasons(&report, REASONS_SHOWN);
            let (rejected, processed) = (report.rejected, report.processed);
            let message = format!("{rejected} of {processed} entries are refused");
            let hint = format!("{HINT}, or load the others with --reject-file FILE");
            Failure::local(message).hint(hint)
        }
        error @ ImportError::Refused { .. } => Failure::local(error).hint(HINT),
    }
}

fn parse_dn(text: &str) -> Result<Dn, String> {
    Dn::parse(text).map_err(|error| error.to_string())
}

fn parse_mode(text: &str) -> Result<ModeLine, String> {
    ModeLine::parse(text).map_err(|error| error.to_string())
}

/// An amount of memory that is enough.
fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < MEMORY_MIN_BYTES {
        return Err(format!("at least {}M are needed", MEMORY_MIN_BYTES >> 20));
    }
    Ok(bytes)
}

/// Octets, or with a letter behind: 512M, 4G, 4GiB.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase();
    let shift = match unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit) {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("write it as 512M or 4G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "write it as 512M or 4G".to_owned())?;
    Ok(number.checked_mul(1 << shift).ok_or("that is too much")?)
}

/// So many reasons are printed unless the import only checks.
const REASONS_SHOWN: usize = 20;
/// The least memory an import can be given.
const MEMORY_MIN_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("268435456", 256 << 20),
            ("512M", 512 << 20),
            ("512m", 512 << 20),
            ("4G", 4 << 30),
            ("4GiB", 4 << 30),
            ("4gb", 4 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "G", "x", "4X", "-4G", "1.5G", "1K", "255M", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
