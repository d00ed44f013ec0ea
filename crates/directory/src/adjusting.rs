//! An open directory gets other options than those it was opened with.

use crate::bind::authentication::AuthenticationOptions;
use crate::bind::credentials::decoy;
use crate::bind::hashing::PasswordOptions;
use crate::bind::sasl;
use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::request::limits::Limits;

/// What may be set while a directory is open; see the fields of the same names of
/// [`DirectoryOptions`](crate::DirectoryOptions).
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// What one request may cost.
    pub limits: Limits,
    /// How passwords are kept and verified. How many are remembered, and whether any are stored
    /// anew, is as it was when the directory was opened.
    pub passwords: PasswordOptions,
    /// How clients may prove who they are.
    pub authentication: AuthenticationOptions,
}

impl Directory {
    /// What holds now.
    #[must_use]
    pub fn live(&self) -> LiveOptions {
        LiveOptions {
            limits: Limits::clone(&self.limits()),
            passwords: self.credentials.passwords(),
            authentication: AuthenticationOptions::clone(&self.credentials.authentication()),
        }
    }

    /// Has other options hold from now on. Requests that are under way may go on by those of
    /// before.
    ///
    /// # Errors
    /// What does not fit the schema in force; then everything stays as it is.
    pub fn set_live(&self, options: LiveOptions) -> Result<(), DirectoryError> {
        self.check_live(&options)?;
        let LiveOptions { limits, passwords, authentication } = options;
        // Names that do not exist take as long as others by what new passwords take.
        if passwords.storage != self.credentials.passwords().storage {
            self.credentials.decoy.set(decoy(&passwords, &mut *self.chance())?);
        }
        self.budgets.fit(&limits);
        self.limits.set(limits);
        self.credentials.passwords.set(passwords);
        self.credentials.authentication.set(authentication);
        Ok(())
    }

    /// Whether these options could hold.
    ///
    /// # Errors
    /// What does not fit the schema in force.
    pub fn check_live(&self, options: &LiveOptions) -> Result<(), DirectoryError> {
        sasl::check(&options.authentication)?;
        options.authentication.check(&self.state.load().schema)
    }
}
