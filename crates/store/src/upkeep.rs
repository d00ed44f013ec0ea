//! Looking after the data file: the integrity check, compression, and reading it ahead.

pub(crate) mod check;
pub(crate) mod compress;
pub(crate) mod preload;
