//! Plans under indexes that few directories have, against reading every entry.

use schema::{Assertion, AttributeDescription, Schema};

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::bulk::LoadOptions;
use crate::index::{IndexConfig, IndexDefinition};
use crate::read::computed::ComputedCandidates;
use crate::read::view::Memories;
use crate::store::Store;
use crate::testing::TestStore;

/// A store with these indexes, of people with these further lines.
fn store(indexes: &[&str], people: &[&str]) -> TestStore {
    let dir = tempfile::tempdir().unwrap();
    let contexts = [ldap::dn::Dn::parse("dc=example,dc=com").unwrap()];
    let config = indexes.iter().fold(IndexConfig::none(), |config, line| {
        config.and(IndexDefinition::parse(line).unwrap())
    });
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let schema = Schema::builtin();
    let store = Store::create(dir.path(), &options, schema, config, &contexts).unwrap();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    let top = "dc=example,dc=com\nobjectClass: domain\ndc: example";
    loader.load(&crate::testing::entry(top), 0).unwrap();
    for (number, lines) in people.iter().enumerate() {
        let text = format!(
            "cn=p{number},dc=example,dc=com\nobjectClass: person\nsn: x\ncn: p{number}\n{lines}"
        );
        loader.load(&crate::testing::entry(text.trim_end()), 0).unwrap();
    }
    loader.commit().unwrap();
    TestStore::new(store, dir)
}

/// Every match is a candidate; and nothing else where the plan says so.
#[track_caller]
fn check(store: &Store, text: &str) {
    let schema = Schema::builtin();
    let filter = ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &schema);
    let view = store.snapshot(Memories::default()).unwrap();
    let all = view.scan(0).unwrap().map(Result::unwrap);
    let matching = all.filter(|entry| filter.matches(&schema, entry) == schema::Truth::True);
    let want: Vec<u64> = matching.map(|entry| entry.id().0).collect();
    let clock = || Duration::ZERO;
    let quiet = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
    for ask in [quiet, Ask { explain: Some(&clock), ..quiet }] {
        let plan = view.plan(&ask).unwrap();
        let got: Vec<u64> = plan.candidates(&view, EntryId::ROOT).map(|id| id.unwrap().0).collect();
        let missed: Vec<&u64> = want.iter().filter(|id| !got.contains(id)).collect();
        assert_eq!(missed, Vec::<&u64>::new(), "{text}");
        if plan.exact {
            assert_eq!(got, want, "{text} is exact");
        }
    }
}

#[test]
fn a_piece_of_which_nothing_is_left_says_nothing() {
    let numbers = ["telephoneNumber: 2", "telephoneNumber: 12 3", "telephoneNumber: 4", ""];
    let store = store(&["substring telephoneNumber", "equality telephoneNumber"], &numbers);
    for text in ["2* ", "* ", " *", "* * ", " *2* ", "2* *3", "1* * ", "*2* * "] {
        check(&store, &format!("(telephoneNumber={text})"));
        check(&store, &format!("(!(telephoneNumber={text}))"));
    }
}

#[test]
fn the_filter_of_an_index_is_not_assumed_of_what_it_is_to_prove() {
    let people = ["l: 1\ntitle: 2", "l: 1", "title: 2", "", "l: 1\nl: 2", "l: 2\ntitle: 1"];
    let indexes = [
        "equality l where (!(l=1))",
        "equality title where (!(l=1))",
        "equality l where (!(title=2))",
        "presence title where (!(title=*))",
        "equality sn",
    ];
    let store = store(&indexes, &people);
    for text in [
        "(&(sn=x)(!(l=1)))",
        "(&(!(l=1))(!(title=2)))",
        "(&(sn=x)(!(l=1))(!(title=2)))",
        "(&(sn=x)(!(title=*)))",
        "(&(sn=x)(!(l=1))(title=2))",
        "(&(sn=x)(!(l=1))(|(title=2)(l=2)))",
        "(&(sn=x)(!(l=1))(!(|(title=2)(l=2))))",
        "(&(sn=x)(!(title=2))(l=1))",
    ] {
        check(&store, text);
    }
}

#[test]
fn marks_in_values_are_not_the_ends_of_values() {
    let people = [
        "mail: a\u{3}b\npostalAddress: a$b\ndescription: a\u{2}b",
        "mail: \u{2}a\npostalAddress: a\\24b",
        "mail: a\u{3}\u{3}\u{3}\npostalAddress: b$a",
        "mail: a\npostalAddress: ab$a b$c\ndescription: b\u{3}",
        "mail: b\npostalAddress: b$ab\ndescription: b",
    ];
    let indexes = ["substring mail", "substring postalAddress", "substring description"];
    let store = store(&indexes, &people);
    for attribute in ["mail", "postalAddress", "description"] {
        for text in
            ["a*", "*a", "*a*", "b*", "*b", "*b*", "*a\\02*", "*\\03*", "a$*", "*$b", "*a$b*"]
        {
            check(&store, &format!("({attribute}={text})"));
            check(&store, &format!("(!({attribute}={text}))"));
        }
    }
}

/// Knows who has a value of `isMemberOf`, and notes how many it was to find at most.
struct Everybody(std::cell::Cell<u64>);

impl Computed for Everybody {
    fn computes(&self, asked: &AttributeDescription) -> bool {
        asked.text() == "isMemberOf"
    }

    fn candidates(
        &self,
        assertion: &Assertion,
        at_most: u64,
    ) -> Result<Option<ComputedCandidates>, StoreError> {
        assert!(self.computes(&assertion.description));
        self.0.set(at_most);
        Ok(None)
    }
}

#[test]
fn what_is_computed_is_looked_for_after_what_an_index_knows() {
    let people: Vec<&str> = (0..200).map(|number| if number < 40 { "l: 1" } else { "" }).collect();
    let store = store(&["equality l", "equality sn"], &people);
    let view = store.snapshot(Memories::default()).unwrap();
    let asked = |text: &str| {
        let schema = Schema::builtin();
        let filter = ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &schema);
        let everybody = Everybody(std::cell::Cell::new(0));
        let quiet = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
        view.plan(&Ask { computed: Some(&everybody), ..quiet }).unwrap();
        everybody.0.get()
    };
    for text in ["(&(l=1)(isMemberOf=cn=a))", "(&(isMemberOf=cn=a)(l=1)(sn=x))"] {
        assert_eq!(asked(text), 8 * 40, "{text}");
    }
    assert_eq!(asked("(isMemberOf=cn=a)"), u64::MAX);
}
