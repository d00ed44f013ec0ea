//! Any text is a definition that reads back as it was printed, or is refused at a place inside it;
//! any file makes a schema or is refused by name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schema::{Definition, DefinitionKind, Schema, SchemaFile};

fuzz_target!(|text: &str| {
    for kind in DefinitionKind::ALL {
        match Definition::parse(kind, text) {
            Ok(definition) => {
                let again = Definition::parse(kind, &definition.to_string());
                // Escapes make a text longer, so the printed one may be over the limit.
                let too_long = definition.to_string().len() > schema::DEFINITION_LENGTH_MAX_BYTES;
                assert!(too_long || again.as_ref() == Ok(&definition));
            }
            Err(error) => assert!(error.offset <= text.len() && !error.to_string().is_empty()),
        }
    }
    let _ = Definition::parse_line(text).map_err(|error| error.to_string());
    if let Ok(description) = Schema::builtin().describe(text) {
        let again = Schema::builtin().describe(description.text());
        assert_eq!(again.as_ref(), Ok(&description));
    }
    let file = SchemaFile { name: "f".to_owned(), text: text.to_owned() };
    if let Err(error) = Schema::builtin().with_files(&[file]) {
        assert!(error.to_string().contains(".ldif:") || error.to_string().starts_with("f:"));
    }
});
