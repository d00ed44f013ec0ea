//! Looking after the data file: the integrity check, and reading it ahead.

pub(crate) mod check;
pub(crate) mod preload;
