//! What strangers at the member port may take.

use std::time::Duration;

/// How long a connection may take until it is authenticated, in milliseconds.
pub const HANDSHAKE_MAX_MS: u64 = 5_000;
/// The most connections at a time that are not authenticated yet.
pub const UNAUTHENTICATED_MAX: usize = 64;
/// The most of those from one address.
pub const UNAUTHENTICATED_PER_ADDRESS_MAX: usize = 4;
/// The most connections a second from where no member is known to be; what TLS costs for so many is
/// a hundredth of a processor.
pub const STRANGERS_PER_SECOND_MAX: u32 = 50;

/// What strangers may take.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// How long a connection may take until it is authenticated.
    pub handshake: Duration,
    /// The most connections at a time that are not authenticated yet.
    pub unauthenticated: usize,
    /// The most of those from one address.
    pub unauthenticated_per_address: usize,
    /// Connections a second from where no member is known to be.
    pub strangers_per_second: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_millis(HANDSHAKE_MAX_MS),
            unauthenticated: UNAUTHENTICATED_MAX,
            unauthenticated_per_address: UNAUTHENTICATED_PER_ADDRESS_MAX,
            strangers_per_second: STRANGERS_PER_SECOND_MAX,
        }
    }
}
