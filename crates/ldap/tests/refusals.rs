//! What is no LDAP message, and why: one line for each rule of RFC 4511 that octets can break.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod shared;

use ldap::ber::{DecodeError, DecodeReason, Frame, Tag, frame};
use ldap::message::*;
use shared::unhex;

use DecodeReason::{
    BadBoolean, BadInteger, BadNull, BadUtf8, EmptyList, EmptyMatchingRule, EmptySubstring,
    HighTagNumber, IndefiniteLength, LengthTooLong, MessageTooLong, NameTooLong, OutOfRange,
    SubstringOrder, TooDeep, TooManyAttributes, TooManyControls, TooManyModifications,
    TooManyTerms, TrailingBytes, Truncated, UnexpectedTag,
};

/// Octets of a message, in hex, are refused at an offset for a reason.
#[track_caller]
fn check(hex: &str, offset: usize, reason: DecodeReason) {
    check_octets(&unhex(hex), offset, reason);
}

#[track_caller]
fn check_octets(bytes: &[u8], offset: usize, reason: DecodeReason) {
    let limits = DecodeLimits::default();
    // Octets of a response get the answer of the response decoder.
    let is_response = matches!(bytes.get(5), Some(0x61 | 0x64 | 0x65 | 0x73 | 0x78 | 0x79));
    let error = if is_response {
        Message::<Response<'_>>::decode(bytes, &limits).unwrap_err().error
    } else {
        Message::<Request<'_>>::decode(bytes, &limits).unwrap_err().error
    };
    assert_eq!(error, DecodeError { offset, reason }, "{bytes:02x?}");
}

/// A filter, in hex, is refused at an offset within itself.
#[track_caller]
fn check_filter(hex: &str, offset: usize, reason: DecodeReason) {
    let (bytes, filter_at) = search(&unhex(hex));
    check_octets(&bytes, filter_at + offset, reason);
}

/// A search with this filter, and where the filter is.
fn search(filter: &[u8]) -> (Vec<u8>, usize) {
    let before = unhex("04 00  0a 01 00  0a 01 00  02 01 00  02 01 00  01 01 00");
    let op = tlv(0x63, &[&before, filter, &[0x30, 0]]);
    let message = tlv(0x30, &[&[2, 1, 1], &op]);
    let after_filter = 2;
    let filter_at = message.len() - after_filter - filter.len();
    (message, filter_at)
}

/// An element with these octets inside.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut element = Vec::new();
    ldap::ber::Writer::new(&mut element).octets(Tag(tag), &content);
    element
}

#[test]
fn the_envelope_is_one_sequence_of_definite_length() {
    check("", 0, Truncated);
    check("30", 0, Truncated);
    check("31 05 02 01 01 42 00", 0, UnexpectedTag(Tag::SET));
    check("10 05 02 01 01 42 00", 0, UnexpectedTag(Tag(0x10)));
    check("30 80 02 01 01 42 00 00 00", 0, IndefiniteLength);
    check("30 85 00 00 00 00 05 02 01 01 42 00", 0, LengthTooLong);
    check("30 88 00 00 00 00 00 00 00 05 02 01 01 42 00", 0, LengthTooLong);
    check("30 ff 02 01 01 42 00", 0, LengthTooLong);
    check("30 84 80 00 00 00 02 01 01 42 00", 0, LengthTooLong);
    check("30 84 ff ff ff ff 02 01 01 42 00", 0, LengthTooLong);
    check("30 84 7f ff ff ff 02 01 01 42 00", 0, Truncated);
    check("30 06 02 01 01 42 00", 0, Truncated);
    check("30 05 02 01 01 42 00 00", 7, TrailingBytes);
    check("30 05 02 01 01 42 00 30 05 02 01 02 42 00", 7, TrailingBytes);
    check("30 00", 2, Truncated);
    check("30 03 02 01 01", 5, Truncated);
    check("30 05 02 01 01 42 01", 5, Truncated);
    check("30 05 02 05 01 42 00", 2, Truncated);
}

#[test]
fn request_ids_are_minimal_integers_from_1_to_max_int() {
    check("30 05 02 01 00 42 00", 2, OutOfRange);
    check("30 04 02 00 42 00", 2, BadInteger);
    check("30 06 02 02 00 01 42 00", 2, BadInteger);
    check("30 06 02 02 00 7f 42 00", 2, BadInteger);
    check("30 06 02 02 ff 80 42 00", 2, BadInteger);
    check("30 05 02 01 ff 42 00", 2, OutOfRange);
    check("30 08 02 04 80 00 00 00 42 00", 2, OutOfRange);
    check("30 09 02 05 00 80 00 00 00 42 00", 2, OutOfRange);
    check("30 0c 02 08 7f ff ff ff ff ff ff ff 42 00", 2, OutOfRange);
    check("30 0d 02 09 01 00 00 00 00 00 00 00 00 42 00", 2, BadInteger);
    check("30 05 0a 01 01 42 00", 2, UnexpectedTag(Tag::ENUMERATED));
    check("30 05 22 01 01 42 00", 2, UnexpectedTag(Tag(0x22)));
}

#[test]
fn only_an_operation_of_the_protocol_follows_the_id() {
    for tag in 0..=0xFF_u8 {
        let known = [0x42, 0x4A, 0x50, 0x60, 0x63, 0x66, 0x68, 0x6C, 0x6E, 0x77].contains(&tag);
        let bytes = [0x30, 5, 2, 1, 9, tag, 0];
        let decoded = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default());
        match decoded {
            Ok(message) => assert!(known && message.id == MessageId(9), "{tag:02x}"),
            Err(failure) => {
                assert_eq!(failure.id, Some(MessageId(9)), "{tag:02x}");
                assert_eq!(failure.tag, Some(Tag(tag)));
                let unknown = failure.error.reason == UnexpectedTag(Tag(tag));
                assert_eq!(unknown, !known, "{tag:02x}: {failure}");
            }
        }
    }
    // A primitive tag where the operation is constructed, and the other way round.
    check("30 05 02 01 01 43 00", 5, UnexpectedTag(Tag(0x43)));
    check("30 05 02 01 01 62 00", 5, UnexpectedTag(Tag(0x62)));
    check("30 07 02 01 01 6a 02 04 00", 5, UnexpectedTag(Tag(0x6A)));
    check("30 06 02 01 01 42 01 00", 5, BadNull);
    check("30 06 02 01 01 50 01 ff", 5, OutOfRange);
    check("30 07 02 01 01 50 02 00 01", 5, BadInteger);
}

#[test]
fn what_follows_the_operation_are_controls_or_components_yet_unknown() {
    check("30 07 02 01 01 42 00 04 00", 7, UnexpectedTag(Tag::OCTET_STRING));
    check("30 07 02 01 01 42 00 30 00", 7, UnexpectedTag(Tag::SEQUENCE));
    check("30 09 02 01 01 42 00 a0 00 a0 00", 9, UnexpectedTag(Tag(0xA0)));
    check("30 09 02 01 01 42 00 85 00 a0 00", 9, UnexpectedTag(Tag(0xA0)));
    check("30 06 02 01 01 42 00 85", 7, Truncated);
    check("30 08 02 01 01 42 00 85 02 00", 7, Truncated);
    check("30 08 02 01 01 42 00 85 80 00", 7, IndefiniteLength);
    check("30 08 02 01 01 42 00 9f 20 00", 7, HighTagNumber);
    check("30 08 02 01 01 42 00 a0 01 30", 9, Truncated);
    check("30 09 02 01 01 42 00 a0 02 30 00", 11, Truncated);
    check("30 09 02 01 01 42 00 a0 02 04 00", 9, UnexpectedTag(Tag::OCTET_STRING));
    // A criticality of two octets, an empty one, and one after the value.
    check("30 10 02 01 01 42 00 a0 09 30 07 04 01 31 01 02 ff ff", 14, BadBoolean);
    check("30 0e 02 01 01 42 00 a0 07 30 05 04 01 31 01 00", 14, BadBoolean);
    check("30 11 02 01 01 42 00 a0 0a 30 08 04 01 31 04 00 01 01 ff", 16, UnexpectedTag(Tag(1)));
    check("30 0c 02 01 01 42 00 a0 05 30 03 04 01 ff", 11, BadUtf8);
}

#[test]
fn a_bind_has_version_name_and_one_choice() {
    check("30 0c 02 01 01 60 07 02 01 00 04 00 80 00", 7, OutOfRange);
    check("30 0d 02 01 01 60 08 02 02 00 80 04 00 80 00", 7, OutOfRange);
    check("30 0c 02 01 01 60 07 02 01 ff 04 00 80 00", 7, OutOfRange);
    check("30 0c 02 01 01 60 07 01 01 03 04 00 80 00", 7, UnexpectedTag(Tag::BOOLEAN));
    check("30 0a 02 01 01 60 05 02 01 03 04 00", 12, Truncated);
    check("30 0d 02 01 01 60 08 02 01 03 04 01 ff 80 00", 10, BadUtf8);
    check("30 0c 02 01 01 60 07 02 01 03 04 00 04 00", 12, UnexpectedTag(Tag::OCTET_STRING));
    // A constructed octet string (RFC 4511 §5.1) for the name and the password.
    check("30 0e 02 01 01 60 09 02 01 03 24 02 04 00 80 00", 10, UnexpectedTag(Tag(0x24)));
    check("30 0e 02 01 01 60 09 02 01 03 04 00 a0 02 04 00", 12, UnexpectedTag(Tag(0xA0)));
    check("30 0c 02 01 01 60 07 02 01 03 04 00 83 00", 12, UnexpectedTag(Tag(0x83)));
    check("30 0e 02 01 01 60 09 02 01 03 04 00 80 00 80 00", 14, UnexpectedTag(Tag(0x80)));
    check("30 0c 02 01 01 60 07 02 01 03 04 00 a3 00", 14, Truncated);
    check(
        "30 12 02 01 01 60 0d 02 01 03 04 00 a3 06 04 00 04 00 04 00",
        18,
        UnexpectedTag(Tag::OCTET_STRING),
    );
}

#[test]
fn a_search_has_known_scopes_and_limits_up_to_max_int() {
    let filter = "87 01 61 30 00";
    check(
        &format!(
            "30 1b 02 01 01 63 16 04 00 0a 01 04 0a 01 00 02 01 00 02 01 00 01 01 00 {filter}"
        ),
        9,
        OutOfRange,
    );
    check(
        &format!(
            "30 1b 02 01 01 63 16 04 00 0a 01 ff 0a 01 00 02 01 00 02 01 00 01 01 00 {filter}"
        ),
        9,
        OutOfRange,
    );
    check(
        &format!(
            "30 1b 02 01 01 63 16 04 00 0a 01 00 0a 01 04 02 01 00 02 01 00 01 01 00 {filter}"
        ),
        12,
        OutOfRange,
    );
    check(
        &format!(
            "30 1b 02 01 01 63 16 04 00 0a 01 00 0a 01 00 02 01 ff 02 01 00 01 01 00 {filter}"
        ),
        15,
        OutOfRange,
    );
    check(
        &format!(
            "30 1b 02 01 01 63 16 04 00 0a 01 00 0a 01 00 02 01 00 02 01 80 01 01 00 {filter}"
        ),
        18,
        OutOfRange,
    );
    check(
        &format!("30 1a 02 01 01 63 15 04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 00 {filter}"),
        21,
        BadBoolean,
    );
    check(
        &format!(
            "30 1b 02 01 01 63 16 04 00 02 01 00 0a 01 00 02 01 00 02 01 00 01 01 00 {filter}"
        ),
        9,
        UnexpectedTag(Tag::INTEGER),
    );
    // No filter.
    check("30 16 02 01 01 63 11 04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00", 24, Truncated);
    check(
        "30 18 02 01 01 63 13 04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00 30 00",
        24,
        UnexpectedTag(Tag::SEQUENCE),
    );
    check(
        "30 1b 02 01 01 63 16 04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00 87 01 61 31 00",
        27,
        UnexpectedTag(Tag::SET),
    );
    check(
        &format!(
            "30 1d 02 01 01 63 18 04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00 {}",
            "87 01 61 30 02 02 00"
        ),
        29,
        UnexpectedTag(Tag::INTEGER),
    );
}

#[test]
fn a_filter_is_one_of_ten_choices() {
    for tag in 0..=0xFF_u8 {
        let (bytes, filter_at) = search(&[tag, 0]);
        let reason = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default())
            .map_err(|failure| failure.error);
        let unknown = DecodeError { offset: filter_at, reason: UnexpectedTag(Tag(tag)) };
        match tag {
            // (&), (|) and (=*) are well-formed.
            0xA0 | 0xA1 | 0x87 => assert!(reason.is_ok(), "{tag:02x}"),
            0xA2 | 0xA3 | 0xA4 | 0xA5 | 0xA6 | 0xA8 | 0xA9 => assert_ne!(reason, Err(unknown)),
            _ => assert_eq!(reason, Err(unknown)),
        }
    }
    check_filter("a2 00", 2, Truncated);
    check_filter("a2 06 87 01 61 87 01 62", 5, TrailingBytes);
    check_filter("a3 00", 2, Truncated);
    check_filter("a3 03 04 01 61", 5, Truncated);
    check_filter("a3 07 04 01 61 04 00 04 00", 7, UnexpectedTag(Tag::OCTET_STRING));
    check_filter("a3 05 04 01 ff 04 00", 2, BadUtf8);
    check_filter("a3 07 24 03 04 01 61 04 00", 2, UnexpectedTag(Tag(0x24)));
    check_filter("a0 03 04 01 61", 2, UnexpectedTag(Tag::OCTET_STRING));
    check_filter("a0 03 87 02 61", 2, Truncated);
    check_filter("87 01 ff", 0, BadUtf8);
    check_filter("a7 03 04 01 61", 0, UnexpectedTag(Tag(0xA7)));
}

#[test]
fn substrings_are_one_or_more_pieces_in_order() {
    check_filter("a4 05 04 01 61 30 00", 7, EmptyList);
    check_filter("a4 08 04 01 61 30 03 83 01 78", 7, UnexpectedTag(Tag(0x83)));
    check_filter("a4 08 04 01 61 30 03 04 01 78", 7, UnexpectedTag(Tag::OCTET_STRING));
    check_filter("a4 0a 04 01 61 30 05 a1 03 04 01 78", 7, UnexpectedTag(Tag(0xA1)));
    check_filter("a4 07 04 01 61 30 02 81 00", 7, EmptySubstring);
    check_filter("a4 0b 04 01 61 30 06 80 01 78 80 01 79", 10, SubstringOrder);
    check_filter("a4 0b 04 01 61 30 06 81 01 78 80 01 79", 10, SubstringOrder);
    check_filter("a4 0b 04 01 61 30 06 82 01 78 80 01 79", 10, SubstringOrder);
    check_filter("a4 0b 04 01 61 30 06 82 01 78 81 01 79", 10, SubstringOrder);
    check_filter("a4 0b 04 01 61 30 06 82 01 78 82 01 79", 10, SubstringOrder);
    check_filter("a4 08 04 01 61 31 03 81 01 78", 5, UnexpectedTag(Tag::SET));
}

#[test]
fn an_extensible_match_has_a_rule_or_a_type_and_a_value() {
    check_filter("a9 03 83 01 78", 2, EmptyMatchingRule);
    check_filter("a9 00", 2, EmptyMatchingRule);
    check_filter("a9 03 81 01 78", 5, Truncated);
    check_filter("a9 03 82 01 78", 5, Truncated);
    check_filter("a9 06 82 01 61 81 01 78", 5, UnexpectedTag(Tag(0x81)));
    check_filter("a9 0a 82 01 61 83 01 78 84 02 01 01", 8, BadBoolean);
    check_filter("a9 07 82 01 61 83 00 84 00", 7, BadBoolean);
    check_filter("a9 08 82 01 61 83 00 83 01 78", 7, UnexpectedTag(Tag(0x83)));
    check_filter("a9 06 81 01 ff 83 01 78", 2, BadUtf8);
}

#[test]
fn a_filter_has_limits_in_depth_and_number() {
    let limits = DecodeLimits { filter_depth_max: 3, filter_terms_max: 6, ..Default::default() };
    let check = |filter: &[u8], want: Result<(), DecodeReason>| {
        let (bytes, _) = search(filter);
        let got = Message::<Request<'_>>::decode(&bytes, &limits);
        assert_eq!(got.map(drop).map_err(|failure| failure.error.reason), want);
    };
    let item = unhex("87 01 61");
    let not = |inner: &[u8]| tlv(0xA2, &[inner]);
    let and = |count| tlv(0xA0, &vec![item.as_slice(); count]);
    check(&not(&not(&item)), Ok(()));
    check(&not(&not(&not(&item))), Err(TooDeep));
    check(&not(&not(&tlv(0xA0, &[]))), Ok(()));
    check(&not(&not(&and(1))), Err(TooDeep));
    check(&and(5), Ok(()));
    check(&and(6), Err(TooManyTerms));
    // Terms are counted over the whole filter, depth along one path.
    check(&tlv(0xA1, &[&and(1), &and(2)]), Ok(()));
    check(&tlv(0xA1, &[&and(2), &and(2)]), Err(TooManyTerms));
    // Each substring is a term.
    check(&unhex("a4 14 04 01 61 30 0f 80 01 78 81 01 78 81 01 78 81 01 78 82 01 78"), Ok(()));
    check(
        &unhex("a4 17 04 01 61 30 12 80 01 78 81 01 78 81 01 78 81 01 78 81 01 78 82 01 78"),
        Err(TooManyTerms),
    );
}

#[test]
fn the_default_limits_stop_what_is_nested_or_long() {
    let mut nested = unhex("87 01 61");
    for _ in 0..100 {
        nested = tlv(0xA2, &[&nested]);
    }
    let limits = DecodeLimits::default();
    assert!(Message::<Request<'_>>::decode(&search(&nested).0, &limits).is_ok());
    let (bytes, filter_at) = search(&tlv(0xA2, &[&nested]));
    let failure = Message::<Request<'_>>::decode(&bytes, &limits).unwrap_err();
    assert_eq!(failure.error.reason, TooDeep);
    assert!(failure.error.offset > filter_at);
    // A million levels: nothing but the limit ends this.
    let deep = [0xA0, 0x84, 0x7F, 0xFF, 0xFF, 0xFF].repeat(1_000_000);
    assert!(Message::<Request<'_>>::decode(&search(&deep).0, &limits).is_err());
    let item = unhex("87 01 61");
    let wide = tlv(0xA1, &vec![item.as_slice(); 9_999]);
    assert!(Message::<Request<'_>>::decode(&search(&wide).0, &limits).is_ok());
    let changes = |count: usize| {
        let change = tlv(0x30, &[&unhex("0a 01 01"), &tlv(0x30, &[&unhex("04 01 61 31 00")])]);
        let all = tlv(0x30, &[&change.repeat(count)]);
        tlv(0x30, &[&unhex("02 01 01"), &tlv(0x66, &[&unhex("04 00"), &all])])
    };
    assert!(Message::<Request<'_>>::decode(&changes(20_000), &limits).is_ok());
    let failure = Message::<Request<'_>>::decode(&changes(20_001), &limits).unwrap_err();
    assert_eq!(failure.error.reason, TooManyModifications);
    let asks = |count: usize| {
        let before = unhex("04 00  0a 01 00  0a 01 00  02 01 00  02 01 00  01 01 00  87 01 61");
        let names = tlv(0x30, &[&unhex("04 00").repeat(count)]);
        tlv(0x30, &[&unhex("02 01 01"), &tlv(0x63, &[&before, &names])])
    };
    assert!(Message::<Request<'_>>::decode(&asks(10_000), &limits).is_ok());
    let failure = Message::<Request<'_>>::decode(&asks(10_001), &limits).unwrap_err();
    assert_eq!(failure.error.reason, TooManyAttributes);
    let wider = tlv(0xA1, &vec![item.as_slice(); 10_000]);
    let failure = Message::<Request<'_>>::decode(&search(&wider).0, &limits).unwrap_err();
    assert_eq!(failure.error.reason, TooManyTerms);
}

#[test]
fn names_and_controls_have_limits() {
    let limits = DecodeLimits { dn_length_max_bytes: 4, controls_max: 2, ..Default::default() };
    let check = |hex: &str, want: Result<(), DecodeReason>| {
        let bytes = unhex(hex);
        let got = Message::<Request<'_>>::decode(&bytes, &limits);
        assert_eq!(got.map(drop).map_err(|failure| failure.error.reason), want);
    };
    check("30 09 02 01 01 4a 04 6f 3d 61 62", Ok(()));
    check("30 0a 02 01 01 4a 05 6f 3d 61 62 63", Err(NameTooLong));
    check("30 11 02 01 01 42 00 a0 0a 30 03 04 01 31 30 03 04 01 32", Ok(()));
    check(
        "30 16 02 01 01 42 00 a0 0f 30 03 04 01 31 30 03 04 01 32 30 03 04 01 33",
        Err(TooManyControls),
    );
    check("30 12 02 01 01 6c 0d 04 01 61 04 05 61 62 63 64 65 01 01 00", Err(NameTooLong));
    check("30 15 02 01 01 6c 10 04 01 61 04 01 61 01 01 00 80 05 61 62 63 64 65", Err(NameTooLong));
}

#[test]
fn values_are_required_in_an_add_and_not_in_a_modify() {
    check("30 10 02 01 01 68 0b 04 00 30 07 30 05 04 01 61 31 00", 11, EmptyList);
    check("30 10 02 01 01 68 0b 04 00 30 07 30 05 04 01 61 30 00", 16, UnexpectedTag(Tag(0x30)));
    check("30 0e 02 01 01 68 09 04 00 30 05 30 03 04 01 61", 16, Truncated);
    check(
        "30 12 02 01 01 68 0d 04 00 30 09 30 07 04 01 61 31 02 02 00",
        18,
        UnexpectedTag(Tag::INTEGER),
    );
    check("30 12 02 01 01 68 0d 04 00 30 09 30 07 04 01 ff 31 02 04 00", 13, BadUtf8);
    let modify = |operation: &str| {
        format!("30 15 02 01 01 66 10 04 00 30 0c 30 0a {operation} 30 05 04 01 61 31 00")
    };
    let accepted = unhex(&modify("0a 01 01"));
    assert!(Message::<Request<'_>>::decode(&accepted, &DecodeLimits::default()).is_ok());
    check(&modify("0a 01 04"), 13, OutOfRange);
    check(&modify("0a 01 ff"), 13, OutOfRange);
    check(&modify("02 01 00"), 13, UnexpectedTag(Tag::INTEGER));
}

#[test]
fn the_other_requests_have_their_components_and_no_more() {
    // ModifyDN: deleteoldrdn missing, not a proper boolean; a second newSuperior.
    check("30 0b 02 01 01 6c 06 04 01 61 04 01 62", 13, Truncated);
    check("30 0d 02 01 01 6c 08 04 01 61 04 01 62 01 00", 13, BadBoolean);
    check(
        "30 12 02 01 01 6c 0d 04 01 61 04 01 62 01 01 00 80 00 80 00",
        18,
        UnexpectedTag(Tag(0x80)),
    );
    // Compare: the assertion is a sequence of two.
    check("30 08 02 01 01 6e 03 04 01 61", 10, Truncated);
    check("30 0d 02 01 01 6e 08 04 01 61 30 03 04 01 62", 15, Truncated);
    check("30 0b 02 01 01 6e 06 04 01 61 04 01 62", 10, UnexpectedTag(Tag::OCTET_STRING));
    // Extended: no name; a value before the name.
    check("30 05 02 01 01 77 00", 7, Truncated);
    check("30 09 02 01 01 77 04 81 00 80 00", 7, UnexpectedTag(Tag(0x81)));
    check("30 08 02 01 01 77 03 80 01 ff", 7, BadUtf8);
    check("30 06 02 01 01 4a 01 ff", 5, BadUtf8);
}

#[test]
fn responses_have_a_result_and_no_empty_uri_list() {
    check("30 0a 02 01 01 65 05 0a 01 00 04 00", 12, Truncated);
    check("30 0c 02 01 01 65 07 0a 01 ff 04 00 04 00", 7, OutOfRange);
    check("30 0d 02 01 01 65 08 0a 02 00 01 04 00 04 00", 7, BadInteger);
    check("30 0c 02 01 01 65 07 02 01 00 04 00 04 00", 7, UnexpectedTag(Tag::INTEGER));
    check("30 0e 02 01 01 65 09 0a 01 0a 04 00 04 00 a3 00", 16, EmptyList);
    check("30 10 02 01 01 65 0b 0a 01 0a 04 00 04 00 a3 02 02 00", 16, UnexpectedTag(Tag(2)));
    check("30 05 02 01 01 73 00", 7, EmptyList);
    check("30 07 02 01 01 64 02 04 00", 9, Truncated);
    // A constructed form of a component we know is no extension.
    check("30 0e 02 01 01 61 09 0a 01 00 04 00 04 00 a7 00", 14, UnexpectedTag(Tag(0xA7)));
    check("30 0e 02 01 01 65 09 0a 01 00 04 00 04 00 83 00", 14, UnexpectedTag(Tag(0x83)));
}

#[test]
fn the_frame_is_refused_before_its_octets_are_there() {
    let check = |hex: &str, want: Result<Frame, DecodeReason>| {
        assert_eq!(frame(&unhex(hex), 100).map_err(|error| error.reason), want, "{hex}");
    };
    let incomplete = |need_at_least| Ok(Frame::Incomplete { need_at_least });
    check("", incomplete(2));
    check("30", incomplete(2));
    check("30 05", incomplete(7));
    check("30 05 02 01 01 42 00", Ok(Frame::Complete(7)));
    check("30 05 02 01 01 42 00 30 05", Ok(Frame::Complete(7)));
    check("30 00", Ok(Frame::Complete(2)));
    check("30 81", incomplete(3));
    check("30 84 00 00", incomplete(6));
    check("30 84 00 00 00 05", incomplete(11));
    check("30 62", incomplete(100));
    check("30 63", Err(MessageTooLong));
    check("30 81 61", incomplete(100));
    check("30 81 62", Err(MessageTooLong));
    check("30 84 7f ff ff ff", Err(MessageTooLong));
    check("30 84 80 00 00 00", Err(LengthTooLong));
    check("30 85", Err(LengthTooLong));
    check("30 ff", Err(LengthTooLong));
    check("30 80", Err(IndefiniteLength));
    for first in (0..=0xFF_u8).filter(|&first| first != 0x30) {
        let refused = frame(&[first], 100).map_err(|error| error.reason);
        assert_eq!(refused, Err(UnexpectedTag(Tag(first))));
    }
    let largest = unhex("30 84 7f ff ff ff");
    let need = Frame::Incomplete { need_at_least: 0x8000_0005 };
    assert_eq!(frame(&largest, usize::MAX), Ok(need));
}

#[test]
fn a_failure_keeps_the_id_and_the_tag_that_were_read() {
    let check = |hex: &str, id: Option<i32>, tag: Option<u8>, answer: Option<ResponseKind>| {
        let bytes = unhex(hex);
        let failure = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap_err();
        assert_eq!((failure.id, failure.tag), (id.map(MessageId), tag.map(Tag)), "{hex}");
        assert_eq!(
            failure.tag.and_then(OperationKind::from_tag).and_then(OperationKind::answered_by),
            answer,
            "{hex}"
        );
    };
    check("30 00", None, None, None);
    check("30 03 02 01 07", Some(7), None, None);
    check("30 05 02 01 07 60 00", Some(7), Some(0x60), Some(ResponseKind::Bind));
    check("30 05 02 01 07 63 00", Some(7), Some(0x63), Some(ResponseKind::SearchDone));
    check("30 05 02 01 07 66 00", Some(7), Some(0x66), Some(ResponseKind::Modify));
    check("30 05 02 01 07 68 00", Some(7), Some(0x68), Some(ResponseKind::Add));
    check("30 06 02 01 07 4a 01 ff", Some(7), Some(0x4A), Some(ResponseKind::Delete));
    check("30 05 02 01 07 6c 00", Some(7), Some(0x6C), Some(ResponseKind::ModifyDn));
    check("30 05 02 01 07 6e 00", Some(7), Some(0x6E), Some(ResponseKind::Compare));
    check("30 05 02 01 07 77 00", Some(7), Some(0x77), Some(ResponseKind::Extended));
    check("30 06 02 01 07 42 01 00", Some(7), Some(0x42), None);
    check("30 05 02 01 07 50 00", Some(7), Some(0x50), None);
    check("30 05 02 01 07 7f 00", Some(7), Some(0x7F), None);
    check("30 05 02 01 07 42 00 00", None, None, None);
}

#[test]
fn a_refusal_says_what_and_where() {
    let failure = Message::<Request<'_>>::decode(&[0x30, 5, 2, 1, 1, 0x7A, 0], &Default::default());
    assert_eq!(failure.unwrap_err().to_string(), "unexpected tag 0x7a at offset 5");
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let request = Request::Bind(BindRequest {
        version: 3,
        name: "cn=a",
        authentication: Authentication::Simple(b"hunter2"),
    });
    assert!(!format!("{request:?}").contains("hunter2"));
    assert!(!format!("{request:?}").contains("104, 117"));
    let sasl = Authentication::Sasl { mechanism: "PLAIN", credentials: Some(b"\0a\0hunter2") };
    assert!(!format!("{sasl:?}").contains("104, 117"));
    let extended =
        ExtendedRequest { oid: "1.3.6.1.4.1.4203.1.11.1", value: Some(b"0\x09\x82\x07hunter2") };
    assert!(!format!("{extended:?}").contains("104, 117"));
}
