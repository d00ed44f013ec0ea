//! `roster serve`: serves a data directory.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use directory::FirstMember;
use rustix::process::{Signal, set_parent_process_death_signal};
use server::{Ended, Server, Settings};
use store::Store;
use tokio::signal::unix::SignalKind;

use crate::again;
use crate::cluster_setup::{self, NewMember};
use crate::commands::cluster_init;
use crate::commands::config_plan::apply_before;
use crate::diagnostics::start_log;
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Signals};
use crate::keytab;
use crate::preload::Preload;
use crate::serving::{Listeners, start_following};

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

    /// First make the directory what this file says ('roster config export' writes one); for a
    /// server that is no member of a cluster
    #[arg(long, value_name = "FILE")]
    apply: Option<PathBuf>,

    /// End when the process ends that started this one
    #[arg(long, hide = true)]
    end_with_parent: bool,

    /// Make the server the first member of a cluster before it begins
    #[arg(long = BECOMES, hide = true, value_name = "'N HOST:PORT URL'")]
    becomes: Option<String>,

    #[command(flatten)]
    listeners: Listeners,
}

/// The option with which a server begins once more as a member.
const BECOMES: &str = "becomes-member";

const EXAMPLES: &str = "\
Examples:
  roster serve --data ./data
  roster serve --config /etc/roster.toml
  roster serve --data ./data --ldap 0.0.0.0:389 --ldaps 0.0.0.0:636
  roster serve --data ./data --preload
  roster serve --data ./data --apply directory.toml";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.end_with_parent {
        end_with_parent()?;
    }
    // It ends a process that does not listen, as the server does when it has been started.
    interrupt::listen(SignalKind::hangup())?;
    let (config, data) = (options.config.as_deref(), options.data.as_deref());
    let preload = options.preload.then(|| ("store.preload", "on".to_owned()));
    let read = || options.listeners.sources(config, data, preload.as_slice(), None);
    let mut sources = read()?;
    let mut settings = sources.load(&[])?.settings;
    keytab::prepare(&settings)?;
    let log = start_log(&settings);
    if let Some(file) = options.apply.as_deref().filter(|_| options.becomes.is_none()) {
        match settings.cluster.id {
            0 => apply_before(file, &settings.server.data, config)?,
            // Its configuration is that of the others, who may be serving it.
            _ => tracing::warn!(
                "--apply has no effect on a member of a cluster: use 'roster config apply'"
            ),
        }
    }
    if let Some(member) = &options.becomes {
        match become_member(member, &settings) {
            Ok(()) => {
                sources = read()?;
                settings = sources.load(&[])?.settings;
            }
            // It served until now, and goes on.
            Err(Failure { message, .. }) => {
                tracing::error!(reason = message, "the server did not become a member");
            }
        }
    }
    let again = options.listeners.read_again(config, data, preload.as_slice());
    let (server, store) = start_following(sources, again, &log)?;
    let mut signals = Signals::listen(&[SignalKind::terminate(), SignalKind::interrupt()])?;
    offer_cluster(&server, &store, &settings, options);
    server.offer_stop(check_restart(options));
    options.listeners.ready(&server.addresses(), &[])?;
    // It serves already: what is not read ahead is read when it is asked for.
    let preload = Preload::start(store, settings.store.preload);
    if let Err(failure) = &preload {
        tracing::warn!(?failure, "preload: not begun");
    }
    let ended = server.wait()?;
    drop(preload);
    match ended {
        Ended::Stopped => Ok(Exit::Done),
        // It was told to end while it did.
        Ended::Becomes(_) | Ended::Restarts if signals.has_come() => Ok(Exit::Done),
        Ended::Becomes(FirstMember { member, address, url }) => {
            let member = format!("{member} {address} {url}");
            // It returns only when it failed.
            let error = again::command_setting(&format!("--{BECOMES}"), &member).exec();
            Err(Failure::local(format!("cannot begin once more: {error}")))
        }
        Ended::Restarts => {
            let error = again::command_without(&format!("--{BECOMES}")).exec();
            Err(Failure::local(format!("cannot begin anew: {error}")))
        }
    }
}

/// What speaks against beginning anew: settings with which the server would not come back.
fn check_restart(options: &Options) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let preload = options.preload.then(|| ("store.preload", "on".to_owned()));
    let (config, data) = (options.config.as_deref(), options.data.as_deref());
    let read = options.listeners.read_again(config, data, preload.as_slice());
    move || {
        let why = match read() {
            Ok(sources) => match sources.load(&[]) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            },
            Err(error) => error,
        };
        Err(format!("the server would not come back, and goes on as it is: {why}"))
    }
}

/// Lets the server become the first member of a cluster while it runs.
fn offer_cluster(server: &Server, store: &Arc<Store>, settings: &Settings, options: &Options) {
    let (store, data) = (Arc::downgrade(store), settings.server.data.clone());
    let (listeners, config) = (options.listeners.clone(), options.config.clone());
    let named = options.data.clone();
    let load = move |text: Option<&str>| {
        listeners.settings_as_if(config.as_deref(), named.as_deref(), &[], text)
    };
    server.offer_cluster(move |asked| {
        let FirstMember { member, address, url } = asked;
        let check = || {
            let member = running_member(&format!("{member} {address} {url}"), &data)?;
            let store = store.upgrade().ok_or_else(|| Failure::local("the server is stopping"))?;
            cluster_setup::check_running(&member, &store, &load)
        };
        check().map_err(|failure: Failure| failure.message)
    });
}

/// Makes the data directory that of a member; no server has it open.
fn become_member(text: &str, settings: &Settings) -> Result<(), Failure> {
    let member = running_member(text, &settings.server.data)?;
    cluster_setup::make(&settings.server.data, std::slice::from_ref(&member), &|| false)
}

/// A member that listens for clients where it did before.
fn running_member(text: &str, data: &Path) -> Result<NewMember, Failure> {
    let member = cluster_init::member(text, data)?;
    Ok(NewMember { data: data.to_owned(), listen: Vec::new(), ..member })
}

/// Has the system send SIGTERM when the process ends that started this one, however it ends.
fn end_with_parent() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(Failure::local)
}
