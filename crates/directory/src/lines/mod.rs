//! Lines in which administrators say what entries are to be like: `NAME: KIND … [below DN] [where
//! FILTER]`, values of a setting of the directory. Constraints are such lines.
//!
//! Invariant: a line is read once for a version of the setting and of the schema, and those in
//! force are always those of the view that is asked about.

pub(crate) mod in_force;
pub(crate) mod kind;
pub(crate) mod place;
pub(crate) mod scanner;

use schema::Schema;

use self::scanner::Parsed;

/// What a line means.
pub(crate) trait Line: Sized {
    /// The setting with the lines.
    const SETTING: &'static str;

    /// Reads one.
    fn read(text: &str, schema: &Schema) -> Parsed<Self>;
}

/// The name that a line begins with.
pub(crate) fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}
