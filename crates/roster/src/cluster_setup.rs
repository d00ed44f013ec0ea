//! Members of a cluster out of one data directory: copies of it, certificates, settings.
//!
//! Invariant: all members begin with the same state of the same store, and none of them has a
//! record that another lacks.
//! Invariant: the data directory that is copied stays as it is; only its journal is brought into
//! its data file.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cluster::transport::{Authority, TransportError};
use directory::{DiskSpace as _, FileSystemSpace};
use environment::{Clock as _, SystemClock};
use history::{recovery, schema_of};
use indicatif::ProgressBar;
use rustix::fs::{Access, access};
use server::Settings;
use store::{Store, StoreOptions};

use crate::failure::{Failure, plain};
use crate::progress;
use crate::serving::write_durably;

/// A member that is to be made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NewMember {
    /// Its number.
    pub(crate) id: u64,
    /// Where the others reach it: host and port.
    pub(crate) address: String,
    /// Where clients reach it.
    pub(crate) url: String,
    /// Its data directory.
    pub(crate) data: PathBuf,
    /// What it listens on for clients: lines of `[listen]` in its settings; none where that is said
    /// elsewhere.
    pub(crate) listen: Vec<String>,
    /// Further lines of its settings, after `[cluster]`.
    pub(crate) more: String,
}

/// Makes the members out of the data directory `source`, which may be that of one of them. Each has
/// the key of the authority: any of them can let further machines join.
///
/// `is_interrupted` is asked while files are copied.
///
/// # Errors
/// When `source` is in use, damaged or that of a member already, a data directory is there, or
/// there is no room. What was made until then is there still.
pub(crate) fn make(
    source: &Path,
    members: &[NewMember],
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let store = Store::open(source, &StoreOptions::default(), schema_of(source)?)?;
    if !store.membership()?.is_empty() {
        let what = format!("{} belongs to a member of a cluster already", source.display());
        return Err(Failure::local(what)
            .hint("make a cluster out of a data directory that no member has served"));
    }
    recovery::settle(&store, source)?;
    copy_to(source, members, is_interrupted)?;
    let clock = SystemClock::new();
    let issuer = Authority::new(store.id(), clock.now())?;
    for member in members {
        // First what may be refused: certificates that are there must not go for nothing.
        let settings = NewSettings::of(member, &begins_with(members))?;
        let folder = member.data.join(Settings::default().cluster.certificates);
        issuer.write(&folder)?;
        issuer.issue(member.id, clock.now())?.write(&folder)?;
        // And last what makes it a member.
        settings.write()?;
    }
    // Until here nobody could have served it.
    drop(store);
    Ok(())
}

/// Copies `source`, which is not in use, to all members but the one it is of.
fn copy_to(
    source: &Path,
    members: &[NewMember],
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let files = Files::of(source)?;
    let copies: Vec<&NewMember> = members.iter().filter(|member| member.data != source).collect();
    files.check_room(&copies)?;
    let bar = progress::bar(Some(files.bytes * copies.len() as u64), "bytes");
    bar.set_message("copying");
    let mut each = copies.iter();
    let copied = each.try_for_each(|member| files.copy(&member.data, &bar, is_interrupted));
    bar.finish_and_clear();
    copied
}

/// Whether the running server of a data directory can begin once more as this member; `load` reads
/// its settings as if its file were a text.
///
/// # Errors
/// Why not.
pub(crate) fn check_running(
    member: &NewMember,
    store: &Store,
    load: &dyn Fn(Option<&str>) -> Result<Settings, Failure>,
) -> Result<(), Failure> {
    if !store.membership()?.is_empty() {
        return Err(Failure::local("the data belong to a member of a cluster already"));
    }
    access(&member.data, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| Failure::path("write to", &member.data, &error.into()))?;
    let written = NewSettings::of(member, &begins_with(std::slice::from_ref(member)))?;
    let cluster = load(written.text.as_deref())?.cluster;
    let address = listen_address(&member.address);
    let is_meant = cluster.id == member.id
        && cluster.listen == [address]
        && cluster.members.iter().map(|(id, _)| *id).eq([member.id])
        && cluster.certificates == Settings::default().cluster.certificates;
    if !is_meant {
        let what = "the settings of the server say something else of its cluster, in a file of \
                    --config or in the environment: take that out, and restart it";
        return Err(Failure::local(what));
    }
    let bound = TcpListener::bind(address);
    bound.map(drop).map_err(|error| {
        Failure::local(format!("the server cannot listen on {address}: {}", plain(&error)))
    })
}

/// Writes `roster.toml` of a member; what is in it already stays.
///
/// # Errors
/// When it has a section for a cluster, or cannot be written.
pub(crate) fn write_settings(member: &NewMember, begins_with: &str) -> Result<(), Failure> {
    NewSettings::of(member, begins_with)?.write()
}

/// What `roster.toml` of a member is to say.
struct NewSettings {
    file: PathBuf,
    /// None where it says so already.
    text: Option<String>,
}

impl NewSettings {
    fn of(member: &NewMember, begins_with: &str) -> Result<Self, Failure> {
        let file = member.data.join(Settings::DATA_FILE);
        let before = match fs::read_to_string(&file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::path("read", &file, &error)),
        };
        let own = cluster_section(member, begins_with);
        let text = match before {
            // It was interrupted before.
            Some(before) if before.ends_with(&own) => None,
            Some(before) if has_cluster(&before) => {
                let what = format!("{} has a section [cluster] already", file.display());
                return Err(
                    Failure::local(what).hint("take it out, if this is to be another cluster")
                );
            }
            Some(before) => Some(format!("{}\n\n{own}", before.trim_end())),
            None => Some(format!("{}{own}", new_settings(member))),
        };
        Ok(Self { file, text })
    }

    fn write(&self) -> Result<(), Failure> {
        let Self { file, text } = self;
        let written = text.as_ref().map_or(Ok(()), |text| write_durably(file, text.as_bytes()));
        written.map_err(|error| Failure::path("write", file, &error))
    }
}

/// How the settings of a member begin that has none.
fn new_settings(member: &NewMember) -> String {
    let id = member.id;
    let listen: String = member.listen.iter().map(|line| format!("{line}\n")).collect();
    let listen = if listen.is_empty() { listen } else { format!("[listen]\n{listen}\n") };
    format!("# Settings of member {id} of a cluster: docs/how-to/cluster.md.\n\n{listen}")
}

fn has_cluster(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix('[')).any(|line| {
        let name = line.trim_start_matches('[').split(']').next().unwrap_or_default();
        name.trim() == "cluster" || name.trim().starts_with("cluster.")
    })
}

/// What the settings of a member say of its cluster.
fn cluster_section(member: &NewMember, begins_with: &str) -> String {
    let (id, address, more) = (member.id, listen_address(&member.address), &member.more);
    format!("[cluster]\nid = {id}\nlisten = [\"{address}\"]\n{begins_with}{more}")
}

/// The setting that says with whom a cluster begins.
fn begins_with(members: &[NewMember]) -> String {
    let all = members.iter().map(|one| format!("  \"{} {} {}\",\n", one.id, one.address, one.url));
    format!("members = [\n{}]\n", all.collect::<String>())
}

/// Where to listen for an address that others connect to: there, if it is one of IP; else, where
/// only a name is known, on all of this machine.
pub(crate) fn listen_address(address: &str) -> SocketAddr {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let anywhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port.unwrap_or(0));
    address.parse().unwrap_or(anywhere)
}

/// What of a data directory is copied.
struct Files {
    root: PathBuf,
    /// Relative to the root, folders before what is in them.
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    bytes: u64,
}

impl Files {
    fn of(root: &Path) -> Result<Self, Failure> {
        let mut found =
            Self { root: root.to_owned(), folders: Vec::new(), files: Vec::new(), bytes: 0 };
        found.list(Path::new("")).map_err(|error| Failure::path("read", root, &error))?;
        Ok(found)
    }

    fn list(&mut self, folder: &Path) -> io::Result<()> {
        let is_top = folder.as_os_str().is_empty();
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            if is_top && name.to_str().is_some_and(|name| OWN.contains(&name)) {
                continue;
            }
            let (path, kind) = (folder.join(name), entry.file_type()?);
            if kind.is_dir() {
                self.folders.push(path.clone());
                self.list(&path)?;
            } else if kind.is_file() {
                self.bytes += entry.metadata()?.len();
                self.files.push(path);
            }
        }
        Ok(())
    }

    /// Refuses to begin what cannot end.
    fn check_room(&self, copies: &[&NewMember]) -> Result<(), Failure> {
        let Some(parent) =
            copies.first().and_then(|member| member.data.ancestors().find(|it| it.is_dir()))
        else {
            return Ok(());
        };
        let needed_bytes = (self.bytes + RUN_BYTES) * copies.len() as u64;
        match FileSystemSpace::of(parent).free_bytes() {
            Ok(free_bytes) if free_bytes < needed_bytes => {
                let what = format!(
                    "{} copies of the data take {} MiB, and the disk of {} has {} MiB left",
                    copies.len(),
                    needed_bytes >> 20,
                    parent.display(),
                    free_bytes >> 20
                );
                Err(Failure::local(what).hint("make room, or take fewer entries or members"))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Copies everything into a new directory.
    fn copy(
        &self,
        to: &Path,
        bar: &ProgressBar,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        if to.exists() {
            let what = format!("{} is there already", to.display());
            return Err(Failure::local(what).hint("choose a directory that does not exist yet"));
        }
        let folders = [PathBuf::new()].into_iter().chain(self.folders.iter().cloned());
        for folder in folders {
            let path = to.join(folder);
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(|error| Failure::path("make", &path, &error))?;
        }
        for file in &self.files {
            if is_interrupted() {
                return Err(Failure::interrupted("interrupted; nothing is kept"));
            }
            let path = to.join(file);
            copy_file(&self.root.join(file), &path, &mut |bytes| bar.inc(bytes))
                .map_err(|error| Failure::path("write", &path, &error))?;
        }
        Ok(())
    }
}

/// Copies a file in pieces, and makes it durable.
fn copy_file(from: &Path, to: &Path, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
    let source = File::open(from)?;
    let mode = source.metadata()?.permissions().mode() & 0o777;
    let mut target = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    loop {
        // The system copies within itself what goes from file to file.
        let copied = io::copy(&mut (&source).take(PIECE_BYTES), &mut target)?;
        if copied == 0 {
            return target.sync_all();
        }
        progress(copied);
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Io { path, source } => Self::path("read or write", &path, &source),
            TransportError::Certificate { .. } | TransportError::Issue(_) => Self::local(error),
        }
    }
}

/// What belongs to one server alone, or to the process that has it open.
const OWN: [&str; 6] = ["lock", "lock.mdb", "ldapi", "logs", "cluster", "roster.toml"];
/// What is copied before it is told.
const PIECE_BYTES: u64 = 16 << 20;
/// What a server takes at its first start, in bytes: segments of the journal.
const RUN_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn member(id: u64, address: &str) -> NewMember {
        NewMember {
            id,
            address: address.to_owned(),
            url: format!("ldap://{address}"),
            data: PathBuf::new(),
            listen: vec![format!("ldap = [\"127.0.0.1:{id}389\"]")],
            more: String::new(),
        }
    }

    #[test]
    fn the_settings_of_a_member_are_read_as_they_were_meant() {
        let members = [member(1, "192.0.2.1:7636"), member(2, "two.example.com:7637")];
        let folder = tempfile::tempdir().unwrap();
        for one in &members {
            let one = &NewMember { data: folder.path().to_owned(), ..one.clone() };
            let _ = fs::remove_file(folder.path().join("roster.toml"));
            write_settings(one, &begins_with(&members)).unwrap();
            write_settings(one, &begins_with(&members)).unwrap();
            let data = [("server.data", folder.path().display().to_string())];
            let settings = Settings::load(None, std::iter::empty(), &data).unwrap();
            let cluster = settings.cluster;
            assert_eq!(cluster.id, one.id);
            let listen = if one.id == 1 { "192.0.2.1:7636" } else { "0.0.0.0:7637" };
            assert_eq!(cluster.listen, [listen.parse().unwrap()]);
            let found: BTreeMap<_, _> =
                cluster.members.iter().map(|(id, node)| (*id, node.address.as_str())).collect();
            assert_eq!(found, BTreeMap::from([(1, "192.0.2.1:7636"), (2, "two.example.com:7637")]));
            let ldap: SocketAddr = format!("127.0.0.1:{}389", one.id).parse().unwrap();
            assert_eq!(settings.listen.ldap, [ldap]);
        }
    }

    #[test]
    fn settings_that_are_there_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roster.toml");
        let one = NewMember { data: folder.path().to_owned(), ..member(1, "192.0.2.1:7636") };
        fs::write(&file, "[listen]\nldap = [\"127.0.0.1:7389\"]\n").unwrap();
        write_settings(&one, "").unwrap();
        let data = [("server.data", folder.path().display().to_string())];
        let settings = Settings::load(None, std::iter::empty(), &data).unwrap();
        assert_eq!(settings.listen.ldap, ["127.0.0.1:7389".parse().unwrap()]);
        assert_eq!(settings.cluster.id, 1);
        // Once more is once, and another one is refused.
        let text = fs::read_to_string(&file).unwrap();
        write_settings(&one, "").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let other = NewMember { id: 2, ..one };
        assert!(write_settings(&other, "").unwrap_err().message.contains("[cluster] already"));
    }

    #[test]
    fn a_copy_has_what_the_store_is_and_nothing_of_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let (source, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(source.join("tls")).unwrap();
        fs::create_dir_all(source.join("logs")).unwrap();
        for name in ["data.mdb", "tls/key.pem", "logs/access.log", "lock", "roster.toml"] {
            fs::write(source.join(name), name).unwrap();
        }
        fs::set_permissions(source.join("tls/key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        let files = Files::of(&source).unwrap();
        let copy =
            |is_interrupted: bool| files.copy(&to, &ProgressBar::hidden(), &|| is_interrupted);
        copy(false).unwrap();
        assert_eq!(fs::read_to_string(to.join("tls/key.pem")).unwrap(), "tls/key.pem");
        let mode = fs::metadata(to.join("tls/key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(to.join("data.mdb").exists());
        for name in ["logs", "lock", "roster.toml"] {
            assert!(!to.join(name).exists(), "{name}");
        }
        assert!(copy(false).unwrap_err().message.ends_with("is there already"));
        fs::remove_dir_all(&to).unwrap();
        assert_eq!(copy(true).unwrap_err().exit, crate::failure::Exit::Interrupted);
    }
}
