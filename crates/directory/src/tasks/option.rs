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
    /// The attribute of OpenDJ that says the same.
    pub attribute: Option<&'static str>,
    /// That of 389 Directory Server.
    pub attribute_389: Option<&'static str>,
    /// Refuses what is no value.
    pub(super) check: fn(&str, &Schema) -> Parsed<()>,
}

/// Every option.
pub static TASK_OPTIONS: &[TaskOption] = &[
    TaskOption {
        name: "to",
        kinds: &["backup"],
        form: "PATH",
        about: "The directory of the backup, below the directory of the tasks.",
        attribute: Some("ds-backup-directory-path"),
        attribute_389: Some("nsArchiveDir"),
        check: path,
    },
    TaskOption {
        name: "to",
        kinds: &["export"],
        form: "PATH",
        about: "The file, below the directory of the tasks; `.gz` or `.zst` at its end has it \
                compressed.",
        attribute: Some("ds-task-export-ldif-file"),
        attribute_389: Some("nsFilename"),
        check: path,
    },
    TaskOption {
        name: "from",
        kinds: &["verify-backup"],
        form: "PATH",
        about: "The backup, below the directory of the tasks.",
        attribute: Some("ds-backup-directory-path"),
        attribute_389: None,
        check: path,
    },
    TaskOption {
        name: "from",
        kinds: &["import"],
        form: "PATH",
        about: "The file, below the directory of the tasks.",
        attribute: Some("ds-task-import-ldif-file"),
        attribute_389: Some("nsFilename"),
        check: path,
    },
    TaskOption {
        name: "from",
        kinds: &["config-apply"],
        form: "PATH",
        about: "The file, below the directory of the tasks.",
        attribute: None,
        attribute_389: None,
        check: path,
    },
    TaskOption {
        name: "full",
        kinds: &["backup"],
        form: "true, false",
        about: "Whether everything is copied, even if adding to the last backup would be enough. \
                Default: false.",
        attribute: None,
        attribute_389: None,
        check: boolean,
    },
    TaskOption {
        name: "base",
        kinds: &["export"],
        form: "DN",
        about: "Only this entry and those below it.",
        attribute: Some("ds-task-export-include-branch"),
        attribute_389: Some("nsIncludeSuffix"),
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
        attribute: Some("ds-task-export-include-filter"),
        attribute_389: None,
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
        attribute: Some("ds-task-export-include-operational-attributes"),
        attribute_389: None,
        check: boolean,
    },
    TaskOption {
        name: "replace",
        kinds: &["import"],
        form: "true, false",
        about: "Whether the attributes of entries that are there are replaced; otherwise such \
                entries are refused. Default: false.",
        attribute: Some("ds-task-import-replace-existing"),
        attribute_389: None,
        check: boolean,
    },
    TaskOption {
        name: "rejects",
        kinds: &["import"],
        form: "PATH",
        about: "Where entries go that are refused, below the directory of the tasks; without it, \
                the first one ends the import.",
        attribute: Some("ds-task-import-reject-file"),
        attribute_389: None,
        check: path,
    },
    TaskOption {
        name: "index",
        kinds: &["index", "check"],
        form: "NAMES",
        about: "Indexes as `roster index status` shows them, with commas between.",
        attribute: Some("ds-task-rebuild-index"),
        attribute_389: Some("nsIndexAttribute"),
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
        attribute: Some("ds-task-notify-on-completion"),
        attribute_389: None,
        check: receivers,
    },
    TaskOption {
        name: "notify-error",
        kinds: &[],
        form: "ADDRESSES",
        about: "The same, only if it has failed.",
        attribute: Some("ds-task-notify-on-error"),
        attribute_389: None,
        check: receivers,
    },
    TaskOption {
        name: "on",
        kinds: &[],
        form: "leader, all, NUMBER",
        about: "Which member of a cluster does it: whoever leads, each, or the one with this \
                number. Of scheduled tasks only. Default: leader.",
        attribute: None,
        attribute_389: None,
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
        attribute: Some("ds-task-failed-dependency-action"),
        attribute_389: None,
        check: |value, _| match value {
            "process" | "cancel" => Ok(()),
            other => wrong(format!("'{other}' is not 'process' or 'cancel'")),
        },
    },
];

/// The option of this name, for a kind.
pub(super) fn find(name: &str, kind: &str) -> Option<&'static TaskOption> {
    TASK_OPTIONS.iter().find(|option| option.name == name && option.is_of(kind))
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
