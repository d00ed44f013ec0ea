//! `cargo xtask ci`: exactly what CI runs, format and every test: it has 20 minutes. `cargo xtask
//! check` has what else a change has to pass before it is handed in.

use crate::shell::{cargo, step};
use crate::{Error, no_arguments, test};

/// Runs every check; stops at the first that fails.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    let programs = test::prepare_and_build()?;
    test::run_built(&programs)?;
    test::documented()
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
