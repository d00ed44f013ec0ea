//! Persistent search and content synchronisation: what changes is told to those who may see it, as
//! it is made, and a consumer has in the end what it would find.

use std::collections::BTreeMap;

use directory::Directory;
use ldap::control_value::persistent_search::{
    ChangeType, ENTRY_CHANGE_OID, EntryChange, OID as PERSISTENT, PersistentSearch,
};
use ldap::control_value::sync::{
    DONE_OID, EntryState, INFO_OID, REQUEST_OID as SYNC, STATE_OID, SyncDone, SyncInfo,
    SyncRequest, SyncState,
};
use ldap::message::{
    Controls, DecodeLimits, DerefAliases, Message, MessageId, ModifyOperation, Request, Response,
    Scope,
};
use ldap::result::ResultCode;

use crate::support::{Asked, Client, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;
const ANNA: &str = "uid=anna,ou=people,dc=example,dc=org";
const PEOPLE: &str = "ou=people,dc=example,dc=org";

/// A message of a search that goes on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    Entry { dn: String, texts: BTreeMap<String, Vec<String>>, said: Said },
    Info(Info),
    Done(ResultCode, Option<(bool, Vec<u8>)>),
}

/// What was said with an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Nothing,
    Change(ChangeType, Option<String>, Option<u64>),
    State(SyncState, [u8; 16]),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Info {
    Cookie(Vec<u8>),
    Refreshed { deletes: bool, cookie: Vec<u8> },
    Gone(Vec<[u8; 16]>),
}

/// All that has come since.
fn heard(client: &mut Client) -> Vec<Heard> {
    let messages = std::mem::take(&mut client.connection.received);
    messages.iter().map(|octets| hear(octets)).collect()
}

fn hear(octets: &[u8]) -> Heard {
    let message = Message::<Response<'_>>::decode(octets, &DecodeLimits::default()).unwrap();
    match message.op {
        Response::SearchEntry { dn, attributes } => {
            let mut said = Said::Nothing;
            for control in message.controls.iter() {
                let value = control.value.unwrap();
                said = match control.oid {
                    ENTRY_CHANGE_OID => {
                        let told = EntryChange::decode(value).unwrap();
                        Said::Change(told.change, told.previous_dn.map(str::to_owned), told.number)
                    }
                    STATE_OID => {
                        let told = EntryState::decode(value).unwrap();
                        Said::State(told.state, told.uuid)
                    }
                    other => panic!("{other}"),
                };
            }
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let texts = attributes
                .iter()
                .map(|one| (one.description.to_owned(), one.values.iter().map(text).collect()));
            Heard::Entry { dn: dn.to_owned(), texts: texts.collect(), said }
        }
        Response::Intermediate { oid, value } => {
            assert_eq!(oid, Some(INFO_OID));
            Heard::Info(match SyncInfo::decode(value.unwrap()).unwrap() {
                SyncInfo::NewCookie(cookie) => Info::Cookie(cookie.to_vec()),
                SyncInfo::RefreshDelete { cookie, is_done } => {
                    assert!(is_done);
                    Info::Refreshed { deletes: true, cookie: cookie.unwrap().to_vec() }
                }
                SyncInfo::RefreshPresent { cookie, is_done } => {
                    assert!(is_done);
                    Info::Refreshed { deletes: false, cookie: cookie.unwrap().to_vec() }
                }
                SyncInfo::IdSet { is_gone, uuids, .. } => {
                    assert!(is_gone);
                    Info::Gone(uuids)
                }
            })
        }
        Response::SearchDone(result) => {
            let done = message.controls.iter().find(|control| control.oid == DONE_OID);
            let done = done.map(|control| {
                let done = SyncDone::decode(control.value.unwrap()).unwrap();
                (done.refresh_deletes, done.cookie.unwrap().to_vec())
            });
            Heard::Done(result.code, done)
        }
        other => panic!("{other:?}"),
    }
}

/// Names and what was said of them.
fn changes(heard: &[Heard]) -> Vec<(&str, ChangeType)> {
    let change = |one| match one {
        &Heard::Entry { ref dn, said: Said::Change(change, ..), .. } => (dn.as_str(), change),
        other => panic!("{other:?}"),
    };
    heard.iter().map(change).collect()
}

pub(crate) const ALL: PersistentSearch =
    PersistentSearch { change_types: 15, changes_only: true, return_changes: true };

/// Begins a search; the client's connection holds it.
fn begin(client: &mut Client, asked: &Asked<'_>) -> Vec<Heard> {
    let message = client.encode_search(asked);
    client.connection.feed(&message);
    heard(client)
}

pub(crate) fn follow(client: &mut Client, asked: &Asked<'_>, what: PersistentSearch) -> Vec<Heard> {
    let value = what.encode();
    let controls = &[(PERSISTENT, true, Some(&value[..]))][..];
    begin(client, &Asked { controls, ..asked.clone() })
}

pub(crate) fn go_on(client: &mut Client) -> Vec<Heard> {
    client.connection.go_on();
    heard(client)
}

pub(crate) fn everybody_reads(root: &mut Client, base: &str) {
    let aci = "(targetattr=\"* || +\")(version 3.0; acl \"all\"; allow (read,search) \
               userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(base, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
}

pub(crate) fn people(root: &mut Client) {
    assert_eq!(root.add(PEOPLE, &[("objectClass", &["organizationalUnit"])]), OK);
}

pub(crate) fn person(root: &mut Client, uid: &str, more: &[(&str, &[&str])]) -> String {
    let name = format!("uid={uid},{PEOPLE}");
    let list: [(&str, &[&str]); 3] =
        [("objectClass", &["inetOrgPerson"]), ("cn", &["c"]), ("sn", &["s"])];
    let list: Vec<_> = list.into_iter().chain(more.iter().copied()).collect();
    assert_eq!(root.add(&name, &list), OK);
    name
}

pub(crate) fn replace(root: &mut Client, name: &str, attribute: &str, values: &[&str]) {
    assert_eq!(root.modify(name, &[(ModifyOperation::Replace, attribute, values)]), OK);
}

#[test]
fn a_persistent_search_tells_what_is_done() {
    let served = Served::new();
    let (mut root, mut reader) = (served.root(), served.root());
    people(&mut root);
    person(&mut root, "anna", &[("l", &["zug"])]);
    let asked =
        Asked { filter: "(objectClass=inetOrgPerson)", attributes: &["l"], ..Asked::default() };
    let first = follow(&mut reader, &asked, PersistentSearch { changes_only: false, ..ALL });
    let [Heard::Entry { dn, said: Said::Nothing, .. }] = &first[..] else { panic!("{first:?}") };
    assert_eq!(dn, ANNA);
    assert_eq!(go_on(&mut reader), [], "nothing has changed");
    replace(&mut root, ANNA, "l", &["chur"]);
    person(&mut root, "bert", &[]);
    assert_eq!(
        root.add("ou=other,dc=example,dc=org", &[("objectClass", &["organizationalUnit"])]),
        OK
    );
    let told = go_on(&mut reader);
    let bert = "uid=bert,ou=people,dc=example,dc=org";
    assert_eq!(changes(&told), [(ANNA, ChangeType::Modify), (bert, ChangeType::Add)]);
    let Heard::Entry { texts, said: Said::Change(_, None, Some(number)), .. } = &told[0] else {
        panic!("{told:?}")
    };
    assert_eq!(texts["l"], ["chur"]);
    assert_eq!(*number, served.directory.log().applied().0 - 2);
    assert_eq!(root.rename(bert, "uid=berta", true, None), OK);
    assert_eq!(root.delete(ANNA), OK);
    let told = go_on(&mut reader);
    let berta = "uid=berta,ou=people,dc=example,dc=org";
    assert_eq!(changes(&told), [(berta, ChangeType::Rename), (ANNA, ChangeType::Delete)]);
    let Heard::Entry { said: Said::Change(_, Some(previous), _), .. } = &told[0] else {
        panic!("{told:?}")
    };
    assert_eq!(previous, bert);
    let Heard::Entry { texts, .. } = &told[1] else { panic!("{told:?}") };
    assert_eq!(texts["l"], ["chur"], "as it was");
    assert_eq!(reader.connection.streams.len(), 1, "it goes on");
}

#[test]
fn only_the_changes_that_are_wanted_are_told() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    let kinds = [ChangeType::Add, ChangeType::Delete, ChangeType::Modify, ChangeType::Rename];
    let mut readers = kinds.map(|kind| {
        let mut reader = served.root();
        let what = PersistentSearch { change_types: kind as u8, ..ALL };
        assert_eq!(follow(&mut reader, &Asked { base: PEOPLE, ..Asked::default() }, what), []);
        reader
    });
    let name = person(&mut root, "anna", &[]);
    replace(&mut root, &name, "l", &["x"]);
    assert_eq!(root.rename(&name, "uid=b", true, None), OK);
    assert_eq!(root.delete(&format!("uid=b,{PEOPLE}")), OK);
    for (reader, kind) in readers.iter_mut().zip(kinds) {
        let told = go_on(reader);
        let kinds: Vec<_> = changes(&told).into_iter().map(|(_, kind)| kind).collect();
        // What is gone by now is told to be gone alone.
        let want = if kind == ChangeType::Delete { vec![kind] } else { vec![] };
        assert_eq!(kinds, want);
    }
    let plain = PersistentSearch { return_changes: false, ..ALL };
    let mut reader = served.root();
    follow(&mut reader, &Asked::default(), plain);
    person(&mut root, "c", &[]);
    let told = go_on(&mut reader);
    assert!(matches!(&told[..], [Heard::Entry { said: Said::Nothing, .. }]), "{told:?}");
}

#[test]
fn one_that_is_abandoned_or_canceled_ends() {
    let served = Served::new();
    let mut reader = served.root();
    follow(&mut reader, &Asked::default(), ALL);
    assert_eq!(served.directory.streams().0, 1);
    let id = reader.connection.streams[0].0.id();
    reader.connection.session.abandon_all();
    let answered = go_on(&mut reader);
    assert_eq!(answered, []);
    assert!(reader.connection.streams.is_empty());
    assert_eq!(served.directory.streams().0, 0);
    assert!(id != MessageId(0));
    // Cancel (RFC 3909) has an answer.
    let message = reader.encode_search(&Asked {
        controls: &[(PERSISTENT, true, Some(&ALL.encode()))],
        ..Asked::default()
    });
    reader.connection.feed(&message);
    let id = reader.connection.streams[0].0.id();
    let number = u8::try_from(id.0).unwrap();
    let value = [0x30, 3, 2, 1, number];
    let cancel = Request::Extended(ldap::message::ExtendedRequest {
        oid: "1.3.6.1.1.8",
        value: Some(&value),
    });
    let message = reader.encode(cancel, Controls::EMPTY);
    reader.connection.feed(&message);
    reader.connection.received.clear();
    assert_eq!(go_on(&mut reader), [Heard::Done(ResultCode::Canceled, None)]);
}

#[test]
fn so_many_may_be_open_and_each_wants_nothing_else() {
    let served = Served::with(|options| options.limits.streams_max = 2);
    let mut clients: Vec<_> = (0..3).map(|_| served.root()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let told = follow(client, &Asked::default(), ALL);
        match number {
            2 => assert_eq!(told, [Heard::Done(ResultCode::Busy, None)]),
            _ => assert_eq!(told, []),
        }
    }
    drop(clients.pop());
    drop(clients.pop());
    let mut client = served.root();
    let page = b"\x30\x05\x02\x01\x05\x04\x00";
    let value = ALL.encode();
    let sync = SyncRequest { persists: true, cookie: None, reload_hint: false }.encode();
    let both = [
        [(PERSISTENT, true, Some(&value[..])), ("1.2.840.113556.1.4.319", true, Some(&page[..]))],
        [(PERSISTENT, true, Some(&value[..])), (SYNC, true, Some(&sync[..]))],
    ];
    for controls in &both {
        let told = begin(&mut client, &Asked { controls, ..Asked::default() });
        assert_eq!(told, [Heard::Done(ResultCode::UnwillingToPerform, None)]);
    }
    for base in ["cn=monitor", "cn=changelog", "cn=schema"] {
        let told = follow(&mut client, &Asked { base, ..Asked::default() }, ALL);
        assert_eq!(told, [Heard::Done(ResultCode::UnwillingToPerform, None)], "{base}");
    }
    let controls = &[(SYNC, true, Some(&sync[..]))][..];
    let aliases = Asked { deref: DerefAliases::Always, controls, ..Asked::default() };
    let unwilling = [Heard::Done(ResultCode::UnwillingToPerform, None)];
    assert_eq!(begin(&mut client, &aliases), unwilling);
    let computed = Asked { filter: "(memberOf=cn=x)", controls, ..Asked::default() };
    assert_eq!(begin(&mut client, &computed), unwilling);
    let filter = "(member:1.2.840.113556.1.4.1941:=cn=x)";
    let chains = Asked { filter, controls, ..Asked::default() };
    assert_eq!(begin(&mut client, &chains), unwilling);
    assert_eq!(follow(&mut client, &chains, ALL), unwilling);
    let nowhere = Asked { base: "ou=nothing,dc=example,dc=org", controls, ..Asked::default() };
    assert_eq!(begin(&mut client, &nowhere), [Heard::Done(ResultCode::NoSuchObject, None)]);
}

/// Attributes and their values, as text.
type Texts = BTreeMap<String, Vec<String>>;

/// What a consumer has, kept up to date by what it hears.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    entries: BTreeMap<[u8; 16], (String, Texts)>,
    cookie: Vec<u8>,
    /// Named since the refresh began.
    mentioned: Vec<[u8; 16]>,
    /// How often it got all anew.
    presents: usize,
    /// What it heard when it asked last.
    pub(crate) told: Vec<Heard>,
}

impl Consumer {
    pub(crate) fn hear(&mut self, all: Vec<Heard>) -> Option<ResultCode> {
        let mut code = None;
        for one in all {
            match one {
                Heard::Entry { dn, texts, said: Said::State(state, uuid) } => match state {
                    SyncState::Add | SyncState::Modify => {
                        self.mentioned.push(uuid);
                        self.entries.insert(uuid, (dn, texts));
                    }
                    SyncState::Delete => {
                        assert_eq!(texts, BTreeMap::new());
                        self.entries.remove(&uuid);
                    }
                    SyncState::Present => panic!("{dn}"),
                },
                Heard::Info(Info::Cookie(cookie)) => self.cookie = cookie,
                Heard::Info(Info::Gone(uuids)) => {
                    for uuid in uuids {
                        self.entries.remove(&uuid);
                        self.mentioned.retain(|one| *one != uuid);
                    }
                }
                Heard::Info(Info::Refreshed { deletes, cookie }) => self.refreshed(deletes, cookie),
                Heard::Done(done, refreshed) => {
                    if let Some((deletes, cookie)) = refreshed {
                        self.refreshed(deletes, cookie);
                    }
                    code = Some(done);
                }
                other @ Heard::Entry { .. } => panic!("{other:?}"),
            }
        }
        code
    }

    fn refreshed(&mut self, deletes: bool, cookie: Vec<u8>) {
        if !deletes {
            let mentioned = &self.mentioned;
            self.entries.retain(|uuid, _| mentioned.contains(uuid));
            self.presents += 1;
        }
        self.cookie = cookie;
        self.mentioned.clear();
    }

    /// Asks as far as it goes.
    pub(crate) fn ask(
        &mut self,
        client: &mut Client,
        asked: &Asked<'_>,
        persists: bool,
    ) -> Option<ResultCode> {
        let cookie = Some(self.cookie.as_slice()).filter(|cookie| !cookie.is_empty());
        let value = SyncRequest { persists, cookie, reload_hint: true }.encode();
        let controls = &[(SYNC, true, Some(&value[..]))][..];
        self.mentioned.clear();
        let heard = begin(client, &Asked { controls, ..asked.clone() });
        self.told.clone_from(&heard);
        self.hear(heard)
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.entries.values().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// It has what a search finds.
    #[track_caller]
    pub(crate) fn check(&self, client: &mut Client, asked: &Asked<'_>) {
        let found = client.search(asked);
        let mut want: Vec<_> = found
            .entries
            .iter()
            .map(|entry| {
                let texts = entry.attributes.keys().map(|name| (name.clone(), entry.texts(name)));
                (entry.dn.clone(), texts.collect::<BTreeMap<_, _>>())
            })
            .collect();
        let mut has: Vec<_> = self.entries.values().cloned().collect();
        want.sort();
        has.sort();
        assert_eq!(has, want);
    }
}

pub(crate) const CITIES: Asked<'_> = Asked {
    base: SUFFIX,
    scope: Scope::Subtree,
    deref: DerefAliases::Never,
    filter: "(l=zug)",
    attributes: &["l", "description"],
    size_limit_entries: 0,
    time_limit_s: 0,
    controls: &[],
};

#[test]
fn a_consumer_that_comes_back_gets_what_it_missed() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    for uid in ["a", "b", "c", "d"] {
        person(&mut root, uid, &[("l", &["zug"])]);
    }
    let mut client = served.root();
    let mut consumer = Consumer::default();
    assert_eq!(consumer.ask(&mut client, &CITIES, false), Some(OK));
    assert_eq!((consumer.entries.len(), consumer.presents), (4, 1));
    let text = String::from_utf8(consumer.cookie.clone()).unwrap();
    assert!(text.starts_with("rid=000,csn=2026"), "{text}");
    // Nothing, then one of each.
    assert_eq!(consumer.ask(&mut client, &CITIES, false), Some(OK));
    consumer.check(&mut client, &CITIES);
    person(&mut root, "new", &[("l", &["zug"])]);
    person(&mut root, "elsewhere", &[("l", &["chur"])]);
    assert_eq!(root.delete(&format!("uid=a,{PEOPLE}")), OK);
    replace(&mut root, &format!("uid=b,{PEOPLE}"), "l", &["chur"]);
    replace(&mut root, &format!("uid=c,{PEOPLE}"), "description", &["other"]);
    replace(&mut root, &format!("uid=elsewhere,{PEOPLE}"), "l", &["zug"]);
    assert_eq!(root.rename(&format!("uid=d,{PEOPLE}"), "uid=dora", true, None), OK);
    let value = SyncRequest { persists: false, cookie: Some(&consumer.cookie), reload_hint: false }
        .encode();
    let controls = &[(SYNC, true, Some(&value[..]))][..];
    let told = begin(&mut client, &Asked { controls, ..CITIES });
    let is_gone = |said: &Said| matches!(said, Said::State(SyncState::Delete, _));
    let (gone, entries): (Vec<_>, Vec<_>) = told
        .iter()
        .filter_map(|one| match one {
            Heard::Entry { said, .. } => Some(said),
            _ => None,
        })
        .partition(|said| is_gone(said));
    // 'elsewhere' is told twice, as it was made and as it was changed.
    assert_eq!((entries.len(), gone.len()), (5, 2), "{told:?}");
    assert_eq!(consumer.hear(told), Some(OK));
    assert_eq!(consumer.presents, 1, "nothing was sent twice");
    consumer.check(&mut client, &CITIES);
    assert_eq!(consumer.entries.len(), 4);
}

#[test]
fn a_consumer_that_stays_hears_of_changes() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    person(&mut root, "a", &[("l", &["zug"])]);
    let mut client = served.root();
    let mut other = served.root();
    let mut consumer = Consumer::default();
    assert_eq!(consumer.ask(&mut client, &CITIES, true), None);
    consumer.check(&mut other, &CITIES);
    for (round, city) in ["chur", "zug", "chur", "zug"].into_iter().enumerate() {
        let before = consumer.cookie.clone();
        replace(&mut root, &format!("uid=a,{PEOPLE}"), "l", &[city]);
        person(&mut root, &format!("p{round}"), &[("l", &[city])]);
        let heard = go_on(&mut client);
        assert_eq!(consumer.hear(heard), None);
        consumer.check(&mut other, &CITIES);
        assert_ne!(consumer.cookie, before, "it may go on from there");
    }
    // In two steps out of the content, told together.
    let (a, b) = (format!("uid=a,{PEOPLE}"), "(&(l=zug)(description=x))");
    let both = Asked { filter: b, ..CITIES };
    let mut second = served.root();
    let mut of_both = Consumer::default();
    replace(&mut root, &a, "description", &["x"]);
    assert_eq!(of_both.ask(&mut second, &both, true), None);
    assert_eq!(of_both.names(), [a.as_str()]);
    replace(&mut root, &a, "l", &["chur"]);
    replace(&mut root, &a, "description", &["y"]);
    let heard = go_on(&mut second);
    assert_eq!(of_both.hear(heard), None);
    of_both.check(&mut other, &both);
    assert_eq!(of_both.entries.len(), 0);
    // The cookie of one that stayed is good for one that comes back.
    replace(&mut root, &a, "l", &["zug"]);
    let mut again = served.root();
    assert_eq!(consumer.ask(&mut again, &CITIES, false), Some(OK));
    consumer.check(&mut other, &CITIES);
    assert_eq!(consumer.presents, 1);
}

#[test]
fn cookies_are_of_one_search_and_one_history() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    person(&mut root, "a", &[("l", &["zug"])]);
    let mut consumer = Consumer::default();
    assert_eq!(consumer.ask(&mut root, &CITIES, false), Some(OK));
    let ask = |client: &mut Client, asked: &Asked<'_>, cookie: &[u8], reload_hint| {
        let request = SyncRequest { persists: false, cookie: Some(cookie), reload_hint };
        let value = request.encode();
        let told =
            begin(client, &Asked { controls: &[(SYNC, true, Some(&value))], ..asked.clone() });
        let Some(Heard::Done(code, done)) = told.last().cloned() else { panic!("{told:?}") };
        (code, done.map(|(deletes, _)| deletes))
    };
    let required = (ResultCode::SyncRefreshRequired, None);
    let cookie = consumer.cookie.clone();
    assert_eq!(ask(&mut root, &CITIES, &cookie, false), (OK, Some(true)));
    let others = [
        Asked { filter: "(l=chur)", ..CITIES },
        Asked { attributes: &["l"], ..CITIES },
        Asked { base: PEOPLE, ..CITIES },
        Asked { scope: Scope::One, ..CITIES },
    ];
    for other in &others {
        assert_eq!(ask(&mut root, other, &cookie, false), required, "{other:?}");
        assert_eq!(ask(&mut root, other, &cookie, true), (OK, Some(false)));
    }
    let mut altered = cookie.clone();
    *altered.last_mut().unwrap() ^= 1;
    for bad in [&altered[..], b"x", b"rid=001,csn=20200101000000.000000Z#000000#000#000000"] {
        assert_eq!(ask(&mut root, &CITIES, bad, false), required);
    }
    // As OpenLDAP's consumers send it.
    let text = String::from_utf8(cookie.clone()).unwrap();
    let csn = text.split(',').nth(1).unwrap();
    replace(&mut root, &format!("uid=a,{PEOPLE}"), "description", &["x"]);
    let kept = format!("rid=123,{csn}");
    assert_eq!(ask(&mut root, &CITIES, kept.as_bytes(), false), (OK, Some(true)));
    let mut of_kept = Consumer { cookie: kept.into_bytes(), ..Consumer::default() };
    assert_eq!(of_kept.ask(&mut root, &CITIES, false), Some(OK));
    assert_eq!(of_kept.entries.len(), 1);
    assert!(of_kept.cookie.starts_with(b"rid=123,csn="));
    // A server that starts again knows it.
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    assert_eq!(ask(&mut root, &CITIES, &cookie, false), (OK, Some(true)));
}

#[test]
fn where_rules_change_a_consumer_begins_again() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    person(&mut root, "a", &[("l", &["zug"])]);
    everybody_reads(&mut root, PEOPLE);
    let mut client = served.client();
    let asked = Asked { base: PEOPLE, ..CITIES };
    let mut consumer = Consumer::default();
    assert_eq!(consumer.ask(&mut client, &asked, true), None);
    assert_eq!(consumer.entries.len(), 1);
    let deny = "(targetattr=\"description\")(version 3.0; acl \"no\"; deny (all) \
                userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(PEOPLE, &[(ModifyOperation::Add, "aci", &[deny])]), OK);
    let heard = go_on(&mut client);
    assert_eq!(consumer.hear(heard), Some(ResultCode::SyncRefreshRequired));
    assert_eq!(consumer.ask(&mut client, &asked, true), None);
    assert_eq!(consumer.presents, 2);
    // A subtree that moves takes all below it along.
    assert_eq!(
        root.add(&format!("ou=x,{PEOPLE}"), &[("objectClass", &["organizationalUnit"])]),
        OK
    );
    assert_eq!(
        root.add(&format!("cn=d,ou=x,{PEOPLE}"), &[("objectClass", &["device"]), ("l", &["zug"])]),
        OK
    );
    let heard = go_on(&mut client);
    assert_eq!(consumer.hear(heard), None);
    assert_eq!(consumer.entries.len(), 2);
    assert_eq!(root.rename(&format!("ou=x,{PEOPLE}"), "ou=y", true, None), OK);
    let heard = go_on(&mut client);
    assert_eq!(consumer.hear(heard), Some(ResultCode::SyncRefreshRequired));
    assert_eq!(consumer.ask(&mut client, &asked, false), Some(OK));
    consumer.check(&mut client, &asked);
}

#[test]
fn what_went_from_below_a_branch_that_was_renamed_before_is_gone() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    let branch = format!("ou=x,{PEOPLE}");
    assert_eq!(root.add(&branch, &[("objectClass", &["organizationalUnit"])]), OK);
    let leaf: [(&str, &[&str]); 2] = [("objectClass", &["device"]), ("l", &["zug"])];
    assert_eq!(root.add(&format!("cn=d,{branch}"), &leaf), OK);
    let mut client = served.root();
    let asked = Asked { base: PEOPLE, ..CITIES };
    let mut consumer = Consumer::default();
    assert_eq!(consumer.ask(&mut client, &asked, true), None);
    assert_eq!(consumer.entries.len(), 1);
    assert_eq!(root.rename(&branch, "ou=x", true, Some(SUFFIX)), OK);
    assert_eq!(root.delete(&format!("cn=d,ou=x,{SUFFIX}")), OK);
    let heard = go_on(&mut client);
    assert_eq!(consumer.hear(heard), Some(ResultCode::SyncRefreshRequired));
    assert_eq!(consumer.ask(&mut client, &asked, false), Some(OK));
    assert_eq!(consumer.entries.len(), 0);
}

#[test]
fn records_are_decoded_once_for_all_who_read_them() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    let mut readers: Vec<_> = (0..50).map(|_| served.root()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        match number % 2 {
            0 => assert_eq!(follow(reader, &Asked::default(), ALL), []),
            _ => assert_eq!(Consumer::default().ask(reader, &CITIES, true), None),
        }
    }
    let decoded = |directory: &Directory| directory.stream_records_decoded();
    let before = decoded(&served.directory);
    for round in 0..10 {
        person(&mut root, &format!("p{round}"), &[("l", &["zug"])]);
        for reader in &mut readers {
            assert!(!go_on(reader).is_empty());
        }
    }
    assert_eq!(decoded(&served.directory) - before, 10);
}

#[test]
fn one_who_asks_has_so_many() {
    let served = Served::with(|options| options.limits.streams_each_max = 2);
    let mut root = served.root();
    people(&mut root);
    everybody_reads(&mut root, SUFFIX);
    person(&mut root, "anna", &[("userPassword", &["secret"])]);
    let sign_in = |name| {
        let mut client = served.client();
        assert_eq!(client.bind(name, "secret"), OK);
        client
    };
    let anna = ANNA.to_owned();
    let mut all: Vec<_> = (0..2).map(|_| sign_in(&anna)).collect();
    all.extend((0..2).map(|_| served.client()));
    all.extend((0..4).map(|_| served.root()));
    for client in &mut all {
        assert_eq!(follow(client, &CITIES, ALL), []);
    }
    let busy = [Heard::Done(ResultCode::Busy, None)];
    for mut client in [sign_in(&anna), served.client()] {
        assert_eq!(follow(&mut client, &CITIES, ALL), busy);
    }
    all.clear();
    assert_eq!(follow(&mut sign_in(&anna), &CITIES, ALL), []);
}

#[test]
fn who_may_not_use_the_control_any_more_hears_no_more() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    everybody_reads(&mut root, SUFFIX);
    let mut reader = served.client();
    assert_eq!(follow(&mut reader, &CITIES, ALL), []);
    let name = person(&mut root, "a", &[("l", &["zug"])]);
    assert_eq!(changes(&go_on(&mut reader)), [(name.as_str(), ChangeType::Add)]);
    let denied = format!(
        "(targetcontrol=\"{PERSISTENT}\")(version 3.0; acl \"no\"; deny (read) \
         userdn=\"ldap:///anyone\";)"
    );
    let global = (ModifyOperation::Add, "ds-cfg-global-aci", &[denied.as_str()][..]);
    assert_eq!(root.modify("cn=Access Control Handler,cn=config", &[global]), OK);
    replace(&mut root, &name, "description", &["x"]);
    let over = [Heard::Done(ResultCode::InsufficientAccessRights, None)];
    assert_eq!(go_on(&mut reader), over);
}

#[test]
fn a_naming_context_tells_the_number_of_the_last_change() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    let name = person(&mut root, "a", &[("l", &["zug"])]);
    let mut told = Vec::new();
    for attributes in [&["contextCSN"][..], &["+"], &["*", "contextCSN"]] {
        replace(&mut root, &name, "description", &["x"]);
        let asked = Asked { base: SUFFIX, scope: Scope::Base, attributes, ..Asked::default() };
        let found = root.search(&asked).entries[0].texts("contextCSN");
        let mut consumer = Consumer::default();
        assert_eq!(consumer.ask(&mut root, &CITIES, false), Some(OK));
        let cookie = String::from_utf8(consumer.cookie.clone()).unwrap();
        assert!(cookie.contains(&format!("csn={},", found[0])), "{found:?} {cookie}");
        let entry = Asked { base: &name, scope: Scope::Base, attributes, ..Asked::default() };
        let entry = &root.search(&entry).entries[0];
        assert_eq!(entry.texts("contextCSN"), [""; 0]);
        let stamp = Asked { base: &name, scope: Scope::Base, attributes: &["+"], ..CITIES };
        assert_eq!(root.search(&stamp).entries[0].texts("entryCSN"), found, "it was the last");
        told.extend(found);
    }
    assert!(told.is_sorted() && told[0] < told[2], "{told:?}");
    let plain = Asked { base: SUFFIX, scope: Scope::Base, ..Asked::default() };
    assert_eq!(root.search(&plain).entries[0].texts("contextCSN"), [""; 0], "not unasked");
    // It is for those who may know that something has changed that they may not see.
    let asked = Asked { attributes: &["contextCSN"], ..plain };
    let aci = "(targetattr=\"contextCSN\")(version 3.0; acl \"no\"; deny (all) \
               userdn=\"ldap:///anyone\";)";
    everybody_reads(&mut root, SUFFIX);
    assert!(served.client().search(&asked).entries[0].attributes.is_empty());
    let filter = Asked { filter: "(contextCSN=*)", ..asked.clone() };
    assert_eq!(served.client().search(&filter).entries.len(), 0);
    let privileged = ("ds-privilege-name", &["changelog-read"][..]);
    person(&mut root, "anna", &[("userPassword", &["secret"]), privileged]);
    let mut anna = served.client();
    assert_eq!(anna.bind(ANNA, "secret"), OK);
    assert_eq!(anna.search(&asked).entries[0].texts("contextCSN").len(), 1);
    assert_eq!(anna.search(&filter).entries.len(), 1);
    // Rules have to let them, too.
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    assert!(anna.search(&asked).entries[0].attributes.is_empty());
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "contextCSN", &["x"])]), {
        ResultCode::ConstraintViolation
    });
}

#[test]
fn changes_that_concern_nobody_wake_nobody() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    let name = person(&mut root, "a", &[("l", &["zug"])]);
    let mut readers = [served.root(), served.root()];
    assert_eq!(follow(&mut readers[0], &Asked { filter: "(l=chur)", ..CITIES }, ALL), []);
    assert_eq!(follow(&mut readers[1], &Asked { filter: "(!(l=chur))", ..CITIES }, ALL), []);
    let wait = |reader: &Client| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let wake = move |passed| sender.send(passed).unwrap();
        let job = &reader.connection.streams[0].0;
        (served.directory.wait_for_change(job, Box::new(wake)).unwrap(), receiver)
    };
    let (quiet, woken) = (wait(&readers[0]), wait(&readers[1]));
    let limit = std::time::Duration::from_secs(20);
    for number in 1..=600 {
        replace(&mut root, &name, "description", &["x"]);
        // They are looked at before there are too many to be shared.
        let millisecond = std::time::Duration::from_millis(1);
        let is_read = || served.directory.stream_records_decoded() >= number;
        while number.is_multiple_of(50) && !is_read() {
            assert!(quiet.1.recv_timeout(millisecond).is_err());
        }
    }
    woken.1.recv_timeout(limit).expect("it hears of them");
    assert!(quiet.1.try_recv().is_err());
    // What concerns it wakes it, and it looks at that alone: the others are not read again.
    replace(&mut root, &name, "l", &["chur"]);
    let passed = quiet.1.recv_timeout(limit).expect("it hears of this one");
    let (mut job, sent) = readers[0].connection.streams.remove(0);
    job.pass(passed);
    readers[0].connection.streams.push((job, sent));
    assert_eq!(changes(&go_on(&mut readers[0])), [(name.as_str(), ChangeType::Modify)]);
}

#[test]
fn a_negation_is_judged_by_the_rights_of_its_reader() {
    let served = Served::new();
    let mut root = served.root();
    people(&mut root);
    everybody_reads(&mut root, SUFFIX);
    // The supertype may be searched, one of its subtypes may not.
    let aci = "(targetattr=\"cn\")(version 3.0; acl \"no\"; deny (search) \
               userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    let name = person(&mut root, "a", &[]);
    let asked = Asked { filter: "(&(sn=s)(!(name=c)))", ..CITIES };
    assert_eq!(root.search(&asked).entries.len(), 0);
    let mut reader = served.client();
    assert_eq!(reader.search(&asked).entries.len(), 1, "what it may not search is not there");
    assert_eq!(follow(&mut reader, &asked, ALL), []);
    replace(&mut root, &name, "description", &["x"]);
    assert_eq!(changes(&go_on(&mut reader)), [(name.as_str(), ChangeType::Modify)]);
}
