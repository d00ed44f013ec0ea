//! The octets of entries, memberships and votes, and what is refused.

use super::*;

const PLACE: JournalPosition = JournalPosition { term: 7, index: 3 };

fn node(number: u64) -> Node {
    Node { address: format!("n{number}:1636"), ..Node::default() }
}

fn members() -> Membership {
    let nodes = BTreeMap::from([(1, node(1)), (2, node(2)), (0x0103, node(3))]);
    let both = vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 0x0103])];
    Membership::new(both, nodes).unwrap()
}

/// Octets of [`members`].
fn membership_octets() -> Vec<u8> {
    let mut octets = vec![0xff, 0xff, 1, 2];
    let number = |octets: &mut Vec<u8>, number: u64| octets.extend(number.to_le_bytes());
    for voters in [[1, 2], [2, 0x0103]] {
        octets.push(2);
        voters.iter().for_each(|id| number(&mut octets, *id));
    }
    octets.push(3);
    for (id, address) in [(1, b"n1:1636"), (2, b"n2:1636"), (0x0103, b"n3:1636")] {
        number(&mut octets, id);
        octets.extend([7, 0]);
        octets.extend(address);
        octets.extend([0, 0]);
    }
    octets
}

#[track_caller]
fn check(payload: &EntryPayload<RecordBytes, u64, Node>, octets: &[u8]) {
    assert_eq!(*encode(payload), *octets);
    let entry = decode(PLACE, octets.into()).unwrap();
    assert_eq!(entry.payload, *payload);
    assert_eq!(entry.log_id, LogId::new(7.into(), 2));
    assert_eq!(place(&entry.log_id), PLACE);
    // An end that is missing is noticed, but for records, which end where they end.
    if !matches!(payload, EntryPayload::Normal(_)) {
        for length in 0..octets.len() {
            assert!(decode(PLACE, octets[..length].into()).is_err(), "{length} octets");
        }
        let longer = [octets, &[0]].concat();
        assert!(decode(PLACE, longer.into()).is_err());
    }
}

#[test]
fn entries_have_the_octets_they_always_had() {
    check(&EntryPayload::Blank, &[0, 0]);
    check(&EntryPayload::Normal(RecordBytes(Arc::from(*b"any record"))), b"any record");
    check(&EntryPayload::Membership(members()), &membership_octets());
}

#[test]
fn a_record_is_not_copied() {
    let record: Arc<[u8]> = Arc::from(*b"any record");
    let payload = EntryPayload::Normal(RecordBytes(Arc::clone(&record)));
    assert!(Arc::ptr_eq(&encode(&payload), &record));
    let entry = decode(PLACE, Arc::clone(&record)).unwrap();
    assert!(matches!(entry.payload, EntryPayload::Normal(read) if Arc::ptr_eq(&read.0, &record)));
}

#[test]
fn there_is_one_form_of_a_membership() {
    let octets = membership_octets();
    let changed = |at: usize, octet: u8| {
        let mut octets = octets.clone();
        octets[at] = octet;
        decode(PLACE, octets.into()).map(|_| ()).unwrap_err()
    };
    let later = Malformed("who takes part is written in a form of a later release");
    assert_eq!(changed(2, 3), later);
    // The first voter is the second, or comes after it.
    assert_eq!(changed(5, 2), DISORDER);
    assert_eq!(changed(5, 3), DISORDER);
    // The number of the first member, which is a voter, too.
    assert_eq!(changed(39, 2), DISORDER);
    let nobody = Malformed("a voter is not among those who take part, or there is none");
    assert_eq!(changed(39, 0), nobody);
    assert_eq!(changed(48, 5), Malformed("an address is too long"));
    assert_eq!(changed(49, 0xff), Malformed("an address is not UTF-8"));
}

#[test]
fn votes_have_the_octets_they_always_had() {
    let octets = [2, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1];
    let vote = Vote::new_committed(0x0102, 9);
    assert_eq!(encode_vote(&vote), octets);
    assert_eq!(decode_vote(&octets), Ok(vote));
    let asked = Vote::new(0x0102, 9);
    assert_eq!(encode_vote(&asked)[16], 0);
    assert_eq!(decode_vote(&encode_vote(&asked)), Ok(asked));
    let neither = [&octets[..16], &[2]].concat();
    assert_eq!(decode_vote(&neither), Err(Malformed("a vote is neither given nor agreed on")));
    assert!(decode_vote(&octets[..16]).is_err());
    assert_eq!(decode_vote(&[&octets[..], &[0]].concat()), Err(Malformed("octets follow a vote")));
}

#[test]
fn any_octets_are_read_or_refused() {
    let octets = membership_octets();
    arbitrary::check_entry(&octets);
    // Every octet of a membership changed in every way.
    for at in 0..octets.len() {
        for octet in 0..=255 {
            let mut changed = octets.clone();
            changed[at] = octet;
            arbitrary::check_entry(&changed);
            arbitrary::check_vote(&changed[at..]);
        }
    }
}

/// The log keeps what is in it: an address that nobody can read would stop all of them.
#[test]
fn members_that_could_not_be_read_are_refused_before_they_are_written() {
    let check = |members: BTreeMap<u64, Node>| check_members(members.iter());
    let longest = Node { address: "a".repeat(ADDRESS_MAX_BYTES), ..Node::default() };
    let most: BTreeMap<u64, Node> = (0..255).map(|id| (id, longest.clone())).collect();
    assert_eq!(check(most.clone()), Ok(()));
    let voters = most.keys().copied().collect();
    let membership = Membership::new(vec![voters], most.clone()).unwrap();
    check_read(&EntryPayload::Membership(membership));
    let mut more = most;
    more.insert(255, node(1));
    assert!(check(more).is_err());
    let url = "u".repeat(ADDRESS_MAX_BYTES + 1);
    assert!(check(BTreeMap::from([(1, Node { url, ..node(1) })])).is_err());
}

/// Those without one are written as before there were any.
#[test]
fn a_key_is_written_where_a_member_has_one() {
    let key = "k".repeat(43);
    let nodes = BTreeMap::from([(1, node(1)), (2, Node { key, ..node(2) })]);
    let membership = Membership::new(vec![BTreeSet::from([1])], nodes).unwrap();
    let mut octets = encode_membership(&membership);
    assert_eq!(octets[2], 2);
    check_read(&EntryPayload::Membership(membership));
    let none = Membership::new(vec![BTreeSet::from([1])], BTreeMap::from([(1, node(1))])).unwrap();
    octets = encode_membership(&none);
    assert_eq!(octets[2], 1);
    octets[2] = 2;
    octets.extend([0, 0]);
    assert!(decode_membership(&octets[2..]).is_err(), "one form for one set of members");
}

#[track_caller]
fn check_read(payload: &EntryPayload<RecordBytes, u64, Node>) {
    assert_eq!(decode(PLACE, encode(payload)).unwrap().payload, *payload);
}

/// Each paragraph of the example of the page, as octets: what is before two spaces in a line.
fn example() -> Vec<Vec<u8>> {
    let page = include_str!("../../../../docs/journal-format.md");
    let section = page.split("\n## Entries and votes of a cluster\n").nth(1).unwrap();
    let shown = section.split("```hex\n").nth(1).and_then(|rest| rest.split("```").next());
    let octets = |paragraph: &str| {
        let hex = paragraph.lines().filter_map(|line| line.split("  ").next());
        hex.flat_map(|hex| hex.split(' '))
            .map(|octet| u8::from_str_radix(octet, 16).unwrap())
            .collect()
    };
    shown.unwrap().split("\n\n").map(octets).collect()
}

#[test]
fn the_page_shows_the_octets_that_are_written() {
    let member = |address: &str, url: &str| {
        let (address, url) = (address.into(), url.into());
        Node { address, url, ..Node::default() }
    };
    let members =
        [(1, member("a:1636", "")), (2, member("b:1636", "")), (3, member("c:1636", "ldap://c"))];
    let both = vec![BTreeSet::from([1, 2]), BTreeSet::from([1, 2, 3])];
    let joint = Membership::new(both, BTreeMap::from(members)).unwrap();
    let vote = encode_vote(&Vote::new_committed(4, 2)).to_vec();
    assert_eq!(example(), [encode_membership(&joint), vote]);
}
