//! `roster cluster verify`: three servers, as real processes, compare what they have stored while
//! clients write; and differences that somebody planted in the store of one are named.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client::{ConnectOptions, Connection, SearchFor};
use common::{Run, command, roster};
use directory::VerifyAnswer;
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use machine::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange, Schema,
};
use serde_json::Value;
use store::{Resolved, Store, StoreOptions};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD};
use testing::ports::free_addresses;

const SUFFIX: &str = "dc=example,dc=com";
/// More than one slice.
const PEOPLE: u64 = 6000;

fn person(number: u64) -> String {
    format!("uid=user.{number},ou=people,{SUFFIX}")
}

/// A member: its data directory, and where it is found.
struct Machine {
    data: PathBuf,
    password: PathBuf,
    ldap: String,
    server: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Machine {
    fn url(&self) -> String {
        format!("ldap://{}", self.ldap)
    }

    fn serve(&mut self) {
        let ready = self.data.with_extension("ready");
        let _ = fs::remove_file(&ready);
        let log = fs::File::create(self.data.with_extension("log")).unwrap();
        let server = Command::new(env!("CARGO_BIN_EXE_roster"))
            .args(["serve", "--data", self.data.to_str().unwrap(), "--ldap", &self.ldap])
            .args(["--admin", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = self.server.insert(server);
        let ended = wait_for("a server that serves", || {
            if ready.exists() { Some(None) } else { server.try_wait().unwrap().map(Some) }
        });
        assert!(ended.is_none(), "{ended:?}: {}", self.log());
    }

    fn stop(&mut self) {
        let mut server = self.server.take().unwrap();
        kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
        assert!(server.wait().unwrap().success());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.data.with_extension("log")).unwrap()
    }

    fn words<'w>(&'w self, url: &'w str, words: &[&'w str]) -> Vec<&'w str> {
        let login = ["-H", url, "-y", self.password.to_str().unwrap()];
        [&["cluster"], words, &login].concat()
    }

    /// Asks this one, as the administrator.
    fn ask(&self, words: &[&str]) -> Run {
        roster(&self.words(&self.url(), words))
    }

    fn verify(&self) -> (i32, VerifyAnswer) {
        let run = self.ask(&["verify", "--json"]);
        let told = serde_json::from_str(&run.output);
        (run.code, told.unwrap_or_else(|error| panic!("{error}: {run:?}")))
    }

    /// How many entries the comparison has compared that was begun there, as `cn=monitor` tells.
    fn compared(&self) -> Option<u64> {
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: &["roster-cluster-verify-entries"],
            ..SearchFor::below("cn=cluster,cn=monitor", Filter::Present("objectClass"))
        };
        let found = self.connect()?.search(&asked).ok()?;
        found.entries.first()?.text("roster-cluster-verify-entries")?.parse().ok()
    }

    fn connect(&self) -> Option<Connection> {
        let mut connection = Connection::open(ConnectOptions::new(self.url())).ok()?;
        connection.bind(ADMIN_DN, ADMIN_PASSWORD.as_bytes()).ok()?;
        Some(connection)
    }
}

/// Three members that serve.
fn three(folder: &Path, people: u64, rate: Option<u64>) -> Vec<Machine> {
    let password = folder.join("password");
    fs::write(&password, ADMIN_PASSWORD).unwrap();
    let ports = free_addresses::<6>().unwrap().map(|port| port.to_string());
    let [data, out, ldif] =
        ["data", "nodes", "people.ldif"].map(|name| folder.join(name).display().to_string());
    let member = |id: usize| format!("{} {} ldap://{}", id + 1, ports[2 * id], ports[2 * id + 1]);
    let members = [0, 1, 2].map(member);
    let secret = password.to_str().unwrap();
    let (count, template) = (people.to_string(), common::example("people.template"));
    for words in [
        vec!["init", "--data", &data, "--suffix", SUFFIX, "--admin-password-file", secret],
        vec!["generate", &template, "--entries", &count, "--output", &ldif],
        vec!["import", "--data", &data, &ldif],
        vec![
            "cluster",
            "init",
            "--data",
            &data,
            "--out",
            &out,
            "--member",
            &members[0],
            "--member",
            &members[1],
            "--member",
            &members[2],
        ],
    ] {
        let run = roster(&words);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
    }
    let mut machines: Vec<Machine> = (0..3)
        .map(|id| Machine {
            data: folder.join("nodes").join(format!("node{}", id + 1)),
            password: password.clone(),
            ldap: ports[2 * id + 1].clone(),
            server: None,
        })
        .collect();
    if let Some(rate) = rate {
        for machine in &machines {
            let file = machine.data.join("roster.toml");
            let text = fs::read_to_string(&file).unwrap();
            let with = format!("[cluster]\nverify_mib_per_second = {rate}\n");
            fs::write(&file, text.replacen("[cluster]\n", &with, 1)).unwrap();
        }
    }
    std::thread::scope(|scope| {
        machines.iter_mut().for_each(|machine| drop(scope.spawn(|| machine.serve())));
    });
    wait_for("all is well", || (machines[0].ask(&["status"]).code == 0).then_some(()));
    machines
}

/// Ends what goes on until it is over.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Changes people all the time, until it is over; how many changes were made.
fn write(machine: &Machine, first: u64, is_over: &AtomicBool, made: &AtomicU64) {
    let mut connection = machine.connect().unwrap();
    let mut number = first;
    while !is_over.load(Ordering::Relaxed) {
        number += 7;
        let title = format!("title {number}");
        let change = [(ModifyOperation::Replace, "title", &[&*title][..])];
        let outcome = connection.modify(&person(1 + number % PEOPLE), &change).unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
        made.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every time, whoever is asked, while all members take changes.
#[test]
fn members_that_take_changes_all_the_time_have_stored_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let machines = three(folder.path(), PEOPLE, Some(1000));
    let (is_over, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (first, machine) in machines.iter().enumerate() {
            for more in 0..2 {
                let first = 2 * first as u64 + more;
                scope.spawn({
                    let (is_over, made) = (&is_over, &made);
                    move || write(machine, first, is_over, made)
                });
            }
        }
        let _over = Over(&is_over);
        wait_for("changes come", || (made.load(Ordering::Relaxed) > 100).then_some(()));
        let (mut last, mut moved) = (0, 0);
        for round in 0..9 {
            let before = made.load(Ordering::Relaxed);
            let (code, told) = machines[round % 3].verify();
            assert_eq!((code, &*told.state, told.differing), (0, "done", 0), "{told:?}");
            assert_eq!(told.members.len(), 3);
            assert!(told.entries >= PEOPLE, "{told:?}");
            assert!(told.first_lsn > last, "{told:?}");
            moved += u64::from(told.last_lsn > told.first_lsn);
            assert!(made.load(Ordering::Relaxed) > before);
            last = told.last_lsn;
        }
        assert!(moved > 0, "no change came while slices were compared");
    });
    let page = machines[2].ask(&["status", "--json"]);
    let told: Value = serde_json::from_str(&page.output).unwrap();
    assert!(told["cluster"]["difference"].is_null(), "{told}");
    let said = machines[2].log();
    assert!(said.contains("the members that were compared have stored the same"), "{said}");
}

fn id_of(store: &Arc<Store>, name: &str) -> (EntryId, EntryId) {
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let key = DnKey::from_text(&Schema::builtin(), name).unwrap();
    let Resolved::Found(id) = view.resolve(&key).unwrap() else { panic!("{name}") };
    (id, view.entry(id).unwrap().unwrap().parent())
}

/// Plants in the store of a member that was stopped: another password, an entry that is missing,
/// and one that nobody added, where another was deleted.
fn plant(data: &Path, gone: EntryId) -> [u64; 3] {
    let schema = Schema::builtin();
    let store = Arc::new(Store::open(data, &StoreOptions::default(), Arc::clone(&schema)).unwrap());
    let before = store.digests();
    let (changed, _) = id_of(&store, &person(10));
    let (missing, parent) = id_of(&store, &person(20));
    let dn = |name: String| Dn::parse(&name).unwrap();
    let delta = AttributeDelta {
        description: schema.describe("description").unwrap(),
        removed: Vec::new(),
        added: vec![b"planted".to_vec()],
    };
    let modify = ModifyChange { id: changed, dn: dn(person(10)), deltas: vec![delta] };
    store.plant_unnoticed(&Change::Modify(modify)).unwrap();
    let delete = DeleteChange { id: missing, dn: dn(person(20)), attributes: Vec::new() };
    store.plant_unnoticed(&Change::Delete(delete)).unwrap();
    let name = format!("uid=planted,ou=people,{SUFFIX}");
    let pairs = [("objectClass", &b"top"[..]), ("objectClass", b"account"), ("uid", b"planted")];
    let entry = Entry::from_pairs(dn(name.clone()), pairs, &schema).unwrap();
    let key = DnKey::from_text(&schema, &name).unwrap().leaf().unwrap();
    let add = AddChange { id: gone, parent, key, entry };
    store.plant_unnoticed(&Change::Add(add)).unwrap();
    assert_eq!(store.digests(), before);
    [changed.0, missing.0, gone.0]
}

#[test]
fn what_was_planted_in_the_store_of_one_is_named_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut machines = three(folder.path(), PEOPLE, None);
    // An entry that was there leaves its number to nobody.
    let gone = {
        machines[2].stop();
        let store = Store::open(&machines[2].data, &StoreOptions::default(), Schema::builtin());
        let (gone, _) = id_of(&Arc::new(store.unwrap()), &person(30));
        machines[2].serve();
        gone
    };
    let outcome = machines[0].connect().unwrap().delete(&person(30)).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    wait_for("all is well", || (machines[0].ask(&["status"]).code == 0).then_some(()));
    let (code, told) = machines[1].verify();
    assert_eq!((code, told.differing), (0, 0), "{told:?}");

    machines[2].stop();
    let planted = plant(&machines[2].data, gone);
    // One that is away is not different.
    let run = machines[0].ask(&["verify"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.output.starts_with("2 members have stored the same"), "{run:?}");
    assert!(run.errors.contains("member 3 was not compared"), "{run:?}");
    machines[2].serve();
    wait_for("all is well", || (machines[0].ask(&["status"]).code == 0).then_some(()));

    let is_over = AtomicBool::new(false);
    let (code, told) = std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| write(&machines[1], 3, &is_over, &AtomicU64::new(0)));
        machines[0].verify()
    });
    assert_eq!((code, &*told.state, told.differing), (1, "done", 3), "{told:?}");
    let counted: Vec<u64> = told.members.iter().map(|member| member.differing).collect();
    assert_eq!(counted, [0, 0, 3]);
    let [changed, missing, gone] = planted;
    let mut found: Vec<_> = told
        .differences
        .iter()
        .map(|one| {
            assert!(one.clear);
            let [odd] = &one.members[..] else { panic!("{one:?}") };
            (one.entry, &*one.name, odd.member, &*odd.how, odd.attributes.join(" "))
        })
        .collect();
    found.sort_by_key(|one| one.0);
    let [ten, twenty] = [10, 20].map(person);
    let name = format!("uid=planted,ou=people,{SUFFIX}");
    let mut want = vec![
        (changed, &*ten, 3, "differs", "description".to_owned()),
        (missing, &*twenty, 3, "missing", String::new()),
        (gone, &*name, 3, "surplus", String::new()),
    ];
    want.sort_by_key(|one| one.0);
    assert_eq!(found, want);

    // In words, in the log, and never a value.
    let run = machines[1].ask(&["verify"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.output.contains("\n  member 3: other values of description\n"), "{run:?}");
    assert!(run.output.contains("3 of "), "{run:?}");
    assert!(!run.output.contains("description: "), "{run:?}");
    let said = machines[1].log();
    assert!(said.contains("the members have not stored the same"), "{said}");
    assert!(said.contains(&person(20)), "{said}");
}

#[test]
fn strangers_start_nothing_and_whoever_ends_it_ends_it_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    // It takes longer than nobody may ask after it.
    let machines = three(folder.path(), 10 * PEOPLE, Some(1));
    let nobody = roster(&["cluster", "verify", "-H", &machines[0].url()]);
    assert_eq!(nobody.code, 1, "{nobody:?}");
    assert!(nobody.errors.contains("config-write"), "{nobody:?}");

    let url = machines[0].url();
    let mut running = command(&machines[0].words(&url, &["verify"])).spawn().unwrap();
    wait_for("it is under way", || (machines[0].compared()? > 0).then_some(()));
    let busy = machines[1].ask(&["verify", "--json"]);
    assert_eq!(busy.code, 1, "{busy:?}");
    assert!(busy.output.contains("member 1 compares the data already"), "{busy:?}");
    let again = machines[0].ask(&["verify"]);
    assert!(again.errors.contains("being compared already"), "{again:?}");
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let said = wait_for("it ended there", || {
        let said = machines[0].log();
        said.contains("the members were not compared to the end").then_some(said)
    });
    assert!(said.contains("it was stopped"), "{said}");

    // One that is killed tells nobody.
    let mut running = command(&machines[0].words(&url, &["verify"])).spawn().unwrap();
    wait_for("it is under way", || {
        machines[0].log().matches("comparing what the members have stored").nth(1).map(drop)
    });
    running.kill().unwrap();
    running.wait().unwrap();
    wait_for("it ended by itself", || {
        machines[0].log().contains("nobody asked after it any more").then_some(())
    });
}
