//! `roster import` through the built program: sources, what is refused and left out, and what an
//! end at any moment leaves behind.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Run, command, example, roster};

const SUFFIX: &str = "dc=example,dc=com";

/// A folder with a data directory.
struct Place {
    folder: tempfile::TempDir,
    data: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made and read");
        let data = folder.path().join("data").display().to_string();
        let run = roster(&["init", "--public", "--data", &data, "--suffix", SUFFIX]);
        assert_eq!(run.code, 0, "{run:?}");
        Self { folder, data }
    }

    fn file(&self, name: &str, octets: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, octets).expect("temporary files can be made and read");
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn import(&self, arguments: &[&str]) -> Run {
        roster(&[&["import", "--data", &self.data], arguments].concat())
    }

    #[track_caller]
    fn export(&self) -> String {
        let run = roster(&["export", "--data", &self.data]);
        assert_eq!(run.code, 0, "{run:?}");
        run.output
    }

    /// Names of entries below the suffix, sorted.
    #[track_caller]
    fn names(&self) -> Vec<String> {
        let text = self.export();
        let names = text.lines().filter_map(|line| line.strip_prefix("dn: "));
        let names = names.filter_map(|dn| dn.strip_suffix(SUFFIX)?.strip_suffix(','));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Nothing is wrong, and nothing lies about.
    #[track_caller]
    fn check_whole(&self) {
        let run = roster(&["check", "--data", &self.data]);
        assert!(run.code == 0 && run.output.contains("no fault"), "{run:?}");
        let left: Vec<PathBuf> = std::fs::read_dir(&self.data)
            .expect("temporary files can be made and read")
            .map(|file| file.expect("temporary files can be made and read").path())
            .filter(|path| path.ends_with("import") || path.extension() == Some("tmp".as_ref()))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn person(name: &str) -> String {
    format!("dn: cn={name},{SUFFIX}\nobjectClass: person\ncn: {name}\nsn: {name}\n\n")
}

#[track_caller]
fn check_summary(run: &Run, code: i32, want: &str) {
    assert_eq!(run.code, code, "{run:?}");
    let last = run.output.lines().last().unwrap_or_default();
    assert!(last.starts_with(want), "{run:?}\nlacks {want}");
}

#[test]
fn files_are_plain_or_compressed_and_several() {
    let place = Place::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(person("b").as_bytes()).unwrap();
    let mut gzip = gzip.finish().unwrap();
    let mut second = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::fast());
    second.write_all(person("c").as_bytes()).unwrap();
    second.finish().unwrap();
    let plain = place.file("a.ldif", person("a"));
    // The name says nothing about what is in it.
    let gzip = place.file("b.ldif", gzip);
    let zstd = place.file("c", zstd::encode_all(person("d").as_bytes(), 3).unwrap());
    let run = place.import(&[&plain, &gzip, &zstd]);
    check_summary(&run, 0, "Processed 4 entries, imported 4, skipped 0, rejected 0 and migrated ");
    assert!(run.output.ends_with("/sec)\n"), "{run:?}");
    assert_eq!(run.errors, "");
    assert_eq!(place.names(), ["cn=a", "cn=b", "cn=c", "cn=d"]);
    place.check_whole();
}

#[test]
fn line_ends_marks_and_odd_octets_are_read_right() {
    for (text, line) in [
        (format!("\u{feff}{}dn: bad\nsn: x\n", person("a")), 6),
        (format!("{}dn: bad\nsn: x", person("a").replace('\n', "\r\n")), 6),
        (format!("{}dn: bad\r\nsn: x\r\n\r\n{}", person("a"), person("b")), 6),
        (format!("version: 1\n\n# c\n  c\n{}\n\n\ndn: bad\nsn:: eA==", person("a")), 13),
        (format!("{}dn: cn=\0x,{SUFFIX}\nobjectClass: person\n", person("a")), 6),
        (format!("{}dn: cn=x,{SUFFIX}\nchangetype: modify\nadd: sn\nsn: x\n", person("a")), 6),
        (format!("{}dn: cn=x,{SUFFIX}\n cn=y\ncn: y\0\n", person("a")), 6),
    ] {
        let place = Place::new();
        let file = place.file("in.ldif", &text);
        let run = place.import(&[&file]);
        assert_eq!(run.code, 2, "{text:?}: {run:?}");
        let want = format!("roster: error: {file}:{line}: ");
        assert!(run.errors.starts_with(&want), "{text:?}: {run:?}\nlacks {want}");
        assert!(place.names().is_empty(), "{text:?}");
        let rejects = place.path("rejects.ldif");
        let run = place.import(&[&file, "--reject-file", &rejects]);
        assert_eq!(run.code, 0, "{text:?}: {run:?}");
        assert!(place.names().contains(&"cn=a".to_owned()), "{text:?}");
    }
}

#[test]
fn an_entry_that_says_it_is_added_is_an_entry() {
    let place = Place::new();
    let text = person("a").replacen("objectClass", "changetype: add\nobjectClass", 1);
    check_summary(&place.import(&[&place.file("in.ldif", text)]), 0, "Processed 1 entries, imp");
    assert_eq!(place.names(), ["cn=a"]);
}

#[test]
fn a_control_that_is_critical_is_refused_and_others_are_left_out() {
    let controlled = |control: &str| {
        person("a").replacen("objectClass", &format!("{control}\nchangetype: add\nobjectClass"), 1)
    };
    let place = Place::new();
    let file = place.file("in.ldif", controlled("control: 1.2.3 true: x"));
    let run = place.import(&[&file]);
    assert_eq!(run.code, 2, "{run:?}");
    let want = format!("roster: error: {file}:1: a critical control asks for something that only");
    assert!(run.errors.starts_with(&want), "{run:?}");
    assert!(place.names().is_empty());
    let file = place.file("in.ldif", controlled("control: 1.2.3 false\ncontrol: 1.2.4:: YWI="));
    let run = place.import(&[&file]);
    check_summary(&run, 0, "Processed 1 entries, imported 1");
    let want = "roster: warning: 2 controls are not critical and left out";
    assert!(run.errors.contains(want), "{run:?}");
    assert_eq!(place.names(), ["cn=a"]);
}

#[test]
fn base64_without_its_padding_is_refused() {
    let place = Place::new();
    let file = place.file("in.ldif", format!("{}\ndescription:: YWI\n", person("a").trim_end()));
    let run = place.import(&[&file]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.errors.contains("filled up with '='"), "{run:?}");
    assert!(place.names().is_empty());
}

#[test]
fn a_check_reports_every_problem_and_loads_nothing() {
    let place = Place::new();
    let before = place.export();
    let bad = |name: &str| {
        format!("dn: cn={name},{SUFFIX}\nobjectClass: person\ncn: {name}\nsn: x\nshoeSize: 9\n\n")
    };
    let orphan = format!("dn: cn=o,ou=none,{SUFFIX}\nobjectClass: person\ncn: o\nsn: o\n\n");
    let one = place.file("one.ldif", format!("{}{}{orphan}", person("a"), bad("b")));
    let two = place.file("two.ldif", format!("{}{}nonsense\n", bad("c"), person("a")));
    let run = place.import(&["--check", &one, &two]);
    check_summary(&run, 1, "Processed 6 entries, imported 1, skipped 0, rejected 5 and migrated 0");
    for want in [
        format!("roster: error: {one}:6: entry 'cn=b,{SUFFIX}': attribute type 'shoeSize' is not"),
        format!("roster: error: {two}:1: entry 'cn=c,{SUFFIX}': attribute type 'shoeSize' is not"),
        format!("roster: error: {two}:7: entry 'cn=a,{SUFFIX}' exists already, from {one}:1\n"),
        format!("roster: error: {two}:12: ':' is missing"),
        format!("roster: error: {one}:12: entry 'cn=o,ou=none,{SUFFIX}': its superior 'ou=none,"),
    ] {
        assert!(run.errors.contains(&want), "{run:?}\nlacks {want}");
    }
    let first = run.output.lines().next().unwrap();
    assert_eq!(first.trim(), "2 × attribute type 'shoeSize' is not defined");
    assert_eq!(place.export(), before);
    let good = place.file("good.ldif", person("a"));
    check_summary(&place.import(&["--check", &good]), 0, "Processed 1 entries, imported 1, ");
    assert_eq!(place.export(), before);
    place.check_whole();
}

#[test]
fn of_very_many_problems_the_first_are_shown_and_all_counted() {
    let place = Place::new();
    let file = place.file("in.ldif", "dn: x\nsn: x\n\n".repeat(1500));
    let run = place.import(&["--check", &file]);
    check_summary(&run, 1, "Processed 1500 entries, imported 0, skipped 0, rejected 1500 ");
    assert_eq!(run.errors.lines().count(), 1001, "{}", run.errors);
    assert!(run.errors.ends_with("… and 500 more\n"));
}

#[test]
fn rejected_entries_can_be_corrected_and_imported() {
    let place = Place::new();
    let bad = format!("# of a colleague\ndn: cn=b,{SUFFIX}\nobjectClass: person\ncn: b \n\n");
    let orphan = format!("dn: cn=o,ou=none,{SUFFIX}\nobjectClass: person\ncn: o\nsn: o");
    let text = format!("{}{bad}{}{}{orphan}", person("a"), person("c"), person("a"));
    let file = place.file("in.ldif", text);
    let rejects = place.path("rejects.ldif");
    let run = place.import(&["--reject-file", &rejects, &file]);
    check_summary(&run, 0, "Processed 5 entries, imported 2, skipped 0, rejected 3 ");
    assert!(run.errors.contains("3 entries were refused: see "), "{run:?}");
    assert_eq!(place.names(), ["cn=a", "cn=c"]);
    let text = std::fs::read_to_string(&rejects).unwrap();
    assert_eq!(
        text,
        format!(
            "# {file}:7: entry 'cn=b,{SUFFIX}': object class 'person' requires attribute 'sn'\n# \
             of a colleague\ndn: cn=b,{SUFFIX}\nobjectClass: person\ncn: b \n\n# {file}:16: entry \
             'cn=a,{SUFFIX}' exists already, from line 1\n{}# {file}:21: entry \
             'cn=o,ou=none,{SUFFIX}': its superior 'ou=none,{SUFFIX}' does not exist\n{orphan}\n\n",
            person("a")
        )
    );
    let superior = format!("dn: ou=none,{SUFFIX}\nobjectClass: organizationalUnit\n\n");
    let corrected = text.replace("cn: b \n", "cn: b\nsn: b\n");
    let corrected = corrected.replacen(&person("a"), "\n", 1);
    let file = place.file("again.ldif", format!("{superior}{corrected}"));
    check_summary(&place.import(&[&file]), 0, "Processed 3 entries, imported 3, ");
    assert_eq!(place.names(), ["cn=a", "cn=b", "cn=c", "cn=o,ou=none", "ou=none"]);
    place.check_whole();
}

#[test]
fn what_is_left_out_is_kept_in_a_file() {
    let place = Place::new();
    let unit = format!("dn: ou=x,{SUFFIX}\nobjectClass: organizationalUnit\n\n");
    let inside = person("i").replace(&format!("cn=i,{SUFFIX}"), &format!("cn=i,ou=x,{SUFFIX}"));
    let file = place.file("in.ldif", format!("{}{}{unit}{inside}", person("a"), person("b")));
    let skips = place.path("skips.ldif");
    let run = place.import(&[
        "--exclude-branch",
        &format!("OU=X,{SUFFIX}"),
        "--exclude-filter",
        "(sn=b)",
        "--skip-file",
        &skips,
        &file,
    ]);
    check_summary(&run, 0, "Processed 4 entries, imported 1, skipped 3, rejected 0 ");
    assert_eq!(place.names(), ["cn=a"]);
    let text = std::fs::read_to_string(&skips).unwrap();
    let want = format!(
        "# {file}:6: it matches the exclude filter\n{}# {file}:11: it is in an excluded branch\n\
         {unit}# {file}:14: it is in an excluded branch\n{inside}",
        person("b")
    );
    assert_eq!(text, want);
    check_summary(&place.import(&[&skips]), 0, "Processed 3 entries, imported 3, ");
    let check = |arguments: &[&str], want: &str| common::check(arguments, 2, want);
    let data = place.data.as_str();
    check(&["import", "-d", data, "--include-filter", "(x", &file], "is not a search filter");
    check(&["import", "-d", data, "--include-branch", "x", &file], "invalid value 'x'");
    check(&["import", "-d", data, "--clear", "--replace-existing", &file], "cannot be used with");
    check(&["import", "-d", data, "--memory", "5", &file], "at least 256M are needed");
}

#[test]
fn entries_that_are_there_stay_are_replaced_or_go() {
    let place = Place::new();
    let file = |name: &str, text: String| place.file(name, text);
    let first = file("first.ldif", format!("{}{}", person("a"), person("b")));
    check_summary(&place.import(&[&first]), 0, "Processed 2 entries, imported 2, ");
    let changed = person("b").replace("sn: b", "sn: changed");
    let second = file("second.ldif", format!("{changed}{}", person("c")));
    let run = place.import(&["--append", &second]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.errors.contains(&format!("second.ldif:1: an entry 'cn=b,{SUFFIX}' exists already"))
    );
    assert_eq!(place.names(), ["cn=a", "cn=b"]);
    let run = place.import(&["--replace-existing", &second]);
    let want = "Processed 2 entries, imported 2, skipped 0, rejected 0 and migrated 2 ";
    check_summary(&run, 0, want);
    assert_eq!(place.names(), ["cn=a", "cn=b", "cn=c"]);
    assert!(place.export().contains("\nsn: changed\n"));
    place.check_whole();
    let third = file("third.ldif", person("d"));
    let want = "Processed 1 entries, imported 1, skipped 0, rejected 0 and migrated 4 ";
    check_summary(&place.import(&[&third]), 0, want);
    assert_eq!(place.names(), ["cn=a", "cn=b", "cn=c", "cn=d"]);
    place.check_whole();
    let suffix = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    let all = file("all.ldif", format!("{}{suffix}", person("e")));
    let want = "Processed 2 entries, imported 2, skipped 0, rejected 0 and migrated 0 ";
    check_summary(&place.import(&["--clear", &all]), 0, want);
    assert_eq!(place.names(), ["cn=e"]);
    place.check_whole();
}

#[test]
fn passwords_are_stored_by_the_scheme_asked_for() {
    let place = Place::new();
    let text = person("a").replace("sn: a\n", "sn: a\nuserPassword: secret\n");
    let file = place.file("in.ldif", text);
    let run = place.import(&["--password-scheme", "ssha256", &file]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(place.export().contains("userPassword: {SSHA256}"));
}

#[test]
fn progress_is_json_lines_when_asked_for() {
    let place = Place::new();
    let run = place.import(&["--json", &example("people.ldif")]);
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<serde_json::Value> =
        run.errors.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let phase = |line: &serde_json::Value| line["phase"].as_str().unwrap().to_owned();
    assert_eq!(phase(&lines[0]), "load");
    let last = lines.last().unwrap();
    assert_eq!((phase(last).as_str(), last["imported"].as_u64()), ("done", Some(16)));
    assert!(lines.iter().all(|line| line["rate"].is_number()), "{}", run.errors);
}

/// People of the template, as many as take a moment.
fn people(place: &Place, count: u32) -> String {
    let file = place.path("people.ldif");
    let count = count.to_string();
    let template = example("people.template");
    let run = roster(&["generate", &template, "--entries", &count, "-o", &file]);
    assert_eq!(run.code, 0, "{run:?}");
    file
}

#[test]
fn a_load_stays_within_its_memory() {
    const MAX_MIB: u64 = 256;
    let place = Place::new();
    // Beside what is sorted, and would fit into more memory, there are names enough to count.
    let file = people(&place, 8_000);
    let others = (0..8_000).map(|number| person(&format!("{number}"))).collect::<String>();
    let others = place.file("others.ldif", others);
    let max = format!("{MAX_MIB}M");
    let arguments = ["import", "--data", &place.data, "--memory", &max, "--json", &file, &others];
    let mut child = command(&arguments).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // At each line that it tells, the last of which comes when all is done.
    let mut peak_kib = 0;
    for _ in BufReader::new(child.stderr.take().unwrap()).lines() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let own = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = own.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
    }
    assert!(child.wait().unwrap().success());
    assert!(0 < peak_kib && peak_kib < MAX_MIB << 10, "{peak_kib} KiB");
    place.check_whole();
}

/// Starts an import and kills it when it tells of a phase.
fn kill_in(place: &Place, phase: &str, file: &str) -> bool {
    let arguments = ["import", "--data", &place.data, "--json", file];
    let mut child = command(&arguments).spawn().expect("a program of ours can be run and killed");
    let wanted = format!("\"phase\":\"{phase}\"");
    let mut lines =
        BufReader::new(child.stderr.take().expect("a program of ours can be run and killed"))
            .lines();
    let found = lines.any(|line| line.is_ok_and(|line| line.contains(&wanted)));
    child.kill().expect("a program of ours can be run and killed");
    child.wait().expect("a program of ours can be run and killed");
    found
}

#[test]
fn an_import_killed_in_any_phase_leaves_the_old_data() {
    for phase in ["load", "index", "verify"] {
        let in_time = (0..ATTEMPTS_MAX).any(|_| is_killed_in_time(phase));
        assert!(in_time || phase == "verify", "{phase}: it was always at its end");
    }
}

/// An import that is killed in this phase, and what it left; false if it was at its end by then, as
/// it may be on a busy machine.
fn is_killed_in_time(phase: &str) -> bool {
    let place = Place::new();
    let before = place.export();
    let file = people(&place, 1_500);
    assert!(kill_in(&place, phase, &file), "{phase}");
    let after = place.export();
    place.check_whole();
    // What was killed at its very end may have taken the place of the data, as a whole.
    if after.matches("\ndn: uid=user.").count() == 1_500 {
        return false;
    }
    assert_eq!(after, before, "{phase}");
    check_summary(&place.import(&[&file]), 0, "Processed 1502 entries, imported 1502, ");
    assert_eq!(place.names().len(), 1_501, "{phase}");
    place.check_whole();
    true
}

/// How often it is tried to kill an import in time.
const ATTEMPTS_MAX: usize = 10;

#[test]
fn ctrl_c_leaves_the_old_data() {
    let place = Place::new();
    let before = place.export();
    let arguments = ["import", "--data", &place.data, "--json", "-"];
    let mut child = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    // More than a block, so that something is told; then nothing comes any more.
    let text: String = (0..40_000).map(|number| person(&number.to_string())).collect();
    input.write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("\"phase\":\"load\""), "{line}");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    // It waits for input, and ends all the same.
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
    assert_eq!(place.export(), before);
    place.check_whole();
    assert!(Path::new(&place.data).join("data.mdb").exists());
}

#[test]
fn rejected_entries_can_be_written_over_the_file_they_come_from() {
    let place = Place::new();
    let wrong = person("b").replace("sn: b\n", "");
    let file = place.file("in.ldif", format!("{}{wrong}", person("a")));
    let octets = std::fs::read(&file).unwrap();
    let unchanged = |want: &str, arguments: &[&str]| {
        let run = place.import(arguments);
        assert!(run.code == 2 && run.errors.contains(want), "{run:?}\nlacks {want}");
        assert_eq!(std::fs::read(&file).unwrap(), octets, "{arguments:?}");
    };
    let lost = "in.ldif is to be imported and would be overwritten";
    unchanged(lost, &["--check", "--reject-file", &file, &file]);
    unchanged(lost, &["--schema-file", &file, &file]);
    let both = "cannot be both the reject file and the skip file";
    unchanged(both, &["--reject-file", &file, "--skip-file", &file, &file]);
    // Nothing is loaded, so nothing is taken away.
    unchanged("is not a search filter", &["--include-filter", "(x", "--reject-file", &file, &file]);
    assert!(place.names().is_empty());

    let run = place.import(&["--reject-file", &file, &file]);
    check_summary(&run, 0, "Processed 2 entries, imported 1, skipped 0, rejected 1 ");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# ") && text.ends_with(&wrong), "{text}");
    std::fs::write(&file, text.replace("cn: b\n", "cn: b\nsn: b\n")).unwrap();
    let run = place.import(&["--reject-file", &file, &file]);
    check_summary(&run, 0, "Processed 1 entries, imported 1, skipped 0, rejected 0 ");
    assert_eq!(place.names(), ["cn=a", "cn=b"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
    let left = std::fs::read_dir(place.folder.path()).unwrap().count();
    assert_eq!(left, 2, "the file and the directory");
}

#[test]
fn only_their_owner_reads_what_was_refused_or_left_out() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let wrong = person("b").replace("sn: b\n", "userPassword: secret\n");
    let file = place.file("in.ldif", format!("{}{wrong}", person("a")));
    let (rejects, skips) = (place.file("rejects", "old"), place.path("skips"));
    let filter = ["--exclude-filter", "(cn=a)"];
    let files = ["--reject-file", &rejects, "--skip-file", &skips, &file];
    check_summary(&place.import(&[&filter[..], &files].concat()), 0, "Processed 2 entries, imp");
    for (path, want) in [(rejects, "secret"), (skips, "cn: a")] {
        assert!(std::fs::read_to_string(&path).unwrap().contains(want), "{path}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path}");
    }
}
