//! Changing what `roster.toml` says of a cluster; everything else in it stays as it was written.

use std::fs;
use std::io;
use std::path::Path;

use server::Settings;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::cluster_setup::{NewMember, listen_address};
use crate::failure::Failure;
use crate::serving::write_durably;

/// Takes out what the settings in the data directory `data` say of a cluster, if they say anything.
///
/// # Errors
/// When they cannot be read or written.
pub(crate) fn leave_cluster(data: &Path) -> Result<(), Failure> {
    change(data, |settings| {
        settings.remove(SECTION);
    })
}

/// Has the settings in the data directory `data` say that `member` is the only one. How it listens
/// and waits stays as it is.
///
/// # Errors
/// As [`leave_cluster`].
pub(crate) fn be_the_only_member(data: &Path, member: &NewMember) -> Result<(), Failure> {
    change(data, |settings| {
        let section = settings.entry(SECTION).or_insert_with(|| Item::Table(Table::new()));
        let Some(section) = section.as_table_like_mut() else { return };
        let only = format!("{} {} {}", member.id, member.address, member.url);
        section.insert("id", value(i64::try_from(member.id).unwrap_or(i64::MAX)));
        section.insert("members", value(Array::from_iter([only])));
        section.remove("preferred");
    })
}

/// Has the settings in the data directory `data` say that this is `member` of a cluster that it
/// joined. How it listens and waits stays as it is.
///
/// # Errors
/// As [`leave_cluster`].
pub(crate) fn be_another_member(data: &Path, member: &NewMember) -> Result<(), Failure> {
    change(data, |settings| {
        let section = settings.entry(SECTION).or_insert_with(|| Item::Table(Table::new()));
        let Some(section) = section.as_table_like_mut() else { return };
        section.insert("id", value(i64::try_from(member.id).unwrap_or(i64::MAX)));
        let listen = listen_address(&member.address).to_string();
        section.insert("listen", value(Array::from_iter([listen])));
        // The cluster knows them.
        section.remove("members");
    })
}

/// Whether the settings in the data directory `data` can be changed.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn check(data: &Path) -> Result<(), Failure> {
    change(data, |_| {})
}

fn change(data: &Path, change: impl FnOnce(&mut DocumentMut)) -> Result<(), Failure> {
    let file = data.join(Settings::DATA_FILE);
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::path("read", &file, &error)),
    };
    let mut settings: DocumentMut = before.parse().map_err(|error| {
        let what = format!("{} cannot be read: {error}", file.display());
        Failure::local(what).hint("mend it first")
    })?;
    change(&mut settings);
    let after = settings.to_string();
    if after == before {
        return Ok(());
    }
    write_durably(&file, after.as_bytes()).map_err(|error| Failure::path("write", &file, &error))
}

const SECTION: &str = "cluster";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Ours.\n[listen]\nldap = [\"127.0.0.1:389\"] # here\n\n[cluster]\nid = 7\n\
                        listen = [\"127.0.0.1:7636\"]\nmembers = [\n  \"7 a:1 ldap://a\",\n  \
                        \"8 b:1 ldap://b\",\n]\npreferred = [8]\nwrite_wait_ms = 5000\n\n\
                        [limits]\nread_threads = 2\n";

    fn member() -> NewMember {
        NewMember {
            id: 7,
            address: "a:1".to_owned(),
            url: "ldap://a".to_owned(),
            data: std::path::PathBuf::new(),
            listen: Vec::new(),
            more: String::new(),
        }
    }

    #[test]
    fn what_is_not_of_the_cluster_stays_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("roster.toml");
        let read = || fs::read_to_string(&file).unwrap();
        fs::write(&file, TEXT).unwrap();
        be_the_only_member(dir.path(), &member()).unwrap();
        let text = read();
        assert!(text.contains("# here") && text.contains("write_wait_ms = 5000"), "{text}");
        assert!(text.contains("members = [\"7 a:1 ldap://a\"]"), "{text}");
        assert!(!text.contains("preferred") && !text.contains("\"8 b"), "{text}");
        be_the_only_member(dir.path(), &member()).unwrap();
        assert_eq!(read(), text);
        leave_cluster(dir.path()).unwrap();
        let text = read();
        assert!(text.contains("read_threads = 2") && text.contains("# Ours."), "{text}");
        assert!(!text.contains("cluster") && !text.contains("7636"), "{text}");
        leave_cluster(dir.path()).unwrap();
        assert_eq!(read(), text);
    }

    #[test]
    fn a_file_that_is_missing_is_one_without_settings() {
        let dir = tempfile::tempdir().unwrap();
        leave_cluster(dir.path()).unwrap();
        assert!(!dir.path().join("roster.toml").exists());
        be_the_only_member(dir.path(), &member()).unwrap();
        let text = fs::read_to_string(dir.path().join("roster.toml")).unwrap();
        assert_eq!(text, "[cluster]\nid = 7\nmembers = [\"7 a:1 ldap://a\"]\n");
        fs::write(dir.path().join("roster.toml"), "[cluster\n").unwrap();
        assert!(leave_cluster(dir.path()).is_err());
    }
}
