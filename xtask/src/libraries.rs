//! Client libraries that come from the registries of their languages, for the tests in
//! `client_libraries.rs`.
//!
//! Invariant: a folder of `target/clients` has the file `ready` only when all that the files named
//! here ask for is in it.

use std::fs;
use std::path::Path;

use crate::Error;
use crate::shell::{command, root, step};

/// The libraries of one language.
struct Libraries {
    /// The folder in `crates/roster/tests/clients`, and in `target/clients`.
    language: &'static str,
    /// What says which libraries: copied there.
    files: &'static [&'static str],
    /// The programs that may fetch them: the first that is here does.
    programs: &'static [&'static str],
    arguments: &'static [&'static str],
}

const LIBRARIES: &[Libraries] = &[
    Libraries {
        language: "node",
        files: &["package.json", "package-lock.json"],
        programs: &["npm"],
        arguments: &["ci", "--silent", "--ignore-scripts"],
    },
    Libraries {
        language: "go",
        files: &["go.mod", "go.sum"],
        programs: &["/usr/local/go/bin/go", "/usr/bin/go"],
        arguments: &["mod", "download"],
    },
    Libraries {
        language: "java",
        files: &["pom.xml"],
        programs: &["mvn"],
        arguments: &["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
    },
    // A broker, for the tests in `sinks.rs`.
    Libraries {
        language: "kafka",
        files: &["pom.xml"],
        programs: &["mvn"],
        arguments: &["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
    },
];

/// Fetches those that are missing, or have other versions than asked for.
pub(crate) fn fetch_missing() -> Result<(), Error> {
    LIBRARIES.iter().try_for_each(fetch)
}

fn fetch(libraries: &Libraries) -> Result<(), Error> {
    let source = root().join("crates/roster/tests/clients").join(libraries.language);
    let place = root().join("target/clients").join(libraries.language);
    let ready = place.join("ready");
    let is_same = |name: &&str| {
        let read = |folder: &Path| fs::read(folder.join(name)).ok();
        read(&source).is_some_and(|text| read(&place) == Some(text))
    };
    if ready.exists() && libraries.files.iter().all(is_same) {
        return Ok(());
    }
    let wrong = |error: std::io::Error| Error::Wrong(format!("{}: {error}", place.display()));
    if place.exists() {
        fs::remove_dir_all(&place).map_err(wrong)?;
    }
    fs::create_dir_all(&place).map_err(wrong)?;
    for name in libraries.files {
        fs::copy(source.join(name), place.join(name)).map_err(wrong)?;
    }
    let is_here = |program: &&&str| !program.starts_with('/') || Path::new(program).exists();
    let program = libraries.programs.iter().find(is_here).copied().unwrap_or_default();
    let mut fetching = command(program, libraries.arguments);
    fetching.current_dir(&place);
    step(&format!("client libraries for {}", libraries.language), fetching)?;
    fs::write(ready, "").map_err(wrong)
}
