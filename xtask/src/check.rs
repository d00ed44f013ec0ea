//! `cargo xtask check`: what is to be seen before a change is handed in, besides the tests: lints
//! of every target, documentation, fuzz targets, the gauge of instructions, licences.

use crate::shell::{cargo, command, step, succeeds};
use crate::{Error, fuzz, gauge, gauges, no_arguments};

/// Runs every check; stops at the first that fails.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    let lint = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    step("lints", cargo(&lint))?;
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    step("documentation", doc)?;
    step("fuzz targets compile", fuzz::check())?;
    gauge::run(&[])?;
    licences()?;
    fuzz::smoke()?;
    gauges::run(&[])
}

/// Licences and advisories, where the tool is installed.
fn licences() -> Result<(), Error> {
    if !succeeds(command("cargo", &["deny", "--version"])) {
        println!("xtask: licences skipped: cargo-deny is not installed");
        return Ok(());
    }
    step("licences", cargo(&["deny", "check", "licenses", "bans", "sources"]))?;
    // The database comes over the network. One that was kept in the source tree would grow old, and
    // find nothing where there is something.
    if !succeeds(cargo(&["deny", "fetch", "db"])) {
        println!("xtask: advisories skipped: their database cannot be fetched from here");
        return Ok(());
    }
    step("advisories", cargo(&["deny", "check", "advisories"]))
}
