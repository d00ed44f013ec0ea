//! Records read back as they were written, and damage is noticed.

use std::time::Instant;

use aci::Permitted;
use environment::Timestamp;
use ldap::dn::{Ava, Dn, Rdn};
use proptest::prelude::*;
use schema::{
    AddChange, Attribute, AttributeDelta, DeleteChange, DnKey, Entry, EntryId, GatherChange,
    IndexChange, ModifyChange, RdnKey, RenameChange, Schema, SchemaChange, SettingChange,
};

use super::*;

fn dn(text: &str) -> Dn {
    Dn::parse(text).unwrap()
}

fn origin() -> Origin {
    Origin {
        request: *b"0123456789abcdef",
        who: Arc::new(Who {
            dn: "uid=anna,dc=example,dc=com".to_owned(),
            authz: String::new(),
            address: "192.0.2.7:40112".to_owned(),
            mechanism: "simple".into(),
            session: 300,
        }),
        message: 7,
        op: OpKind::Add,
        controls: vec![Cow::Borrowed("1.3.6.1.1.12")],
        purpose: None,
    }
}

fn record(changes: Vec<Change>) -> Record {
    Record {
        lsn: Lsn(17),
        prev_hash: 0x0102_0304_0506_0708,
        reign: Reign::ETERNAL,
        csn: Csn::at(Timestamp(1_735_689_599_000_042)),
        origin: origin(),
        changes,
    }
}

fn person(number: u64) -> Change {
    let schema = Schema::builtin();
    let name = dn(&format!("uid=user.{number},ou=people,dc=example,dc=com"));
    let text = format!(
        "objectClass=top objectClass=person objectClass=organizationalPerson \
         objectClass=inetOrgPerson uid=user.{number} cn=User.{number} sn={number} givenName=User \
         mail=user.{number}@example.com telephoneNumber=+49-30-{number} \
         mobile=+49-170-{number} employeeNumber={number} employeeType=regular \
         title=Engineer ou=people l=Berlin street=Unter-den-Linden-{number} postalCode=10117 \
         roomNumber=12 departmentNumber=42 preferredLanguage=de initials=U \
         description=number-{number} \
         userPassword={{SSHA512}}0123456789012345678901234567890123456789012345678901234567890123 \
         entryUUID=12345678-1234-1234-1234-123456789012 \
         entryCSN=20241231235959.000042Z#000000#000#000000 createTimestamp=20241231235959Z \
         modifyTimestamp=20241231235959Z creatorsName=cn=manager modifiersName=cn=manager"
    );
    let pairs = text.split_whitespace().map(|pair| {
        let (description, value) = pair.split_once('=').unwrap();
        (description, value.as_bytes())
    });
    let entry = Entry::from_pairs(name, pairs, &schema).unwrap();
    let key = DnKey::from_dn(&schema, entry.name()).unwrap().leaf().unwrap();
    Change::Add(AddChange { id: EntryId(number + 1), parent: EntryId(2), key, entry })
}

#[track_caller]
fn check_round_trip(record: &Record) {
    let mut bytes = vec![7, 7];
    let hash = record.encode(&mut bytes).unwrap();
    let bytes = &bytes[2..];
    assert_eq!(Record::decode(bytes, &Schema::builtin()).as_ref(), Ok(record));
    let head = RecordHead::read(bytes).unwrap();
    assert_eq!((head.lsn, head.prev_hash, head.hash), (record.lsn, record.prev_hash, hash));
    assert_eq!(
        (head.reign, head.csn, head.request),
        (record.reign, record.csn, *b"0123456789abcdef")
    );
    let level = |change: &Change| match change {
        Change::Gather(_) => 5,
        Change::Setting(_) => 3,
        Change::Index(_) => 2,
        _ => 1,
    };
    let level = record.changes.iter().map(level).max().unwrap_or(1);
    assert_eq!((head.format, head.level), (RECORD_FORMAT, level));
    assert!(level <= RECORD_LEVEL);
}

fn octets() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 120..300),
    ]
}

fn descriptions() -> impl Strategy<Value = Arc<schema::AttributeDescription>> {
    let texts = [
        "cn",
        "sn;lang-de",
        "description",
        "userCertificate;binary",
        "jpegPhoto",
        "entryUUID",
        "member",
        "mail;x-a;x-b",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| Schema::builtin().describe(text).unwrap())
}

fn rdns() -> impl Strategy<Value = Rdn> {
    let types = prop::sample::select(vec!["cn", "OU", "dc", "2.5.4.3", "x-unknown"]);
    let ava = (types, octets())
        .prop_map(|(attribute, value)| Ava { attribute: attribute.to_owned(), value });
    prop::collection::vec(ava, 1..4).prop_map(|avas| Rdn::new(avas).unwrap())
}

fn dns() -> impl Strategy<Value = Dn> {
    prop::collection::vec(rdns(), 1..5).prop_map(Dn::new)
}

fn attributes() -> impl Strategy<Value = Vec<Attribute>> {
    let values = prop::collection::vec(octets(), 1..4);
    let attribute = (descriptions(), values)
        .prop_map(|(description, values)| Attribute { description, values });
    prop::collection::vec(attribute, 0..6)
}

fn deltas() -> impl Strategy<Value = Vec<AttributeDelta>> {
    let values = || prop::collection::vec(octets(), 0..4);
    let delta = (descriptions(), values(), values())
        .prop_map(|(description, removed, added)| AttributeDelta { description, removed, added });
    prop::collection::vec(delta, 0..5)
}

fn keys() -> impl Strategy<Value = RdnKey> {
    octets().prop_map(RdnKey::from_bytes)
}

fn changes() -> impl Strategy<Value = Change> {
    let ids = || (1..=u64::MAX).prop_map(EntryId);
    let lines = || prop::collection::vec(".{0,20}", 0..4);
    prop_oneof![
        (ids(), any::<u64>(), keys(), dns(), attributes()).prop_map(
            |(id, parent, key, name, attributes)| {
                let entry = Entry::from_stored(name, attributes);
                Change::Add(AddChange { id, parent: EntryId(parent), key, entry })
            }
        ),
        (ids(), dns(), deltas()).prop_map(|(id, dn, deltas)| Change::Modify(ModifyChange {
            id,
            dn,
            deltas
        })),
        (ids(), dns(), any::<u64>(), dns(), keys(), deltas()).prop_map(
            |(id, old_dn, parent, new_dn, key, deltas)| {
                let (new_parent, new_rdn) = (EntryId(parent), new_dn.rdns()[0].clone());
                Change::Rename(RenameChange {
                    id,
                    old_dn,
                    new_parent,
                    new_dn,
                    new_rdn,
                    key,
                    deltas,
                })
            }
        ),
        (ids(), dns(), attributes())
            .prop_map(|(id, dn, attributes)| Change::Delete(DeleteChange { id, dn, attributes })),
        (lines(), lines())
            .prop_map(|(added, removed)| Change::Schema(SchemaChange { added, removed })),
        (lines(), lines())
            .prop_map(|(added, removed)| Change::Index(IndexChange { added, removed })),
        ("[a-z-]{1,9}", lines())
            .prop_map(|(name, values)| Change::Setting(SettingChange { name, values })),
        (ids(), dns(), prop::collection::vec(descriptions(), 0..3), any::<u64>()).prop_map(
            |(id, dn, attributes, values_max)| Change::Gather(GatherChange {
                id,
                dn,
                attributes,
                values_max
            })
        ),
        (0..=RECORD_LEVEL).prop_map(Change::Level),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    let numbers = any::<(u64, u64, u64, u64, u32, u16, u32)>();
    let origin = (
        any::<u64>(),
        0..=i32::MAX,
        prop::sample::select(OpKind::ALL.to_vec()),
        prop::collection::vec("[0-9.]{1,20}".prop_map(Cow::Owned), 0..3),
        [".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}"],
        prop::option::of(".{0,9}".prop_map(|text| Arc::from(text.as_str()))),
    )
        .prop_map(
            |(session, message, op, controls, [dn, authz, address, mechanism], purpose)| {
                let mechanism = Cow::Owned(mechanism);
                let who = Arc::new(Who { dn, authz, address, mechanism, session });
                Origin { request: *b"0123456789abcdef", who, message, op, controls, purpose }
            },
        );
    (numbers, origin, prop::collection::vec(changes(), 0..4)).prop_map(
        |((lsn, prev_hash, reign, time, count, replica, modification), origin, changes)| {
            let csn = Csn { time: Timestamp(time), count, replica, modification };
            let (lsn, reign) = (Lsn(lsn), Reign(reign));
            Record { lsn, prev_hash, reign, csn, origin, changes }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn records_read_back_as_they_were(record in records()) {
        check_round_trip(&record);
    }

    #[test]
    fn damage_never_panics(record in records(), cut: u16, at: u16, flip in 1_u8..) {
        let mut bytes = Vec::new();
        let hash = record.encode(&mut bytes).unwrap();
        let cut = usize::from(cut) % bytes.len();
        prop_assert!(Record::decode(&bytes[..cut], &Schema::builtin()).is_err());
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= flip;
        let _ = Record::decode(&bytes, &Schema::builtin());
        if let Ok(head) = RecordHead::read(&bytes) {
            // The octets before the hash are not covered by it.
            prop_assert!(head.hash != hash || at < bytes.len() - 8);
        }
    }
}

#[test]
fn an_ordinary_entry_reads_back() {
    check_round_trip(&record(vec![person(1)]));
}

#[test]
fn names_of_any_depth_read_back() {
    // An entry can come to lie deeper than a client may write, by renames of its superiors.
    let deep = Dn::new(vec![Rdn::parse("cn=a").unwrap(); 3000]);
    let delete = DeleteChange { id: EntryId(3), dn: deep, attributes: Vec::new() };
    check_round_trip(&record(vec![Change::Delete(delete)]));
}

/// The octets of a record with one change, and where the kind of that change is.
fn bytes_and_kind() -> (Vec<u8>, usize) {
    let lines = SchemaChange { added: Vec::new(), removed: Vec::new() };
    let mut bytes = Vec::new();
    record(vec![Change::Schema(lines)]).encode(&mut bytes).unwrap();
    let kind = bytes.len() - 3;
    assert_eq!(bytes[kind], CHANGE_SCHEMA);
    (bytes, kind)
}

#[track_caller]
fn check_unknown(bytes: &[u8], what: &'static str, number: u64) {
    let error = Record::decode(bytes, &Schema::builtin()).unwrap_err();
    assert_eq!(error, RecordError::UnknownKind { what, number });
}

#[test]
fn what_is_not_known_ends_the_reading() {
    let (bytes, kind) = bytes_and_kind();
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    check_unknown(&with(1, 2), "record format", 2);
    check_unknown(&with(3, 9), "record level", 9);
    check_unknown(&with(ORIGIN_LENGTH_OFFSET + 4, 99), "operation kind", 99);
    check_unknown(&with(kind, 77), "change kind", 77);
    let mut notice = with(kind, CHANGE_NOTICE);
    notice[kind + 1] = 50;
    check_unknown(&notice, "notice kind", 50);
    for (at, value) in [(1, 2), (3, 9)] {
        let error = RecordHead::read(&with(at, value)).unwrap_err();
        assert!(matches!(error, RecordError::UnknownKind { .. }));
    }
}

#[test]
fn lengths_are_not_believed() {
    let (mut bytes, kind) = bytes_and_kind();
    bytes.truncate(kind + 1);
    // So many lines that room for them would be more than there is memory.
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    let error = Record::decode(&bytes, &Schema::builtin()).unwrap_err();
    assert!(matches!(error, RecordError::Malformed { .. }), "{error}");
    let error = Record::decode(&vec![0; RECORD_LENGTH_MAX_BYTES + 1], &Schema::builtin());
    assert_eq!(error, Err(RecordError::TooLarge { bytes: RECORD_LENGTH_MAX_BYTES + 1 }));
}

#[test]
fn a_record_that_is_too_long_is_refused_whole() {
    let jpeg_photo = Schema::builtin().describe("jpegPhoto").unwrap();
    let added = vec![vec![0; RECORD_LENGTH_MAX_BYTES]];
    let delta = AttributeDelta { description: jpeg_photo, removed: Vec::new(), added };
    let change = ModifyChange { id: EntryId(1), dn: dn("cn=a"), deltas: vec![delta] };
    let mut out = vec![1, 2, 3];
    let error = record(vec![Change::Modify(change)]).encode(&mut out).unwrap_err();
    assert!(matches!(error, RecordError::TooLarge { bytes } if bytes > RECORD_LENGTH_MAX_BYTES));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn a_large_entry_is_deleted_without_its_attributes() {
    let description = Schema::builtin().describe("jpegPhoto").unwrap();
    let values = vec![vec![0; DELETED_ATTRIBUTES_MAX_BYTES]];
    let attributes = vec![Attribute { description, values }];
    let delete = DeleteChange { id: EntryId(1), dn: dn("cn=a"), attributes };
    let mut out = Vec::new();
    record(vec![Change::Delete(delete)]).encode(&mut out).unwrap();
    let read = Record::decode(&out, &Schema::builtin()).unwrap();
    let [Change::Delete(delete)] = &read.changes[..] else { panic!("{read:?}") };
    assert!(delete.attributes.is_empty());
}

#[test]
fn an_attribute_that_the_schema_lacks_is_named() {
    let mut bytes = Vec::new();
    record(vec![person(1)]).encode(&mut bytes).unwrap();
    let at = bytes.windows(11).position(|window| window == b"description").unwrap();
    bytes[at..at + 11].copy_from_slice(b"nescription");
    let error = Record::decode(&bytes, &Schema::builtin()).unwrap_err();
    assert!(error.to_string().starts_with("attribute 'nescription': "), "{error}");
}

#[test]
fn the_hash_covers_what_was_done_and_what_was_before() {
    let hash = |record: &Record| record.encode(&mut Vec::new()).unwrap();
    let one = record(vec![person(1)]);
    assert_ne!(hash(&one), hash(&record(vec![person(2)])));
    assert_ne!(hash(&one), hash(&Record { prev_hash: 1, ..one.clone() }));
    let later = Csn::at(Timestamp(1));
    assert_eq!(hash(&one), hash(&Record { csn: later, lsn: Lsn(99), ..one.clone() }));
}

/// `cargo test --release -p history -- --ignored --nocapture encoding_costs`
#[test]
#[ignore = "a measurement, for an optimised build"]
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement")]
fn encoding_costs() {
    let changes: Vec<_> = (0..64).map(person).map(Permitted::internal).collect();
    let (origin, rounds) = (origin(), 200_000);
    let mut out = Vec::new();
    let started = Instant::now();
    let mut prev_hash = 0;
    for round in 0..rounds {
        let draft = RecordDraft {
            lsn: Lsn(round as u64),
            prev_hash,
            reign: Reign::ETERNAL,
            csn: Csn::at(Timestamp(round as u64)),
            origin: &origin,
            changes: &changes[round % 64..=round % 64],
        };
        out.clear();
        prev_hash = draft.encode(&mut out).unwrap();
    }
    let encode = started.elapsed() / rounds as u32;
    let schema = Schema::builtin();
    let started = Instant::now();
    for _ in 0..rounds {
        Record::decode(&out, &schema).unwrap();
    }
    let decode = started.elapsed() / rounds as u32;
    println!("{} octets: encode {encode:?}, decode {decode:?} ({prev_hash:x})", out.len());
}

#[test]
fn who_does_not_know_of_purposes_reads_a_control() {
    let with = |controls: Vec<Cow<'static, str>>, purpose: Option<&str>| {
        let purpose = purpose.map(Arc::from);
        let origin = Origin { controls, purpose, ..origin() };
        let mut bytes = Vec::new();
        Record { origin, ..record(Vec::new()) }.encode(&mut bytes).unwrap();
        bytes
    };
    let own = Cow::Borrowed("1.3.6.1.1.12");
    let text = "1.3.6.1.4.1.30221.2.5.19 more room".to_owned();
    let bytes = with(vec![own.clone()], Some("more room"));
    assert_eq!(bytes, with(vec![own.clone(), text.into()], None));
    let origin = Record::decode(&bytes, &Schema::builtin()).unwrap().origin;
    assert_eq!((origin.controls, origin.purpose.as_deref()), (vec![own], Some("more room")));
}

#[test]
fn a_setting_before_the_same_setting_says_what_was() {
    let setting = |name: &str, value: &str| {
        let values = vec![value.to_owned()];
        Change::Setting(SettingChange { name: name.to_owned(), values })
    };
    let index = |added: &[&str]| {
        let added = added.iter().map(|line| (*line).to_owned()).collect();
        Change::Index(IndexChange { added, removed: Vec::new() })
    };
    let roles = |changes: Vec<Change>| {
        let record = record(changes);
        (0..=record.changes.len()).map(|at| record.role(at)).collect::<Vec<_>>()
    };
    let (alone, before, after) = (ChangeRole::Alone, ChangeRole::Before, ChangeRole::After);
    assert_eq!(roles(vec![setting("a", "1")]), [alone, alone]);
    let two = vec![setting("a", "1"), setting("a", "2"), setting("b", "1")];
    assert_eq!(roles(two), [before, after, alone, alone]);
    let twice = ["1", "2", "2", "3"].map(|value| setting("a", value)).to_vec();
    assert_eq!(roles(twice), [before, after, before, after, alone]);
    let indexes = vec![index(&["equality cn"]), index(&[]), index(&["equality sn"])];
    assert_eq!(roles(indexes), [alone, before, after, alone]);
}
