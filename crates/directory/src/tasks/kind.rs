//! What tasks do: a row for each kind.

use aci::Privilege;

/// A kind of task.
#[derive(Debug)]
pub struct TaskKind {
    /// The word for it.
    pub name: &'static str,
    /// What it does, for the reference.
    pub about: &'static str,
    /// A task, without its name.
    pub example: &'static str,
    /// The options without which it is none.
    pub required: &'static [&'static str],
    /// What it takes to have it done: it is done with the rights of the server.
    pub privileges: &'static [Privilege],
    /// The class of OpenDJ that does the same.
    pub class: Option<&'static str>,
    /// The branch of `cn=tasks,cn=config` of 389 Directory Server whose tasks do the same.
    pub branch: Option<&'static str>,
}

impl PartialEq for TaskKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TaskKind {}

/// Every kind.
pub static TASK_KINDS: &[TaskKind] = &[
    TaskKind {
        name: "backup",
        about: "Backs up the data directory, as `roster backup` does: the first run into a \
                directory copies everything, later ones add what is new.",
        example: "backup to=nightly",
        required: &["to"],
        privileges: &[Privilege::BackendBackup],
        class: Some("org.opends.server.tasks.BackupTask"),
        branch: Some("backup"),
    },
    TaskKind {
        name: "verify-backup",
        about: "Verifies a backup: every checksum, and that no record is missing.",
        example: "verify-backup from=nightly",
        required: &["from"],
        privileges: &[Privilege::BackendRestore],
        class: Some("org.opends.server.tasks.RestoreTask"),
        branch: None,
    },
    TaskKind {
        name: "export",
        about: "Writes the entries of one moment as LDIF, with operational attributes and hashed \
                passwords; those at and below `base` alone, if that is given.",
        example: "export to=people.ldif.zst base=\"ou=people,dc=example,dc=com\"",
        required: &["to"],
        privileges: &[Privilege::LdifExport],
        class: Some("org.opends.server.tasks.ExportTask"),
        branch: Some("export"),
    },
    TaskKind {
        name: "import",
        about: "Adds the entries of an LDIF file, with searches keeping their latency. It writes \
                whatever the file says, also privileges.",
        example: "import from=new.ldif rejects=rejected.ldif",
        required: &["from"],
        privileges: &[Privilege::LdifImport],
        class: Some("org.opends.server.tasks.ImportTask"),
        branch: Some("import"),
    },
    TaskKind {
        name: "index",
        about: "Builds indexes anew; the old ones are used until then.",
        example: "index index=uid.equality,cn.substring",
        required: &["index"],
        privileges: &[Privilege::ConfigWrite],
        class: Some("org.opends.server.tasks.RebuildTask"),
        branch: Some("index"),
    },
    TaskKind {
        name: "check",
        about: "Compares the indexes with the entries, all of them or those that `index` names. \
                It has failed if something is wrong.",
        example: "check",
        required: &[],
        privileges: &[Privilege::ConfigRead],
        class: None,
        branch: None,
    },
    TaskKind {
        name: "config-apply",
        about: "Makes the directory what a file says, as `roster config apply` does.",
        example: "config-apply from=directory.toml",
        required: &["from"],
        privileges: &[Privilege::ConfigWrite, Privilege::ModifyAcl, Privilege::UpdateSchema],
        class: None,
        branch: None,
    },
];

/// The kind of this name, or of this class of OpenDJ.
pub(crate) fn find(name: &str) -> Option<&'static TaskKind> {
    TASK_KINDS.iter().find(|kind| kind.name == name || kind.class == Some(name))
}
