//! Entries whose superiors had other names when they were told of.

use super::again::delete_tree;
use super::*;

/// A server with a branch, and its root.
struct Source {
    machine: Machine,
    there: Connection,
}

const ROOT: Root = Root(ADMIN_DN, ADMIN_PASSWORD);

impl Source {
    /// With those units, each named by all its names below the suffix.
    fn with(folder: &Path, units: &[&str]) -> Self {
        let machine = bare_of(folder, "source", SUFFIX);
        let there = connect(&machine.url(), ROOT).unwrap();
        let mut source = Self { machine, there };
        units.iter().for_each(|unit| source.add(unit));
        source
    }

    fn add(&mut self, unit: &str) {
        let values: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
        let done = self.there.add(&format!("{unit},{SUFFIX}"), &values).unwrap();
        assert!(done.is_success(), "{unit}: {done}");
    }

    fn modify(&mut self, unit: &str) {
        let change = [(ModifyOperation::Replace, "description", &["changed"][..])];
        let done = self.there.modify(&format!("{unit},{SUFFIX}"), &change).unwrap();
        assert!(done.is_success(), "{unit}: {done}");
    }

    fn rename(&mut self, unit: &str, new_rdn: &str, above: Option<&str>) {
        let (name, above) = (format!("{unit},{SUFFIX}"), above.map(|it| format!("{it}{SUFFIX}")));
        let new_superior = above.as_deref();
        let rename = ModifyDnRequest { name: &name, new_rdn, delete_old_rdn: true, new_superior };
        let done = self.there.request_with(Request::ModifyDn(rename), Controls::EMPTY).unwrap();
        assert!(done.is_success(), "{unit}: {done}");
    }

    fn swap(&mut self, one: &str, other: &str) {
        self.rename(one, "ou=between", None);
        self.rename(other, one, None);
        self.rename("ou=between", other, None);
    }
}

/// All entries, by identity.
fn names_of(machine: &Machine) -> std::collections::BTreeMap<String, String> {
    let mut connection = connect(&machine.url(), ROOT).unwrap();
    let attributes = ["entryUUID"];
    let asked = SearchFor {
        attributes: &attributes,
        ..SearchFor::below(SUFFIX, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked).unwrap();
    let one =
        |entry: &client::FoundEntry| Some((entry.text("entryUUID")?.into(), entry.dn.clone()));
    found.entries.iter().filter_map(one).collect()
}

fn wait_until_equal(source: &Source, here: &Machine, following: &Following) {
    let want = names_of(&source.machine);
    let begun = std::time::Instant::now();
    while names_of(here) != want {
        let have = names_of(here);
        assert!(begun.elapsed() < Duration::from_secs(30), "{}\n{have:?}", following.said());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!following.said().contains("refused:"), "{}", following.said());
}

/// A unit that keeps its name while those above it change theirs.
#[test]
fn a_name_that_stays_the_same_below_others_that_are_swapped_is_that_of_another_place() {
    for way in ["sync", "changelog"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut source = Source::with(folder, &["ou=x", "ou=p", "ou=q"]);
        source.rename("ou=x", "ou=x", Some("ou=p,"));
        let machine = bare(folder);
        let follower = Follower::of(folder, &source.machine.url(), ROOT, &machine);
        let first = follower.start("first.log", &["--by", way]);
        first.wait_for("all is here after");
        first.kill();
        source.swap("ou=p", "ou=q");
        source.rename("ou=x,ou=q", "ou=x", Some("ou=p,"));
        let second = follower.start("second.log", &["--by", way, "--refresh", "--take-over"]);
        second.wait_for("all is here after");
        wait_until_equal(&source, &machine, &second);
        drop(second);
        let run = follower.run(&["--by", way, "--cut-over", "--source-is-read-only"]);
        check_all(&run, 0, &["switched over", "; 0 entries were refused"]);
        check_equal(folder, &source.machine.url(), ROOT, &machine, &[SUFFIX], STAMPS);
    }
}

#[test]
fn an_entry_that_is_read_by_a_later_name_comes_below_the_right_one() {
    for way in ["changelog", "sync"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut source = Source::with(folder, &["ou=p", "ou=q", "ou=x,ou=q"]);
        let machine = bare(folder);
        let follower = Follower::of(folder, &source.machine.url(), ROOT, &machine);
        let first = follower.start("first.log", &["--by", way]);
        first.wait_for("all is here after");
        first.kill();
        source.modify("ou=x,ou=q");
        source.swap("ou=p", "ou=q");
        let second = follower.start("second.log", &["--by", way, "--take-over"]);
        second.wait_for("all is here after");
        wait_until_equal(&source, &machine, &second);
        drop(second);
        let run = follower.run(&["--by", way, "--cut-over", "--source-is-read-only"]);
        check_all(&run, 0, &["switched over", "; 0 entries were refused"]);
    }
}

/// Has who follows next begin where the first one was.
fn set_back(machine: &Machine, to: &str) {
    let mut connection = connect(&machine.url(), ROOT).unwrap();
    let now = line(machine);
    let place = |line: &str| {
        let at = line.split_once(" at ").unwrap().1;
        at.split_once(" below ").unwrap().0.split_once('/').unwrap().1.to_owned()
    };
    let then = now.replace(&place(&now), to);
    if now == then {
        return;
    }
    let change = [
        (ModifyOperation::Delete, "roster-follow", &[&*now][..]),
        (ModifyOperation::Add, "roster-follow", &[&*then][..]),
    ];
    let done = connection.modify("cn=Following,cn=config", &change).unwrap();
    assert!(done.is_success(), "{done}");
}

fn line(machine: &Machine) -> String {
    let mut connection = connect(&machine.url(), ROOT).unwrap();
    let attributes = ["roster-follow"];
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &attributes,
        ..SearchFor::below("cn=Following,cn=config", Filter::Present("objectClass"))
    };
    connection.search(&asked).unwrap().entries[0].text("roster-follow").unwrap().to_owned()
}

/// What was done and not noted is told of again, when the names are those of others.
#[test]
fn what_is_told_again_deletes_nothing_that_has_the_name_by_now() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut source =
        Source::with(folder, &["ou=in", "ou=m,ou=in", "ou=n,ou=in", "ou=k,ou=n,ou=in"]);
    let branch = format!("ou=in,{SUFFIX}");
    let machine = bare_of(folder, "here", &branch);
    let mut follower = Follower::of(folder, &source.machine.url(), ROOT, &machine);
    follower.source = format!("{}/{branch}", source.machine.url());
    let first = follower.start("first.log", &["--by", "changelog"]);
    first.wait_for("all is here after");
    wait_for("a position", || line(&machine).contains("/log:").then_some(()));
    let at = line(&machine);
    let at = at.split_once("/log:").unwrap().1.split_once(' ').unwrap().0;
    source.rename("ou=m,ou=in", "ou=m", Some(""));
    source.rename("ou=n,ou=in", "ou=m", None);
    let moved = format!("ou=k,ou=m,{branch}");
    wait_for("the second one", || has_entry(&machine, &moved).then_some(()));
    first.kill();
    set_back(&machine, &format!("log:{at}"));
    let second = follower.start("second.log", &["--by", "changelog", "--take-over"]);
    second.wait_for("all is here after");
    source.add("ou=end,ou=in");
    let end = format!("ou=end,{branch}");
    wait_for("the end", || has_entry(&machine, &end).then_some(()));
    assert!(has_entry(&machine, &moved), "{}", second.said());
    delete_tree(&mut source.there, &format!("ou=m,{branch}"));
    wait_for("its going", || (!has_entry(&machine, &moved)).then_some(()));
}
