//! Words that nobody may use as a password.
//!
//! Invariant: whatever is put before or behind a word, and however its letters are replaced by
//! what looks like them, it is that word.

use std::collections::HashSet;
use std::sync::OnceLock;

/// A set of words, whatever their case.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Words(HashSet<String>);

impl Words {
    /// One word a line; what begins with `#` is a remark.
    pub fn of_lines(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let words = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(words.map(str::to_lowercase).collect())
    }

    /// The words that come with the server.
    pub fn built_in() -> &'static Self {
        static WORDS: OnceLock<Words> = OnceLock::new();
        WORDS.get_or_init(|| Self::of_lines(include_str!("common.txt")))
    }

    /// Whether a password in lower case is one of the words, or one of them in disguise.
    pub(super) fn hold(&self, folded: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let bare = folded.trim_matches(|c: char| !c.is_alphabetic());
        let plain = plain(folded);
        let plain_bare = plain.trim_matches(|c: char| !c.is_alphabetic());
        // "pa55word1!": the digit at the end is no letter in disguise.
        let plain_of_bare = self::plain(folded.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_word = |text: &str| self.0.contains(text);
        let is_long = |text: &&str| text.chars().count() >= BARE_MIN_CHARACTERS;
        let parts = [bare, plain_bare, plain_of_bare.as_str()];
        let without_number = plain_of_number(folded);
        is_word(folded)
            || is_word(&plain)
            || is_word(&folded.chars().rev().collect::<String>())
            || parts.iter().filter(|part| is_long(part)).any(|part| is_word(part))
            || (is_long(&without_number.as_str()) && is_word(&without_number))
            || twice(folded).is_some_and(is_word)
    }
}

/// With letters for what looks like them.
fn plain(folded: &str) -> String {
    let letter = |c| match c {
        '0' => 'o',
        '1' | '!' | '|' => 'i',
        '3' | '€' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        '8' => 'b',
        '9' => 'g',
        other => other,
    };
    folded.chars().map(letter).collect()
}

/// A word in plain letters, where what is at its ends is a number or a sign and no letter in
/// disguise.
fn plain_of_number(folded: &str) -> String {
    plain(folded.trim_matches(|c: char| !c.is_alphabetic()))
}

/// What a text is two or more times.
fn twice(folded: &str) -> Option<&str> {
    let (first, rest) = folded.split_at_checked(folded.len() / 2)?;
    (!first.is_empty() && first == rest).then_some(first)
}

/// Words that are left when numbers and signs are taken away count from this length on.
const BARE_MIN_CHARACTERS: usize = 4;
