//! Running other programs from the root of the source tree.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Error;

/// The root of the source tree.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The text of a file of the source tree.
pub(crate) fn source(file: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))
}

/// A command that starts in the root.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// The cargo that runs us, or another toolchain's when a `+name` comes first.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command("cargo", arguments)
}

/// The server, built as it is released.
pub(crate) fn roster() -> Result<PathBuf, Error> {
    step("the server", cargo(&["build", "--quiet", "--release", "--package", "roster"]))?;
    Ok(target().join("release/roster"))
}

/// The server, built as for tests.
pub(crate) fn roster_debug() -> Result<PathBuf, Error> {
    step("the server", cargo(&["build", "--quiet", "--package", "roster"]))?;
    Ok(target().join("debug/roster"))
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target)
}

/// Whether a command exists and ends well; nothing is printed.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a command prints, if it ends well.
pub(crate) fn output(mut command: Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs one step of a longer command: says what, how long, and stops at the first failure.
pub(crate) fn step(title: &str, mut command: Command) -> Result<(), Error> {
    timed(title, || match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Wrong(format!("{title}: {status}"))),
        Err(error) => Err(Error::Wrong(format!("{title}: {error}"))),
    })
}

/// Runs `work` between two lines that say what it is and how long it took.
#[allow(clippy::disallowed_methods, reason = "tells a person how long a build step took")]
pub(crate) fn timed(title: &str, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    println!("xtask: {title} ...");
    let start = Instant::now();
    work()?;
    println!("xtask: {title}: fine, {} s", start.elapsed().as_secs());
    Ok(())
}
