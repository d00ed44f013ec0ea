//! The template language of `roster generate`: descriptions of made-up directories.
//!
//! The language is the one of makeldif and SLAMD: constants, branches with a number of entries
//! below them, and templates whose lines are made of text, `{references}` and `<tags>`.
//! `docs/templates.md` is its reference.
//!
//! Invariant: what a template yields depends on its text, the word files, the seed and the number
//! of the entry alone.

mod generate;
mod parse;
mod tags;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::fmt;

pub use generate::{GenerateError, Generated, Generator, REPEATED_SIZE_MAX_BYTES};
pub use parse::{ParseOptions, Template};
pub use words::{ShippedWords, WordFiles};

/// The template of `roster demo` and `bench add`: people below `ou=people,dc=example,dc=com`.
pub const PEOPLE: &str = include_str!("../../../examples/people.template");

/// Why a template cannot be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TemplateError {
    /// The name of the template's file, as given.
    pub file: String,
    /// The line at fault, from 1; 0 when the fault is the file's as a whole.
    pub line: u32,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.reason),
            line => write!(f, "{}:{line}: {}", self.file, self.reason),
        }
    }
}

impl std::error::Error for TemplateError {}

/// A fault whose place is not known yet.
#[derive(Debug)]
pub(crate) struct Reason {
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

impl Reason {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Splits at the first `at` that has no backslash before it.
pub(crate) fn split_once_unescaped(text: &str, at: char) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (index, letter) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if letter == '\\' {
            escaped = true;
        } else if letter == at {
            let (head, tail) = text.split_at(index);
            return Some((head, tail.get(at.len_utf8()..).unwrap_or("")));
        }
    }
    None
}

/// Splits at every `at` that has no backslash before it.
pub(crate) fn split_unescaped(text: &str, at: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (part, behind) = match split_once_unescaped(text, at) {
            Some((part, behind)) => (part, Some(behind)),
            None => (text, None),
        };
        rest = behind;
        Some(part)
    })
}

/// Takes one level of backslashes away.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    plain
}

/// Puts a backslash before each character the language gives a meaning.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\<{[".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
