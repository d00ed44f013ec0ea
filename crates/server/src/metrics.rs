//! Metrics: what is counted and measured while the server runs, exposed as Prometheus' text and as
//! entries of `cn=monitor`.
//!
//! Start at `rows.rs`, the table, then `scrape.rs`; `meter.rs` has what a worker counts.
//!
//! Invariant: a request costs a few stores into memory of its own worker, whether anybody looks at
//! metrics or not; all other work is done by whoever asks for them.

pub(crate) mod counters;
mod histogram;
mod meter;
mod monitor;
#[cfg(test)]
mod page;
mod process;
mod readiness;
mod rows;
mod scrape;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use self::meter::{Measured, Meter, micros};
pub(crate) use self::monitor::entries;
pub(crate) use self::process::Process;
pub(crate) use self::readiness::Readiness;
pub(crate) use self::scrape::Metrics;
pub(crate) use self::text::exposition;

/// The attributes that the table puts into `cn=monitor`.
#[cfg(test)]
pub(crate) fn attributes() -> impl Iterator<Item = String> {
    rows::ROWS.iter().flat_map(|metric| metric.attributes()).map(|(name, _)| name)
}
