//! The keytab of the settings: the Kerberos library takes it from the environment.
//!
//! A process with threads must not change its environment, and a safe one cannot. So the program
//! begins once more with the variable set, before it has done anything: the process, its files and
//! its number stay.

use std::env;
use std::os::unix::process::CommandExt as _;

use server::Settings;

use crate::again;
use crate::failure::Failure;

/// Sees to it that the library will take the keytab that the settings name, if they name one.
pub(crate) fn prepare(settings: &Settings) -> Result<(), Failure> {
    let Some(path) = settings.keytab_path() else { return Ok(()) };
    if !cfg!(feature = "gssapi") {
        return Err(Failure::local(
            "authentication.keytab: this program was built without Kerberos",
        )
        .hint("build it with '--features gssapi'"));
    }
    let named = std::path::absolute(&path).map_err(|error| Failure::path("find", &path, &error))?;
    if env::var_os(VARIABLE).is_some_and(|known| known == *named) {
        return Ok(());
    }
    // It returns only when it failed.
    let error = again::command().env(VARIABLE, &named).exec();
    Err(Failure::local(format!("cannot restart with {VARIABLE}: {error}")))
}

/// What MIT Kerberos and Heimdal look at.
const VARIABLE: &str = "KRB5_KTNAME";
