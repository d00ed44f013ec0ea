//! Looking after the data file: the integrity check, leaving a cluster, and reading it ahead.

pub(crate) mod check;
pub(crate) mod leave;
pub(crate) mod preload;
