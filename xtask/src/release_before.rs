//! `cargo xtask release-before`: builds the server of the release before, from which upgrades are
//! tried.
//!
//! Invariant: its source and what is built of it are below cargo's target directory, and nothing of
//! it is in the tree of this release.

use std::path::PathBuf;

use crate::shell::{cargo, command, output, source, step, target};
use crate::{Error, no_arguments};

/// The commit of that release.
const COMMIT: &str = "xtask/release-before";
/// Its folder below the target directory.
const FOLDER: &str = "release-before";

/// Builds it, and prints where it is.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    println!("{}", build()?.display());
    Ok(())
}

/// Builds the server of the release before, unless that is done; where it is.
pub(crate) fn build() -> Result<PathBuf, Error> {
    let commit = source(COMMIT).map_err(Error::Wrong)?.trim().to_owned();
    let folder = target().join(FOLDER);
    let (tree, built) = (folder.join("source"), folder.join("target"));
    let here = tree.display().to_string();
    let at = output(command("git", &["-C", &here, "rev-parse", "HEAD"]));
    if !tree.join("Cargo.toml").exists() {
        // One that was deleted is known to git still.
        let words = ["worktree", "add", "--force", "--detach", &here, &commit];
        step("the source of the release before", command("git", &words))?;
    } else if at.as_deref().map(str::trim) != Some(commit.as_str()) {
        let words = ["-C", &here, "checkout", "--detach", &commit];
        step("the source of the release before", command("git", &words))?;
    }
    let mut build = cargo(&["build", "--quiet", "--locked", "--release", "--package", "roster"]);
    build.current_dir(&tree).env("CARGO_TARGET_DIR", &built);
    // As it is released, whatever this build is told.
    build.env_remove("CARGO_INCREMENTAL");
    step("the server of the release before", build)?;
    Ok(built.join("release/roster"))
}
