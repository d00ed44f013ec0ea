//! The manifests of our crates: who depends on whom.

use std::path::Path;

/// One crate of the workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    /// Crates of the workspace that the product code uses; tests may use more.
    pub(crate) dependencies: Vec<String>,
    /// Those whose `test-support` the product code switches on; there should be none.
    pub(crate) test_support_of: Vec<String>,
}

/// Every crate in `crates/` and `xtask`, sorted by name.
pub(crate) fn read(root: &Path) -> Vec<Manifest> {
    let mut directories = vec![root.join("xtask")];
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    directories.extend(crates.map(|entry| entry.path()));
    let mut manifests = Vec::new();
    for directory in directories {
        let text = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
        manifests.extend(parse(&text));
    }
    manifests.sort_by(|one, next| one.name.cmp(&next.name));
    let names: Vec<String> = manifests.iter().map(|one| one.name.clone()).collect();
    for manifest in &mut manifests {
        manifest.dependencies.retain(|dependency| names.contains(dependency));
    }
    manifests
}

/// With all dependencies, ours and others.
fn parse(text: &str) -> Option<Manifest> {
    let table: toml::Table = text.parse().ok()?;
    let name = table.get("package")?.get("name")?.as_str()?.to_owned();
    let (mut dependencies, mut test_support_of) = (Vec::new(), Vec::new());
    for section in ["dependencies", "build-dependencies"] {
        let section = table.get(section).and_then(toml::Value::as_table);
        for (dependency, value) in section.into_iter().flatten() {
            dependencies.push(dependency.clone());
            let features = value.get("features").and_then(toml::Value::as_array);
            if features.into_iter().flatten().any(|one| one.as_str() == Some(TEST_SUPPORT)) {
                test_support_of.push(dependency.clone());
            }
        }
    }
    Some(Manifest { name, dependencies, test_support_of })
}

/// The feature that test code stands behind.
const TEST_SUPPORT: &str = "test-support";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_product_dependencies_count() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n\
                    [dev-dependencies]\nc = \"1\"\n\
                    d = { workspace = true, features = [\"test-support\"] }\n";
        let manifest = parse(text).unwrap();
        assert_eq!(manifest.dependencies, ["b"]);
        assert_eq!(manifest.test_support_of, Vec::<String>::new());
    }

    #[test]
    fn a_product_that_switches_test_support_on_is_found() {
        let text = "[package]\nname = \"a\"\n[dependencies]\n\
                    b = { workspace = true, features = [\"c\", \"test-support\"] }\n";
        assert_eq!(parse(text).unwrap().test_support_of, ["b"]);
    }
}
