//! `--access`: who reads what no ACI of an entry is about.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use directory::GlobalAcis;

/// Reads one of the words.
pub(crate) fn access() -> impl TypedValueParser<Value = GlobalAcis> {
    PossibleValuesParser::new(WORDS.map(|(word, _)| word)).map(|word| {
        let found = WORDS.iter().find(|(known, _)| *known == word);
        found.map_or_else(GlobalAcis::default, |(_, acis)| *acis)
    })
}

const WORDS: [(&str, GlobalAcis); 3] = [
    ("closed", GlobalAcis::Closed),
    ("signed-in", GlobalAcis::SignedIn),
    ("public", GlobalAcis::Public),
];
