//! The subcommands, one file each: its options, and a `run` that does it.

pub(crate) mod account;
pub(crate) mod assignment;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod cluster_init;
pub(crate) mod cluster_join;
pub(crate) mod cluster_members;
pub(crate) mod cluster_recover;
pub(crate) mod cluster_verify;
pub(crate) mod constraint;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod init;
mod lines;
pub(crate) mod restore;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod top;
pub(crate) mod virtual_attribute;
pub(crate) mod why;
