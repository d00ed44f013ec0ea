//! The wall before the log: a change that somebody decided on.

use std::fmt;

/// A value that passed an access decision. Only this crate makes one.
///
/// ```compile_fail,E0423
/// fn forge<T>(value: T) -> aci::Permitted<T> {
///     aci::Permitted(value)
/// }
/// ```
#[derive(Debug)]
pub struct Permitted<T>(T);

impl<T> Permitted<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    /// The one named door for changes the server makes on its own account (creating the suffix
    /// entry at `init`, loading a file offline). `cargo xtask tidy` lists the callers.
    pub fn internal(value: T) -> Self {
        Self(value)
    }

    /// What was permitted.
    pub fn get(&self) -> &T {
        &self.0
    }
}

/// The decision "no". Says nothing more on purpose: a reason could reveal what is not visible.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Denied;

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the identity lacks the right to make this change")
    }
}
