//! Golden bytes: each file of `tests/wire` is one annotated message.
//!
//! A file decodes to the message written here, and that message encodes to the same octets; a file
//! named `lenient-…` holds a form we read and never write. No file is without its line here.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod shared;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ldap::ber::{Frame, frame};
use ldap::filter::{AvaFilter, ExtensibleFilter, Filter, SubstringFilter};
use ldap::message::*;
use ldap::result::ResultCode;
use shared::*;

const ADMIN: &str = "cn=admin,dc=example,dc=org";
const ANNA: &str = "uid=anna,ou=people,dc=example,dc=org";
const PEOPLE: &str = "ou=people,dc=example,dc=org";
const EXAMPLE: &str = "dc=example,dc=org";
const PAGED_RESULTS: &str = "1.2.840.113556.1.4.319";

#[test]
fn each_request_decodes_to_its_message_and_back() {
    let mut seen = BTreeSet::new();
    let groups =
        [bind_requests(), search_requests(), filters(), write_requests(), other_requests()];
    for (name, message) in groups.into_iter().flatten() {
        let bytes = golden(name);
        let decoded = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default());
        assert_eq!(decoded.as_ref(), Ok(&message), "{name}");
        let mut encoded = Vec::new();
        message.encode(&mut encoded);
        check_encoded(name, &bytes, &encoded);
        let again = Message::<Request<'_>>::decode(&encoded, &DecodeLimits::default());
        assert_eq!(again, Ok(message), "{name}");
        seen.insert(name);
    }
    assert_eq!(seen, files_with("request-"));
}

#[test]
fn each_response_decodes_to_its_message_and_back() {
    let mut seen = BTreeSet::new();
    for (name, message) in results().into_iter().chain(other_responses()) {
        let bytes = golden(name);
        let decoded = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default());
        assert_eq!(decoded, Ok(message.clone()), "{name}");
        let mut encoded = Vec::new();
        message.encode(&mut encoded);
        check_encoded(name, &bytes, &encoded);
        seen.insert(name);
    }
    assert_eq!(seen, files_with("response-"));
}

#[test]
fn the_frame_of_each_message_is_all_of_it_and_no_less() {
    for name in files_with("") {
        let mut bytes = golden(name);
        assert_eq!(frame(&bytes, 1024), Ok(Frame::Complete(bytes.len())), "{name}");
        for end in 0..bytes.len() {
            match frame(&bytes[..end], 1024) {
                Ok(Frame::Incomplete { need_at_least }) => {
                    assert!(need_at_least > end && need_at_least <= bytes.len(), "{name} {end}");
                }
                other => panic!("{name}: {other:?} of {end} octets"),
            }
        }
        let total = bytes.len();
        bytes.extend_from_slice(&[0x30, 0xFF]);
        assert_eq!(frame(&bytes, 1024), Ok(Frame::Complete(total)), "{name}");
    }
}

#[test]
fn a_message_cut_at_any_octet_is_refused() {
    for name in files_with("") {
        let bytes = golden(name);
        for end in 0..bytes.len() {
            let limits = DecodeLimits::default();
            assert!(Message::<Request<'_>>::decode(&bytes[..end], &limits).is_err(), "{name}");
            assert!(Message::<Response<'_>>::decode(&bytes[..end], &limits).is_err(), "{name}");
        }
    }
}

#[test]
fn a_request_is_no_response_and_a_response_no_request() {
    let limits = DecodeLimits::default();
    for name in files_with("request-") {
        let bytes = golden(name);
        let failure = Message::<Response<'_>>::decode(&bytes, &limits).unwrap_err();
        assert!(failure.id.is_some() && failure.tag.is_some(), "{name}");
    }
    for name in files_with("response-") {
        assert!(Message::<Request<'_>>::decode(&golden(name), &limits).is_err(), "{name}");
    }
}

/// Changes each octet of each message to each value: decoding must end, and what it accepts must
/// survive encoding.
#[test]
fn a_message_with_one_octet_changed_is_refused_or_means_something() {
    for name in files_with("") {
        let mut bytes = golden(name);
        for at in 0..bytes.len() {
            let right = bytes[at];
            for wrong in [0, 1, 2, 4, 0x0A, 0x30, 0x31, 0x7F, 0x80, 0x84, 0xA0, 0xA3, 0xFF] {
                bytes[at] = wrong;
                reencode(&bytes, name);
            }
            bytes[at] = right;
        }
    }
}

fn reencode(bytes: &[u8], name: &str) {
    let limits = DecodeLimits::default();
    let mut encoded = Vec::new();
    if let Ok(message) = Message::<Request<'_>>::decode(bytes, &limits) {
        message.encode(&mut encoded);
        assert_eq!(Message::<Request<'_>>::decode(&encoded, &limits), Ok(message), "{name}");
    } else if let Ok(message) = Message::<Response<'_>>::decode(bytes, &limits) {
        message.encode(&mut encoded);
        assert_eq!(Message::<Response<'_>>::decode(&encoded, &limits), Ok(message), "{name}");
    }
}

#[track_caller]
fn check_encoded(name: &str, golden: &[u8], encoded: &[u8]) {
    if name.starts_with("lenient-") {
        assert_ne!(encoded, golden, "{name} is what we write: not lenient");
        assert!(encoded.len() < golden.len(), "{name}");
    } else {
        assert_eq!(encoded, golden, "{name}");
    }
}

fn golden(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(directory().join(name).with_extension("hex"));
    unhex(&text.unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// The files of this kind, `lenient-` or not, without their ending.
fn files_with(kind: &str) -> BTreeSet<&'static str> {
    let files = fs::read_dir(directory()).unwrap();
    files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name.strip_prefix("lenient-").unwrap_or(name).starts_with(kind))
        .map(|name| &*name.leak())
        .collect()
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

type Requests = Vec<(&'static str, Message<'static, Request<'static>>)>;
type Responses = Vec<(&'static str, Message<'static, Response<'static>>)>;

const fn message<Op>(id: i32, op: Op) -> Message<'static, Op> {
    Message { id: MessageId(id), op, controls: Controls::EMPTY }
}

fn with_controls<Op>(id: i32, op: Op, list: &[Control<'_>]) -> Message<'static, Op> {
    Message { id: MessageId(id), op, controls: controls(list) }
}

fn bind_requests() -> Requests {
    let bind = |id, version, name, authentication| {
        message(id, Request::Bind(BindRequest { version, name, authentication }))
    };
    let external = Authentication::Sasl { mechanism: "EXTERNAL", credentials: None };
    let plain = Authentication::Sasl { mechanism: "PLAIN", credentials: Some(b"\0anna\0secret") };
    vec![
        ("request-bind-anonymous", bind(1, 3, "", Authentication::Simple(b""))),
        ("request-bind-simple", bind(1, 3, ADMIN, Authentication::Simple(b"secret"))),
        ("request-bind-sasl-external", bind(2, 3, "", external)),
        ("request-bind-sasl-plain", bind(3, 3, "", plain)),
        ("request-bind-other", bind(4, 2, "", Authentication::Other(1))),
        ("lenient-request-long-lengths", bind(1, 3, "", Authentication::Simple(b""))),
        ("request-unbind", message(127, Request::Unbind)),
    ]
}

/// A search below `dc=example,dc=org` for all attributes, as most of the files have it.
fn search(filter: Filter<'static>) -> SearchRequest<'static> {
    SearchRequest {
        base: EXAMPLE,
        scope: Scope::Subtree,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter,
        attributes: Strings::EMPTY,
    }
}

fn ava(description: &'static str, value: &'static [u8]) -> AvaFilter<'static> {
    AvaFilter { description, value: value.into() }
}

fn search_requests() -> Requests {
    let root_dse = SearchRequest {
        base: "",
        scope: Scope::Base,
        attributes: strings(&["+", "*"]),
        ..search(Filter::Present("objectClass"))
    };
    let uid = SearchRequest {
        attributes: strings(&["mail"]),
        ..search(Filter::Equality(ava("uid", b"user.12345")))
    };
    let limits = SearchRequest {
        base: PEOPLE,
        scope: Scope::One,
        deref: DerefAliases::Always,
        size_limit_entries: 2_147_483_647,
        time_limit_s: 30,
        types_only: true,
        attributes: strings(&["1.1"]),
        ..search(Filter::Present("cn"))
    };
    let subordinate = SearchRequest {
        scope: Scope::Subordinate,
        deref: DerefAliases::InSearching,
        size_limit_entries: 128,
        time_limit_s: 255,
        ..search(Filter::Present("cn"))
    };
    let page = control(PAGED_RESULTS, true, Some(b"\x30\x05\x02\x01\x64\x04\x00"));
    let paged = Request::Search(search(Filter::Present("objectClass")));
    vec![
        ("request-search-root-dse", message(2, Request::Search(root_dse))),
        ("request-search-uid", message(128, Request::Search(uid))),
        ("request-search-limits", message(i32::MAX, Request::Search(limits))),
        ("request-search-subordinate", message(5, Request::Search(subordinate))),
        ("request-search-paged", with_controls(13, paged, &[page])),
    ]
}

fn filters() -> Requests {
    let or = Filter::Or(vec![
        Filter::Equality(ava("sn", b"a")),
        Filter::Not(Box::new(Filter::Equality(ava("sn", b"b")))),
    ]);
    let boolean = SearchRequest {
        deref: DerefAliases::FindingBase,
        ..search(Filter::And(vec![Filter::Equality(ava("objectClass", b"person")), or]))
    };
    let ordering = Filter::And(vec![
        Filter::GreaterOrEqual(ava("age", b"18")),
        Filter::LessOrEqual(ava("age", b"65")),
        Filter::Approx(ava("sn", b"meier")),
    ]);
    let substrings = |description, initial: Option<&'static str>, any: &[&'static str], final_| {
        let octets = |text: &'static str| text.as_bytes().into();
        Filter::Substrings(SubstringFilter {
            description,
            initial: initial.map(octets),
            any: any.iter().map(|&text| octets(text)).collect(),
            final_: Option::map(final_, octets),
        })
    };
    let extensible = |rule, description, value: &'static str, dn_attributes| {
        let value = value.as_bytes().into();
        Filter::Extensible(ExtensibleFilter { rule, description, value, dn_attributes })
    };
    let request = |id, filter| message(id, Request::Search(search(filter)));
    let rule = Some("2.4.6.8.10");
    vec![
        ("request-search-boolean", message(6, Request::Search(boolean))),
        ("request-search-absolute-true", request(7, Filter::And(vec![]))),
        ("request-search-absolute-false", request(7, Filter::Or(vec![]))),
        (
            "request-search-substrings",
            request(8, substrings("cn", Some("ba"), &["na", "na"], Some("s"))),
        ),
        ("request-search-substring-any", request(8, substrings("mail", None, &["@example"], None))),
        ("request-search-ordering", request(9, ordering)),
        ("request-search-extensible", request(10, extensible(rule, Some("ou"), "people", true))),
        (
            "request-search-extensible-rule",
            request(11, extensible(Some("caseExactMatch"), None, "Anna", false)),
        ),
        (
            "lenient-request-extensible-default",
            request(2, extensible(None, Some("cn"), "x", false)),
        ),
        (
            "request-search-octets",
            request(12, Filter::Equality(ava("jpegPhoto", &[0, 0xFF, 0x28, 0x2A, 0x80]))),
        ),
    ]
}

fn write_requests() -> Requests {
    let changes = modifications(&[
        (ModifyOperation::Add, "mail", &["a@example.org", "b@example.org"]),
        (ModifyOperation::Delete, "title", &[]),
        (ModifyOperation::Replace, "description", &[]),
        (ModifyOperation::Increment, "uidNumber", &["1"]),
    ]);
    let entry = attributes(&[
        ("objectClass", &["top", "person", "inetOrgPerson"]),
        ("uid", &["anna"]),
        ("cn", &["Anna Å"]),
        ("sn;lang-sv", &["Å"]),
        ("description", &[""]),
    ]);
    let modify = |changes| message(14, Request::Modify(ModifyRequest { name: ANNA, changes }));
    let add = |name, attributes| message(15, Request::Add(AddRequest { name, attributes }));
    let rename = |name, new_rdn, delete_old_rdn, new_superior| {
        let request = ModifyDnRequest { name, new_rdn, delete_old_rdn, new_superior };
        message(17, Request::ModifyDn(request))
    };
    let tree = control("1.2.840.113556.1.4.805", true, None);
    let delete = |name| Request::Delete(DeleteRequest { name });
    vec![
        ("request-modify", modify(changes)),
        ("request-modify-nothing", modify(Modifications::EMPTY)),
        ("request-add", add(ANNA, entry)),
        ("request-add-empty", add("o=x", Attributes::EMPTY)),
        ("request-delete", message(16, delete(ANNA))),
        ("request-delete-tree", with_controls(16, delete(PEOPLE), &[tree])),
        ("request-modify-dn", rename(ANNA, "uid=anne", true, None)),
        (
            "request-modify-dn-superior",
            rename(ANNA, "uid=anna", false, Some("ou=alumni,dc=example,dc=org")),
        ),
        ("request-modify-dn-root", rename("o=a", "o=b", true, Some(""))),
    ]
}

fn other_requests() -> Requests {
    let compare = |id, name, description, value| {
        message(id, Request::Compare(CompareRequest { name, description, value }))
    };
    let extended = |id, oid, value| message(id, Request::Extended(ExtendedRequest { oid, value }));
    let forms = [
        control("1.1", false, None),
        control("1.2", true, None),
        control("1.3", false, Some(b"v")),
        control("1.4", true, Some(b"w")),
        control("1.5", false, Some(b"")),
    ];
    let plain = [control("1.1", false, None)];
    let password: Option<&[u8]> = Some(&[0x30, 0]);
    let future = compare(3, "o=x", "o", b"x");
    vec![
        ("request-compare", compare(18, ANNA, "sn", b"berg")),
        ("request-abandon", message(32_768, Request::Abandon(MessageId(5)))),
        ("request-extended-start-tls", extended(19, "1.3.6.1.4.1.1466.20037", None)),
        ("request-extended-password", extended(20, "1.3.6.1.4.1.4203.1.11.1", password)),
        ("request-controls", with_controls(21, Request::Unbind, &forms)),
        ("lenient-request-control-default", with_controls(2, Request::Unbind, &plain)),
        ("lenient-request-future", with_controls(3, future.op, &plain)),
    ]
}

fn results() -> Responses {
    let done = LdapResult::new(ResultCode::Success);
    let said = |code, diagnostic| LdapResult { diagnostic, ..LdapResult::new(code) };
    let missing =
        LdapResult { matched_dn: EXAMPLE, ..said(ResultCode::NoSuchObject, "no such entry") };
    let referral = LdapResult {
        referrals: strings(&["ldap://hostb/OU=People,O=MNN,C=WW??sub", "ldap://hostc/"]),
        ..LdapResult::new(ResultCode::Referral)
    };
    let cookie = control(PAGED_RESULTS, false, Some(b"\x30\x09\x02\x01\x00\x04\x04next"));
    let exists = said(ResultCode::EntryAlreadyExists, "entry exists");
    let code = LdapResult::new;
    vec![
        ("response-search-done", message(2, Response::SearchDone(done))),
        ("response-search-done-missing", message(2, Response::SearchDone(missing))),
        ("response-search-done-referral", message(2, Response::SearchDone(referral))),
        ("response-search-done-paged", with_controls(13, Response::SearchDone(done), &[cookie])),
        ("response-modify", message(14, Response::Modify(done))),
        ("response-add", message(15, Response::Add(exists))),
        ("response-delete", message(16, Response::Delete(code(ResultCode::NotAllowedOnNonLeaf)))),
        (
            "response-modify-dn",
            message(17, Response::ModifyDn(code(ResultCode::AffectsMultipleDsas))),
        ),
        ("response-compare", message(18, Response::Compare(code(ResultCode::CompareTrue)))),
        ("response-unknown-code", message(18, Response::Compare(code(ResultCode::Unknown(4097))))),
    ]
}

fn other_responses() -> Responses {
    let bind = |id, code, server_sasl_credentials| {
        message(id, Response::Bind { result: LdapResult::new(code), server_sasl_credentials })
    };
    let entry = |dn, attributes| message(2, Response::SearchEntry { dn, attributes });
    let extended = |id, code, diagnostic, oid, value: Option<&'static [u8]>| {
        let result = LdapResult { diagnostic, ..LdapResult::new(code) };
        message(id, Response::Extended { result, oid, value })
    };
    let challenge: Option<&[u8]> = Some(b"challenge");
    let anna: &[(&str, &[&str])] =
        &[("cn", &["Anna", "Anna Berg"]), ("mail", &["anna@example.org"])];
    let (long_a, long_b) = ("x".repeat(100), "y".repeat(300));
    let references = strings(&[
        "ldap://hosta/OU=People,O=MNN,C=WW??sub",
        "ldap://hostf/OU=Consultants,OU=People,O=MNN,C=WW??sub",
    ]);
    let intermediate = |oid, value| message(22, Response::Intermediate { oid, value });
    let who = Some(b"dn:cn=admin,dc=example,dc=org".as_slice());
    let notice = Some(ldap::encode::NOTICE_OF_DISCONNECTION);
    vec![
        ("response-bind", bind(1, ResultCode::Success, None)),
        ("response-bind-refused", bind(1, ResultCode::InvalidCredentials, None)),
        ("response-bind-sasl", bind(3, ResultCode::SaslBindInProgress, challenge)),
        ("response-search-entry", entry(ANNA, attributes(anna))),
        ("response-search-entry-types", entry(ANNA, attributes(&[("cn", &[]), ("mail", &[])]))),
        ("response-search-entry-none", entry("", Attributes::EMPTY)),
        (
            "response-search-entry-long",
            entry("o=x", attributes(&[("a", &[&long_a]), ("b", &[&long_b])])),
        ),
        ("response-search-reference", message(2, Response::SearchReference(references))),
        (
            "response-extended",
            extended(19, ResultCode::ProtocolError, "unknown operation", None, None),
        ),
        ("response-extended-value", extended(20, ResultCode::Success, "", None, who)),
        (
            "response-notice-of-disconnection",
            extended(0, ResultCode::Unavailable, "server is shutting down", notice, None),
        ),
        (
            "response-intermediate",
            intermediate(Some("1.3.6.1.4.1.4203.1.9.1.4"), Some(b"\x80\x01c".as_slice())),
        ),
        ("response-intermediate-empty", intermediate(None, None)),
    ]
}
