//! Records as they lie in a ring: what a worker writes in passing, and the log thread reads.
//!
//! Invariant: no secret gets into a record. Of a bind there is the name and the mechanism, of what
//! is written there are names and attribute types, of an extended operation there is its OID.
//! Values that are asserted, of searches and compares, are there as they came; the log thread hides
//! those of passwords.

use directory::BindFailure;
use directory::password_policy::PolicyError;
use ldap::ber::Tag;
use ldap::message::OperationKind;

/// What a record is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Connect,
    Secured,
    Identity,
    Operation,
    Disconnect,
    Refused,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Connect,
        Self::Secured,
        Self::Identity,
        Self::Operation,
        Self::Disconnect,
        Self::Refused,
    ];

    pub(super) fn of(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == octet)
    }
}

/// The request, in the record of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LoggedRequest {
    /// The message as it came: a search.
    Message,
    /// Fields, as [`Field`] numbers them.
    Fields,
}

/// A part of the request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Field {
    /// The DN the operation is about.
    Name,
    /// How a bind proves who asks.
    Mechanism,
    /// Who the client of a SASL bind says it is.
    User,
    /// Of an extended operation.
    Oid,
    /// An attribute that is changed, and how: `replace mail`.
    Change,
    NewRdn,
    NewSuperior,
    DeletesOldRdn,
    /// The attribute of a compare, and then its value.
    Attribute,
    Value,
    /// The message id that an abandon names.
    Target,
    /// The OID of a control, and then its value where it is logged.
    Control,
    ControlValue,
    /// It was too long to be there whole.
    Cut,
}

impl Field {
    const ALL: [Self; 14] = [
        Self::Name,
        Self::Mechanism,
        Self::User,
        Self::Oid,
        Self::Change,
        Self::NewRdn,
        Self::NewSuperior,
        Self::DeletesOldRdn,
        Self::Attribute,
        Self::Value,
        Self::Target,
        Self::Control,
        Self::ControlValue,
        Self::Cut,
    ];

    fn of(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|field| *field as u8 == octet)
    }
}

/// The numbers of an operation that is over.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct OperationRecord {
    /// The connection, and the operation on it.
    pub(super) connection: u64,
    pub(super) number: u64,
    /// When it was over, since the logs began.
    pub(super) ended_us: u64,
    /// From its last octet until it was begun, and until it was answered.
    pub(super) queue_us: u64,
    pub(super) elapsed_us: u64,
    pub(super) bytes: u64,
    pub(super) candidates: u64,
    pub(super) entries: u32,
    pub(super) references: u32,
    pub(super) code: Option<u32>,
    pub(super) message_id: i32,
    /// None: the message was no request.
    pub(super) kind: Option<OperationKind>,
    pub(super) is_unindexed: bool,
    /// What the password policy had against it.
    pub(super) policy: Option<PolicyError>,
    /// What a bind failed for.
    pub(super) failure: Option<BindFailure>,
    /// Nobody got a response.
    pub(super) is_abandoned: bool,
}

/// A record in the making.
pub(super) struct Draft<'b>(pub(super) &'b mut Vec<u8>);

impl<'b> Draft<'b> {
    /// Begins a record.
    pub(super) fn begin(out: &'b mut Vec<u8>, kind: Kind) -> Self {
        out.clear();
        out.push(kind as u8);
        Self(out)
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Text of any length up to a limit; more is cut off.
    pub(super) fn text(&mut self, text: &[u8]) -> &mut Self {
        let cut = text.get(..TEXT_MAX_BYTES).unwrap_or(text);
        self.0.extend_from_slice(&(cut.len() as u16).to_le_bytes());
        self.0.extend_from_slice(cut);
        self
    }

    pub(super) fn octet(&mut self, octet: u8) -> &mut Self {
        self.0.push(octet);
        self
    }

    pub(super) fn field(&mut self, field: Field, text: &[u8]) {
        // One operation may name thousands of attributes.
        if self.0.len() > FIELDS_MAX_BYTES {
            return;
        }
        self.octet(field as u8).text(text);
        if self.0.len() > FIELDS_MAX_BYTES || text.len() > TEXT_MAX_BYTES {
            self.octet(Field::Cut as u8).text(&[]);
        }
    }

    pub(super) fn operation(&mut self, operation: &OperationRecord) -> &mut Self {
        let flags = u64::from(operation.is_unindexed) | u64::from(operation.is_abandoned) << 1;
        let policy = operation.policy.map_or(0, |error| error as u64 + 1);
        let tag = operation.kind.map_or(0, |kind| kind.tag().0);
        let failure = operation.failure.map_or(0, |failure| failure as u64 + 1);
        let small = failure << 24 | policy << 16 | flags << 8 | u64::from(tag);
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let code = operation.code.unwrap_or(NO_CODE);
        for number in [
            operation.connection,
            operation.number,
            operation.ended_us,
            operation.queue_us,
            operation.elapsed_us,
            operation.bytes,
            operation.candidates,
            pair(operation.entries, operation.references),
            pair(code, operation.message_id.cast_unsigned()),
            small,
        ] {
            self.number(number);
        }
        self
    }
}

/// What is left to read of a record.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Parts<'a> {
    pub(super) fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<2>()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn field(&mut self) -> Option<(Field, &'a [u8])> {
        let field = Field::of(self.octet()?)?;
        Some((field, self.text()?))
    }

    pub(super) fn operation(&mut self) -> Option<OperationRecord> {
        let mut operation = OperationRecord {
            connection: self.number()?,
            number: self.number()?,
            ended_us: self.number()?,
            queue_us: self.number()?,
            elapsed_us: self.number()?,
            bytes: self.number()?,
            candidates: self.number()?,
            ..OperationRecord::default()
        };
        let (high, low) = (|number: u64| (number >> 32) as u32, |number: u64| number as u32);
        let counts = self.number()?;
        (operation.entries, operation.references) = (high(counts), low(counts));
        let outcome = self.number()?;
        operation.code = Some(high(outcome)).filter(|code| *code != NO_CODE);
        operation.message_id = low(outcome).cast_signed();
        let small = self.number()?;
        operation.kind = OperationKind::from_tag(Tag(small as u8));
        operation.is_unindexed = small >> 8 & 1 != 0;
        operation.is_abandoned = small >> 9 & 1 != 0;
        let policy = (small >> 16 & 0xff) as usize;
        operation.policy = policy.checked_sub(1).and_then(|at| PolicyError::ALL.get(at).copied());
        let failure = (small >> 24 & 0xff) as usize;
        operation.failure = failure.checked_sub(1).and_then(|at| BindFailure::ALL.get(at).copied());
        Some(operation)
    }
}

/// No result code has this number.
const NO_CODE: u32 = u32::MAX;

/// The longest text in a record.
pub(super) const TEXT_MAX_BYTES: usize = 4 * 1024;

/// The longest message in a record; of a longer one there are only the names.
pub(super) const MESSAGE_MAX_BYTES: usize = 8 * 1024;

/// Fields of one operation, in octets, about.
const FIELDS_MAX_BYTES: usize = 12 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let operation = OperationRecord {
            connection: 1,
            number: 2,
            ended_us: 3,
            queue_us: 4,
            elapsed_us: 5,
            bytes: 6,
            candidates: 7,
            entries: 8,
            references: 9,
            code: Some(10),
            message_id: i32::MAX,
            kind: Some(OperationKind::Search),
            is_unindexed: true,
            policy: Some(PolicyError::PasswordTooLong),
            failure: Some(BindFailure::PasswordExpired),
            is_abandoned: false,
        };
        let other = OperationRecord {
            code: None,
            is_unindexed: false,
            is_abandoned: true,
            policy: None,
            failure: None,
            ..operation
        };
        for operation in [operation, other] {
            let mut out = Vec::new();
            let mut draft = Draft::begin(&mut out, Kind::Operation);
            draft.operation(&operation).text(b"why");
            draft.field(Field::Name, b"cn=a");
            let mut parts = Parts(&out);
            assert_eq!(parts.octet().and_then(Kind::of), Some(Kind::Operation));
            assert_eq!(parts.operation(), Some(operation));
            assert_eq!(parts.text(), Some(&b"why"[..]));
            assert_eq!(parts.field(), Some((Field::Name, &b"cn=a"[..])));
            assert_eq!(parts.field(), None);
        }
    }

    #[test]
    fn long_requests_are_cut_and_say_so() {
        let mut out = Vec::new();
        let mut draft = Draft::begin(&mut out, Kind::Operation);
        for _ in 0..10_000 {
            draft.field(Field::Change, &[b'x'; 5_000]);
        }
        assert!(out.len() < FIELDS_MAX_BYTES + 2 * TEXT_MAX_BYTES, "{}", out.len());
        let mut parts = Parts(&out);
        parts.octet();
        let fields = std::iter::from_fn(|| parts.field()).collect::<Vec<_>>();
        assert_eq!(fields.last(), Some(&(Field::Cut, &b""[..])));
        assert_eq!(fields.first().map(|(_, text)| text.len()), Some(TEXT_MAX_BYTES));
    }
}
