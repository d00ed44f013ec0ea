//! How applications look up who is in a group: Postfix, Apache, Keycloak's group mapper (by JNDI),
//! filters as GitLab's, and SSSD, each against nested groups of 100,000 people.
//!
//! `cargo xtask test` installs what is missing of them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, now, pause};

/// People in the groups.
const PEOPLE: u32 = 100_000;
/// People in each of the innermost groups.
const IN_GROUP: u32 = 10_000;
/// People in the smaller of the groups of user names: the last of them.
const IN_NAMES: u32 = 30_000;
/// One of them, who can sign in.
const USER: u32 = 77_777;
const BASE: &str = "dc=example,dc=com";

/// A directory with the groups, and a folder for what the applications need.
struct Site {
    folder: tempfile::TempDir,
    server: Running,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roster = PathBuf::from(env!("CARGO_BIN_EXE_roster"));
        let place = Place { roster, folder: folder.path().join("server"), environment: Vec::new() };
        place.init().unwrap();
        let groups = folder.path().join("groups.ldif");
        fs::write(&groups, ldif()).unwrap();
        place.offline(&["import", groups.to_str().unwrap()]).unwrap();
        let server = place.start().unwrap();
        Self { folder, server }
    }

    fn port(&self) -> String {
        self.server.address.port().to_string()
    }

    /// A folder for one of the applications, which others can read.
    fn folder_of(&self, application: &str) -> PathBuf {
        let folder = self.folder.path().join(application);
        fs::create_dir(&folder).unwrap();
        for one in [self.folder.path(), &folder] {
            fs::set_permissions(one, Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }
}

fn person(number: u32) -> String {
    format!("uid=user.{number},ou=people,{BASE}")
}

fn group(cn: &str) -> String {
    format!("cn={cn},ou=groups,{BASE}")
}

/// `company` has `north` and `south`, each of them five groups, each of them ten thousand people;
/// `everybody` has all of them directly. A guest is in no group. Unix groups have numbers from 5001
/// on; below `names` are groups of user names, 6001 of all and 6002 of some.
fn ldif() -> String {
    let mut text = String::new();
    for unit in ["people", "groups", "names"] {
        write!(text, "dn: ou={unit},{BASE}\nobjectClass: organizationalUnit\nou: {unit}\n\n")
            .unwrap();
    }
    let mut add = |name: &str, number: u32, password: &str| {
        write!(
            text,
            "dn: uid={name},ou=people,{BASE}\nobjectClass: inetOrgPerson\n\
             objectClass: posixAccount\nuid: {name}\ncn: {name}\nsn: {name}\n\
             mail: {name}@example.com\nuidNumber: {}\ngidNumber: 99\nhomeDirectory: /home\n\
             {password}\n",
            10_000 + number
        )
        .unwrap();
    };
    add("guest", 0, "userPassword: secret\n");
    for number in 1..=PEOPLE {
        let password = if number == USER { "userPassword: secret\n" } else { "" };
        add(&format!("user.{number}"), number, password);
    }
    for (cn, gid, first) in [("everybody", 6001, 1), ("some", 6002, PEOPLE - IN_NAMES + 1)] {
        write!(
            text,
            "dn: cn={cn},ou=names,{BASE}\nobjectClass: device\nobjectClass: posixGroup\ncn: {cn}\n\
             gidNumber: {gid}\n"
        )
        .unwrap();
        (first..=PEOPLE).for_each(|one| writeln!(text, "memberUid: user.{one}").unwrap());
        text.push('\n');
    }
    let mut gid = 5000;
    let mut add = |cn: &str, members: &mut dyn Iterator<Item = String>| {
        gid += 1;
        write!(
            text,
            "dn: {}\nobjectClass: groupOfNames\nobjectClass: posixGroup\ncn: {cn}\n\
             gidNumber: {gid}\n",
            group(cn)
        )
        .unwrap();
        members.for_each(|member| writeln!(text, "member: {member}").unwrap());
        text.push('\n');
    };
    let sides = ["north", "south"];
    add("company", &mut sides.into_iter().map(group));
    let mut first = 1;
    for side in sides {
        add(side, &mut (1..=5).map(|number| group(&format!("{side}.{number}"))));
        for number in 1..=5 {
            add(&format!("{side}.{number}"), &mut (first..first + IN_GROUP).map(person));
            first += IN_GROUP;
        }
    }
    add("everybody", &mut (1..=PEOPLE).map(person));
    text
}

/// Whether all files that a test needs are here. Where clients are required (`cargo xtask test`
/// installs them) a missing one fails the test.
fn have(files: &[&str]) -> bool {
    let missing: Vec<_> = files.iter().filter(|file| !Path::new(file).exists()).collect();
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    assert!(missing.is_empty() || !required, "{missing:?}: cargo xtask test installs them");
    if !missing.is_empty() {
        eprintln!("skipped: {missing:?} are not here; cargo xtask test installs them");
    }
    missing.is_empty()
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// One directory for all of them: it takes longer to fill than they take.
#[test]
fn applications_look_up_groups_of_a_hundred_thousand() {
    let site = &Site::start();
    thread::scope(|scope| {
        for application in [gitlab, postfix, apache, keycloak, sssd] {
            scope.spawn(move || application(site));
        }
    });
}

/// Whether somebody may sign in: one search for the user and a group of theirs.
fn gitlab(site: &Site) {
    let program = "/usr/bin/ldapsearch";
    if !have(&[program]) {
        return;
    }
    let found = |filter: &str| -> Vec<String> {
        let url = format!("ldap://127.0.0.1:{}", site.port());
        let mut command = Command::new(program);
        command.args(["-LLL", "-x", "-o", "ldif-wrap=no", "-H", &url, "-D", ADMIN_DN]);
        let output = run(command.args(["-w", ADMIN_PASSWORD, "-b", BASE, filter, "1.1"]));
        assert!(output.status.success(), "{filter}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| line.strip_prefix("dn: ")).map(str::to_owned).collect()
    };
    let (inner, outer) = (group("south.3"), group("company"));
    for of_group in [&inner, &outer, &group("everybody")] {
        // The second one is how Active Directory is asked for groups in groups.
        for rule in ["", ":1.2.840.113556.1.4.1941:"] {
            let filter = |uid: &str| format!("(&(uid={uid})(memberOf{rule}={of_group}))");
            assert_eq!(found(&filter("user.77777")), [person(USER)], "{of_group} {rule}");
            assert_eq!(found(&filter("guest")), [""; 0], "{of_group} {rule}");
        }
    }
    assert_eq!(found(&format!("(&(uid=user.1)(memberOf={inner}))")), [""; 0]);
    // And all of them, to be synchronized.
    let all = found(&format!("(&(objectClass=inetOrgPerson)(memberOf={outer}))"));
    assert_eq!(all.len(), PEOPLE as usize);
}

/// A mailing list is a group: Postfix reads its members, and the members of those that are groups.
fn postfix(site: &Site) {
    const MODULE: &str = "/usr/lib/postfix/postfix-ldap.so";
    let program = "/usr/sbin/postmap";
    if !have(&[program, MODULE]) {
        return;
    }
    let folder = site.folder_of("postfix");
    fs::write(folder.join("main.cf"), "compatibility_level = 3.6\n").unwrap();
    fs::write(folder.join("dynamicmaps.cf"), format!("ldap {MODULE} dict_ldap_open\n")).unwrap();
    let map = folder.join("lists.cf");
    let settings = format!(
        "server_host = ldap://127.0.0.1:{}\nversion = 3\nbind = yes\nbind_dn = {ADMIN_DN}\n\
         bind_pw = {ADMIN_PASSWORD}\nsearch_base = ou=groups,{BASE}\n\
         query_filter = (&(objectClass=groupOfNames)(cn=%u))\nresult_attribute = mail\n\
         special_result_attribute = member\ntimeout = 60\n",
        site.port()
    );
    fs::write(&map, settings).unwrap();
    let addresses = |list: &str| {
        let mut command = Command::new(program);
        command.arg("-c").arg(&folder).args(["-q", &format!("{list}@example.com")]);
        let output = run(command.arg(format!("ldap:{}", map.display())));
        let text = String::from_utf8(output.stdout).unwrap();
        let all = text.trim().split(',').filter(|one| !one.is_empty()).map(str::to_owned);
        (output.status.success(), all.collect::<BTreeSet<_>>())
    };
    let mails = |numbers: std::ops::RangeInclusive<u32>| {
        numbers.map(|number| format!("user.{number}@example.com")).collect::<BTreeSet<_>>()
    };
    let (found, of_one) = addresses("north.2");
    assert!(found && of_one == mails(10_001..=20_000), "{}", of_one.len());
    let (found, of_all) = addresses("company");
    assert!(found && of_all == mails(1..=PEOPLE), "{}", of_all.len());
    assert_eq!(addresses("nobody"), (false, BTreeSet::new()));
}

/// Pages that only members of a group may read.
const PAGES: [(&str, &str, u32); 5] = [
    // Name, what is required, how deep groups are looked for in groups.
    ("nested", "ldap-group cn=company", 2),
    ("deeper", "ldap-group cn=company", 10),
    ("shallow", "ldap-group cn=company", 1),
    ("direct", "ldap-group cn=everybody", 0),
    ("filter", "ldap-filter memberOf=cn=company", 0),
];

/// A web server of one process, which ends with this.
struct Apache(Child);

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn apache(site: &Site) {
    const PROGRAM: &str = "/usr/sbin/apache2";
    const MODULES: &str = "/usr/lib/apache2/modules";
    if !have(&[PROGRAM, &format!("{MODULES}/mod_authnz_ldap.so")]) {
        return;
    }
    let folder = site.folder_of("apache");
    // Free a moment ago: the kernel does not soon give it to others that ask for any.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = folder.display();
    let mut settings = format!(
        "ServerRoot {place}\nServerName localhost\nPidFile {place}/pid\nDefaultRuntimeDir {place}\n\
         ErrorLog {place}/errors\nListen 127.0.0.1:{port}\nDocumentRoot {place}/www\nUser daemon\n\
         Group daemon\n"
    );
    for module in ["mpm_event", "authn_core", "authz_core", "auth_basic", "ldap", "authnz_ldap"] {
        writeln!(settings, "LoadModule {module}_module {MODULES}/mod_{module}.so").unwrap();
    }
    for (page, required, depth) in PAGES {
        fs::create_dir_all(folder.join("www").join(page)).unwrap();
        fs::write(folder.join("www").join(page).join("page"), page).unwrap();
        write!(
            settings,
            "<Location /{page}>\nAuthType Basic\nAuthName people\nAuthBasicProvider ldap\n\
             AuthLDAPURL \"ldap://127.0.0.1:{}/ou=people,{BASE}?uid?one\"\n\
             AuthLDAPBindDN \"{ADMIN_DN}\"\nAuthLDAPBindPassword \"{ADMIN_PASSWORD}\"\n\
             AuthLDAPSubGroupAttribute member\nAuthLDAPSubGroupClass groupOfNames\n\
             AuthLDAPMaxSubGroupDepth {depth}\n\
             Require {required},ou=groups,{BASE}\n</Location>\n",
            site.port()
        )
        .unwrap();
    }
    fs::write(folder.join("settings"), settings).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("-X").arg("-f").arg(folder.join("settings"));
    let server = Apache(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let get = |page: &str, who: &str| status(port, page, who);
    for (page, _, _) in PAGES {
        // Two levels down is not one.
        let member = if page == "shallow" { 401 } else { 200 };
        assert_eq!(get(page, "user.77777:secret"), member, "{page}");
    }
    for (page, who) in [
        ("nested", "guest:secret"),
        ("direct", "guest:secret"),
        ("filter", "guest:secret"),
        ("direct", "user.77777:wrong"),
        ("direct", "nobody:secret"),
    ] {
        assert_eq!(get(page, who), 401, "{page} {who}");
    }
    drop(server);
}

/// The status of the answer to a request for a page; waits until the server listens.
fn status(port: u16, page: &str, who: &str) -> u16 {
    let begun = now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "apache2: {error}"),
        }
        pause(Duration::from_millis(10));
    };
    let who = STANDARD.encode(who);
    let request = format!("GET /{page}/page HTTP/1.0\r\nAuthorization: Basic {who}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
}

/// What the group mapper of Keycloak asks, in Java as there.
fn keycloak(site: &Site) {
    if !have(&["/usr/bin/java", "/usr/bin/javac"]) {
        return;
    }
    let source = format!("{}/tests/clients/java/GroupMapper.java", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("/usr/bin/java");
    let output = run(command.args([&source, &site.port(), ADMIN_DN, ADMIN_PASSWORD]));
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success() && text.contains("11 passed, 0 failed"), "{text}");
}

/// Who a user is on a Linux machine, and who is in a group of it.
fn sssd(site: &Site) {
    if !have(&["/usr/sbin/sssd"]) {
        return;
    }
    if run(Command::new("id").arg("-u")).stdout != b"0\n" {
        eprintln!("skipped: only root can start SSSD");
        return;
    }
    let script = format!("{}/tests/logins/sssd_groups.sh", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(script);
    command.args([&site.port(), BASE, ADMIN_DN, ADMIN_PASSWORD, "user.77777"]);
    let output = run(command.arg(site.folder_of("sssd")));
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
}
