//! Comparing what all members have stored, while they serve: one member asks all of them, itself
//! included, to hold the state after one change, and for digests of a slice of it that are read
//! again; where these differ, for what each entry is; then the next slice, after a later change.
//!
//! Start at `run.rs` (who asks), then `holder.rs` (who answers) and `message.rs` (what is said).
//!
//! Invariant: what is compared is the state after one change, on each member; who cannot show it is
//! not compared, and never counts as different.
//! Invariant: nobody who writes or applies waits for a comparison.
//! Invariant: what is held goes by itself when nobody asks for it any more.

mod finding;
mod holder;
pub(crate) mod message;
mod run;

pub(crate) use holder::Holder;
pub(crate) use run::{Verifications, VerifierParts};

use std::time::Duration;

/// The ids of a slice.
const SLICE_IDS: u64 = 4096;
/// A slice ends with the entry that makes it longer, in bytes.
const SLICE_MAX_BYTES: u64 = 16 << 20;
/// How long a member keeps a state that nobody asks for.
const HELD_MAX: Duration = Duration::from_secs(20);
/// How long a member that is asked waits for a change.
const HOLD_WAIT_MAX: Duration = Duration::from_secs(10);
