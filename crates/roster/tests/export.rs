//! `roster export` and `roster generate` through the built program: what they write comes back as
//! the same bytes, and half of it is never taken for the whole.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::Stdio;

use common::{Run, check, command, example, roster};
use demo::Demo;
use ldap3::LdapConn;

const SUFFIX: &str = "dc=example,dc=com";

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn init(folder: &Path, name: &str) -> String {
    let data = path(folder, name);
    succeed(&["init", "--public", "--data", &data, "--suffix", SUFFIX]);
    data
}

/// Runs the program, which must succeed without a word on standard error, but for how far an import
/// is that takes a while.
#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let Run { code, output, errors } = roster(arguments);
    let mut said = errors.lines().filter(|line| !line.starts_with("{\"done\":"));
    assert_eq!((code, said.next()), (0, None), "{arguments:?}: {output}{errors}");
    output
}

fn export(data: &str) -> String {
    succeed(&["export", "--data", data])
}

/// The export of `data`, imported, is exported as the same bytes.
#[track_caller]
fn check_round_trip(folder: &Path, data: &str) {
    let file = path(folder, "there.ldif");
    let told = succeed(&["export", "--data", data, "-o", &file]);
    let text = fs::read_to_string(&file).unwrap();
    let entries = text.lines().filter(|line| line.starts_with("dn:")).count();
    assert!(told.starts_with(&format!("{entries} entries exported, ")), "{told}");
    assert_eq!(export(data), text);
    let back = init(folder, "back");
    succeed(&["import", "--data", &back, &file]);
    let again = export(&back);
    let differs = text.lines().zip(again.lines()).find(|(one, other)| one != other);
    assert!(again == text, "{differs:?}");
    let sorted = succeed(&["export", "--data", data, "--sort"]);
    assert!(succeed(&["export", "--data", &back, "--sort"]) == sorted);
    fs::remove_dir_all(back).unwrap();
}

/// Draws by chance, the same ones for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// A tree of all sorts of names and values, one level below the other up to 40 deep.
fn tree(seed: u64, entries: u64) -> String {
    let mut dice = Dice(seed);
    let mut dns = vec![SUFFIX.to_owned()];
    let mut text = String::new();
    for number in 0..entries {
        let deep = dns.len() as u64 - 1;
        let parent = if number < 40 { deep } else { dice.below(deep + 1) };
        let rdn = match dice.below(6) {
            0 => format!("cn=a\\, b \\+ {number}"),
            1 => format!("cn=Jürgen {number}+sn=Öl"),
            2 => format!("cn=\\20space {number}"),
            3 => format!("cn=漢字 {number}"),
            _ => format!("cn=e{number}"),
        };
        let dn = format!("{rdn},{}", dns[parent as usize]);
        text.push_str(&format!("dn: {dn}\nobjectClass: inetOrgPerson\nsn: s{number}\n"));
        let mut put = |line: &str| text.push_str(&format!("{line}\n"));
        if dice.below(2) == 0 {
            put("cn;lang-de: Zwei\ncn;lang-de;lang-fr: Deux\nsn;lang-ja:: 5bGx");
        }
        if dice.below(3) == 0 {
            put(&format!(
                "description: {}",
                "long line ".repeat(dice.below(90) as usize + 1) + "x"
            ));
            put("description:: IGxlYWRpbmcgc3BhY2U=");
        }
        if dice.below(3) == 0 {
            put("jpegPhoto:: /9j/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v");
        }
        if dice.below(4) == 0 {
            put("userPassword: {SSHA}W6ph5Mm5Pz8GgiULbPgzG37mj9gxMjM0");
        }
        if dice.below(4) == 0 {
            put("createTimestamp: 20200101000000Z\nmail: A@example.com\nmail: b@example.com");
        }
        text.push('\n');
        dns.push(dn);
    }
    text
}

#[test]
fn trees_of_all_sorts_come_back_as_the_same_bytes() {
    for seed in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let data = init(folder.path(), "data");
        let file = path(folder.path(), "in.ldif");
        fs::write(&file, tree(seed, 300)).unwrap();
        succeed(&["import", "--data", &data, &file]);
        check_round_trip(folder.path(), &data);
    }
}

#[test]
fn what_was_moved_and_renamed_comes_back_as_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path(), "data");
    {
        let demo = Demo::start_with(60, &["--data", &data]);
        let mut connection = LdapConn::new(&demo.url("ldap")).unwrap();
        connection.simple_bind(&demo.admin_dn, &demo.admin_password).unwrap().success().unwrap();
        let people = format!("ou=people,{SUFFIX}");
        for name in ["new", "newer"] {
            let attributes = vec![("objectClass", ["organizationalUnit"].into())];
            let added = connection.add(&format!("ou={name},{people}"), attributes);
            added.unwrap().success().unwrap();
        }
        let mut rename = |dn: &str, rdn: &str, above: Option<&str>| {
            connection.modifydn(dn, rdn, true, above).unwrap().success().unwrap();
        };
        let new = format!("ou=new,{people}");
        for number in [3, 30, 50] {
            rename(&format!("uid=user.{number},{people}"), &format!("uid=n{number}"), Some(&new));
        }
        rename(&format!("uid=n3,{new}"), "uid=three", None);
        rename(&new, "ou=old", Some(&format!("ou=newer,{people}")));
        rename(&format!("uid=user.7,{people}"), "uid=ü", None);
    }
    let text = export(&data);
    let at = |dn: &str| text.find(&format!("dn: {dn}")).unwrap_or_else(|| panic!("no {dn}"));
    let (newer, old) = (at("ou=newer,"), at("ou=old,ou=newer,"));
    assert!(newer < old && old < at("uid=three,ou=old,") && at("uid=user.60,") < old);
    check_round_trip(folder.path(), &data);
}

#[test]
fn generated_people_come_back_as_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path(), "data");
    let template = example("people.template");
    let generate = ["generate", &template, "--entries", "3000"];
    let mut generator = command(&generate).spawn().unwrap();
    let import = command(&["import", "--data", &data, "-"])
        .stdin(Stdio::from(generator.stdout.take().unwrap()))
        .output()
        .unwrap();
    assert!(import.status.success(), "{import:?}");
    assert!(generator.wait().unwrap().success());
    check_round_trip(folder.path(), &data);
    // What was generated is in it, in the same order.
    let names = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("dn: ")).map(str::to_owned).collect()
    };
    assert_eq!(names(&export(&data)), names(&succeed(&generate)));
}

#[test]
fn generated_bytes_do_not_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["-D", "numusers=300", "-D", "members=40", "-n", "7"];
    for (template, options) in [("people.template", &["-n", "5000"][..]), ("groups.template", &few)]
    {
        let template = example(template);
        let with = |threads: &str| {
            let base = ["generate", &template, "--threads", threads];
            succeed(&[&base, options].concat())
        };
        let one = with("1");
        assert!(with("2") == one && with("7") == one, "{template}");
        let file = path(folder.path(), "made.ldif");
        succeed(&[&["generate", &template, "-o", &file][..], options].concat());
        assert_eq!(fs::read_to_string(&file).unwrap(), one);
    }
    check(&["generate", &example("people.template"), "--threads", "0"], 2, "--threads");
}

#[test]
fn groups_have_different_members_that_are_people() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path(), "data");
    let groups = example("groups.template");
    let few = ["-D", "numusers=300", "-D", "members=40", "-n", "7"];
    let text = succeed(&[&["generate", &groups][..], &few].concat());
    let mut sizes = Vec::new();
    for record in text.split("\n\n").filter(|record| record.contains("groupOfNames")) {
        let members: Vec<&str> =
            record.lines().filter_map(|line| line.strip_prefix("member: ")).collect();
        assert_eq!(BTreeSet::from_iter(&members).len(), members.len());
        sizes.push(members.len());
    }
    assert_eq!(sizes, [40, 40, 40, 40, 40, 40, 40, 300]);
    let file = path(folder.path(), "people.ldif");
    succeed(&["generate", &example("people.template"), "-n", "300", "-o", &file]);
    succeed(&["import", "--data", &data, &file]);
    fs::write(&file, text).unwrap();
    succeed(&["import", "--data", &data, &file]);
    let member = format!("(member=uid=user.300,ou=people,{SUFFIX})");
    let found = succeed(&["export", "--data", &data, &member, "1.1"]);
    assert!(found.contains(&format!("dn: cn=everybody,ou=groups,{SUFFIX}\n")), "{found}");
    check_round_trip(folder.path(), &data);
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path(), "data");
    let file = path(folder.path(), "people.ldif");
    succeed(&["generate", &example("people.template"), "-n", "4000", "-o", &file]);
    succeed(&["import", "--data", &data, &file]);
    let template = example("people.template");
    let generate = ["generate", &template, "-n", "1000000"];
    for arguments in [&generate[..], &["export", "--data", &data]] {
        let mut child = command(arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "dn: dc=example,dc=com\n");
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_file_has_its_name_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path(), "data");
    let file = path(folder.path(), "out.ldif");
    fs::write(&file, "the one before\n").unwrap();
    check(&["export", "--data", &data, "-o", &file, "-b", "o=x"], 2, "no entry 'o=x'");
    assert_eq!(fs::read_to_string(&file).unwrap(), "the one before\n");
    assert!(!Path::new(&format!("{file}.part")).exists());
    let told = succeed(&["export", "--data", &data, "-o", &file]);
    assert!(told.starts_with("1 entries exported, "), "{told}");
    assert_eq!(fs::read_to_string(&file).unwrap(), export(&data));
    assert!(!Path::new(&format!("{file}.part")).exists());
    check(&["export", "--data", &data, "-o", "/nowhere/out.ldif"], 2, "cannot write /nowhere/");
    succeed(&["export", "--data", &data, "-o", "/dev/null"]);
}

#[test]
fn what_is_asked_for_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path(), "data");
    succeed(&["import", "--data", &data, &example("people.ldif")]);
    let of = |more: &[&str]| succeed(&[&["export", "--data", &data][..], more].concat());
    let names = |text: &str| text.lines().filter(|line| line.starts_with("dn: ")).count();
    let people = format!("ou=people,{SUFFIX}");
    let all = of(&[]);
    let below = names(&of(&["-b", &people, "-s", "children"]));
    assert_eq!(names(&of(&["-b", &people])), below + 1);
    assert_eq!(names(&of(&["-b", &people, "-s", "base"])), 1);
    assert!(names(&of(&["-b", SUFFIX, "-s", "one"])) < names(&all));
    let found = of(&["(uid=*)", "uid", "createTimestamp"]);
    assert!(!found.contains("\nsn: ") && found.contains("\ncreateTimestamp: "), "{found}");
    assert_eq!(of(&["-a", "(uid=*)", "uid", "createTimestamp"]), found);
    assert!(!of(&["uid"]).contains("createTimestamp"));
    assert!(of(&["uid", "--operational"]).contains("createTimestamp"));
    let without = of(&["--no-operational"]);
    assert!(!without.contains("entryUUID") && without.contains("\nuserPassword:"), "{without}");
    assert!(all.contains("\nentryUUID: "));
    let state = of(&["-r"]);
    assert!(state.starts_with("# roster replication state 1\n# store: "), "{state}");
    let entries: Vec<&str> = state.lines().filter(|line| !line.starts_with('#')).skip(1).collect();
    assert_eq!(entries, all.lines().collect::<Vec<_>>());
    check(&["export", "--data", &data, "-r", "--no-operational"], 2, "cannot be used with");
    for ending in ["gz", "zst"] {
        let file = path(folder.path(), &format!("out.ldif.{ending}"));
        of(&["-o", &file]);
        let octets = fs::read(&file).unwrap();
        let magic: &[u8] = if ending == "gz" { &[0x1f, 0x8b] } else { &[0x28, 0xb5, 0x2f, 0xfd] };
        assert!(octets.starts_with(magic) && octets.len() < all.len());
        of(&["-o", &file, "--compress", "none"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), all);
    }
}
