//! The manifests of our crates: who depends on whom.

use std::path::Path;

/// One crate of the workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    /// Crates of the workspace that the product code uses; tests may use more.
    pub(crate) dependencies: Vec<String>,
}

/// Every crate in `crates/` and `xtask`, sorted by name.
pub(crate) fn read(root: &Path) -> Vec<Manifest> {
    let mut directories = vec![root.join("xtask")];
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    directories.extend(crates.map(|entry| entry.path()));
    let mut tables = Vec::new();
    for directory in directories {
        let text = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
        if let Some(named) = parse(&text) {
            tables.push(named);
        }
    }
    tables.sort();
    let names: Vec<String> = tables.iter().map(|(name, _)| name.clone()).collect();
    let ours = |(name, mut dependencies): (String, Vec<String>)| {
        dependencies.retain(|dependency| names.contains(dependency));
        Manifest { name, dependencies }
    };
    tables.into_iter().map(ours).collect()
}

fn parse(text: &str) -> Option<(String, Vec<String>)> {
    let table: toml::Table = text.parse().ok()?;
    let name = table.get("package")?.get("name")?.as_str()?.to_owned();
    let mut dependencies = Vec::new();
    for section in ["dependencies", "build-dependencies"] {
        let section = table.get(section).and_then(toml::Value::as_table);
        dependencies.extend(section.into_iter().flat_map(|section| section.keys().cloned()));
    }
    Some((name, dependencies))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_product_dependencies_count() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n\
                    [dev-dependencies]\nc = \"1\"\n";
        assert_eq!(parse(text), Some(("a".to_owned(), vec!["b".to_owned()])));
    }
}
