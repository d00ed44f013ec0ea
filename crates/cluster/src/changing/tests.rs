//! Changes and what came of them read back the same, and nothing else does.

use super::*;

#[test]
fn a_change_reads_back_the_same_and_not_in_part() {
    let ids = BTreeSet::from([2, 65_600]);
    let changes = [
        MemberChange::Join { address: "192.0.2.4:7636".to_owned(), url: String::new() },
        MemberChange::Promote { ids: ids.clone() },
        MemberChange::Demote { ids: ids.clone() },
        MemberChange::Remove { ids },
        MemberChange::Replace { old: 3, new: 65_600 },
        MemberChange::Transfer { id: 2 },
    ];
    for change in changes {
        let mut octets = Vec::new();
        encode(&change, &mut octets);
        assert_eq!(decode(&octets), Ok(change.clone()));
        for end in 0..octets.len() {
            assert!(decode(&octets[..end]).is_err(), "{change:?} up to {end}");
        }
        octets.push(0);
        assert!(decode(&octets).is_err(), "{change:?} and more");
    }
    assert!(decode(&[2, 5, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    assert!(decode(&[1, 6]).is_err());
}

#[test]
fn an_outcome_reads_back_the_same_and_not_in_part() {
    let outcomes = [
        Ok(MembersChanged::Done),
        Ok(MembersChanged::AlreadySo),
        Ok(MembersChanged::Joined(65_600)),
        Err(MembersError::Refused("no".to_owned())),
        Err(MembersError::Unknown("who knows".to_owned())),
        Err(MembersError::NotDeciding),
        Err(MembersError::Unsupported),
    ];
    for outcome in outcomes {
        let mut octets = encode_outcome(&outcome);
        assert_eq!(decode_outcome(&octets), Ok(outcome));
        for end in 0..octets.len() {
            assert!(decode_outcome(&octets[..end]).is_err());
        }
        octets.push(0);
        assert!(decode_outcome(&octets).is_err());
    }
    let long = encode_outcome(&Err(MembersError::Refused("ä".repeat(REASON_MAX_BYTES))));
    assert!(matches!(decode_outcome(&long), Ok(Err(MembersError::Refused(reason)))
        if reason.len() == REASON_MAX_BYTES));
}
