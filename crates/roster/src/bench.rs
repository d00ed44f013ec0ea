//! Load on a directory server: one kind of operation, as fast as answers come or at a steady rate,
//! every answer checked.
//!
//! Start at `run.rs`. `pattern` and `request` make the requests, `connection` sends them and reads
//! the answers, `answer` judges these, `pace` keeps a rate, `process` reads what the server spent,
//! `report` prints it.
//!
//! Invariant: an operation counts only if its answer was right; one wrong answer spoils the run.

pub(crate) mod answer;
mod connection;
mod pace;
pub(crate) mod pattern;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod run;
