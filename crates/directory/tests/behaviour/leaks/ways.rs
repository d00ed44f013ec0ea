//! Every way to see an entry, asked one after the other: searches plain, in an order, in pages, as
//! part of a list and as a number; what stands in an entry; reads beside an update; rights told.

use std::collections::BTreeMap;

use ldap::ber::{Reader, Tag, Writer};
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvResponse, VlvTarget};
use ldap::message::{Control, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope};
use ldap::result::ResultCode;

use crate::counting::{Says, count_of};
use crate::support::{Answer, Asked, Client, modifications};

const SORT: &str = "1.2.840.113556.1.4.473";
const VLV: &str = "2.16.840.1.113730.3.4.9";
const VLV_RESPONSE: &str = "2.16.840.1.113730.3.4.10";
const PAGED: &str = "1.2.840.113556.1.4.319";
const PRE_READ: &str = "1.3.6.1.1.13.1";
const POST_READ: &str = "1.3.6.1.1.13.2";
const EFFECTIVE_RIGHTS: &str = "1.3.6.1.4.1.42.2.27.9.5.2";
const WHY: &str = "2.25.240622864993748405525653984067480598434.3.1";

/// What one way to search tells.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) way: String,
    pub(super) code: ResultCode,
    /// The names found, in alphabetical order; none where only a number is told.
    pub(super) names: Option<Vec<String>>,
    /// How many there are, where that is told for certain.
    pub(super) count: Option<u64>,
    /// How many there are at the most, where that is told.
    pub(super) most: Option<u64>,
}

impl Told {
    fn of(way: impl Into<String>, answer: &Answer) -> Self {
        let mut names: Vec<String> = answer.names().into_iter().map(str::to_owned).collect();
        names.sort_unstable();
        let code = answer.code();
        Self { way: way.into(), code, names: Some(names), count: None, most: None }
    }
}

/// What a search finds, whatever way it is asked. The first sort key has an index, the second has
/// none.
pub(super) fn searched(client: &mut Client, asked: &Asked<'_>, keys: [&str; 2]) -> Vec<Told> {
    let mut all = vec![Told::of("plain", &client.search(asked)), paged(client, asked, None)];
    for key in keys {
        for reverse in [false, true] {
            let sort = write_sort_keys(&[SortKey { attribute: key, rule: None, reverse }]);
            let controls = [(SORT, false, Some(sort.as_slice()))];
            let answer = client.search(&Asked { controls: &controls, ..asked.clone() });
            all.push(Told::of(format!("by {key}, reverse {reverse}"), &answer));
            all.push(listed(client, asked, (key, &sort)));
        }
        let sort = write_sort_keys(&[SortKey { attribute: key, rule: None, reverse: false }]);
        all.push(paged(client, asked, Some((key, &sort))));
    }
    for (examine_max, always_examine, even_unindexed) in
        [(0, false, false), (1_000, false, true), (1_000, true, true)]
    {
        all.push(counted(client, asked, Says { examine_max, always_examine, even_unindexed }));
    }
    all
}

/// All pages of one entry each.
fn paged(client: &mut Client, asked: &Asked<'_>, sort: Option<(&str, &[u8])>) -> Told {
    let way = format!("pages by {:?}", sort.map(|(key, _)| key));
    let mut cookie = Vec::new();
    let mut told: Option<Told> = None;
    loop {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let sequence = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, 1);
        writer.octets(Tag::OCTET_STRING, &cookie);
        writer.end(sequence);
        let mut controls = vec![(PAGED, true, Some(value.as_slice()))];
        controls.extend(sort.map(|(_, sort)| (SORT, false, Some(sort))));
        let answer = client.search(&Asked { controls: &controls, ..asked.clone() });
        let page = Told::of(way.clone(), &answer);
        match &mut told {
            None => told = Some(page),
            Some(told) => {
                assert_eq!(page.code, told.code, "{way}: {told:?}");
                told.names.as_mut().unwrap().extend(page.names.unwrap());
            }
        }
        let next = answer.controls.iter().find(|(oid, _)| oid == PAGED).map(|(_, value)| {
            let mut sequence = Reader::new(value).sequence(Tag::SEQUENCE).unwrap();
            assert_eq!(sequence.integer_i32(Tag::INTEGER), Ok(0), "how many there are is not told");
            sequence.octets(Tag::OCTET_STRING).unwrap().to_vec()
        });
        cookie = next.unwrap_or_default();
        if cookie.is_empty() {
            let mut told = told.unwrap();
            told.names.as_mut().unwrap().sort_unstable();
            return told;
        }
    }
}

/// The whole list as a view of it.
fn listed(client: &mut Client, asked: &Asked<'_>, (key, sort): (&str, &[u8])) -> Told {
    let target = VlvTarget::Offset { offset: 1, content_count: 0 };
    let view = VlvRequest { before: 0, after: 1_000, target, context: None }.encode();
    let controls = [(SORT, true, Some(sort)), (VLV, true, Some(view.as_slice()))];
    let answer = client.search(&Asked { controls: &controls, ..asked.clone() });
    let told = answer.controls.iter().find(|(oid, _)| oid == VLV_RESPONSE);
    let count = told.map(|(_, value)| VlvResponse::decode(value).unwrap().content_count);
    Told { count: count.map(u64::from), ..Told::of(format!("a list by {key}"), &answer) }
}

fn counted(client: &mut Client, asked: &Asked<'_>, says: Says) -> Told {
    let (answer, told) = count_of(client, asked, says);
    let number = told.trim_end_matches(", unindexed").rsplit(' ').next().unwrap().parse().ok();
    let is_exact = told.starts_with("examined") || told.starts_with("unexamined");
    let way = format!("a count, {told}");
    Told {
        names: None,
        count: number.filter(|_| is_exact),
        most: number.filter(|_| told.starts_with("at most")),
        ..Told::of(way, &answer)
    }
}

/// What stands in an entry.
pub(super) type Seen = BTreeMap<String, Vec<String>>;

/// What a search of one entry returns of it; none where it returns no entry.
pub(super) fn read(client: &mut Client, dn: &str, attributes: &[&str]) -> Option<Seen> {
    let asked = Asked { base: dn, scope: Scope::Base, attributes, ..Asked::default() };
    let answer = client.search(&asked);
    let entry = answer.entries.first()?;
    Some(entry.attributes.keys().map(|name| (name.clone(), entry.texts(name))).collect())
}

/// What an update that changes nothing reads before and after it; none where it is refused.
pub(super) fn read_beside(
    client: &mut Client,
    dn: &str,
    change: (&str, &str),
) -> Option<[Seen; 2]> {
    // A list of one selector, for all user attributes.
    let selection = b"\x30\x03\x04\x01*".as_slice();
    let list = modifications(&[(ModifyOperation::Replace, change.0, &[change.1])]);
    let modify = ModifyRequest { name: dn, changes: list.as_ref() };
    let mut controls = ControlsBuf::new();
    for oid in [PRE_READ, POST_READ] {
        controls.push(Control { oid, critical: true, value: Some(selection) });
    }
    let answer = client.request(Request::Modify(modify), controls.as_ref());
    if answer.code() != ResultCode::Success {
        assert!(answer.controls.is_empty(), "{dn}");
        return None;
    }
    Some([PRE_READ, POST_READ].map(|oid| {
        let (_, value) = answer.controls.iter().find(|(one, _)| one == oid).unwrap();
        let mut entry = Reader::new(value).sequence(Tag::application(4, true)).unwrap();
        entry.octets(Tag::OCTET_STRING).unwrap();
        let mut attributes = entry.sequence(Tag::SEQUENCE).unwrap();
        let mut seen = Seen::new();
        while attributes.peek_tag().is_some() {
            let mut attribute = attributes.sequence(Tag::SEQUENCE).unwrap();
            let name = attribute.string(Tag::OCTET_STRING).unwrap().to_owned();
            let mut set = attribute.sequence(Tag::SET).unwrap();
            let values = seen.entry(name).or_default();
            while set.peek_tag().is_some() {
                values.push(set.string(Tag::OCTET_STRING).unwrap().to_owned());
            }
        }
        seen
    }))
}

/// What the administrator is told of the rights of somebody by the effective rights control: those
/// to the entry (`add:0,…`), or to an attribute.
pub(super) fn effective(root: &mut Client, who: &str, dn: &str, what: &str) -> String {
    let name = format!("dn:{who}");
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let whole = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::OCTET_STRING, name.as_bytes());
    let list = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::OCTET_STRING, what.as_bytes());
    writer.end(list);
    writer.end(whole);
    let controls = [(EFFECTIVE_RIGHTS, true, Some(value.as_slice()))];
    let attributes = &["aclRights"];
    let asked =
        Asked { base: dn, scope: Scope::Base, attributes, controls: &controls, ..Asked::default() };
    let answer = root.search(&asked);
    let line = match what {
        "" => "aclRights;entryLevel".to_owned(),
        attribute => format!("aclRights;attributeLevel;{attribute}"),
    };
    answer.entries[0].texts(&line).concat()
}

/// Whether somebody has a right to an entry, or to an attribute of it, as `why` says it.
pub(super) fn why(
    root: &mut Client,
    who: &str,
    (dn, right): (&str, &str),
    attribute: Option<&str>,
) -> bool {
    let asked = serde_json::json!({
        "identity": who, "entry": dn, "right": right, "attribute": attribute,
    });
    let answer = root.extended(WHY, Some(asked.to_string().as_bytes()));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let told: serde_json::Value = serde_json::from_slice(&answer.value.unwrap()).unwrap();
    told["allowed"].as_bool().unwrap()
}
