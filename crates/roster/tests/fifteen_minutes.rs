//! The first quarter of an hour: every command of the page, as it stands there, in one shell.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use common::{have, roster};
use testing::crash::server::pause;
use testing::ports::free_addresses;

const PAGE: &str = include_str!("../../../docs/how-to/fifteen-minutes.md");
/// What ends the server with the shell, and waits for it before anything is asked.
const SERVED: &str = "trap \"kill $!\" EXIT\nuntil [ -S data/ldapi ]; do sleep 0.05; done\n";
/// The number of the last change, which the page has as it was when it was written.
const LAST: &str = "$(roster config history --json | tail -n 1 | sed 's/.*\"number\"://; s/,.*//')";

/// The commands of the page as a script that ends with the first that fails, each behind a line of
/// its own.
fn script([ldap, ldaps]: [&str; 2]) -> String {
    let mut text = String::from("set -e\n");
    let mut is_console = false;
    for line in PAGE.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            let command = command
                .replace("127.0.0.1:1389", ldap)
                .replace("127.0.0.1:1636", ldaps)
                .replace(":1389", &ldap.replace("127.0.0.1", ""))
                .replace(":1636", &ldaps.replace("127.0.0.1", ""))
                .replace("undo 10", &format!("undo {LAST}"));
            writeln!(text, "printf '### %s\\n' {:?}\n{command}", command.replace(['$', '`'], " "))
                .unwrap();
            if command.ends_with('&') {
                text += SERVED;
            }
        } else if let Some(more) = line.strip_prefix('>').filter(|_| is_console) {
            writeln!(text, "{}", more.strip_prefix(' ').unwrap_or(more)).unwrap();
        }
    }
    text
}

#[test]
fn every_command_of_the_page_works_as_it_stands() {
    if !have("ldapwhoami", &["-VV"]) || !have("openssl", &["version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (bin, work) = (folder.path().join("bin"), folder.path().join("work"));
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&work).unwrap();
    symlink(env!("CARGO_BIN_EXE_roster"), bin.join("roster")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let addresses = free_addresses::<2>().unwrap().map(|address| address.to_string());
    let output = Command::new("bash")
        .args(["-c", &script([&addresses[0], &addresses[1]])])
        .current_dir(&work)
        .env("PATH", path)
        .env_remove("LDAPURI")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{errors}");
    for want in [
        "dn:uid=anna,ou=people,dc=example,dc=com",
        "cn=staff,dc=example,dc=com",
        "employeeType.equality",
        "o=partners: added, with its entry",
        "nightly: next ",
        "completed successfully",
        "mail: anna@example.com",
        "1 entries are back",
    ] {
        assert!(text.contains(want), "{want}\n{text}\n{errors}");
    }
    // Before the certificate is another one, behind that, and when the entry is back.
    assert_eq!(text.matches("\ndn:uid=anna").count(), 3, "{text}");
    assert!(errors.contains("Invalid credentials"), "{errors}");
    // What the page shows last is written within a second.
    let data = work.join("data").display().to_string();
    for _ in 0..100 {
        if roster(&["log", "failures", "--data", &data]).output.contains("wrong password") {
            return;
        }
        pause(std::time::Duration::from_millis(50));
    }
    panic!("nobody failed to sign in");
}
