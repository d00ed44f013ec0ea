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
use std::path::{Path, PathBuf};
use std::process::Command;

use testing::crash::server::{ADMIN_PASSWORD, SUFFIX, now, scratch};

use self::process::{Ended, watch};
use self::serving::{Load, serve_and_measure};
use crate::Error;
use crate::bench_writes::{generate, load_average, note};
use crate::servers::slapd_configuration;
use crate::shell::roster;

/// People unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
/// Length of each load on the server in seconds unless told otherwise.
const DEFAULT_SECONDS: u64 = 5;
/// slapd's tools.
const SLAPD: &str = "/usr/sbin/slapd";

#[derive(Debug)]
struct Asked {
    entries: u64,
    seconds: u64,
    with_compressed: bool,
    with_slapd: bool,
    /// Further options of the import, as `--memory=4G`.
    import: Vec<String>,
    roster: Option<PathBuf>,
    folder: PathBuf,
    /// The folder and the people in it stay.
    keep: bool,
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
    if asked.with_slapd && !Path::new(SLAPD).exists() {
        return Err(Error::Unable {
            reason: "slapd is not installed".to_owned(),
            hint: "'apt-get install slapd', or leave --slapd out".to_owned(),
        });
    }
    let program = match &asked.roster {
        Some(path) => path.clone(),
        None => roster()?,
    };
    let begin = now();
    let result = measure(&asked, &program);
    if !asked.keep {
        let _ = fs::remove_dir_all(&asked.folder);
    }
    println!("\n{}", result.map_err(Error::Wrong)?);
    println!("xtask: bench-import: {} s", begin.elapsed().as_secs());
    Ok(())
}

fn measure(asked: &Asked, program: &Path) -> Result<String, String> {
    let folder = &asked.folder;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let people = folder.join(format!("people-{}.ldif", asked.entries));
    let mut head = format!("{} people; {}\n\n", asked.entries, load_average());
    if !people.exists() {
        note("making the people");
        let begin = now();
        // Under another name first: what an interrupted run left is not the whole.
        let half = folder.join("people.new");
        generate(program, asked.entries, &half)?;
        fs::rename(&half, &people).map_err(|error| error.to_string())?;
        let seconds = begin.elapsed().as_secs_f64();
        let rate = asked.entries as f64 / seconds;
        let _ = writeln!(head, "generated in {seconds:.1} s, {rate:.0} entries/s\n");
    }
    let ldif_bytes = fs::metadata(&people).map_err(|error| error.to_string())?.len();
    let mut all = vec![load_roster(asked, program, &people, "plain")?];
    if asked.with_compressed {
        all.push(load_roster(asked, program, &people, "compressed")?);
    }
    if asked.with_slapd {
        all.push(load_slapd(asked, &people)?);
    }
    Ok(head + &tables(asked, ldif_bytes, &all))
}

fn load_roster(
    asked: &Asked,
    program: &Path,
    people: &Path,
    name: &'static str,
) -> Result<Loaded, String> {
    note(&format!("loading, {name}"));
    let folder = asked.folder.join(name);
    fresh(&folder)?;
    let (data, password) = (folder.join("data"), folder.join("password"));
    fs::write(&password, ADMIN_PASSWORD).map_err(|error| error.to_string())?;
    let mut init = Command::new(program);
    init.args(["init", "--suffix", SUFFIX, "--data"]).arg(&data);
    init.arg("--admin-password-file").arg(&password);
    watch(&mut init, &folder)?;
    let mut import = Command::new(program);
    import.args(["import", "--json", "--data"]).arg(&data).args(&asked.import).arg(people);
    if name == "compressed" {
        import.arg("--compress");
    }
    let ended = watch(&mut import, &folder)?;
    note(&format!("  {}", told(asked.entries, &ended)));
    let file_bytes = bytes_of(&data.join("data.mdb"))?;
    let record_bytes = ended.number("record_bytes");
    let served = Some(serve_and_measure(program, &folder, asked.entries, asked.seconds)?);
    if !asked.keep {
        let _ = fs::remove_dir_all(&folder);
    }
    Ok(Loaded { name, ended, file_bytes, record_bytes, served })
}

fn load_slapd(asked: &Asked, people: &Path) -> Result<Loaded, String> {
    note("loading, slapadd -q");
    let folder = asked.folder.join("slapd");
    fresh(&folder.join("db"))?;
    let config = folder.join("slapd.conf");
    fs::write(&config, configuration(&folder)).map_err(|error| error.to_string())?;
    let mut add = Command::new(SLAPD);
    add.args(["-T", "add", "-q", "-f"]).arg(&config).arg("-l").arg(people);
    let ended = watch(&mut add, &folder)?;
    note(&format!("  {}", told(asked.entries, &ended)));
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

fn fresh(folder: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// What a file takes on the disk: holes take nothing.
fn bytes_of(file: &Path) -> Result<u64, String> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(metadata.blocks() * 512)
}

/// The same indexes as a new directory of roster has for these people.
fn configuration(folder: &Path) -> String {
    slapd_configuration(
        folder,
        "tool-threads 2",
        "maxsize 1099511627776
index objectClass,entryUUID,createTimestamp,modifyTimestamp,employeeNumber eq
index uid,cn,sn,givenName,l,title eq,sub
index mail,telephoneNumber pres,eq,sub",
    )
}

fn tables(asked: &Asked, ldif_bytes: u64, all: &[Loaded]) -> String {
    let entries = asked.entries as f64;
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
    let mut asked = Asked {
        entries: DEFAULT_ENTRIES,
        seconds: DEFAULT_SECONDS,
        with_compressed: false,
        with_slapd: false,
        import: Vec::new(),
        roster: None,
        folder: scratch("bench-import"),
        keep: false,
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--compress" => asked.with_compressed = true,
            "--slapd" => asked.with_slapd = true,
            _ => {
                let value = arguments.next();
                let value = value.ok_or_else(|| Error::usage(format!("{name} takes a value")))?;
                let number = || match value.parse::<u64>() {
                    Ok(number) if number > 0 => Ok(number),
                    _ => Err(Error::usage(format!("{name} takes a number above 0"))),
                };
                match name.as_str() {
                    "--entries" => asked.entries = number()?,
                    "--seconds" => asked.seconds = number()?,
                    "--import-option" => asked.import.push(value.clone()),
                    "--roster" => asked.roster = Some(PathBuf::from(value)),
                    "--folder" => {
                        asked.folder = PathBuf::from(value);
                        asked.keep = true;
                    }
                    other => return Err(Error::usage(format!("unknown option: {other}"))),
                }
            }
        }
    }
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
        assert!(asked.with_compressed && asked.with_slapd && asked.keep);
        assert_eq!((asked.entries, asked.import), (7, vec!["--a=1".to_owned()]));
        assert!(parse(&words("--entries none")).is_err());
        assert!(parse(&words("--folder")).is_err());
    }
}
