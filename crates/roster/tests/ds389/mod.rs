//! A real 389 Directory Server, set up in a folder.
#![allow(dead_code, reason = "no test uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether all of these programs are there.
pub(crate) fn has(programs: &[&str]) -> bool {
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    if let (Some(missing), true) = (missing, required) {
        panic!("{missing} is required");
    }
    missing.is_none()
}

/// Runs another program; what it has printed.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8_lossy(&all).into_owned();
    assert!(output.status.success(), "{command:?}: {all}");
    all
}

/// The program at a path, with arguments.
pub(crate) fn program(path: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(arguments);
    command
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("folders of tests have plain names")
}

/// An instance of 389 DS in a folder of its own, as `dscreate` makes it.
pub(crate) struct Ds389 {
    prefix: PathBuf,
    pub(crate) url: String,
}

impl Ds389 {
    /// Sets one up, with the sample entries. Its tools find everything below a prefix, and no
    /// systemd there.
    pub(crate) fn create(folder: &Path) -> Self {
        let prefix = folder.join("ds");
        let usual = fs::read_to_string("/usr/share/dirsrv/inf/defaults.inf").unwrap();
        let own = |line: &str| match line.split_once(" = ") {
            Some(("with_systemd", _)) => "with_systemd = 0".to_owned(),
            Some((key @ ("user" | "group"), _)) => format!("{key} = root"),
            Some(("tmp_dir", _)) => format!("tmp_dir = {}/tmp", prefix.display()),
            Some(("inst_dir", _)) => format!("inst_dir = {}/inst", prefix.display()),
            Some((key, path))
                if ["/etc", "/run", "/var", "/dev/shm"].iter().any(|top| path.starts_with(top)) =>
            {
                format!("{key} = {}{}", prefix.display(), path.replace("/dev/shm", "/shm"))
            }
            Some(_) | None => line.to_owned(),
        };
        let defaults: Vec<String> = usual.lines().map(own).collect();
        for name in
            ["share/dirsrv/inf", "etc/default", "etc/tmpfiles.d", "var", "run", "tmp", "shm"]
        {
            fs::create_dir_all(prefix.join(name)).unwrap();
        }
        fs::write(prefix.join("share/dirsrv/inf/defaults.inf"), defaults.join("\n")).unwrap();
        run(&mut program("cp", &["-r", "/etc/dirsrv", text(&prefix.join("etc"))]));
        let [address] = testing::ports::free_addresses().unwrap();
        let answers = folder.join("answers.inf");
        let port = address.port().to_string();
        fs::write(&answers, include_str!("../migration/dscreate.inf").replace("PORT", &port))
            .unwrap();
        let ds = Self { prefix, url: format!("ldap://localhost:{port}") };
        ds.tool("/usr/sbin/dscreate", &["from-file", text(&answers)]);
        ds
    }

    #[track_caller]
    pub(crate) fn tool(&self, path: &str, arguments: &[&str]) -> String {
        run(program(path, arguments).env("PREFIX", &self.prefix))
    }

    #[track_caller]
    pub(crate) fn modify(&self, folder: &Path, ldif: &str) {
        let file = folder.join("changes.ldif");
        fs::write(&file, ldif).unwrap();
        let admin = ["-x", "-H", &self.url, "-D", "cn=Directory Manager", "-w", "secret12"];
        run(program("/usr/bin/ldapmodify", &admin).args(["-f", text(&file)]));
    }

    #[track_caller]
    pub(crate) fn local_policy(&self, arguments: &[&str]) {
        let admin = ["-D", "cn=Directory Manager", "-w", "secret12", &self.url, "localpwp"];
        self.tool("/usr/sbin/dsconf", &[&admin, arguments].concat());
    }

    /// Its folder in `/etc`, or what stands for that.
    pub(crate) fn config(&self) -> PathBuf {
        self.prefix.join("etc/dirsrv/slapd-rostertest")
    }
}

impl Drop for Ds389 {
    fn drop(&mut self) {
        let mut stop = program("/usr/sbin/dsctl", &["rostertest", "stop"]);
        let _ = stop.env("PREFIX", &self.prefix).stdin(Stdio::null()).output();
    }
}
