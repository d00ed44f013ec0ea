//! `roster bench agent`: a part of somebody else's load.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::bench::agent::Agent as Listening;
use crate::bench::agent::line::Secret;
use crate::failure::{Exit, Failure};
use crate::output;

/// Do a part of a load that another process coordinates.
///
/// Start one on each machine, then run any job with --agents host:port,host:port. What coordinator
/// and agents say to each other is sealed with the shared secret, and not enciphered: the password
/// that connections bind with is among it. Ctrl-C ends an agent.
#[derive(Args, Debug)]
pub(super) struct Agent {
    /// Where to listen for coordinators
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1390")]
    listen: SocketAddr,

    /// A file with the secret that coordinators know, of 16 octets or more; needed for any address
    /// but those of loopback
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
