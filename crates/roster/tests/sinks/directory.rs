//! A server of its own for one test, which can be killed and started again, and what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testing::client::{Change, ChangeKind, Client, Request, Search};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running};

/// The identity of the sinks.
pub(crate) const SYNC: &str = "uid=sync,ou=services,dc=example,dc=com";
pub(crate) const PEOPLE: &str = "ou=people,dc=example,dc=com";

/// A server and its data.
pub(crate) struct Server {
    _scratch: tempfile::TempDir,
    place: Place,
    running: Option<Running>,
}

impl Server {
    /// One with people to come, and with an identity that may read changes.
    pub(crate) fn start(environment: &[(&str, &str)]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let place = Place {
            roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
            folder: scratch.path().join("server"),
            environment: environment.iter().map(owned).collect(),
        };
        place.init().unwrap();
        let running = Some(place.start().unwrap());
        let server = Self { _scratch: scratch, place, running };
        let mut client = server.client();
        for (dn, class) in [
            (PEOPLE, "organizationalUnit"),
            ("ou=services,dc=example,dc=com", "organizationalUnit"),
        ] {
            let name = dn.split([',', '=']).nth(1).unwrap();
            add(&mut client, dn, &[("objectClass", class), ("ou", name)]);
        }
        let privilege = ("ds-privilege-name", "changelog-read");
        let class = ("objectClass", "account");
        add(&mut client, SYNC, &[class, ("uid", "sync"), privilege]);
        server
    }

    /// A connection of the administrator.
    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect(self.running.as_ref().unwrap().address).unwrap();
        client.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
        client
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        self.running.take().unwrap().kill().unwrap();
    }

    /// Ends it in order.
    pub(crate) fn stop(&mut self) {
        self.running.take().unwrap().stop().unwrap();
    }

    /// Starts it again.
    pub(crate) fn again(&mut self) {
        self.running = Some(self.place.start().unwrap());
    }

    /// Gives a setting another value, from the next start on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.place.environment.retain(|(other, _)| other != name);
        self.place.environment.push((name.to_owned(), value.to_owned()));
    }

    /// A file in the directory of the sinks.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.data().join("sinks").join(name)
    }

    /// Writes a file with a secret, or a certificate.
    pub(crate) fn put(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// What its log says.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.place.folder.join("log")).unwrap_or_default()
    }

    /// How many sockets it has.
    pub(crate) fn sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.running.as_ref().unwrap().id());
        let all = fs::read_dir(folder).unwrap().flatten();
        let targets = all.filter_map(|one| fs::read_link(one.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// An attribute of a sink in `cn=monitor`; empty where it has none.
    pub(crate) fn shown(&self, name: &str, attribute: &str) -> String {
        let search = Search {
            base: format!("cn={name},cn=sinks,cn=monitor"),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: vec![attribute.to_owned()],
        };
        let found = self.client().search(&search).unwrap();
        let values = found.entries.into_iter().flat_map(|(_, values)| values);
        values.flat_map(|(_, values)| values).next().unwrap_or_default()
    }

    /// A number of a sink in `cn=monitor`.
    pub(crate) fn number(&self, name: &str, attribute: &str) -> u64 {
        self.shown(name, attribute).parse().unwrap_or(0)
    }

    /// Whether a sink was told all changes there are.
    pub(crate) fn has_told_all(&self, name: &str) -> bool {
        self.shown(name, "roster-sink-state") == "running"
            && self.shown(name, "roster-sink-lag-changes") == "0"
    }

    /// Sets sinks up.
    pub(crate) fn sinks(&self, kind: ChangeKind, lines: &[&str]) {
        let (code, diagnostic) = self.try_sinks(kind, lines);
        assert_eq!(code, 0, "{diagnostic}");
    }

    /// Likewise, where that may be refused: the code and why.
    pub(crate) fn try_sinks(&self, kind: ChangeKind, lines: &[&str]) -> (i64, String) {
        let values = lines.iter().map(|&line| line.to_owned()).collect();
        let changes = vec![Change { kind, attribute: "roster-sink".to_owned(), values }];
        let request = Request::Modify { dn: "cn=Sinks,cn=config".to_owned(), changes };
        let answer = self.client().call(&request).unwrap();
        (answer.code, answer.diagnostic)
    }
}

/// Adds an entry.
#[track_caller]
pub(crate) fn add(client: &mut Client, dn: &str, values: &[(&str, &str)]) {
    let mut attributes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in values {
        attributes.entry((*name).to_owned()).or_default().insert((*value).to_owned());
    }
    let answer = client.call(&Request::Add { dn: dn.to_owned(), attributes }).unwrap();
    assert_eq!(answer.code, 0, "{dn}: {}", answer.diagnostic);
}

/// The name of a person.
pub(crate) fn person(name: &str) -> String {
    format!("uid={name},{PEOPLE}")
}

/// Adds a person.
#[track_caller]
pub(crate) fn add_person(client: &mut Client, name: &str) {
    let values = [("objectClass", "inetOrgPerson"), ("uid", name), ("cn", name), ("sn", name)];
    add(client, &person(name), &values);
}

/// Replaces a value; `false` when the server is gone.
pub(crate) fn set(client: &mut Client, dn: &str, attribute: &str, value: &str) -> bool {
    let (attribute, values) = (attribute.to_owned(), vec![value.to_owned()]);
    let changes = vec![Change { kind: ChangeKind::Replace, attribute, values }];
    let request = Request::Modify { dn: dn.to_owned(), changes };
    client.call(&request).is_ok_and(|answer| answer.code == 0)
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not so after a minute: {what}");
        sleep(Duration::from_millis(50));
    }
}

/// Lines of JSON, read.
pub(crate) fn objects(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Checks that of each person all numbers from 1 to the last acknowledged one came, none for the
/// first time behind a later one: `told` are the objects in the order in which they came.
#[track_caller]
pub(crate) fn check_order(told: &[serde_json::Value], acknowledged: &BTreeMap<String, u64>) {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for object in told {
        let Some(changes) = object["changes"].as_array() else { continue };
        let dn = object["dn"].as_str().unwrap().to_owned();
        let added = changes.iter().filter(|one| one["attribute"] == "description");
        for value in added.filter_map(|one| one["add"][0].as_str()) {
            let number: u64 = value.parse().unwrap();
            let last = seen.entry(dn.clone()).or_default();
            assert!(number <= *last + 1, "{dn}: {number} comes behind {last}");
            *last = (*last).max(number);
        }
    }
    for (dn, last) in acknowledged {
        let told = seen.get(dn).copied().unwrap_or(0);
        assert!(told >= *last, "{dn}: {last} was acknowledged, and {told} was told");
    }
}
