//! Branches that go at the source and come again.

use super::*;
use ldap::message::{Control, ControlsBuf, DeleteRequest};

/// Deletes an entry with all below it.
pub(crate) fn delete_tree(there: &mut Connection, name: &str) {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    let request = Request::Delete(DeleteRequest { name });
    let done = there.request_with(request, controls.as_ref()).unwrap();
    assert!(done.is_success(), "{done}");
}

fn check_top_made_anew(way: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = bare_of(folder, "source", SUFFIX);
    let machine = bare(folder);
    let root = Root(ADMIN_DN, ADMIN_PASSWORD);
    let mut there = connect(&source.url(), root).unwrap();
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    assert!(there.add(&format!("ou=old,{SUFFIX}"), &unit).unwrap().is_success());
    let follower = Follower::of(folder, &source.url(), root, &machine);
    let first = follower.start("first.log", &["--by", way]);
    first.wait_for("all is here after");
    delete_tree(&mut there, SUFFIX);
    if way == "changelog" {
        wait_for("the branch to go", || (!has_entry(&machine, SUFFIX)).then_some(()));
    } else {
        // This source tells nothing of it while it has none.
        first.wait_for("the source ends the search: noSuchObject");
    }
    let domain: [(&str, &[&str]); 1] = [("objectClass", &["domain"])];
    assert!(there.add(SUFFIX, &domain).unwrap().is_success());
    let names = ["a", "b"].map(|name| format!("ou={name},{SUFFIX}"));
    for name in &names {
        assert!(there.add(name, &unit).unwrap().is_success());
    }
    for name in &names {
        wait_for(&format!("{name}: {}", first.said()), || has_entry(&machine, name).then_some(()));
    }
    assert!(!first.said().contains("refused:"), "{}", first.said());
    drop(first);
    let run = follower.run(&["--by", way, "--cut-over", "--source-is-read-only"]);
    check_all(&run, 0, &["switched over", "; 0 entries were refused"]);
    check_equal(folder, &source.url(), root, &machine, &[SUFFIX], STAMPS);
}

#[test]
fn a_branch_that_is_made_anew_is_followed_by_its_change_log() {
    check_top_made_anew("changelog");
}

#[test]
fn a_branch_that_is_made_anew_is_followed_by_synchronisation() {
    check_top_made_anew("sync");
}
