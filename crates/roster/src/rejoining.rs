//! A data directory of a former member makes room for that of a new one.
//!
//! Invariant: nothing is deleted; what was there lies below `old-N` in it.
//! Invariant: whatever interrupts it, the directory is that of the former member as a whole, or one
//! that no server serves.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use server::Settings;

use crate::failure::Failure;
use crate::joining;
use crate::serving::{sync_names, write_durably};

/// Whether no server uses the data directory `data`.
///
/// # Errors
/// When one does.
pub(crate) fn refuse_in_use(data: &Path) -> Result<(), Failure> {
    if data.join(FORMAT).exists() {
        store::refuse_in_use(data)?;
    }
    Ok(())
}

/// Puts what is in the data directory `data` aside, unless a machine begins to join there already.
///
/// # Errors
/// When a server uses it, it is no data directory, or it cannot be changed.
pub(crate) fn put_aside(data: &Path) -> Result<(), Failure> {
    if joining::is_waiting(data) || !is_there(data)? {
        return Ok(());
    }
    // Of an interrupted run the format is gone, and nothing serves what is left.
    refuse_in_use(data)?;
    if !data.join(FORMAT).exists() && newest(data)?.is_none() {
        let what = format!("{} is no data directory", data.display());
        return Err(Failure::local(what).hint("join there with 'roster cluster join'"));
    }
    let to = match newest(data)?.filter(|_| !data.join(FORMAT).exists()) {
        Some(begun) => begun,
        None => next(data)?,
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Failure::path("move", &path, &error)
    };
    // Without it nothing else of it is served.
    for name in std::iter::once(FORMAT.into()).chain(names(data)?) {
        let from = data.join(&name);
        // The next join has begun to make it.
        if name == CERTIFICATES && to.join(&name).exists() {
            continue;
        }
        match fs::rename(&from, to.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(failed(&from))?,
        }
    }
    let synced = sync_names(&to).and_then(|()| sync_names(data));
    synced.map_err(|error| Failure::path("write", data, &error))
}

/// Where the last of it was put that was put aside, if any was.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn newest(data: &Path) -> Result<Option<PathBuf>, Failure> {
    Ok(numbers(data)?.into_iter().max().map(|number| data.join(format!("{OLD}{number}"))))
}

/// Whether the machine has rejoined with the token of this name.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn has_rejoined(data: &Path, token: &str) -> Result<bool, Failure> {
    let Some(old) = newest(data)? else { return Ok(false) };
    let has_begun = fs::read_to_string(old.join(REJOINED)).is_ok_and(|with| with == token);
    Ok(has_begun && data.join(FORMAT).exists() && !joining::is_waiting(data))
}

/// The machine rejoins with the token of this name. This is noted before it has got its data: who
/// is interrupted in the moment after that must not put those aside.
///
/// # Errors
/// When that cannot be written.
pub(crate) fn note_rejoins(data: &Path, token: &str) -> Result<(), Failure> {
    let Some(old) = newest(data)? else { return Ok(()) };
    let path = old.join(REJOINED);
    write_durably(&path, token.as_bytes()).map_err(|error| Failure::path("write", &path, &error))
}

/// Has the settings and the certificate for clients that were put aside count again; whether there
/// were settings.
///
/// # Errors
/// When they cannot be copied.
pub(crate) fn take_over(data: &Path) -> Result<bool, Failure> {
    let Some(old) = newest(data)? else { return Ok(false) };
    let tls = old.join(TLS);
    if tls.is_dir() {
        let to = data.join(TLS);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&to);
        made.map_err(|error| Failure::path("make", &to, &error))?;
        for entry in fs::read_dir(&tls).map_err(|error| Failure::path("read", &tls, &error))? {
            let entry = entry.map_err(|error| Failure::path("read", &tls, &error))?;
            if !entry.path().is_file() {
                continue;
            }
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        sync_names(&to).map_err(|error| Failure::path("write", &to, &error))?;
    }
    let settings = old.join(Settings::DATA_FILE);
    if !settings.exists() {
        return Ok(false);
    }
    copy(&settings, &data.join(Settings::DATA_FILE))?;
    Ok(true)
}

/// Copies a file with its permissions; after a power cut what is in it is there.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = fs::copy(from, to).and_then(|_| File::open(to)?.sync_all());
    copied.map_err(|error| Failure::path("write", to, &error))
}

/// Whether there is anything in a directory that may be missing.
fn is_there(data: &Path) -> Result<bool, Failure> {
    Ok(data.exists() && !names(data)?.is_empty())
}

fn next(data: &Path) -> Result<PathBuf, Failure> {
    let number = numbers(data)?.into_iter().max().unwrap_or(0) + 1;
    let to = data.join(format!("{OLD}{number}"));
    DirBuilder::new()
        .mode(0o700)
        .create(&to)
        .map_err(|error| Failure::path("make", &to, &error))?;
    Ok(to)
}

/// What is to be moved.
fn names(data: &Path) -> Result<Vec<std::ffi::OsString>, Failure> {
    let all = listed(data)?;
    Ok(all.into_iter().filter(|name| number_of(name).is_none() && name != LOST).collect())
}

fn numbers(data: &Path) -> Result<Vec<u64>, Failure> {
    if !data.exists() {
        return Ok(Vec::new());
    }
    Ok(listed(data)?.iter().filter_map(|name| number_of(name)).collect())
}

fn listed(data: &Path) -> Result<Vec<std::ffi::OsString>, Failure> {
    let entries = fs::read_dir(data)
        .and_then(|all| all.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>());
    entries.map_err(|error| Failure::path("read", data, &error))
}

/// Which of those is meant that were put aside.
pub(crate) fn number_of(name: &std::ffi::OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix(OLD)?.parse().ok()
}

/// What the names of those begin with that were put aside.
const OLD: &str = "old-";
/// The file without which nothing is a data directory.
const FORMAT: &str = "format";
const TLS: &str = "tls";
const CERTIFICATES: &str = "cluster";
/// Names the token with which the machine has rejoined.
const REJOINED: &str = "rejoined";
const LOST: &str = "lost+found";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_whatever_interrupts_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        put_aside(data).unwrap();
        assert!(newest(data).unwrap().is_none());
        fs::write(data.join("data.mdb"), "data").unwrap();
        assert!(put_aside(data).is_err(), "it is no data directory");
        // An earlier run moved the format, and was ended.
        fs::create_dir(data.join("old-4")).unwrap();
        fs::write(data.join("old-4/format"), "format").unwrap();
        // A join had begun, too.
        fs::create_dir(data.join("old-4/cluster")).unwrap();
        fs::create_dir(data.join("cluster")).unwrap();
        fs::create_dir_all(data.join("tls/backup")).unwrap();
        fs::write(data.join("tls/key.pem"), "key").unwrap();
        fs::write(data.join("roster.toml"), "# ours\n").unwrap();
        put_aside(data).unwrap();
        assert_eq!(newest(data).unwrap(), Some(data.join("old-4")));
        for name in ["data.mdb", "tls/key.pem", "roster.toml", "format"] {
            assert!(data.join("old-4").join(name).exists(), "{name}");
            assert!(!data.join(name).exists(), "{name}");
        }
        assert!(take_over(data).unwrap());
        assert_eq!(fs::read_to_string(data.join("roster.toml")).unwrap(), "# ours\n");
        assert_eq!(fs::read_to_string(data.join("tls/key.pem")).unwrap(), "key");
        // It has rejoined when it has its data, not before.
        note_rejoins(data, "token").unwrap();
        assert!(!has_rejoined(data, "token").unwrap());
        fs::write(data.join("format"), "format").unwrap();
        assert!(has_rejoined(data, "token").unwrap() && !has_rejoined(data, "other").unwrap());
    }
}
