//! Word lists: the ones shipped inside the program, and where others are looked up.
//!
//! Invariant: a list is never empty, holds no empty word, and keeps the order of its file.

use std::sync::Arc;

/// The words of one list.
#[derive(Clone, Debug)]
pub(crate) struct Words(Arc<[Box<str>]>);

/// Finds word files that are not shipped with the program, usually beside the template.
pub trait WordFiles {
    /// The text of the word file `name`, or `None` when there is no such file.
    ///
    /// # Errors
    /// The reason in one sentence when the file exists and cannot be read.
    fn read(&self, name: &str) -> Result<Option<String>, String>;
}

/// No files but the ones inside the program.
#[derive(Clone, Copy, Debug)]
pub struct ShippedWords;

impl WordFiles for ShippedWords {
    fn read(&self, _name: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

impl Words {
    /// One word a line; blank lines are skipped. `None` when no word is left.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words: Arc<[Box<str>]> =
            text.lines().map(str::trim).filter(|word| !word.is_empty()).map(Box::from).collect();
        (!words.is_empty()).then_some(Self(words))
    }

    /// The shipped list `name` (with or without `.txt`).
    pub(crate) fn shipped(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".txt").unwrap_or(name);
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Self::parse(text)
    }

    /// Word `index`, starting again at the first after the last.
    pub(crate) fn word(&self, index: u64) -> &str {
        let index = index % self.count();
        self.0.get(index as usize).map_or("", AsRef::as_ref)
    }

    /// How many words there are; at least 1.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The names of the shipped lists, for messages.
pub(crate) fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The names behind `<first>` and `<last>`.
pub(crate) const FIRST_NAMES: &str = "first-names";
pub(crate) const LAST_NAMES: &str = "last-names";

const SHIPPED: &[(&str, &str)] = &[
    ("cities", include_str!("../../words/cities.txt")),
    (FIRST_NAMES, include_str!("../../words/first-names.txt")),
    (LAST_NAMES, include_str!("../../words/last-names.txt")),
    ("states", include_str!("../../words/states.txt")),
    ("streets", include_str!("../../words/streets.txt")),
    ("titles", include_str!("../../words/titles.txt")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_lists_are_long_and_without_doubles() {
        for (name, least) in [
            ("cities", 150),
            ("first-names", 300),
            ("last-names", 600),
            ("states", 50),
            ("streets", 120),
            ("titles", 100),
        ] {
            let words = Words::shipped(name).unwrap();
            let unique: std::collections::BTreeSet<&str> =
                (0..words.count()).map(|index| words.word(index)).collect();
            assert_eq!(unique.len() as u64, words.count(), "{name}");
            assert!(words.count() >= least, "{name}");
        }
    }

    #[test]
    fn blank_lines_are_no_words() {
        let words = Words::parse("a\n\n  b \n").unwrap();
        assert_eq!(
            (words.count(), words.word(0), words.word(1), words.word(2)),
            (2, "a", "b", "a")
        );
        assert!(Words::parse(" \n\n").is_none());
    }
}
