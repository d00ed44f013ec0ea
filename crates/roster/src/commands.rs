//! The subcommands, one file each: its options, and a `run` that does it.

pub(crate) mod bench;
pub(crate) mod generate;
