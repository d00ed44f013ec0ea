//! `cargo xtask test`: installs the test clients that are missing, then runs every test.
//!
//! `cargo test` alone needs no set-up; this adds real LDAP clients and another server.

mod programs;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use self::programs::Program;
use crate::shell::{cargo, command, root, step, succeeds};
use crate::{Error, conform, libraries, no_arguments, shell};

/// A Debian package and how to see that what we need of it is there.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) is_present: fn() -> bool,
}

const PACKAGES: &[Package] = &[
    Package { name: "ldap-utils", is_present: || Path::new("/usr/bin/ldapsearch").exists() },
    Package {
        // Debian's python3, not another one that comes first in the path.
        name: "python3-ldap",
        is_present: || succeeds(command("/usr/bin/python3", &["-c", "import ldap"])),
    },
    Package {
        name: "libsasl2-modules",
        is_present: || succeeds(command("sh", &["-c", "ls /usr/lib/*/sasl2/libscram.so"])),
    },
    Package { name: "openssl", is_present: || Path::new("/usr/bin/openssl").exists() },
    Package { name: "slapd", is_present: testing::slapd::Slapd::is_installed },
    Package { name: "389-ds-base", is_present: || Path::new("/usr/sbin/ns-slapd").exists() },
    Package { name: "default-jdk-headless", is_present: || Path::new("/usr/bin/javac").exists() },
    Package {
        name: "golang-go",
        is_present: || {
            ["/usr/bin/go", "/usr/local/go/bin/go"].iter().any(|path| Path::new(path).exists())
        },
    },
    Package {
        name: "libnet-ldap-perl",
        is_present: || succeeds(command("perl", &["-MNet::LDAP", "-e1"])),
    },
    Package {
        name: "libio-socket-ssl-perl",
        is_present: || succeeds(command("perl", &["-MIO::Socket::SSL", "-e1"])),
    },
    Package { name: "php-cli", is_present: || succeeds(command("php", &["--version"])) },
    Package {
        name: "php-ldap",
        is_present: || {
            succeeds(command("php", &["-r", "exit((int) !function_exists('ldap_bind'));"]))
        },
    },
    Package {
        name: "python3-ldap3",
        is_present: || succeeds(command("/usr/bin/python3", &["-c", "import ldap3"])),
    },
    Package {
        name: "python3-bonsai",
        is_present: || succeeds(command("/usr/bin/python3", &["-c", "import bonsai"])),
    },
    Package { name: "nodejs", is_present: || succeeds(command("node", &["--version"])) },
    Package { name: "npm", is_present: || succeeds(command("npm", &["--version"])) },
    Package { name: "maven", is_present: || succeeds(command("mvn", &["--version"])) },
    Package { name: "nats-server", is_present: || Path::new("/usr/sbin/nats-server").exists() },
    Package { name: "haproxy", is_present: || Path::new("/usr/sbin/haproxy").exists() },
    Package { name: "sssd-ldap", is_present: || Path::new("/usr/sbin/sssd").exists() },
    Package { name: "pamtester", is_present: || Path::new("/usr/bin/pamtester").exists() },
    Package { name: "libpam-sss", is_present: || is_library("security/pam_sss.so") },
    Package { name: "libnss-sss", is_present: || is_library("libnss_sss.so.2") },
    Package {
        name: "apache2-bin",
        is_present: || Path::new("/usr/lib/apache2/modules/mod_authnz_ldap.so").exists(),
    },
    Package {
        name: "postfix-ldap",
        is_present: || Path::new("/usr/lib/postfix/postfix-ldap.so").exists(),
    },
];

/// Whether a library is where Debian puts it, on whatever processor.
pub(crate) fn is_library(name: &str) -> bool {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.into_iter().any(|folder| folder.path().join(name).exists())
}

/// Runs every test there is.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    let programs = prepare_and_build()?;
    run_built(&programs)?;
    documented()
}

/// Builds the tests, and installs and fetches meanwhile what they need: that waits for others most
/// of the time.
pub(crate) fn prepare_and_build() -> Result<Vec<Program>, Error> {
    let (prepared, programs) = thread::scope(|scope| {
        let prepared = scope.spawn(prepare);
        let programs = build();
        (prepared.join(), programs)
    });
    prepared.unwrap_or_else(|_| Err(Error::Wrong("a thread panicked".to_owned())))?;
    programs
}

/// Runs the programs that were built, and the dialogues of conform: without cargo, so that others
/// may use it.
pub(crate) fn run_built(programs: &[Program]) -> Result<(), Error> {
    let (tests, conforms) = thread::scope(|scope| {
        let conforms = scope.spawn(|| conform::run(&[]));
        (shell::timed("tests", || run_programs(programs)), conforms.join())
    });
    tests?;
    conforms.unwrap_or_else(|_| Err(Error::Wrong("a thread panicked".to_owned())))?;
    println!("xtask: every test passed, and the dialogues of conform");
    Ok(())
}

/// Installs and fetches what tests need and is missing.
fn prepare() -> Result<(), Error> {
    install_missing(PACKAGES)?;
    libraries::fetch_missing()
}

/// Builds the tests without running them; their programs.
fn build() -> Result<Vec<Program>, Error> {
    let mut found = Vec::new();
    shell::timed("building the tests", || {
        // What the compiler has to say goes where errors go.
        let format = "--message-format=json-render-diagnostics";
        let mut list = tests(&["--no-run", format]);
        let listed = list.stderr(Stdio::inherit()).output();
        let listed = listed.map_err(|error| Error::Wrong(format!("cargo test: {error}")))?;
        if !listed.status.success() {
            return Err(Error::Wrong("the tests do not compile".to_owned()));
        }
        found = programs::of_messages(&String::from_utf8_lossy(&listed.stdout));
        Ok(())
    })?;
    Ok(found)
}

/// Runs the tests that stand in documentation: their programs cargo alone knows.
pub(crate) fn documented() -> Result<(), Error> {
    step("tests in the documentation", tests(&["--doc", "--no-fail-fast"]))
}

/// All tests. Who builds them once has the compiler do each of the crates that are optimised in few
/// pieces, which is less work in all; who changes them has it do again only the piece that changed.
fn tests(more: &[&str]) -> Command {
    let mut tests = cargo(&[&["test", "--workspace", "--quiet"], more].concat());
    if std::env::var_os("CARGO_INCREMENTAL").is_some_and(|value| value == "0") {
        for name in OPTIMISED {
            tests.arg("--config").arg(format!("profile.dev.package.{name}.codegen-units=2"));
        }
    }
    tests
}

/// Our crates that `Cargo.toml` has optimised for tests.
const OPTIMISED: [&str; 7] = ["ldap", "schema", "aci", "cluster", "journal", "store", "directory"];

/// Sums of the lines `test result: ok. 3 passed; 0 failed; …`.
#[derive(Debug, Default, Eq, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, line: &str) {
        if !line.starts_with("test result:") {
            return;
        }
        let words: Vec<&str> = line.split([' ', ';']).collect();
        for pair in words.windows(2) {
            match pair {
                [number, "passed"] => self.passed += number.parse().unwrap_or(0),
                [number, "failed"] => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

fn run_programs(found: &[Program]) -> Result<(), Error> {
    let heard = Mutex::new(Counts::default());
    let hear = |text: &str| {
        let mut counts = heard.lock().unwrap_or_else(PoisonError::into_inner);
        text.lines().for_each(|line| counts.add(line));
        println!("{text}");
    };
    let failed = programs::run(found, &hear)?;
    let counts = heard.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("xtask: {} tests passed, {} failed", counts.passed, counts.failed);
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Error::Wrong(format!("tests failed: {}", failed.join(", ")))),
    }
}

/// Installs those of the packages that are missing.
pub(crate) fn install_missing(packages: &[Package]) -> Result<(), Error> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|package| !(package.is_present)())
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let hint = format!("apt-get install {}", missing.join(" "));
    let reason = format!("test clients are missing: {}", missing.join(", "));
    let Some(prefix) = privilege() else {
        return Err(Error::Unable { reason, hint });
    };
    println!("xtask: {reason}");
    // A failed update may still leave usable lists.
    let _ = step("package lists", apt(prefix, &["update", "-qq"]));
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&missing);
    step("package installation", apt(prefix, &arguments))
}

/// How to become root: not at all, with sudo that asks nothing, or `None`.
fn privilege() -> Option<&'static [&'static str]> {
    if !Path::new("/usr/bin/apt-get").exists() {
        return None;
    }
    let id = shell::output(command("id", &["-u"]))?;
    if id.trim() == "0" {
        return Some(&[]);
    }
    succeeds(command("sudo", &["-n", "true"])).then_some(&["sudo", "-n"])
}

fn apt(prefix: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    if let Some((program, options)) = prefix.split_first() {
        command = Command::new(program);
        command.args(options).arg("env");
    }
    // RUNLEVEL=1 keeps the packages from starting their daemons.
    command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get"]);
    // Mirrors fail at times, and another apt may be at work, as it is on a machine that just began.
    command.args(["-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=600"]);
    command.args(arguments).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_results_are_summed() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 3 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out");
        counts.add("running 7 tests");
        counts.add("test result: ok. 4 passed; 0 failed; 0 ignored");
        assert_eq!(counts, Counts { passed: 7, failed: 1 });
    }
}
