//! `cargo xtask conform`: the dialogue scripts against another server.
//!
//! Known differences stand in `tests/peers/NAME.skip`; the list must be exact. A peer that dies is
//! told of, and is no error unless it does so often: then nothing was compared.

use std::path::Path;

use testing::slapd::Slapd;
use testing::{Outcome, Script, SkipList, run, run_script};

use crate::shell::root;
use crate::{Error, options, shell};

/// Runs the scripts named in `arguments`, or all, against the peer.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut scripts = Vec::new();
    options::read(arguments, |name, value| {
        match name {
            "--peer" if value.text()? == "openldap" => {}
            "--peer" => return Err(Error::usage("--peer is openldap")),
            option if option.starts_with('-') => return Ok(false),
            script => scripts.push(script.to_owned()),
        }
        Ok(true)
    })?;
    if !Slapd::is_installed() {
        return Err(Error::Unable {
            reason: "slapd is not installed".to_owned(),
            hint: "run 'cargo xtask test' as root, or 'apt-get install slapd'".to_owned(),
        });
    }
    if scripts.is_empty() { all() } else { some(&scripts) }
}

/// Every script, compared with the list of known differences.
fn all() -> Result<(), Error> {
    shell::timed("conform: the scripts against openldap", || {
        let skip =
            SkipList::read(&root().join("tests/peers/openldap.skip")).map_err(Error::Wrong)?;
        let outcomes = testing::run_directory_beside(&scripts_directory(), THREADS, Slapd::default)
            .map_err(|error| Error::Wrong(error.to_string()))?;
        let mut errors = skip.compare(&outcomes);
        let died: Vec<String> = outcomes.iter().filter_map(died).collect();
        for one in &died {
            println!("the peer died: {one}");
        }
        if died.len() > DEATHS_MAX {
            errors.push(format!("the peer died {} times: nothing is compared there", died.len()));
        }
        for error in &errors {
            println!("{error}");
        }
        println!(
            "{} dialogues, {} known differences, {} errors",
            outcomes.len(),
            skip.len(),
            errors.len()
        );
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Error::Wrong("the scripts and tests/peers/openldap.skip disagree".to_owned()))
        }
    })
}

/// The dialogue under which the peer died, if it did, and how.
fn died(outcome: &Outcome) -> Option<String> {
    let how = outcome.failure.as_ref()?.died.as_ref()?;
    Some(format!("{}: {}: {how}", outcome.script, outcome.title))
}

/// Single scripts, for writing them: every difference is printed, none is excused.
fn some(names: &[String]) -> Result<(), Error> {
    let wrong = |error: testing::ScriptError| Error::Wrong(error.to_string());
    let mut failed = 0;
    for path in run::script_paths(&scripts_directory()).map_err(wrong)? {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        if !names.iter().any(|name| stem.as_deref() == Some(stem_of(name))) {
            continue;
        }
        let script = Script::read(&path).map_err(wrong)?;
        for outcome in run_script(&script, &mut Slapd::default()) {
            if let Some(failure) = &outcome.failure {
                failed += 1;
                println!("{}: {failure}", outcome.title);
                if let Some(one) = died(&outcome) {
                    println!("the peer died: {one}");
                }
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(Error::Wrong(format!("{failed} dialogues differ"))) }
}

/// The name of a script, given as a path, a file name or a bare name.
fn stem_of(name: &str) -> &str {
    Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name)
}

fn scripts_directory() -> std::path::PathBuf {
    root().join("tests/scripts")
}

/// Dialogues under which the peer may die.
const DEATHS_MAX: usize = 20;
/// Scripts played at a time; most of the time is waiting for a slapd to start or to end.
const THREADS: usize = 4;
