//! `cargo xtask fuzz`: one fuzz target for a given time, and the short smoke run of CI.

use crate::Error;
use crate::shell::{cargo, output, root, step, succeeds};

/// How long one target runs unless told otherwise.
const DEFAULT_SECONDS: u64 = 600;
/// How long CI gives each target.
const SMOKE_SECONDS: u64 = 5;

/// Fuzzes the target named in `arguments`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut name = None;
    let mut seconds = DEFAULT_SECONDS;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--seconds" {
            let number = arguments.next().and_then(|number| number.parse().ok());
            seconds = number.ok_or_else(|| Error::usage("--seconds takes a number"))?;
        } else if name.replace(argument).is_some() {
            return Err(Error::usage("one target at a time"));
        }
    }
    let name = name.ok_or_else(|| Error::usage("which target? see fuzz/fuzz_targets"))?;
    if let Some(reason) = missing() {
        return Err(Error::Unable {
            reason: reason.to_owned(),
            hint: "'rustup toolchain install nightly' and 'cargo install cargo-fuzz'".to_owned(),
        });
    }
    fuzz(name, seconds)
}

/// A few seconds for every target, or a note why not.
pub(crate) fn smoke() -> Result<(), Error> {
    if let Some(reason) = missing() {
        println!("xtask: fuzz smoke skipped: {reason}");
        return Ok(());
    }
    let list = output(cargo(&["+nightly", "fuzz", "list"])).unwrap_or_default();
    list.lines().try_for_each(|name| fuzz(name, SMOKE_SECONDS))
}

fn fuzz(name: &str, seconds: u64) -> Result<(), Error> {
    let time = format!("-max_total_time={seconds}");
    step(&format!("fuzz {name}"), cargo(&["+nightly", "fuzz", "run", name, "--", &time]))
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
