//! Where `rasn-ldap` and we both read a message, we read the same.
#![no_main]

use ldap::message::{DecodeLimits, Message, Request, Response};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/ldap/tests/shared/rasn_form.rs"]
mod rasn_form;

fuzz_target!(|bytes: &[u8]| {
    let limits = DecodeLimits::default();
    let form = if let Ok(message) = Message::<Request<'_>>::decode(bytes, &limits) {
        rasn_form::request(&message)
    } else if let Ok(message) = Message::<Response<'_>>::decode(bytes, &limits) {
        rasn_form::response(&message)
    } else {
        None
    };
    // Ours first: what we refuse may be nested deeper than rasn's recursion can bear.
    if let Some(form) = form
        && let Ok(mut theirs) = rasn::ber::decode::<rasn_ldap::LdapMessage>(bytes)
    {
        // An empty list of controls says the same as none.
        theirs.controls = theirs.controls.filter(|controls| !controls.is_empty());
        assert_eq!(theirs, form);
    }
});
