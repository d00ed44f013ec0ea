//! The base: the LMDB file, and what is known of it as a file.
//!
//! `lmdb.rs` has the tables, `format.rs` the directory they lie in, `meta.rs` the counters,
//! `naming_context.rs` the names below which entries may be. Only this folder knows that LMDB is a
//! memory map.

pub(crate) mod compress;
pub(crate) mod copy;
pub(crate) mod copy_files;
pub(crate) mod data_file;
pub(crate) mod digest;
pub(crate) mod format;
pub(crate) mod lmdb;
pub(crate) mod meta;
pub(crate) mod naming_context;
pub(crate) mod position;
pub(crate) mod requests;
pub(crate) mod staged;
pub(crate) mod swap;
pub(crate) mod transfer;
