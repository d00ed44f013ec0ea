//! `roster config history`, `diff` and `undo`: what changed in the configuration, and back.

use std::io::Write as _;

use clap::Args;
use client::Connection;
use serde_json::json;

use crate::changes::{self, verb};
use crate::configuration::requests::{self, MessageOption};
use crate::configuration::told::{self, ConfigChange, Together};
use crate::configuration::undo;
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{Side, Table};

/// Which changes are listed, and how.
#[derive(Args, Debug)]
pub(super) struct History {
    /// Only changes that say one of these, in small letters or capitals
    #[arg(value_name = "PART")]
    parts: Vec<String>,

    /// Print JSON, an object in each line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Between which states.
#[derive(Args, Debug)]
pub(super) struct Diff {
    /// The number of a change, as 'roster config history' shows it
    #[arg(value_name = "NUMBER")]
    number: u64,

    /// Compare what NUMBER left with what this change left, or with 'now'
    #[arg(value_name = "OTHER", value_parser = other)]
    other: Option<Other>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Which change is undone.
#[derive(Args, Debug)]
pub(super) struct Undo {
    /// The number of the change, as 'roster config history' shows it
    #[arg(value_name = "NUMBER")]
    number: u64,

    /// Print what would be done, as LDIF, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    server: ServerOptions,
}

/// The later state.
#[derive(Clone, Copy, Debug)]
enum Other {
    Now,
    Number(u64),
}

fn other(text: &str) -> Result<Other, String> {
    match text {
        "now" => Ok(Other::Now),
        text => text.parse().map(Other::Number).map_err(|_| "a number or 'now'".to_owned()),
    }
}

/// Lists the changes.
pub(super) fn history(options: &History) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let kept = changes::kept(&mut connection)?;
    let parts: Vec<String> = options.parts.iter().map(|part| part.to_lowercase()).collect();
    let columns = ["CHANGE", "TIME", "BY", "WHAT", "MESSAGE"].map(|name| match name {
        "CHANGE" => (name, Side::Right),
        name => (name, Side::Left),
    });
    let (mut table, mut count) = (Table::new(&columns), 0_u64);
    told::read(&mut connection, 0, &mut |change| {
        let what = change.summary().join("; ");
        let Some(first) = change.first() else { return Ok(()) };
        let by = first.by.as_deref().unwrap_or("the server");
        let purpose = first.purpose.as_deref().unwrap_or_default();
        let all = format!("{what} {by} {purpose}").to_lowercase();
        if !parts.is_empty() && !parts.iter().any(|part| all.contains(part.as_str())) {
            return Ok(());
        }
        count += 1;
        if options.json {
            return print_json(&change);
        }
        let row = [&change.number.to_string(), &first.time, by, &what, purpose];
        table.row(row.map(|cell| shortened(&output::within_line(cell))).to_vec());
        Ok(())
    })?;
    if !options.json && count > 0 {
        output::line(format_args!("{table}"))?;
    }
    if count == 0 {
        output::note(format_args!("roster: no such change of the configuration is kept"));
    }
    if let (false, Some(first)) = (options.json, kept.first.filter(|first| *first > 1)) {
        output::note(format_args!(
            "roster: note: the first change that the server has is {first}; archive.keep_days \
             says for how long changes are kept"
        ));
    }
    Ok(Exit::Done)
}

/// A cell that is not too long for a line.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(CELL_MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn print_json(change: &ConfigChange) -> Result<(), Failure> {
    let part = |part: &changes::ToldChange| {
        let delta = |delta: &changes::ToldDelta| {
            let values = delta.values.iter().map(|value| changes::shown(value));
            json!({
                "attribute": delta.attribute,
                verb(delta.operation): values.collect::<Vec<_>>(),
            })
        };
        json!({ "dn": part.dn, "changes": part.deltas().iter().map(delta).collect::<Vec<_>>() })
    };
    let first = change.first();
    let told = json!({
        "number": change.number,
        "time": first.map(|first| &first.time),
        "by": first.and_then(|first| first.by.as_ref()),
        "message": first.and_then(|first| first.purpose.as_ref()),
        "what": change.summary(),
        "entries": change.parts.iter().map(part).collect::<Vec<_>>(),
    });
    let mut out = output::out();
    out.write_all(output::json_shown(&told.to_string()).as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Shows what differs.
pub(super) fn diff(options: &Diff) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let mut together = Together::default();
    let Some(other) = options.other else {
        let change = told::one(&mut connection, options.number)?;
        return told_alone(&change);
    };
    let other = match other {
        Other::Number(number) => number,
        Other::Now => u64::MAX,
    };
    let (from, to) = (options.number.min(other), options.number.max(other));
    check_kept(&mut connection, from)?;
    told::read(&mut connection, from.saturating_add(1), &mut |change| {
        if change.number <= to { together.put(&change) } else { Ok(()) }
    })?;
    let mut last = None;
    for (dn, attribute, values) in together.attributes() {
        let is_back = other < options.number;
        let (gone, come) = match is_back {
            true => (&values.added, &values.removed),
            false => (&values.removed, &values.added),
        };
        head(&mut last, dn)?;
        lines('-', attribute, gone)?;
        lines('+', attribute, come)?;
    }
    if last.is_none() {
        output::note(format_args!("roster: nothing differs"));
    }
    Ok(Exit::Done)
}

/// What one change did, with who did it and why.
fn told_alone(change: &ConfigChange) -> Result<Exit, Failure> {
    if let Some(first) = change.first() {
        let by = first.by.as_deref().unwrap_or("the server");
        let purpose = first.purpose.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        let head = format!("change {} at {} by {by}{purpose}", change.number, first.time);
        output::line(format_args!("{}", output::within_line(&head)))?;
    }
    let mut last = None;
    for part in &change.parts {
        head(&mut last, &part.dn)?;
        for delta in part.deltas() {
            let sign = match verb(delta.operation) {
                "delete" => '-',
                "replace" => '=',
                _ => '+',
            };
            lines(sign, &delta.attribute, &delta.values)?;
        }
    }
    Ok(Exit::Done)
}

/// Refuses where changes behind this one are gone.
fn check_kept(connection: &mut Connection, number: u64) -> Result<(), Failure> {
    match changes::kept(connection)?.first.filter(|first| *first > number.saturating_add(1)) {
        Some(first) => Err(Failure::refused(format!(
            "changes before {first} are not kept any more, so nobody knows what {number} left"
        ))),
        None => Ok(()),
    }
}

/// The name of an entry, before the first of its lines.
fn head(last: &mut Option<String>, dn: &str) -> Result<(), Failure> {
    if last.as_deref() != Some(dn) {
        output::line(format_args!("{}", output::within_line(dn)))?;
        *last = Some(dn.to_owned());
    }
    Ok(())
}

fn lines(sign: char, attribute: &str, values: &[Vec<u8>]) -> Result<(), Failure> {
    for value in values {
        let line = format!("{sign} {attribute}: {}", String::from_utf8_lossy(value));
        output::line(format_args!("{}", output::within_line(&line)))?;
    }
    Ok(())
}

/// Undoes a change.
pub(super) fn undo(options: &Undo) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let change = told::one(&mut connection, options.number)?;
    let steps = undo::steps(&mut connection, &change)?;
    if options.dry_run {
        let mut out = output::out();
        steps.iter().try_for_each(|step| out.write_all(&step.ldif()))?;
        out.flush()?;
        return Ok(Exit::Done);
    }
    if steps.is_empty() {
        output::note(format_args!("roster: nothing is left of change {}", options.number));
        return Ok(Exit::Done);
    }
    requests::carry_out(&mut connection, &steps, &options.message, "undoing")?;
    for step in &steps {
        output::line(format_args!("{} {}", step.dn(), step.what()))?;
    }
    Ok(Exit::Done)
}

/// The most letters of a cell in the list.
const CELL_MAX_CHARS: usize = 200;
