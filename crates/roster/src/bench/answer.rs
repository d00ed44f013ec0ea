//! Judging answers: every response is decoded and compared with what is expected.

use std::fmt;
use std::ops::RangeInclusive;

use ldap::message::{LdapResult, Response};
use ldap::result::ResultCode;

/// What the right answer to every request of a run is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Expected {
    /// Success after as many entries.
    Entries(RangeInclusive<u64>),
    /// This code in the answer to the operation.
    Code(Operation, ResultCode),
}

/// The kinds of operation other than search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    Add,
    Bind,
    Compare,
    Delete,
    Modify,
    ModifyDn,
}

/// What one response means for its request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// One more entry; the answer goes on.
    Entry,
    /// The answer goes on.
    More,
    /// The answer is whole.
    Right(ResultCode),
    /// The answer is whole and wrong.
    Wrong(ResultCode, Fault),
    /// A response to something else.
    Misplaced,
}

/// What is wrong with an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The code is not the expected one; with the server's diagnostic.
    Code(ResultCode, String),
    /// The number of entries is not within the expected.
    Entries(u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code, diagnostic) if diagnostic.is_empty() => {
                write!(f, "the server answered {} ({})", code.name(), code.code())
            }
            Self::Code(code, diagnostic) => {
                write!(f, "the server answered {} ({}): {diagnostic}", code.name(), code.code())
            }
            Self::Entries(count) => write!(f, "a search found {count} entries"),
        }
    }
}

impl Expected {
    /// Judges one response; `entries` came before it.
    pub(crate) fn judge(&self, response: &Response<'_>, entries: u64) -> Verdict {
        match (self, response) {
            (Self::Entries(_), Response::SearchEntry { .. }) => Verdict::Entry,
            (Self::Entries(_), Response::SearchReference(_))
            | (_, Response::Intermediate { .. }) => Verdict::More,
            (Self::Entries(wanted), Response::SearchDone(result)) => {
                let verdict = code(result, ResultCode::Success);
                if matches!(verdict, Verdict::Right(_)) && !wanted.contains(&entries) {
                    return Verdict::Wrong(result.code, Fault::Entries(entries));
                }
                verdict
            }
            (Self::Code(Operation::Add, wanted), Response::Add(result))
            | (Self::Code(Operation::Bind, wanted), Response::Bind { result, .. })
            | (Self::Code(Operation::Compare, wanted), Response::Compare(result))
            | (Self::Code(Operation::Delete, wanted), Response::Delete(result))
            | (Self::Code(Operation::Modify, wanted), Response::Modify(result))
            | (Self::Code(Operation::ModifyDn, wanted), Response::ModifyDn(result)) => {
                code(result, *wanted)
            }
            (Self::Entries(_) | Self::Code(..), _) => Verdict::Misplaced,
        }
    }
}

fn code(result: &LdapResult<'_>, wanted: ResultCode) -> Verdict {
    if result.code == wanted {
        return Verdict::Right(result.code);
    }
    Verdict::Wrong(result.code, Fault::Code(result.code, result.diagnostic.to_owned()))
}

#[cfg(test)]
mod tests {
    use ldap::message::Strings;

    use super::*;

    const fn result(code: ResultCode) -> LdapResult<'static> {
        LdapResult { code, matched_dn: "", diagnostic: "why", referrals: Strings::EMPTY }
    }

    #[test]
    fn a_search_is_right_with_the_expected_number_of_entries() {
        let expected = Expected::Entries(1..=2);
        let done = Response::SearchDone(result(ResultCode::Success));
        for (entries, right) in [(0, false), (1, true), (2, true), (3, false)] {
            let verdict = expected.judge(&done, entries);
            assert_eq!(verdict == Verdict::Right(ResultCode::Success), right, "{entries}");
        }
        let refused = Response::SearchDone(result(ResultCode::NoSuchObject));
        let Verdict::Wrong(_, fault) = expected.judge(&refused, 1) else { panic!() };
        assert_eq!(fault.to_string(), "the server answered noSuchObject (32): why");
    }

    #[test]
    fn an_answer_to_another_operation_is_misplaced() {
        let expected = Expected::Code(Operation::Compare, ResultCode::CompareTrue);
        let right = Response::Compare(result(ResultCode::CompareTrue));
        assert_eq!(expected.judge(&right, 0), Verdict::Right(ResultCode::CompareTrue));
        let modify = Response::Modify(result(ResultCode::CompareTrue));
        assert_eq!(expected.judge(&modify, 0), Verdict::Misplaced);
        let found = Response::SearchEntry { dn: "", attributes: Default::default() };
        assert_eq!(expected.judge(&found, 0), Verdict::Misplaced);
        assert_eq!(Expected::Entries(0..=1).judge(&right, 0), Verdict::Misplaced);
    }
}
