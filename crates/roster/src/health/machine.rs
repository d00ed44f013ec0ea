//! What a data directory on this machine says, without a server.
//!
//! Invariant: what cannot be read is told, never taken for well.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use directory::{DiskSpace as _, FileSystemSpace};
use history::QUARANTINE_FILE;
use server::Settings;
use store::Store;

use crate::failure::{Failure, plain};
use crate::table::shortened;

/// A data directory, and the settings of its server.
pub(crate) struct Machine {
    pub(crate) settings: Settings,
    pub(crate) disk_free_bytes: Option<u64>,
    /// Files that others than their owner can read, and should not.
    pub(crate) open_files: Vec<PathBuf>,
    /// Why the data are not to be served, if they are not; or why nobody knows.
    pub(crate) quarantine: Result<Option<String>, String>,
}

impl Machine {
    /// Looks at the data directory of these settings.
    ///
    /// # Errors
    /// Why there is none, or none that can be read.
    pub(crate) fn look(settings: Settings) -> Result<Self, String> {
        let data = settings.server.data.clone();
        Store::check_data_directory(&data).map_err(|error| Failure::from(error).message)?;
        let secret = [data.join("admin-password"), settings.key_path(), data.join("data.mdb")];
        let open_files = secret.into_iter().filter(|path| is_open(path)).collect();
        let quarantine = quarantine(&data);
        let disk_free_bytes = FileSystemSpace::of(&data).free_bytes().ok();
        Ok(Self { settings, disk_free_bytes, open_files, quarantine })
    }
}

fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0)
}

/// Why the data are in quarantine; nothing where they are not.
fn quarantine(data: &Path) -> Result<Option<String>, String> {
    let mut text = Vec::new();
    let opened = File::open(data.join(QUARANTINE_FILE));
    match opened.and_then(|file| file.take(EVIDENCE_BYTES_MAX).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {QUARANTINE_FILE}: {}", plain(&error))),
    }
    // The file alone keeps the server from serving, whatever is in it.
    let kept: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let reason = kept.get("reason").and_then(|reason| reason.as_str());
    let reason = reason.map(|reason| shortened(reason, REASON_LETTERS_MAX));
    Ok(Some(reason.unwrap_or_else(|| format!("{QUARANTINE_FILE} does not say why"))))
}

/// Octets of the evidence that are read.
const EVIDENCE_BYTES_MAX: u64 = 1 << 20;
/// Letters of the reason that are shown.
const REASON_LETTERS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_quarantine_whatever_is_in_it() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(QUARANTINE_FILE);
        assert_eq!(quarantine(data.path()), Ok(None));
        for (text, want) in [
            (r#"{"reason": "record 7 differs", "lsn": 7}"#, "record 7 differs"),
            ("", "quarantine.json does not say why"),
            ("{\"reason\": 7}", "quarantine.json does not say why"),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(quarantine(data.path()), Ok(Some(want.to_owned())));
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(quarantine(data.path()).unwrap_err().starts_with("cannot read quarantine.json"));
    }
}
