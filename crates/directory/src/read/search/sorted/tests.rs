//! How much is done for the parts of a long list. ListWork is counted, so that it is the same each
//! time: `LIST_ENTRIES=100000` makes the list as long as one likes, and the figures are printed.
#![allow(clippy::print_stdout, reason = "a figure is to be read")]

use std::cell::Cell;
use std::sync::Arc;

use aci::GlobalAcis;
use environment::{ManualClock, Timestamp};
use ldap::ber::Tag;
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvResponse, VlvTarget};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{
    Control, ControlsBuf, DecodeLimits, DerefAliases, Message, MessageId, Request, Response, Scope,
    SearchRequest, StringsBuf,
};
use ldap::result::ResultCode;
use offline::{ImportOptions, Source, import};

use super::sorting::ListWork;
use crate::directory::Directory;
use crate::options::DirectoryOptions;
use crate::request::controls::{sort, vlv};
use crate::request::session::{Peer, Session};
use crate::request::worker::{Next, Worker};

const SUFFIX: &str = "dc=example,dc=com";
const PAGE: u64 = 20;

thread_local! {
    static WORK: Cell<ListWork> = const { Cell::new(ListWork { groups: 0, entries: 0 }) };
}

/// Remembers what the last answer on this thread took.
pub(super) fn note(work: ListWork) {
    WORK.set(work);
}

struct Listed {
    worker: Worker,
    session: Session,
    context: Vec<u8>,
}

impl Listed {
    /// The names of a part, the position of its target, the list's length, and what it took.
    fn part(&mut self, key: &SortKey<'_>, target: VlvTarget<'_>) -> (Vec<String>, u64, ListWork) {
        let context = self.context.clone();
        let context = (!context.is_empty()).then_some(context.as_slice());
        let request = VlvRequest { before: 0, after: PAGE as u32 - 1, target, context };
        let (keys, part) = (write_sort_keys(&[*key]), request.encode());
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: sort::OID, critical: true, value: Some(&keys) });
        controls.push(Control { oid: vlv::OID, critical: true, value: Some(&part) });
        let mut attributes = StringsBuf::new();
        attributes.push("1.1");
        let search = SearchRequest {
            base: SUFFIX,
            scope: Scope::Subtree,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::parse("(objectClass=inetOrgPerson)").unwrap(),
            attributes: attributes.as_ref(),
        };
        let (mut message, mut out) = (Vec::new(), Vec::new());
        let op = Request::Search(search);
        Message { id: MessageId(1), op, controls: controls.as_ref() }.encode(&mut message);
        let next = self.worker.handle(&mut self.session, &message, &mut out);
        assert!(matches!(next, Next::Answered(_)), "it is answered here");
        let mut names = Vec::new();
        let mut reader = ldap::ber::Reader::new(&out);
        let mut count = 0;
        while !reader.is_empty() {
            let mut whole = Vec::new();
            let content = reader.read(Tag::SEQUENCE).unwrap();
            ldap::ber::Writer::new(&mut whole).octets(Tag::SEQUENCE, content);
            let limits = DecodeLimits::default();
            let answer = Message::<Response<'_>>::decode(&whole, &limits).unwrap();
            match answer.op {
                Response::SearchEntry { dn, .. } => names.push(dn.to_owned()),
                Response::SearchDone(result) => {
                    assert_eq!(result.code, ResultCode::Success, "{}", result.diagnostic);
                    let mut said = answer.controls.iter().filter(|one| one.oid == vlv::RESPONSE);
                    let said = said.next().unwrap().value.unwrap();
                    let said = VlvResponse::decode(said).unwrap();
                    count = u64::from(said.content_count);
                    self.context = said.context.unwrap().to_vec();
                }
                other => panic!("{other:?}"),
            }
        }
        (names, count, WORK.get())
    }
}

fn listed(entries: u64) -> (tempfile::TempDir, Listed) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let clock = || ManualClock::at(Timestamp(1_700_000_000_000_000));
    Directory::init(
        &data,
        &[Dn::parse(SUFFIX).unwrap()],
        None,
        GlobalAcis::Public,
        Arc::new(clock()),
    )
    .unwrap();
    let mut ldif = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..entries {
        // In another order than that of the ids.
        let name = number * 7919 % entries;
        ldif.push_str(&format!(
            "dn: uid=u{name:07},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: u{name:07}\n\
             cn: c\nsn: s{}\n\n",
            name % 50
        ));
    }
    let sources = vec![Source::new("test", ldif.as_bytes())];
    import(&data, sources, &ImportOptions::default(), &clock(), &mut ()).unwrap();
    let mut options = DirectoryOptions::new(data);
    options.limits.inline_candidates_max = u64::MAX;
    options.journal_segment_bytes = 1 << 20;
    let directory = Directory::open(options, Arc::new(clock())).unwrap();
    let (worker, session) = (directory.worker(), directory.session(Peer::default()));
    (dir, Listed { worker, session, context: Vec::new() })
}

#[test]
fn a_part_near_the_one_before_is_reached_from_there() {
    let entries: u64 = match std::env::var("LIST_ENTRIES") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 5_003,
    };
    let (_dir, mut list) = listed(entries);
    let key = SortKey { attribute: "uid", rule: None, reverse: false };
    let at = |offset: u64| VlvTarget::Offset { offset: offset as i32, content_count: 0 };
    let name = |number: u64| format!("uid=u{number:07},{SUFFIX}");
    let check = |list: &mut Listed, what: &str, offset: u64, groups_max, entries_max| {
        let (names, count, work) = list.part(&key, at(offset));
        println!("{what}: {work:?} of {entries}");
        assert_eq!(count, entries);
        let want: Vec<String> = (offset - 1..(offset - 1 + PAGE).min(entries)).map(name).collect();
        assert_eq!(names, want, "{what}");
        assert!(work.groups <= groups_max && work.entries <= entries_max, "{what}: {work:?}");
    };
    let (middle, last) = (entries / 2, entries - PAGE + 1);
    check(&mut list, "the first page", 1, PAGE, PAGE);
    check(&mut list, "the middle", middle, middle + PAGE, PAGE);
    check(&mut list, "the page after it", middle + PAGE, 3 * PAGE, 4 * PAGE);
    check(&mut list, "the page before that", middle, 3 * PAGE, 4 * PAGE);
    check(&mut list, "two pages on", middle + 2 * PAGE, 5 * PAGE, 6 * PAGE);
    check(&mut list, "the last page", last, entries + 1, PAGE);
    check(&mut list, "the page before the last", last - PAGE, 3 * PAGE, 4 * PAGE);
    list.context.clear();
    check(&mut list, "the last page, at once", last, entries + 1, PAGE);
    list.context.clear();
    let (names, _, work) = list.part(&key, VlvTarget::Value(b"u0000777"));
    println!("by a value: {work:?}");
    assert_eq!(names.first(), Some(&name(777)));
    // Few values of many entries each: groups are long, and few.
    list.context.clear();
    let many = SortKey { attribute: "sn", rule: None, reverse: true };
    let (names, _, work) = list.part(&many, at(middle));
    println!("few values, the middle, in reverse: {work:?}");
    assert_eq!(names.len() as u64, PAGE);
    assert!(work.groups <= 103 && work.entries == PAGE, "{work:?}");
}
