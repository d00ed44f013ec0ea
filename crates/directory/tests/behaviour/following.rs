//! A directory that is told what another one decided behaves as that one does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use directory::{Directory, DirectoryOptions, MakeLog};
use history::log::{
    BarrierDone, CommitDone, CommitError, CommitLog, Decided, Difference, EncodedRecord, Gone,
    LogBatch, Membership, NotNow, OnlySelf, ReadLevel, Reign, Role, RoleWatcher, StateMachine,
    Tail,
};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use store::{Digest, DigestPoint, FlushOptions, LogPosition, Lsn};
use tempfile::TempDir;

use crate::support::{Answer, Asked, Client, SUFFIX, Served, init, manual_clock, small};

const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;
const ANNA: &str = "uid=anna,dc=example,dc=org";
const DENY: &str = "(targetattr=\"employeeNumber\")(version 3.0; acl \"hidden\"; deny \
                    (read,search,compare) userdn=\"ldap:///anyone\";)";

/// A log that decides nothing, or loses what it is given, and is told what another one committed.
struct Told {
    machine: Arc<dyn StateMachine>,
    role: Mutex<Role>,
    /// What was decided here and is not committed.
    lost: Mutex<Vec<CommitDone>>,
    watchers: Mutex<Vec<RoleWatcher>>,
    /// How much of the log it has durably itself.
    kept: AtomicU64,
}

impl Told {
    fn set_role(&self, role: Role) {
        *self.role.lock().unwrap() = role;
        self.watchers.lock().unwrap().iter().for_each(|watcher| watcher(&self.role()));
    }

    /// The lead is lost, with all that is in flight.
    fn lose_lead(&self) {
        self.set_role(Role::Following { leader: None });
        self.give_up();
    }

    /// What is in flight is not going to be.
    fn give_up(&self) {
        let reason = "the lead was lost".to_owned();
        let lost = std::mem::take(&mut *self.lost.lock().unwrap());
        lost.into_iter()
            .for_each(|done| done(Err(CommitError::Unknown { reason: reason.clone() })));
    }
}

impl CommitLog for Told {
    fn commit(&self, _: Reign, _: LogBatch, done: CommitDone) {
        match self.role() {
            Role::Deciding(_) => self.lost.lock().unwrap().push(done),
            _ => done(Err(CommitError::NotDeciding { leader: None })),
        }
    }

    fn in_flight(&self) -> usize {
        self.lost.lock().unwrap().len()
    }

    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        self.role.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn watch(&self, watcher: RoleWatcher) {
        watcher(&self.role());
        self.watchers.lock().unwrap().push(watcher);
    }

    fn barrier(&self, _: ReadLevel, done: BarrierDone) {
        done(Err(NotNow::NoQuorum { heard: None }));
    }

    fn tail(&self, _: Lsn) -> Result<Box<dyn Tail>, Gone> {
        Err(Gone { first: Lsn(0), reason: "a test".to_owned(), may_pass: false })
    }

    fn applied(&self) -> Lsn {
        self.machine.applied()
    }

    fn members(&self) -> &dyn Membership {
        &OnlySelf
    }

    fn kept_index(&self) -> u64 {
        self.kept.load(Ordering::SeqCst)
    }

    fn forget(&self, _: LogPosition) {}

    fn close(&self) {
        self.lose_lead();
    }
}

/// A directory that decides, and one that follows.
struct Two {
    leader: Served,
    follower: Served,
    log: Arc<Told>,
    /// How many records the follower is told at once; [`BY_COPY`]: it gets everything as a copy.
    at_once: usize,
}

/// The follower lacks what the log no longer has.
const BY_COPY: usize = 0;

impl Two {
    fn new(at_once: usize) -> Self {
        let data = TempDir::new().unwrap();
        init(&data.path().join("data"));
        let copy = TempDir::new().unwrap();
        testing::copy_directory(data.path(), copy.path()).unwrap();
        let made: Arc<Mutex<Option<Arc<Told>>>> = Arc::default();
        let log = Arc::clone(&made);
        let make = MakeLog::new(move |parts| {
            let role = Mutex::new(Role::Following { leader: None });
            let (lost, watchers) = (Mutex::default(), Mutex::default());
            let kept = AtomicU64::new(u64::MAX);
            let told = Arc::new(Told { machine: parts.machine, role, lost, watchers, kept });
            *log.lock().unwrap() = Some(Arc::clone(&told));
            Ok(told)
        });
        let flush = FlushOptions { index_build_percent: 100, ..FlushOptions::default() };
        let mut options = small(copy.path().join("data"));
        options.flush = flush;
        options.log = Some(make);
        let follower = Served::opened(options, Arc::new(copy));
        let log = made.lock().unwrap().take().unwrap();
        Self { leader: Served::open_existing(data), follower, log, at_once }
    }

    /// Tells the follower what the leader has committed, and compares them.
    fn sync(&self) {
        let mark = |served: &Served| served.directory.store().published();
        if self.at_once == BY_COPY {
            self.copy();
            assert_eq!(mark(&self.follower), mark(&self.leader));
            return;
        }
        let from = Lsn(self.log.applied().0 + 1);
        let mut tail = self.leader.directory.log().tail(from).unwrap();
        let mut records = Vec::new();
        while self.log.applied().0 + (records.len() as u64)
            < self.leader.directory.log().applied().0
        {
            records.extend(tail.next_within(Duration::ZERO).unwrap());
        }
        records.chunks(self.at_once).for_each(|records| self.tell(records));
        assert_eq!(mark(&self.follower), mark(&self.leader));
    }

    /// The follower gets all that the leader has.
    fn copy(&self) {
        let store = self.leader.directory.store();
        store.flush().unwrap();
        let copy = store.copy_base().unwrap();
        let mut octets = vec![0; usize::try_from(copy.head().bytes).unwrap()];
        copy.read_at(0, &mut octets).unwrap();
        let mut intake = self.log.machine.receive(copy.head()).unwrap();
        intake.write(&octets).unwrap();
        intake.finish().unwrap();
        self.log.machine.install(&copy.head().id).unwrap();
        self.log.machine.settle_copied();
    }

    fn tell(&self, records: &[EncodedRecord]) {
        let last = records.last().unwrap().lsn.0;
        let position = LogPosition { term: 1, index: last };
        self.log.machine.apply(Decided::Elsewhere, records, position).unwrap();
    }
}

fn modify(root: &mut Client, name: &str, operation: ModifyOperation, change: (&str, &str)) {
    let (attribute, value) = change;
    let code = root.modify(name, &[(operation, attribute, &[value])]);
    assert_eq!(code, OK, "{name} {attribute}");
}

fn add_anna(root: &mut Client) {
    let anna: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["Berg"]),
        ("employeeNumber", &["7"]),
        ("userPassword", &["right"]),
    ];
    assert_eq!(root.add(ANNA, anna), OK);
}

/// What anybody sees of employee numbers.
fn seen(client: &mut Client) -> Vec<String> {
    let asked = Asked { filter: "(sn=Berg)", attributes: &["employeeNumber"], ..Asked::default() };
    let entries = client.search(&asked).entries;
    entries.iter().flat_map(|entry| entry.texts("employeeNumber")).collect()
}

fn read(client: &mut Client, base: &str, attribute: &str) -> Vec<String> {
    let attributes = &[attribute];
    let asked = Asked { base, scope: Scope::Base, attributes, ..Asked::default() };
    client.search(&asked).entries.iter().flat_map(|entry| entry.texts(attribute)).collect()
}

#[test]
fn acis_guard_what_they_guard_there() {
    for at_once in [1, 100, BY_COPY] {
        let two = Two::new(at_once);
        let mut root = two.leader.root();
        add_anna(&mut root);
        two.sync();
        let mut anybody = two.follower.client();
        assert_eq!(seen(&mut anybody), ["7"]);
        modify(&mut root, SUFFIX, ModifyOperation::Add, ("aci", DENY));
        two.sync();
        assert_eq!(seen(&mut anybody), [""; 0]);
        modify(&mut root, SUFFIX, ModifyOperation::Delete, ("aci", DENY));
        two.sync();
        assert_eq!(seen(&mut anybody), ["7"]);
        // Those of the whole directory are a setting.
        let handler = "cn=Access Control Handler,cn=config";
        modify(&mut root, handler, ModifyOperation::Add, ("ds-cfg-global-aci", DENY));
        two.sync();
        assert_eq!(seen(&mut anybody), [""; 0]);
        let acis = |served: &Served| read(&mut served.root(), handler, "ds-cfg-global-aci");
        assert_eq!(acis(&two.follower), acis(&two.leader));
    }
}

#[test]
fn the_schema_is_the_same() {
    const HAT: &str = "( 1.3.6.1.4.1.55555.1 NAME 'hat' EQUALITY caseIgnoreMatch \
                       SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    const HATTED: &str = "( 1.3.6.1.4.1.55555.2 NAME 'hatted' SUP top AUXILIARY MAY hat )";
    for at_once in [1, 100, BY_COPY] {
        let two = Two::new(at_once);
        let (mut root, mut other) = (two.leader.root(), two.follower.root());
        modify(&mut root, "cn=schema", ModifyOperation::Add, ("attributeTypes", HAT));
        modify(&mut root, "cn=schema", ModifyOperation::Add, ("objectClasses", HATTED));
        let unit: &[(&str, &[&str])] =
            &[("objectClass", &["organizationalUnit", "hatted"]), ("hat", &["Panama"])];
        assert_eq!(root.add(&format!("ou=unit,{SUFFIX}"), unit), OK);
        // Under the new schema, by rules that name the new type.
        let deny = DENY.replace("employeeNumber", "hat");
        let hat = Asked { filter: "(hat=PANAMA)", attributes: &["hat"], ..Asked::default() };
        two.sync();
        assert_eq!(other.search(&hat).entries.len(), 1);
        assert_eq!(two.follower.client().search(&hat).entries.len(), 1);
        modify(&mut root, SUFFIX, ModifyOperation::Add, ("aci", &deny));
        two.sync();
        assert_eq!(two.follower.client().search(&hat).entries.len(), 0);
        for attribute in ["attributeTypes", "objectClasses", "modifyTimestamp"] {
            let at = |client: &mut Client| read(client, "cn=schema", attribute);
            // A copy does not say when the schema was changed.
            let is_untold = at_once == BY_COPY && attribute == "modifyTimestamp";
            assert!(is_untold || at(&mut other) == at(&mut root), "{attribute}");
        }
    }
}

#[test]
fn passwords_states_and_policies_are_the_same() {
    use ModifyOperation::Replace;
    for at_once in [1, 100, BY_COPY] {
        let two = Two::new(at_once);
        let mut root = two.leader.root();
        add_anna(&mut root);
        two.sync();
        let mut anna = two.follower.client();
        assert_eq!(anna.bind(ANNA, "right"), OK);
        modify(&mut root, ANNA, Replace, ("userPassword", "other"));
        two.sync();
        assert_eq!((anna.bind(ANNA, "right"), anna.bind(ANNA, "other")), (NO, OK));
        modify(&mut root, ANNA, Replace, ("ds-pwp-account-disabled", "TRUE"));
        two.sync();
        assert_eq!(anna.bind(ANNA, "other"), NO);
        modify(&mut root, ANNA, Replace, ("ds-pwp-account-disabled", "FALSE"));
        two.sync();
        assert_eq!(anna.bind(ANNA, "other"), OK);
        // Without a policy nobody is locked out.
        for _ in 0..3 {
            assert_eq!(anna.bind(ANNA, "wrong"), NO);
        }
        assert_eq!(anna.bind(ANNA, "other"), OK);
        let policy: &[(&str, &[&str])] = &[
            ("objectClass", &["top", "subentry", "pwdPolicy"]),
            ("subtreeSpecification", &["{}"]),
            ("pwdAttribute", &["userPassword"]),
            ("pwdLockout", &["TRUE"]),
            ("pwdMaxFailure", &["2"]),
        ];
        let name = format!("cn=policy,{SUFFIX}");
        assert_eq!(root.add(&name, policy), OK);
        two.sync();
        for _ in 0..2 {
            assert_eq!(anna.bind(ANNA, "wrong"), NO);
        }
        assert_eq!(anna.bind(ANNA, "other"), NO, "locked");
        // Whoever sets a password ends what failures have left.
        modify(&mut root, ANNA, Replace, ("userPassword", "third"));
        assert_eq!(root.delete(&name), OK);
        two.sync();
        assert_eq!(anna.bind(ANNA, "third"), OK);
    }
}

#[test]
fn indexes_are_built_there() {
    let two = Two::new(3);
    let mut root = two.leader.root();
    crate::add_devices(&two.leader, 20, "somewhere in the house");
    let index: &[(&str, &[&str])] = &[
        ("objectClass", &["top", "ds-cfg-backend-index"]),
        ("ds-cfg-attribute", &["description"]),
        ("ds-cfg-index-type", &["substring"]),
    ];
    let name = "ds-cfg-attribute=description,cn=Index,cn=config";
    assert_eq!(root.add(name, index), OK);
    two.sync();
    let mut other = two.follower.root();
    let status = "cn=description.substring,cn=index,cn=monitor";
    while read(&mut other, status, "roster-index-state") != ["valid"] {
        std::thread::yield_now();
    }
    assert_eq!(read(&mut other, status, "roster-index-verify"), ["ok"]);
    let found = Asked { filter: "(description=*the house*)", ..Asked::default() };
    assert_eq!(other.search(&found).entries.len(), 20);
}

/// The node decided a rule, and lost the lead before it was committed: another decided meanwhile.
/// Others may have a change safely of which its own journal has nothing.
#[test]
fn what_its_own_journal_lacks_is_not_flushed() {
    let two = Two::new(1);
    add_anna(&mut two.leader.root());
    two.sync();
    let (store, last) = (two.follower.directory.store(), two.log.applied().0);
    two.log.kept.store(last - 1, Ordering::SeqCst);
    let refused = store.flush().unwrap_err().to_string();
    let why = format!("entries up to {}, and the flush would write up to {last}", last - 1);
    assert!(refused.contains(&why), "{refused}");
    assert!(store.base().lsn.0 < last);
    two.log.kept.store(last, Ordering::SeqCst);
    assert_eq!(store.flush().unwrap().lsn.0, last);
}

#[test]
fn what_was_decided_here_and_lost_is_not_in_force() {
    let two = Two::new(100);
    let mut root = two.leader.root();
    add_anna(&mut root);
    two.sync();
    let mut anybody = two.follower.client();
    two.log.set_role(Role::Deciding(Reign(1)));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut root = two.follower.root();
            root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[DENY])])
        });
        while two.log.in_flight() == 0 {
            std::thread::yield_now();
        }
        let mut other_root = two.leader.root();
        modify(&mut other_root, ANNA, ModifyOperation::Replace, ("employeeNumber", "8"));
        modify(&mut other_root, ANNA, ModifyOperation::Replace, ("employeeNumber", "9"));
        two.log.lose_lead();
        two.sync();
        assert_eq!(seen(&mut anybody), ["9"]);
        assert_ne!(asked.join().unwrap(), OK);
    });
    assert_eq!(read(&mut two.follower.root(), SUFFIX, "aci"), [""; 0]);
    assert_eq!(seen(&mut anybody), ["9"]);
}

/// While the log is busy, the writer gathers the next batch, and nobody else can make one. Records
/// that were decided elsewhere must not wait for that: the log tells of what is in flight behind
/// them.
#[test]
fn a_batch_that_is_gathered_is_given_up_with_the_lead() {
    let two = Two::new(100);
    let mut root = two.leader.root();
    add_anna(&mut root);
    two.sync();
    two.log.set_role(Role::Deciding(Reign(1)));
    std::thread::scope(|scope| {
        let ask = |value: &'static str| {
            let two = &two;
            move || {
                let mut root = two.follower.root();
                root.modify(ANNA, &[(ModifyOperation::Replace, "employeeNumber", &[value])])
            }
        };
        let first = scope.spawn(ask("1"));
        while two.log.in_flight() == 0 {
            std::thread::yield_now();
        }
        let second = scope.spawn(ask("2"));
        // It is decided, in a batch that waits for the log: there is no other one meanwhile.
        while !two.follower.directory.store().is_writing() {
            std::thread::yield_now();
        }
        modify(&mut root, ANNA, ModifyOperation::Replace, ("employeeNumber", "8"));
        two.log.set_role(Role::Following { leader: None });
        two.sync();
        two.log.give_up();
        assert_ne!(first.join().unwrap(), OK);
        assert_ne!(second.join().unwrap(), OK);
    });
    assert_eq!(seen(&mut two.follower.client()), ["8"]);
}

/// A server whose data are not those of its cluster says which record shows it, and serves nobody,
/// also when it is started again.
#[test]
fn a_server_that_has_diverged_serves_nobody() {
    let two = Two::new(100);
    let mut root = two.leader.root();
    add_anna(&mut root);
    two.sync();
    let mut anna = two.follower.client();
    assert_eq!(anna.bind(ANNA, "right"), OK);
    // A record that was decided on another one than the last.
    modify(&mut root, ANNA, ModifyOperation::Replace, ("employeeNumber", "8"));
    modify(&mut root, ANNA, ModifyOperation::Replace, ("employeeNumber", "9"));
    let last = two.log.applied().0;
    let mut records = two.leader.directory.log().tail(Lsn(last + 1)).unwrap();
    let mut next = || records.next_within(Duration::ZERO).unwrap().unwrap();
    let (good, mut bad) = (next(), next());
    let mut bytes = bad.bytes.to_vec();
    let hash = good.hash.to_be_bytes();
    let at = bytes.windows(hash.len()).position(|part| part == hash).unwrap();
    bytes[at] ^= 1;
    bad.bytes = bytes.into();
    let position = LogPosition { term: 1, index: last + 2 };
    let machine = &two.log.machine;
    assert!(machine.apply(Decided::Elsewhere, &[good.clone(), bad], position).is_err());
    assert_eq!(two.log.applied(), good.lsn);

    let record = format!("record {}", last + 2);
    let everybody = Asked { filter: "(sn=Berg)", ..Asked::default() };
    let check = |answer: &Answer| {
        assert_eq!(answer.code(), ResultCode::Unavailable);
        assert!(answer.diagnostic.contains(&record), "{}", answer.diagnostic);
    };
    check(&anna.search(&everybody));
    assert_eq!(anna.compare(ANNA, "sn", "Berg"), ResultCode::Unavailable);
    check(&anna.try_modify(ANNA, &[(ModifyOperation::Replace, "title", &["x"])]));
    assert_eq!(two.follower.client().bind(ANNA, "right"), ResultCode::Unavailable);
    let mut own_root = two.follower.root();
    check(&own_root.search(&everybody));
    assert_eq!(read(&mut own_root, "", "vendorName").len(), 1);
    let monitor = Asked { base: "cn=monitor", scope: Scope::Base, ..Asked::default() };
    assert_eq!(own_root.search(&monitor).code(), OK);
    check(&two.follower.client().search(&monitor));
    assert!(two.follower.directory.quarantine().is_some_and(|why| why.contains(&record)));

    drop((anna, own_root));
    let Two { follower, log, .. } = two;
    drop(log);
    let (options, _data) = follower.pulled();
    let kept = std::fs::read_to_string(options.data.join("quarantine.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!((&kept["record"], &kept["index"]), (&(last + 2).into(), &(last + 2).into()));
    assert_eq!(kept["hash_here"], format!("{:016x}", good.hash));
    let options = DirectoryOptions { log: None, ..options };
    let refused = Directory::open(options.clone(), manual_clock()).err().unwrap().to_string();
    assert!(refused.contains(&record) && refused.contains("quarantine.json"), "{refused}");
    std::fs::remove_file(options.data.join("quarantine.json")).unwrap();
    assert!(Directory::open(options, manual_clock()).is_ok());
}

/// A server that is told that the others have other data serves nobody either, and takes no more
/// records.
#[test]
fn a_server_whose_data_are_others_serves_nobody() {
    let two = Two::new(100);
    let mut root = two.leader.root();
    add_anna(&mut root);
    two.sync();
    let machine = &two.log.machine;
    let here = *machine.digests().last().unwrap();
    assert_eq!(here.lsn, two.log.applied());
    let there = DigestPoint { digest: Digest::from_number(7), ..here };
    let points = vec![(1, there), (2, here), (3, there)];
    let difference = Difference { same: Lsn(1), lsn: here.lsn, points };
    machine.differs(&difference);
    // The first reason stays.
    machine.differs(&Difference { lsn: Lsn(99_999), ..difference });

    let record = format!("differ after change record {}, and not yet after 1: ", here.lsn.0);
    let answer = two.follower.client().search(&Asked { filter: "(sn=Berg)", ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Unavailable);
    assert!(answer.diagnostic.contains(&record), "{}", answer.diagnostic);
    modify(&mut root, ANNA, ModifyOperation::Replace, ("employeeNumber", "8"));
    let mut records = two.leader.directory.log().tail(Lsn(here.lsn.0 + 1)).unwrap();
    let next = records.next_within(Duration::ZERO).unwrap().unwrap();
    let position = LogPosition { term: 1, index: here.lsn.0 + 1 };
    assert!(machine.apply(Decided::Elsewhere, &[next], position).is_err());
    assert_eq!(two.log.applied(), here.lsn);
    // Nor is it healed by a copy before anybody has looked at it.
    let copy = two.leader.directory.store().copy_base().unwrap();
    let refused = machine.receive(copy.head()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("quarantine"), "{refused}");
    assert!(machine.copy().is_err() && machine.install(&copy.head().id).is_err());

    let Two { follower, log, .. } = two;
    drop(log);
    let (options, _data) = follower.pulled();
    let kept = std::fs::read_to_string(options.data.join("quarantine.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!((&kept["record"], &kept["last_record_alike"]), (&here.lsn.0.into(), &1.into()));
    assert_eq!(kept["members"][1]["digest"], here.digest.to_string());
    assert_eq!(kept["members"][2]["digest"], "00000000000000000000000000000007");
    let options = DirectoryOptions { log: None, ..options };
    let refused = Directory::open(options, manual_clock()).err().unwrap().to_string();
    assert!(refused.contains(&record), "{refused}");
}
