//! The matching entry count control: how many entries a search has, without any of them.

use ldap::ber::{Reader, Tag, Writer};
use ldap::message::Scope;
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, SUFFIX, Served};

pub(crate) const REQUEST: &str = "1.3.6.1.4.1.30221.2.5.36";
const RESPONSE: &str = "1.3.6.1.4.1.30221.2.5.37";

/// What a count request says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Says {
    pub(crate) examine_max: i64,
    pub(crate) always_examine: bool,
    pub(crate) even_unindexed: bool,
}

/// What the answer says: examined, unexamined, at most or unknown, and whether it was indexed.
pub(crate) fn count(client: &mut Client, base: &str, filter: &str, says: Says) -> (Answer, String) {
    count_of(client, &Asked { base, filter, ..Asked::default() }, says)
}

/// The value of a request.
pub(crate) fn request_value(says: Says) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let whole = writer.begin(Tag::SEQUENCE);
    writer.integer(Tag::context(0, false), says.examine_max);
    writer.boolean(Tag::context(1, false), says.always_examine);
    writer.boolean(Tag::context(2, false), says.even_unindexed);
    writer.boolean(Tag::context(3, false), true);
    writer.end(whole);
    value
}

/// What is said of any search.
pub(crate) fn count_of(client: &mut Client, asked: &Asked<'_>, says: Says) -> (Answer, String) {
    let value = request_value(says);
    let controls = [(REQUEST, true, Some(value.as_slice()))];
    let answer = client.search(&Asked { controls: &controls, ..asked.clone() });
    assert!(answer.entries.is_empty());
    let told = answer.controls.iter().find(|(oid, _)| oid == RESPONSE).map(|(_, value)| {
        let mut fields = Reader::new(value).sequence(Tag::SEQUENCE).unwrap();
        let kind = fields.peek_tag().unwrap();
        let number = match kind.number() {
            3 => fields.octets(kind).map(|_| 0).unwrap(),
            _ => fields.integer_i32(kind).unwrap(),
        };
        if fields.peek_tag() == Some(Tag::context(0, true)) {
            fields.sequence(Tag::context(0, true)).unwrap();
        }
        let is_indexed = fields.peek_tag().is_none();
        let name = ["examined", "unexamined", "at most", "unknown"][usize::from(kind.number())];
        format!("{name} {number}{}", if is_indexed { "" } else { ", unindexed" })
    });
    (answer, told.unwrap_or_default())
}

#[test]
fn a_count_is_as_exact_as_the_plan_and_the_client_want_it() {
    for inline_candidates_max in [0, 1_000] {
        let served = Served::with(|options| {
            options.limits.inline_candidates_max = inline_candidates_max;
            options.limits.size_limit_entries = 2;
        });
        add_devices(&served, 7, "x");
        let mut client = served.client();
        let mut check = |filter: &str, says: Says, want: &str| {
            let (answer, told) = count(&mut client, SUFFIX, filter, says);
            assert_eq!(answer.code(), ResultCode::Success, "{filter}: {}", answer.diagnostic);
            assert_eq!(told, want, "{filter}");
        };
        let nothing = Says::default();
        let looking = Says { examine_max: 100, ..nothing };
        check("(objectClass=device)", nothing, "unexamined 7");
        check("(objectClass=device)", looking, "unexamined 7");
        check("(objectClass=device)", Says { always_examine: true, ..looking }, "examined 7");
        check("(objectClass=*)", nothing, "unexamined 8");
        check("(cn=nobody)", nothing, "unexamined 0");
        check("(description=x)", nothing, "unknown 0, unindexed");
        let all = Says { even_unindexed: true, ..nothing };
        check("(description=x)", all, "examined 7, unindexed");
        // What one may not search is not counted, whatever an index knows.
        check("(userPassword=*)", nothing, "unknown 0, unindexed");
        check("(|(objectClass=device)(userPassword=*))", all, "examined 7, unindexed");
    }
}

#[test]
fn a_count_has_no_pages() {
    let served = Served::new();
    let mut client = served.client();
    let paged: &[u8] = b"\x30\x05\x02\x01\x05\x04\x00";
    let controls =
        [(REQUEST, true, Some(&b"\x30\x00"[..])), ("1.2.840.113556.1.4.319", true, Some(paged))];
    let answer = client.search(&Asked { controls: &controls, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
}

#[test]
fn a_count_of_one_entry_is_one() {
    let served = Served::new();
    let mut client = served.client();
    let controls = [(REQUEST, true, Some(&b"\x30\x03\x80\x01\x05"[..]))];
    let search =
        Asked { base: SUFFIX, scope: Scope::Base, controls: &controls, ..Asked::default() };
    let answer = client.search(&search);
    assert_eq!(answer.code(), ResultCode::Success);
    assert_eq!(answer.controls[0].1[2..], [0x80, 1, 1]);
}
