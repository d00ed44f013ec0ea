//! Words of one script line.
//!
//! A word ends at white space. `"…"` keeps spaces together (`\"` stands for a quote, any other
//! backslash stays, as DNs need it); a word that starts with `(` is a filter and ends where its
//! parentheses close.

/// Walks over the words of a line.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        Self { rest: line.trim() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that was not read yet.
    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next word, or what is wrong with it; `None` at the end of the line.
    pub(crate) fn next(&mut self) -> Result<Option<String>, String> {
        let rest = self.rest;
        let Some(first) = rest.chars().next() else {
            return Ok(None);
        };
        let (word, after) = match first {
            '"' => quoted(rest)?,
            '(' => filter(rest)?,
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                (word.to_owned(), after)
            }
        };
        self.rest = after.trim_start();
        Ok(Some(word))
    }

    /// The next word, which must be there: `what` names it in the error.
    pub(crate) fn need(&mut self, what: &str) -> Result<String, String> {
        self.next()?.ok_or_else(|| format!("{what} is missing"))
    }

    /// Reads `word` if it comes next.
    pub(crate) fn accept(&mut self, word: &str) -> bool {
        let mut ahead = self.clone();
        let found = matches!(ahead.next(), Ok(Some(next)) if next == word);
        if found {
            *self = ahead;
        }
        found
    }

    /// Refuses words that nothing asked for.
    pub(crate) fn end(&self) -> Result<(), String> {
        if self.is_empty() { Ok(()) } else { Err(format!("unexpected: {}", self.rest)) }
    }
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut word = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((word, text.get(at + 1..).unwrap_or_default())),
            '\\' if chars.next_if(|(_, next)| *next == '"').is_some() => word.push('"'),
            other => word.push(other),
        }
    }
    Err("a quotation is not closed".to_owned())
}

fn filter(text: &str) -> Result<(String, &str), String> {
    let mut depth = 0usize;
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' if depth == 1 => {
                let (word, after) = text.split_at(at + 1);
                return Ok((word.to_owned(), after));
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    Err("the parentheses of the filter are not closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &[&str]) {
        let mut cursor = Cursor::new(line);
        let mut words = Vec::new();
        while let Some(word) = cursor.next().unwrap() {
            words.push(word);
        }
        assert_eq!(words, want);
    }

    #[test]
    fn words_end_at_spaces_unless_quoted_or_in_a_filter() {
        check("  bind cn=a   secret ", &["bind", "cn=a", "secret"]);
        check(r#"bind "cn=a b,dc=c" """#, &["bind", "cn=a b,dc=c", ""]);
        check(r#""a\"b" "c\\,d""#, &[r#"a"b"#, r"c\\,d"]);
        check("(&(cn=a b)(sn=c)) cn", &["(&(cn=a b)(sn=c))", "cn"]);
    }

    #[test]
    fn what_is_opened_must_be_closed() {
        assert!(Cursor::new("\"abc").next().is_err());
        assert!(Cursor::new("((a=b)").next().is_err());
    }
}
