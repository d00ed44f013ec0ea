//! Load on a directory server: streams of requests, as fast as answers come or at a rate, every
//! answer checked.
//!
//! Start at `plan.rs`, what a run does, and `run.rs`, how it goes. `jobs` makes plans from texts,
//! `profiles` those of published benchmarks, `replay` those of recorded days; `pattern`, `keys`,
//! `request` and `work` make the requests, `crew` is who does it, `lane` drives the connections of
//! a thread until `halt`, `wire` is one of them, `schedule` keeps a rate, `pace` one that changes,
//! `answer` judges what comes back and `same` compares it with what came before, `tally` and
//! `seconds` count it; `cost` and `process` read what the server spent, `hashes` why its binds were
//! slow, `own` and `stalls` what the generator did and what its machine did to it, `live` and
//! `summary` show a run, `agent` spreads it over processes, `record` keeps it, and `page` makes a
//! page of records.
//!
//! Invariant: an operation counts only if its answer was right; one wrong answer spoils the run.

pub mod agent;
pub(crate) mod answer;
pub(crate) mod cost;
pub(crate) mod crew;
mod halt;
pub(crate) mod hashes;
pub(crate) mod jobs;
pub(crate) mod keys;
mod lane;
mod live;
mod open;
mod own;
pub(crate) mod pace;
pub mod page;
pub(crate) mod pattern;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod profiles;
pub mod record;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod same;
mod schedule;
mod seconds;
mod stalls;
pub(crate) mod summary;
pub(crate) mod tally;
mod wire;
mod work;

pub use pattern::draw as draw_pattern;
pub use replay::read_log;
