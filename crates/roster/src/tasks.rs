//! Tasks of a server: with which command each is done.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process;

use directory::tasks::TaskWork;
use server::{TaskOrder, TaskProgram};

use crate::again;
use crate::task_process::OF;

/// Makes the commands.
pub(crate) fn program() -> TaskProgram {
    Box::new(|order| {
        let arguments = arguments(order)?;
        if let Some(file) = order.work.value("to").or(order.work.value("rejects")) {
            let is_backup = order.work.kind.name == "backup";
            keep_backups(order.files, file, is_backup)?;
            make_superiors(order.files, file)?;
        }
        let mut command = again::command_with(arguments);
        // Whom a command asks, and as whom, is said by nobody but its arguments.
        for name in ["LDAPURI", "LDAPBINDDN", "LDAPTLS_CACERT", "LDAPTLS_REQCERT"] {
            command.env_remove(name);
        }
        command.env(OF, process::id().to_string()).env("NO_COLOR", "1");
        Ok(command)
    })
}

/// What stands behind `roster`.
fn arguments(order: &TaskOrder<'_>) -> Result<Vec<OsString>, String> {
    let TaskOrder { work, data, files, .. } = order;
    let path = |option: &str| files.join(work.value(option).unwrap_or_default());
    let given = |name: &str, value: &Path| {
        let mut text = OsString::from(format!("--{name}="));
        text.push(value);
        text
    };
    let mut made: Vec<OsString> = Vec::new();
    match work.kind.name {
        "backup" => {
            made.extend(["backup".into(), given("data", data), given("to", &path("to"))]);
            made.extend(work.is("full", false).then(|| "--full".into()));
        }
        "verify-backup" => made.extend(["backup".into(), given("verify", &path("from"))]),
        "export" => {
            made.extend(["export".into(), given("data", data), given("output", &path("to"))]);
            for option in ["base", "filter"] {
                let value = work.value(option).map(|value| format!("--{option}={value}"));
                made.extend(value.map(OsString::from));
            }
            made.extend((!work.is("operational", true)).then(|| "--no-operational".into()));
        }
        "import" => {
            made.extend(["import".into(), server(order)?]);
            made.extend(work.is("replace", false).then(|| "--replace-existing".into()));
            made.extend(work.value("rejects").map(|_| given("reject-file", &path("rejects"))));
            made.extend(["--".into(), path("from").into()]);
        }
        "index" => {
            made.extend(["index".into(), "rebuild".into(), "--wait".into(), server(order)?]);
            made.extend(indexes(work));
        }
        "check" => {
            made.extend(["index".into(), "verify".into(), server(order)?]);
            made.extend(indexes(work));
        }
        "config-apply" => {
            made.extend(["config".into(), "apply".into(), server(order)?]);
            made.push(format!("--message=task {}", order.id).into());
            made.extend(["--".into(), path("from").into()]);
        }
        other => return Err(format!("no command does '{other}'")),
    }
    Ok(made)
}

fn indexes(work: &TaskWork) -> impl Iterator<Item = OsString> {
    let names = work.value("index").unwrap_or_default().split(',');
    names.filter(|name| !name.is_empty()).map(OsString::from)
}

/// The server itself, which takes the owner of its process for the administrator.
fn server(order: &TaskOrder<'_>) -> Result<OsString, String> {
    let socket = order.ldapi.ok_or("it needs the Unix socket: set listen.ldapi")?;
    Ok(format!("--uri={}", client::ldapi_url(socket)).into())
}

/// Refuses to write into a backup, but for backups.
fn keep_backups(files: &Path, file: &str, is_backup: bool) -> Result<(), String> {
    let path = files.join(file);
    let above = path.ancestors().skip(1).take_while(|above| *above != files);
    match above.into_iter().find(|above| above.join(offline::backup::MANIFEST_FILE).exists()) {
        Some(above) if !is_backup => {
            Err(format!("'{file}' is in the backup {}: choose another place", above.display()))
        }
        _ => Ok(()),
    }
}

/// Makes the directories above a file, for their owner alone.
fn make_superiors(files: &Path, file: &str) -> Result<(), String> {
    let path = files.join(file);
    let above = path.parent().unwrap_or(files);
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
    made.map_err(|error| format!("{}: {error}", above.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use directory::tasks::TASK_KINDS;
    use schema::Schema;

    use super::*;
    use crate::cli::Cli;

    /// The arguments for a task.
    fn of(work: &str, ldapi: Option<&str>) -> Result<String, String> {
        let work = TaskWork::parse(work, &Schema::builtin()).unwrap();
        let order = TaskOrder {
            id: "t1",
            work: &work,
            data: Path::new("/d"),
            files: Path::new("/f"),
            ldapi: ldapi.map(Path::new),
        };
        let made = arguments(&order)?;
        let all = std::iter::once(OsString::from("roster")).chain(made.clone());
        Cli::try_parse_from(all).unwrap();
        Ok(made.join(" ".as_ref()).into_string().unwrap())
    }

    #[test]
    fn every_kind_has_a_command_that_can_be_read() {
        for kind in TASK_KINDS {
            assert!(!of(kind.example, Some("/d/ldapi")).unwrap().is_empty(), "{}", kind.name);
        }
    }

    #[test]
    fn values_stay_values() {
        for (work, want) in [
            ("backup to=b full=true", "backup --data=/d --to=/f/b --full"),
            ("verify-backup from=b", "backup --verify=/f/b"),
            (
                "export to=x base=\"ou=a b,dc=c\" filter=\"(cn=- -)\" operational=false",
                "export --data=/d --output=/f/x --base=ou=a b,dc=c --filter=(cn=- -) \
                 --no-operational",
            ),
            (
                "import from=a/n.ldif rejects=r replace=true",
                "import --uri=ldapi://%2Fd%2Fldapi --replace-existing --reject-file=/f/r -- \
                 /f/a/n.ldif",
            ),
            ("check index=uid.equality", "index verify --uri=ldapi://%2Fd%2Fldapi uid.equality"),
        ] {
            assert_eq!(of(work, Some("/d/ldapi")).unwrap(), want);
        }
        assert!(of("check", None).unwrap_err().contains("listen.ldapi"));
    }
}
