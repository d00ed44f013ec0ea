//! The servers that roster is compared with, installed and configured from `scripts/peers/`, and an
//! echo server as the floor of them all.
//!
//! Invariant: each keeps everything in one folder, listens on the loopback address only, and ends
//! with its value.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testing::crash::server::SUFFIX;

use super::guard::Guard;
use super::ldif::{fill, merge};
use super::{Other, Process, Server, free_address};
use crate::shell::{command, source, succeeds, target};
use crate::test::Package;

const SLAPD: &str = "/usr/sbin/slapd";
pub(super) const SLAPD_DN: &str = "cn=admin,dc=example,dc=com";
pub(super) const ROOT_DN: &str = "cn=Directory Manager";
pub(super) const PASSWORD: &str = "secret";
/// The same as 389 Directory Server stores it.
const PASSWORD_STORED: &str = "{SSHA}rQLoE6yTIHzm7Wrt2s8xzLKbjzTXq/5S";
const NS_SLAPD: &str = "/usr/sbin/ns-slapd";
/// What the package has for its own setup.
const DSE_TEMPLATE: &str = "/usr/share/dirsrv/data/template-dse.ldif";
const OPENDJ_VERSION: &str = "5.0.3";
/// Everything that OpenDJ caches, and as much again for what it does; a collector for throughput,
/// which takes the least CPU.
const OPENDJ_JAVA: &str = "-server -Xms3g -Xmx3g -XX:+UseParallelGC";

/// What slapd needs, and whoever changes a server.
pub(crate) const SLAPD_PACKAGES: &[Package] = &[
    Package { name: "slapd", is_present: || Path::new(SLAPD).exists() },
    Package { name: "ldap-utils", is_present: || Path::new("/usr/bin/ldapmodify").exists() },
];
/// What 389 Directory Server needs.
pub(crate) const DS389_PACKAGES: &[Package] =
    &[Package { name: "389-ds-base", is_present: || Path::new(NS_SLAPD).exists() }];
/// What OpenDJ needs, and its way here.
pub(crate) const OPENDJ_PACKAGES: &[Package] = &[
    Package { name: "default-jdk-headless", is_present: || Path::new("/usr/bin/java").exists() },
    Package { name: "maven", is_present: || succeeds(command("mvn", &["--version"])) },
    Package { name: "unzip", is_present: || succeeds(command("unzip", &["-v"])) },
];

/// The floor: answers a search with so many octets, whatever was asked for.
pub(crate) fn echo(program: &Path, answer_bytes: usize) -> Result<Server, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    let mut serve = Command::new(program);
    serve.args(["--answer-bytes", &answer_bytes.to_string()]);
    serve.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = serve.spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    }
    let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
    let address = address.ok_or_else(|| format!("the echo server says {line:?}"))?;
    let guard = Guard::process(child.id());
    let (folder, process) = (PathBuf::new(), Process::Other(Other { serve, child }));
    Ok(Server { name: "echo", address, dn: ROOT_DN, password: PASSWORD, folder, process, guard })
}

/// What of slapd differs from one measurement to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slapd<'a> {
    pub(crate) modules: &'a str,
    pub(crate) indexes: &'a str,
    /// Access by attribute; else everybody reads everything.
    pub(crate) has_rules: bool,
    /// A line for each operation, in the file `access`.
    pub(crate) has_log: bool,
    /// Further options of what loads it.
    pub(crate) loading: &'a [&'a str],
}

impl Default for Slapd<'_> {
    fn default() -> Self {
        Self { modules: "", indexes: SLAPD_INDEXES, has_rules: false, has_log: false, loading: &[] }
    }
}

/// Those that all servers have.
pub(super) const SLAPD_INDEXES: &str = "index objectClass,entryUUID eq
index uid,cn,sn,givenName,mail,telephoneNumber,l,title eq,sub";

impl Slapd<'_> {
    /// Configures it in a folder; the command that loads it, `slapadd -q`.
    pub(crate) fn loading(&self, folder: &Path, people: &Path) -> Result<Command, String> {
        fs::create_dir_all(folder.join("db")).map_err(|error| error.to_string())?;
        let rules = match self.has_rules {
            true => script("slapd-access.conf")?,
            false => "access to * by * read".to_owned(),
        };
        let places = [
            ("folder", text(folder)),
            ("suffix", SUFFIX),
            ("admin", SLAPD_DN),
            ("password", PASSWORD),
            ("modules", self.modules),
            ("indexes", self.indexes),
            ("rules", &rules),
        ];
        let config = folder.join("slapd.conf");
        write(&config, &fill(&script("slapd.conf")?, &places))?;
        let mut load = Command::new(SLAPD);
        load.args(["-T", "add", "-q"]).args(self.loading);
        load.arg("-f").arg(&config).arg("-l").arg(people);
        Ok(load)
    }

    /// Configures it, and loads it unless it is loaded.
    pub(super) fn load(&self, folder: &Path, people: &Path) -> Result<(), String> {
        let load = self.loading(folder, people)?;
        // A load that was broken off is begun again.
        let loaded = folder.join("loaded");
        if !loaded.exists() {
            let _ = fs::remove_file(folder.join("db/data.mdb"));
            done(load)?;
            write(&loaded, "")?;
        }
        Ok(())
    }

    /// Loads it, unless it is loaded, and starts it.
    pub(crate) fn start(&self, folder: &Path, people: &Path) -> Result<Server, String> {
        self.start_at(free_address()?, folder, people)
    }

    /// Likewise, at an address that others know already.
    pub(super) fn start_at(
        &self,
        address: SocketAddr,
        folder: &Path,
        people: &Path,
    ) -> Result<Server, String> {
        self.load(folder, people)?;
        let mut serve = Command::new(SLAPD);
        serve.args(["-h", &format!("ldap://{address}/"), "-f"]).arg(folder.join("slapd.conf"));
        serve.args(["-d", if self.has_log { "stats" } else { "0" }]);
        let log = fs::File::create(folder.join("access")).map_err(|error| error.to_string())?;
        serve.stderr(log);
        start("slapd", folder, address, SLAPD_DN, serve)
    }
}

/// 389 Directory Server: its own template with our changes, in a folder of ours; `dscreate` would
/// write below `/etc` and start it with systemd.
pub(crate) fn ds389(folder: &Path, people: &Path) -> Result<Server, String> {
    let config = folder.join("config");
    for name in ["config/schema", "db/userRoot", "run", "log", "ldif", "bak", "lock", "inst"] {
        fs::create_dir_all(folder.join(name)).map_err(|error| error.to_string())?;
    }
    for (from, to) in [
        ("/etc/dirsrv/config/slapd-collations.conf", "slapd-collations.conf"),
        ("/etc/dirsrv/config/certmap.conf", "certmap.conf"),
        ("/etc/dirsrv/schema/99user.ldif", "schema/99user.ldif"),
    ] {
        fs::copy(from, config.join(to)).map_err(|error| format!("{from}: {error}"))?;
    }
    let address = free_address()?;
    let template =
        fs::read_to_string(DSE_TEMPLATE).map_err(|error| format!("{DSE_TEMPLATE}: {error}"))?;
    let port = address.port().to_string();
    let mut base = template;
    for (name, value) in [
        ("ds_port", port.as_str()),
        ("ds_user", &user()),
        ("ds_passwd", PASSWORD_STORED),
        ("rootdn", ROOT_DN),
        ("fqdn", "localhost"),
        ("ldapi_enabled", "off"),
        ("ldapi_autobind", "off"),
        ("ldapi", text(&folder.join("run/ldapi"))),
        ("config_dir", text(&config)),
        ("cert_dir", text(&config)),
        ("schema_dir", text(&config.join("schema"))),
        ("db_dir", text(&folder.join("db"))),
        ("db_home_dir", text(&folder.join("db"))),
        ("db_lib", "bdb"),
        ("ds_suffix", SUFFIX),
        ("run_dir", text(&folder.join("run"))),
        ("log_dir", text(&folder.join("log"))),
        ("ldif_dir", text(&folder.join("ldif"))),
        ("bak_dir", text(&folder.join("bak"))),
        ("lock_dir", text(&folder.join("lock"))),
        ("inst_dir", text(&folder.join("inst"))),
        ("tmp_dir", "/tmp"),
    ] {
        base = base.replace(&format!("%{name}%"), value);
    }
    let places = [("folder", text(folder)), ("suffix", SUFFIX), ("password", PASSWORD_STORED)];
    let changes = fill(&script("389.ldif")?, &places);
    write(&config.join("dse.ldif"), &merge(&base, &changes))?;
    let mut load = Command::new(NS_SLAPD);
    load.args(["ldif2db", "-n", "userRoot", "-D"]).arg(&config).arg("-i").arg(people);
    let log = || fs::read_to_string(folder.join("log/errors")).unwrap_or_default();
    done(load).map_err(|error| format!("{error}{}", log()))?;
    let mut serve = Command::new(NS_SLAPD);
    serve.arg("-D").arg(&config).arg("-i").arg(folder.join("run/pid")).args(["-d", "0"]);
    serve.stderr(Stdio::null());
    start("389 DS", folder, address, ROOT_DN, serve)
}

/// OpenDJ: its own setup, with our changes.
pub(crate) fn opendj(folder: &Path, people: &Path) -> Result<Server, String> {
    let set_up = OpenDj::set_up(folder)?;
    set_up.load(people)?;
    set_up.start()
}

/// A set-up OpenDJ.
pub(super) struct OpenDj {
    folder: PathBuf,
    pub(super) home: PathBuf,
    pub(super) address: SocketAddr,
    /// Where its own tools ask it.
    pub(super) admin: SocketAddr,
}

impl OpenDj {
    pub(super) fn set_up(folder: &Path) -> Result<Self, String> {
        let archive = opendj_archive()?;
        let mut unpack = Command::new("unzip");
        unpack.arg("-q").arg(archive).arg("-d").arg(folder);
        done(unpack)?;
        let home = folder.join("opendj");
        let (address, admin, jmx) = (free_address()?, free_address()?, free_address()?);
        let port = |address: SocketAddr| address.port().to_string();
        let mut setup = Command::new(home.join("setup"));
        setup.args(["--cli", "--no-prompt", "--quiet", "--doNotStart", "--acceptLicense"]);
        setup.args(["--hostname", "localhost", "--ldapPort", &port(address)]);
        setup.args(["--adminConnectorPort", &port(admin), "--jmxPort", &port(jmx)]);
        setup.args(["--skipPortCheck", "--rootUserDN", ROOT_DN, "--rootUserPassword", PASSWORD]);
        setup.args(["--baseDN", SUFFIX]);
        done(setup)?;
        let config = home.join("config/config.ldif");
        let base = fs::read_to_string(&config).map_err(|error| error.to_string())?;
        write(&config, &merge(&base, &script("opendj.ldif")?))?;
        Ok(Self { folder: folder.to_owned(), home, address, admin })
    }

    pub(super) fn load(&self, people: &Path) -> Result<(), String> {
        let mut load = Command::new(self.home.join("bin/import-ldif"));
        load.env("OPENDJ_JAVA_ARGS", OPENDJ_JAVA).args(["--offline", "--backendID", "userRoot"]);
        load.arg("--ldifFile").arg(people);
        done(load)
    }

    pub(super) fn start(&self) -> Result<Server, String> {
        let mut serve = Command::new(self.home.join("bin/start-ds"));
        // The script becomes the server: the process id stays.
        serve.arg("--nodetach").env("OPENDJ_JAVA_ARGS", OPENDJ_JAVA).stderr(Stdio::null());
        start("OpenDJ", &self.folder, self.address, ROOT_DN, serve)
    }
}

/// The archive, as Maven Central has it; kept for the next time.
fn opendj_archive() -> Result<PathBuf, String> {
    let folder = target().join("peers");
    let archive = folder.join(format!("opendj-server-legacy-{OPENDJ_VERSION}.zip"));
    if !archive.exists() {
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let name =
            format!("org.openidentityplatform.opendj:opendj-server-legacy:{OPENDJ_VERSION}:zip");
        let mut get = Command::new("mvn");
        get.args(["--batch-mode", "--quiet", "dependency:copy", &format!("-Dartifact={name}")]);
        get.arg(format!("-DoutputDirectory={}", folder.display())).current_dir(&folder);
        done(get)?;
    }
    Ok(archive)
}

fn start(
    name: &'static str,
    folder: &Path,
    address: SocketAddr,
    dn: &'static str,
    mut serve: Command,
) -> Result<Server, String> {
    serve.stdin(Stdio::null()).stdout(Stdio::null());
    let child = serve.spawn().map_err(|error| format!("{name}: {error}"))?;
    let guard = Guard::process(child.id());
    let (folder, process) = (folder.to_owned(), Process::Other(Other { serve, child }));
    let server = Server { name, address, dn, password: PASSWORD, folder, process, guard };
    server.wait()?;
    Ok(server)
}

pub(super) fn done(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{program}: {}", String::from_utf8_lossy(&said)))
}

fn script(name: &str) -> Result<String, String> {
    source(&format!("scripts/peers/{name}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Who runs this: whom the server is to stay.
fn user() -> String {
    crate::shell::output(command("id", &["-un"])).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slapd_takes_the_configuration() {
        let folder = testing::crash::server::scratch("slapd-configuration");
        for has_rules in [false, true] {
            let slapd = Slapd { has_rules, ..Slapd::default() };
            slapd.loading(&folder, Path::new("")).unwrap();
            let mut test = Command::new(SLAPD);
            test.args(["-T", "test", "-u", "-f"]).arg(folder.join("slapd.conf"));
            let tested = done(test);
            fs::remove_dir_all(&folder).unwrap();
            assert_eq!(tested, Ok(()));
        }
    }
}
