//! Change records: what one operation did, as octets that the journal keeps and feeds read.
//!
//! A record tells the effects of an operation completely, so that applying it needs no clock, no
//! chance and no decision; and it tells who asked for it, so that whoever reads it later needs
//! nothing else. `docs/change-records.md` describes every octet.
//!
//! Invariant: what was written by any release reads back the same in every later one; the octets
//! under `tests/golden` show it.
//! Invariant: what a reader does not know ends the reading. Nothing is ever skipped.
//! Invariant: no length of the octets is believed before it was compared with what is there.

mod before;
mod decode;
mod decoder;
mod encode;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aci::Permitted;
use schema::{Change, DescriptionError};
use store::{Lsn, NAMING_CONTEXTS};
use xxhash_rust::xxh3::xxh3_64;

use crate::Csn;
use crate::log::Reign;

pub use before::ChangeRole;
pub use decoder::Decoder;

/// How records are laid out; a reader that knows only an older layout stops.
pub const RECORD_FORMAT: u16 = 1;

/// What records may say; a reader that knows less stops. Grows when a kind of change is new. A
/// record is of the lowest level that has all its changes: see [`RecordHead::level`].
pub const RECORD_LEVEL: u16 = 7;

/// The level of a change of the naming contexts, which are a setting: whoever does not know of it
/// would look for entries below those that were.
pub const CONTEXTS_LEVEL: u16 = 7;

/// From this level on, very many values of an attribute become rows of their own when a change is
/// applied. No change of it is new.
pub const APART_LEVEL: u16 = 6;

/// The level of [`Change::Gather`].
pub const GATHER_LEVEL: u16 = 5;

/// What every release reads that can be a member of a cluster. The members of one whose log has no
/// [`Change::Level`] write no more.
pub const RECORD_LEVEL_FIRST: u16 = 3;

/// The control with which whoever asks for an operation says why. In the octets it is the last of
/// the controls, with a blank and the text behind its OID: releases that know nothing of it read it
/// as the name of a control.
pub const PURPOSE_OID: &str = "1.3.6.1.4.1.30221.2.5.19";

/// The longest record, in octets.
pub const RECORD_LENGTH_MAX_BYTES: usize = 16 << 20;

/// The most octets that the attributes of the entries a record deletes may take together; those
/// for which no room is left are deleted without their attributes.
pub const DELETED_ATTRIBUTES_MAX_BYTES: usize = 8 << 20;

/// One operation and what it did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Its number; each record has one more than the one before it.
    pub lsn: Lsn,
    /// The running hash after the record before it.
    pub prev_hash: u64,
    /// The leadership in which it was decided.
    pub reign: Reign,
    /// When it was decided, and by which server.
    pub csn: Csn,
    /// Who asked for it, and how.
    pub origin: Origin,
    /// What it did, in order. All of it, or nothing, is applied.
    pub changes: Vec<Change>,
}

/// A record that is about to be written, borrowed from those who decided it.
///
/// ```compile_fail,E0308
/// use history::record::RecordDraft;
///
/// fn undecided<'a>(draft: RecordDraft<'a>, changes: &'a [schema::Change]) -> RecordDraft<'a> {
///     RecordDraft { changes, ..draft }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordDraft<'a> {
    /// See [`Record::lsn`].
    pub lsn: Lsn,
    /// See [`Record::prev_hash`].
    pub prev_hash: u64,
    /// See [`Record::reign`].
    pub reign: Reign,
    /// See [`Record::csn`].
    pub csn: Csn,
    /// See [`Record::origin`].
    pub origin: &'a Origin,
    /// See [`Record::changes`]. Only what was permitted becomes a record.
    pub changes: &'a [Permitted<Change>],
}

/// What can be read of a record without a schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordHead {
    /// See [`RECORD_FORMAT`].
    pub format: u16,
    /// The level a reader needs, see [`RECORD_LEVEL`].
    pub level: u16,
    /// See [`Record::lsn`].
    pub lsn: Lsn,
    /// See [`Record::prev_hash`].
    pub prev_hash: u64,
    /// The running hash after this record.
    pub hash: u64,
    /// See [`Record::reign`].
    pub reign: Reign,
    /// See [`Record::csn`].
    pub csn: Csn,
    /// See [`Origin::request`].
    pub request: [u8; 16],
}

/// Where an operation comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin {
    /// Names the request, also when it is sent again: chance, or counted by whoever sends.
    /// Several records have the same one when one request became several.
    pub request: [u8; 16],
    /// Who asked.
    pub who: Arc<Who>,
    /// The message id of the request (RFC 4511 §4.1.1.1).
    pub message: i32,
    /// Which operation it was.
    pub op: OpKind,
    /// The OIDs of the controls that made a difference.
    pub controls: Vec<Cow<'static, str>>,
    /// Why, as whoever asked for it says: see [`PURPOSE_OID`].
    pub purpose: Option<Arc<str>>,
}

#[cfg(any(test, feature = "test-support"))]
impl Origin {
    /// A request of the server itself.
    pub fn of_server(request: [u8; 16]) -> Self {
        let (who, op) = (Who::server(), OpKind::Internal);
        Self { request, who, message: 1, op, controls: Vec::new(), purpose: None }
    }
}

/// Who asked for an operation; the same for all operations between two binds.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Who {
    /// The name of the bind; empty when anonymous.
    pub dn: String,
    /// The authorization identity (RFC 4513 §5.2.1.8) if it is another than the bind's.
    pub authz: String,
    /// The client's address.
    pub address: String,
    /// How the client proved who it is: `simple`, or the name of a SASL mechanism; empty when it
    /// did not.
    pub mechanism: Cow<'static, str>,
    /// The connection, by its number since the server started; 0 for the server itself.
    pub session: u64,
}

/// Which operation a record comes from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum OpKind {
    /// Add (RFC 4511 §4.7).
    Add,
    /// Delete (RFC 4511 §4.8), one entry or a tree.
    Delete,
    /// Modify (RFC 4511 §4.6).
    Modify,
    /// Modify DN (RFC 4511 §4.9).
    ModifyDn,
    /// Password modify (RFC 3062).
    PasswordModify,
    /// A transaction (RFC 5805): the changes of several operations.
    Transaction,
    /// Something the server did on its own account.
    Internal,
}

impl Record {
    /// Appends the record to `out`, as it was read; returns the running hash after it.
    ///
    /// # Errors
    /// When the record would be longer than [`RECORD_LENGTH_MAX_BYTES`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<u64, RecordError> {
        let Self { lsn, prev_hash, reign, csn, origin, changes } = self;
        let parts = encode::Parts {
            lsn: *lsn,
            prev_hash: *prev_hash,
            reign: *reign,
            csn: *csn,
            origin,
            changes: changes.iter(),
        };
        parts.encode(out)
    }
}

impl RecordHead {
    /// When the record was decided, in microseconds since 1970.
    pub const fn time_us(&self) -> u64 {
        self.csn.time.0
    }
}

impl OpKind {
    const ALL: [Self; 7] = [
        Self::Add,
        Self::Delete,
        Self::Modify,
        Self::ModifyDn,
        Self::PasswordModify,
        Self::Transaction,
        Self::Internal,
    ];

    /// Its number in a record.
    const fn number(self) -> u8 {
        match self {
            Self::Add => 1,
            Self::Delete => 2,
            Self::Modify => 3,
            Self::ModifyDn => 4,
            Self::PasswordModify => 5,
            Self::Transaction => 6,
            Self::Internal => 7,
        }
    }
}

impl Who {
    /// The server itself.
    pub fn server() -> Arc<Self> {
        Arc::new(Self { mechanism: "internal".into(), ..Self::default() })
    }
}

/// The level that a reader of this change needs.
fn level(change: &Change) -> u16 {
    match change {
        Change::Add(_)
        | Change::Modify(_)
        | Change::Rename(_)
        | Change::Delete(_)
        | Change::Schema(_)
        | Change::Level(_) => 1,
        Change::Index(_) => 2,
        Change::Setting(setting) if setting.name == NAMING_CONTEXTS => CONTEXTS_LEVEL,
        Change::Setting(_) => 3,
        Change::Gather(_) => GATHER_LEVEL,
    }
}

/// The running hash over the octets of a record that it covers: the hash before it, and what the
/// record did.
fn hash(covered: &[u8]) -> u64 {
    xxh3_64(covered)
}

/// Why octets are no record, or a record cannot become octets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RecordError {
    /// The octets end within the record, or do not make sense.
    Malformed {
        /// Where, counted from the start of the record.
        offset: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The record says something that this release does not know.
    UnknownKind {
        /// What has the number.
        what: &'static str,
        /// The number.
        number: u64,
    },
    /// The schema lacks an attribute of the record.
    Attribute {
        /// The attribute description.
        text: String,
        /// What the schema says.
        error: DescriptionError,
    },
    /// It is longer than [`RECORD_LENGTH_MAX_BYTES`].
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { offset, reason } => write!(f, "octet {offset}: {reason}"),
            Self::UnknownKind { what, number } => {
                write!(f, "{what} {number} is not known to this release, a newer one wrote it")
            }
            Self::Attribute { text, error } => write!(f, "attribute '{text}': {error}"),
            Self::TooLarge { bytes } => write!(
                f,
                "a change record of {bytes} bytes is over the limit of {RECORD_LENGTH_MAX_BYTES} \
                 bytes"
            ),
        }
    }
}

impl std::error::Error for RecordError {}

// The numbers of kinds, in the octets.
const CHANGE_ADD: u8 = 1;
const CHANGE_MODIFY: u8 = 2;
const CHANGE_RENAME: u8 = 3;
const CHANGE_DELETE: u8 = 4;
const CHANGE_SCHEMA: u8 = 5;
const CHANGE_NOTICE: u8 = 6;
const CHANGE_INDEX: u8 = 7;
const CHANGE_SETTING: u8 = 8;
const CHANGE_GATHER: u8 = 9;
const NOTICE_LEVEL: u8 = 1;

/// Where the length of the origin is; all before it has a fixed place.
const ORIGIN_LENGTH_OFFSET: usize = 54;
