//! `roster diff`: files and servers are compared, and what is told makes the second as the first.
//!
//! Tests with a tool or server of others end at once where it is not installed, unless
//! `ROSTER_TEST_CLIENTS` says that it is required.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test when something is not as it must be"
)]

mod common;
mod demo;
#[path = "diff/trees.rs"]
mod trees;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Run, check_all, roster};
use demo::Demo;
use testing::chance::Chance;
use trees::Tree;

/// Whether all of these programs are there.
fn has(programs: &[&str]) -> bool {
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    if let (Some(missing), true) = (missing, required) {
        panic!("{missing} is required");
    }
    missing.is_none()
}

/// Files of one test.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file; its path.
    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Compares two texts of LDIF.
fn diff(arguments: &[&str], first: &str, second: &str) -> Run {
    let files = Files::new();
    let (first, second) = (files.put("a.ldif", first), files.put("b.ldif", second));
    roster(&[&["diff"], arguments, &[&first, &second]].concat())
}

/// What is told without the head.
fn told(run: &Run) -> &str {
    let (head, rest) = run.output.split_once("equal to ").unwrap_or(("", &run.output));
    assert!(head.is_empty() || head.starts_with("version: 1\n"), "{run:?}");
    rest.split_once("\n\n").map_or("", |(_, rest)| rest)
}

const TOP: &str = "dn: dc=x\nobjectClass: domain\ndc: x\n\n";

#[track_caller]
fn check_told(arguments: &[&str], first: &str, second: &str, want: &str) {
    let run = diff(arguments, &format!("{TOP}{first}"), &format!("{TOP}{second}"));
    assert_eq!(run.code, i32::from(!want.is_empty()), "{run:?}");
    assert_eq!(told(&run), want);
}

#[test]
fn what_rules_take_for_the_same_is_no_difference() {
    check_told(
        &[],
        "dn: CN=Anna  Kahn, dc=x\nobjectClass: person\ncn: Anna Kahn\ncn: anna\nsn: Kahn\n\
         seeAlso: cn=B, DC=x\nuserPassword: secret\n",
        "dn: cn=anna kahn,dc=X\nsn: KAHN\ncommonName: anna  kahn\n2.5.4.3: ANNA\nobjectClass: top\n\
         objectClass: PERSON\nuserPassword:: c2VjcmV0\nseealso: CN=b,dc=x\n\
         modifyTimestamp: 20270101000000Z\nentryUUID: 0b2f7d6c-0000-4000-8000-000000000000\n",
        "",
    );
}

#[test]
fn values_are_added_and_deleted_one_by_one() {
    check_told(
        &[],
        "dn: cn=a,dc=x\nobjectClass: device\ncn: a\nl: Bern\nl: Chur\nl: Olten\n\
         description;lang-de: eins\nserialNumber: 7\n",
        "dn: cn=a,dc=x\nobjectClass: device\nl: BERN\nl: Davos\nl: olten\nl: Genf\no: x\n\
         description;lang-de: zwei\n",
        "dn: cn=a,dc=x\nchangetype: modify\n\
         replace: description;lang-de\ndescription;lang-de: eins\n-\n\
         delete: l\nl: Davos\nl: Genf\n-\nadd: l\nl: Chur\n-\n\
         add: serialNumber\nserialNumber: 7\n-\n\
         delete: o\n-\n\n",
    );
}

#[test]
fn values_without_a_rule_are_replaced_as_a_whole() {
    check_told(
        &[],
        "dn: cn=a,dc=x\nobjectClass: inetOrgPerson\nsn: a\njpegPhoto:: AAEC\njpegPhoto:: AAED\n\
         unheardOf: 1\nunheardOf: 2\n",
        "dn: cn=a,dc=x\nobjectClass: inetOrgPerson\nsn: a\njpegPhoto:: AAED\nunheardOf: 2\n",
        "dn: cn=a,dc=x\nchangetype: modify\n\
         replace: jpegPhoto\njpegPhoto:: AAEC\njpegPhoto:: AAED\n-\n\
         replace: unheardOf\nunheardOf: 1\nunheardOf: 2\n-\n\n",
    );
}

#[test]
fn superiors_come_first_and_go_last() {
    let unit = |name: &str| format!("dn: {name},dc=x\nobjectClass: organizationalUnit\n\n");
    check_told(
        &[],
        &format!("{}{}{}", unit("ou=new,ou=kept"), unit("ou=kept"), unit("ou=in,ou=new,ou=kept")),
        &format!("{}{}{}", unit("ou=kept"), unit("ou=b,ou=old"), unit("ou=old")),
        "dn: ou=new,ou=kept,dc=x\nchangetype: add\nobjectClass: organizationalUnit\nou: new\n\n\
         dn: ou=in,ou=new,ou=kept,dc=x\nchangetype: add\n\
         objectClass: organizationalUnit\nou: in\n\n\
         dn: ou=b,ou=old,dc=x\nchangetype: delete\n\n\
         dn: ou=old,dc=x\nchangetype: delete\n\n",
    );
}

#[test]
fn a_structural_class_changes_by_a_new_entry() {
    check_told(
        &[],
        "dn: cn=a,dc=x\nobjectClass: device\n\ndn: cn=b,cn=a,dc=x\nobjectClass: device\n",
        "dn: cn=a,dc=x\nobjectClass: person\nsn: a\n\n\
         dn: cn=b,cn=a,dc=x\nobjectClass: device\n\n",
        "dn: cn=b,cn=a,dc=x\nchangetype: delete\n\ndn: cn=a,dc=x\nchangetype: delete\n\n\
         dn: cn=a,dc=x\nchangetype: add\nobjectClass: device\ncn: a\n\n\
         dn: cn=b,cn=a,dc=x\nchangetype: add\nobjectClass: device\ncn: b\n\n",
    );
    // An auxiliary class is a value as any other.
    check_told(
        &[],
        "dn: cn=a,dc=x\nobjectClass: device\nobjectClass: uidObject\nuid: a\n",
        "dn: cn=a,dc=x\nobjectClass: device\n",
        "dn: cn=a,dc=x\nchangetype: modify\nadd: objectClass\nobjectClass: uidObject\n-\n\
         add: uid\nuid: a\n-\n\n",
    );
}

#[test]
fn referrals_are_changed_as_the_entries_that_they_are() {
    let referral = |url: &str| {
        format!("dn: ou=a,dc=x\nobjectClass: referral\nobjectClass: extensibleObject\nref: {url}\n")
    };
    check_told(
        &[],
        &referral("ldap://one/ou=a"),
        &referral("ldap://two/ou=a"),
        "dn: ou=a,dc=x\ncontrol: 2.16.840.1.113730.3.4.2 true\nchangetype: modify\n\
         replace: ref\nref: ldap://one/ou=a\n-\n\n",
    );
}

#[test]
fn what_is_compared_can_be_chosen() {
    let first = "dn: cn=a,dc=x\nobjectClass: device\nl: Bern\no: a\n\n\
                 dn: cn=new,dc=x\nobjectClass: device\nl: Chur\no: b\n\n";
    let second = "dn: cn=a,dc=x\nobjectClass: device\nl: Basel\no: c\n\n";
    let added = "dn: cn=new,dc=x\nchangetype: add\nobjectClass: device\nl: Chur\no: b\ncn: new\n\n";
    let l = "dn: cn=a,dc=x\nchangetype: modify\nreplace: l\nl: Bern\n-\n\n";
    check_told(&["--only", "localityName"], first, second, &format!("{added}{l}"));
    let without = added.replace("o: b\n", "");
    check_told(&["--ignore", "o"], first, second, &format!("{without}{l}"));
    check_told(&["--base", "CN=new, dc=x"], first, second, added);
    // What only servers set is told, and nobody is asked to set it.
    let stamp = |time: u32| {
        format!("dn: cn=a,dc=x\nobjectClass: device\nmodifyTimestamp: {time}0101000000Z\n")
    };
    let comment = "# only servers set what else differs in cn=a,dc=x: modifyTimestamp\n\n";
    check_told(&["--operational"], &stamp(2026), &stamp(2027), comment);
}

#[test]
fn differences_are_told_as_json_or_not_at_all() {
    let first = format!("{TOP}dn: cn=a,dc=x\nobjectClass: device\n\n");
    let second = format!("{TOP}dn: cn=b,dc=x\nobjectClass: device\n\n");
    let run = diff(&["--json"], &first, &second);
    assert_eq!(run.code, 1);
    let lines: Vec<serde_json::Value> =
        run.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{run:?}");
    assert_eq!((&lines[0]["type"], &lines[0]["dn"]), (&"add".into(), &"cn=a,dc=x".into()));
    assert_eq!((&lines[1]["type"], &lines[1]["dn"]), (&"delete".into(), &"cn=b,dc=x".into()));
    let summary: serde_json::Value = serde_json::from_str(&run.errors).unwrap();
    assert_eq!((&summary["add"], &summary["entries_b"]), (&1.into(), &2.into()));
    let run = diff(&["--quiet"], &first, &second);
    assert_eq!((run.code, &*run.output, &*run.errors), (1, "", ""));
    let run = diff(&["--quiet"], &first, &first);
    assert_eq!((run.code, &*run.output, &*run.errors), (0, "", ""));
    let run = diff(&[], &first, &second);
    check_all(&run, 1, &["A has 2 entries, B 2: 1 to add, 0 to modify, 0 to rename, 1 to delete"]);
    // With a file for it; it is not there before it is whole.
    let files = Files::new();
    let (first, second) = (files.put("a", &first), files.put("b", &second));
    let out = files.0.path().join("out.ldif");
    let run = roster(&["diff", &first, &second, "-o", out.to_str().unwrap()]);
    assert_eq!((run.code, &*run.output), (1, ""));
    assert!(fs::read_to_string(&out).unwrap().contains("dn: cn=b,dc=x\nchangetype: delete\n"));
}

#[test]
fn trouble_is_told_apart_from_a_difference() {
    let files = Files::new();
    let good = files.put("a.ldif", TOP);
    let twice = files.put("b.ldif", format!("{TOP}dn: DC=X\nobjectClass: domain\n\n"));
    let change = files.put("c.ldif", "dn: dc=x\nchangetype: delete\n\n");
    let name = files.put("d.ldif", "dn: nonsense\nobjectClass: domain\n\n");
    for (arguments, want) in [
        ([&*good, &*twice], "it holds 'DC=X' twice"),
        ([&*good, &*change], "'changetype: delete' changes what is there"),
        ([&*name, &*good], "line 1: the name 'nonsense' cannot be read"),
        ([&*good, "/nowhere/e.ldif"], "cannot read /nowhere/e.ldif"),
        (["-", "-"], "standard input can be only one"),
        ([&*good, "ldap://127.0.0.1:1/dc=x"], "cannot connect"),
    ] {
        let run = roster(&["diff", arguments[0], arguments[1]]);
        check_all(&run, 2, &[want]);
        assert_eq!(run.output, "", "{run:?}");
    }
    check_all(&roster(&["diff", &good]), 2, &["<B>"]);
    check_all(&roster(&["diff", "-", &good, "-y", "-"]), 2, &["or the password"]);
    let other = ["--b-bind-dn", "cn=b", "--b-password-file", "-"];
    let run = roster(&[&["diff", "-", "ldap://127.0.0.1:1/dc=x"][..], &other].concat());
    check_all(&run, 2, &["or the password"]);
}

/// Random trees, with and without a look for renames: what is told of them is applied here by the
/// rules that every server has, and leaves nothing.
#[test]
fn applied_in_memory_nothing_is_left() {
    for seed in 0..40 {
        let mut chance = Chance::new(seed, 1);
        let second = Tree::random(&mut chance, 25);
        let first = match seed % 2 {
            0 => Tree::random(&mut chance, 25),
            _ => second.changed(&mut chance, 12),
        };
        for by in [&[][..], &["--by", "description"]] {
            let run = diff(by, &first.ldif("dc=x"), &second.ldif("dc=x"));
            assert!(run.code < 2, "{seed}: {run:?}");
            let mut applied = second.clone();
            applied.apply("dc=x", &run.output).unwrap_or_else(|error| {
                panic!(
                    "{seed} {by:?}: {error}\n{}\nA:\n{}\nB:\n{}",
                    run.output,
                    first.ldif("dc=x"),
                    second.ldif("dc=x")
                )
            });
            let again = diff(&[], &first.ldif("dc=x"), &applied.ldif("dc=x"));
            assert_eq!(again.code, 0, "{seed} {by:?}: {}\nleft:\n{}", run.output, again.output);
        }
    }
}

#[test]
fn a_renamed_subtree_is_one_rename() {
    let unit = |name: &str, id: u32| {
        format!("dn: {name},dc=x\nobjectClass: organizationalUnit\ndescription: {id}\n\n")
    };
    let first = format!("{}{}{}", unit("ou=new", 1), unit("ou=a,ou=new", 2), unit("ou=c", 3));
    let second =
        format!("{}{}{}", unit("ou=old", 1), unit("ou=a,ou=old", 2), unit("ou=b,ou=old", 3));
    check_told(
        &["--by", "description"],
        &first,
        &second,
        "dn: ou=b,ou=old,dc=x\nchangetype: modrdn\nnewrdn: ou=c\ndeleteoldrdn: 1\n\
         newsuperior: dc=x\n\n\
         dn: ou=old,dc=x\nchangetype: modrdn\nnewrdn: ou=new\ndeleteoldrdn: 1\n\n",
    );
}

#[test]
fn a_very_large_entry_is_compared_value_by_value() {
    let group = |members: std::ops::Range<u32>, is_turned: bool| {
        let mut all: Vec<String> =
            members.map(|number| format!("member: uid=user.{number},dc=x\n")).collect();
        if is_turned {
            all.reverse();
        }
        format!("dn: cn=g,dc=x\nobjectClass: groupOfNames\n{}\n", all.concat())
    };
    check_told(
        &["--memory", "8M"],
        &group(0..60_000, false),
        &group(1..60_001, true),
        "dn: cn=g,dc=x\nchangetype: modify\ndelete: member\nmember: uid=user.60000,dc=x\n-\n\
         add: member\nmember: uid=user.0,dc=x\n-\n\n",
    );
}

/// The most memory that a program has had, in MiB, and its output.
#[allow(clippy::disallowed_methods, reason = "the system tells it only while the program runs")]
fn peak_of(arguments: &[&str]) -> (u64, Run) {
    let child = common::command(arguments).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    let mut peak_kib = 0;
    while !waiting.is_finished() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = waiting.join().unwrap();
    let run = Run {
        code: output.status.code().unwrap(),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    };
    (peak_kib >> 10, run)
}

/// Some 75 MB on each side, one of them in no order: about 230 MiB if all of it were in memory.
#[test]
fn memory_does_not_grow_with_the_number_of_entries() {
    const COUNT: u32 = 200_000;
    let file = |number: &dyn Fn(u32) -> u32| {
        let mut text = TOP.to_owned();
        for number in (0..COUNT).map(number) {
            let title = if number == 77 { "Pilot" } else { "Engineer" };
            text.push_str(&format!(
                "dn: uid=user.{number},dc=x\nobjectClass: inetOrgPerson\nuid: user.{number}\n\
                 cn: User {number}\nsn: {number}\nmail: user.{number}@example.com\n\
                 description: {:x<200}\ntitle: {title}\n\n",
                ""
            ));
        }
        text
    };
    let files = Files::new();
    let first = files.put("a.ldif", file(&|number| number));
    let second = file(&|number| (u64::from(number) * 7_919 % u64::from(COUNT)) as u32);
    let second = files.put("b.ldif", second.replace("title: Pilot", "title: Nurse"));
    for by in [&[][..], &["--by", "uid"]] {
        let (peak, run) =
            peak_of(&[&["diff", "--memory", "16M", &first, &second][..], by].concat());
        check_all(&run, 1, &["A has 200,001 entries, B 200,001: 0 to add, 1 to modify, 0 to"]);
        let want = "dn: uid=user.77,dc=x\nchangetype: modify\nreplace: title\ntitle: Pilot\n-\n\n";
        assert_eq!(told(&run), want);
        assert!((20..128).contains(&peak), "{peak} MiB");
    }
}

/// What of temporary files is left to see: nothing, whoever looks into their directory.
#[test]
fn temporary_files_have_no_names() {
    let files = Files::new();
    let folder = files.0.path().join("tmp");
    fs::create_dir(&folder).unwrap();
    let person = |number: u32| {
        format!("dn: uid={number},dc=x\nobjectClass: account\ndescription: {number:0>2000}\n\n")
    };
    let all: String = (0..8_000).map(person).collect();
    let path = files.put("a.ldif", format!("{TOP}{all}"));
    let mut command = common::command(&["diff", "--memory", "8M", &path, "-"]);
    let mut child = command.env("TMPDIR", &folder).stdin(Stdio::piped()).spawn().unwrap();
    // It waits for the other side, when it has written what it has no memory for.
    let inside = format!("/proc/{}/fd", child.id());
    let is_open = || {
        let links = fs::read_dir(&inside)
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        let all: Vec<PathBuf> = links.filter(|link| link.starts_with(&folder)).collect();
        all.iter().any(|link| link.to_string_lossy().ends_with("(deleted)"))
    };
    while !is_open() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        pause();
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    // Where there is no room for them, that is said.
    let run = common::command(&["diff", "--memory", "8M", &path, &path])
        .env("TMPDIR", folder.join("nowhere"))
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(2));
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(errors.contains("TMPDIR names another directory"), "{errors}");
}

/// As the administrator of a demo.
fn applied(demo: &Demo, file: &Path) {
    let output = Command::new("/usr/bin/ldapmodify")
        .args(["-x", "-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-w", &demo.admin_password])
        .arg("-f")
        .arg(file)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = fs::read_to_string(file).unwrap();
    assert!(output.status.success(), "{errors}\n{text}");
}

/// Random trees in a file and on a server: applied there, nothing is left.
#[test]
fn applied_to_a_server_nothing_is_left() {
    if !has(&["/usr/bin/ldapmodify"]) {
        return;
    }
    let demo = Demo::start(10);
    let files = Files::new();
    let password = files.put("password", &demo.admin_password);
    for seed in 0..12 {
        let mut chance = Chance::new(seed, 2);
        let base = format!("ou=round{seed},dc=example,dc=com");
        let top = format!("dn: {base}\nchangetype: add\nobjectClass: organizationalUnit\n\n");
        let second = Tree::random(&mut chance, 30);
        let first = second.changed(&mut chance, 15);
        let (wanted, had) = (first.ldif(&base), second.ldif(&base));
        let top_entry = top.replace("changetype: add\n", "");
        let wanted = files.put("a.ldif", format!("{top_entry}{wanted}"));
        let had = had.replace("\nobjectClass:", "\nchangetype: add\nobjectClass:");
        applied(&demo, Path::new(&files.put("b.ldif", format!("{top}{had}"))));
        let url = format!("{}/{base}", demo.url("ldap"));
        let server = ["-D", &demo.admin_dn, "-y", &password];
        let by = if seed % 2 == 0 { &["--by", "description"][..] } else { &[] };
        let run = roster(&[&["diff", &wanted, &url], &server[..], by].concat());
        assert_eq!(run.code, 1, "{run:?}");
        applied(&demo, Path::new(&files.put("changes.ldif", &run.output)));
        let run = roster(&[&["diff", &wanted, &url], &server[..]].concat());
        assert_eq!(run.code, 0, "{run:?}");
    }
    // Two servers.
    let url = format!("{}/ou=people,dc=example,dc=com", demo.url("ldap"));
    let run = roster(&["diff", &url, &url, "-D", &demo.admin_dn, "-y", &password]);
    check_all(&run, 0, &["0 to add, 0 to modify"]);
    let export = files.0.path().join("export.ldif");
    let export = export.to_str().unwrap();
    let server = ["-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-y", &password];
    check_all(&roster(&[&["export", "-o", export], &server[..]].concat()), 0, &[]);
    let whole = demo.url("ldaps");
    let run = roster(&["diff", export, &whole, "-y", &password, "--reqcert", "never"]);
    check_all(&run, 0, &["0 to delete"]);
    // Referrals and subentries of a server are entries as others.
    let special = "dn: ou=far,dc=example,dc=com\nobjectClass: referral\n\
                   objectClass: extensibleObject\n\
                   ref: ldap://far.example/ou=far\n\n\
                   dn: cn=hidden,dc=example,dc=com\nobjectClass: subentry\n\
                   objectClass: extensibleObject\nsubtreeSpecification: {}\n\n";
    let special = special.replace("\nobjectClass: re", "\nchangetype: add\nobjectClass: re");
    let special = special.replace("\nobjectClass: su", "\nchangetype: add\nobjectClass: su");
    applied(&demo, Path::new(&files.put("special.ldif", &special)));
    let bare = files.put("bare.ldif", "dn: dc=example,dc=com\nobjectClass: domain\n");
    let context = format!("{}/dc=example,dc=com", demo.url("ldap"));
    let run = roster(&["diff", &context, &bare, "-y", &password]);
    check_all(&run, 1, &["ref: ldap://far.example/ou=far", "dn: cn=hidden,dc=example,dc=com"]);
    let filtered = format!("{url}??one?(uid=user.3)");
    let run = roster(&[
        "diff",
        export,
        &filtered,
        "-y",
        &password,
        "-b",
        &url[url.rfind('/').unwrap() + 1..],
    ]);
    check_all(&run, 1, &["B 1: 10 to add"]);
}

/// Ends with its value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A slapd in a folder, with an administrator; its URL.
fn slapd(folder: &Path) -> (Running, String) {
    fs::create_dir(folder.join("db")).unwrap();
    let conf: PathBuf = folder.join("slapd.conf");
    let text = include_str!("diff/slapd.conf").replace("HERE", &folder.display().to_string());
    fs::write(&conf, text).unwrap();
    let socket = folder.join("socket").display().to_string();
    let url = format!("ldapi://{}", socket.replace('/', "%2F"));
    let child = Command::new("/usr/sbin/slapd")
        .args(["-d", "0", "-h", &url, "-f"])
        .arg(&conf)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(running.0.try_wait().unwrap().is_none(), "slapd has ended");
        pause();
    }
    (running, url)
}

/// A program of others tells nobody that it is ready.
#[allow(clippy::disallowed_methods, reason = "asking again is the only way")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A slapd and a server here are compared, and each is made as the other one.
#[test]
fn a_slapd_and_a_server_here_are_compared() {
    if !has(&["/usr/sbin/slapd", "/usr/bin/ldapmodify"]) {
        return;
    }
    let demo = Demo::start(25);
    let files = Files::new();
    let (_slapd, theirs) = slapd(files.0.path());
    let admin = files.put("admin", &demo.admin_password);
    let root = files.put("root", "secret");
    let context = "dc=example,dc=com";
    let bare = files.put("bare.ldif", format!("dn: {context}\nobjectClass: domain\n"));
    let apply = |file: &str| {
        let output = Command::new("/usr/bin/ldapmodify")
            .args(["-x", "-H", &theirs, "-D", &format!("cn=admin,{context}"), "-w", "secret"])
            .args(["-f", file])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    apply(&files.put("top.ldif", format!(
        "dn: {context}\nchangetype: add\nobjectClass: organization\nobjectClass: dcObject\no: x\n"
    )));
    let (here, there) = (format!("{}/{context}", demo.url("ldap")), format!("{theirs}/{context}"));
    let bound = ["-D", &demo.admin_dn, "-y", &admin];
    let root_dn = format!("cn=admin,{context}");
    let other = ["--b-bind-dn", &root_dn, "--b-password-file", &root];
    let compare = || roster(&[&["diff", &here, &there], &bound[..], &other[..]].concat());
    let run = compare();
    check_all(&run, 1, &["B 1: ", "changetype: add"]);
    // Values of a schema that slapd has not are all that is left to hand.
    apply(&files.put("changes.ldif", &run.output));
    check_all(&compare(), 0, &["0 to add, 0 to modify, 0 to rename, 0 to delete"]);
    // The other way, after changes there: by slapd's schema and by ours.
    apply(&files.put("more.ldif", format!(
        "dn: uid=user.3,ou=people,{context}\nchangetype: modify\nreplace: title\ntitle: Pilot\n-\n\
         replace: jpegPhoto\njpegPhoto:: /9j/4AAQSkZJRgABAQ==\n-\n\n\
         dn: uid=user.4,ou=people,{context}\nchangetype: delete\n\n\
         dn: cn=box,uid=user.5,ou=people,{context}\nchangetype: add\nobjectClass: device\n\n"
    )));
    let root_bound = ["-D", &root_dn, "-y", &root];
    let other = ["--b-bind-dn", &demo.admin_dn, "--b-password-file", &admin];
    let back = || roster(&[&["diff", &there, &here], &root_bound[..], &other[..]].concat());
    let run = back();
    check_all(&run, 1, &["1 to add, 1 to modify, 0 to rename, 1 to delete"]);
    applied(&demo, Path::new(&files.put("back.ldif", &run.output)));
    check_all(&back(), 0, &["0 to delete"]);
    // Files stand for servers.
    let run = roster(&[&["diff", &bare, &there], &root_bound[..]].concat());
    check_all(&run, 1, &["A has 1 entries"]);
}
