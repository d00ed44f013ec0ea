//! What decodes as a request encodes to octets that decode equal; encoding again changes nothing.
#![no_main]

use ldap::ber::{Frame, frame};
use ldap::message::{DecodeLimits, Message, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let framed = frame(bytes, usize::MAX);
    let limits = DecodeLimits::default();
    let Ok(message) = Message::<Request<'_>>::decode(bytes, &limits) else {
        return;
    };
    assert_eq!(framed, Ok(Frame::Complete(bytes.len())));
    let mut encoded = Vec::new();
    message.encode(&mut encoded);
    let again = Message::<Request<'_>>::decode(&encoded, &limits).expect("we read what we write");
    assert_eq!(again, message);
    let mut encoded_again = Vec::new();
    again.encode(&mut encoded_again);
    assert_eq!(encoded_again, encoded);
});
