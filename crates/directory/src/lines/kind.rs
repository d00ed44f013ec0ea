//! Kinds of lines: a table of them is all that a sort of lines has of its own, and its reference.

use std::fmt;

use schema::Schema;

use super::scanner::{Parsed, Scanner};

/// A kind of line.
pub(crate) struct Kind<R> {
    /// The word for it.
    pub(crate) name: &'static str,
    /// What follows the word, for the reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference is made by a test"))]
    pub(crate) form: &'static str,
    /// What it does, for the reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference is made by a test"))]
    pub(crate) about: &'static str,
    /// A line, without its name.
    pub(crate) example: &'static str,
    /// Reads what follows the word.
    pub(crate) read: fn(&mut Scanner<'_>, &Schema) -> Parsed<R>,
}

impl<R> fmt::Debug for Kind<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Compares the page of the reference with the table, or writes it where that is asked for.
#[cfg(test)]
#[track_caller]
pub(crate) fn check_reference<R>(page: &str, head: &str, kinds: &[Kind<R>]) {
    let mut text = head.to_owned();
    for Kind { name, form, about, example, .. } in kinds {
        let [form, about, example] = [form, about, example].map(|it| it.replace('|', "\\|"));
        text += &format!("| `{name}` | `{form}` | {about} | `{example}` |\n");
    }
    let path = format!("{}/../../docs/reference/{page}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(is == text, "{path} is not as the code says");
}
