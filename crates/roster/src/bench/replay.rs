//! The load of a recorded day, from an access log: the same kinds of requests at the same times,
//! about other entries.
//!
//! `access_log::line` reads a line, `shape` leaves the values out of what it says, `recorded`
//! counts what was asked when, `sample` draws entries of the directory, `jobs` puts their values
//! into the shapes.
//!
//! Invariant: nothing of a value in the log goes into a request, but for object classes and the
//! names of entries below `cn=config`, `cn=monitor` and `cn=schema`.

pub(crate) mod jobs;
pub(crate) mod recorded;
pub(crate) mod sample;
mod shape;

/// Reads a log as `roster bench replay` does; how many lines could be read. For those who try what
/// happens to octets of any kind.
pub fn read_log(octets: &[u8]) -> u64 {
    let recorded = recorded::Recorded::read([("log", octets)]);
    recorded.map_or(0, |recorded| recorded.lines - recorded.bad_lines)
}
