//! The text of an ACI, read from the left.

use super::error::AciReason;

/// A place in the text, and what is wrong there.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) reason: AciReason,
}

/// A part of the text, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'t> {
    pub(super) text: &'t str,
    pub(super) offset: usize,
}

impl<'t> Part<'t> {
    pub(super) fn fault(self, reason: AciReason) -> Fault {
        Fault { offset: self.offset, reason }
    }

    pub(super) fn expected(self, what: &'static str) -> Fault {
        self.fault(AciReason::Expected(what))
    }

    /// The part from `start` on.
    pub(super) fn from(self, start: usize) -> Self {
        let text = self.text.get(start..).unwrap_or_default();
        Part { text, offset: self.offset + self.text.len() - text.len() }
    }

    /// The part up to `end`.
    pub(super) fn to(self, end: usize) -> Self {
        Part { text: self.text.get(..end).unwrap_or(self.text), offset: self.offset }
    }

    /// What is before and after the first `separator`.
    pub(super) fn split_once(self, separator: &str) -> Option<(Self, Self)> {
        let end = self.text.find(separator)?;
        Some((self.to(end), self.from(end + separator.len())))
    }

    /// The part without spaces at its ends.
    pub(super) fn trim(self) -> Self {
        let start = self.text.len() - self.text.trim_start().len();
        let part = self.from(start);
        part.to(part.text.trim_end().len())
    }

    /// The parts between separators, without spaces.
    pub(super) fn split(self, separator: &'t str) -> impl Iterator<Item = Part<'t>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let part = rest?;
            let (first, after) = match part.split_once(separator) {
                Some((first, after)) => (first, Some(after)),
                None => (part, None),
            };
            rest = after;
            Some(first.trim())
        })
    }

    /// The part after `prefix` in any case.
    pub(super) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        let start = self.text.get(..prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then(|| self.from(prefix.len()))
    }
}

/// The text and a place in it, which only goes forward.
pub(super) struct Scanner<'t> {
    rest: Part<'t>,
    text: &'t str,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: Part { text, offset: 0 }, text }
    }

    /// The whole text.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.text.is_empty()
    }

    pub(super) fn skip_spaces(&mut self) {
        self.rest = self.rest.from(self.rest.text.len() - self.rest.text.trim_start().len());
    }

    /// Whether `token` comes next, after spaces.
    pub(super) fn is_at(&self, token: &str) -> bool {
        self.rest.text.trim_start().starts_with(token)
    }

    /// Goes over spaces and `token`, if it comes next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let is_next = self.rest.text.starts_with(token);
        if is_next {
            self.rest = self.rest.from(token.len());
        }
        is_next
    }

    pub(super) fn expect(&mut self, token: &str, what: &'static str) -> Result<(), Fault> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Reads a word after spaces; it may be empty.
    pub(super) fn word(&mut self) -> Part<'t> {
        self.skip_spaces();
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = self.rest.text.bytes().take_while(is_inner).count();
        self.take(end)
    }

    /// Reads what is before `token`, and the token.
    pub(super) fn until(&mut self, token: &str, what: &'static str) -> Result<Part<'t>, Fault> {
        let end = self.rest.text.find(token).ok_or_else(|| self.rest.expected(what))?;
        let part = self.take(end);
        self.rest = self.rest.from(token.len());
        Ok(part.trim())
    }

    /// Reads a text in quotes.
    pub(super) fn quoted(&mut self) -> Result<Part<'t>, Fault> {
        self.skip_spaces();
        let open = self.rest;
        self.expect("\"", "a value in quotes")?;
        let end = self.rest.text.find('"').ok_or_else(|| open.fault(AciReason::UnclosedQuote))?;
        let part = self.take(end);
        self.rest = self.rest.from(1);
        Ok(part)
    }

    /// Reads what is before the parenthesis that closes the one before.
    pub(super) fn before_close(&mut self) -> Result<Part<'t>, Fault> {
        let mut depth = 0_usize;
        for (position, byte) in self.rest.text.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 0 => return Ok(self.take(position).trim()),
                b')' => depth -= 1,
                b'"' => return Err(self.rest.from(position).fault(AciReason::Quote)),
                _ => {}
            }
        }
        Err(self.rest.from(self.rest.text.len()).expected("')' after a target"))
    }

    pub(super) fn fault(&self, reason: AciReason) -> Fault {
        self.rest.fault(reason)
    }

    pub(super) fn expected(&self, what: &'static str) -> Fault {
        self.rest.from(self.rest.text.len() - self.rest.text.trim_start().len()).expected(what)
    }

    fn take(&mut self, end: usize) -> Part<'t> {
        let part = self.rest.to(end);
        self.rest = self.rest.from(end);
        part
    }
}
