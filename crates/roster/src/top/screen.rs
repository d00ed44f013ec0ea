//! The terminal: another page of it while `top` runs, single keys, and all as before at the end.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::Event;
use crate::failure::Failure;

/// The terminal as `top` uses it; as before when this is dropped.
pub(super) struct Screen {
    before: Option<Termios>,
    events: Receiver<Event>,
    /// There is always one: waiting lasts as long as it is meant to.
    _sender: SyncSender<Event>,
}

/// What the user wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    End,
    Pause,
    Other,
}

impl Screen {
    /// Keys come among the other events.
    pub(super) fn open(
        sender: SyncSender<Event>,
        events: Receiver<Event>,
    ) -> Result<Self, Failure> {
        let mut before = None;
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let as_it_was = tcgetattr(&stdin).map_err(Failure::local)?;
            let mut single = as_it_was.clone();
            // Ctrl-C comes as a key: the end is the same for both.
            single.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            tcsetattr(&stdin, OptionalActions::Now, &single).map_err(Failure::local)?;
            before = Some(as_it_was);
        }
        let keys = sender.clone();
        // It ends with the process: nothing wakes it.
        thread::spawn(move || {
            for octet in io::stdin().lock().bytes() {
                let key = match octet {
                    Ok(b'q' | b'Q' | CTRL_C | CTRL_D) | Err(_) => Key::End,
                    Ok(b' ' | b'p') => Key::Pause,
                    Ok(_) => Key::Other,
                };
                if keys.send(Event::Key(key)).is_err() {
                    return;
                }
            }
        });
        let screen = Self { before, events, _sender: sender };
        screen.write(&format!("{OTHER_PAGE}{HIDE}{HOME}{CLEAR}reading …"))?;
        Ok(screen)
    }

    /// Waits for the time, or until something happens.
    pub(super) fn wait(&self, time: Duration) -> Option<Event> {
        self.events.recv_timeout(time).ok()
    }

    pub(super) fn width(&self) -> usize {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
            Ok(_) | Err(_) => COLUMNS,
        }
    }

    fn height(&self) -> usize {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 => usize::from(size.ws_row),
            Ok(_) | Err(_) => ROWS,
        }
    }

    /// Shows the lines in place of those before.
    pub(super) fn show(&self, text: &str, is_paused: bool) -> Result<(), Failure> {
        let mut page = String::from(HOME);
        let lines = text.lines().take(self.height().saturating_sub(1));
        page.extend(lines.flat_map(|line| [line, TO_END, "\r\n"]));
        page.push_str(CLEAR);
        page.push_str(if is_paused { PAUSED } else { KEYS });
        self.write(&page)
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::local)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.write(&format!("{SHOW}{FIRST_PAGE}"));
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

const KEYS: &str = "q: quit   space: pause";
const PAUSED: &str = "paused   q: quit   space: continue";
const OTHER_PAGE: &str = "\x1b[?1049h";
const FIRST_PAGE: &str = "\x1b[?1049l";
const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";
const HOME: &str = "\x1b[H";
const TO_END: &str = "\x1b[K";
const CLEAR: &str = "\x1b[J";
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
/// The size of a terminal that does not tell.
const COLUMNS: usize = 80;
const ROWS: usize = 24;
