//! A directory whose values are distributed in ways that are hard on a planner, and filters over
//! it.

pub(crate) mod scan;

use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use schema::{
    AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange, ResolvedFilter,
    Schema,
};
use store::{
    IndexConfig, IndexDefinition, LoadOptions, LogPosition, Resolved, Store, StoreOptions,
};

/// A store, and names of it.
pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    /// A subtree of thirty-odd entries.
    pub(crate) small: EntryId,
    /// Where most are.
    pub(crate) people: EntryId,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn bases(&self) -> Vec<EntryId> {
        vec![EntryId::ROOT, self.people, self.small]
    }
}

pub(crate) fn resolve(text: &str) -> ResolvedFilter {
    ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &Schema::builtin())
}

const INDEXES: [&str; 32] = [
    "equality objectClass",
    "presence title",
    "equality uid",
    "substring uid",
    "equality l",
    "substring l",
    "equality sn",
    "substring sn",
    "equality uidNumber",
    "equality mail",
    "substring mail",
    "substring telephoneNumber",
    "equality telephoneNumber",
    "equality title",
    "approximate cn",
    "extensible sn 2.5.13.5",
    "extensible gidNumber 1.2.840.113556.1.4.803",
    "extensible gidNumber 1.2.840.113556.1.4.804",
    "equality l with title",
    "equality employeeNumber where (l=town 1)",
    "equality createTimestamp",
    "equality st where (!(businessCategory=b))",
    "equality businessCategory where (!(st=town 1))",
    "equality employeeType",
    "presence employeeType",
    "presence roomNumber where (l=town 1)",
    "substring roomNumber where (&(objectClass=person)(!(l=town 0)))",
    "ordering gidNumber where (l=town 1)",
    "approximate givenName where (!(l=town 0))",
    "extensible roomNumber 2.5.13.5 where (l=town 1)",
    "equality departmentNumber with roomNumber where (l=town 1)",
    "equality departmentNumber where (&(l=town 1)(objectClass=person))",
];

fn person(number: u64, below: &str) -> (String, Vec<(&'static str, String)>) {
    // A few towns have most people, many have few.
    let town = (number * number) % 97 / (1 + number % 7);
    let mut pairs = vec![
        ("objectClass", "person".to_owned()),
        ("objectClass", "inetOrgPerson".to_owned()),
        ("uid", format!("user.{number}")),
        (
            "cn",
            format!("{} Smith {}", ["Anna", "Berta", "Carl"][(number % 3) as usize], number % 11),
        ),
        ("sn", format!("Name {}", number % 13)),
        ("l", format!("town {town}")),
        ("mail", format!("user.{number}@example.com")),
        (
            "telephoneNumber",
            format!("+1 {:03} {:04}", number * 7919 % 997, number * 104_729 % 9973),
        ),
        ("description", format!("some text {number}")),
        ("employeeNumber", format!("{}", number % 50)),
        ("uidNumber", format!("{}", number as i64 * 3 - 100)),
        ("gidNumber", format!("{}", number % 16)),
        ("createTimestamp", format!("2026{:02}{:02}120000Z", 1 + number % 12, 1 + number % 28)),
    ];
    // The same values as those of another attribute.
    pairs.push(("st", format!("town {}", number % 3)));
    pairs.push(("businessCategory", ["a", "b"][(number % 2) as usize].to_owned()));
    // Two thirds have the one: a long list, and not of most entries.
    pairs.push(("employeeType", if number.is_multiple_of(3) { "rest" } else { "most" }.to_owned()));
    if number.is_multiple_of(4) {
        pairs.push(("employeeType;lang-de", "meist".to_owned()));
    }
    pairs.push(("roomNumber", format!("Room {} b", number % 7)));
    pairs.push(("givenName", ["Jon", "John", "Mary"][(number % 3) as usize].to_owned()));
    pairs.push(("departmentNumber", format!("{}", number % 2)));
    // Few have a title, and most of those the same.
    if number.is_multiple_of(10) {
        let title = if number.is_multiple_of(100) { number / 100 } else { 0 };
        pairs.push(("title", format!("engineer {title}")));
    }
    if number.is_multiple_of(9) {
        pairs.push(("l", "second home".to_owned()));
        pairs.push(("cn;lang-de", format!("Hans {number}")));
    }
    (format!("uid=user.{number},{below}"), pairs)
}

fn entry(dn: &str, pairs: &[(&str, String)]) -> Entry {
    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
    Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &Schema::builtin()).unwrap()
}

/// What more than half of them match, or would if options did not count.
pub(crate) const POPULAR: [&str; 24] = [
    "(employeeType=most)",
    "(employeeType=most)",
    "(employeeType;lang-de=most)",
    "(employeeType;lang-de=*)",
    "(objectClass=person)",
    "(objectClass=inetOrgPerson)",
    "(objectClass;lang-de=person)",
    "(objectClass=*)",
    "(objectClass;lang-de=*)",
    "(l=*town*)",
    "(l;lang-de=*town*)",
    "(l=t*n*)",
    "(sn=name*)",
    "(cn=*mith*)",
    "(cn=*mith* *)",
    "(cn;lang-de=*an*)",
    "(cn~=smyth)",
    "(cn~=smith)",
    "(cn~=schmidt anna)",
    "(uidNumber>=0)",
    "(uidNumber;x-a>=0)",
    "(mail=*example*)",
    "(createTimestamp>=20260301000000Z)",
    "(gidNumber:1.2.840.113556.1.4.804:=7)",
];

/// A directory of `count` people, some of them changed after the last flush.
pub(crate) fn world(count: u64) -> World {
    let directory = tempfile::tempdir().unwrap();
    let schema = Schema::builtin();
    let contexts = ["dc=example,dc=com", "o=Other"].map(|dn| Dn::parse(dn).unwrap());
    let indexes = INDEXES.iter().fold(IndexConfig::none(), |config, line| {
        config.and(IndexDefinition::parse(line).unwrap())
    });
    let options = StoreOptions::default();
    let store = Store::create(&directory.path().join("data"), &options, schema, indexes, &contexts);
    let store = Arc::new(store.unwrap());
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    let unit = [("objectClass", "organizationalUnit".to_owned())];
    let (people, small) = ("ou=People,dc=example,dc=com", "ou=Small,dc=example,dc=com");
    let inner = format!("ou=Inner,{small}");
    let domain = [("objectClass", "domain".to_owned())];
    let organization = [("objectClass", "organization".to_owned())];
    loader.load(&entry("dc=example,dc=com", &domain), 0).unwrap();
    loader.load(&entry("o=Other", &organization), 0).unwrap();
    for dn in [people, small, &inner] {
        loader.load(&entry(dn, &unit), 0).unwrap();
    }
    for number in 0..count {
        let below = match number % (count / 20) {
            7 => small,
            8 if number > count / 2 => &inner,
            _ => people,
        };
        let (dn, pairs) = person(number, below);
        loader.load(&entry(&dn, &pairs), number).unwrap();
    }
    loader.commit().unwrap();
    let find = |dn: &str| {
        let key = DnKey::from_text(&Schema::builtin(), dn).unwrap();
        match store.reader().view().unwrap().resolve(&key).unwrap() {
            Resolved::Found(id) => id,
            other => panic!("{dn}: {other:?}"),
        }
    };
    let world = World {
        small: find(small),
        people: find(people),
        store: Arc::clone(&store),
        _directory: directory,
    };
    change(&store, &find, count, people);
    world
}

/// Changes that are published and not flushed.
fn change(store: &Store, find: &dyn Fn(&str) -> EntryId, count: u64, people: &str) {
    let schema = Schema::builtin();
    for round in 0..3 {
        let mut batch = store.begin().unwrap();
        for number in (round..count).step_by(count as usize / 7).filter(|number| number % 20 < 7) {
            let dn = format!("uid=user.{number},{people}");
            let key = DnKey::from_text(&schema, &dn).unwrap();
            let Resolved::Found(id) = batch.view().resolve(&key).unwrap() else { continue };
            let dn = Dn::parse(&dn).unwrap();
            if number % 2 == 0 && round == 2 {
                let delete = DeleteChange { id, dn, attributes: Vec::new() };
                batch.apply(&Change::Delete(delete)).unwrap();
                continue;
            }
            let delta = AttributeDelta {
                description: schema.describe("l").unwrap(),
                removed: vec![],
                added: vec![format!("town {}", 3 + round).into_bytes()],
            };
            let modify = ModifyChange { id, dn, deltas: vec![delta] };
            let _ = batch.apply(&Change::Modify(modify));
        }
        let mark = batch.seal();
        store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
    }
    let _ = find;
}

/// What holds the filters of filtered indexes, as they are, turned round, beside other kinds and of
/// other types, or with what nobody knows.
const FILTERED: [&str; 19] = [
    "(&(l=town 1)(employeeNumber=*))",
    "(&(l=town 1)(!(employeeNumber=*)))",
    "(&(l=town 2)(employeeNumber=7))",
    "(&(st=town 1)(employeeNumber=7))",
    "(|(&(l=town 1)(sn=name 1))(employeeNumber=7))",
    "(&(!(st=town 1))(!(businessCategory=b))(objectClass=person))",
    "(&(st=town 1)(!(businessCategory=b)))",
    "(&(|(st=town 1)(nosuch=1))(!(businessCategory=b)))",
    "(&(!(l=town 1))(employeeNumber=7))",
    "(!(|(l=town 1)(employeeNumber=7)))",
    "(!(&(l=town 1)(employeeNumber=7)))",
    "(!(&(l=town 1)(!(employeeNumber=7))))",
    "(&(|(&(l=town 1)(sn=name 1))(objectClass=person))(employeeNumber=7))",
    "(&(l;lang-de=town 1)(employeeNumber=7))",
    "(&(l=town 1)(employeeNumber;x-a=7))",
    "(&(|(l=town 1)(nosuch=1))(employeeNumber=7))",
    "(!(|(nosuch=1)(&(l=town 1)(employeeNumber=7))))",
    "(&(!(nosuch=1))(l=town 1))",
    "(|(!(nosuch=1))(l=town 1))",
];

/// What filtered indexes of every kind are for, each with the index that answers it.
pub(crate) const BY_FILTERED: [(&str, &str); 14] = [
    ("(&(l=town 1)(roomNumber=*))", "presence roomNumber where (l=town 1)"),
    ("(&(objectClass=person)(!(l=town 0))(roomNumber=*om 1*))", ROOMS),
    ("(&(roomNumber=room 1*)(&(!(l=town 0))(objectClass=person)))", ROOMS),
    ("(&(&(objectClass=person)(!(l=town 0)))(roomNumber=*2 b))", ROOMS),
    ("(&(objectClass=person)(!(l=town 0))(|(roomNumber=*3 b)(roomNumber=*4 b)))", ROOMS),
    ("(&(objectClass=person)(!(l=town 0))(roomNumber;lang-de=*3 b))", ROOMS),
    ("(&(l=town 1)(gidNumber>=12))", "ordering gidNumber where (l=town 1)"),
    ("(&(l=town 1)(gidNumber<=2))", "ordering gidNumber where (l=town 1)"),
    ("(&(l=town 1)(|(gidNumber<=2)(gidNumber>=14)))", "ordering gidNumber where (l=town 1)"),
    ("(&(!(l=town 0))(givenName~=john))", "approximate givenName where (!(l=town 0))"),
    (
        "(&(l=town 1)(roomNumber:caseExactMatch:=Room 1 b))",
        "extensible roomNumber 2.5.13.5 where (l=town 1)",
    ),
    (
        "(&(departmentNumber=1)(roomNumber=room 1 b)(l=town 1))",
        "equality departmentNumber with roomNumber where (l=town 1)",
    ),
    ("(&(departmentNumber=1)(l=town 1)(objectClass=person))", DEPARTMENTS),
    ("(&(departmentNumber=1*)(l=town 1)(objectClass=person))", DEPARTMENTS),
];

const ROOMS: &str = "substring roomNumber where (&(objectClass=person)(!(l=town 0)))";
const DEPARTMENTS: &str = "equality departmentNumber where (&(l=town 1)(objectClass=person))";

/// What they cannot answer: their condition is not asked for, or asked for elsewhere.
const NOT_BY_FILTERED: [&str; 7] = [
    "(&(objectClass=person)(roomNumber=*3 b))",
    "(|(!(l=town 0))(roomNumber=*3 b))",
    "(&(objectClass=person)(|(!(l=town 0))(roomNumber=*3 b)))",
    "(&(l=town 1)(!(roomNumber=*3 b)))",
    "(&(l=town 1)(!(gidNumber>=12)))",
    "(&(objectClass=person)(!(l=town 0))(!(roomNumber=*3 b)))",
    "(&(l=town 1)(!(&(departmentNumber=1)(roomNumber=room 1 b))))",
];

/// Filters over a directory of `count` people.
pub(crate) fn filter_texts(count: u64) -> Vec<String> {
    let some = count / 3;
    let mut texts: Vec<String> = [
        "(objectClass=*)",
        "(objectClass=person)",
        "(objectClass=nothing)",
        "(l=town 0)",
        "(l=town 3)",
        "(l=town 96)",
        "(l=nowhere)",
        "(l=*)",
        "(l=town*)",
        "(l=*home)",
        "(l=*e)",
        "(l=*ow*)",
        "(l=*o*)",
        "(l=t*n*3)",
        "(title=*)",
        "(title=engineer 0)",
        "(!(title=*))",
        "(!(objectClass=person))",
        "(!(l=town 0))",
        "(nosuch=x)",
        "(!(nosuch=x))",
        "(cn~=ana)",
        "(cn~=smith anna)",
        "(cn;lang-de=hans*)",
        "(sn:caseExactMatch:=Name 5)",
        "(sn:2.5.13.5:=name 5)",
        "(gidNumber:1.2.840.113556.1.4.803:=5)",
        "(gidNumber:1.2.840.113556.1.4.804:=6)",
        "(gidNumber:1.2.840.113556.1.4.803:=0)",
        "(uidNumber>=50)",
        "(uidNumber<=-50)",
        "(uidNumber>=100000)",
        "(telephoneNumber=*12*)",
        "(telephoneNumber=+1 1*)",
        "(telephoneNumber=*123*)",
        "(telephoneNumber=*7)",
        "(telephoneNumber=*7 * )",
        "(telephoneNumber=- *-*- )",
        "(telephoneNumber=1* )",
        "(uid=* *)",
        "(uid=*7 )",
        "(description=some*)",
        "(description=some text 7)",
        "(uid:dn:=user.7)",
        "(createTimestamp>=20260601000000Z)",
        "(&)",
        "(|)",
        "(&(uid=user.12*)(l=town 3))",
        "(&(l=town 3)(title=engineer 0))",
        "(&(l=town 3)(title=engineer 0)(sn=name 4))",
        "(&(l=town 1)(employeeNumber=7))",
        "(|(l=town 1)(employeeNumber=7))",
        "(&(l=town 1)(!(employeeNumber=7)))",
        "(&(objectClass=person)(l=town 96))",
        "(&(objectClass=person)(objectClass=inetOrgPerson)(l=town 0))",
        "(&(l=town 0)(!(title=*))(objectClass=person))",
        "(&(!(l=town 0))(!(l=town 3)))",
        "(&(!(objectClass=person))(l=town 3))",
        "(&(createTimestamp>=20260301000000Z)(createTimestamp<=20260401000000Z))",
        "(&(uidNumber>=0)(uidNumber<=50))",
        "(&(l=town 3)(uidNumber>=0))",
        "(&(uidNumber<=500)(mail=*1*)(sn=name 3))",
        "(&(telephoneNumber=*123*)(|(title=*0)(uid=user.1*)))",
        "(&(telephoneNumber=*12*)(|(l=*3)(mail=user.1*)))",
        "(&(sn=name 1)(sn=name 2))",
        "(&(description=some*)(l=town 3))",
        "(&(description=some*)(l=*))",
        "(|(l=town 3)(description=some text 8))",
        "(|(l=town 3)(&(sn=name 1)(title=*)))",
        "(|(uidNumber>=300)(uidNumber<=-90))",
        "(!(&(l=town 3)(sn=name 4)))",
        "(!(|(l=town 3)(!(sn=name 4))))",
        "(!(!(!(&(l=town 0)(!(nosuch=1))))))",
        "(!(|(title=*)(description=x)))",
        "(&(|(l=town 1)(l=town 2)(l=town 3))(|(sn=name 1)(sn=name 2)))",
        "(&(l=*town*)(sn=*name*)(mail=*example*))",
        "(&(uid=user.1*)(mail=user.1*)(l=*))",
    ]
    .map(String::from)
    .to_vec();
    texts.extend(FILTERED.map(String::from));
    texts.extend(BY_FILTERED.map(|(text, _)| text.to_owned()));
    texts.extend(NOT_BY_FILTERED.map(String::from));
    texts.push(format!("(uid=user.{some})"));
    texts.push(format!("(uid=user.{some}*)"));
    texts.push(format!("(uid=user.{}*)", some / 10));
    texts.push(format!("(mail=*r.{}*)", some / 10));
    texts.push(format!("(&(uid=user.{some})(telephoneNumber=*123*)(title=*0))"));
    texts.push(format!("(&(objectClass=person)(uid=user.{some}))"));
    let many = |term: &dyn Fn(u64) -> String| (0..20).map(term).collect::<String>();
    texts.push(format!("(|{})", many(&|at| format!("(uid=user.{})", at * 3 % 17))));
    texts.push(format!("(&(l=town 3)(|{}))", many(&|at| format!("(sn=name {at})"))));
    texts.push(format!("(&{})", many(&|at| format!("(!(l=town {at}))"))));
    texts
}
