//! `roster diff`: what differs between two servers or files, or between two moments.

use std::io::BufWriter;
use std::path::PathBuf;

use clap::Args;
use environment::{Clock as _, SystemClock, Timestamp};
use indicatif::HumanBytes;

use crate::changes::moments;
use crate::connect::{ServerOptions, is_standard_input};
use crate::diff::{Comparing, Counts, Form, Place, Report, compare};
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Until};
use crate::online::export::ENTRY_MAX_BYTES;
use crate::output;
use crate::table::number;
use crate::whole_file::WholeFile;

/// Compare two servers or LDIF files, and print what makes the second equal to the first.
///
/// A and B are each an LDAP URL of any server (RFC 4516: its entry, scope and filter say what is
/// compared; by default all below the entry, or all naming contexts), or a file of LDIF, also
/// compressed, or '-' for standard input. The output is LDIF that 'ldapmodify' applies to B: then B
/// holds what A does. Entries are compared by name and values by the matching rules of B's schema,
/// or A's if B is a file. Neither the order of values nor upper and lower case matter where their
/// rules say so. Operational attributes are not compared unless they are asked for.
///
/// With --at it shows what became of the entries of one server between two moments instead, as LDIF
/// that turns the first into the second, as far as changes are kept. What came and went again is
/// not shown, nor is what only servers set.
///
/// Exits with 0 if nothing differs, 1 if something does, and 2 if it could not be compared.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    sides: Sides,

    /// Instead of A and B: a time, or a duration before now such as 2h. Given twice: from the first
    /// to the second; else up to now
    #[arg(
        long,
        value_name = "TIME",
        value_parser = moments::time,
        conflicts_with_all = [
            "a", "b", "ignore", "only", "operational", "by", "memory", "output", "json", "quiet",
        ]
    )]
    at: Vec<Timestamp>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Two places that are compared.
#[derive(Args, Debug)]
struct Sides {
    /// What it shall be: an LDAP URL, a file, or '-'
    #[arg(value_name = "A", required_unless_present = "at", value_parser = Place::parse)]
    a: Option<Place>,

    /// What it is: the same
    #[arg(value_name = "B", required_unless_present = "at", value_parser = Place::parse)]
    b: Option<Place>,

    /// Only the entry of this name and those below it, of both sides or moments
    #[arg(short, long, value_name = "BASE")]
    base: Option<String>,

    /// Leave this attribute out; may be repeated
    #[arg(short, long, value_name = "ATTRIBUTE", value_delimiter = ',')]
    ignore: Vec<String>,

    /// Of entries that both have, compare only this attribute; may be repeated
    #[arg(long, value_name = "ATTRIBUTE", value_delimiter = ',')]
    only: Vec<String>,

    /// Compare operational attributes, too; what only servers set is told in comments
    #[arg(long)]
    operational: bool,

    /// Take entries of different names for one that was renamed if they have the same value of
    /// this attribute, such as entryUUID
    #[arg(long, value_name = "ATTRIBUTE")]
    by: Option<String>,

    /// The memory to sort entries in, such as 4G; what does not fit goes to temporary files, in
    /// TMPDIR
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory)]
    memory: usize,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print JSON, an object in each line, and the summary as JSON
    #[arg(long)]
    json: bool,

    /// Print nothing: the exit code tells
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    quiet: bool,

    /// Bind to B as this entry, where that is another one than for A
    #[arg(long, value_name = "DN", requires = "b_password_file", help_heading = "Server")]
    b_bind_dn: Option<String>,

    /// Read the password for B from this file
    #[arg(long, value_name = "FILE", requires = "b_bind_dn", help_heading = "Server")]
    b_password_file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  roster diff ldap://old/dc=example,dc=com ldap://new/dc=example,dc=com -D cn=admin -W
  roster diff backup.ldif.zst ldap://server/dc=example,dc=com -W > changes.ldif
  roster diff --ignore userPassword,description a.ldif b.ldif
  roster diff --by entryUUID ldap://a/ ldap://b/ -y password
  roster diff --quiet a.ldif b.ldif && echo equal
  roster diff --at 2h -W
  roster diff --at 2027-01-31T18:00:00Z --at 2027-01-31T19:00:00Z -b ou=people,dc=com -W";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let base = options.sides.base.as_deref();
    let told = match *options.at {
        [] => sides(&options.sides, &options.server),
        _ => options.server.connect().and_then(|mut on| moments::tell(&options.at, base, &mut on)),
    };
    match told {
        // As diff(1): 1 says that they differ, so nothing else may.
        Err(failure) if failure.exit == Exit::Refused => {
            Err(Failure { exit: Exit::Local, ..failure })
        }
        // Whoever read the differences has left: there were some.
        Err(failure) if failure.exit == Exit::Done => Ok(Exit::Refused),
        done => done,
    }
}

fn sides(options: &Sides, server: &ServerOptions) -> Result<Exit, Failure> {
    let clock = SystemClock::new();
    let (Some(a), Some(b)) = (&options.a, &options.b) else {
        return Err(Failure::local("name what is compared: two servers or files"));
    };
    let is_read = |place: &Place| usize::from(*place == Place::StandardInput);
    let passwords = [
        server.as_whom().reads_standard_input(),
        options.b_password_file.as_deref().is_some_and(is_standard_input),
    ];
    if is_read(a) + is_read(b) + passwords.into_iter().filter(|is_read| *is_read).count() > 1 {
        let reason = "standard input can be only one of the two, or the password of one";
        return Err(Failure::local(reason));
    }
    let other = options.b_bind_dn.as_deref().zip(options.b_password_file.as_deref());
    let asked = [(a.url(), None), (b.url(), other)];
    let urls: Vec<_> = asked.into_iter().filter_map(|(url, other)| Some((url?, other))).collect();
    let mut logins = server.as_whom().on_urls(&urls)?.into_iter();
    let mut connections = [None, None];
    for ((url, _), connection) in asked.iter().zip(&mut connections) {
        if url.is_some()
            && let Some(login) = logins.next()
        {
            *connection = Some(login.for_answers(ENTRY_MAX_BYTES).connect()?);
        }
    }
    let form = match (options.quiet, options.json) {
        (true, _) => Form::Nothing,
        (false, true) => Form::Json,
        (false, false) => Form::Ldif,
    };
    let comparing = Comparing {
        places: [a, b],
        connections,
        base: options.base.as_deref(),
        ignored: &options.ignore,
        only: &options.only,
        has_operational: options.operational,
        identity: options.by.as_deref(),
        memory_max_bytes: options.memory,
        form,
        is_watched: output::is_watched() && form != Form::Nothing,
    };
    let report = match &options.output {
        None => compare(comparing, &mut output::out())?,
        Some(path) => {
            let failed = |error| Failure::path("write", path, &error);
            let mut file = WholeFile::create_private(path).map_err(failed)?;
            let interrupted = interrupt::flag()?;
            let until = Until { out: &mut file, interrupted: &interrupted };
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, until);
            let report = interrupt::told(&interrupted, compare(comparing, &mut out))?;
            drop(out);
            file.finish().map_err(failed)?;
            report
        }
    };
    tell(&report, form, clock.elapsed().as_secs_f64());
    Ok(if report.counts.is_equal() { Exit::Done } else { Exit::Refused })
}

/// The summary.
fn tell(report: &Report, form: Form, seconds: f64) {
    let Report { counts, entries: [first, second], temporary_bytes } = *report;
    let Counts { added, modified, renamed, deleted, server_set } = counts;
    match form {
        Form::Nothing => {}
        Form::Json => output::json_note(&serde_json::json!({
            "entries_a": first,
            "entries_b": second,
            "add": added,
            "modify": modified,
            "rename": renamed,
            "delete": deleted,
            "server_set": server_set,
            "seconds": (seconds * 1_000.0).round() / 1_000.0,
            "temporary_bytes": temporary_bytes,
        })),
        Form::Ldif => {
            let set = match server_set {
                0 => String::new(),
                more => format!(", {} differ in what only servers set", number(more)),
            };
            output::note(format_args!(
                "A has {} entries, B {}: {} to add, {} to modify, {} to rename, {} to delete{set} \
                 ({seconds:.1} s, {} of temporary files)",
                number(first),
                number(second),
                number(added),
                number(modified),
                number(renamed),
                number(deleted),
                HumanBytes(temporary_bytes),
            ));
        }
    }
}

/// An amount of memory.
fn parse_memory(text: &str) -> Result<usize, String> {
    let bytes = super::import::parse_bytes(text)?;
    if bytes < MEMORY_MIN_BYTES {
        return Err(format!("at least {}M are needed", MEMORY_MIN_BYTES >> 20));
    }
    usize::try_from(bytes).map_err(|_| "that is too much".to_owned())
}

/// The least memory.
const MEMORY_MIN_BYTES: u64 = 8 << 20;
const BUFFER_BYTES: usize = 256 << 10;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_unit_and_a_least() {
        assert_eq!(parse_memory("64M"), Ok(64 << 20));
        assert!(parse_memory("7M").unwrap_err().contains("at least 8M"));
        assert!(parse_memory("many").is_err());
    }

    #[test]
    fn places_are_read() {
        assert_eq!(Place::parse("-").unwrap(), Place::StandardInput);
        assert_eq!(Place::parse("a.ldif").unwrap(), Place::File("a.ldif".into()));
        assert!(matches!(Place::parse("ldap://h/dc=x??one?(cn=a)").unwrap(), Place::Server(_)));
        for (wrong, want) in [
            ("ldap://h/dc=x?cn", "--only"),
            ("ldap://h/dc=x????!bindname=cn=a", "bindname"),
            ("http://h/", "scheme"),
        ] {
            assert!(Place::parse(wrong).unwrap_err().contains(want), "{wrong}");
        }
    }
}
