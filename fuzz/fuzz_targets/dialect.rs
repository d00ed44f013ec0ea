//! Any file can be decoded and translated, in bounded memory; translating again changes nothing.
#![no_main]

use offline::translated;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &[u8]| {
    let Ok((once, tally)) = translated(source) else { return };
    assert!(tally.to_string().len() < 1 << 20);
    if let Some(text) = tally.schema_file() {
        let file = schema::SchemaFile { name: "offer".to_owned(), text };
        schema::Schema::builtin().with_files(&[file]).expect("what is offered loads");
    }
    // A password may hide in another: `{CLEAR}{CLEAR}x` takes two turns.
    if source.windows(7).any(|word| word.eq_ignore_ascii_case(b"{clear}"))
        || source.windows(12).any(|word| word.eq_ignore_ascii_case(b"userpassword"))
    {
        return;
    }
    let (twice, _) = translated(&once).expect("what was written is LDIF");
    assert_eq!(twice, once);
});
