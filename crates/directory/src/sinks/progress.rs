//! How far a sink is.

use schema::Change;
use store::Lsn;

/// Up to which change a sink was told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SinkPosition {
    /// The number of the change; 0 before all.
    pub lsn: Lsn,
    /// The running hash after it, where that is known: it tells one history from another.
    pub hash: Option<u64>,
}

/// A position that is to be stored.
#[derive(Clone, Debug)]
pub(crate) struct SinkProgress {
    pub(crate) name: String,
    /// Where its reader began: what is before that is the position of another sink, which has taken
    /// its name.
    pub(crate) begun: Lsn,
    pub(crate) position: SinkPosition,
}

/// The setting with the positions.
pub(crate) const POSITIONS: &str = "sink-positions";

/// Whether it is a change of the positions alone: no reader of changes is told of it.
pub fn is_position(change: &Change) -> bool {
    matches!(change, Change::Setting(setting) if setting.name == POSITIONS)
}
