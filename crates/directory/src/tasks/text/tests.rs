//! Tasks are read as they are written, and what is none is refused.

use super::*;
use crate::tasks::{TASK_KINDS, TASK_OPTIONS};

fn schema() -> std::sync::Arc<Schema> {
    Schema::builtin()
}

#[test]
fn what_a_task_does_is_read_and_written_alike() {
    for text in [
        "backup to=nightly",
        "backup to=a/b full=true notify=ops@example.com,https://hooks.example.com/x",
        "export to=people.ldif.zst base=\"ou=my people,dc=example,dc=com\" filter=(sn=*)",
        "export to=x filter=\"(cn=a \\\"b\\\")\"",
        "index index=uid.equality,cn.substring",
        "check",
    ] {
        let work = TaskWork::parse(text, &schema()).unwrap();
        assert_eq!(work.text(), text);
        assert_eq!(TaskWork::parse(&work.text(), &schema()).unwrap(), work);
    }
    // By the names of OpenDJ, too.
    let work = TaskWork::parse("org.opends.server.tasks.BackupTask to=x", &schema()).unwrap();
    assert_eq!(work.text(), "backup to=x");
}

#[test]
fn what_leads_out_of_the_directory_or_is_no_value_is_refused() {
    for (text, why) in [
        ("", "no kind"),
        ("compact", "no kind"),
        ("backup", "needs 'to='"),
        ("backup to=/etc", "no path"),
        ("backup to=../x", "no path"),
        ("backup to=a/../x", "no path"),
        ("backup to=a//x", "no path"),
        ("backup to=--config", "no path"),
        ("backup to=.ssh", "no path"),
        ("backup to=", "no path"),
        ("backup to=x to=y", "there twice"),
        ("backup to=x base=dc=x", "no option of backup"),
        ("backup to=x full=yes", "'true' or 'false'"),
        ("backup to=x more", "no option"),
        ("backup to=x on=all", "'on' is of scheduled tasks"),
        ("export to=x base=nonsense", "no name of an entry"),
        ("export to=x filter=((", "no filter"),
        ("index index=--all", "no indexes"),
        ("backup to=x notify=ops", "no e-mail address"),
        ("backup to=x notify=ops@example.com,", "no e-mail address"),
        ("backup to=x notify=file:///etc/passwd", "'file' is not 'https'"),
        ("backup to=x notify=http://example.com/", "has to be an https URL"),
        ("export to=x filter=\"(cn=a\tb)\"", "control character"),
        ("export to=x filter=\"(cn=a)", "'\"' is missing"),
        ("export to=x base=dc=x\\", "before nothing"),
    ] {
        let error = TaskWork::parse(text, &schema()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn scheduled_tasks_say_when() {
    let task =
        ScheduledTask::parse("n: backup to=x on=all at \"0 2 * * * UTC\"", &schema()).unwrap();
    assert_eq!((task.name.as_str(), task.on), ("n", TaskMember::All));
    assert_eq!(task.when(), "0 2 * * * UTC");
    let task = ScheduledTask::parse("v: check if-failed=process after n", &schema()).unwrap();
    assert_eq!((task.after(), task.on), (Some("n"), TaskMember::Leader));
    for (text, why) in [
        ("n: backup to=x", "it says when"),
        ("n: backup to=x at 0 2 * * *", "'\"' is expected"),
        ("n: backup to=x at \"0 2 * *\"", "no five fields"),
        ("n: backup to=x at \"0 25 * * *\"", "is no time"),
        ("n: backup to=x at \"0 2 * * * UTC\" more", "too much"),
        ("n: backup to=x on=0 at \"0 2 * * * UTC\"", "the number of a member"),
        ("n: check if-failed=cancel at \"0 2 * * * UTC\"", "after others"),
        ("a b: check after n", "name"),
    ] {
        let error = ScheduledTask::parse(text, &schema()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn every_example_is_a_task_and_every_option_is_of_kinds_there_are() {
    for kind in TASK_KINDS {
        let work = TaskWork::parse(kind.example, &schema()).unwrap();
        assert_eq!(work.kind, kind);
        assert!(!kind.privileges.is_empty(), "{}", kind.name);
        for option in kind.required {
            assert!(option::find(option, kind.name).is_some(), "{option}");
        }
    }
    for option in TASK_OPTIONS {
        for kind in option.kinds {
            assert!(kind::find(kind).is_some(), "{kind}");
        }
    }
}

#[test]
fn the_reference_page_is_as_the_tables_say() {
    let mut text = [
        "# Tasks\n\nMade from the tables of `directory::tasks`. How they are used is in ",
        "[how-to/tasks.md](../how-to/tasks.md).\n\nA task is `KIND [OPTION=VALUE …]`; a value ",
        "with blanks stands in quotation marks. A scheduled task is a line, ",
        "`NAME: KIND [OPTION=VALUE …] at \"CRON\"` or ",
        "`NAME: KIND [OPTION=VALUE …] after NAME`. ",
        "Files are below the directory that the setting `tasks.directory` names.\n\n## Kinds\n\n",
        "| kind | what it does | privileges | OpenDJ's class | 389's branch | example |\n",
        "|---|---|---|---|---|---|\n",
    ]
    .concat();
    let cell = |text: &str| text.replace('|', "\\|");
    let code = |text: Option<&str>| text.map(|text| format!("`{text}`")).unwrap_or_default();
    for kind in TASK_KINDS {
        let privileges: Vec<_> =
            kind.privileges.iter().map(|privilege| format!("`{}`", privilege.name())).collect();
        text += &format!(
            "| `{}` | {} | {} | {} | {} | `{}` |\n",
            kind.name,
            cell(kind.about),
            privileges.join(", "),
            code(kind.class),
            code(kind.branch),
            cell(kind.example)
        );
    }
    text += "\n## Options\n\n| option | kinds | value | what it does | OpenDJ's | 389's |\n";
    text += "|---|---|---|---|---|---|\n";
    for option in TASK_OPTIONS {
        let kinds: Vec<_> = option.kinds.iter().map(|kind| format!("`{kind}`")).collect();
        text += &format!(
            "| `{}` | {} | `{}` | {} | {} | {} |\n",
            option.name,
            if kinds.is_empty() { "all".to_owned() } else { kinds.join(", ") },
            cell(option.form),
            cell(option.about),
            code(option.attribute),
            code(option.attribute_389)
        );
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tasks.md");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let is = std::fs::read_to_string(path).unwrap_or_default();
    assert!(is == text, "{path} is not as the tables say");
}
