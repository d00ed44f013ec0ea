//! Progress bars: shown on a terminal only, always on standard error.
//!
//! Invariant: a bar is one line, and ends some columns before the terminal does. There is room
//! for what the terminal shows of Ctrl-C, so that it is cleared with the bar and no line is left.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::{output, task_process};

/// A bar that counts to `total`, or only up when the total is not known.
pub(crate) fn bar(total: Option<u64>, unit: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, target());
    style(&bar, template(total.is_some(), unit, is_narrow()));
    bar
}

/// Where bars are drawn; nowhere when nobody watches.
pub(crate) fn target() -> ProgressDrawTarget {
    match output::is_watched() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Terminal::default()), DRAWS_SECOND),
        false if task_process::is_one() => {
            ProgressDrawTarget::term_like_with_hz(Box::new(TaskLines::default()), 1)
        }
        false => ProgressDrawTarget::hidden(),
    }
}

/// Gives a bar another form.
pub(crate) fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Whether the terminal is too narrow for a bar with numbers behind it.
pub(crate) fn is_narrow() -> bool {
    task_process::is_one() || output::columns() < BAR_COLUMNS_MIN
}

const fn template(has_total: bool, unit: &str, is_narrow: bool) -> &'static str {
    match (has_total, unit.as_bytes(), is_narrow) {
        (true, _, true) => "{wide_msg} {percent:>3}%, {eta} left",
        (true, b"bytes", false) => {
            "{msg:12} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left"
        }
        (true, _, false) => "{msg:12} {wide_bar} {human_pos}/{human_len}, {eta} left",
        (false, b"bytes", true) => "{wide_msg} {spinner} {bytes}",
        (false, _, true) => "{wide_msg} {spinner} {human_pos}",
        (false, b"bytes", false) => "{msg:12} {spinner} {bytes} {binary_bytes_per_sec}",
        (false, _, false) => "{msg:12} {spinner} {human_pos}",
    }
}

/// Standard error, some columns narrower than it is.
#[derive(Debug, Default)]
struct Terminal {
    /// What is drawn at once when it is whole.
    drawn: Mutex<String>,
}

impl Terminal {
    fn drawn(&self) -> MutexGuard<'_, String> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, text: &str) -> io::Result<()> {
        self.drawn().push_str(text);
        Ok(())
    }

    fn moved(&self, steps: usize, direction: char) -> io::Result<()> {
        match steps {
            0 => Ok(()),
            _ => self.push(&format!("\x1b[{steps}{direction}")),
        }
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        output::columns().saturating_sub(COLUMNS_LEFT).max(1)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.moved(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.push(text)?;
        self.push("\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.push(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.push("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        output::draw(&std::mem::take(&mut *self.drawn()))
    }
}

/// Lines for the server whose task this is: each says how far it is.
#[derive(Debug, Default)]
struct TaskLines {
    drawn: Mutex<String>,
}

impl TermLike for TaskLines {
    fn width(&self) -> u16 {
        TASK_COLUMNS
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.drawn.lock().unwrap_or_else(PoisonError::into_inner));
        let words: Vec<&str> = drawn.split_whitespace().collect();
        match words.is_empty() {
            true => Ok(()),
            false => output::draw(&format!("progress: {}\n", words.join(" "))),
        }
    }
}

/// Such a line has at most so many letters.
const TASK_COLUMNS: u16 = 70;
/// `^C`, and the cursor behind it.
const COLUMNS_LEFT: u16 = 3;
/// Where there are fewer, numbers alone are shown.
const BAR_COLUMNS_MIN: u16 = 70;
/// How often a bar is drawn at the most.
const DRAWS_SECOND: u8 = 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// What is drawn, on a terminal of so many columns.
    #[derive(Clone, Debug)]
    struct Paper(u16, Arc<Terminal>);

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            self.0
        }

        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.1.move_cursor_up(n)
        }

        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.1.move_cursor_down(n)
        }

        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.1.move_cursor_right(n)
        }

        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.1.move_cursor_left(n)
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.1.write_line(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.1.write_str(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.1.clear_line()
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_is_one_line_however_narrow_the_terminal() {
        for columns in [37, 66, 67, 77, 97, 150] {
            for (total, unit) in
                [(Some(1 << 40), "bytes"), (Some(1 << 40), "entries"), (None, "bytes")]
            {
                let paper = Paper(columns, Arc::default());
                let target = ProgressDrawTarget::term_like(Box::new(paper.clone()));
                let bar = ProgressBar::with_draw_target(total, target);
                let is_narrow = columns + COLUMNS_LEFT < BAR_COLUMNS_MIN;
                style(&bar, template(total.is_some(), unit, is_narrow));
                bar.set_message("telephoneNumber");
                bar.set_position(1 << 38);
                bar.finish_and_clear();
                let drawn = paper.1.drawn();
                assert!(drawn.contains("tele") && !drawn.contains(['\n', 'A']), "{drawn}");
                let drawn = drawn.replace("\x1b[2K", "");
                let longest = drawn.split('\r').map(|line| line.chars().count()).max();
                assert!(longest <= Some(columns.into()), "{columns}: {drawn}");
                assert_eq!(drawn.contains('█'), total.is_some() && !is_narrow, "{drawn}");
            }
        }
    }

    #[test]
    fn what_is_drawn_comes_in_one_piece() {
        let terminal = Terminal::default();
        terminal.write_str("a").unwrap();
        terminal.move_cursor_up(0).unwrap();
        terminal.move_cursor_up(2).unwrap();
        terminal.clear_line().unwrap();
        terminal.write_line("b").unwrap();
        assert_eq!(*terminal.drawn(), "a\x1b[2A\r\x1b[2Kb\n");
    }
}
