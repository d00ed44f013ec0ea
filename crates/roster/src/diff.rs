//! Comparing the entries of two servers or files: `roster diff A B`.
//!
//! `side` reads each side and has it sorted by name (`sort`, in bounded memory, with `scratch`
//! files); `walk` goes through both; `entry` compares two entries, by what `known` and `rules_of`
//! know of attributes; `renames` finds out what was renamed; `change` tells what is to be done.
//!
//! Invariant: applied to the second side, what is told leaves no difference that was looked for.

pub(crate) mod body;
mod change;
pub(crate) mod entry;
pub(crate) mod known;
mod renames;
pub(crate) mod rules_of;
mod scratch;
mod side;
mod sort;
mod walk;

use std::io::Write;
use std::sync::Arc;
use std::thread;

use client::Connection;
use schema::{DnKey, Schema};

pub(crate) use self::change::Form;
use self::change::Teller;
use self::known::{Attributes, Chosen};
use self::renames::Renames;
pub(crate) use self::side::Place;
use self::side::{Reading, Side};
use self::sort::{Record, Sorter};
pub(crate) use self::walk::Counts;
use self::walk::{Apart, Differences};
use crate::failure::Failure;
use crate::{output, progress};

/// What is compared, and how.
pub(crate) struct Comparing<'a> {
    pub(crate) places: [&'a Place; 2],
    /// To those that are servers.
    pub(crate) connections: [Option<Connection>; 2],
    pub(crate) base: Option<&'a str>,
    pub(crate) ignored: &'a [String],
    pub(crate) only: &'a [String],
    pub(crate) has_operational: bool,
    pub(crate) identity: Option<&'a str>,
    pub(crate) memory_max_bytes: usize,
    pub(crate) form: Form,
    /// Whether there are bars.
    pub(crate) is_watched: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) counts: Counts,
    pub(crate) entries: [u64; 2],
    pub(crate) temporary_bytes: u64,
}

/// Compares, and tells the differences to `out`.
pub(crate) fn compare(mut asked: Comparing<'_>, out: &mut dyn Write) -> Result<Report, Failure> {
    let schema = schema_for(&mut asked.connections)?;
    let attributes = Attributes::new(&schema, &asked.chosen());
    let base = asked.base.map(|base| DnKey::from_text(&schema, base)).transpose();
    let base = base.map_err(|error| Failure::local(format!("the base: {error}")))?;
    let [mut first, mut second] = read(&mut asked, &attributes, base.as_ref())?;
    for (place, side) in asked.places.iter().zip([&first, &second]) {
        if asked.base.is_some() && side.entries == 0 {
            let text = format!("{} has no entry at or below the base", place.name());
            output::note(format_args!("roster: note: {text}"));
        }
    }
    let mut temporary_bytes = first.spilled_bytes() + second.spilled_bytes();
    let teller = Teller::new(out, asked.form, asked.head());
    let mut differences = Differences::new(teller, attributes);
    let all = first.entries.max(second.entries);
    let bar = match asked.is_watched {
        true => progress::bar(Some(all), "entries"),
        false => indicatif::ProgressBar::hidden(),
    };
    bar.set_message("comparing");
    let mut each = || bar.inc(1);
    if asked.identity.is_some() {
        let memory = asked.memory_max_bytes;
        let half = || Sorter::new(memory / 4);
        let mut apart = Apart { first: half(), second: half() };
        differences.join(&mut first, &mut second, Some(&mut apart), &mut each)?;
        temporary_bytes += Renames::new(&mut differences, memory / 2).run(apart, &mut each)?;
    } else {
        differences.join(&mut first, &mut second, None, &mut each)?;
    }
    bar.finish_and_clear();
    if first.has_doubles() || second.has_doubles() {
        output::note(format_args!(
            "roster: note: a server sent entries twice, as it changed meanwhile: run it again"
        ));
    }
    let Differences { teller, counts, .. } = differences;
    teller.finish()?;
    Ok(Report { counts, entries: [first.entries, second.entries], temporary_bytes })
}

impl Comparing<'_> {
    fn chosen(&self) -> Chosen {
        Chosen {
            ignored: self.ignored.to_vec(),
            only: self.only.to_vec(),
            has_operational: self.has_operational,
            relaxes: false,
            identity: self.identity.map(str::to_owned),
        }
    }

    /// What is said before the first difference.
    fn head(&self) -> String {
        let [first, second] = self.places.map(|place| place.name());
        let text = |name: &str| output::within_line(name).into_owned();
        match self.form {
            Form::Ldif => format!(
                "version: 1\n\n# Applied to {}, this makes it equal to {}.\n\n",
                text(&second),
                text(&first)
            ),
            Form::Json | Form::Nothing => String::new(),
        }
    }
}

/// By which rules is compared: those of the server that the changes are for, else those of the
/// other one, else those that roster ships.
fn schema_for(connections: &mut [Option<Connection>; 2]) -> Result<Arc<Schema>, Failure> {
    let shipped = rules_of::shipped()?;
    let mut is_hidden = false;
    for connection in connections.iter_mut().rev().flatten() {
        match rules_of::of_server(connection, &shipped)? {
            Some(schema) => return Ok(schema),
            None => is_hidden = true,
        }
    }
    if is_hidden {
        output::note(format_args!(
            "roster: note: the server shows no schema: values are compared by what roster ships"
        ));
    }
    Ok(shipped)
}

/// Reads both sides at once.
fn read(
    asked: &mut Comparing<'_>,
    attributes: &Attributes,
    base: Option<&DnKey>,
) -> Result<[Side; 2], Failure> {
    let wanted = side::asked(asked.has_operational, asked.identity);
    let bar = match asked.is_watched {
        true => progress::bar(None, "entries"),
        false => indicatif::ProgressBar::hidden(),
    };
    bar.set_message("reading");
    // A quarter each, if entries are kept apart after that.
    let shares = if asked.identity.is_some() { 8 } else { 2 };
    let reading = |place| Reading {
        place,
        attributes: attributes.another(),
        sorter: Sorter::new(asked.memory_max_bytes / shares),
        base: base.cloned(),
        asked: &wanted,
        bar: bar.clone(),
        entries: 0,
        record: Record::default(),
    };
    let [one, other] = asked.places.map(reading);
    let [first, second] = &mut asked.connections;
    let (first, second) = (first.take(), second.take());
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| one.all(first));
        let other = other.all(second);
        (one.join(), other)
    });
    bar.finish_and_clear();
    let one = one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok([one, other?])
}
