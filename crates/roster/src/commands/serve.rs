//! `roster serve`: serves a data directory.

use std::path::PathBuf;

use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::diagnostics::start_log;
use crate::failure::{Exit, Failure};
use crate::keytab;
use crate::preload::Preload;
use crate::serving::{Listeners, start};

/// Serve a data directory over LDAP, LDAPS and a Unix socket.
///
/// Every setting has a default; roster.toml in the data directory, the file of --config,
/// environment variables ROSTER_SECTION__KEY and the options here override it, in this order.
/// docs/reference/settings.md lists them all. SIGTERM and Ctrl-C stop the server when the
/// operations in progress have ended.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The data directory, made by 'roster init'
    #[arg(short, long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Read settings from this file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Read the data file into memory even if it does not fit into half of the free memory: names
    /// first, then indexes, then entries. A file that fits is always read (store.preload)
    #[arg(long)]
    preload: bool,

    /// End when the process ends that started this one
    #[arg(long, hide = true)]
    end_with_parent: bool,

    #[command(flatten)]
    listeners: Listeners,
}

const EXAMPLES: &str = "\
Examples:
  roster serve --data ./data
  roster serve --config /etc/roster.toml
  roster serve --data ./data --ldap 0.0.0.0:389 --ldaps 0.0.0.0:636
  roster serve --data ./data --preload";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.end_with_parent {
        end_with_parent()?;
    }
    let (config, data) = (options.config.as_deref(), options.data.as_deref());
    let preload = options.preload.then(|| ("store.preload", "on".to_owned()));
    let settings = options.listeners.settings(config, data, preload.as_slice())?;
    keytab::prepare(&settings)?;
    let _log = start_log(&settings);
    let (server, store) = start(&settings)?;
    options.listeners.ready(server.addresses(), &[])?;
    // It serves already: what is not read ahead is read when it is asked for.
    let preload = Preload::start(store, settings.store.preload);
    if let Err(failure) = &preload {
        tracing::warn!(?failure, "preload: not begun");
    }
    server.wait()?;
    drop(preload);
    Ok(Exit::Done)
}

/// Has the system send SIGTERM when the process ends that started this one, however it ends.
fn end_with_parent() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(Failure::local)
}
