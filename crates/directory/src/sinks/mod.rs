//! Sinks: changes of the directory that the server itself sends to a file, a webhook or a message
//! bus, as administrators say it in `cn=Sinks,cn=config`. Sockets and files are the server's; here
//! is what a sink is, what it is told, and up to where.
//!
//! Start at `text.rs`, how one is written; then `reader.rs`, what it is told next, and
//! `position.rs`, up to where that came.
//!
//! Invariant: a sink is told what its identity may read at that moment, as a reader of
//! `cn=changelog` is, and never a secret; one without an identity is told nothing.
//! Invariant: nobody who writes waits for a sink, and what is in memory for one is a batch.
//! Invariant: a position only moves on, and is stored by the server that decides; what stores it is
//! told to no sink.

mod endpoint;
mod meant;
mod options;
pub(crate) mod position;
pub(crate) mod progress;
mod reader;
mod targets;
pub mod text;

pub use self::endpoint::SinkEndpoint;
pub use self::progress::{SinkPosition, is_position};
pub use self::reader::{SinkBatch, SinkGap, SinkMessage, SinkPause, SinkReader};
pub use self::targets::{FileTarget, KafkaTarget, NatsTarget, SignIn, SinkTarget, WebhookTarget};
pub use self::text::{Sink, WhenGone};

use std::sync::Arc;

use crate::directory::Directory;

impl Directory {
    /// The sinks that there are to be.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn sinks(&self) -> Result<Vec<Arc<Sink>>, String> {
        let mut reader = self.storage.store.reader();
        let view = reader.view().map_err(|error| error.to_string())?;
        let sinks = self.rules.sinks.of(view, &self.state.load().schema);
        Ok(sinks.iter().map(|sink| Arc::new(sink.clone())).collect())
    }
}
