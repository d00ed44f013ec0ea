//! The harness of dialogue scripts: what a client says to a directory server, and what it must
//! hear. The language is described in `docs/dialogue-scripts.md`.
//!
//! Start at [`script`], what a script says, then [`run`], which plays it against a [`Target`].
//! Invariant: the harness shares no code with the server. It has its own BER, filter text and
//! result codes, so that a mistake made alike in an encoder and its decoder cannot hide.
//! Invariant: a script cannot tell which target it talks to; differences stand in skip lists.

mod ber;
pub mod chance;
pub mod client;
pub mod cluster;
pub mod crash;
mod cursor;
mod expect;
mod filter;
mod parse;
pub mod ports;
mod request;
mod response;
pub mod run;
pub mod script;
pub mod skip;
pub mod slapd;
pub mod target;
mod template;

pub use run::{
    Outcome, Peer, check_all, copy_directory, run_directory, run_directory_beside, run_script,
};
pub use script::{Script, ScriptError};
pub use skip::SkipList;
pub use target::{Received, Target, TcpTarget};
