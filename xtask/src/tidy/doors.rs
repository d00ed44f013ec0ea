//! Where the crates below the server reach outside the process: files, threads, sockets, chance.
//! Everything else gets these as parameters, so that a test can put its own in their place.
//!
//! Invariant: a door that is not used is a finding, too.

use super::Finding;
use super::source::File;

/// The rule's name.
const RULE: &str = "door";

/// The crates that the rule is about.
const CRATES: &[&str] =
    &["aci", "auth", "directory", "environment", "history", "journal", "ldap", "schema", "store"];

/// A way to reach outside.
struct Way {
    what: &'static str,
    /// Any of these in a line is one.
    signs: &'static [&'static str],
    /// The files that may.
    doors: &'static [&'static str],
}

const WAYS: &[Way] = &[
    Way {
        what: "a thread is started",
        signs: &["thread::Builder", "thread::spawn", "thread::scope"],
        doors: &[
            // Fills the archive of changes.
            "crates/directory/src/archiving.rs",
            // Wakes searches that wait for changes.
            "crates/directory/src/read/streams/waiting.rs",
            // Sends updates again that another node is to decide.
            "crates/directory/src/forward/outgoing.rs",
            // Sweeps out passwords that are too old.
            "crates/directory/src/bind/password_cache.rs",
            // Asks whoever leads how fresh the data are, for reads that wait.
            "crates/directory/src/read/fresh/waiting.rs",
            // Looks for SCRAM keys of accounts after the start.
            "crates/directory/src/bind/sasl/scram/known.rs",
            // Writes what binds left in accounts.
            "crates/directory/src/password_policy/account_writer.rs",
            // Waits for the last flush, for a limited time.
            "crates/directory/src/storage.rs",
            // The writer.
            "crates/directory/src/write/queue.rs",
            // Hashes passwords anew after a bind.
            "crates/directory/src/write/rehash/queue.rs",
            "crates/history/src/log/conformance.rs",
            // Writes and syncs; prepares segments.
            "crates/journal/src/journal.rs",
            // A copy for a backup, or for a member; loads at once; flushes; reads into memory at
            // the start.
            "crates/store/src/base/copy.rs",
            "crates/store/src/base/transfer/paced.rs",
            "crates/store/src/bulk/merge.rs",
            "crates/store/src/bulk/target.rs",
            "crates/store/src/overlay/flush/threads.rs",
            "crates/store/src/upkeep/preload.rs",
        ],
    },
    Way {
        what: "a socket is used",
        signs: &["TcpListener", "TcpStream", "UdpSocket", "UnixListener", "UnixStream", "tokio"],
        doors: &[],
    },
    Way {
        what: "the disk is used",
        signs: &["std::fs", "fs::File", "fs::read", "fs::write", "File::open", "OpenOptions"],
        doors: &[
            "crates/directory/src/config/schema_times.rs",
            "crates/directory/src/opening.rs",
            // Keeps why a server of a cluster serves nobody.
            "crates/directory/src/quarantine.rs",
            "crates/history/src/data_directory.rs",
            "crates/history/src/recovery/accept.rs",
            "crates/history/src/test_support.rs",
            "crates/journal/src/disk.rs",
            "crates/store/src/base/copy.rs",
            "crates/store/src/base/copy_files.rs",
            "crates/store/src/base/data_file.rs",
            "crates/store/src/base/format.rs",
            "crates/store/src/base/lmdb.rs",
            // Copies between members of a cluster, and what one begins with.
            "crates/store/src/base/staged.rs",
            "crates/store/src/base/transfer.rs",
            "crates/store/src/base/transfer/paced.rs",
            "crates/store/src/bulk/spill.rs",
            "crates/store/src/upkeep/preload.rs",
        ],
    },
    Way {
        what: "the system is asked for chance",
        signs: &["OsChance", "os_chance()", "getrandom::"],
        doors: &[
            // A new directory, before there are options.
            "crates/directory/src/opening.rs",
            "crates/directory/src/request/cookie.rs",
            "crates/environment/src/chance.rs",
            "crates/environment/src/lib.rs",
            // The number of a new data directory.
            "crates/store/src/base/format.rs",
        ],
    },
];

/// Looks through the product code of [`CRATES`].
pub(crate) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let is_meant = |file: &&File| {
        file.is_rust()
            && CRATES.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")))
    };
    for way in WAYS {
        let mut used = Vec::new();
        for file in files.iter().filter(is_meant) {
            let Some(line) = first_sign(way, file) else { continue };
            used.push(file.path.as_str());
            if !way.doors.contains(&file.path.as_str()) {
                let message = format!("{}: take it as a parameter, or name the door", way.what);
                findings.push(Finding { rule: RULE, path: file.path.clone(), line, message });
            }
        }
        for door in way.doors.iter().filter(|door| !used.contains(door)) {
            let message = format!("not needed: {}", way.what);
            findings.push(Finding { rule: RULE, path: (*door).to_owned(), line: 0, message });
        }
    }
}

/// The line of the product code that has a sign first, counted from 1.
fn first_sign(way: &Way, file: &File) -> Option<usize> {
    let lines = file.text.lines().take(file.product_lines());
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    let has_sign = |line: &str| way.signs.iter().any(|sign| line.contains(sign));
    code.enumerate().find(|(_, line)| has_sign(line)).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&[File { path: path.to_owned(), text: text.to_owned() }], &mut findings);
        let here = findings.into_iter().filter(|finding| finding.path == path);
        here.map(|finding| format!("{} {}", finding.line, finding.message)).collect()
    }

    #[test]
    fn what_reaches_outside_has_a_door() {
        let text = "//! Why.\nlet disk = std::fs::read(path);\n";
        let want = "2 the disk is used: take it as a parameter, or name the door";
        assert_eq!(found("crates/aci/src/new.rs", text), [want]);
        assert!(found("crates/server/src/new.rs", text).is_empty());
        let test = "//! Why.\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert!(found("crates/aci/src/new.rs", test).is_empty());
        assert!(found("crates/aci/src/new.rs", "//! std::fs\n// thread::spawn\n").is_empty());
    }
}
