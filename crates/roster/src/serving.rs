//! What `serve` and `demo` share: settings from flags, the server's start, the ready file.
//!
//! Invariant: the ready file is there, whole, only when clients are served.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use directory::{
    ArchiveAt, Directory, DirectoryError, DirectoryOptions, DiskSpace as _, FileSystemSpace,
    LiveOptions, SpaceLimits,
};
use environment::SystemClock;
use history::archive::ArchiveOptions;
use server::{
    Addresses, ArchiveSettings, ClusterMember, Following, OwnSources, ReadSettings, Server,
    Settings, SettingsError, settings_with_directory,
};
use store::{FlushOptions, Store};

use crate::diagnostics::Log;
use crate::failure::Failure;
use crate::{joining, tasks};

/// Where to serve; each replaces the setting of its name.
#[derive(Args, Clone, Debug)]
pub(crate) struct Listeners {
    /// Serve LDAP here; several can be given, port 0 is any free one
    #[arg(long, value_name = "ADDR")]
    ldap: Vec<SocketAddr>,

    /// Serve LDAPS here; several can be given, port 0 is any free one
    #[arg(long, value_name = "ADDR")]
    ldaps: Vec<SocketAddr>,

    /// Serve LDAPI on this Unix socket
    #[arg(long, value_name = "PATH")]
    ldapi: Option<PathBuf>,

    /// Serve metrics and health over HTTP here; several can be given, port 0 is any free one
    #[arg(long, value_name = "ADDR")]
    admin: Vec<SocketAddr>,

    /// Write addresses to this file as soon as clients are served
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

impl Listeners {
    /// Settings from a file, the environment, and these flags.
    pub(crate) fn settings(
        &self,
        config: Option<&Path>,
        data: Option<&Path>,
        more: &[(&'static str, String)],
    ) -> Result<Settings, Failure> {
        self.settings_as_if(config, data, more, None)
    }

    /// The same, as if the file of the data directory were this text.
    pub(crate) fn settings_as_if(
        &self,
        config: Option<&Path>,
        data: Option<&Path>,
        more: &[(&'static str, String)],
        own_text: Option<&str>,
    ) -> Result<Settings, Failure> {
        Ok(self.sources(config, data, more, own_text)?.load(&[])?.settings)
    }

    /// What this machine says, read once.
    pub(crate) fn sources(
        &self,
        config: Option<&Path>,
        data: Option<&Path>,
        more: &[(&'static str, String)],
        own_text: Option<&str>,
    ) -> Result<OwnSources, Failure> {
        let overrides = self.overrides(data, more);
        Ok(OwnSources::read(config, environment(), &overrides, own_text)?)
    }

    /// What reads the same settings again.
    pub(crate) fn read_again(
        &self,
        config: Option<&Path>,
        data: Option<&Path>,
        more: &[(&'static str, String)],
    ) -> ReadSettings {
        let overrides = self.overrides(data, more);
        let file = config.map(Path::to_owned);
        Box::new(move || {
            // A pipe has said what it had to say.
            if let Some(path) = file.as_ref().filter(|path| !path.is_file()) {
                let source = std::io::Error::other("it is no file that can be read again");
                return Err(SettingsError::Io { path: path.clone(), source });
            }
            OwnSources::read(file.as_deref(), environment(), &overrides, None)
        })
    }

    /// What the flags say, and more.
    fn overrides(
        &self,
        data: Option<&Path>,
        more: &[(&'static str, String)],
    ) -> Vec<(&'static str, String)> {
        let list = |addresses: &[SocketAddr]| {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            (!texts.is_empty()).then(|| texts.join(","))
        };
        let path = |path: &Path| path.display().to_string();
        let mut overrides = more.to_vec();
        for (name, value) in [
            ("server.data", data.map(path)),
            ("listen.ldap", list(&self.ldap)),
            ("listen.ldaps", list(&self.ldaps)),
            ("listen.ldapi", self.ldapi.as_deref().map(path)),
            ("admin.listen", list(&self.admin)),
        ] {
            overrides.extend(value.map(|value| (name, value)));
        }
        overrides
    }

    /// What one of several servers on this machine listens on, if it is asked for: LDAP, LDAPS,
    /// HTTP.
    ///
    /// # Errors
    /// What several servers cannot share.
    pub(crate) fn of_several(&self) -> Result<[Option<SocketAddr>; 3], Failure> {
        if self.ldapi.is_some() {
            return Err(Failure::local("several servers cannot listen on one Unix socket")
                .hint("each of them has a socket 'ldapi' in its data directory"));
        }
        let lists = [&self.ldap, &self.ldaps, &self.admin];
        if lists.iter().any(|list| list.len() > 1) {
            let what = "several servers take one address of a kind, and the ports after it";
            return Err(Failure::local(what).hint("give --ldap, --ldaps and --admin once"));
        }
        Ok(lists.map(|list| list.first().copied()))
    }

    /// Writes the ready file, if one is wanted: `key value` lines, readable by the owner only.
    pub(crate) fn ready(
        &self,
        addresses: &Addresses,
        more: &[(&str, String)],
    ) -> Result<(), Failure> {
        let mut lines = Vec::new();
        let mut put = |key, value| lines.push((key, value));
        for address in &addresses.ldap {
            put("ldap", address.to_string());
        }
        for address in &addresses.ldaps {
            put("ldaps", address.to_string());
        }
        if let Some(path) = &addresses.ldapi {
            put("ldapi", path.display().to_string());
        }
        for address in &addresses.admin {
            put("admin", address.to_string());
        }
        lines.extend(more.iter().cloned());
        self.ready_with(&lines)
    }

    /// Writes the ready file with these lines, if one is wanted.
    pub(crate) fn ready_with(&self, lines: &[(&str, String)]) -> Result<(), Failure> {
        let Some(path) = &self.ready_file else { return Ok(()) };
        let mut text = String::new();
        for (key, value) in lines {
            text.extend([key, " ", value, "\n"]);
        }
        write_whole(path, text.as_bytes()).map_err(|error| Failure::path("write", path, &error))
    }
}

/// The variables that may be settings: one that is not UTF-8 cannot be.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// A running server, and the store of its directory, with settings that follow those of the
/// directory, and are read again on SIGHUP.
pub(crate) fn start_following(
    sources: OwnSources,
    read: ReadSettings,
    log: &Log,
) -> Result<(Server, Arc<Store>), Failure> {
    let settings = &sources.load(&[])?.settings;
    if joining::is_waiting(&settings.server.data) {
        let what = format!("{} has not got its data yet", settings.server.data.display());
        return Err(Failure::local(what).hint("run 'roster cluster join' again until it has ended"));
    }
    let mut options = DirectoryOptions::new(&settings.server.data);
    // The server makes a certificate where none is.
    options.offers_tls = true;
    options.root_privileges = settings.access_control.administrator_privileges.clone();
    let bounds = &settings.store;
    let LiveOptions { limits, passwords, authentication } = settings.live_options(LiveOptions {
        limits: options.limits,
        passwords: options.passwords,
        authentication: options.authentication,
    });
    (options.limits, options.passwords) = (limits, passwords);
    options.authentication = authentication;
    options.password_policy = settings.password_policy.options.clone();
    options.store.map_size_bytes = bounds.map_size_bytes;
    options.flush = FlushOptions {
        index_build_percent: bounds.index_build_percent,
        ..FlushOptions::with_overlay_max(bounds.overlay_max_bytes)
    };
    options.journal_keep_bytes = bounds.journal_keep_bytes;
    options.archive = archive(settings);
    options.space_limits =
        SpaceLimits { low_bytes: bounds.disk_low_bytes, full_bytes: bounds.disk_full_bytes };
    options.policies = settings.policies.clone();
    options.journal_hold = server::journal_hold(settings);
    let member = ClusterMember::prepare(settings, &mut options)?;
    let directory = Directory::open(options, Arc::new(SystemClock::new()))
        .map_err(|error| not_opened(error, settings))?;
    let store = Arc::clone(directory.store());
    let settings = settings_with_directory(&sources, &directory).map_err(Failure::local)?;
    let mut server = Server::start(Arc::clone(&directory), &settings)?;
    if let Some(member) = &member {
        member.serve(&directory, &server);
    }
    // Whoever serves without them serves.
    if let Err(error) = server.do_tasks(&settings, tasks::program()) {
        tracing::error!(%error, "this server does no tasks until its next start");
    }
    server.follow_settings(Following { sources, read, hear: log.follower() })?;
    Ok((server, store))
}

/// What is kept of what changed, and where; none if nothing is.
pub(crate) fn archive(settings: &Settings) -> Option<ArchiveAt> {
    let ArchiveSettings { keep, max_percent, max_bytes, directory } = &settings.archive;
    if keep.is_zero() {
        return None;
    }
    let data = &settings.server.data;
    let directory = data.join(directory);
    // It may be on another disk; where it is not there yet, it will be where its parent is.
    let on_disk = directory.ancestors().find(|path| path.exists()).unwrap_or(data);
    let share = FileSystemSpace::of(on_disk)
        .total_bytes()
        .map_or(u64::MAX, |total_bytes| total_bytes / 100 * u64::from(*max_percent));
    let keep_bytes = if *max_bytes == 0 { share } else { share.min(*max_bytes) };
    let options = ArchiveOptions { keep_age: *keep, ..ArchiveOptions::new(keep_bytes) };
    Some(ArchiveAt { directory: Some(directory), options })
}

/// Why the directory was not opened; for want of room, how much there is and how much it takes.
fn not_opened(error: DirectoryError, settings: &Settings) -> Failure {
    let may_want_room = error.may_want_room();
    let failure = error.into();
    let data = &settings.server.data;
    let Ok(free_bytes) = FileSystemSpace::of(data).free_bytes() else { return failure };
    // What was acknowledged and is not in the data file yet, and what writing needs anyway.
    let needed_bytes = settings.store.overlay_max_bytes + settings.store.disk_full_bytes;
    if !may_want_room || free_bytes >= needed_bytes {
        return failure;
    }
    failure.hint(format!(
        "nothing is lost: the disk of {} has {} MiB left, a start takes up to {} MiB; make room, \
         then start again",
        data.display(),
        free_bytes >> 20,
        needed_bytes >> 20
    ))
}

/// Writes a file under another name first, so that nobody reads half of it.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&name)?;
    file.write_all(text)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&name, path)
}

/// Writes a file as [`write_whole`] does; after a power cut it is there, too.
pub(crate) fn write_durably(path: &Path, text: &[u8]) -> std::io::Result<()> {
    write_whole(path, text)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_names(directory.unwrap_or_else(|| Path::new(".")))
}

/// Makes the names in a directory durable.
pub(crate) fn sync_names(directory: &Path) -> std::io::Result<()> {
    std::fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use store::StoreError;

    use super::*;

    #[test]
    fn a_start_without_room_says_how_much_it_takes() {
        let mut settings = Settings::default();
        settings.server.data = std::env::temp_dir();
        let hint =
            |settings: &Settings| not_opened(StoreError::Full.into(), settings).hint.unwrap();
        let general = "make room on the disk, then run the command again";
        settings.store.overlay_max_bytes = 0;
        settings.store.disk_full_bytes = 0;
        assert_eq!(hint(&settings), general, "there is room enough");
        settings.store.overlay_max_bytes = 1 << 60;
        settings.store.disk_full_bytes = 1 << 20;
        let told = hint(&settings);
        assert!(told.contains("MiB left, a start takes up to 1099511627777 MiB"), "{told}");
        let other = DirectoryError::PasswordCosts;
        assert!(not_opened(other, &settings).hint.is_none(), "it has nothing to do with room");
    }
}
