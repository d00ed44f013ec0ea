//! `roster top`: what a server does, from one second to the next, as its `cn=monitor` tells.
//!
//! Start at `reading.rs` (what the server says) and `watch.rs` (how it is asked), then `frame.rs`
//! (what happened between two readings) and `draw.rs` (how that looks); `screen.rs` has the
//! terminal.

mod draw;
mod frame;
mod reading;
mod screen;
mod watch;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use self::draw::{Shown, Style};
use self::frame::Frame;
use self::reading::Reading;
use self::screen::{Event, Key, Screen};
use self::watch::{Away, Look, Watch};
use crate::connect::Login;
use crate::failure::{Exit, Failure};
use crate::{interrupt, output};

/// What is shown, and how often.
pub(crate) struct Options {
    pub(crate) every: Duration,
    pub(crate) is_once: bool,
    pub(crate) is_json: bool,
}

/// Reads and shows until the user has enough.
pub(crate) fn run(login: Login, options: &Options) -> Result<Exit, Failure> {
    let server = login.uri().to_owned();
    let (watch, first) = Watch::begin(login)?;
    if options.is_json || options.is_once || !std::io::stdout().is_terminal() {
        return lines(watch, first, &server, options);
    }
    page(watch, first, &server, options.every)
}

/// A page of the terminal, until a key ends it.
fn page(watch: Watch, first: Reading, server: &str, every: Duration) -> Result<Exit, Failure> {
    let screen = Screen::open()?;
    let is_paused = Arc::new(AtomicBool::new(false));
    spawn(watch, every, &screen, &is_paused);
    let mut before = first;
    let mut shown: Option<Frame> = None;
    let mut away: Option<Away> = None;
    let mut rates = Vec::new();
    loop {
        match screen.wait(REDRAW) {
            Some(Event::Key(Key::End)) => return Ok(Exit::Done),
            Some(Event::Key(Key::Pause)) => {
                is_paused.fetch_xor(true, Ordering::Relaxed);
                continue;
            }
            Some(Event::Key(Key::Other)) => continue,
            Some(Event::Look(look)) => match look? {
                Look::Reading(now) => {
                    let frame = Frame::between(&before, &now);
                    before = now;
                    away = None;
                    rates.push(Some(frame.operations_per_s));
                    shown = Some(frame);
                }
                // What was counted before says nothing about an interval with this.
                Look::Back(now, _) => {
                    before = now;
                    continue;
                }
                Look::Away(now) => {
                    if away.is_none() {
                        rates.push(None);
                    }
                    away = Some(now);
                }
            },
            // Only how long it has been away changes by itself.
            None if away.is_none() || is_paused.load(Ordering::Relaxed) => continue,
            None => {}
        }
        let style = Style { has_colour: output::may_colour(), width: screen.width() };
        let away = away.as_ref();
        screen.show(&match &shown {
            Some(frame) => draw::block(frame, server, Shown { rates: &rates, away }, style),
            None => draw::nothing_yet(server, away, style),
        })?;
    }
}

/// Asks the server on a thread of its own, which ends with the process: keys are heard also while
/// the server lets one wait.
fn spawn(mut watch: Watch, every: Duration, screen: &Screen, is_paused: &Arc<AtomicBool>) {
    let (sender, is_paused) = (screen.sender(), Arc::clone(is_paused));
    thread::spawn(move || {
        loop {
            thread::park_timeout(watch.pause(every));
            if is_paused.load(Ordering::Relaxed) {
                continue;
            }
            let look = watch.look();
            let is_end = look.is_err();
            if sender.send(Event::Look(look)).is_err() || is_end {
                return;
            }
        }
    });
}

/// A line for each interval, or one object; everything when it is asked for once.
fn lines(
    mut watch: Watch,
    mut before: Reading,
    server: &str,
    options: &Options,
) -> Result<Exit, Failure> {
    let interrupted = interrupt::flag()?;
    let (mut number, mut is_away) = (0, false);
    loop {
        if !screen::rest(watch.pause(options.every), &interrupted) {
            return Ok(Exit::Done);
        }
        let now = match watch.look()? {
            Look::Reading(now) => now,
            Look::Away(away) if options.is_once => return Err(Failure::refused(away.reason)),
            Look::Away(away) => {
                if !is_away {
                    output::note(format_args!("roster: note: {}; asking again", away.reason));
                }
                is_away = true;
                continue;
            }
            Look::Back(now, away) => {
                let seconds = away.seconds();
                output::note(format_args!("roster: note: the server is back after {seconds} s"));
                (before, is_away) = (now, false);
                continue;
            }
        };
        let frame = Frame::between(&before, &now);
        before = now;
        let mut out = output::out();
        if options.is_json {
            writeln!(out, "{}", serde_json::to_string(&frame).map_err(Failure::local)?)?;
        } else if options.is_once {
            let style = Style { has_colour: false, width: usize::MAX };
            write!(out, "{}", draw::block(&frame, server, Shown::default(), style))?;
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
/// How often the page is drawn anew while the server is away.
const REDRAW: Duration = Duration::from_secs(1);
