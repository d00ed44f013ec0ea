//! Where clients come in: listeners, TLS, and what the server finds out about whoever connects.
//!
//! `listeners.rs` opens the sockets, `accept.rs` takes connections from them and wraps each in a
//! `stream.rs`. A proxy says who is behind it (`proxy_header.rs`), a look-up what the host is
//! called (`host_names.rs`). How fresh reads are may depend on the listener (`read_levels.rs`).

pub(crate) mod accept;
pub(crate) mod host_names;
pub(crate) mod listeners;
pub(crate) mod proxy_header;
pub(crate) mod read_levels;
pub(crate) mod stream;
pub(crate) mod tls;
