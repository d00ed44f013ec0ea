//! Up to which change each sink was told, as it is stored: a value `NAME LSN HASH` of a setting of
//! its own.
//!
//! Invariant: a position moves on and never back; it goes with its sink.

use aci::Permitted;
use schema::{Change, SettingChange};
use store::{Lsn, StoreError, View};

use super::progress::{POSITIONS, SinkPosition, SinkProgress};
use super::text::Sink;
use crate::lines::name_of;
use crate::request::refusal::Refusal;
use crate::write::decision::{Decide, Decision};

/// Where a sink is, as a view has it.
pub(crate) fn stored(view: &View<'_>, name: &str) -> Result<Option<SinkPosition>, StoreError> {
    Ok(of(&view.setting(POSITIONS)?, name))
}

fn of(values: &[String], name: &str) -> Option<SinkPosition> {
    values.iter().filter_map(|value| read(value)).find(|(of, _)| *of == name).map(|(_, at)| at)
}

fn read(value: &str) -> Option<(&str, SinkPosition)> {
    let mut words = value.split(' ');
    let (name, lsn, hash) = (words.next()?, words.next()?, words.next()?);
    let hash = match hash {
        "-" => None,
        hash => Some(u64::from_str_radix(hash, 16).ok()?),
    };
    let position = SinkPosition { lsn: Lsn(lsn.parse().ok()?), hash };
    words.next().is_none().then_some((name, position))
}

fn written(name: &str, position: SinkPosition) -> String {
    let SinkPosition { lsn, hash } = position;
    match hash {
        Some(hash) => format!("{name} {} {hash:016x}", lsn.0),
        None => format!("{name} {} -", lsn.0),
    }
}

/// Decides on a position that a sink of this server has come to.
pub(crate) fn decide(decide: &Decide<'_>, progress: &SinkProgress) -> Result<Decision, Refusal> {
    let SinkProgress { name, begun, position } = progress;
    let mut values = decide.view.setting(POSITIONS)?;
    // It may have been dropped since, and a server that led before may be late.
    let follows = |before: SinkPosition| (*begun..position.lsn).contains(&before.lsn);
    if !of(&values, name).is_some_and(follows) {
        return Ok(Decision::default());
    }
    values.retain(|value| read(value).is_some_and(|(of, _)| of != name));
    values.push(written(name, *position));
    Ok(Decision::change(change(values)))
}

/// What follows for the positions where the sinks change: one that is new begins where it says,
/// one that is gone has none, and one that was changed goes on where it was.
pub(crate) fn follow(
    decide: &Decide<'_>,
    sinks: &[String],
) -> Result<Vec<Permitted<Change>>, Refusal> {
    let before = decide.view.setting(POSITIONS)?;
    let mut after = Vec::with_capacity(sinks.len());
    for text in sinks {
        let name = name_of(text);
        let kept = match of(&before, name) {
            Some(position) => position,
            None => {
                let is_from_first =
                    Sink::parse(text, &decide.state.schema).is_ok_and(|sink| sink.is_from_first);
                let lsn = if is_from_first { Lsn(0) } else { decide.view.lsn() };
                SinkPosition { lsn, hash: None }
            }
        };
        after.push(written(name, kept));
    }
    Ok(if after == before { Vec::new() } else { vec![change(after)] })
}

fn change(values: Vec<String>) -> Permitted<Change> {
    Permitted::internal(Change::Setting(SettingChange { name: POSITIONS.to_owned(), values }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for position in [
            SinkPosition { lsn: Lsn(0), hash: None },
            SinkPosition { lsn: Lsn(u64::MAX), hash: Some(0) },
            SinkPosition { lsn: Lsn(7), hash: Some(u64::MAX) },
        ] {
            let values = [written("other", position), written("a.b", position)];
            assert_eq!(of(&values, "a.b"), Some(position));
            assert_eq!(of(&values, "a"), None);
        }
        for value in ["", "a", "a 1", "a x -", "a 1 g", "a 1 - x"] {
            assert_eq!(read(value), None, "{value}");
        }
    }
}
