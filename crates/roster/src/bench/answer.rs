//! Judging answers: of every response as much is decoded as is judged, the rest when it is wrong.

use std::fmt;

use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::{DecodeLimits, LdapResult, Message, OperationKind, Response};
use ldap::result::ResultCode;
use serde::{Deserialize, Serialize};

/// What the right answer to a request is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Expected {
    /// Success after this many entries, the two numbers included.
    Entries(u64, u64),
    /// Success after as many entries as the first answer to the same request brought: who judges a
    /// single answer cannot tell how many.
    Same,
    /// One of the codes with which a server carries an operation out, however much it finds: of a
    /// request that was made of another, nobody knows what is right.
    Replayed(#[serde(with = "by_name")] OperationKind),
    /// This code in the answer to the operation.
    Code(#[serde(with = "by_name")] OperationKind, u32),
}

/// What one response means for its request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// One more entry; the answer goes on.
    Entry,
    /// The answer goes on.
    More,
    /// The answer is whole.
    Right(u32),
    /// The answer is whole and wrong.
    Wrong(u32, Fault),
    /// A response to something else.
    Misplaced,
}

/// What is wrong with an answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// The code is not the expected one; with the server's diagnostic.
    Code(u32, String),
    /// The number of entries is not within the expected.
    Entries(u64),
    /// So many entries, and another number for the same request before.
    Changed { entries: u64, first: u64 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code, diagnostic) => {
                let name = ResultCode::from_code(*code).map_or("unknown", ResultCode::name);
                write!(f, "the server answered {name} ({code})")?;
                if diagnostic.is_empty() { Ok(()) } else { write!(f, ": {diagnostic}") }
            }
            Self::Entries(count) => write!(f, "a search found {count} entries"),
            Self::Changed { entries, first } => {
                write!(f, "a search found {entries} entries, but {first} the first time")
            }
        }
    }
}

/// The outside of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) id: i32,
    tag: Tag,
    /// What is in the operation.
    fields: Reader<'a>,
    whole: &'a [u8],
}

impl<'a> Head<'a> {
    /// Of one whole message.
    pub(crate) fn of(whole: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Reader::new(whole).sequence(Tag::SEQUENCE)?;
        let id = fields.integer_i32(Tag::INTEGER)?;
        let tag = fields.peek_tag().unwrap_or(Tag(0));
        let fields = fields.sequence(tag)?;
        Ok(Self { id, tag, fields, whole })
    }

    /// The name of the entry it brings.
    pub(crate) fn dn(&self) -> Result<&'a [u8], DecodeError> {
        let mut fields = self.fields;
        fields.octets(Tag::OCTET_STRING)
    }

    /// Whether it is the answer to such an operation.
    fn answers(&self, operation: OperationKind) -> bool {
        operation.answered_by().is_some_and(|kind| kind.tag() == self.tag)
    }

    /// Why the server sends what nobody asked for.
    pub(crate) fn notice(&self) -> Option<String> {
        let message = Message::<Response<'_>>::decode(self.whole, &DecodeLimits::default()).ok()?;
        match message.op {
            Response::Extended { result, .. } if self.id == 0 => {
                Some(format!("{} {}", result.code.name(), result.diagnostic))
            }
            _ => None,
        }
    }

    /// What went wrong, by the server's own words.
    fn fault(&self, code: u32) -> Fault {
        let message = Message::<Response<'_>>::decode(self.whole, &DecodeLimits::default());
        let diagnostic = |result: LdapResult<'_>| result.diagnostic.to_owned();
        let diagnostic = match message.map(|message| message.op) {
            Ok(
                Response::SearchDone(result)
                | Response::Bind { result, .. }
                | Response::Compare(result)
                | Response::Add(result)
                | Response::Delete(result)
                | Response::Modify(result)
                | Response::ModifyDn(result),
            ) => diagnostic(result),
            Ok(_) | Err(_) => String::new(),
        };
        Fault::Code(code, diagnostic)
    }
}

impl Expected {
    /// Judges one response; `entries` came before it.
    pub(crate) fn judge(&self, head: &Head<'_>, entries: u64) -> Result<Verdict, DecodeError> {
        let wanted = match self {
            _ if head.tag == SEARCH_ENTRY && self.is_of_search() => return Ok(Verdict::Entry),
            _ if head.tag == SEARCH_REFERENCE && self.is_of_search() => return Ok(Verdict::More),
            _ if head.tag == INTERMEDIATE => return Ok(Verdict::More),
            Self::Entries(..) | Self::Same if head.tag == SEARCH_DONE => &[0][..],
            Self::Code(operation, code) if head.answers(*operation) => std::slice::from_ref(code),
            Self::Replayed(operation) if head.answers(*operation) => &CARRIED_OUT,
            Self::Entries(..) | Self::Same | Self::Code(..) | Self::Replayed(_) => {
                return Ok(Verdict::Misplaced);
            }
        };
        let mut fields = head.fields;
        let code = fields.enumerated(Tag::ENUMERATED)?;
        if !wanted.contains(&code) {
            return Ok(Verdict::Wrong(code, head.fault(code)));
        }
        match self {
            Self::Entries(low, high) if !(low..=high).contains(&&entries) => {
                Ok(Verdict::Wrong(code, Fault::Entries(entries)))
            }
            Self::Entries(..) | Self::Same | Self::Code(..) | Self::Replayed(_) => {
                Ok(Verdict::Right(code))
            }
        }
    }

    const fn is_of_search(&self) -> bool {
        match self {
            Self::Entries(..) | Self::Same => true,
            Self::Replayed(operation) => matches!(operation, OperationKind::Search),
            Self::Code(..) => false,
        }
    }
}

/// How plans name the kind of an operation.
mod by_name {
    use ldap::message::OperationKind;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        kind: &OperationKind,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<OperationKind, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        OperationKind::from_name(&name)
            .ok_or_else(|| D::Error::custom("no operation has this name"))
    }
}

/// Success, limits of time and size, compareFalse and compareTrue, a referral, a limit of the
/// administrator, noSuchObject (RFC 4511 §4.1.9).
const CARRIED_OUT: [u32; 8] = [0, 3, 4, 5, 6, 10, 11, 32];

const SEARCH_ENTRY: Tag = Tag::application(4, true);
const SEARCH_DONE: Tag = Tag::application(5, true);
const SEARCH_REFERENCE: Tag = Tag::application(19, true);
const INTERMEDIATE: Tag = Tag::application(25, true);

#[cfg(test)]
mod tests {
    use ldap::message::{Attributes, Controls, MessageId, Strings};

    use super::*;

    #[track_caller]
    fn judged(expected: &Expected, op: Response<'_>, entries: u64) -> Verdict {
        let mut out = Vec::new();
        Message { id: MessageId(7), op, controls: Controls::EMPTY }.encode(&mut out);
        let head = Head::of(&out).unwrap();
        assert_eq!(head.id, 7);
        expected.judge(&head, entries).unwrap()
    }

    const fn result(code: ResultCode) -> LdapResult<'static> {
        LdapResult { code, matched_dn: "", diagnostic: "why", referrals: Strings::EMPTY }
    }

    #[test]
    fn a_search_is_right_with_the_expected_number_of_entries() {
        let expected = Expected::Entries(1, 2);
        for (entries, right) in [(0, false), (1, true), (2, true), (3, false)] {
            let done = Response::SearchDone(result(ResultCode::Success));
            assert_eq!(judged(&expected, done, entries) == Verdict::Right(0), right, "{entries}");
        }
        let refused = Response::SearchDone(result(ResultCode::NoSuchObject));
        let Verdict::Wrong(32, fault) = judged(&expected, refused, 1) else { panic!() };
        assert_eq!(fault.to_string(), "the server answered noSuchObject (32): why");
        let found = Response::SearchEntry { dn: "cn=x", attributes: Attributes::default() };
        assert_eq!(judged(&expected, found, 0), Verdict::Entry);
    }

    #[test]
    fn an_answer_to_another_operation_is_misplaced() {
        let expected = Expected::Code(OperationKind::Compare, 6);
        let right = || Response::Compare(result(ResultCode::CompareTrue));
        assert_eq!(judged(&expected, right(), 0), Verdict::Right(6));
        let modify = Response::Modify(result(ResultCode::CompareTrue));
        assert_eq!(judged(&expected, modify, 0), Verdict::Misplaced);
        let found = Response::SearchEntry { dn: "", attributes: Attributes::default() };
        assert_eq!(judged(&expected, found, 0), Verdict::Misplaced);
        assert_eq!(judged(&Expected::Entries(0, 1), right(), 0), Verdict::Misplaced);
    }

    #[test]
    fn the_tags_are_those_of_the_codec() {
        let code = ResultCode::Success;
        for (operation, op) in [
            (OperationKind::Add, Response::Add(result(code))),
            (OperationKind::Delete, Response::Delete(result(code))),
            (OperationKind::Modify, Response::Modify(result(code))),
            (OperationKind::ModifyDn, Response::ModifyDn(result(code))),
            (
                OperationKind::Bind,
                Response::Bind { result: result(code), server_sasl_credentials: None },
            ),
        ] {
            let verdict = judged(&Expected::Code(operation, 0), op, 0);
            assert_eq!(verdict, Verdict::Right(0), "{operation:?}");
        }
    }
}
