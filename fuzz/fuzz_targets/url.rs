//! Any text is an LDAP URL that reads back as displayed, or fails at a place inside the text.
#![no_main]

use ldap::url::{LdapUrl, URL_LENGTH_MAX_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match LdapUrl::parse(text) {
    Ok(url) => {
        let displayed = url.to_string();
        assert!(displayed.bytes().all(|byte| byte.is_ascii_graphic()));
        if displayed.len() <= URL_LENGTH_MAX_BYTES {
            assert_eq!(LdapUrl::parse(&displayed), Ok(url));
        }
    }
    Err(error) => assert!(error.offset <= text.len() && !error.to_string().is_empty()),
});
