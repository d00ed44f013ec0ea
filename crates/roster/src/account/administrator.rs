//! A new password for the administrator, who has no entry: in a file of the data directory, which
//! a running server looks at every second.
//!
//! Invariant: no password is on a command line, and none but a hash is on the disk; until the new
//! one is there whole, the one before holds.

use std::path::Path;

use auth::password::PasswordStorage;
use directory::{AdminPassword, Directory};

use super::reset;
use crate::commands::init::{ADMINISTRATOR, generate_password};
use crate::failure::{Exit, Failure};
use crate::location::DataLocation;
use crate::output;

/// Where the new password comes from; by default it is generated.
pub(crate) struct NewPassword<'p> {
    pub(crate) file: Option<&'p Path>,
    pub(crate) is_asked: bool,
}

/// Changes it.
pub(crate) fn run(location: &DataLocation, new: &NewPassword<'_>) -> Result<Exit, Failure> {
    let settings = location.settings()?;
    let data = &settings.server.data;
    let given = match new.file {
        Some(file) => Some(reset::read(file)?),
        None if new.is_asked => Some(ask()?),
        None => None,
    };
    let password = match &given {
        Some(password) => password.clone(),
        None => generate_password()?.into_bytes(),
    };
    let admin = AdminPassword { clear: &password, storage: PasswordStorage::default() };
    Directory::set_administrator_password(data, &admin)?;
    let name = std::fs::read_to_string(data.join(NAME_FILE)).ok();
    let name = name.as_deref().map_or(ADMINISTRATOR, str::trim);
    let stored = Directory::administrator_password_path(data);
    output::line(format_args!("administrator   {name}"))?;
    if given.is_none() {
        let password = String::from_utf8_lossy(&password);
        output::line(format_args!("password        {password}"))?;
    }
    output::line(format_args!("stored in       {}", stored.display()))?;
    output::line(format_args!(
        "\nA running server takes it within two seconds, and the old one works no more. Sessions \
         that are\nopen stay so; this ends them:\n  roster session close --identity '{name}' -W"
    ))?;
    if password.len() < OCTETS_ADVISED {
        output::note(format_args!(
            "roster: note: it is short: the administrator may do everything, and no policy guards \
             this password"
        ));
    }
    if settings.cluster.id != 0 {
        output::note(format_args!(
            "roster: note: each server of a cluster has a password of its own: run this on the \
             others, too, or copy the file"
        ));
    }
    Ok(Exit::Done)
}

/// Asks for it twice.
fn ask() -> Result<Vec<u8>, Failure> {
    let ask = |prompt| {
        rpassword::prompt_password(prompt).map_err(|error| {
            let reason = crate::failure::plain(&error);
            Failure::local(format!("cannot ask for the password: {reason}"))
        })
    };
    let password = ask("New password: ")?;
    if password.is_empty() {
        return Err(Failure::local("an empty password is none").hint("nothing was changed"));
    }
    if ask("Again: ")? != password {
        let failure = Failure::local("the two are not the same");
        return Err(failure.hint("nothing was changed; try again"));
    }
    Ok(password.into_bytes())
}

/// Where the name of the administrator is, if it is another one.
const NAME_FILE: &str = "admin-name";
/// Shorter ones are remarked upon.
const OCTETS_ADVISED: usize = 12;
