//! The subcommands that work on a data directory, each through the built program: what they do,
//! and what they say when they cannot.

mod common;
mod demo;

use std::path::Path;

use common::{Run, check, example, roster};

/// A data directory for dc=example,dc=com in a folder of its own.
fn init(folder: &Path) -> String {
    let data = folder.join("data").display().to_string();
    let run = roster(&["init", "--data", &data, "--suffix", "dc=example,dc=com"]);
    assert_eq!((run.code, run.errors.as_str()), (0, ""));
    data
}

/// Runs the program, which must succeed without a word on standard error.
#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let Run { code, output, errors } = roster(arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {output}");
    output
}

/// Writes `text` to a file and imports it.
fn import(folder: &Path, data: &str, text: &str) -> (String, Run) {
    let file = folder.join("in.ldif");
    std::fs::write(&file, text).expect("temporary files can be written");
    let file = file.display().to_string();
    let run = roster(&["import", "--data", data, &file]);
    (file, run)
}

#[test]
fn init_prints_a_password_once_and_keeps_it_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let base = ["init", "--data", &data, "--suffix", "dc=example,dc=com"];
    let output = succeed(&base);
    let password = output.lines().find_map(|line| line.strip_prefix("password ")).unwrap().trim();
    assert_eq!(password.len(), 24, "{output}");
    let stored = std::fs::read_to_string(folder.path().join("data/admin-password")).unwrap();
    assert!(stored.starts_with("{ARGON2}$argon2id$") && !stored.contains(password), "{stored}");
    check(&base, 2, "roster: hint: ");

    let file = folder.path().join("secret");
    std::fs::write(&file, "my own\n").unwrap();
    let data = folder.path().join("other");
    let mut arguments = base.to_vec();
    arguments[2] = data.to_str().unwrap();
    arguments.extend(["--admin-password-file", file.to_str().unwrap()]);
    assert!(!succeed(&arguments).contains("password"));
}

#[test]
fn init_names_the_administrator() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let mut arguments = vec!["init", "--data", &data, "--suffix", "dc=example,dc=com"];
    arguments.extend(["--admin-dn", "dc=Example,dc=com"]);
    check(&arguments, 2, "is a suffix, and has an entry");
    arguments[6] = "domainComponent = EXAMPLE, dc=com";
    check(&arguments, 2, "is a suffix, and has an entry\nroster: hint: name it like");
    // These are entries of the server's own: who was called so could not sign in, or was not found.
    for own in
        ["cn=config", "CN=Schema", "commonName=monitor", "cn=admin,cn=config", "cn=a,cn=schema"]
    {
        arguments[6] = own;
        check(&arguments, 2, "the administrator has no entry\nroster: hint: name it like");
        assert!(!Path::new(&data).join("format").exists(), "{own}");
    }
    arguments[6] = "";
    check(&arguments, 2, "--admin-dn <DN>");
    arguments[6] = "cn=admin,dc=example,dc=com";
    let output = succeed(&arguments);
    assert!(output.contains("administrator   cn=admin,dc=example,dc=com\n"), "{output}");
    let options = directory::DirectoryOptions::new(&data);
    let clock = std::sync::Arc::new(environment::SystemClock::new());
    let directory = directory::Directory::open(options, clock).unwrap();
    let password = output.lines().find_map(|line| line.strip_prefix("password ")).unwrap().trim();
    let mut session = directory.session(directory::Peer::default());
    let mut worker = directory.worker();
    let mut binds = |name: &str| {
        use ldap::message::{Authentication, BindRequest, Controls, Message, MessageId, Request};
        let authentication = Authentication::Simple(password.as_bytes());
        let op = Request::Bind(BindRequest { version: 3, name, authentication });
        let mut bytes = Vec::new();
        Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut bytes);
        let mut next = worker.handle(&mut session, &bytes, &mut Vec::new());
        while let directory::Next::Hash(job) = next {
            next = worker.resume(&mut session, job.run(), &mut Vec::new());
        }
        matches!(session.identity(), directory::Identity::Root(_))
    };
    assert!(binds("cn=admin,dc=example,dc=com") && !binds("cn=Directory Manager"));
}

#[test]
fn init_refuses_what_cannot_be_a_suffix() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    check(&["init", "--data", &data], 2, "--suffix <DN>");
    for suffix in ["", "x", "uid=x"] {
        check(&["init", "--data", &data, "--suffix", suffix], 2, "roster: error: ");
        assert!(!Path::new(&data).join("format").exists(), "{suffix}");
    }
    let secret = folder.path().join("empty").to_str().unwrap().to_owned();
    std::fs::write(&secret, "\n").unwrap();
    let with = ["init", "--data", &data, "--suffix", "o=x", "--admin-password-file", &secret];
    check(&with, 2, "contains no password\nroster: hint: ");
}

#[test]
fn import_and_export_lead_back_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let first = init(folder.path());
    let loaded = succeed(&["import", "--data", &first, &example("people.ldif")]);
    assert!(loaded.starts_with("Processed 16 entries, imported 16, skipped 0, "), "{loaded}");
    let exported = succeed(&["export", "--data", &first]);
    assert_eq!(exported.matches("\nentryUUID: ").count(), 16);
    assert!(exported.contains("\nuserPassword: {SSHA512}"), "passwords are hashed: {exported}");
    assert_eq!(succeed(&["check", "--data", &first]), "16 entries, no fault\n");

    let other = tempfile::tempdir().unwrap();
    let second = init(other.path());
    let file = other.path().join("backup.ldif").to_str().unwrap().to_owned();
    let told = succeed(&["export", "--data", &first, "-o", &file]);
    assert!(told.starts_with("16 entries exported, "), "{told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
    succeed(&["import", "--data", &second, "--access", "signed-in", &file]);
    assert_eq!(succeed(&["export", "--data", &second]), exported);
    assert_eq!(succeed(&["check", "--data", &second]), "16 entries, no fault\n");
}

#[test]
fn generated_people_pass_through_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    let people = succeed(&["generate", &example("people.template"), "--entries", "300"]);
    let mut child = common::command(&["import", "--data", &data, "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), people.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.starts_with("Processed 302 entries, imported 302, "), "{output}");
    let base = "ou=people,dc=example,dc=com";
    let found = succeed(&["export", "--data", &data, "-b", base, "(uid=user.12)"]);
    assert!(found.starts_with("dn: uid=user.12,ou=people,dc=example,dc=com\n"), "{found}");
    assert_eq!(found.matches("dn: ").count(), 1);
    assert_eq!(succeed(&["check", "--data", &data]), "302 entries, no fault\n");
}

#[test]
fn a_check_lists_values_that_name_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    let base = "dc=example,dc=com";
    let mut text = format!(
        "dn: {base}\nobjectClass: domain\ndc: example\n\n\
         dn: cn=early,{base}\nobjectClass: groupOfNames\ncn: early\n\
         member: uid=u1,{base}\nmember: uid=Gone,{base}\nmember: uid=u1,o=elsewhere\n\n\
         dn: cn=bits,{base}\nobjectClass: groupOfUniqueNames\ncn: bits\n\
         uniqueMember: uid=gone,{base}#'01'B\n\n",
    );
    // So many that they are in a reference list, but for the one that is not there.
    let mut all = format!("dn: cn=all,{base}\nobjectClass: groupOfNames\ncn: all\n");
    for number in 0..600 {
        let dn = format!("uid=u{number},{base}");
        text.push_str(&format!(
            "dn: {dn}\nobjectClass: inetOrgPerson\ncn: x\nsn: x\nuid: u{number}\n"
        ));
        text.push_str(&format!("manager: uid=u{}\\2c x,{base}\n\n", number / 300 * 1000));
        all.push_str(&format!("member: {dn}\n"));
    }
    text.push_str(&format!("{all}member: uid=lost,{base}\n"));
    let (_, run) = import(folder.path(), &data, &text);
    assert_eq!(run.code, 0, "{}", run.errors);

    let run = roster(&["check", "--data", &data]);
    assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    let lines: Vec<_> = run.output.lines().collect();
    assert_eq!(lines.len(), 102, "{}", run.output);
    assert_eq!(lines[0], format!("cn=early,{base}: member names no entry: uid=Gone,{base}"));
    assert!(
        lines[1].starts_with(&format!("uid=u0,{base}: manager names no entry: ")),
        "{}",
        lines[1]
    );
    assert_eq!(lines[100], "602 values in 602 entries name no entry, the first 100 are listed");
    assert_eq!(lines[101], "604 entries, no fault");
    assert!(run.errors.starts_with("roster: note: values that name no entry are no damage"));
}

#[test]
fn a_second_import_adds_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    succeed(&["import", "--data", &data, &example("people.ldif")]);
    let more = "dn: ou=more,dc=example,dc=com\nobjectClass: organizationalUnit\nou: more\n\n\
                dn: cn=x,ou=more,dc=example,dc=com\nobjectClass: person\ncn: x\nsn: x\n";
    let (_, run) = import(folder.path(), &data, more);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert!(run.output.starts_with("Processed 2 entries, imported 2, "), "{}", run.output);
    assert_eq!(succeed(&["check", "--data", &data]), "18 entries, no fault\n");
    let (file, run) = import(folder.path(), &data, more);
    assert_eq!(run.code, 2);
    assert!(run.errors.starts_with(&format!("roster: error: {file}:1: ")), "{}", run.errors);
}

#[test]
fn a_check_verifies_the_archive_of_changes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let running = demo::Demo::start_with(20, &["--data", &data]);
    let (url, dn, password) =
        (running.url("ldap"), running.admin_dn.as_str(), running.admin_password.as_str());
    succeed(&["index", "add", "ordering employeeNumber", "-H", &url, "-D", dn, "-w", password]);
    drop(running);
    let told = succeed(&["check", "--data", &data]);
    assert!(told.ends_with(" files of the archive, no fault\n"), "{told}");
    let archive = folder.path().join("data/archive");
    let file = archive.join("0000000001.changes");
    let mut octets = std::fs::read(&file).unwrap();
    octets[4200] ^= 1;
    std::fs::write(&file, octets).unwrap();
    check(&["check", "--data", &data], 2, "the data are whole");
    let aside = folder.path().join("aside");
    std::fs::rename(&archive, &aside).unwrap();
    assert!(succeed(&["check", "--data", &data]).ends_with(" entries, no fault\n"));
    let aside = aside.to_str().unwrap();
    check(&["check", "--data", &data, "--archive", aside], 2, "archive: 0000000001.changes");
}

#[test]
fn bad_ldif_is_refused_with_its_line_and_nothing_is_loaded() {
    let good = "dn: cn=good,dc=example,dc=com\nobjectClass: person\ncn: good\nsn: x\n\n";
    let person = "objectClass: person\ncn: bad\nsn: x\n";
    let dn = "dn: cn=bad,dc=example,dc=com\n";
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    let before = succeed(&["export", "--data", &data]);
    for (record, line, reason) in [
        ("cn: bad\n".to_owned(), 6, "dn"),
        (format!("{dn}objectClass person\n"), 7, ""),
        (format!("{dn}objectClass:: !!!\n"), 7, "base64"),
        (format!("{dn}{person}jpegPhoto:< file:///etc/passwd\n"), 10, ""),
        (format!("{dn}changetype: delete\n"), 6, ""),
        (format!("dn: nonsense\n{person}"), 6, ""),
        (format!("{dn}objectClass: person\ncn: bad\n"), 6, "sn"),
        (format!("{dn}{person}noSuchType: x\n"), 6, "noSuchType"),
        (format!("{dn}{person}title: x\n"), 6, "title"),
        (format!("dn: cn=bad,dc=example,dc=org\n{person}"), 6, ""),
        (format!("dn: cn=bad,ou=none,dc=example,dc=com\n{person}"), 6, ""),
        ("dn: cn=good,dc=example,dc=com\nobjectClass: person\ncn: good\nsn: x\n".to_owned(), 6, ""),
    ] {
        let (file, run) = import(folder.path(), &data, &format!("{good}{record}"));
        assert_eq!(run.code, 2, "{record}");
        let place = format!("roster: error: {file}:{line}: ");
        assert!(run.errors.starts_with(&place), "{record}\n{}lacks {place}", run.errors);
        assert!(run.errors.contains(reason), "{record}\n{}lacks {reason}", run.errors);
        assert!(run.errors.contains("nothing was loaded"), "{}", run.errors);
        assert_eq!(succeed(&["export", "--data", &data]), before, "{record}");
    }
}

#[test]
fn what_is_no_data_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    let missing = folder.path().join("missing").to_str().unwrap().to_owned();
    let people = example("people.ldif");
    for data in [empty, &missing] {
        for command in [
            &["serve", "--data", data][..],
            &["check", "--data", data],
            &["export", "--data", data],
            &["import", "--data", data, &people],
        ] {
            check(command, 2, "roster: hint: make a data directory with 'roster init");
        }
    }
    check(&["import", "--data", empty, "nowhere.ldif"], 2, "cannot read nowhere.ldif: no such");
}

#[test]
fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    let path = Path::new(&data).join("format");
    let text = std::fs::read_to_string(&path).unwrap();
    let newer: String =
        text.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    assert_ne!(text, newer);
    std::fs::write(&path, newer).unwrap();
    check(&["serve", "--data", &data], 2, "written by a newer release");
    check(&["check", "--data", &data], 2, "roster: hint: use the release that wrote the data");
}

#[test]
fn serve_refuses_unknown_settings_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    let config = folder.path().join("roster.toml").to_str().unwrap().to_owned();
    std::fs::write(&config, "[listen]\nldpa = \"127.0.0.1:0\"\n").unwrap();
    let run = roster(&["serve", "--data", &data, "--config", &config]);
    assert_eq!(run.code, 2);
    let want =
        format!("roster: error: {config}:2: there is no setting 'listen.ldpa'; did you mean");
    assert!(run.errors.starts_with(&want), "{}", run.errors);
    check(&["serve", "--data", &data, "--ldap", "nowhere"], 2, "roster: error: invalid value");
}

#[test]
fn data_in_use_are_refused_until_the_server_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let running = demo::Demo::start_with(20, &["--data", &data]);
    for command in [&["check", "--data", &data][..], &["serve", "--data", &data]] {
        check(command, 2, "is in use by another process");
        check(command, 2, &format!("{}", running.pid()));
    }
    drop(running);
    assert_eq!(succeed(&["check", "--data", &data]), "22 entries, no fault\n");
}

#[test]
fn a_demo_answers_the_load_generator() {
    let running = demo::Demo::start(50);
    let pid = running.pid().to_string();
    let uri = running.url("ldap");
    let load = |operation: &str, more: &[&str]| {
        // Passwords are hashed slowly, those of who has signed in anew: on a busy machine little
        // else is done in a second.
        let length = match operation {
            "add" => ["-n", "6"],
            "delete" => ["-n", "3"],
            _ => ["-t", "1"],
        };
        let base = ["bench", operation, "-H", &uri, "-c", "2", "--warmup", "0"];
        let base = [&base[..], &length].concat();
        let run = roster(&[&base[..], &["--server-pid", &pid, "--json"], more].concat());
        (run.code, run.output, run.errors)
    };
    let dn = "uid=user.[1-50],ou=people,dc=example,dc=com";
    let admin = ["-D", running.admin_dn.as_str(), "-w", running.admin_password.as_str()];
    let one = ["--filter", "(uid=user.[1-50])", "--expect", "1"];
    for (operation, more) in [
        ("search", &one[..]),
        ("compare", &["--dn", dn]),
        ("bind", &["--dn", dn]),
        ("modify", &[&admin[..], &["--dn", dn]].concat()),
        ("add", &admin),
    ] {
        let (code, output, errors) = load(operation, more);
        assert_eq!((code, errors.as_str()), (0, ""), "{operation}: {output}");
        assert!(output.contains("\"wrong\":0"), "{output}");
    }
    let added = "uid=user.[1000001-1000003],ou=people,dc=example,dc=com";
    let (code, output, errors) = load("delete", &[&admin[..], &["--dn", added]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    assert!(output.contains("\"operations\":3,"), "{output}");

    let (code, _, errors) = load("search", &["--filter", "(uid=nobody)"]);
    assert_eq!(code, 1);
    assert!(errors.contains("the first one: a search found 0 entries"), "{errors}");
    let (code, _, errors) = load("search", &["-D", "cn=Directory Manager", "-w", "wrong"]);
    assert_eq!(code, 1);
    assert!(errors.contains("invalidCredentials (49)"), "{errors}");
}

#[test]
fn a_run_leaves_a_record_without_its_password() {
    let running = demo::Demo::start(50);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (record, csv, uri) = (path("run.json"), path("run.csv"), running.url("ldap"));
    let admin = ["-D", running.admin_dn.as_str(), "-w", running.admin_password.as_str()];
    let pid = running.pid().to_string();
    let base = ["bench", "search", "-H", &uri, "-c", "2", "-t", "2", "--warmup", "0"];
    let files = ["--output", &record, "--csv", &csv, "--server-pid", &pid];
    let named = ["--filter", "(uid=user.[1-50])", "--note", "hash=SSHA512", "--note", "entries=50"];
    succeed(&[&base[..], &files, &named, &admin].concat());
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(!text.contains(&running.admin_password), "{text}");
    let read = roster::bench::record::BenchRecord::parse(text.as_bytes()).unwrap();
    assert_eq!(read.name, "search");
    assert!(read.label.starts_with("roster") && read.server.vendor.is_some(), "{}", read.label);
    assert_eq!(read.load.entries, Some(50));
    assert_eq!(read.server.settings["hash"], "SSHA512");
    assert!(read.machine.client_on_same_machine);
    let spent = read.cost.server.as_ref().unwrap();
    assert_eq!(spent.source, "pid");
    assert!(spent.user_us + spent.system_us > 0 && spent.voluntary_switches > Some(0), "{text}");
    assert!(spent.anonymous_bytes > Some(1 << 20) && spent.written_bytes.is_some(), "{text}");
    let of_seconds: u64 = read.seconds.iter().filter_map(|second| second.server_cpu_us).sum();
    assert!(of_seconds.abs_diff(spent.user_us + spent.system_us) < 1_000, "{text}");
    assert_eq!(read.seconds.len(), 2);
    let counted: u64 = read.seconds.iter().map(|second| second.operations).sum();
    // The last answers may come after the last look.
    assert!(counted > 0 && counted.abs_diff(read.operations()) < 100, "{text}");
    let rows = &read.streams[0].histogram;
    assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), read.operations());
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 3);

    // A roster that is elsewhere tells it itself, to those who may know.
    let elsewhere = path("elsewhere.json");
    succeed(&[&base[..], &["--output", &elsewhere], &named[..2], &admin].concat());
    let told = std::fs::read_to_string(elsewhere).unwrap();
    let told = roster::bench::record::BenchRecord::parse(told.as_bytes()).unwrap();
    let own = told.cost.server.as_ref().unwrap();
    assert_eq!(own.source, "monitor");
    let ratio = own.cpu_us_per_operation / spent.cpu_us_per_operation;
    assert!((0.2..5.0).contains(&ratio), "{own:?} {spent:?}");
    assert!(own.resident_bytes > Some(1 << 20), "{own:?}");

    let page = path("page.html");
    let output = succeed(&["bench", "report", &record, &record, "-o", &page]);
    assert_eq!(output, format!("wrote {page} (2 runs)\n"));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains(&read.label) && !text.contains(&running.admin_password));
    let operations = read.operations().to_string();
    let (thousands, rest) = operations.split_at(operations.len().saturating_sub(3));
    let grouped =
        if thousands.is_empty() { operations.clone() } else { format!("{thousands},{rest}") };
    assert!(operations.len() > 6 || text.contains(&grouped), "{grouped} operations");
}

#[test]
fn what_is_no_record_makes_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (missing, wrong, page) = (path("missing.json"), path("wrong.json"), path("page.html"));
    let hint = "roster: hint: records are made by 'roster bench JOB --output FILE'";
    let report = |record: &str, message: &str| {
        let run = roster(&["bench", "report", record, "-o", &page]);
        assert_eq!(run.code, 2, "{}", run.errors);
        assert!(run.errors.contains(message) && run.errors.contains(hint), "{}", run.errors);
        assert!(!Path::new(&page).exists());
    };
    report(&missing, "roster: error: cannot read ");
    std::fs::write(&wrong, "{\"format\": \"roster-bench 9\"}").unwrap();
    report(&wrong, "its format is 'roster-bench 9', not 'roster-bench 1'");
    std::fs::write(&wrong, "<html>").unwrap();
    report(&wrong, "it is not a record of a run: expected value at line 1 column 1");
    check(&["bench", "report"], 2, "<RUN>");
}

#[test]
fn a_new_directory_says_who_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let suffix = ["--suffix", "dc=example,dc=com"];
    let with = |name: &str, more: &[&str]| {
        let data = at(name);
        succeed(&[&["init", "--data", &data][..], &suffix, more].concat())
    };
    assert!(with("own", &[]).contains("\nreading         authenticated users, everything that"));
    assert!(with("open", &["--public"]).contains("\nreading         anyone, without signing in"));
    let aci = "aci: (targetattr=\"cn\")(version 3.0; acl \"x\"; allow (read) \
               userdn=\"ldap:///self\";)";
    let ldif = format!("dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\n{aci}\n");
    let (_, run) = import(folder.path(), &at("own"), &ldif);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert!(run.errors.starts_with("roster: note: the data contain an ACI, so only"), "{run:?}");
    let (_, run) = import(folder.path(), &at("open"), &ldif);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert!(run.errors.contains("stay as they are"), "{run:?}");
}
