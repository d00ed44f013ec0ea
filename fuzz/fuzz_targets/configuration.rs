//! Any file is refused as a configuration of another server, with a sentence, or becomes settings
//! that its own LDIF says again, and a report, both bounded.
#![no_main]

use std::sync::{Arc, LazyLock};

use ldap::ldif::{LdifLimits, LdifReader};
use libfuzzer_sys::fuzz_target;
use offline::{Configuration, SettingKind, Source};
use schema::Schema;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin);

fuzz_target!(|text: &[u8]| {
    let read = |schema| Configuration::read(Source::new("config.ldif", text), schema);
    let Ok(found) = read(Some(&SCHEMA)) else {
        assert!(read(None).is_err(), "the schema is of no account here");
        return;
    };
    assert!(found.settings.len() <= 2000 && found.untranslated.len() <= 2001);
    assert!(!found.to_string().is_empty());
    let ldif = found.ldif();
    let mut reader = LdifReader::new(ldif.as_slice(), LdifLimits::default());
    let mut records = 0;
    while reader.next_record().expect("what was written is LDIF").is_some() {
        records += 1;
    }
    let changes = found.settings.iter().filter(|setting| {
        matches!(setting.change, SettingKind::Value { .. } | SettingKind::Entry { .. })
    });
    assert_eq!(records, changes.count(), "each setting is a record, and nothing else is");
});
