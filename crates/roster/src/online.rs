//! Import into and export from a directory that is being served, over connections.
//!
//! Start at `import.rs` and `export.rs`. `addition` makes requests of records, `waiting` keeps what
//! came too early, `probe` and `throttle` see to it that searches keep their latency, `server` asks
//! what a server can do.
//!
//! Invariant: what is outstanding and what waits in memory is bounded.

pub(crate) mod addition;
pub(crate) mod export;
pub(crate) mod import;
mod probe;
pub(crate) mod server;
mod throttle;
pub(crate) mod waiting;

use std::time::{Duration, Instant};

use clap::Args;

use crate::connect::{Login, OnlineOptions};
use crate::failure::Failure;

/// What `roster import` is asked about a server.
#[derive(Args, Debug)]
pub(crate) struct ImportServer {
    #[command(flatten)]
    server: OnlineOptions,

    /// With -H: what a search may take beside the import, in ms, before the import is slowed down;
    /// without, four times what nine of ten searches take before it begins, at least 5 ms
    #[arg(long, value_name = "MS", requires = "uri",
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    max_latency: Option<u64>,
}

impl ImportServer {
    /// How the server is connected to, if one was named, and how fast it may be asked.
    pub(crate) fn named(&self) -> Result<Option<(Login, import::Pace)>, Failure> {
        let latency_max = self.max_latency.map(Duration::from_millis);
        let login = self.server.login()?;
        Ok(login.map(|login| (login, import::Pace { latency_max })))
    }
}

/// The time; how fast an import may go is told by it.
#[allow(clippy::disallowed_methods, reason = "measures what real searches take")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets time go by for the server.
#[allow(clippy::disallowed_methods, reason = "a throttle is made of time")]
pub(crate) fn wait(time: Duration) {
    std::thread::sleep(time);
}
