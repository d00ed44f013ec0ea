//! What strangers at the member port may take, and whoever comes from where a member is.

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
/// The most connections a second from each address where a member is known to be, evenly: there may
/// be others on its machine. A member that is turned away among them comes again soon.
pub const FROM_MEMBER_PER_SECOND_MAX: u32 = 100;
/// The most of those at once, after a pause.
pub const FROM_MEMBER_AT_ONCE_MAX: u32 = 10;
/// The most connections at a time from such an address that are not authenticated yet. The limit a
/// second leaves each of them a fifth of a second at least.
pub const UNAUTHENTICATED_FROM_MEMBER_MAX: usize = 32;

/// What may be taken without saying who one is.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// How long a connection may take until it is authenticated.
    pub handshake: Duration,
    /// The most connections at a time that are not authenticated yet.
    pub unauthenticated: usize,
    /// The most of those from one address where no member is known to be.
    pub unauthenticated_per_address: usize,
    /// The most of those from one address where a member is known to be.
    pub unauthenticated_from_member: usize,
    /// Connections a second from where no member is known to be.
    pub strangers_per_second: u32,
    /// Connections a second from each address where a member is known to be; not 0.
    pub from_member_per_second: u32,
    /// And at once.
    pub from_member_at_once: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_millis(HANDSHAKE_MAX_MS),
            unauthenticated: UNAUTHENTICATED_MAX,
            unauthenticated_per_address: UNAUTHENTICATED_PER_ADDRESS_MAX,
            unauthenticated_from_member: UNAUTHENTICATED_FROM_MEMBER_MAX,
            strangers_per_second: STRANGERS_PER_SECOND_MAX,
            from_member_per_second: FROM_MEMBER_PER_SECOND_MAX,
            from_member_at_once: FROM_MEMBER_AT_ONCE_MAX,
        }
    }
}
