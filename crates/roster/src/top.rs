//! `roster top`: what a server does, from one second to the next, as its `cn=monitor` tells.
//!
//! Start at `reading.rs` (what the server says), then `frame.rs` (what happened between two
//! readings) and `draw.rs` (how that looks); `screen.rs` has the terminal.

mod draw;
mod frame;
mod reading;
mod screen;

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::Connection;

use self::draw::Style;
use self::frame::Frame;
use self::reading::Reading;
use self::screen::{Key, Screen};
use crate::failure::{Exit, Failure};
use crate::{interrupt, output};

/// What is shown, and how often.
pub(crate) struct Options {
    pub(crate) every: Duration,
    pub(crate) is_once: bool,
    pub(crate) is_json: bool,
}

/// Reads and shows until the user has enough.
pub(crate) fn run(
    mut connection: Connection,
    server: &str,
    options: &Options,
) -> Result<Exit, Failure> {
    let first = Reading::take(&mut connection)?;
    if options.is_json || options.is_once || !std::io::stdout().is_terminal() {
        return lines(connection, first, server, options);
    }
    let mut before = first;
    let mut rates = Vec::new();
    let screen = Screen::open()?;
    let mut is_paused = false;
    loop {
        match screen.wait(options.every)? {
            Some(Key::End) => return Ok(Exit::Done),
            Some(Key::Pause) => is_paused = !is_paused,
            Some(Key::Other) => {}
            None if is_paused => {}
            None => {
                let now = Reading::take(&mut connection)?;
                let frame = Frame::between(&before, &now);
                before = now;
                rates.push(frame.operations_per_s);
                let style = Style { has_colour: output::may_colour(), width: screen.width() };
                screen.show(&draw::block(&frame, server, &rates, style))?;
            }
        }
    }
}

/// A line for each interval, or one object; everything when it is asked for once.
fn lines(
    mut connection: Connection,
    mut before: Reading,
    server: &str,
    options: &Options,
) -> Result<Exit, Failure> {
    let interrupted = interrupt::flag()?;
    let mut number = 0;
    loop {
        if !screen::rest(options.every, &interrupted) {
            return Ok(Exit::Done);
        }
        let now = Reading::take(&mut connection)?;
        let frame = Frame::between(&before, &now);
        before = now;
        let mut out = output::out();
        if options.is_json {
            writeln!(out, "{}", serde_json::to_string(&frame).map_err(Failure::local)?)?;
        } else if options.is_once {
            let style = Style { has_colour: false, width: usize::MAX };
            write!(out, "{}", draw::block(&frame, server, &[], style))?;
        } else {
            if number % HEAD_EVERY == 0 {
                writeln!(out, "{}", draw::line_head())?;
            }
            writeln!(out, "{}", draw::line(&frame))?;
        }
        out.flush()?;
        number += 1;
        if options.is_once || interrupted.load(Ordering::Relaxed) {
            return Ok(Exit::Done);
        }
    }
}

/// The head of the columns is repeated after so many lines.
const HEAD_EVERY: usize = 20;
