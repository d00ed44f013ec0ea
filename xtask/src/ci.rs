//! `cargo xtask ci`: exactly what CI runs. What only compiles does so while the tests run: they
//! wait for elections, disks and clients a third of their time.

use std::thread;

use crate::shell::{background, cargo, command, step, succeeds};
use crate::{Error, fuzz, gauge, gauges, no_arguments, test};

/// Runs every check; stops at the first that fails, but for those beside the tests.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    let programs = test::prepare_and_build()?;
    let (tests, compiled) = thread::scope(|scope| {
        let compiled = scope.spawn(compile);
        (test::run_built(&programs), compiled.join())
    });
    // Both have said what is wrong.
    tests?;
    compiled.unwrap_or_else(|_| Err(Error::Wrong("a thread panicked".to_owned())))?;
    gauge::run(&[])?;
    licences()?;
    fuzz::smoke()?;
    gauges::run(&[])
}

/// What leaves the processors to the tests.
fn compile() -> Result<(), Error> {
    let lint = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    step("lints", background(cargo(&lint)))?;
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    step("documentation", background(doc))?;
    test::documented()?;
    step("fuzz targets compile", background(fuzz::check()))?;
    step("the gauge's program", background(gauge::build()))
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::shell::{cargo, output};

    #[test]
    fn the_first_command_of_the_readme_finds_the_program() {
        let text = output(cargo(&["metadata", "--no-deps", "--offline", "--format-version=1"]));
        let told: Value = serde_json::from_str(&text.unwrap()).unwrap();
        let defaults = told["workspace_default_members"].as_array().unwrap();
        let packages = told["packages"].as_array().unwrap().iter();
        let targets = packages
            .filter(|package| defaults.contains(&package["id"]))
            .flat_map(|package| package["targets"].as_array().unwrap());
        let is_program =
            |target: &&Value| target["kind"].as_array().unwrap().contains(&Value::from("bin"));
        let programs: Vec<&Value> =
            targets.filter(is_program).map(|target| &target["name"]).collect();
        assert_eq!(programs, ["roster"]);
    }
}
