//! What settings say and may say otherwise while the directory is open.
//!
//! Invariant: whoever asks twice may get two answers: what must agree is asked for once.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::bind::authentication::AuthenticationOptions;
use crate::bind::hashing::PasswordOptions;
use crate::bind::sasl;
use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::opening::decoy;
use crate::request::limits::Limits;

/// One of them, replaced as a whole.
#[derive(Debug)]
pub struct Live<T>(ArcSwap<T>);

impl<T> Live<T> {
    /// This holds at first.
    pub fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee(value))
    }

    /// What holds now.
    pub fn get(&self) -> Guard<Arc<T>> {
        self.0.load()
    }

    /// Has another one hold from now on.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

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
    /// What one request may cost now.
    pub(crate) fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.get()
    }

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
            self.credentials.decoy.set(decoy(&passwords)?);
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
