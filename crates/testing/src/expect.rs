//! Compares what came back with what the script expects.
//!
//! Entries and references may come in any order, unless they are said to be sorted, results in
//! theirs; nothing that came may be missing from the script, except controls, which a server may
//! always add.

use std::fmt::Write as _;

use crate::request::{PAGED_RESULTS, SORT_RESPONSE, VLV_RESPONSE, read_entry_oid};
use crate::response::{
    Attributes, Body, Ended, Response, generated_password, paged_cookie, read_entry, sort_result,
    transaction_ended, vlv_found,
};
use crate::script::{Expected, ExpectedAttribute, ExpectedKind};
use crate::template::{Captures, Template, show_octets};

/// Notice of disconnection (RFC 4511 §4.4.1).
const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036";

/// What a step brought.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) responses: Vec<Response>,
    pub(crate) closed: bool,
}

/// What was wrong: the line of the expectation, 0 for the request's own, and a message.
pub(crate) type Mismatch = (usize, String);

/// Checks an answer against the expectations of its step.
pub(crate) fn check(
    expected: &[Expected],
    answer: &Answer,
    captures: &mut Captures,
) -> Result<(), Mismatch> {
    check_results(expected, answer, captures)?;
    check_entries(expected, answer, captures)?;
    check_references(expected, answer, captures)?;
    check_details(expected, answer, captures)?;
    check_end(expected, answer)
}

/// The number of a result code by the name RFC 4511 Appendix A gives it.
pub(crate) fn code_by_name(name: &str) -> Option<i64> {
    RESULT_CODES.iter().find(|(_, known)| *known == name).map(|(code, _)| *code)
}

fn code_name(code: i64) -> String {
    let known = RESULT_CODES.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| format!("code {code}"), |(_, name)| (*name).to_owned())
}

fn is_notice(response: &Response) -> bool {
    match &response.body {
        Body::Result(ended) => {
            response.id == 0 && ended.name.as_deref() == Some(NOTICE_OF_DISCONNECTION)
        }
        _ => false,
    }
}

fn results(answer: &Answer) -> Vec<(&Response, &Ended)> {
    let mut results = Vec::new();
    for response in &answer.responses {
        if let Body::Result(ended) = &response.body {
            results.push((response, ended));
        }
    }
    results
}

fn check_results(
    expected: &[Expected],
    answer: &Answer,
    captures: &mut Captures,
) -> Result<(), Mismatch> {
    let mut actual = results(answer).into_iter();
    for one in expected {
        match &one.kind {
            ExpectedKind::Notice { oid, value } => {
                let fine = actual.next().is_some_and(|(response, ended)| {
                    response.id == 0
                        && ended.name.as_deref() == Some(oid)
                        && value.as_ref().is_none_or(|form| {
                            ended.value.as_ref().is_some_and(|v| form.matches(v, captures))
                        })
                });
                if !fine {
                    return Err((one.line, format!("no such notice came{}", show(answer))));
                }
            }
            ExpectedKind::Result { code, matched, diagnostic, referrals } => {
                let Some((response, ended)) = actual.next() else {
                    return Err((one.line, format!("no such answer came{}", show(answer))));
                };
                let fine = !is_notice(response)
                    && ended.code == *code
                    && matched.matches(ended.matched.as_bytes(), captures)
                    && contains(&ended.diagnostic, diagnostic.as_deref())
                    && same_set(referrals, &as_octets(&ended.referrals), captures);
                if !fine {
                    return Err((one.line, format!("another result came{}", show(answer))));
                }
            }
            ExpectedKind::Disconnect { code } => match actual.next() {
                Some((response, ended)) if is_notice(response) && ended.code == *code => {}
                _ => return Err((one.line, format!("no such notice came{}", show(answer)))),
            },
            _ => {}
        }
    }
    match actual.next() {
        Some(_) => Err((0, format!("a result came that nothing expects{}", show(answer)))),
        None => Ok(()),
    }
}

fn contains(text: &str, part: Option<&str>) -> bool {
    part.is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
}

fn as_octets(texts: &[String]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.clone().into_bytes()).collect()
}

/// Whether each template has a value of its own and none is left over.
fn same_set(templates: &[Template], values: &[Vec<u8>], captures: &mut Captures) -> bool {
    let mut left: Vec<&Vec<u8>> = values.iter().collect();
    take_all(templates, &mut left, captures) && left.is_empty()
}

fn take_all(templates: &[Template], left: &mut Vec<&Vec<u8>>, captures: &mut Captures) -> bool {
    templates.iter().all(|template| {
        match left.iter().position(|value| template.matches(value, captures)) {
            Some(at) => {
                left.remove(at);
                true
            }
            None => false,
        }
    })
}

fn check_entries(
    expected: &[Expected],
    answer: &Answer,
    captures: &mut Captures,
) -> Result<(), Mismatch> {
    let mut left: Vec<(&String, &Attributes)> = Vec::new();
    for response in &answer.responses {
        if let Body::Entry { dn, attributes } = &response.body {
            left.push((dn, attributes));
        }
    }
    for one in expected {
        match &one.kind {
            ExpectedKind::Entry { dn, open, attributes } => {
                let at = left.iter().position(|(name, _)| dn.matches(name.as_bytes(), captures));
                let Some(at) = at else {
                    return Err((one.line, format!("the entry did not come{}", show(answer))));
                };
                let (_, actual) = left.remove(at);
                check_attributes(attributes, *open, actual, captures)
                    .map_err(|reason| (one.line, format!("{reason}{}", show(answer))))?;
            }
            ExpectedKind::Entries(count) => {
                if left.len() != *count {
                    return Err((one.line, format!("{} entries came", left.len())));
                }
                left.clear();
            }
            _ => {}
        }
    }
    match left.first() {
        Some((dn, _)) => Err((0, format!("an entry that nothing expects: {dn}{}", show(answer)))),
        None => Ok(()),
    }
}

fn check_attributes(
    expected: &[ExpectedAttribute],
    open: bool,
    actual: &Attributes,
    captures: &mut Captures,
) -> Result<(), String> {
    let mut left: Vec<&(String, Vec<Vec<u8>>)> = actual.iter().collect();
    for one in expected {
        let at = left.iter().position(|(name, _)| name.eq_ignore_ascii_case(&one.description));
        match at {
            None if one.absent => {}
            None => return Err(format!("{} is not there", one.description)),
            Some(_) if one.absent => return Err(format!("{} is there", one.description)),
            Some(at) => {
                let mut values = left.remove(at).1.iter().collect();
                if !take_all(&one.values, &mut values, captures) {
                    return Err(format!("a value of {} is missing", one.description));
                }
                if !one.open && !values.is_empty() {
                    return Err(format!("{} has more values", one.description));
                }
            }
        }
    }
    match left.first() {
        Some((name, _)) if !open => Err(format!("{name} is there too")),
        _ => Ok(()),
    }
}

fn check_references(
    expected: &[Expected],
    answer: &Answer,
    captures: &mut Captures,
) -> Result<(), Mismatch> {
    let urls = |response: &Response| match &response.body {
        Body::Reference(urls) => Some(as_octets(urls)),
        _ => None,
    };
    let mut left: Vec<Vec<Vec<u8>>> = answer.responses.iter().filter_map(urls).collect();
    for one in expected {
        if let ExpectedKind::Reference(templates) = &one.kind {
            match left.iter().position(|urls| same_set(templates, urls, captures)) {
                Some(at) => left.remove(at),
                None => return Err((one.line, format!("no such reference{}", show(answer)))),
            };
        }
    }
    if left.is_empty() {
        Ok(())
    } else {
        Err((0, format!("a reference came that nothing expects{}", show(answer))))
    }
}

/// Name, value and controls: what the last result carries besides its code.
fn check_details(
    expected: &[Expected],
    answer: &Answer,
    captures: &mut Captures,
) -> Result<(), Mismatch> {
    let last = results(answer).into_iter().rfind(|(response, _)| response.id != 0);
    let control = |oid: &str| {
        let (response, _) = last?;
        response.controls.iter().find(|(known, _)| known == oid).map(|(_, value)| value.as_deref())
    };
    let name = last.and_then(|(_, ended)| ended.name.as_deref());
    let value = last.and_then(|(_, ended)| ended.value.as_deref());
    for one in expected {
        let fine = match &one.kind {
            ExpectedKind::Name(form) => name.is_some_and(|n| form.matches(n.as_bytes(), captures)),
            ExpectedKind::Value(form) => value.is_some_and(|v| form.matches(v, captures)),
            ExpectedKind::Generated(form) => {
                let password = value.and_then(generated_password);
                password.is_some_and(|password| form.matches(&password, captures))
            }
            ExpectedKind::Control { oid, value: None } => control(oid).is_some(),
            ExpectedKind::Control { oid, value: Some(form) } => {
                control(oid).flatten().is_some_and(|value| form.matches(value, captures))
            }
            ExpectedKind::Failed(id) => {
                let ended = value.and_then(transaction_ended);
                ended.is_some_and(|ended| ended.failed == Some(*id))
            }
            ExpectedKind::ReadEntry { when, update, dn, open, attributes } => {
                let oid = read_entry_oid(*when);
                let found = match update {
                    None => control(oid).flatten().and_then(read_entry),
                    Some(id) => value.and_then(|value| read_in_transaction(value, *id, oid)),
                };
                let Some((name, actual)) = found else {
                    return Err((one.line, format!("no such entry was read{}", show(answer))));
                };
                check_attributes(attributes, *open, &actual, captures)
                    .map_err(|reason| (one.line, format!("{reason}{}", show(answer))))?;
                dn.matches(name.as_bytes(), captures)
            }
            ExpectedKind::Paged(form) => {
                let cookie = control(PAGED_RESULTS).flatten().and_then(paged_cookie);
                cookie.is_some_and(|cookie| form.matches(&cookie, captures))
            }
            ExpectedKind::Sort { code, attribute } => {
                let found = control(SORT_RESPONSE).flatten().and_then(sort_result);
                if *code == 0 {
                    check_order(expected, answer, captures)
                        .map_err(|reason| (one.line, format!("{reason}{}", show(answer))))?;
                }
                found == Some((*code, attribute.clone()))
            }
            ExpectedKind::Vlv { target, count, code, context } => {
                let found = control(VLV_RESPONSE).flatten().and_then(vlv_found);
                found.is_some_and(|found| {
                    (found.target, found.count, found.code) == (*target, *count, *code)
                        && context
                            .as_ref()
                            .is_none_or(|form| form.matches(&found.context, captures))
                })
            }
            _ => true,
        };
        if !fine {
            return Err((one.line, format!("the answer does not carry this{}", show(answer))));
        }
    }
    Ok(())
}

/// Sorted entries come in the order in which they are expected.
fn check_order(
    expected: &[Expected],
    answer: &Answer,
    captures: &mut Captures,
) -> Result<(), String> {
    let came = answer.responses.iter().filter_map(|response| match &response.body {
        Body::Entry { dn, .. } => Some(dn),
        _ => None,
    });
    let wanted = expected.iter().filter_map(|one| match &one.kind {
        ExpectedKind::Entry { dn, .. } => Some(dn),
        _ => None,
    });
    for (dn, want) in came.zip(wanted) {
        if !want.matches(dn.as_bytes(), captures) {
            return Err(format!("the entries come in another order, {dn} too early"));
        }
    }
    Ok(())
}

/// The entry in a control of one update of a transaction that ended.
fn read_in_transaction(value: &[u8], update: i64, oid: &str) -> Option<(String, Attributes)> {
    let ended = transaction_ended(value)?;
    let (_, controls) = ended.controls.into_iter().find(|(id, _)| *id == update)?;
    let (_, value) = controls.into_iter().find(|(known, _)| known == oid)?;
    read_entry(&value?)
}

fn check_end(expected: &[Expected], answer: &Answer) -> Result<(), Mismatch> {
    let wanted = expected.iter().find(|one| matches!(one.kind, ExpectedKind::Closed));
    let notice = expected.iter().any(|one| matches!(one.kind, ExpectedKind::Disconnect { .. }));
    match wanted {
        Some(one) if !answer.closed => Err((one.line, "the connection stays open".to_owned())),
        None if answer.closed && !notice => {
            Err((0, format!("the server closed the connection{}", show(answer))))
        }
        _ => Ok(()),
    }
}

/// The whole answer, for a person to read, each line indented.
fn show(answer: &Answer) -> String {
    let mut out = String::from("; the answer was:");
    for response in &answer.responses {
        out.push_str("\n      ");
        match &response.body {
            Body::Entry { dn, attributes } => {
                let _ = write!(out, "entry {dn}");
                for (name, values) in attributes {
                    if values.is_empty() {
                        let _ = write!(out, "\n        {name}");
                    }
                    for value in values {
                        let _ = write!(out, "\n        {name}: {}", show_octets(value));
                    }
                }
            }
            Body::Reference(urls) => {
                let _ = write!(out, "reference {}", urls.join(" "));
            }
            Body::Intermediate => out.push_str("intermediate response"),
            Body::Result(ended) => show_result(response, ended, &mut out),
        }
    }
    if answer.closed {
        out.push_str("\n      closed");
    } else if answer.responses.is_empty() {
        out.push_str(" nothing");
    }
    out
}

fn show_result(response: &Response, ended: &Ended, out: &mut String) {
    let _ = write!(out, "{} (id {})", code_name(ended.code), response.id);
    let _ = write!(out, " matched=\"{}\" diagnostic=\"{}\"", ended.matched, ended.diagnostic);
    for url in &ended.referrals {
        let _ = write!(out, " referral={url}");
    }
    if let Some(name) = &ended.name {
        let _ = write!(out, " name={name}");
    }
    if let Some(value) = &ended.value {
        let _ = write!(out, " value={}", show_octets(value));
    }
    for (oid, value) in &response.controls {
        let value = value.as_deref().map(show_octets).unwrap_or_default();
        let _ = write!(out, " control {oid} {value}");
    }
}

/// RFC 4511 Appendix A, RFC 3909 §2.3, RFC 4528 §3, RFC 4370 §3, draft-zeilenga-ldap-noop.
const RESULT_CODES: &[(i64, &str)] = &[
    (0, "success"),
    (1, "operationsError"),
    (2, "protocolError"),
    (3, "timeLimitExceeded"),
    (4, "sizeLimitExceeded"),
    (5, "compareFalse"),
    (6, "compareTrue"),
    (7, "authMethodNotSupported"),
    (8, "strongerAuthRequired"),
    (10, "referral"),
    (11, "adminLimitExceeded"),
    (12, "unavailableCriticalExtension"),
    (13, "confidentialityRequired"),
    (14, "saslBindInProgress"),
    (16, "noSuchAttribute"),
    (17, "undefinedAttributeType"),
    (18, "inappropriateMatching"),
    (19, "constraintViolation"),
    (20, "attributeOrValueExists"),
    (21, "invalidAttributeSyntax"),
    (32, "noSuchObject"),
    (33, "aliasProblem"),
    (34, "invalidDNSyntax"),
    (36, "aliasDereferencingProblem"),
    (48, "inappropriateAuthentication"),
    (49, "invalidCredentials"),
    (50, "insufficientAccessRights"),
    (51, "busy"),
    (52, "unavailable"),
    (53, "unwillingToPerform"),
    (54, "loopDetect"),
    (60, "sortControlMissing"),
    (61, "offsetRangeError"),
    (64, "namingViolation"),
    (65, "objectClassViolation"),
    (66, "notAllowedOnNonLeaf"),
    (67, "notAllowedOnRDN"),
    (68, "entryAlreadyExists"),
    (69, "objectClassModsProhibited"),
    (71, "affectsMultipleDSAs"),
    (76, "virtualListViewError"),
    (80, "other"),
    (118, "canceled"),
    (119, "noSuchOperation"),
    (120, "tooLate"),
    (121, "cannotCancel"),
    (122, "assertionFailed"),
    (123, "authorizationDenied"),
    (16654, "noOperation"),
];
