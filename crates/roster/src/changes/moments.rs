//! What differs between two moments of a server, by its changes.

use std::io::Write as _;
use std::time::Duration;

use client::Connection;
use environment::Timestamp;
use ldap::filter::{AvaFilter, Filter};

use super::difference::Difference;
use super::names::Names;
use super::{Start, begun, kept, read};
use crate::account::moment;
use crate::failure::{Exit, Failure};
use crate::output;

/// Change logs tell whole seconds.
const SECOND_US: u64 = Duration::from_secs(1).as_micros() as u64;

/// A time, or a duration before now.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(length) = moment::length(text) {
        return Ok(moment::before_now(length));
    }
    moment::parsed(text).map_err(|_| {
        "expected a duration such as 2h, or a time such as 2027-01-31T18:00:00Z".into()
    })
}

/// Tells what differs between two moments, or between one and now: of `base` and what is below it,
/// or of all. Whether something does is the exit code.
///
/// # Errors
/// When the changes of then are not kept any more, or cannot be read.
pub(crate) fn tell(
    at: &[Timestamp],
    base: Option<&str>,
    connection: &mut Connection,
) -> Result<Exit, Failure> {
    let (from, to) = match *at {
        [from] => (from, None),
        [from, to] if from <= to => (from, Some(to)),
        [_, _] => return Err(Failure::local("the first --at is after the second")),
        _ => return Err(Failure::local("give --at once or twice")),
    };
    let base = base.map(|base| Names::unchanged().key_of(base)).transpose()?;
    let kept = kept(connection)?;
    // Before the first change of all there was nothing that is not known.
    if let Some(first) = kept.first.filter(|first| *first > 1)
        && let Some(begun) = begun(connection)?
        && moment::parsed(&begun).is_ok_and(|time| from.0 < time.0)
    {
        return Err(Failure::refused(format!(
            "changes are kept from {begun} on (change {first}), which is after {}",
            from.generalized_time()
        ))
        .hint("a backup of that time may be compared with one of today: 'roster export'"));
    }
    // Up to now is up to the last change: the server's clock may be ahead of the one here.
    let until = to.map(|to| {
        let value = to.generalized_time().into_bytes().into();
        Filter::LessOrEqual(AvaFilter { description: "changeTime", value })
    });
    let start = Start::Time(Timestamp(from.0.saturating_add(SECOND_US)));
    let mut difference = Difference::new();
    read(connection, start, until.as_ref(), &mut |change| difference.put(&change))?;
    let mut out = output::out();
    let mut exit = Exit::Done;
    for step in difference.steps(base.as_ref()) {
        out.write_all(&step.permissive_ldif())?;
        exit = Exit::Refused;
    }
    out.flush()?;
    Ok(exit)
}
