//! Any octets are the value of a control, or an error; what a value says is inside it.
#![no_main]

use ldap::control_value::sort::{SortResult, sort_keys, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvResponse};
use ldap::control_value::{TransactionEnd, assertion, attribute_selection};
use ldap::message::DecodeLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|value: &[u8]| {
    if let Ok(filter) = assertion(value, &DecodeLimits::default()) {
        let mut again = Vec::new();
        filter.encode(&mut ldap::ber::Writer::new(&mut again));
        let again = assertion(&again, &DecodeLimits::default());
        assert_eq!(again.as_ref(), Ok(&filter), "an encoded filter decodes equal");
    }
    if let Ok(selection) = attribute_selection(value) {
        assert!(selection.iter().map(str::len).sum::<usize>() <= value.len());
    }
    if let Ok(keys) = sort_keys(value) {
        assert_eq!(sort_keys(&write_sort_keys(&keys)), Ok(keys));
    }
    if let Ok(result) = SortResult::decode(value) {
        assert_eq!(SortResult::decode(&result.encode()), Ok(result));
    }
    if let Ok(request) = VlvRequest::decode(value) {
        assert_eq!(VlvRequest::decode(&request.encode()), Ok(request));
    }
    if let Ok(response) = VlvResponse::decode(value) {
        assert_eq!(VlvResponse::decode(&response.encode()), Ok(response));
    }
    if let Ok(end) = TransactionEnd::decode(value) {
        assert!(end.identifier.len() < value.len());
    }
});
