//! What a data directory on this machine says, without a server.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use directory::{DiskSpace as _, FileSystemSpace};
use server::Settings;
use store::Store;

/// A data directory, and the settings of its server.
pub(crate) struct Machine {
    pub(crate) settings: Settings,
    pub(crate) disk_free_bytes: Option<u64>,
    /// Files that others than their owner can read, and should not.
    pub(crate) open_files: Vec<PathBuf>,
    /// Why the data are not to be served, if they are not.
    pub(crate) quarantine: Option<String>,
}

impl Machine {
    /// Looks at the data directory of these settings; none where there is none.
    pub(crate) fn look(settings: Settings) -> Option<Self> {
        let data = settings.server.data.clone();
        Store::check_data_directory(&data).ok()?;
        let secret = [data.join("admin-password"), settings.key_path(), data.join("data.mdb")];
        let open_files = secret.into_iter().filter(|path| is_open(path)).collect();
        let quarantine = fs::read(data.join("quarantine")).ok().map(|text| {
            let text =
                String::from_utf8_lossy(text.get(..REASON_MAX.min(text.len())).unwrap_or(&[]));
            text.lines().next().unwrap_or_default().to_owned()
        });
        let disk_free_bytes = FileSystemSpace::of(&data).free_bytes().ok();
        Some(Self { settings, disk_free_bytes, open_files, quarantine })
    }
}

fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0)
}

/// Octets of the reason that are shown.
const REASON_MAX: usize = 300;
