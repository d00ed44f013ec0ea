//! The command line of roster: one program, one table of subcommands.
//!
//! Start at `cli.rs`, the table; each subcommand is one file in `commands/`. What a subcommand
//! needs beyond the other crates lives here too: `template` makes up directories, `bench` puts load
//! on a server, `online` imports into and exports from one that serves, `account` asks one about
//! accounts, `top` shows what one does.
//!
//! Invariant: a subcommand prints through `output` only and ends with one of the exit codes in
//! `failure`.

mod access;
mod access_log;
mod account;
mod again;
pub mod bench;
mod chance;
mod changes;
mod cli;
mod cluster_setup;
mod cluster_status;
mod commands;
pub mod configuration;
mod connect;
mod diagnostics;
mod diff;
mod explain;
mod failure;
mod follow;
mod health;
mod import_watch;
mod index;
mod interrupt;
mod joining;
mod json_operation;
mod keytab;
mod location;
mod migration;
mod nodes;
mod online;
mod output;
mod preload;
mod progress;
mod rejects;
mod rejoining;
mod serving;
mod session;
mod settings_file;
mod table;
mod task_process;
mod tasks;
pub mod template;
mod temporary;
mod top;
mod whole_file;

pub use access_log::failures::count_failures;
pub use cli::run;
