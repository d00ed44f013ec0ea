//! A machine that joins a cluster gets its data: it takes part as a learner, and serves nobody,
//! until it has what the others have.
//!
//! Invariant: a data directory that has not got its copy is not served.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use cluster::Status;
use directory::{Directory, DirectoryOptions, JoinAnswer, octets_of_hex};
use environment::SystemClock;
use history::schema_of;
use server::{ClusterMember, Settings};
use store::{FlushOptions, Store, StoreOptions};

use crate::failure::Failure;
use crate::interrupt;
use crate::progress;
use crate::serving::{environment, write_whole};

/// Whether the data directory `data` waits for its copy.
pub(crate) fn is_waiting(data: &Path) -> bool {
    marker(data).exists()
}

/// Refuses a directory that is more than what an interrupted join has left.
pub(crate) fn check_free(data: &Path) -> Result<(), Failure> {
    let is_empty = match fs::read_dir(data) {
        Ok(mut found) => found.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::path("read", data, &error)),
    };
    if is_empty || is_waiting(data) {
        return Ok(());
    }
    let what = format!("{} is not empty, and no machine began to join there", data.display());
    Err(Failure::local(what).hint("choose a directory that does not exist yet"))
}

/// Marks a data directory as one that waits for its copy.
pub(crate) fn begin(data: &Path) -> Result<(), Failure> {
    let path = marker(data);
    write_whole(&path, b"").map_err(|error| Failure::path("write", &path, &error))
}

/// Gets the data from the others, until this machine has what they have.
pub(crate) fn copy(data: &Path, answer: &JoinAnswer) -> Result<(), Failure> {
    let wrong = || Failure::refused("the member sent a cluster without a number");
    let cluster = octets_of_hex(&answer.cluster).map_err(|_| wrong())?;
    let schema = schema_of(data)?;
    Store::create_for_copy(data, cluster, &StoreOptions::default(), schema)?;
    let own = [("server.data", data.display().to_string())];
    let settings = Settings::load(None, environment(), &own)?;
    let mut options = DirectoryOptions::new(data);
    options.store.map_size_bytes = settings.store.map_size_bytes;
    options.flush = FlushOptions::with_overlay_max(settings.store.overlay_max_bytes);
    options.journal_keep_bytes = settings.store.journal_keep_bytes;
    let member = ClusterMember::prepare(&settings, &mut options)?
        .ok_or_else(|| Failure::local("the settings say that this server is alone"))?;
    let directory = Directory::open(options, Arc::new(SystemClock::new()))?;
    let copied = wait(&member);
    directory.shutdown();
    copied?;
    let path = marker(data);
    fs::remove_file(&path).map_err(|error| Failure::path("remove", &path, &error))
}

/// Waits until a member has what the others have.
fn wait(member: &ClusterMember) -> Result<(), Failure> {
    let interrupted = interrupt::flag()?;
    let bar = progress::bar(None, "");
    bar.enable_steady_tick(TICK);
    let outcome = loop {
        if interrupted.load(Ordering::Relaxed) {
            break Err(Failure::interrupted("interrupted; run the command again to go on"));
        }
        match member.status() {
            Some(status) if status.has_caught_up && is_listed(&status) => break Ok(()),
            Some(status) => bar.set_message(told(&status)),
            None => bar.set_message("starting"),
        }
        thread::park_timeout(LOOK_EVERY);
    };
    bar.finish_and_clear();
    outcome
}

/// Whether it knows that it takes part.
fn is_listed(status: &Status) -> bool {
    status.members.iter().any(|one| one.id == status.id)
}

fn told(status: &Status) -> String {
    if let Some(copy) = &status.receives {
        let (bytes, of_bytes) = (copy.bytes >> 20, copy.of_bytes >> 20);
        return format!("getting the data from member {}: {bytes} of {of_bytes} MiB", copy.member);
    }
    match status.leader {
        None => "waiting for the member that leads".to_owned(),
        Some(leader) => format!("getting the data from member {leader}"),
    }
}

fn marker(data: &Path) -> PathBuf {
    data.join(Settings::default().cluster.certificates).join(MARKER)
}

/// Is there while a data directory waits for its copy.
const MARKER: &str = "joining";
/// How often it is looked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(200);
