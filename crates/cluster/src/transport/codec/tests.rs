//! Requests and responses read back the same; what no node would write is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use openraft::EntryPayload;
use proptest::prelude::*;

use super::*;
use crate::test_support;
use crate::transport::frame::APPEND_MAX_BYTES;
use crate::types::{Membership, Node, RecordBytes};

fn votes() -> impl Strategy<Value = Vote> {
    (any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(term, node, is_committed)| {
        if is_committed { Vote::new_committed(term, node) } else { Vote::new(term, node) }
    })
}

fn log_ids() -> impl Strategy<Value = Option<LogId>> {
    let id = (any::<u64>(), 0..u64::MAX).prop_map(|(term, index)| LogId::new(term.into(), index));
    proptest::option::of(id)
}

fn payloads() -> impl Strategy<Value = EntryPayload<RecordBytes, u64, Node>> {
    let record = proptest::collection::vec(any::<u8>(), 0..40).prop_map(|octets| {
        // A record begins with its form.
        let octets = [&[0x01, 0x00], &octets[..]].concat();
        EntryPayload::Normal(RecordBytes(Arc::from(octets)))
    });
    let members =
        proptest::collection::btree_map(any::<u64>(), "[a-z]{0,5}", 1..4).prop_map(|all| {
            let voters: BTreeSet<u64> = all.keys().copied().collect();
            let nodes = all
                .into_iter()
                .map(|(id, url)| (id, Node { address: "a:1".to_owned(), url, key: String::new() }));
            let nodes: BTreeMap<u64, Node> = nodes.collect();
            EntryPayload::Membership(Membership::new(vec![voters], nodes).unwrap())
        });
    prop_oneof![Just(EntryPayload::Blank), record, members]
}

fn appends() -> impl Strategy<Value = AppendRequest> {
    let entries = proptest::collection::vec((payloads(), 0..3_u64), 0..6);
    let before = proptest::option::of((0..u64::MAX / 2, 0..u64::MAX / 2));
    (votes(), before, log_ids(), entries).prop_map(|(vote, before, leader_commit, payloads)| {
        let prev_log_id = before.map(|(term, index)| LogId::new(term.into(), index));
        let (mut term, mut index) = before.map_or((0, 0), |(term, index)| (term, index + 1));
        let mut entries = Vec::new();
        for (payload, more) in payloads {
            term += more;
            entries.push(Entry { log_id: LogId::new(term.into(), index), payload });
            index += 1;
        }
        AppendRequest { vote, prev_log_id, entries, leader_commit }
    })
}

/// What was written reads back the same, and no shorter part of it reads at all.
fn check<T: Debug>(
    octets: &[u8],
    value: &T,
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
    is_same: impl Fn(&T, &T) -> bool,
) {
    let read = decode(octets).unwrap();
    assert!(is_same(&read, value), "{read:?} is not {value:?}");
    for end in 0..octets.len() {
        decode(&octets[..end]).unwrap_err();
    }
    decode(&[octets, &[0]].concat()).unwrap_err();
}

fn is_same_append(a: &AppendRequest, b: &AppendRequest) -> bool {
    (a.vote, a.prev_log_id, a.leader_commit) == (b.vote, b.prev_log_id, b.leader_commit)
        && a.entries == b.entries
}

proptest! {
    #[test]
    fn appends_read_back_the_same(append in appends()) {
        let encoded = encode_append(&append, APPEND_MAX_BYTES);
        prop_assert_eq!(encoded.entries, append.entries.len());
        check(&encoded.octets, &append, decode_append, is_same_append);
    }

    #[test]
    fn an_append_that_is_too_long_keeps_its_first(append in appends(), max in 50..300_usize) {
        let encoded = encode_append(&append, max);
        let read = decode_append(&encoded.octets).unwrap();
        prop_assert_eq!(&read.entries[..], &append.entries[..encoded.entries]);
        prop_assert!(encoded.octets.len() <= max || encoded.entries == 0);
    }

    #[test]
    fn responses_to_appends_read_back_the_same(vote in votes(), last in log_ids()) {
        for response in [
            AppendResponse::Success,
            AppendResponse::PartialSuccess(last),
            AppendResponse::Conflict,
            AppendResponse::HigherVote(vote),
        ] {
            let octets = encode_append_response(&response);
            check(&octets, &response, decode_append_response, PartialEq::eq);
        }
    }

    #[test]
    fn votes_read_back_the_same(vote in votes(), last in log_ids(), is_so in any::<bool>()) {
        let mut request = VoteRequest::new(vote, last);
        request.leadership_transfer = is_so;
        check(&encode_vote_request(&request), &request, decode_vote_request, PartialEq::eq);
        let response = VoteResponse::new(vote, last, is_so);
        check(&encode_vote_response(&response), &response, decode_vote_response, PartialEq::eq);
    }

    #[test]
    fn transfers_read_back_the_same(
        expected in votes(), actual in votes(), to in any::<u64>(), a in log_ids(), b in log_ids(),
    ) {
        let request = TransferRequest::new(expected, to, a);
        check(&encode_transfer(&request), &request, decode_transfer, PartialEq::eq);
        for response in [
            Ok(()),
            Err(TransferLeaderError::VoteChanged { expected, actual }),
            Err(TransferLeaderError::LogNotFlushed { expected: a, actual: b }),
        ] {
            let octets = encode_transfer_response(&response);
            check(&octets, &response, decode_transfer_response, PartialEq::eq);
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        test_support::check_message(&octets);
    }
}

#[test]
fn entries_with_a_gap_or_of_an_older_term_are_refused() {
    let entry = |term: u64, index| Entry {
        log_id: LogId::new(term.into(), index),
        payload: EntryPayload::Blank,
    };
    let read = |before: Option<LogId>, entries: Vec<Entry>| {
        let vote = Vote::new_committed(9, 1);
        let append = AppendRequest { vote, prev_log_id: before, entries, leader_commit: None };
        decode_append(&encode_append(&append, APPEND_MAX_BYTES).octets).map(|_| ())
    };
    let before = Some(LogId::new(3.into(), 7));
    assert_eq!(read(before, vec![entry(3, 8), entry(4, 9)]), Ok(()));
    assert_eq!(read(None, vec![entry(3, 0)]), Ok(()));
    let gap = Err(Malformed("entries do not follow each other"));
    assert_eq!(read(before, vec![entry(3, 9)]), gap);
    assert_eq!(read(before, vec![entry(2, 8)]), gap);
    assert_eq!(read(before, vec![entry(3, 8), entry(3, 8)]), gap);
    assert_eq!(read(before, vec![entry(4, 8), entry(3, 9)]), gap);
    assert_eq!(read(None, vec![entry(3, 1)]), gap);
}

#[test]
fn a_count_allocates_nothing_by_itself() {
    let append = AppendRequest {
        vote: Vote::new_committed(1, 1),
        prev_log_id: None,
        entries: Vec::new(),
        leader_commit: None,
    };
    let mut octets = encode_append(&append, APPEND_MAX_BYTES).octets;
    let at = octets.len() - 4;
    octets[at..].fill(0xff);
    assert_eq!(decode_append(&octets).map(|_| ()), Err(Octets::SHORT));
}
