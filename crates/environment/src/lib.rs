//! Time and chance: what a server takes from the machine that a test must be able to give.
//!
//! Invariant: below the server nobody else asks the operating system for the time of day or for
//! random octets; whoever needs them is handed a [`Clock`] or a [`Chance`].

mod chance;
mod clock;
#[cfg(any(test, feature = "test-support"))]
mod test_support;

pub use chance::{BufferedChance, Chance, MakeChance, OsChance, os_chance, random_uuid};
pub use clock::{Clock, SystemClock, Timestamp, push_digits};
#[cfg(any(test, feature = "test-support"))]
pub use test_support::{ManualClock, SeededChance};
