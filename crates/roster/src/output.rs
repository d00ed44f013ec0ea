//! Printing: results to standard output, everything about them to standard error.
//!
//! Invariant: this is the only place that writes to either.
//! Invariant: text of others, as names of entries are, does nothing to a terminal but show: what a
//! terminal obeys, and what turns the direction of writing or is not seen, is written as its code.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use serde::Serialize;
use server::is_hidden;

use crate::failure::{Exit, Failure};

/// Standard output, buffered; flush it before the end.
#[derive(Debug)]
pub(crate) struct Out(io::BufWriter<io::StdoutLock<'static>>);

/// Opens standard output.
pub(crate) fn out() -> Out {
    Out(io::BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()))
}

impl Write for Out {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints a line to standard output at once, or several.
pub(crate) fn line(text: fmt::Arguments<'_>) -> io::Result<()> {
    write_line(&shown(&text.to_string()))
}

/// Prints an object to standard output at once.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::local)?;
    Ok(write_line(&json_shown(&text))?)
}

fn write_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints a line to standard error, or several; a failure to do so has nowhere to go. Of a line
/// that is longer than anybody reads, as with a name of thousands of RDNs, the middle is left out.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(&readable(&text.to_string())));
}

/// Lines without the middle of those that are too long: what is wrong is said at their ends.
fn readable(text: &str) -> Cow<'_, str> {
    if text.len() <= LINE_MAX_LETTERS {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(shortened).collect();
    Cow::Owned(lines.join("\n"))
}

fn shortened(line: &str) -> Cow<'_, str> {
    let count = line.chars().count();
    let Some(left_out) = count.checked_sub(LINE_MAX_LETTERS).filter(|more| *more > 0) else {
        return Cow::Borrowed(line);
    };
    let half = LINE_MAX_LETTERS / 2;
    let begin: String = line.chars().take(half).collect();
    let end: String = line.chars().skip(half + left_out).collect();
    Cow::Owned(format!("{begin}… ({left_out} letters are left out) …{end}"))
}

/// Prints an object to standard error.
pub(crate) fn json_note(value: &serde_json::Value) {
    let _ = writeln!(io::stderr().lock(), "{}", json_shown(&value.to_string()));
}

/// Text of others within a line: it does not end the line either.
pub(crate) fn within_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, push_code)
}

/// Lines as a terminal only shows them.
fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter != '\n' && is_hidden(letter), push_code)
}

/// JSON likewise, and the same value: within its strings no line ends.
pub(crate) fn json_shown(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |letter| letter != '\n' && is_hidden(letter),
        |letter, out| {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Letters of a line on standard error.
const LINE_MAX_LETTERS: usize = 2_000;

fn push_code(letter: char, out: &mut String) {
    let _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
}

fn escaped(
    text: &str,
    is_one: impl Fn(char) -> bool,
    push: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_one) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_one(letter) { push(letter, &mut out) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

/// A path as a shell reads it.
pub(crate) fn in_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Prints `roster: error: …` and, if there is one, `roster: hint: …`.
pub(crate) fn failure(failure: &Failure) {
    if failure.exit == Exit::Done {
        return;
    }
    note(format_args!("roster: error: {}", failure.message));
    if let Some(hint) = &failure.hint {
        note(format_args!("roster: hint: {hint}"));
    }
}

/// Draws on standard error, which somebody watches.
pub(crate) fn draw(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// How wide the terminal on standard error is.
pub(crate) fn columns() -> u16 {
    match rustix::termios::tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        Ok(_) | Err(_) => COLUMNS,
    }
}

/// Whether somebody watches standard error.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard output may have colours: a terminal, and nobody said no (no-color.org).
pub(crate) fn may_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

/// The width of a terminal that does not tell.
const COLUMNS: u16 = 80;
const BUFFER_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_where_a_shell_would_divide_it() {
        for (path, want) in [("/a/b-1.c", "/a/b-1.c"), ("/a b", "'/a b'"), ("it's", r"'it'\''s'")] {
            assert_eq!(in_shell(Path::new(path)), want);
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_shown_as_its_code() {
        for (text, want) in [
            ("cn=Jürgen 日本 🙂,dc=example", "cn=Jürgen 日本 🙂,dc=example"),
            ("a\u{9b}31mb", r"a\u{9b}31mb"),
            ("a\x1b[2J\x07\x7f\r\t", r"a\u{1b}[2J\u{7}\u{7f}\u{d}\u{9}"),
            ("\u{80}\u{85}\u{9f}\u{a0}", "\\u{80}\\u{85}\\u{9f}\u{a0}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}", r"\u{202a}\u{202e}\u{2066}\u{2069}"),
            (
                "\u{200b}\u{200f}\u{2060}\u{2064}\u{feff}",
                r"\u{200b}\u{200f}\u{2060}\u{2064}\u{feff}",
            ),
            ("\u{e0041}", r"\u{e0041}"),
        ] {
            assert_eq!(shown(text), want);
            assert_eq!(within_line(text), want);
        }
        assert_eq!(shown("a\nb"), "a\nb");
        assert_eq!(within_line("a\nb"), r"a\u{a}b");
    }

    #[test]
    fn of_a_line_that_nobody_reads_both_ends_are_left() {
        for text in ["", "short", &"ü".repeat(2_000), &format!("{}\n", "x".repeat(2_000))] {
            assert_eq!(readable(text), text);
        }
        let long = format!("first\n'{}' is no name\nlast", "cn=ä,".repeat(20_000));
        let cut = readable(&long);
        let lines: Vec<&str> = cut.split('\n').collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (3, "first", "last"));
        let want = "… (98013 letters are left out) …";
        assert!(lines[1].starts_with("'cn=ä,cn=ä,") && lines[1].contains(want), "{}", lines[1]);
        assert!(lines[1].ends_with("cn=ä,' is no name"), "{}", lines[1]);
    }

    #[test]
    fn json_is_shown_by_codes_and_says_the_same() {
        let name = "cn=\u{9b}31m\u{202e}\x1b\x7f\u{feff}\u{e0041}\nü";
        let text = serde_json::to_string_pretty(&[name]).unwrap();
        let shown = json_shown(&text);
        let want = r#""cn=\u009b31m\u202e\u001b\u007f\ufeff\udb40\udc41\nü""#;
        assert_eq!(shown, format!("[\n  {want}\n]"));
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [name]);
    }
}
