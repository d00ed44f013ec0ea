//! Tasks, with real servers: by the command line, in the forms of OpenDJ and of 389 Directory
//! Server with the tools of OpenLDAP, over restarts, and in a cluster.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use common::{Run, check_all as check, roster};
use machine::{Machine, PERSON, alone, three, wait_for};
use serde_json::Value;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD};

/// Asks it, as the administrator.
fn ask(server: &Machine, command: &[&str]) -> Run {
    let (url, password) = (server.url(), server.password.to_str().unwrap());
    let login = ["-H", &url, "-ZZ", "--reqcert", "never", "-y", password];
    roster(&[command, &login].concat())
}

fn show(server: &Machine, id: &str) -> Option<Value> {
    let run = ask(server, &["task", "show", id, "--json"]);
    serde_json::from_str(&run.output).ok()
}

fn of<'a>(task: &'a Value, attribute: &str) -> &'a str {
    task[attribute][0].as_str().unwrap_or_default()
}

/// Waits until a task is in this state.
#[track_caller]
fn wait_state(server: &Machine, id: &str, state: &str) -> Value {
    wait_for(&format!("{id} {state}"), || {
        show(server, id).filter(|task| of(task, "ds-task-state") == state)
    })
}

/// Those that there are, by the name of the scheduled task that they are one time of.
fn times_of(server: &Machine, name: &str) -> Vec<Value> {
    let run = ask(server, &["task", "list", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&run.output).unwrap_or_default();
    all.into_iter().filter(|task| of(task, "roster-task-of") == name).collect()
}

/// One of OpenLDAP's tools, with this as its input.
fn tool(server: &Machine, program: &str, who: (&str, &str), more: &[&str], input: &str) -> Run {
    let mut child = Command::new(program)
        .args(["-x", "-H", &server.url(), "-D", who.0, "-w", who.1])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    Run {
        code: output.status.code().unwrap_or(-1),
        output: text(&output.stdout),
        errors: text(&output.stderr),
    }
}

const ADMIN: (&str, &str) = (ADMIN_DN, ADMIN_PASSWORD);

#[test]
fn a_backup_an_export_and_a_check_are_done_by_the_server_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    server.serve();
    let task = |command: &[&str]| ask(&server, &[&["task"], command].concat());
    check(&task(&["start", "backup", "to=b1", "--wait", "--name", "b1"]), 0, &["completed"]);
    check(&task(&["start", "verify-backup", "from=b1", "--wait"]), 0, &["completed"]);
    let export = ["start", "export", "to=sub/people.ldif.zst", "base=ou=people,dc=example,dc=com"];
    check(&task(&[&export[..], &["--wait"]].concat()), 0, &["entries exported", "completed"]);
    check(&task(&["start", "check", "index=uid.equality", "--wait"]), 0, &["uid.equality: ok"]);
    check(&task(&["start", "index", "index=uid.equality", "--wait"]), 0, &["completed"]);
    // What was backed up is all of it.
    let files = server.data.join("task-files");
    let restored = folder.path().join("restored");
    let (from, to) = (files.join("b1"), restored.to_str().unwrap());
    check(&roster(&["restore", "--from", from.to_str().unwrap(), "--data", to]), 0, &[]);
    check(&roster(&["export", "--data", to]), 0, &[PERSON]);
    // What fails says why, and with which code.
    let run = task(&["start", "import", "from=none.ldif", "--wait", "--name", "i1"]);
    check(&run, 1, &["none.ldif", "no such file", "stopped by error"]);
    assert_eq!(of(&show(&server, "i1").unwrap(), "roster-task-exit-code"), "2");
    let new = "dn: uid=new,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: new\n\
               cn: New\nsn: New\n";
    fs::write(files.join("new.ldif"), new).unwrap();
    check(&task(&["start", "import", "from=new.ldif", "--wait"]), 0, &["completed"]);
    let found = tool(&server, "ldapsearch", ADMIN, &["-b", "dc=example,dc=com", "(uid=new)"], "");
    assert!(found.output.contains("uid=new"), "{found:?}");
    // Settings, from a file.
    fs::write(files.join("c.toml"), "[settings]\nlimits.size_limit_entries = \"4321\"\n").unwrap();
    let run = task(&["start", "config-apply", "from=c.toml", "--wait"]);
    check(&run, 0, &["completed"]);
    let run = ask(&server, &["config", "history"]);
    check(&run, 0, &["task config-apply-"]);
    let run = task(&["start", "export", "to=b1/manifest.json", "--wait"]);
    check(&run, 1, &["is in the backup", "choose another place"]);
    // The list and one of it.
    check(&task(&["list"]), 0, &["b1", "backup to=b1", "completed successfully"]);
    check(&task(&["show", "b1"]), 0, &["state", "began", ADMIN_DN]);
    check(&task(&["show", "b2"]), 1, &["there is no task 'b2'", "roster task list"]);
    for (work, why) in [
        (&["backup"][..], "needs 'to='"),
        (&["backup", "to=../x"], "no path below the directory"),
        (&["export", "to=/etc/passwd"], "no path below the directory"),
        (&["compact"], "there are: backup"),
        (&["backup", "to=x", "on=all"], "scheduled tasks"),
        (&["backup", "to=x", "--name", "b1"], "there is such a task"),
        (&["backup", "to=x", "--name", "../b1"], "no name of a task"),
        (&["backup", "to=x", "--after", "b7"], "no task 'b7'"),
        (&["backup", "to=x", "--at", "tomorrow"], "is no time"),
    ] {
        check(&task(&[&["start"], work].concat()), 1, &[why]);
    }
}

#[test]
fn tasks_in_the_forms_of_others_and_of_whom_the_privilege_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    server.serve();
    let add = |who, text: &str| tool(&server, "ldapadd", who, &[], text);
    let opendj = "dn: ds-task-id=o1,cn=Scheduled Tasks,cn=tasks\nobjectClass: top\n\
                  objectClass: ds-task\nobjectClass: ds-task-backup\nds-task-id: o1\n\
                  ds-task-class-name: org.opends.server.tasks.BackupTask\n\
                  ds-task-backup-all: TRUE\nds-task-backup-encrypt: FALSE\n\
                  ds-backup-directory-path: bak\n";
    check(&add(ADMIN, opendj), 0, &["adding new entry"]);
    let task = wait_state(&server, "o1", "COMPLETED_SUCCESSFULLY");
    assert_eq!(of(&task, "ds-task-class-name"), "org.opends.server.tasks.BackupTask");
    let encrypted = opendj.replace("o1", "o2").replace("encrypt: FALSE", "encrypt: TRUE");
    let run = add(ADMIN, &encrypted);
    assert!(run.code == 53 && run.errors.contains("ds-task-backup-encrypt"), "{run:?}");
    let ds389 = "dn: cn=e1,cn=export,cn=tasks,cn=config\nobjectClass: extensibleObject\ncn: e1\n\
                 nsInstance: userRoot\nnsFilename: e1.ldif\n";
    check(&add(ADMIN, ds389), 0, &["adding new entry"]);
    wait_state(&server, "e1", "COMPLETED_SUCCESSFULLY");
    let base = ["-b", "cn=e1,cn=export,cn=tasks,cn=config", "-s", "base"];
    let run = tool(&server, "ldapsearch", ADMIN, &base, "");
    assert!(run.output.contains("nsTaskExitCode: 0"), "{run:?}");
    // Again and again: a setting of the directory.
    let recurring = "dn: ds-recurring-task-id=r1,cn=Recurring Tasks,cn=tasks\n\
                     objectClass: ds-task\nobjectClass: ds-recurring-task\n\
                     ds-recurring-task-id: r1\nds-recurring-task-schedule: 0 0 1 1 *\n\
                     ds-task-id: r1\nds-task-class-name: org.opends.server.tasks.ExportTask\n\
                     ds-task-export-ldif-file: r1.ldif\n\
                     ds-task-export-backend-id: userRoot\n";
    let run = add(ADMIN, recurring);
    check(&run, 0, &["adding new entry"]);
    check(&ask(&server, &["task", "list"]), 0, &["r1", "export to=r1.ldif at \"0 0 1 1 *\""]);
    check(&ask(&server, &["config", "export"]), 0, &["r1: export to=r1.ldif"]);
    let name = "ds-recurring-task-id=r1,cn=Recurring Tasks,cn=tasks";
    assert_eq!(tool(&server, "ldapdelete", ADMIN, &[name], "").code, 0);
    assert!(!ask(&server, &["task", "list"]).output.contains("r1.ldif"));
    // Who has not the privilege has nothing done, and learns of nothing.
    let password = "dn: uid=anna,ou=people,dc=example,dc=com\nchangetype: modify\n\
                    replace: userPassword\nuserPassword: anna secret 12\n";
    assert_eq!(tool(&server, "ldapmodify", ADMIN, &[], password).code, 0);
    let anna = (PERSON, "anna secret 12");
    let run = add(anna, &opendj.replace("o1", "o3"));
    assert!(run.code == 50 && run.errors.contains("backend-backup"), "{run:?}");
    let cancel = "dn: ds-task-id=o1,cn=Scheduled Tasks,cn=tasks\nchangetype: modify\n\
                  replace: ds-task-state\nds-task-state: STOPPED_BY_ADMINISTRATOR\n";
    assert_ne!(tool(&server, "ldapmodify", anna, &[], cancel).code, 0);
    let o1 = "ds-task-id=o1,cn=Scheduled Tasks,cn=tasks";
    assert_ne!(tool(&server, "ldapdelete", anna, &[o1], "").code, 0);
    let run = tool(&server, "ldapsearch", anna, &["-b", "cn=tasks"], "");
    assert!(!run.output.contains("o1"), "{run:?}");
    let run = add(anna, recurring);
    assert_eq!(run.code, 50, "{run:?}");
    let privilege = "dn: uid=anna,ou=people,dc=example,dc=com\nchangetype: modify\n\
                     add: ds-privilege-name\nds-privilege-name: backend-backup\n";
    assert_eq!(tool(&server, "ldapmodify", ADMIN, &[], privilege).code, 0);
    check(&add(anna, &opendj.replace("o1", "o3")), 0, &["adding new entry"]);
    let task = wait_state(&server, "o3", "COMPLETED_SUCCESSFULLY");
    assert_eq!(of(&task, "roster-task-by"), PERSON);
    let run = add(anna, &ds389.replace("e1", "e2"));
    assert!(run.code == 50 && run.errors.contains("ldif-export"), "{run:?}");
    assert_eq!(tool(&server, "ldapdelete", ADMIN, &[o1], "").code, 0);
    assert!(show(&server, "o1").is_none());
}

#[test]
fn tasks_end_when_somebody_says_so_and_those_that_wait_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    server.serve();
    let files = server.data.join("task-files");
    fs::create_dir_all(&files).unwrap();
    // It waits for what never comes.
    let slow = files.join("slow.ldif");
    assert!(Command::new("mkfifo").arg(&slow).status().unwrap().success());
    let start = |server: &Machine, more: &[&str]| {
        check(&ask(server, &[&["task", "start"], more].concat()), 0, &["taken"]);
    };
    start(&server, &["import", "from=slow.ldif", "--name", "s1"]);
    wait_state(&server, "s1", "RUNNING");
    start(&server, &["backup", "to=b", "--name", "b1", "--after", "s1"]);
    start(&server, &["backup", "to=b", "if-failed=process", "--name", "b2", "--after", "s1"]);
    wait_state(&server, "b2", "WAITING_ON_DEPENDENCY");
    let o = "ds-task-id=s1,cn=Scheduled Tasks,cn=tasks";
    let run = tool(&server, "ldapdelete", ADMIN, &[o], "");
    assert!(run.code == 53 && run.errors.contains("at work"), "{run:?}");
    check(&ask(&server, &["task", "cancel", "s1"]), 0, &["ends"]);
    wait_state(&server, "s1", "STOPPED_BY_ADMINISTRATOR");
    wait_state(&server, "b1", "CANCELED_BEFORE_STARTING");
    wait_state(&server, "b2", "COMPLETED_SUCCESSFULLY");
    check(&ask(&server, &["task", "cancel", "b2"]), 1, &["has ended"]);
    // A server that dies.
    start(&server, &["import", "from=slow.ldif", "--name", "s2"]);
    start(&server, &["backup", "to=b", "--name", "later", "--at", "29991231000000Z"]);
    start(&server, &["backup", "to=b", "--name", "next", "--after", "s2"]);
    wait_state(&server, "s2", "RUNNING");
    server.kill();
    server.serve();
    let task = wait_state(&server, "s2", "STOPPED_BY_SHUTDOWN");
    assert!(task["ds-task-log-message"].to_string().contains("the server ended"), "{task}");
    wait_state(&server, "next", "CANCELED_BEFORE_STARTING");
    wait_state(&server, "later", "WAITING_ON_START_TIME");
    check(&ask(&server, &["task", "cancel", "later"]), 0, &[]);
    wait_state(&server, "later", "CANCELED_BEFORE_STARTING");
    // One that stops has them end first.
    start(&server, &["import", "from=slow.ldif", "--name", "s3"]);
    wait_state(&server, "s3", "RUNNING");
    server.stop();
    let kept = fs::read_to_string(server.data.join("tasks/s3.json")).unwrap();
    assert!(kept.contains("STOPPED_BY_SHUTDOWN"), "{kept}");
    // Where tasks cannot be kept, the rest is served.
    fs::remove_dir_all(server.data.join("tasks")).unwrap();
    fs::write(server.data.join("tasks"), "").unwrap();
    server.serve();
    check(&ask(&server, &["task", "start", "check"]), 1, &["does no tasks"]);
    assert!(server.connect().is_some());
    // No process is left that waits for the file.
    let left = Command::new("pgrep").args(["-f", slow.to_str().unwrap()]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}

/// Hears one request by HTTP, or one message by SMTP, and tells it.
fn hear(is_mail: bool) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut text, mut line) = (String::new(), String::new());
        if is_mail {
            stream.write_all(b"220 test\r\n").unwrap();
            let mut is_data = false;
            while reader.read_line(&mut line).unwrap_or(0) > 0 {
                text += &line;
                let answer = match line.trim_end() {
                    "." => "250 taken",
                    _ if is_data => "",
                    "DATA" => "354 go on",
                    "QUIT" => "221 bye",
                    _ => "250 fine",
                };
                is_data = (is_data || line.trim_end() == "DATA") && line.trim_end() != ".";
                if !answer.is_empty() {
                    stream.write_all(format!("{answer}\r\n").as_bytes()).unwrap();
                }
                let is_over = line.trim_end() == ".";
                line.clear();
                if is_over {
                    told.send(text.clone()).unwrap();
                }
            }
        } else {
            let mut length = 0;
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                text += &line;
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            told.send(text + &String::from_utf8(body).unwrap()).unwrap();
        }
    });
    (address, heard)
}

#[test]
fn whoever_wants_to_hear_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    server.serve();
    let (web, heard) = hear(false);
    let (mail, mailed) = hear(true);
    let settings =
        [format!("tasks.mail_server={mail}"), "tasks.mail_from=roster@example.com".to_owned()];
    check(&ask(&server, &["config", "set", &settings[0], &settings[1]]), 0, &[]);
    let notify = format!("notify=http://{web}/x");
    let start = ["task", "start", "check", "index=uid.equality", &notify, "--wait"];
    check(&ask(&server, &start), 0, &["completed"]);
    let told = heard.recv_timeout(machine::PATIENCE).unwrap();
    assert!(told.starts_with("POST /x HTTP/1.1"), "{told}");
    assert!(told.contains("\"state\":\"COMPLETED_SUCCESSFULLY\""), "{told}");
    let notify = "notify-error=ops@example.com";
    let start = ["task", "start", "import", "from=none.ldif", notify, "--wait", "--name", "i1"];
    check(&ask(&server, &start), 1, &["stopped by error"]);
    let told = mailed.recv_timeout(machine::PATIENCE).unwrap();
    for part in ["MAIL FROM:<roster@example.com>", "RCPT TO:<ops@example.com>", "Subject: ", "i1"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Nobody is there: the task tells.
    let notify = format!("notify=http://{web}/x");
    let start = ["task", "start", "check", "index=uid.equality", &notify, "--name", "n1", "--wait"];
    check(&ask(&server, &start), 0, &["completed"]);
    wait_for("why it was not told", || {
        show(&server, "n1").filter(|task| task.to_string().contains("is not told"))
    });
}

/// Which of these leads.
fn leads(servers: &[Machine; 3]) -> usize {
    wait_for("somebody leads", || {
        let live = servers.iter().filter(|server| server.server.is_some());
        let leaders: Vec<String> = live.filter_map(leader_of).collect();
        let leader = leaders.first()?;
        // All that are there say the same.
        let is_said = leaders.iter().all(|other| other == leader);
        let place = servers.iter().position(|server| server.address == *leader)?;
        (is_said && servers[place].server.is_some()).then_some(place)
    })
}

/// Where whoever leads is reached, as this one says.
fn leader_of(server: &Machine) -> Option<String> {
    let told: Value = serde_json::from_str(&server.ask(&["status", "--json"]).output).ok()?;
    let members = told["cluster"]["members"].as_array()?;
    let leader = members.iter().find(|member| member["role"] == "leader")?;
    leader["address"].as_str().map(str::to_owned)
}

#[test]
fn what_is_scheduled_is_done_by_the_member_that_leads_and_what_comes_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut servers = three(folder.path());
    let leader = leads(&servers);
    let follower = (leader + 1) % 3;
    let lines = [
        "every: export to=e.ldif at \"* * * * *\"",
        "then: check index=uid.equality after every",
        "all: check index=cn.equality on=all at \"* * * * *\"",
    ];
    // Asked where another one decides.
    let command = [&["task", "schedule"], &lines[..]].concat();
    check(&ask(&servers[follower], &command), 0, &["every: next", "then: scheduled"]);
    let is_fine = |task: &Value| of(task, "ds-task-state") == "COMPLETED_SUCCESSFULLY";
    let has = |server: &Machine, name: &str| times_of(server, name).iter().any(is_fine);
    wait_for("the leader does it, and what comes after", || {
        (has(&servers[leader], "every") && has(&servers[leader], "then")).then_some(())
    });
    for server in &servers {
        wait_for("each does what is for all", || has(server, "all").then_some(()));
    }
    assert!(times_of(&servers[follower], "every").is_empty());
    assert!(servers[leader].data.join("task-files/e.ldif").exists());
    // A task once is one of the server that was asked, whoever leads.
    let start = ["task", "start", "check", "index=uid.equality", "--name", "own", "--wait"];
    check(&ask(&servers[follower], &start), 0, &["completed"]);
    assert!(show(&servers[leader], "own").is_none());
    servers[leader].kill();
    let other = leads(&servers);
    wait_for("whoever leads next does it", || has(&servers[other], "every").then_some(()));
    let ring = "every: check after then";
    check(&ask(&servers[other], &["task", "unschedule", "every"]), 0, &[]);
    check(&ask(&servers[other], &["task", "schedule", ring]), 1, &["would wait for itself"]);
}
