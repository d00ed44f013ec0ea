//! The responses to one request, summed up: read from the octets that are sent, so that the log
//! cannot say otherwise.

use ldap::ber::{Frame, Reader, Tag, frame};
use ldap::encode::ABORTED_TRANSACTION;

/// The sum of the messages that answer one request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Summary<'a> {
    /// SearchResultEntry messages.
    pub(crate) entries: u32,
    /// SearchResultReference messages.
    pub(crate) references: u32,
    /// The result code of the final answer, once it came.
    pub(crate) code: Option<u32>,
    /// Its diagnostic message.
    pub(crate) diagnostic: &'a [u8],
}

/// Reads whole messages as they are sent.
pub(crate) fn summarize(mut octets: &[u8]) -> Summary<'_> {
    let mut summary = Summary::default();
    while let Ok(Frame::Complete(length)) = frame(octets, usize::MAX)
        && let Some((message, rest)) = octets.split_at_checked(length)
    {
        // A message this server made is well formed.
        let _ = summary.add(message);
        octets = rest;
    }
    summary
}

impl<'a> Summary<'a> {
    fn add(&mut self, message: &'a [u8]) -> Option<()> {
        let mut fields = Reader::new(message).sequence(Tag::SEQUENCE).ok()?;
        let id = fields.read(Tag::INTEGER).ok()?;
        match fields.peek_tag()? {
            SEARCH_ENTRY => self.entries += 1,
            SEARCH_REFERENCE => self.references += 1,
            // Of what the server says of its own accord, only a notice of disconnection follows
            // from a request, and then nothing else answers that.
            tag if tag != INTERMEDIATE && (id != [0] || self.code.is_none()) => {
                let mut result = fields.sequence(tag).ok()?;
                let code = result.enumerated(Tag::ENUMERATED).ok()?;
                let _matched = result.read(Tag::OCTET_STRING).ok()?;
                let diagnostic = result.read(Tag::OCTET_STRING).ok()?;
                // A transaction that expires is no answer to whatever request comes by.
                let aborted = Ok(ABORTED_TRANSACTION.as_bytes());
                if id != [0] || result.read(NAME) != aborted {
                    (self.code, self.diagnostic) = (Some(code), diagnostic);
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// `responseName` of an extended response (RFC 4511 §4.12).
const NAME: Tag = Tag::context(10, false);
const SEARCH_ENTRY: Tag = Tag::application(4, true);
const SEARCH_REFERENCE: Tag = Tag::application(19, true);
const INTERMEDIATE: Tag = Tag::application(25, true);

#[cfg(test)]
mod tests {
    use ldap::encode::{self, EntryWriter};
    use ldap::message::{Controls, LdapResult, MessageId, ResponseKind};
    use ldap::result::ResultCode;

    use super::*;

    #[test]
    fn entries_are_counted_and_the_last_result_is_read() {
        let mut out = Vec::new();
        for name in ["cn=a", "cn=b"] {
            let mut writer = EntryWriter::begin(&mut out, MessageId(300), name);
            writer.attribute_types_only("cn");
            writer.finish(Controls::EMPTY);
        }
        assert_eq!(summarize(&out), Summary { entries: 2, ..Summary::default() });
        let result =
            LdapResult { diagnostic: "too many", ..LdapResult::new(ResultCode::SizeLimitExceeded) };
        encode::result(
            &mut out,
            MessageId(300),
            ResponseKind::SearchDone,
            &result,
            Controls::EMPTY,
        );
        let want = Summary { entries: 2, references: 0, code: Some(4), diagnostic: b"too many" };
        assert_eq!(summarize(&out), want);
        // A transaction that is aborted by what was refused has its own message after the answer.
        encode::aborted_transaction(&mut out, b"1", ResultCode::Busy, "other");
        assert_eq!(summarize(&out), want);
        // Whatever else it is, it is no answer.
        assert_eq!(summarize(b"\x30"), Summary::default());
        assert_eq!(summarize(b"\x30\x05\x02\x01\x01\x65\x00"), Summary::default());
    }

    #[test]
    fn a_transaction_that_expired_answers_no_request() {
        // The request that noticed it went on elsewhere, and seemed to be answered by that.
        let mut out = Vec::new();
        encode::aborted_transaction(&mut out, b"1", ResultCode::TimeLimitExceeded, "unused");
        assert_eq!(summarize(&out), Summary::default());
        // A request whose id is 0 is refused under that.
        let refused = LdapResult::new(ResultCode::ProtocolError);
        for kind in [ResponseKind::SearchDone, ResponseKind::Extended] {
            out.clear();
            encode::result(&mut out, MessageId(0), kind, &refused, Controls::EMPTY);
            assert_eq!(summarize(&out).code, Some(2));
        }
    }

    #[test]
    fn a_notice_of_disconnection_is_what_a_client_is_told_at_last() {
        let mut out = Vec::new();
        encode::notice_of_disconnection(&mut out, ResultCode::ProtocolError, "why");
        assert_eq!(
            summarize(&out),
            Summary { code: Some(2), diagnostic: b"why", ..Summary::default() }
        );
    }
}
