//! What a plan calls exact holds just what matches: where keys are cut at their limit, where
//! entries share a key that is none of theirs, where values hold what marks their ends, and where a
//! long list is walked beside parts that tell too much.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{Definition, DefinitionKind, Entry, EntryId, ResolvedFilter, Schema, Truth};
use store::{Ask, IndexConfig, IndexDefinition, LoadOptions, Plan, Store, StoreOptions, View};

const TYPES: [&str; 2] = [
    "( 1.3.6.1.4.1.99999.1 NAME 'xText' EQUALITY caseIgnoreMatch ORDERING \
     caseIgnoreOrderingMatch SUBSTR caseIgnoreSubstringsMatch \
     SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
    "( 1.3.6.1.4.1.99999.2 NAME 'xOctets' EQUALITY octetStringMatch \
     SUBSTR octetStringSubstringsMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )",
];

const INDEXES: [&str; 12] = [
    "equality objectClass",
    "equality xText",
    "substring xText",
    "approximate xText",
    "extensible xText 2.5.13.5",
    "substring xOctets",
    "equality l with title",
    "equality xText with l",
    "equality employeeType",
    "equality st",
    "equality sn",
    "substring sn",
];

struct World {
    store: Arc<Store>,
    schema: Arc<Schema>,
    _directory: tempfile::TempDir,
}

type Values = Vec<(&'static str, Vec<u8>)>;

fn world(people: &[Values]) -> World {
    let directory = tempfile::tempdir().unwrap();
    let types = TYPES.map(|text| Definition::parse(DefinitionKind::AttributeType, text).unwrap());
    let schema = Arc::new(Schema::builtin().with_change(&types, &[]).unwrap());
    let indexes = INDEXES.iter().fold(IndexConfig::none(), |config, line| {
        config.and(IndexDefinition::parse(line).unwrap())
    });
    let context = Dn::parse("o=Other").unwrap();
    let (options, path) = (StoreOptions::default(), directory.path().join("data"));
    let store = Store::create(&path, &options, Arc::clone(&schema), indexes, &[context]).unwrap();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    let mut add = |dn: &str, values: &Values| {
        let pairs = values.iter().map(|(name, value)| (*name, value.as_slice()));
        let entry = Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &schema).unwrap();
        loader.load(&entry, 0).unwrap();
    };
    add("o=Other", &vec![("objectClass", b"organization".to_vec())]);
    for (number, values) in people.iter().enumerate() {
        add(&format!("cn={number},o=Other"), values);
    }
    loader.commit().unwrap();
    World { store: Arc::new(store), schema, _directory: directory }
}

fn ids(plan: &Plan, view: &View<'_>) -> BTreeSet<u64> {
    plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect()
}

impl World {
    /// Whether the plan for a filter is exact. It misses nothing, and an exact one has no more.
    fn is_exact(&self, text: &str, wanted: Option<u64>) -> bool {
        let mut reader = self.store.reader();
        let view = reader.view().unwrap();
        let filter = ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &self.schema);
        let ask = Ask { wanted, ..Ask::new(&filter, EntryId::ROOT, Scope::Subtree) };
        let plan = view.plan(&ask).unwrap();
        let all = ResolvedFilter::And(Vec::new());
        let all = view.plan(&Ask::new(&all, EntryId::ROOT, Scope::Subtree)).unwrap();
        let entries = all.entries(view, EntryId::ROOT).map(Result::unwrap);
        let want = entries.filter(|one| filter.matches(&self.schema, one) == Truth::True);
        let want: BTreeSet<u64> = want.map(|entry| entry.id().0).collect();
        let got = ids(&plan, view);
        assert!(got.is_superset(&want), "{text}: {plan:?}");
        if plan.exact || plan.filter_exact {
            assert_eq!(got, want, "{text}: {plan:?}");
        }
        plan.exact
    }
}

/// A pair is asked for when either value alone is one of more than a few entries.
#[test]
fn a_pair_that_was_cut_is_not_exact() {
    let lengths = [100, 205, 213, 214, 215, 216, 218, 220, 221];
    let mut people: Vec<Values> = Vec::new();
    for length in lengths {
        for town in ["Paris", "Parma"].into_iter().cycle().take(24) {
            let text = "x".repeat(length).into_bytes();
            people.push(vec![("xText", text), ("l", town.into())]);
        }
    }
    let world = world(&people);
    for length in lengths {
        let filter = format!("(&(xText={})(l=paris))", "x".repeat(length));
        let is_exact = world.is_exact(&filter, None);
        assert_eq!(is_exact, length <= 214, "{length}");
    }
}

#[test]
fn a_key_that_was_cut_is_not_exact() {
    let lengths = || (190..240).step_by(5).chain([204, 205, 206, 219, 220, 221, 222]);
    let value = |length: usize, last: char| "x".repeat(length - 1) + &last.to_string();
    let mut people: Vec<Values> = Vec::new();
    for length in lengths() {
        for last in ['a', 'b', 'c'] {
            let text = value(length, last).into_bytes();
            people.push(vec![("xText", text), ("l", b"Paris".to_vec())]);
        }
    }
    let world = world(&people);
    for length in lengths() {
        let text = value(length, 'b');
        let begin = "x".repeat(length - 1);
        // What every length asks is right; keys of more than 220 octets are cut, and nobody may
        // trust that no other value has the same.
        let is_whole = length <= 220;
        for filter in [
            format!("(xText={text})"),
            format!("(&(l=*)(xText={text}))"),
            format!("(xText:caseExactMatch:={text})"),
            format!("(|(xText={text})(xText=nothing))"),
            format!("(!(xText={text}))"),
        ] {
            let is_exact = world.is_exact(&filter, None);
            assert!(is_whole || !is_exact, "{length}: {filter}");
        }
        assert!(!is_whole || world.is_exact(&format!("(xText={text})"), None));
        // Of a pair the other value, what stands between and two marks take their room.
        let is_exact = world.is_exact(&format!("(&(xText={text})(l=paris))"), None);
        assert!(length <= 214 || !is_exact, "{length}");
        world.is_exact(&format!("(xText~={text})"), None);
        for filter in [
            format!("(xText>={text})"),
            format!("(xText<={text})"),
            format!("(!(xText>={text}))"),
            format!("(xText={begin}*)"),
            format!("(&(xText>={text})(xText<={text}))"),
        ] {
            world.is_exact(&filter, None);
        }
    }
}

#[test]
fn those_that_share_a_key_for_their_number_are_not_exact() {
    let many = |name, count: u32| {
        (0..count).map(move |number| (name, format!("{name} {number}").into_bytes()))
    };
    let crowd: Values = many("l", 65).chain(many("title", 65)).collect();
    let few: Values = many("l", 3).chain(many("title", 3)).collect();
    let world = world(&[crowd, few]);
    for (filter, is_exact) in [
        ("(&(l=l 1)(title=title 1))", false),
        ("(&(l=l 64)(title=title 64))", false),
        ("(&(l=l 64)(title=nothing))", false),
        ("(&(l=nothing)(title=nothing))", false),
        ("(|(&(l=nothing)(title=title 1))(sn=nobody))", false),
    ] {
        assert_eq!(world.is_exact(filter, None), is_exact, "{filter}");
    }
}

#[test]
fn what_looks_like_the_end_of_a_value_is_not_exact() {
    let octets = |value: &[u8]| vec![("xOctets", value.to_vec())];
    let world = world(&[
        octets(b"abcd"),
        octets(b"zz\x02abcd"),
        octets(b"zab"),
        octets(b"ab\x03\x03\x03z"),
        octets(b"ab\x03\x03"),
    ]);
    for filter in
        ["(xOctets=abc*)", "(xOctets=a*)", "(xOctets=*ab)", "(xOctets=*b)", "(xOctets=*d)"]
    {
        assert!(!world.is_exact(filter, None), "{filter}");
    }
}

#[test]
fn what_is_kept_of_a_long_list_is_exact_only_where_all_parts_are() {
    let people = (0_u32..6000).map(|number| {
        let class = |name: &str| ("objectClass", name.as_bytes().to_vec());
        let kind = if number.is_multiple_of(3) { "most" } else { "rest" };
        let mut values = vec![class("person"), ("employeeType", kind.into())];
        values.push((if number % 8 < 2 { "st" } else { "st;lang-de" }, b"x".to_vec()));
        values.push(("sn", format!("name {}", number % 4).into_bytes()));
        values
    });
    let world = world(&people.collect::<Vec<_>>());
    // The disjunction holds half of all, and a third of that because its first part is asked
    // without its options.
    for (filter, is_exact) in [
        ("(&(employeeType=most)(|(sn=name 1)(sn=name 2)))", true),
        ("(&(employeeType=most)(|(sn=name 1)(&(st;lang-de=x)(sn=name 2))))", false),
        ("(&(employeeType=most)(|(&(sn=name 2)(st;lang-de=x))(sn=name 1)))", false),
        ("(&(employeeType=most)(|(sn=name 1)(sn;lang-de=name 2)))", false),
        ("(&(employeeType=most)(|(sn;lang-de=name 2)(sn=name 1)))", false),
        ("(&(employeeType=most)(|(sn;lang-de=name 1)(sn;lang-de=name 2)))", false),
        ("(&(employeeType=most)(|(sn=name 1)(sn=*me 2*)))", false),
        ("(&(employeeType=most)(!(|(sn=name 1)(sn=name 2))))", true),
        ("(&(employeeType=most)(!(|(sn=name 1)(sn;lang-de=name 2))))", false),
        ("(&(employeeType=most)(!(sn;lang-de=name 2)))", false),
    ] {
        for wanted in [None, Some(1), Some(100)] {
            assert_eq!(world.is_exact(filter, wanted), is_exact, "{filter} {wanted:?}");
        }
    }
}
