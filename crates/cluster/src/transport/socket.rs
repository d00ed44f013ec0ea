//! What is set on every TCP connection between nodes.
//!
//! Invariant: a connection whose other end is cut off breaks by itself, on both sides.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long the kernel of the peer may leave octets unacknowledged, in milliseconds: a disk that is
/// slow does not delay that, a cut cable does.
pub const UNACKNOWLEDGED_MAX_MS: u64 = 1_000;
/// After how long without a word the kernel asks whether the peer is there, in seconds.
const KEEPALIVE_S: u64 = 5;

/// Sets the options.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = Duration::from_secs(KEEPALIVE_S);
    let keepalive = TcpKeepalive::new().with_time(keepalive).with_interval(keepalive);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(Duration::from_millis(UNACKNOWLEDGED_MAX_MS)))?;
    Ok(())
}
