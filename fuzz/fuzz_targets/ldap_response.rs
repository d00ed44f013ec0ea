//! What decodes as a response encodes to octets that decode equal; the fast path for entries
//! writes a message that means the same.
#![no_main]

use ldap::ber::{Frame, frame};
use ldap::encode::EntryWriter;
use ldap::message::{DecodeLimits, Message, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let framed = frame(bytes, usize::MAX);
    let limits = DecodeLimits::default();
    let Ok(message) = Message::<Response<'_>>::decode(bytes, &limits) else {
        return;
    };
    assert_eq!(framed, Ok(Frame::Complete(bytes.len())));
    let mut encoded = Vec::new();
    message.encode(&mut encoded);
    let again = Message::<Response<'_>>::decode(&encoded, &limits).expect("we read what we write");
    assert_eq!(again, message);
    if let Response::SearchEntry { dn, attributes } = message.op {
        let mut streamed = Vec::new();
        let mut writer = EntryWriter::begin(&mut streamed, message.id, dn);
        for attribute in attributes {
            writer.attribute(attribute.description, attribute.values);
        }
        writer.finish(message.controls);
        assert_eq!(Message::<Response<'_>>::decode(&streamed, &limits), Ok(message));
    }
});
