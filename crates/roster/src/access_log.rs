//! Access logs of a server, as files: which there are, and what their lines say.
//!
//! `line` reads a line, `lines` those of a file, `files` finds what a server has written,
//! `failures` counts who failed to sign in.
//!
//! Invariant: a log is what others have written: lines have a limit, and nothing of them comes to a
//! terminal but through `output`.

pub(crate) mod failures;
pub(crate) mod files;
pub(crate) mod line;
pub(crate) mod lines;
