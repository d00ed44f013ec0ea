//! A machine that joins a cluster gets its data: it takes part as a learner, and serves nobody,
//! until it has what the others have.
//!
//! Invariant: a data directory that has not got its copy is not served.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cluster::Status;
use directory::{Directory, DirectoryOptions, JoinAnswer, octets_of_hex};
use environment::{Clock as _, SystemClock};
use history::log::Role;
use history::schema_of;
use offline::backup::MemberBackup;
use server::{ClusterMember, Settings};
use store::{FlushOptions, Store, StoreOptions};

use crate::commands::backup::Bar;
use crate::failure::Failure;
use crate::output;
use crate::progress;
use crate::rejoining;
use crate::serving::{environment, sync_names};

/// Whether the data directory `data` waits for its copy.
pub(crate) fn is_waiting(data: &Path) -> bool {
    marker(data).exists()
}

/// Refuses a directory that is more than what an interrupted join has left.
pub(crate) fn check_free(data: &Path) -> Result<(), Failure> {
    // What a join makes before it marks the directory, and what file systems have.
    let is_of_nobody = |name: &OsStr| {
        name == "lost+found" || name == FOLDER || rejoining::number_of(name).is_some()
    };
    let is_free = match fs::read_dir(data) {
        Ok(mut found) => {
            found.all(|entry| entry.is_ok_and(|entry| is_of_nobody(&entry.file_name())))
                && !data.join(FOLDER).join(cluster::transport::NODE_FILE).exists()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::path("read", data, &error)),
    };
    if is_free || is_waiting(data) {
        return Ok(());
    }
    if data.join("format").exists() {
        let what = format!("{} is not empty: it is a data directory already", data.display());
        return Err(Failure::local(what).hint("has it joined? Start it with 'roster serve'"));
    }
    let what = format!("{} is not empty, and no machine began to join there", data.display());
    Err(Failure::local(what).hint("choose a directory that does not exist yet"))
}

/// One join at a time for a data directory, as long as this is there.
#[derive(Debug)]
pub(crate) struct Joining(#[expect(dead_code, reason = "its lock is what counts")] File);

/// Marks a data directory as one that waits for its copy.
///
/// # Errors
/// When another join is under way there.
pub(crate) fn begin(data: &Path) -> Result<Joining, Failure> {
    let path = marker(data);
    let mut open = fs::OpenOptions::new();
    let file = open.write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|error| Failure::path("write", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Joining(file)),
        Err(TryLockError::WouldBlock) => {
            let what = format!("another 'roster cluster join' is under way in {}", data.display());
            Err(Failure::local(what).hint("wait until it has ended, or end it"))
        }
        Err(TryLockError::Error(error)) => Err(Failure::path("lock", &path, &error)),
    }
}

/// Reads all of a backup that a machine is to begin with.
pub(crate) fn verified(from: &Path) -> Result<MemberBackup, Failure> {
    let bar = Bar::new();
    let backup = MemberBackup::open(from, &mut |now| bar.show(now))?;
    bar.end();
    Ok(backup)
}

/// Puts a backup in the place of the data; whether it did.
fn stage(data: &Path, backup: &MemberBackup, cluster: [u8; 16]) -> Result<bool, Failure> {
    let bar = Bar::new();
    let staged = backup.stage(data, cluster, &mut |now| bar.show(now))?;
    bar.end();
    match staged {
        Some(base) => output::note(format_args!(
            "roster: it begins with {} entries of the backup, as of change {}",
            base.entries, base.lsn
        )),
        None => output::note(format_args!(
            "roster: note: it goes on with the data that it has already, and not with the backup"
        )),
    }
    Ok(staged.is_some())
}

/// Gets the data from the others, until this machine has what they have; it begins with `backup`,
/// if there is one. `address` is where they are to reach this machine.
pub(crate) fn copy(
    data: &Path,
    answer: &JoinAnswer,
    address: &str,
    backup: Option<&MemberBackup>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let wrong = || Failure::refused("the member sent a cluster without a number");
    let cluster = octets_of_hex(&answer.cluster).map_err(|_| wrong())?;
    let schema = schema_of(data)?;
    Store::create_for_copy(data, cluster, &StoreOptions::default(), schema)?;
    let is_staged = match backup {
        Some(backup) => stage(data, backup, cluster)?,
        None => false,
    };
    let own = [("server.data", data.display().to_string())];
    let settings = Settings::load(None, environment(), &own)?;
    let mut options = DirectoryOptions::new(data);
    options.store.map_size_bytes = settings.store.map_size_bytes;
    options.flush = FlushOptions::with_overlay_max(settings.store.overlay_max_bytes);
    options.journal_keep_bytes = settings.store.journal_keep_bytes;
    let member = ClusterMember::prepare(&settings, &mut options)?
        .ok_or_else(|| Failure::local("the settings say that this server is alone"))?;
    let directory = Directory::open(options, Arc::new(SystemClock::new()))?;
    let copied = wait(&member, &directory, address, is_staged, is_interrupted);
    directory.shutdown();
    copied?;
    // What was written beside the store is there after a power cut, and the mark is gone then.
    sync_names(data).map_err(|error| Failure::path("write", data, &error))?;
    let path = marker(data);
    let removed = fs::remove_file(&path);
    removed
        .and_then(|()| path.parent().map_or(Ok(()), sync_names))
        .map_err(|error| Failure::path("remove", &path, &error))
}

/// Waits until a member has what the others have.
fn wait(
    member: &ClusterMember,
    directory: &Arc<Directory>,
    address: &str,
    mut is_staged: bool,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let clock = SystemClock::new();
    let (begin, mut is_lonely) = (clock.elapsed(), false);
    let (mut looks, mut hindered) = (0_u32, Vec::new());
    let bar = progress::bar(None, "");
    bar.enable_steady_tick(TICK);
    let outcome = loop {
        if is_interrupted() {
            break Err(Failure::interrupted("interrupted; run the command again to go on"));
        }
        if looks.is_multiple_of(DISK_LOOKS) {
            // A copy is made if there is room for it here.
            member.look(directory);
        }
        looks = looks.wrapping_add(1);
        let status = member.status();
        if let Some(failure) = status.as_ref().and_then(gone_wrong) {
            break Err(failure);
        }
        if is_staged && status.as_ref().is_some_and(|status| status.receives.is_some()) {
            is_staged = false;
            output::note(format_args!(
                "roster: note: the log of the cluster does not reach back to the backup: a copy of \
                 all data comes instead"
            ));
        }
        let told_of = status.as_ref().map(|status| status.copy_hindrances.clone());
        let told_of = told_of.unwrap_or_default();
        for sentence in told_of.iter().filter(|sentence| !hindered.contains(*sentence)) {
            output::note(format_args!("roster: note: {sentence}"));
        }
        hindered = told_of;
        let is_alone = status.as_ref().is_none_or(|status| status.leader.is_none());
        if is_alone && !is_lonely && clock.elapsed() - begin > LONELY_AFTER {
            is_lonely = true;
            output::note(format_args!(
                "roster: note: no member has reached this machine at {address} yet: is that where \
                 the others connect to, and is nothing in between?"
            ));
        }
        match status {
            Some(status) if status.has_caught_up && is_listed(&status) => break Ok(()),
            Some(status) => bar.set_message(told(&status)),
            None => bar.set_message("starting"),
        }
        thread::park_timeout(LOOK_EVERY);
    };
    bar.finish_and_clear();
    outcome
}

/// Why nothing will come of it, if so.
fn gone_wrong(status: &Status) -> Option<Failure> {
    if status.is_removed {
        let what = format!("member {} was removed from the cluster meanwhile", status.id);
        return Some(Failure::refused(what).hint("join from an empty directory with a new token"));
    }
    match &status.role {
        Role::Failed(reason) => Some(
            Failure::refused(format!("the log of this member has failed: {reason}"))
                .hint("see to that, and run the command again"),
        ),
        Role::Deciding(_) | Role::Following { .. } | Role::Alone => None,
    }
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
/// After so long without a leader somebody is told.
const LONELY_AFTER: Duration = Duration::from_secs(10);
/// Where the certificates are by default.
const FOLDER: &str = "cluster";
/// In one of so many looks the others are told of the disk.
const DISK_LOOKS: u32 = 10;
/// How often it is looked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(200);
