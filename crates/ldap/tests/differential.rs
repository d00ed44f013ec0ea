//! Two other implementations read what we write, and we what they write.
//!
//! What their types cannot say stands at the head of `shared/rasn_form.rs` and
//! `shared/proto_form.rs`; where they read or write something else, a test here says so.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "shared/proto_form.rs"]
mod proto_form;
#[path = "shared/rasn_form.rs"]
mod rasn_form;
mod shared;

use bytes::BytesMut;
use ldap::message::*;
use ldap3_proto::LdapCodec;
use proptest::prelude::*;
use shared::arbitrary::{self, Octets};
use tokio_util::codec::{Decoder, Encoder};

proptest! {
    #[test]
    fn rasn_reads_our_requests_and_we_its(message in arbitrary::request(Octets::Any)) {
        if let Some(theirs) = rasn_form::request(&message) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(&rasn::ber::decode::<rasn_ldap::LdapMessage>(&bytes).unwrap(), &theirs);
            let bytes = rasn::ber::encode(&theirs).unwrap();
            let ours = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap();
            prop_assert_eq!(rasn_form::request(&ours), Some(theirs));
        }
    }

    #[test]
    fn rasn_reads_our_responses_and_we_its(message in arbitrary::response()) {
        if let Some(theirs) = rasn_form::response(&message) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(&rasn::ber::decode::<rasn_ldap::LdapMessage>(&bytes).unwrap(), &theirs);
            let bytes = rasn::ber::encode(&theirs).unwrap();
            let ours = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap();
            prop_assert_eq!(rasn_form::response(&ours), Some(theirs));
        }
    }

    #[test]
    fn ldap3_reads_our_requests_and_we_its(message in arbitrary::request(Octets::Text)) {
        if let Some(theirs) = proto_form::request(&message) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(&ldap3_decode(&bytes), &theirs);
            let bytes = ldap3_encode(theirs);
            let ours = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default());
            prop_assert_eq!(ours, Ok(message));
        }
    }

    #[test]
    fn ldap3_reads_our_responses_and_we_its(message in arbitrary::response()) {
        if let Some(theirs) = proto_form::response(&message) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(ldap3_decode(&bytes), proto_form::without_referrals(theirs.clone()));
            let bytes = ldap3_encode(theirs);
            let ours = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default());
            prop_assert_eq!(ours, Ok(message));
        }
    }

    /// With some octets changed, both may refuse; where both accept, they read the same.
    #[test]
    fn rasn_reads_the_same_in_damaged_messages(
        message in arbitrary::request(Octets::Any),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
    ) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        for (at, octet) in damage {
            let at = at.index(bytes.len());
            bytes[at] = octet;
        }
        let ours = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default());
        if let (Ok(ours), Ok(theirs)) = (ours, rasn::ber::decode(&bytes))
            && let Some(form) = rasn_form::request(&ours)
        {
            prop_assert_eq!(form, theirs);
        }
    }
}

/// Requests `rasn` reads and we refuse, each with the rule of ours.
#[test]
fn rasn_is_more_lenient_than_we_are() {
    let check = |rule: &str, hex: &str| {
        let bytes = shared::unhex(hex);
        let ours = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default());
        assert!(ours.is_err(), "{rule}");
        assert!(rasn::ber::decode::<rasn_ldap::LdapMessage>(&bytes).is_ok(), "{rule}");
    };
    check("definite lengths (RFC 4511 §5.1)", "30 80 02 01 01 42 00 00 00");
    check("a request has an id above 0 (RFC 4511 §4.1.1.1)", "30 05 02 01 00 42 00");
    check("ids end at maxInt (RFC 4511 §4.1.1.1)", "30 09 02 05 00 80 00 00 00 42 00");
    check("minimal integers (X.690 §8.3.2)", "30 06 02 02 00 01 42 00");
    check("primitive strings (RFC 4511 §5.1)", "30 0e 02 01 01 60 09 02 01 03 24 02 04 00 80 00");
    check("nothing after the message", "30 05 02 01 01 42 00 00");
    check("versions end at 127", "30 0d 02 01 01 60 08 02 02 00 80 04 00 80 00");
    check("an added attribute has values", "30 10 02 01 01 68 0b 04 00 30 07 30 05 04 01 61 31 00");
    let search = "04 00 0a 01 00 0a 01 00 02 01 00 02 01 00 01 01 00";
    check("substrings", &format!("30 1f 02 01 01 63 1a {search} a4 05 04 01 61 30 00 30 00"));
    check("a rule or a type", &format!("30 1d 02 01 01 63 18 {search} a9 03 83 01 78 30 00"));
}

/// What senders are asked for binds no reader: clients write TRUE as 0x01 (RFC 4511 §5.1).
#[test]
fn every_octet_but_0_is_true() {
    for octet in 0..=255_u8 {
        let hex = format!("30 0e 02 01 01 6c 09 04 01 61 04 01 62 01 01 {octet:02x}");
        let bytes = shared::unhex(&hex);
        let ours = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap();
        let Request::ModifyDn(rename) = ours.op else { panic!("a rename") };
        assert_eq!(rename.delete_old_rdn, octet != 0);
        assert_eq!(rasn_form::request(&ours), rasn::ber::decode(&bytes).ok());
    }
    let controls = "a0 08 30 06 04 01 31 01 01 01";
    let bytes = shared::unhex(&format!("30 0f 02 01 01 42 00 {controls}"));
    let ours = Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default()).unwrap();
    assert!(ours.controls.iter().all(|control| control.critical));
}

/// Requests we read and `rasn` refuses: its types end where RFC 4511 says `...`.
#[test]
fn rasn_does_not_know_extensions() {
    let check = |what: &str, hex: &str| {
        let bytes = shared::unhex(hex);
        assert!(Message::<Request<'_>>::decode(&bytes, &DecodeLimits::default()).is_ok(), "{what}");
        assert!(rasn::ber::decode::<rasn_ldap::LdapMessage>(&bytes).is_err(), "{what}");
    };
    check("another choice of Bind", "30 0c 02 01 01 60 07 02 01 03 04 00 81 00");
    check(
        "increment (RFC 4525 §2)",
        "30 15 02 01 01 66 10 04 00 30 0c 30 0a 0a 01 03 30 05 04 01 61 31 00",
    );
    check(
        "the subordinate scope",
        "30 1b 02 01 01 63 16 04 00 0a 01 03 0a 01 00 02 01 00 02 01 00 01 01 00 87 01 61 30 00",
    );
    check("components added later (RFC 4511 §4)", "30 07 02 01 01 42 00 85 00");
}

#[track_caller]
fn ldap3_decode(bytes: &[u8]) -> ldap3_proto::proto::LdapMsg {
    let mut buffer = BytesMut::from(bytes);
    let message = ldap3_codec().decode(&mut buffer).unwrap().unwrap();
    assert!(buffer.is_empty());
    message
}

fn ldap3_encode(message: ldap3_proto::proto::LdapMsg) -> BytesMut {
    let mut buffer = BytesMut::new();
    ldap3_codec().encode(message, &mut buffer).unwrap();
    buffer
}

fn ldap3_codec() -> LdapCodec {
    LdapCodec::new(Some(1 << 24), None)
}
