//! Keys of each kind, and what may be defined.

use super::*;

#[test]
fn rules_of_a_range_prepare_alike() {
    let schema = Schema::builtin();
    let values = [
        "Hello  World",
        " \u{e9}t\u{e9} ",
        "0042",
        "-7",
        "1234567890",
        "20240229120000Z",
        "20240229120000.5+0100",
        "597ae2f6-16a6-1027-98f4-d28b5365dc14",
        "20240229120000.000000Z#000001#000#000000",
        "",
    ];
    for (equality, ordering) in RANGE_RULES {
        let find = |name| MatchingRule::find(name).unwrap();
        let (equality, ordering) = (find(equality), find(ordering));
        let mut prepared = 0;
        for value in values {
            let key = |rule: &MatchingRule| {
                let mut key = Vec::new();
                (rule.prepare)(&schema, value.as_bytes(), &mut key).ok().map(|()| key)
            };
            assert_eq!(key(equality), key(ordering), "{equality:?} {value:?}");
            prepared += usize::from(key(equality).is_some());
        }
        assert!(prepared > 0, "{equality:?}");
    }
}

fn index(line: &str) -> Index {
    let definition = IndexDefinition::parse(line).unwrap();
    Index::resolve(1, &definition, IndexState::Valid, &Schema::builtin()).unwrap()
}

#[track_caller]
fn check_keys(line: &str, value: &str, want: &[&str]) {
    let mut keys = Vec::new();
    index(line).keys(&Schema::builtin(), value.as_bytes(), &mut Vec::new(), |key| {
        keys.push(String::from_utf8_lossy(key).replace('\u{2}', "^").replace('\u{3}', "$"));
    });
    assert_eq!(keys, want);
}

#[test]
fn values_have_these_keys() {
    check_keys("presence cn", "Anna", &[""]);
    check_keys("equality cn", " Anna  Lee ", &["anna lee"]);
    check_keys("equality uidNumber", "no number", &[]);
    check_keys("substring telephoneNumber", "+1 23", &["^+12", "+123", "123$", "23$$", "3$$$"]);
    check_keys("substring cn", "Ab", &["^ ab", " ab ", "ab $", "b $$", " $$$"]);
    check_keys("substring telephoneNumber", " ", &["^$$$"]);
    check_keys("approximate cn", "Anna-Lee  Schmidt", &["a5", "l", "s53"]);
    check_keys("extensible cn caseExactMatch", " Anna  Lee ", &["Anna Lee"]);
    check_keys("extensible cn wordMatch", "Anna Lee", &["anna", "lee"]);
    check_keys("extensible cn caseExactSubstringsMatch", "A", &["^ A ", " A $", "A $$", " $$$"]);
    check_keys("extensible uidNumber integerBitAndMatch", "5", &["\0", "^"]);
    check_keys("extensible uidNumber integerBitAndMatch", "0", &[]);
}

#[track_caller]
fn refused(line: &str, reason: &str) {
    let definition = IndexDefinition::parse(line).unwrap();
    let error = Index::resolve(1, &definition, IndexState::Valid, &Schema::builtin()).unwrap_err();
    assert!(error.to_string().ends_with(reason), "{error}");
}

#[test]
fn what_cannot_be_looked_up_is_refused() {
    refused("equality nosuch", "there is no attribute type 'nosuch'");
    refused("equality cn with nosuch", "there is no attribute type 'nosuch'");
    refused("equality jpegPhoto with cn", "the attribute type has no equality rule");
    refused("equality cn with jpegPhoto", "'jpegPhoto' has no equality rule");
    refused("ordering cn", "the attribute type has no ordering rule");
    refused("substring jpegPhoto", "the attribute type has no substring rule");
    refused("approximate jpegPhoto", "the attribute type has no approximate rule");
    refused("extensible cn nosuch", "there is no rule 'nosuch'");
    refused("extensible cn integerMatch", "integerMatch does not apply to the attribute type");
    refused(
        "extensible member 1.2.840.113556.1.4.1941",
        "values are not looked up by distinguishedNameInChainMatch",
    );
    refused("equality entryDN", "values of 'entryDN' are made when an entry is read");
    let part = "its filter has a part that the schema cannot answer";
    refused("equality cn where (|(sn=x)(!(nosuch=1)))", part);
    refused("equality cn where (uidNumber=x)", part);
    refused("equality cn where (sn:dn:=x)", "its filter asks for the name");
    let made = "its filter asks for values that are made when an entry is read";
    refused("equality cn where (hasSubordinates=TRUE)", made);
    refused("equality cn where (:distinguishedNameMatch:=dc=x)", made);
    refused(
        "equality cn where (member:1.2.840.113556.1.4.1941:=dc=x)",
        "its filter asks for other entries",
    );
}

#[test]
fn the_rules_are_those_of_the_filter_as_well() {
    assert_eq!(index("presence cn").rules(), "-");
    assert_eq!(index("presence cn where (sn=x)").rules(), "2.5.13.2");
    assert_eq!(
        index("equality l with member where (&(objectClass=*)(uid=a*))").rules(),
        "2.5.13.2,2.5.13.1,2.5.13.4"
    );
}

#[test]
fn pairs_are_in_the_order_of_their_first_values() {
    let values: [&[u8]; 8] = [b"", b"\0", b"\x01", b"\x01a", b"\x02", b"a", b"a\0", b"b"];
    let key = |first: &[u8], second: &[u8]| {
        let mut key = Vec::new();
        assert!(!composite_key(first, second, &mut key));
        let mut prefix = Vec::new();
        composite_prefix(first, &mut prefix);
        assert!(key.starts_with(&prefix) && key.ends_with(second) && !key.is_empty());
        key
    };
    let pairs = values.iter().flat_map(|first| values.iter().map(move |second| (first, second)));
    let keys: Vec<Vec<u8>> = pairs.map(|(first, second)| key(first, second)).collect();
    assert!(keys.is_sorted_by(|one, next| one < next));
    let mut long = Vec::new();
    assert!(composite_key(&[b'x'; 200], &[b'y'; 200], &mut long));
}

#[test]
fn states_are_read_as_they_are_shown() {
    let state = |upto, end| IndexState::Building { upto: EntryId(upto), end: EntryId(end) };
    for state in [IndexState::Dropping, state(0, 1), state(17, u64::MAX)] {
        assert_eq!(IndexState::parse(&state.to_string()), Some(state));
    }
    for text in ["", "valid", "building", "building 1", "building x 2", "dropping 1"] {
        assert_eq!(IndexState::parse(text), None);
    }
    let holds = |id| state(3, 7).holds(id);
    assert_eq!([1, 3, 4, 6, 7, 9].map(holds), [true, true, false, false, true, true]);
}
