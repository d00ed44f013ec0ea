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
