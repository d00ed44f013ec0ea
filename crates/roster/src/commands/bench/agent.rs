//! `roster bench agent`: a part of somebody else's load.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::bench::agent::Agent as Listening;
use crate::bench::agent::line::Secret;
use crate::failure::{Exit, Failure};
use crate::output;

/// Run a part of a load that another process coordinates.
///
/// Start one on each machine, then run any job with --agents host:port,host:port. The messages
/// between coordinator and agents are authenticated with the shared secret, but not encrypted: they
/// include the password of the binds. Ctrl-C stops an agent.
#[derive(Args, Debug)]
pub(super) struct Agent {
    /// Where to listen for coordinators
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1390")]
    listen: SocketAddr,

    /// A file with the secret shared with the coordinator, of 16 bytes or more; needed for any
    /// address except loopback
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl Agent {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let agent = Listening::listen(self.listen, Secret::read(self.secret_file.as_deref())?)?;
        output::line(format_args!("listening on {}", agent.address()?))?;
        loop {
            match agent.serve_one() {
                // Whoever read where it listens may be gone by now.
                Ok(what) => output::note(format_args!("done: {what}")),
                Err(failure) => output::failure(&failure),
            }
        }
    }
}
