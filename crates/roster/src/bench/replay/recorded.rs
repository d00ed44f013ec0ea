//! What a log has of each shape, and when.
//!
//! Invariant: it takes bounded memory, whatever the log holds, and what is not kept is counted.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read};

use super::shape::{Fate, Shape};
use crate::access_log::line::Line;
use crate::access_log::lines::{NextLine, next_line};
use crate::failure::Failure;

/// A log that was read.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Lines in all.
    pub(crate) lines: u64,
    /// Lines that could not be read.
    pub(crate) bad_lines: u64,
    /// What is wrong with the first of them.
    pub(crate) first_bad: Vec<String>,
    /// Lines that the server dropped, as the log says.
    pub(crate) dropped: u64,
    /// Requests that are not repeated, by why not.
    pub(crate) left_out: BTreeMap<String, u64>,
    /// Shapes, with how often each came.
    pub(crate) shapes: Vec<(Shape, u64)>,
    by_shape: HashMap<Shape, u32>,
    /// How often shapes came, by second since 1970 and number of the shape.
    seconds: BTreeMap<u64, HashMap<u32, u32>>,
    /// How many numbers `seconds` holds.
    cells: usize,
}

/// How often shapes came in each second, from the first on.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) seconds: Vec<Vec<(u32, u32)>>,
}

impl Recorded {
    /// Reads logs, each with its name.
    pub(crate) fn read<'l>(
        logs: impl IntoIterator<Item = (&'l str, impl Read)>,
    ) -> Result<Self, Failure> {
        let mut recorded = Self::default();
        for (name, octets) in logs {
            let mut octets = BufReader::new(octets);
            let mut number = 0;
            let mut line = Vec::new();
            loop {
                let read = next_line(&mut octets, &mut line).map_err(|error| {
                    let reason = crate::failure::plain(&error);
                    Failure::local(format!("cannot read {name}: {reason}"))
                })?;
                number += 1;
                let told = match read {
                    NextLine::End => break,
                    NextLine::TooLong => Err("it is longer than 64 KiB"),
                    NextLine::Line => recorded.line(&line),
                };
                recorded.lines += 1;
                if let Err(reason) = told {
                    recorded.bad_lines += 1;
                    if recorded.first_bad.len() < BAD_LINES_SHOWN {
                        recorded.first_bad.push(format!("{name}, line {number}: {reason}"));
                    }
                }
            }
        }
        Ok(recorded)
    }

    fn line(&mut self, octets: &[u8]) -> Result<(), &'static str> {
        if octets.trim_ascii().is_empty() {
            return Ok(());
        }
        let line = Line::parse(octets)?;
        let second = line.time_us()? / 1_000_000;
        match Fate::of(&line)? {
            Fate::Passed => {
                if line.kind == "dropped" {
                    self.dropped = self.dropped.saturating_add(line.count);
                }
                Ok(())
            }
            Fate::LeftOut(reason) => {
                self.leave_out(reason, 1);
                Ok(())
            }
            Fate::Shape(shape) => self.count(shape, second),
        }
    }

    /// Counts requests that are not repeated.
    pub(crate) fn leave_out(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.left_out.entry(reason.to_owned()).or_default() += count;
        }
    }

    fn count(&mut self, shape: Shape, second: u64) -> Result<(), &'static str> {
        let first = self.seconds.keys().next().copied().unwrap_or(second);
        let last = self.seconds.keys().next_back().copied().unwrap_or(second);
        if second.max(last) - second.min(first) >= SECONDS_MAX {
            return Err("it is more than ten days away from the others");
        }
        let number = match self.by_shape.get(&shape) {
            Some(number) => *number,
            None if self.shapes.len() >= SHAPES_SEEN_MAX => {
                self.leave_out("requests of rare shapes", 1);
                return Ok(());
            }
            None => {
                let number = u32::try_from(self.shapes.len()).unwrap_or(u32::MAX);
                self.by_shape.insert(shape.clone(), number);
                self.shapes.push((shape, 0));
                number
            }
        };
        let cells = self.seconds.entry(second).or_default();
        let is_new = !cells.contains_key(&number);
        if is_new && self.cells >= CELLS_MAX {
            self.leave_out("requests of more shapes and seconds than are kept", 1);
            return Ok(());
        }
        self.cells += usize::from(is_new);
        *cells.entry(number).or_default() += 1;
        if let Some((_, count)) = self.shapes.get_mut(number as usize) {
            *count += 1;
        }
        Ok(())
    }

    /// Leaves out all but the shapes that come most often.
    pub(crate) fn keep(&mut self, shapes_max: usize) {
        let mut order: Vec<usize> = (0..self.shapes.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.shapes.get(*number).map(|it| it.1)));
        let rare: Vec<usize> = order.split_off(shapes_max.min(order.len()));
        for number in rare {
            self.drop_shape(number, "requests of rare shapes");
        }
    }

    /// Leaves out a shape.
    pub(crate) fn drop_shape(&mut self, number: usize, reason: &str) {
        let count = self.shapes.get_mut(number).map_or(0, |(_, count)| std::mem::take(count));
        self.leave_out(reason, count);
    }

    /// How often each shape came in each second; shapes that were left out are not in it.
    pub(crate) fn timeline(&self) -> Timeline {
        let first = self.seconds.keys().next().copied().unwrap_or(0);
        let mut seconds: Vec<Vec<(u32, u32)>> = Vec::new();
        for (second, cells) in &self.seconds {
            let place = usize::try_from(second - first).unwrap_or(usize::MAX);
            if place >= seconds.len() {
                seconds.resize(place + 1, Vec::new());
            }
            let is_kept =
                |number: u32| self.shapes.get(number as usize).is_some_and(|shape| shape.1 > 0);
            let kept = cells.iter().map(|(number, count)| (*number, *count));
            let mut kept: Vec<_> = kept.filter(|(number, _)| is_kept(*number)).collect();
            kept.sort_unstable();
            if let Some(cells) = seconds.get_mut(place) {
                *cells = kept;
            }
        }
        Timeline { seconds }
    }
}

/// Lines that cannot be read of which is told what is wrong.
const BAD_LINES_SHOWN: usize = 5;
/// Shapes that are told apart while a log is read.
const SHAPES_SEEN_MAX: usize = 10_000;
/// Numbers of shapes in seconds: some 100 MiB.
const CELLS_MAX: usize = 4_000_000;
/// Ten days.
const SECONDS_MAX: u64 = 864_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::lines::LINE_BYTES_MAX;

    fn search(second: u64, filter: &str) -> String {
        format!(
            "[2026-11-22T12:03:{second:02}.5Z] SEARCH base=\"dc=x\" scope=\"sub\" \
             filter=\"{filter}\"\n"
        )
    }

    fn read(text: &str) -> Recorded {
        Recorded::read([("log", text.as_bytes())]).unwrap()
    }

    #[test]
    fn shapes_are_counted_by_second_whatever_their_order() {
        let text = search(3, "(cn=a)") + &search(1, "(cn=b)") + &search(1, "(sn=b)");
        let recorded = read(&(text + &search(1, "(cn=c)")));
        let counts: Vec<u64> = recorded.shapes.iter().map(|shape| shape.1).collect();
        assert_eq!(counts, [3, 1]);
        let seconds = recorded.timeline().seconds;
        assert_eq!(seconds, [vec![(0, 2), (1, 1)], vec![], vec![(0, 1)]]);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let fits = "x".repeat(LINE_BYTES_MAX);
        let text = format!("{}\n\nfrob\n{long}\n{fits}\n{}", search(1, "(cn=a)"), search(2, "(cn"));
        let recorded = read(&text);
        assert_eq!((recorded.lines, recorded.bad_lines), (7, 4));
        assert_eq!(
            recorded.first_bad,
            [
                "log, line 4: it is no line of the access log",
                "log, line 5: it is longer than 64 KiB",
                "log, line 6: it is no line of the access log",
                "log, line 7: its filter is none",
            ]
        );
        let text = "frob\n".repeat(9);
        assert_eq!((read(&text).first_bad.len(), read(&text).bad_lines), (5, 9));
        let far = search(1, "(cn=a)") + &search(1, "(cn=a)").replace("2026-11-22", "2026-12-22");
        assert!(read(&far).first_bad[0].ends_with("ten days away from the others"));
    }

    #[test]
    fn whatever_a_log_holds_each_line_is_counted_once() {
        let json = concat!(
            r#"{"time":"2026-11-22T12:03:01Z","kind":"search","base":"ou=\"x\",dc=x","#,
            r#""scope":"one","filter":"(&(cn=a*b)(!(n>=5))(m:dn:1.2:=x))","attributes":["cn"]}"#
        );
        let compare = r#"[2026-11-22T12:03:01Z] COMPARE dn="cn=\"x\",dc=x" attr="cn" cut"#;
        let text = format!("{json}\n{compare}\n{}", search(1, "(cn=a)")).into_bytes();
        for at in 0..text.len() {
            for octet in *b"\0\n\"\\{}[]()=*&:,+ \x7f\xc3\xff" {
                let mut other = text.clone();
                other[at] = octet;
                let recorded = Recorded::read([("log", &other[..])]).unwrap();
                let counted: u64 = recorded.shapes.iter().map(|shape| shape.1).sum();
                let left_out: u64 = recorded.left_out.values().sum();
                assert!(counted + left_out + recorded.bad_lines <= recorded.lines);
                assert!((2..=4).contains(&recorded.lines));
            }
        }
    }

    #[test]
    fn the_most_frequent_shapes_are_kept() {
        let text = search(1, "(cn=a)") + &search(1, "(sn=b)") + &search(2, "(sn=c)");
        let mut recorded = read(&(text + "[2026-11-22T12:03:04Z] DROPPED count=7 reason=\"x\"\n"));
        recorded.keep(1);
        assert_eq!(recorded.left_out["requests of rare shapes"], 1);
        assert_eq!(recorded.timeline().seconds, [vec![(1, 1)], vec![(1, 1)]]);
        assert_eq!(recorded.dropped, 7);
    }
}
