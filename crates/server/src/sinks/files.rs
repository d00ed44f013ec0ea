//! The directory of the sinks: what they write, and the keys, passwords and certificates that they
//! name.
//!
//! Invariant: names come from lines of settings, which hold nothing but a name of a file here.
//! Invariant: nothing is opened that would be waited for (a fifo), nor read without an end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use directory::{DiskSpace as _, FileSystemSpace};
use rustix::fs::OFlags;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use zeroize::Zeroizing;

/// The directory.
#[derive(Clone, Debug)]
pub(super) struct SinkFiles {
    path: Arc<Path>,
    /// Free bytes below which nothing is written.
    full_bytes: u64,
}

impl SinkFiles {
    pub(super) fn new(path: PathBuf, full_bytes: u64) -> Self {
        Self { path: path.into(), full_bytes }
    }

    /// Refuses to write where the disk is full. One that cannot be asked is not guarded.
    pub(super) fn check_room(&self) -> io::Result<()> {
        let free_bytes = FileSystemSpace::of(&*self.path).free_bytes().unwrap_or(u64::MAX);
        if free_bytes >= self.full_bytes {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the disk has {} MiB left: nothing is written until it has {} MiB",
            free_bytes >> 20,
            self.full_bytes >> 20
        )))
    }

    /// Where a file of this name is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> &Path {
        &self.path
    }

    /// Makes it, for its owner alone, if it is not there.
    pub(super) fn make(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// A secret, without the end of its line.
    pub(super) fn secret(&self, name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let path = self.path(name);
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let file = open(&path, OpenOptions::new().read(true)).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "{} may be read by others: 'chmod 600' it, and think of what it holds as known",
                path.display()
            ));
        }
        let mut octets = Zeroizing::new(Vec::new());
        file.take(SECRET_MAX_BYTES + 1).read_to_end(&mut octets).map_err(failed)?;
        if octets.len() as u64 > SECRET_MAX_BYTES {
            return Err(format!("{} has more than {SECRET_MAX_BYTES} bytes", path.display()));
        }
        let end = octets.iter().rposition(|octet| !b"\r\n".contains(octet)).map_or(0, |at| at + 1);
        octets.truncate(end);
        match octets.is_empty() {
            true => Err(format!("{} is empty", path.display())),
            false => Ok(octets),
        }
    }

    /// A secret that is text.
    pub(super) fn password(&self, name: &str) -> Result<Zeroizing<String>, String> {
        let octets = self.secret(name)?;
        let text = std::str::from_utf8(&octets)
            .map_err(|_| format!("{} is not UTF-8", self.path(name).display()))?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Whom TLS trusts: those of a file here, or those of the system.
    pub(super) fn tls(&self, ca: Option<&str>) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(name) => {
                let path = self.path(name);
                let failed = |error: String| format!("{}: {error}", path.display());
                let text = certificates(&path).map_err(|error| failed(error.to_string()))?;
                for one in CertificateDer::pem_slice_iter(&text) {
                    let one = one.map_err(|error| failed(error.to_string()))?;
                    roots.add(one).map_err(|error| failed(error.to_string()))?;
                }
            }
            None => return system_tls(),
        }
        trusting(roots)
    }
}

/// TLS that trusts those whom the system trusts.
pub(super) fn system_tls() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    trusting(roots)
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    if roots.is_empty() {
        return Err("there are no certificates of authorities to trust".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Opens a file, and nothing else that may have its name.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = options.custom_flags(flags.cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no file")),
    }
}

/// What a file with certificates holds.
fn certificates(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = open(path, OpenOptions::new().read(true))?;
    file.take(CERTIFICATES_MAX_BYTES + 1).read_to_end(&mut text)?;
    match text.len() as u64 > CERTIFICATES_MAX_BYTES {
        true => Err(io::Error::other(format!("it has more than {CERTIFICATES_MAX_BYTES} bytes"))),
        false => Ok(text),
    }
}

/// The largest file with a secret, in bytes.
const SECRET_MAX_BYTES: u64 = 64 * 1024;
/// The largest file with certificates, in bytes: those of a system are a twentieth of that.
const CERTIFICATES_MAX_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{OpenOptionsExt as _, symlink};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// What comes of it: it is not to wait for ever.
    #[track_caller]
    fn soon<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(read()));
        receiver.recv_timeout(Duration::from_secs(5)).expect("it waits")
    }

    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_read() {
        let scratch = tempfile::tempdir().unwrap();
        let files = SinkFiles::new(scratch.path().to_owned(), 0);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, files.path("fifo"), FileType::Fifo, mode, 0).unwrap();
        symlink("/dev/zero", files.path("zero")).unwrap();
        fs::create_dir(files.path("directory")).unwrap();
        for name in ["fifo", "zero", "directory"] {
            let (one, other) = (files.clone(), files.clone());
            let why = soon(move || one.secret(name)).unwrap_err();
            assert!(why.ends_with("it is no file"), "{why}");
            let why = soon(move || other.tls(Some(name)).map(drop)).unwrap_err();
            assert!(why.ends_with("it is no file"), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let files = SinkFiles::new(scratch.path().to_owned(), 0);
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(files.path("long"))
            .unwrap();
        file.set_len(1 << 40).unwrap();
        let why = files.secret("long").unwrap_err();
        assert!(why.ends_with("has more than 65536 bytes"), "{why}");
        let why = soon(move || files.tls(Some("long")).map(drop)).unwrap_err();
        assert!(why.ends_with("has more than 4194304 bytes"), "{why}");
    }

    #[test]
    fn a_secret_has_no_end_of_line_and_is_its_owners() {
        let scratch = tempfile::tempdir().unwrap();
        let files = SinkFiles::new(scratch.path().to_owned(), 0);
        let path = files.path("key");
        for (text, read) in [("a key\r\n", Some("a key")), ("a\nb", Some("a\nb")), ("\n", None)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(files.password("key").ok().map(|one| one.to_string()).as_deref(), read);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(files.secret("key").unwrap_err().contains("read by others"));
    }
}
