//! Printing: results to standard output, everything about them to standard error.
//!
//! Invariant: this is the only place that writes to either.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

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

/// Prints one line to standard output at once.
pub(crate) fn line(text: fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints one line to standard error; a failure to do so has nowhere to go.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
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
