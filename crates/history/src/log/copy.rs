//! Copies of a whole state, for a machine that lacks what the log no longer has.
//!
//! Invariant: what a copy holds is read from the copy, and never changes.

use std::fmt;
use std::io;

use store::CopyHead;

use super::ApplyError;

/// A copy of a state, which is kept as long as this is.
pub trait StateCopy: fmt::Debug + Send + Sync {
    /// What it is.
    fn head(&self) -> &CopyHead;

    /// Who takes part in the log, as the copy says, in the log's own octets.
    fn membership(&self) -> &[u8];

    /// Fills `into` with the octets from `offset` on.
    ///
    /// # Errors
    /// When there are not so many, or they cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// A copy that is being received. What has come is kept when this is dropped, to go on with.
pub trait CopyIntake: Send {
    /// So many octets are there.
    fn written(&self) -> u64;

    /// Adds octets behind those that are there.
    ///
    /// # Errors
    /// When there would be more than were announced, or the disk fails.
    fn write(&mut self, octets: &[u8]) -> Result<(), ApplyError>;

    /// Fills `into` with what is there from `offset` on.
    ///
    /// # Errors
    /// When there is not so much, or it cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), ApplyError>;

    /// What has come is not what was sent: it begins anew.
    ///
    /// # Errors
    /// When the disk fails.
    fn clear(&mut self) -> Result<(), ApplyError>;

    /// All is there, and what was sent: it is made durable and looked at, to be put in place by
    /// [`super::StateMachine::install`]. Returns who takes part, as the copy says.
    ///
    /// # Errors
    /// When it is not what was announced; then it is gone.
    fn finish(self: Box<Self>) -> Result<Vec<u8>, ApplyError>;
}

impl StateCopy for store::BaseCopy {
    fn head(&self) -> &CopyHead {
        self.head()
    }

    fn membership(&self) -> &[u8] {
        self.membership()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_at(offset, into)
    }
}
