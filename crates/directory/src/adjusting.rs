//! An open directory gets other options than those it was opened with.

use auth::password::is_slow;

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
        let decoy = self.decoy_of(&options)?;
        let LiveOptions { limits, passwords, authentication } = options;
        if let Some(decoy) = decoy {
            self.credentials.decoy.set(decoy);
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
        self.decoy_of(options).map(drop)
    }

    /// Checks them. Names that do not exist take as long as others by what new passwords take:
    /// where that changes, what to verify them against.
    fn decoy_of(&self, options: &LiveOptions) -> Result<Option<Vec<u8>>, DirectoryError> {
        sasl::check(&options.authentication)?;
        options.authentication.check(&self.state.load().schema)?;
        let LiveOptions { passwords, .. } = options;
        let before = self.credentials.passwords();
        if (passwords.storage, passwords.cost_max) == (before.storage, before.cost_max) {
            return Ok(None);
        }
        let decoy = decoy(passwords, &mut *self.chance())?;
        // Whoever gets a new password must be able to sign in with it.
        let is_within = is_slow(&decoy, &passwords.cost_max);
        if passwords.storage.is_slow() && !is_within {
            return Err(DirectoryError::PasswordCosts);
        }
        Ok(Some(decoy))
    }
}
