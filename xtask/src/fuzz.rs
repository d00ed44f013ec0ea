//! `cargo xtask fuzz`: one fuzz target for a given time, and the short smoke run of CI.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::shell::{cargo, output, root, step, succeeds, target};
use crate::{Error, options};

/// How long one target runs unless told otherwise.
const DEFAULT_SECONDS: u64 = 600;
/// Targets that need the command line, and with it the whole server.
const WITH_ROSTER: &[&str] = &[
    "archive",
    "assignment",
    "backup",
    "bench_agent",
    "bench_log",
    "access_log",
    "bench_pattern",
    "bench_record",
    "cluster_change",
    "cluster_comparison",
    "cluster_copy",
    "cluster_entry",
    "cluster_message",
    "cluster_vote",
    "configuration",
    "constraint",
    "desired",
    "followed",
    "cookie",
    "dialect",
    "entry_record",
    "index_definition",
    "password_policy",
    "password_value",
    "proxy_header",
    "record",
    "sasl_message",
    "schema_mode",
    "session",
    "sink",
    "subtree_specification",
    "template",
    "virtual_attribute",
];
/// How long CI gives each target.
const SMOKE_SECONDS: u64 = 3;
/// Quick to build: in seconds it is a panic or a failed assertion that shows, and the targets are
/// safe code. The long runs keep the sanitizer and the speed.
const SMOKE_BUILD: &[&str] = &["--dev", "--sanitizer", "none"];

/// Fuzzes the target named in `arguments`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut name = None;
    let mut seconds = DEFAULT_SECONDS;
    options::read(arguments, |word, value| {
        if word == "--seconds" {
            seconds = value.number()?;
        } else if name.replace(word.to_owned()).is_some() {
            return Err(Error::usage("one target at a time"));
        }
        Ok(true)
    })?;
    let name = name.ok_or_else(|| Error::usage("which target? see fuzz/fuzz_targets"))?;
    if let Some(reason) = missing() {
        return Err(Error::Unable {
            reason: reason.to_owned(),
            hint: "'rustup toolchain install nightly' and 'cargo install cargo-fuzz'".to_owned(),
        });
    }
    fuzz(&name, seconds, &[])
}

/// Sees that the targets compile; that takes no other tool.
pub(crate) fn check() -> Command {
    let mut check = cargo(&["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml"]);
    check.env("CARGO_TARGET_DIR", target());
    check
}

/// A few seconds for every target, or a note why not.
pub(crate) fn smoke() -> Result<(), Error> {
    if let Some(reason) = missing() {
        println!("xtask: fuzz smoke skipped: {reason}");
        return Ok(());
    }
    let list = output(cargo(&["+nightly", "fuzz", "list"])).unwrap_or_default();
    let build = [&["+nightly", "fuzz", "build"], SMOKE_BUILD].concat();
    step("fuzz targets", cargo(&build))?;
    // Building the whole server under the sanitizer takes longer than all the rest.
    let mut quick = list.lines().filter(|name| !WITH_ROSTER.contains(name));
    quick.try_for_each(|name| fuzz(name, SMOKE_SECONDS, SMOKE_BUILD))
}

fn fuzz(name: &str, seconds: u64, build: &[&str]) -> Result<(), Error> {
    if name.starts_with("ldap_") {
        seed(name).map_err(|error| Error::Wrong(format!("seeds of {name}: {error}")))?;
    }
    let time = format!("-max_total_time={seconds}");
    let mut arguments = vec!["+nightly", "fuzz", "run"];
    arguments.extend(build);
    if WITH_ROSTER.contains(&name) {
        arguments.extend(["--features", "roster"]);
    }
    arguments.extend([name, "--", &time]);
    step(&format!("fuzz {name}"), cargo(&arguments))
}

/// Starts the search at the golden messages instead of at nothing.
fn seed(name: &str) -> std::io::Result<()> {
    let corpus = root().join("fuzz/corpus").join(name);
    fs::create_dir_all(&corpus)?;
    for entry in fs::read_dir(root().join("crates/ldap/tests/wire"))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default();
        fs::write(corpus.join(Path::new(stem)), octets(&fs::read_to_string(&path)?))?;
    }
    Ok(())
}

/// The octets of annotated hexadecimal text: `#` starts a comment.
fn octets(text: &str) -> Vec<u8> {
    let code = text.lines().filter_map(|line| line.split('#').next());
    code.flat_map(str::split_whitespace)
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect()
}

/// What fuzzing needs and is not here.
fn missing() -> Option<&'static str> {
    if !root().join("fuzz/Cargo.toml").exists() {
        Some("there are no fuzz targets")
    } else if !succeeds(cargo(&["+nightly", "--version"])) {
        Some("no nightly toolchain")
    } else if !succeeds(cargo(&["fuzz", "--version"])) {
        Some("cargo-fuzz is not installed")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_octets() {
        assert_eq!(octets("# a\n30 03 # ab\n  ff\n"), [0x30, 0x03, 0xff]);
    }
}
