//! What may be said of a task: `NAME=VALUE`, a row each, under the names of OpenDJ, too.

use schema::{DnKey, Schema};

use crate::lines::scanner::{LineError, Parsed, wrong};
use crate::sinks::SinkEndpoint;

/// An option.
#[derive(Debug)]
pub struct TaskOption {
    /// Its name.
    pub name: &'static str,
    /// For these kinds; for all if there are none.
    pub kinds: &'static [&'static str],
    /// Its value, for the reference.
    pub form: &'static str,
    /// What it does, for the reference.
    pub about: &'static str,
    /// Attributes of OpenDJ that say the same.
    pub attributes: &'static [&'static str],
    /// Those of 389 Directory Server.
    pub attributes_389: &'static [&'static str],
    /// Refuses what is no value.
    pub(super) check: fn(&str, &Schema) -> Parsed<()>,
}

/// Every option.
pub static TASK_OPTIONS: &[TaskOption] = &[
    TaskOption {
        name: "to",
        kinds: &["backup", "export"],
        form: "PATH",
        about: "The directory of the backup, or the file, below the directory of the tasks. The \
                suffix `.gz` or `.zst` has a file compressed.",
        attributes: &["ds-backup-directory-path", "ds-task-export-ldif-file"],
        attributes_389: &["nsArchiveDir", "nsFilename"],
        check: path,
    },
    TaskOption {
        name: "from",
        kinds: &["verify-backup", "import", "config-apply"],
        form: "PATH",
        about: "The backup, or the file, below the directory of the tasks.",
        attributes: &["ds-backup-directory-path", "ds-task-import-ldif-file"],
        attributes_389: &["nsFilename"],
        check: path,
    },
    TaskOption {
        name: "full",
        kinds: &["backup"],
        form: "true, false",
        about: "Whether everything is copied, even if adding to the last backup would be enough. \
                Default: false.",
        attributes: &[],
        attributes_389: &[],
        check: boolean,
    },
    TaskOption {
        name: "base",
        kinds: &["export"],
        form: "DN",
        about: "Only this entry and those below it.",
        attributes: &["ds-task-export-include-branch"],
        attributes_389: &["nsIncludeSuffix"],
        check: |value, schema| match DnKey::from_text(schema, value) {
            Ok(_) => Ok(()),
            Err(error) => wrong(format!("'{value}' is no name of an entry: {error}")),
        },
    },
    TaskOption {
        name: "filter",
        kinds: &["export"],
        form: "FILTER",
        about: "Only entries that match.",
        attributes: &["ds-task-export-include-filter"],
        attributes_389: &[],
        check: |value, _| match ldap::filter::Filter::parse(value) {
            Ok(_) => Ok(()),
            Err(error) => wrong(format!("'{value}' is no filter: {error}")),
        },
    },
    TaskOption {
        name: "operational",
        kinds: &["export"],
        form: "true, false",
        about: "Whether operational attributes are written. Default: true.",
        attributes: &["ds-task-export-include-operational-attributes"],
        attributes_389: &[],
        check: boolean,
    },
    TaskOption {
        name: "replace",
        kinds: &["import"],
        form: "true, false",
        about: "Whether the attributes of entries that are there are replaced; otherwise such \
                entries are refused. Default: false.",
        attributes: &["ds-task-import-replace-existing"],
        attributes_389: &[],
        check: boolean,
    },
    TaskOption {
        name: "rejects",
        kinds: &["import"],
        form: "PATH",
        about: "Where entries go that are refused, below the directory of the tasks; without it, \
                the first one ends the import.",
        attributes: &["ds-task-import-reject-file"],
        attributes_389: &[],
        check: path,
    },
    TaskOption {
        name: "index",
        kinds: &["index", "check"],
        form: "NAMES",
        about: "Indexes as `roster index status` shows them, with commas between.",
        attributes: &["ds-task-rebuild-index"],
        attributes_389: &["nsIndexAttribute"],
        check: |value, _| {
            let is_one = |name: &str| {
                let is_letter =
                    |octet: u8| octet.is_ascii_alphanumeric() || b".-;".contains(&octet);
                !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_letter)
            };
            match value.split(',').all(is_one) {
                true => Ok(()),
                false => wrong(format!("'{value}' names no indexes, such as uid.equality")),
            }
        },
    },
    TaskOption {
        name: "notify",
        kinds: &[],
        form: "ADDRESSES",
        about: "Who hears when it has ended: e-mail addresses, and URLs (`https://…`) that are \
                sent JSON, with commas between.",
        attributes: &["ds-task-notify-on-completion"],
        attributes_389: &[],
        check: receivers,
    },
    TaskOption {
        name: "notify-error",
        kinds: &[],
        form: "ADDRESSES",
        about: "The same, only if it has failed.",
        attributes: &["ds-task-notify-on-error"],
        attributes_389: &[],
        check: receivers,
    },
    TaskOption {
        name: "on",
        kinds: &[],
        form: "leader, all, NUMBER",
        about: "Which member of a cluster does it: whoever leads, each, or the one with this \
                number. Of scheduled tasks only. Default: leader.",
        attributes: &[],
        attributes_389: &[],
        check: |value, _| match value {
            "leader" | "all" => Ok(()),
            number if number.parse::<u16>().is_ok_and(|number| number > 0) => Ok(()),
            other => wrong(format!("'{other}' is not 'leader', 'all' or the number of a member")),
        },
    },
    TaskOption {
        name: "if-failed",
        kinds: &[],
        form: "process, cancel",
        about: "What becomes of it when the task behind `after` has failed. Default: cancel.",
        attributes: &["ds-task-failed-dependency-action"],
        attributes_389: &[],
        check: |value, _| match value {
            "process" | "cancel" => Ok(()),
            other => wrong(format!("'{other}' is not 'process' or 'cancel'")),
        },
    },
];

/// The option of this name.
pub(super) fn find(name: &str) -> Option<&'static TaskOption> {
    TASK_OPTIONS.iter().find(|option| option.name == name)
}

impl TaskOption {
    /// Whether it may be said of a kind.
    pub(super) fn is_of(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

fn boolean(value: &str, _: &Schema) -> Parsed<()> {
    match value {
        "true" | "false" => Ok(()),
        other => wrong(format!("'{other}' is not 'true' or 'false'")),
    }
}

/// Names of directories and files, none of which leads out of the directory of the tasks.
fn path(value: &str, _: &Schema) -> Parsed<()> {
    let is_part = |part: &str| {
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_.+@".contains(letter);
        !part.starts_with(['.', '-']) && !part.is_empty() && part.chars().all(is_plain)
    };
    let is_path = value.len() <= PATH_MAX_BYTES && value.split('/').all(is_part);
    is_path.then_some(()).ok_or_else(|| {
        LineError(format!(
            "'{value}' is no path below the directory of the tasks: letters, digits, '-', '_', \
             '.', '+' and '@', with '/' between names, none of which begins with '.' or '-'"
        ))
    })
}

/// E-mail addresses and URLs.
fn receivers(value: &str, _: &Schema) -> Parsed<()> {
    if value.split(',').count() > RECEIVERS_MAX {
        return wrong(format!("at most {RECEIVERS_MAX} hear of a task"));
    }
    for one in value.split(',') {
        if one.contains("://") {
            SinkEndpoint::webhook(one)?;
            continue;
        }
        let is_plain = one.bytes().all(|octet| octet.is_ascii_graphic());
        let is_address = || {
            let parts = one.split_once('@');
            parts.is_some_and(|(user, host)| {
                !user.is_empty() && !host.is_empty() && !host.contains('@')
            })
        };
        if !is_plain || one.contains(['<', '>', '"']) || !is_address() {
            return wrong(format!("'{one}' is no e-mail address and no URL"));
        }
    }
    Ok(())
}

/// The longest path, in bytes.
const PATH_MAX_BYTES: usize = 512;
/// The most that hear of a task.
const RECEIVERS_MAX: usize = 16;
