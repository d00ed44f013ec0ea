//! Any text is an ACI that reads back as it is displayed, or is refused at a column inside it; and
//! whatever was read answers any question.
#![no_main]

use std::sync::Arc;

use aci::{
    ACI_LENGTH_MAX_BYTES, AccessSubject, Aci, AciSet, AuthenticationMethod, Question, Right, Rules,
    Surroundings, TimeOfWeek, ValueChange,
};
use ldap::dn::Dn;
use libfuzzer_sys::fuzz_target;
use schema::{DnKey, Entry, EntryRead, Schema, Truth};

struct World(Entry);

impl Surroundings for World {
    fn is_member(&self, group: &DnKey, who: &DnKey) -> Truth {
        if group.depth() > who.depth() { Truth::Undefined } else { Truth::True }
    }

    fn visit_entry(&self, _: &DnKey, visit: &mut dyn FnMut(&dyn EntryRead)) -> Truth {
        visit(&self.0);
        Truth::True
    }

    fn time(&self) -> Option<TimeOfWeek> {
        Some(TimeOfWeek { day: 3, minute: 700 })
    }

    fn host_name(&self) -> Option<String> {
        Some("a.example.com".to_owned())
    }
}

fuzz_target!(|text: &str| {
    let schema = Schema::builtin();
    let aci = match Aci::parse(text, &schema) {
        Ok(aci) => aci,
        Err(error) => {
            let columns = text.chars().count() + 1;
            assert!(error.column >= 1 && error.column <= columns && !error.to_string().is_empty());
            return;
        }
    };
    let shown = aci.to_string();
    // Spaces and names in full make a text longer, so the displayed one may be over the limit.
    if shown.len() <= ACI_LENGTH_MAX_BYTES {
        assert_eq!(Aci::parse(&shown, &schema).as_ref(), Ok(&aci), "{shown}");
    }
    let name = "uid=anna,ou=people,dc=x";
    let pairs: [(&str, &[u8]); 3] = [("cn", b"Anna"), ("ou", b"people"), ("manager", b"dc=x")];
    let entry = Entry::from_pairs(Dn::parse(name).unwrap(), pairs, &schema).unwrap();
    let world = World(entry.clone());
    let key = DnKey::from_text(&schema, name).unwrap();
    let base = DnKey::from_text(&schema, "dc=x").unwrap();
    let set = AciSet::new(Arc::clone(&schema));
    let set = Arc::new(set.with_holders([(base.clone(), vec![Arc::new(aci)])]));
    let asker = AccessSubject {
        identity: Some(&key),
        address: Some([10, 0, 0, 1].into()),
        ssf: 128,
        method: AuthenticationMethod::Sasl("PLAIN"),
        surroundings: &world,
    };
    let rules = Rules::new(&set, 0);
    let reach = rules.below(&asker, &base);
    let rights = reach.of(&entry);
    let cn = schema.describe("cn").unwrap();
    for right in Right::ALL {
        for question in [
            Question::Attribute(right, &cn),
            Question::Entry(right),
            Question::Value(ValueChange::Add, &cn, b"x"),
            Question::Control("1.2"),
        ] {
            assert_eq!(rights.explain(&question).allowed, rights.decide(&question));
        }
    }
});
