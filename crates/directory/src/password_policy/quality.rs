//! Whether a new password is good enough: its length, what it is made of, and what a person can be
//! expected not to use.
//!
//! Invariant: lengths are counted in characters, and nothing is compared but with what is handed
//! in.
//! Invariant: the time it takes grows with the length of the password times a named limit, whatever
//! the password, the entry and the policy hold.

mod shape;
mod similarity;
mod words;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::shape::Shape;
pub use self::words::Words;
use super::control::PolicyError;

/// What a password has to be like, besides its length. Numbers that are 0 are no rule.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Quality {
    /// Least digits.
    pub min_digits: u32,
    /// Least letters, of ASCII.
    pub min_alphas: u32,
    /// Least upper case letters.
    pub min_uppers: u32,
    /// Least lower case letters.
    pub min_lowers: u32,
    /// Least characters of ASCII that are neither letters nor digits.
    pub min_specials: u32,
    /// Least characters that are not of ASCII.
    pub min_8bit: u32,
    /// Of how many of the kinds digits, upper case, lower case, specials and others there has to
    /// be one at least.
    pub min_categories: u32,
    /// Least different characters.
    pub min_unique: u32,
    /// How often a character may follow itself, itself included.
    pub max_repeats: u32,
    /// Longest run of characters each of which is the next, or the one before, of its neighbour.
    pub max_sequence: u32,
    /// Runs that are longer must not be there twice.
    pub max_sequence_sets: u32,
    /// Longest run of characters of one kind.
    pub max_class_characters: u32,
    /// It must not read the same backwards.
    pub no_palindrome: bool,
    /// Words that many use are refused.
    pub dictionary: bool,
    /// What a password must not hold, in lower case.
    pub bad_words: Vec<String>,
    /// Attributes of the entry whose values it must not be made of.
    pub own_attributes: Vec<String>,
    /// Words of those values that are shorter are not looked for; 0: four characters.
    pub min_token_length: u32,
    /// No part of such a value that is so long is in it; 0: words as a whole are looked for.
    pub min_own_substring: u32,
    /// Values are looked for backwards, too.
    pub looks_backwards: bool,
    /// How many characters have to be changed, added or removed to make the new password of the
    /// old one, when that is sent.
    pub min_difference: u32,
}

/// A new password, and what it is compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewPassword<'p> {
    /// It, in clear text.
    pub clear: &'p str,
    /// The old one, when the client sent it.
    pub old: Option<&'p str>,
    /// Values of the entry that it must not be made of.
    pub own: &'p [&'p str],
}

/// Why a password is not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It is hashed already, so that nobody can look at it.
    Hashed,
    /// It has fewer characters than that.
    Short(u32),
    /// It has more.
    Long(u32),
    /// It is a word that many use.
    Common,
    /// It holds a word that the policy lists.
    Listed,
    /// It holds, or is, a value of the account's own attributes.
    Own,
    /// It is too much like the old one.
    Similar(u32),
    /// It has less than so many of such characters.
    Few(u32, &'static str),
    /// It has more than so many in a row.
    Many(u32, &'static str),
    /// A run of characters that follow each other is in it twice.
    Again(u32),
    /// It reads the same backwards.
    Palindrome,
}

impl Fault {
    /// What the control says of it.
    pub fn error(self) -> PolicyError {
        match self {
            Self::Short(_) => PolicyError::PasswordTooShort,
            Self::Long(_) => PolicyError::PasswordTooLong,
            Self::Hashed
            | Self::Common
            | Self::Listed
            | Self::Own
            | Self::Similar(_)
            | Self::Few(..)
            | Self::Many(..)
            | Self::Again(_)
            | Self::Palindrome => PolicyError::InsufficientPasswordQuality,
        }
    }

    /// What is wrong with the password, for people.
    pub fn reason(self) -> Cow<'static, str> {
        let fixed = match self {
            Self::Short(least) => {
                return format!("a password has at least {least} characters").into();
            }
            Self::Long(most) => return format!("a password has at most {most} characters").into(),
            Self::Few(least, of) => return format!("a password has at least {least} {of}").into(),
            Self::Many(most, of) => return format!("a password has at most {most} {of}").into(),
            Self::Similar(least) => {
                return format!("at least {least} characters of the old password have to change")
                    .into();
            }
            Self::Again(most) => {
                return format!(
                    "a sequence of more than {most} characters such as 'abcd' must not be in it \
                     twice"
                )
                .into();
            }
            Self::Hashed => "a hashed password is not accepted: its quality cannot be looked at",
            Self::Common => "the password is one that many people use",
            Self::Listed => "the password holds a word that the policy does not allow",
            Self::Own => "the password is made of a value of the entry, such as the name",
            Self::Palindrome => "the password reads the same backwards",
        };
        fixed.into()
    }
}

impl Quality {
    /// Looks at a new password in clear text, whose length is as it should be.
    pub(super) fn check(&self, new: &NewPassword<'_>, words: &Words) -> Result<(), Fault> {
        self.check_counts(new.clear)?;
        let folded = folded(new.clear);
        if self.no_palindrome && is_palindrome(&folded) {
            return Err(Fault::Palindrome);
        }
        if self.dictionary && words.hold(&folded) {
            return Err(Fault::Common);
        }
        if self.bad_words.iter().any(|word| folded.contains(word.as_str())) {
            return Err(Fault::Listed);
        }
        if self.is_own(&folded, new.own) {
            return Err(Fault::Own);
        }
        if let Some(old) = new.old
            && similarity::is_nearer(old, new.clear, self.min_difference)
        {
            return Err(Fault::Similar(self.min_difference));
        }
        Ok(())
    }

    /// What it is made of, and in which order.
    fn check_counts(&self, clear: &str) -> Result<(), Fault> {
        let shape = Shape::of(clear);
        for (least, has, what) in [
            (self.min_digits, shape.digits, "digits"),
            (self.min_alphas, shape.uppers + shape.lowers, "letters"),
            (self.min_uppers, shape.uppers, "upper case letters"),
            (self.min_lowers, shape.lowers, "lower case letters"),
            (self.min_specials, shape.specials, "special characters"),
            (self.min_8bit, shape.others, "characters beyond ASCII"),
            (self.min_categories, shape.categories(), "kinds of characters"),
            (self.min_unique, shape.unique, "different characters"),
        ] {
            if has < least {
                return Err(Fault::Few(least, what));
            }
        }
        for (most, has, what) in [
            (self.max_repeats, shape.repeats, "times the same character in a row"),
            (self.max_sequence, shape.sequence, "characters such as 'abcd' in a row"),
            (self.max_class_characters, shape.class_run, "characters of one kind in a row"),
        ] {
            if most > 0 && has > most {
                return Err(Fault::Many(most, what));
            }
        }
        if self.max_sequence_sets > 0 && shape::repeats_a_sequence(clear, self.max_sequence_sets) {
            return Err(Fault::Again(self.max_sequence_sets));
        }
        Ok(())
    }

    /// Whether it is made of a value of the entry, or of a part of one.
    fn is_own(&self, folded: &str, own: &[&str]) -> bool {
        let least = match self.min_token_length {
            0 => OWN_MIN_CHARACTERS,
            set => usize::try_from(set).unwrap_or(usize::MAX),
        };
        let backwards = self.looks_backwards.then(|| folded.chars().rev().collect::<String>());
        let is_in = |part: &str| {
            folded.contains(part) || backwards.as_ref().is_some_and(|other| other.contains(part))
        };
        let part_length = usize::try_from(self.min_own_substring).unwrap_or(usize::MAX);
        own.iter().take(OWN_VALUES_MAX).any(|value| {
            let value: String = folded_start(value);
            let is_long = |text: &str| text.chars().count() >= least;
            if (is_long(&value) && is_in(&value)) || (is_long(folded) && value.contains(folded)) {
                return true;
            }
            let mut tokens = value.split(|c: char| !c.is_alphanumeric()).take(OWN_TOKENS_MAX);
            tokens.any(|token| is_long(token) && is_in(token))
                || (part_length > 0 && parts(&value, part_length).any(is_in))
        })
    }
}

/// The parts of a value that are so long.
fn parts(value: &str, length: usize) -> impl Iterator<Item = &str> {
    let ends = value.char_indices().map(|(at, _)| at).skip(length).chain([value.len()]);
    let is_long = value.chars().count() >= length;
    let starts = value.char_indices().map(|(at, _)| at);
    starts.zip(ends).filter_map(move |(from, to)| value.get(from..to)).filter(move |_| is_long)
}

fn is_palindrome(text: &str) -> bool {
    !text.is_empty() && text.chars().eq(text.chars().rev())
}

fn folded(text: &str) -> String {
    text.to_lowercase()
}

/// The beginning of a value of the entry, which may be long.
fn folded_start(value: &str) -> String {
    value.chars().take(OWN_VALUE_MAX_CHARACTERS).flat_map(char::to_lowercase).collect()
}

/// Own values that are shorter are not looked for, unless a policy says otherwise.
const OWN_MIN_CHARACTERS: usize = 4;
/// Own values that are looked for.
pub const OWN_VALUES_MAX: usize = 64;
/// So much of each.
const OWN_VALUE_MAX_CHARACTERS: usize = 128;
/// Words of each.
const OWN_TOKENS_MAX: usize = 32;
/// Characters of a password that is looked at.
pub(in crate::password_policy) const LOOKED_AT_MAX_CHARACTERS: u32 = 1_024;
