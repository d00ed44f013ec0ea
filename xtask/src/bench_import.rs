//! `cargo xtask bench-import`: what loading a directory costs, what it takes on the disk plain and
//! compressed, how a server starts on it, warm and cold, and how it then works; slapadd beside it.
//! Prints tables for `docs/performance.md`.
//!
//! One command measures all of one size: the people are generated, loaded into a new data directory
//! for each way, served, searched, modified and added to. What was generated is kept in a folder
//! that is given, and used again.
//!
//! Invariant: only processes started here are ended, and only the page cache of files made here is
//! dropped.

mod process;
mod serving;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use testing::crash::server::Place;

use self::process::{Ended, watch};
use self::serving::{Load, serve_and_measure};
use crate::Error;
use crate::ground::{Ground, Setup, load_average, note};
use crate::options;
use crate::servers::peers::{SLAPD_PACKAGES, Slapd};
use crate::test::install_missing;

/// People, and length of each load on the server, unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
const DEFAULT_SECONDS: u64 = 5;
/// The same as a new directory of roster has for these people.
const SLAPD_INDEXES: &str = "\
index objectClass,entryUUID,createTimestamp,modifyTimestamp,employeeNumber eq
index uid,cn,sn,givenName,l,title eq,sub
index mail,telephoneNumber pres,eq,sub";

#[derive(Debug)]
struct Asked {
    setup: Setup,
    with_compressed: bool,
    with_slapd: bool,
    /// Further options of the import, as `--memory=4G`.
    import: Vec<String>,
}

/// What one load came to.
struct Loaded {
    name: &'static str,
    ended: Ended,
    file_bytes: u64,
    record_bytes: Option<u64>,
    served: Option<Load>,
}

/// Runs everything that `arguments` ask for and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    if asked.with_slapd {
        install_missing(SLAPD_PACKAGES)?;
    }
    asked.setup.measure("bench-import", |ground| measure(&asked, ground)).map(drop)
}

fn measure(asked: &Asked, ground: &Ground<'_>) -> Result<String, String> {
    let head = format!("{} people; {}\n\n", asked.setup.entries, load_average());
    let people = ground.people(&[])?;
    let ldif_bytes = fs::metadata(&people).map_err(|error| error.to_string())?.len();
    let mut all = vec![load_roster(asked, ground, &people, "plain")?];
    if asked.with_compressed {
        all.push(load_roster(asked, ground, &people, "compressed")?);
    }
    if asked.with_slapd {
        all.push(load_slapd(ground, &people)?);
    }
    Ok(head + &tables(&asked.setup, ldif_bytes, &all))
}

fn load_roster(
    asked: &Asked,
    ground: &Ground<'_>,
    people: &Path,
    name: &'static str,
) -> Result<Loaded, String> {
    note(&format!("loading, {name}"));
    let folder = ground.folder.join(name);
    let _ = fs::remove_dir_all(&folder);
    let place = Place { roster: ground.program.clone(), folder, environment: Vec::new() };
    place.init()?;
    let mut import = place.command(&["import", "--json"]);
    import.args(&asked.import).arg(people);
    if name == "compressed" {
        import.arg("--compress");
    }
    let ended = watch(&mut import, &place.folder)?;
    note(&format!("  {}", told(asked.setup.entries, &ended)));
    let file_bytes = bytes_of(&place.data().join("data.mdb"))?;
    let record_bytes = ended.number("record_bytes");
    let served = Some(serve_and_measure(ground, &place)?);
    if asked.setup.folder.is_none() {
        let _ = fs::remove_dir_all(&place.folder);
    }
    Ok(Loaded { name, ended, file_bytes, record_bytes, served })
}

fn load_slapd(ground: &Ground<'_>, people: &Path) -> Result<Loaded, String> {
    note("loading, slapadd -q");
    let folder = ground.folder.join("slapd");
    let _ = fs::remove_dir_all(&folder);
    let slapd = Slapd { indexes: SLAPD_INDEXES, ..Slapd::default() };
    let ended = watch(&mut slapd.loading(&folder, people)?, &folder)?;
    note(&format!("  {}", told(ground.setup.entries, &ended)));
    let file_bytes = bytes_of(&folder.join("db/data.mdb"))?;
    let _ = fs::remove_dir_all(&folder);
    Ok(Loaded { name: "slapadd -q", ended, file_bytes, record_bytes: None, served: None })
}

fn told(entries: u64, ended: &Ended) -> String {
    let seconds = ended.seconds.max(0.001);
    format!(
        "{seconds:.1} s, {:.0} entries/s, {:.1} µs of CPU an entry, {} MiB of memory at most",
        entries as f64 / seconds,
        ended.cpu_seconds * 1e6 / entries as f64,
        ended.anonymous_bytes >> 20
    )
}

/// What a file takes on the disk: holes take nothing.
fn bytes_of(file: &Path) -> Result<u64, String> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(metadata.blocks() * 512)
}

fn tables(setup: &Setup, ldif_bytes: u64, all: &[Loaded]) -> String {
    let entries = setup.entries as f64;
    let each = |bytes: u64| bytes as f64 / entries;
    let mut text = format!(
        "LDIF: {:.0} MB, {:.0} octets an entry\n\n\
         | | seconds | entries/s | CPU µs an entry | memory at most, MiB | disk at most, MB \
         | data file, MB | octets an entry | of them records |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        ldif_bytes as f64 / 1e6,
        each(ldif_bytes)
    );
    for loaded in all {
        let ended = &loaded.ended;
        let records =
            loaded.record_bytes.map_or("–".to_owned(), |one| format!("{:.0}", each(one)));
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.0} | {:.1} | {} | {:.0} | {:.0} | {:.0} | {records} |",
            loaded.name,
            ended.seconds,
            entries / ended.seconds.max(0.001),
            ended.cpu_seconds * 1e6 / entries,
            ended.anonymous_bytes >> 20,
            ended.disk_bytes as f64 / 1e6,
            loaded.file_bytes as f64 / 1e6,
            each(loaded.file_bytes),
        );
    }
    for loaded in all {
        let phases = loaded.ended.phases();
        if !phases.is_empty() {
            let _ = write!(text, "\nphases, {}: {phases}\n", loaded.name);
        }
    }
    text.push_str(
        "\n| | start, ms | cold: start, ms | first 1,000 searches: s · p50 · p99 ms \
         | the next 1,000 | preload, s · MB/s | then 1,000 searches \
         | search/s · CPU µs | modify/s | add/s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for loaded in all {
        if let Some(served) = &loaded.served {
            let _ = writeln!(text, "| {} | {served} |", loaded.name);
        }
    }
    let _ = write!(text, "\n{}", load_average());
    text
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let setup = Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, 0);
    let mut asked = Asked { setup, with_compressed: false, with_slapd: false, import: Vec::new() };
    options::read(arguments, |name, value| {
        match name {
            "--compress" => asked.with_compressed = true,
            "--slapd" => asked.with_slapd = true,
            "--import-option" => asked.import.push(value.text()?),
            _ => return asked.setup.take(name, value),
        }
        Ok(true)
    })?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        let asked =
            parse(&words("--entries 7 --compress --slapd --folder /x --import-option --a=1"));
        let asked = asked.unwrap();
        assert!(asked.with_compressed && asked.with_slapd && asked.setup.folder.is_some());
        assert_eq!((asked.setup.entries, asked.import), (7, vec!["--a=1".to_owned()]));
        assert!(parse(&words("--entries none")).is_err());
        assert!(parse(&words("--folder")).is_err());
    }
}
