//! `cargo xtask ci`: exactly what CI runs, cheapest first.

use crate::shell::{cargo, command, step, succeeds};
use crate::{Error, fuzz, gauge, gauges, no_arguments, test};

/// Runs every check; stops at the first that fails.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    let lint = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    step("lints", cargo(&lint))?;
    test::run(&[])?;
    // Takes what the tests were built with.
    gauge::run(&[])?;
    // The README's first command must find the program among those of the workspace.
    step("cargo run", cargo(&["run", "--quiet", "--", "--version"]))?;
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    step("documentation", doc)?;
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
