//! The ACIs that ship as an example are read, and none of them asks anything of an entry when it is
//! read or searched.

use std::sync::Arc;

use aci::AciSet;
use aci::{AccessSubject, Aci, AuthenticationMethod, Right, Rules, Surroundings, TimeOfWeek};
use schema::{DnKey, EntryRead, Schema, Truth};

const EXAMPLE: &str = include_str!("../../../examples/access-control.ldif");

/// The values of `aci` in the example.
fn values() -> Vec<String> {
    let unfolded = EXAMPLE.replace("\n ", "");
    unfolded.lines().filter_map(|line| line.strip_prefix("aci: ")).map(str::to_owned).collect()
}

struct Nothing;

impl Surroundings for Nothing {
    fn is_member(&self, _: &DnKey, _: &DnKey) -> Truth {
        Truth::Undefined
    }

    fn visit_entry(&self, _: &DnKey, _: &mut dyn FnMut(&dyn EntryRead)) -> Truth {
        Truth::Undefined
    }

    fn time(&self) -> Option<TimeOfWeek> {
        None
    }

    fn host_name(&self) -> Option<String> {
        None
    }
}

#[test]
fn the_example_gives_twenty_attribute_level_grants() {
    let schema = Schema::builtin();
    let acis: Vec<Arc<Aci>> =
        values().iter().map(|text| Arc::new(Aci::parse(text, &schema).unwrap())).collect();
    assert_eq!(acis.len(), 20);
    assert!(acis.iter().all(|aci| aci.unknown_names().is_empty()));
    let base = DnKey::from_text(&schema, "dc=example,dc=com").unwrap();
    let anna = DnKey::from_text(&schema, "uid=anna,ou=people,dc=example,dc=com").unwrap();
    let set = AciSet::new(Arc::clone(&schema)).with_holders([(base.clone(), acis)]);
    let set = Arc::new(set);
    let may = |identity: Option<&DnKey>, right: Right, name: &str| {
        let asker = AccessSubject {
            identity,
            address: None,
            ssf: 0,
            method: AuthenticationMethod::Simple,
            surroundings: &Nothing,
        };
        let rules = Rules::new(&set, 0);
        rules.below(&asker, &base).always(right, &schema.describe(name).unwrap())
    };
    for name in ["uid", "cn", "mail", "member", "l"] {
        assert_eq!(may(Some(&anna), Right::Read, name), Some(true), "{name}");
        assert_eq!(may(Some(&anna), Right::Search, name), Some(true), "{name}");
        assert_eq!(may(None, Right::Read, name), Some(false), "{name}");
    }
    for name in ["userPassword", "title", "createTimestamp", "aci"] {
        assert_eq!(may(Some(&anna), Right::Read, name), Some(false), "{name}");
    }
    assert_eq!(may(Some(&anna), Right::Write, "mobile"), None);
    assert_eq!(may(Some(&anna), Right::Write, "mail"), Some(false));
}
