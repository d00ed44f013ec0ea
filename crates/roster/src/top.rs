//! `roster top`: what a server does, from one second to the next, as its `cn=monitor` tells.
//!
//! Start at `reading.rs` (what the server says) and `watch.rs` (how it is asked), then `frame.rs`
//! (what happened between two readings), `page.rs` (what is known now) and `draw.rs` (how that
//! looks); `screen.rs` has the terminal.

mod draw;
mod frame;
mod page;
pub(crate) mod reading;
mod screen;
mod watch;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use self::draw::{Shown, Style};
use self::frame::Frame;
use self::page::Page;
use self::reading::{Reading, now};
use self::screen::{Key, Screen};
use self::watch::{Look, Watch, silence_s};
use crate::connect::Login;
use crate::failure::{Exit, Failure};
use crate::{interrupt, output};

/// What is shown, and how often.
pub(crate) struct Options {
    pub(crate) every: Duration,
    pub(crate) is_once: bool,
    pub(crate) is_json: bool,
}

/// What happens while nobody draws.
enum Event {
    Key(Key),
    /// The server is asked now.
    Asked(Instant),
    /// What came of it.
    Look(Result<Look, Failure>),
}

/// Reads and shows until the user has enough.
pub(crate) fn run(login: Login, options: &Options) -> Result<Exit, Failure> {
    let is_page = !options.is_json && !options.is_once && std::io::stdout().is_terminal();
    // Notes would be written over the page.
    let login = Arc::new(if is_page { login.silent() } else { login });
    let (sender, events) = sync_channel(EVENTS_MAX);
    let is_paused = Arc::new(AtomicBool::new(false));
    spawn(Watch::new(Arc::clone(&login)), options.every, sender.clone(), &is_paused);
    let first = first(&events)?;
    if !is_page {
        return lines(&events, first, &login, options);
    }
    page(&Screen::open(sender, events)?, first, &login, &is_paused)
}

/// Asks the server on a thread of its own, which ends with the process: keys are heard, and the
/// user is told, also while the server lets one wait.
fn spawn(mut watch: Watch, every: Duration, sender: SyncSender<Event>, paused: &Arc<AtomicBool>) {
    let is_paused = Arc::clone(paused);
    thread::spawn(move || {
        loop {
            if !is_paused.load(Ordering::Relaxed) {
                let _ = sender.send(Event::Asked(now()));
                let look = watch.look();
                let is_end = look.is_err();
                if sender.send(Event::Look(look)).is_err() || is_end {
                    return;
                }
            }
            thread::park_timeout(watch.pause(every));
        }
    });
}

/// The reading that the first interval begins with.
fn first(events: &Receiver<Event>) -> Result<Reading, Failure> {
    let mut silence = Silence::default();
    loop {
        match events.recv_timeout(REDRAW) {
            Ok(Event::Look(look)) => {
                if let Look::Reading(first) = look? {
                    return Ok(first);
                }
            }
            Ok(Event::Asked(at)) => silence.since = Some(at),
            Ok(Event::Key(_)) => {}
            Err(_) => silence.note(),
        }
    }
}

/// A page of the terminal, until a key ends it.
fn page(
    screen: &Screen,
    first: Reading,
    login: &Login,
    is_paused: &AtomicBool,
) -> Result<Exit, Failure> {
    let mut page = Page::new(first);
    loop {
        match screen.wait(REDRAW) {
            Some(Event::Key(Key::End)) => return Ok(Exit::Done),
            Some(Event::Key(Key::Pause)) => {
                is_paused.fetch_xor(true, Ordering::Relaxed);
            }
            Some(Event::Key(Key::Other)) => {}
            Some(Event::Asked(at)) => {
                page.asked(at);
                continue;
            }
            Some(Event::Look(look)) => page.told(look?),
            None if is_paused.load(Ordering::Relaxed) || !page.is_counting() => continue,
            None => {}
        }
        let style = Style { has_colour: output::may_colour(), width: screen.width() };
        screen.show(&page.text(login.uri(), style), is_paused.load(Ordering::Relaxed))?;
    }
}

/// A line for each interval, or one object; everything when it is asked for once.
fn lines(
    events: &Receiver<Event>,
    mut before: Reading,
    login: &Login,
    options: &Options,
) -> Result<Exit, Failure> {
    let interrupted = interrupt::flag()?;
    let (mut number, mut is_away) = (0, false);
    let mut server = login.uri();
    let mut silence = Silence::default();
    while !interrupted.load(Ordering::Relaxed) {
        let look = match events.recv_timeout(LOOK_EVERY) {
            Ok(Event::Look(look)) => look?,
            Ok(Event::Asked(at)) => {
                silence.since = Some(at);
                continue;
            }
            // That it is away was said, and says more.
            Err(_) if !is_away => {
                silence.note();
                continue;
            }
            Ok(Event::Key(_)) | Err(_) => continue,
        };
        let silence = std::mem::take(&mut silence);
        let now = match look {
            Look::Reading(now) => {
                silence.end();
                now
            }
            Look::Away(away) if options.is_once => return Err(Failure::refused(away.reason)),
            Look::Away(away) => {
                if !is_away {
                    output::note(format_args!("roster: note: {}; reconnecting", away.reason));
                }
                is_away = true;
                continue;
            }
            Look::Back(now, away) => {
                let seconds = away.seconds();
                let is_other = std::mem::replace(&mut server, login.uri()) != login.uri();
                let back = match is_other {
                    true => format!("{server} answers"),
                    false => "the server is back".to_owned(),
                };
                output::note(format_args!("roster: note: {back} after {seconds} s"));
                (before, is_away) = (now, false);
                continue;
            }
        };
        let frame = Frame::between(&before, &now);
        before = now;
        let mut out = output::out();
        if options.is_json {
            let text = serde_json::to_string(&frame).map_err(Failure::local)?;
            writeln!(out, "{}", output::json_shown(&text))?;
        } else if options.is_once {
            let style = Style { has_colour: false, width: usize::MAX };
            write!(out, "{}", draw::block(&frame, login.uri(), Shown::default(), style))?;
        } else {
            if number % HEAD_EVERY == 0 {
                writeln!(out, "{}", draw::line_head())?;
            }
            writeln!(out, "{}", draw::line(&frame))?;
        }
        out.flush()?;
        number += 1;
        if options.is_once {
            break;
        }
    }
    Ok(Exit::Done)
}

/// That the server lets one wait, where nothing is drawn.
#[derive(Default)]
struct Silence {
    since: Option<Instant>,
    is_noted: bool,
}

impl Silence {
    /// Says so, once.
    fn note(&mut self) {
        if let Some(seconds) = silence_s(self.since).filter(|_| !self.is_noted) {
            output::note(format_args!("roster: note: no answer for {seconds} s; waiting"));
            self.is_noted = true;
        }
    }

    /// Says that it is over, where it was said that it began.
    fn end(self) {
        if let Some(seconds) = silence_s(self.since).filter(|_| self.is_noted) {
            output::note(format_args!("roster: note: the server answered after {seconds} s"));
        }
    }
}

/// The head of the columns is repeated after so many lines.
const HEAD_EVERY: usize = 20;
/// How often the page is drawn anew while the server is away, or silent.
const REDRAW: Duration = Duration::from_secs(1);
/// How often it is looked for Ctrl-C where nothing is drawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Readings that wait for whoever writes them; while there are more, nobody is asked.
const EVENTS_MAX: usize = 16;
