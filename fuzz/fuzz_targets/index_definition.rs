//! Any text is refused as a definition of an index, or is shown as it reads back; what the schema
//! makes of it is final.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schema::Schema;
use store::{INDEX_DEFINITION_MAX_BYTES, IndexDefinition};

fuzz_target!(|text: &str| {
    let Ok(definition) = IndexDefinition::parse(text) else { return };
    let shown = definition.to_string();
    assert!(shown.len() <= INDEX_DEFINITION_MAX_BYTES);
    assert_eq!(IndexDefinition::parse(&shown).unwrap(), definition);
    assert!(definition.name().starts_with(&definition.attribute));
    let schema = Schema::builtin();
    if let Ok(canonical) = definition.canonical(&schema) {
        assert_eq!(canonical.canonical(&schema).unwrap(), canonical);
        assert_eq!(IndexDefinition::parse(&canonical.to_string()).unwrap(), canonical);
    }
});
