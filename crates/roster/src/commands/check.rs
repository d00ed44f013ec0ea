//! `roster check`: verifies the data of a directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use directory::{DANGLING_LISTED_MAX, Dangling, DanglingValue};
use history::archive::ArchiveCheck;
use history::recovery::AcceptedLoss;
use offline::DirectoryCheck;
use offline::backup::Moment;

use crate::failure::{Exit, Failure};
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::output;
use crate::progress;

/// Verify the journal, and every table and index against the entries of a data directory.
///
/// The archive of changes is verified, too. Values that name entries which are not there (member,
/// manager and so on) are listed, and are no fault: they may have been loaded before what they
/// name. No server may use the data directory meanwhile. Changes nothing, unless --accept-loss is
/// given and the journal has lost something. Exits with code 2 if something is wrong.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory
    #[arg(short, long, value_name = "DIR", env = DATA_VARIABLE, default_value = DATA_DEFAULT,
        hide_env_values = true)]
    data: PathBuf,

    /// The directory with the archive of changes, where the settings name one [default: archive in
    /// the data directory]
    #[arg(long, value_name = "DIR", env = "ROSTER_ARCHIVE__DIRECTORY")]
    archive: Option<PathBuf>,

    /// If the journal has lost acknowledged writes, so that the server does not start: continue
    /// without them, and say which they are. The remaining records are applied to the data, the old
    /// journal is kept as journal-lost-1, and a new one begins
    #[arg(long)]
    accept_loss: bool,
}

const EXAMPLES: &str = "\
Examples:
  roster check --data ./data
  roster check --data ./data --accept-loss";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.accept_loss {
        accept_loss(&options.data)?;
    }
    let bar = progress::bar(Some(0), "entries");
    let archive = options.archive.as_deref();
    let check = offline::check(&options.data, archive, &mut |phase, done, total| {
        bar.set_message(phase);
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let check = check?;
    for finding in &check.journal.findings {
        output::line(format_args!("{finding}"))?;
    }
    for finding in &check.base.findings {
        output::line(format_args!("{finding}"))?;
    }
    if let Some(torn) = &check.journal.torn {
        // Nothing of it was acknowledged.
        output::note(format_args!(
            "roster: note: {} bytes at the end of {} were incompletely written when the server or \
             the machine stopped; the next start removes them",
            torn.bytes, torn.segment
        ));
    }
    let what = summary(&check);
    if let Some(archive) = &check.archive {
        tell_archive(archive)?;
    }
    if let Some(dangling) = &check.dangling {
        tell_dangling(dangling)?;
    }
    match check.faults() {
        0 => {
            output::line(format_args!("{what}, no fault"))?;
            Ok(Exit::Done)
        }
        count => {
            let hint = match (check.data_faults(), check.journal.findings.is_empty()) {
                (0, _) => HINT_ARCHIVE,
                (_, true) => HINT_DATA,
                (_, false) => HINT_JOURNAL,
            };
            Err(Failure::local(format!("{count} faults in {what}")).hint(hint))
        }
    }
}

/// What was looked at.
fn summary(check: &DirectoryCheck) -> String {
    let mut text = format!("{} entries", check.entries.unwrap_or(check.base.entries));
    if check.journal.records > 0 {
        let _ = write!(text, ", {} records in the journal", check.journal.records);
    }
    if let Some(archive) = check.archive.as_ref().filter(|archive| archive.files > 0) {
        let _ = write!(text, ", {} in {} files of the archive", archive.records, archive.files);
    }
    text
}

/// Tells what is wrong with the archive of changes.
fn tell_archive(archive: &ArchiveCheck) -> Result<(), Failure> {
    for finding in &archive.findings {
        output::line(format_args!("archive: {finding}"))?;
    }
    for note in &archive.notes {
        output::note(format_args!("roster: note: archive: {note}"));
    }
    Ok(())
}

/// Tells of values that name nothing.
fn tell_dangling(dangling: &Dangling) -> Result<(), Failure> {
    for DanglingValue { entry, attribute, value } in &dangling.listed {
        output::line(format_args!("{entry}: {attribute} names no entry: {value}"))?;
    }
    match dangling.values {
        0 => Ok(()),
        values => {
            let entries = dangling.entries;
            let listed = match values > dangling.listed.len() as u64 {
                true => format!(", the first {DANGLING_LISTED_MAX} are listed"),
                false => String::new(),
            };
            output::line(format_args!(
                "{values} values in {entries} entries name no entry{listed}"
            ))?;
            output::note(format_args!("roster: note: {NOTE_DANGLING}"));
            Ok(())
        }
    }
}

/// Goes on without what the journal has lost, and tells what that is.
fn accept_loss(data: &Path) -> Result<(), Failure> {
    let Some(loss) = history::recovery::accept_loss(data)? else {
        output::note(format_args!(
            "roster: note: the journal has lost nothing that a start needs: there is nothing to \
             accept"
        ));
        return Ok(());
    };
    let AcceptedLoss { reason, kept, records, lost_until, aside } = loss;
    output::line(format_args!("{reason}"))?;
    let last = kept.lsn.0;
    match lost_until {
        Some(until) => output::line(format_args!(
            "lost: records {} to {}, and what was written after them, if anything was",
            last + 1,
            until.0
        ))?,
        None => output::line(format_args!(
            "lost: what was written after record {last}, if anything was; how much is not known"
        ))?,
    }
    let time = match kept.time_us {
        0 => String::new(),
        time_us => format!(", of {}", Moment::from_micros(time_us)),
    };
    output::line(format_args!(
        "kept: everything up to record {last}{time}; {records} records were only in the journal"
    ))?;
    if let Some(aside) = aside {
        output::line(format_args!(
            "the old journal is in {}: remove it when you no longer need it",
            aside.display()
        ))?;
    }
    output::line(format_args!(
        "take a full backup: the records from {} on differ from those that were lost",
        last + 1
    ))?;
    Ok(())
}

const NOTE_DANGLING: &str = "values that name no entry are no damage: add the entries, or remove \
     the values; a constraint (exists) refuses new ones";
const HINT_ARCHIVE: &str = "the data are whole; changes of before cannot all be read: remove the \
     damaged files of the archive, and have those who follow the changes begin anew";
const HINT_DATA: &str = "restore a backup, or export what can be read and import it again";
const HINT_JOURNAL: &str =
    "restore a backup; '--accept-loss' continues without what the journal has lost";
