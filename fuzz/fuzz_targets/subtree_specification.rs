//! Any text is a subtree specification or is refused at an octet inside it; and whatever was read
//! covers nothing above its base.
#![no_main]

use directory::password_policy::Subtree;
use ldap::dn::Dn;
use libfuzzer_sys::fuzz_target;
use schema::{DnKey, Entry, Schema};

fuzz_target!(|text: &str| {
    let schema = Schema::builtin();
    let point = DnKey::from_text(&schema, "dc=x").unwrap();
    let subtree = match Subtree::parse(text, &point, &schema) {
        Ok(subtree) => subtree,
        Err(fault) => {
            assert!(fault.position <= text.len() && text.is_char_boundary(fault.position));
            assert!(!fault.to_string().is_empty());
            return;
        }
    };
    assert!(subtree.base().is_within(&point));
    for name in ["dc=x", "ou=a,dc=x", "uid=1,ou=a,dc=x", "dc=y"] {
        let pairs: [(&str, &[u8]); 1] = [("objectClass", b"person")];
        let entry = Entry::from_pairs(Dn::parse(name).unwrap(), pairs, &schema).unwrap();
        let key = DnKey::from_text(&schema, name).unwrap();
        let is_covered = subtree.covers(&entry, &key, &schema);
        assert!(!is_covered || key.is_within(subtree.base()));
    }
});
