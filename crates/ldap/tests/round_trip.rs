//! What is encoded decodes equal, in every way there is to encode it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod shared;

use ldap::ber::{DecodeReason, Frame, Reader, Tag, Writer, frame, integer_len, tlv_len};
use ldap::encode::{EntryWriter, notice_of_disconnection, result};
use ldap::message::*;
use ldap::result::ResultCode;
use proptest::collection::vec;
use proptest::prelude::*;
use shared::arbitrary::{self, Octets};
use shared::{attributes, control, controls, values};

proptest! {
    #[test]
    fn requests_survive(message in arbitrary::request(Octets::Any)) {
        let mut bytes = b"before".to_vec();
        message.encode(&mut bytes);
        let bytes = bytes.strip_prefix(b"before").unwrap();
        prop_assert_eq!(frame(bytes, usize::MAX), Ok(Frame::Complete(bytes.len())));
        let decoded = Message::<Request<'_>>::decode(bytes, &DecodeLimits::default());
        prop_assert_eq!(decoded, Ok(message));
    }

    #[test]
    fn responses_survive(message in arbitrary::response()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert_eq!(frame(&bytes, usize::MAX), Ok(Frame::Complete(bytes.len())));
        let decoded = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default());
        prop_assert_eq!(decoded, Ok(message));
    }

    #[test]
    fn lists_give_back_what_was_pushed(pushed in vec(arbitrary::attribute(0), 0..6)) {
        let list: AttributesBuf = pushed.iter().copied().collect();
        let attributes = list.as_ref();
        prop_assert_eq!(attributes.len(), pushed.len());
        prop_assert_eq!(attributes.is_empty(), pushed.is_empty());
        prop_assert!(attributes.iter().eq(pushed.iter().copied()));
        for attribute in attributes {
            let stored = attribute.values.as_ber().to_vec();
            prop_assert_eq!(Values::from_ber_trusted(&stored), attribute.values);
        }
    }

    #[test]
    fn the_fast_path_writes_what_the_general_one_writes(
        id in 0..=i32::MAX,
        dn in arbitrary::text(),
        entry in vec(arbitrary::attribute(0), 0..6),
        controls in arbitrary::controls(),
    ) {
        let id = MessageId(id);
        let attributes: AttributesBuf = entry.iter().copied().collect();
        let op = Response::SearchEntry { dn, attributes: attributes.as_ref() };
        let mut general = b"before".to_vec();
        Message { id, op, controls }.encode(&mut general);

        let mut fast = b"before".to_vec();
        let mut writer = EntryWriter::begin(&mut fast, id, dn);
        for attribute in &entry {
            writer.attribute(attribute.description, attribute.values);
        }
        writer.finish(controls);
        prop_assert_eq!(&fast, &general);
    }

    #[test]
    fn the_fast_result_is_the_general_one(
        id in 0..=i32::MAX,
        outcome in arbitrary::result(),
        controls in arbitrary::controls(),
    ) {
        let id = MessageId(id);
        for (kind, op) in kinds(outcome) {
            let mut general = Vec::new();
            Message { id, op, controls }.encode(&mut general);
            let mut fast = Vec::new();
            result(&mut fast, id, kind, &outcome, controls);
            prop_assert_eq!(fast, general);
        }
    }

    #[test]
    fn integers_survive_and_are_minimal(number: i64) {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).integer(Tag::INTEGER, number);
        prop_assert_eq!(bytes.len(), tlv_len(integer_len(number)));
        prop_assert_eq!(Reader::new(&bytes).integer_i64(Tag::INTEGER), Ok(number));
    }

    #[test]
    fn no_octets_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
        let limits = DecodeLimits::default();
        let _ = frame(&bytes, 1_000);
        let _ = Message::<Request<'_>>::decode(&bytes, &limits);
        let _ = Message::<Response<'_>>::decode(&bytes, &limits);
    }
}

/// Each response that carries nothing but a result, with this one.
fn kinds(result: LdapResult<'_>) -> Vec<(ResponseKind, Response<'_>)> {
    vec![
        (ResponseKind::Bind, Response::Bind { result, server_sasl_credentials: None }),
        (ResponseKind::SearchDone, Response::SearchDone(result)),
        (ResponseKind::Modify, Response::Modify(result)),
        (ResponseKind::Add, Response::Add(result)),
        (ResponseKind::Delete, Response::Delete(result)),
        (ResponseKind::ModifyDn, Response::ModifyDn(result)),
        (ResponseKind::Compare, Response::Compare(result)),
        (ResponseKind::Extended, Response::Extended { result, oid: None, value: None }),
    ]
}

#[test]
fn integers_at_the_edges_are_minimal() {
    let check = |number: i64, octets: &[u8]| {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).integer(Tag::INTEGER, number);
        assert_eq!(bytes, [&[2, octets.len() as u8], octets].concat(), "{number}");
        assert_eq!(Reader::new(&bytes).integer_i64(Tag::INTEGER), Ok(number));
    };
    check(0, &[0]);
    check(1, &[1]);
    check(-1, &[0xFF]);
    check(127, &[0x7F]);
    check(128, &[0, 0x80]);
    check(-128, &[0x80]);
    check(-129, &[0xFF, 0x7F]);
    check(255, &[0, 0xFF]);
    check(256, &[1, 0]);
    check(32_767, &[0x7F, 0xFF]);
    check(32_768, &[0, 0x80, 0]);
    check(-32_768, &[0x80, 0]);
    check(8_388_608, &[0, 0x80, 0, 0]);
    check(2_147_483_647, &[0x7F, 0xFF, 0xFF, 0xFF]);
    check(2_147_483_648, &[0, 0x80, 0, 0, 0]);
    check(i64::MAX, &[0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    check(i64::MIN, &[0x80, 0, 0, 0, 0, 0, 0, 0]);
}

/// A DN and a value of every length around the edges, so that each of the three nested lengths of
/// an entry takes every number of octets.
#[test]
fn entry_lengths_are_minimal_around_every_edge() {
    let edges = [0, 50, 100, 127, 128, 255, 256, 65_535, 65_536, 100_000];
    let lengths = edges.iter().flat_map(|&edge| edge..edge + 40);
    for length in lengths {
        let value = vec![b'v'; length];
        for dn in ["", "uid=anna,ou=people,dc=example,dc=org"] {
            let attributes = [PartialAttribute { description: "cn", values: values(&[&value]) }];
            let attributes: AttributesBuf = attributes.into_iter().collect();
            let op = Response::SearchEntry { dn, attributes: attributes.as_ref() };
            let message = Message { id: MessageId(5), op, controls: Controls::EMPTY };
            let mut general = Vec::new();
            message.encode(&mut general);
            let mut fast = Vec::new();
            let mut writer = EntryWriter::begin(&mut fast, MessageId(5), dn);
            writer.attribute("cn", values(&[&value]));
            writer.finish(Controls::EMPTY);
            assert!(fast == general, "{length}");
            let decoded = Message::<Response<'_>>::decode(&fast, &DecodeLimits::default());
            assert_eq!(decoded.unwrap().op, op);
        }
    }
}

#[test]
fn an_entry_of_16_mib_has_lengths_of_four_octets() {
    let value = vec![0; 1 << 24];
    let mut bytes = Vec::new();
    let mut writer = EntryWriter::begin(&mut bytes, MessageId(1), "o=x");
    writer.attribute("a", values(&[&value]));
    writer.finish(Controls::EMPTY);
    assert!(bytes.starts_with(&[0x30, 0x84, 1, 0, 0]));
    assert_eq!(frame(&bytes, usize::MAX), Ok(Frame::Complete(bytes.len())));
    assert!(Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default()).is_ok());
}

#[test]
fn types_only_writes_empty_values() {
    let mut bytes = Vec::new();
    let mut writer = EntryWriter::begin(&mut bytes, MessageId(1), "o=x");
    writer.attribute_types_only("cn");
    writer.attribute_types_only("sn");
    let page = controls(&[control("1.2", true, None)]);
    writer.finish(page);
    let decoded = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap();
    let attributes = attributes(&[("cn", &[]), ("sn", &[])]);
    assert_eq!(decoded.op, Response::SearchEntry { dn: "o=x", attributes });
    assert_eq!(decoded.controls, page);
}

#[test]
fn the_notice_of_disconnection_is_message_0_with_its_oid() {
    let mut bytes = Vec::new();
    notice_of_disconnection(&mut bytes, ResultCode::ProtocolError, "what was that");
    let decoded = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap();
    let result =
        LdapResult { diagnostic: "what was that", ..LdapResult::new(ResultCode::ProtocolError) };
    assert_eq!(decoded.id, MessageId::UNSOLICITED);
    let oid = Some("1.3.6.1.4.1.1466.20036");
    assert_eq!(decoded.op, Response::Extended { result, oid, value: None });
}

#[test]
fn lists_in_other_length_forms_are_equal() {
    let minimal = [4, 1, b'a', 4, 1, b'b'];
    let padded = [4, 0x81, 1, b'a', 4, 0x82, 0, 1, b'b'];
    assert_eq!(Values::from_ber_trusted(&minimal), Values::from_ber_trusted(&padded));
    assert_ne!(Values::from_ber_trusted(&minimal), Values::from_ber_trusted(&minimal[..3]));
    assert_ne!(Values::from_ber_trusted(&minimal[3..]), Values::from_ber_trusted(&minimal[..3]));
}

#[test]
fn a_reader_goes_on_after_each_kind_of_element() {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.boolean(Tag::BOOLEAN, true);
    writer.enumerated(Tag::ENUMERATED, 300);
    writer.integer(Tag::INTEGER, -5);
    writer.octets(Tag::OCTET_STRING, "Å".as_bytes());
    writer.octets(Tag::context(3, false), b"x");
    writer.end(sequence);
    let mut whole = Reader::new(&bytes);
    let mut fields = whole.sequence(Tag::SEQUENCE).unwrap();
    assert_eq!(whole.end(), Ok(()));
    assert_eq!(fields.boolean(Tag::BOOLEAN), Ok(true));
    assert_eq!(fields.enumerated(Tag::ENUMERATED), Ok(300));
    let at_integer = fields;
    assert_eq!(fields.integer_i32(Tag::INTEGER), Ok(-5));
    assert_eq!(
        at_integer.clone().unsigned(Tag::INTEGER),
        Err(at_integer.error(DecodeReason::OutOfRange))
    );
    assert_eq!(fields.string(Tag::OCTET_STRING), Ok("Å"));
    assert_eq!(fields.string_optional(Tag::context(2, false)), Ok(None));
    assert_eq!(fields.peek_tag(), Some(Tag::context(3, false)));
    assert_eq!(fields.end().unwrap_err().reason, DecodeReason::TrailingBytes);
    assert_eq!(fields.read_optional(Tag::context(3, false)), Ok(Some(b"x".as_slice())));
    assert_eq!(fields.end(), Ok(()));
    assert_eq!(fields.read_any().unwrap_err().reason, DecodeReason::Truncated);
    assert_eq!(fields.offset(), bytes.len());
}
