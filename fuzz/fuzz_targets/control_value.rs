//! Any octets are the value of a control, or an error; what a value says is inside it.
#![no_main]

use ldap::control_value::changelog_cookie;
use ldap::control_value::dereference;
use ldap::control_value::join::EntryJoin;
use ldap::control_value::persistent_search::{EntryChange, PersistentSearch};
use ldap::control_value::policy_state::PolicyState;
use ldap::control_value::purpose::OperationPurpose;
use ldap::control_value::read_level::ReadLevelRequest;
use ldap::control_value::sort::{SortResult, sort_keys, write_sort_keys};
use ldap::control_value::sync::{EntryState, SyncDone, SyncInfo, SyncRequest, uuid_of_text};
use ldap::control_value::uniqueness::{UniquenessRequest, UniquenessResponse};
use ldap::control_value::usability::Usability;
use ldap::control_value::vlv::{VlvRequest, VlvResponse};
use ldap::control_value::{TransactionEnd, assertion, attribute_selection};
use ldap::message::DecodeLimits;
use ldap::search_control::{
    EntryCountRequest, VALUES_ITEMS_MAX, subentries_visibility, values_return_filter,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|value: &[u8]| {
    if let Ok(filter) = assertion(value, &DecodeLimits::default()) {
        let mut again = Vec::new();
        filter.encode(&mut ldap::ber::Writer::new(&mut again));
        let again = assertion(&again, &DecodeLimits::default());
        assert_eq!(again.as_ref(), Ok(&filter), "an encoded filter decodes equal");
    }
    if let Ok(cookie) = changelog_cookie::decode(value) {
        assert!(cookie.len() <= value.len().min(changelog_cookie::COOKIE_MAX_BYTES));
    }
    if let Ok(asked) = dereference::decode(value) {
        assert!(!asked.is_empty() && asked.len() <= dereference::SPECIFICATIONS_MAX);
        let names = asked.iter().flat_map(|one| one.attributes.iter());
        assert!(names.map(str::len).sum::<usize>() < value.len());
    }
    if let Ok(request) = EntryJoin::decode(value, &DecodeLimits::default()) {
        let again = request.encode();
        assert_eq!(EntryJoin::decode(&again, &DecodeLimits::default()), Ok(request));
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
    if let Ok(request) = UniquenessRequest::decode(value, &DecodeLimits::default()) {
        let again = request.encode();
        let again = UniquenessRequest::decode(&again, &DecodeLimits::default());
        assert_eq!(again, Ok(request));
    }
    if let Ok(response) = UniquenessResponse::decode(value) {
        assert_eq!(UniquenessResponse::decode(&response.encode()), Ok(response));
    }
    if let Ok(request) = ReadLevelRequest::decode(value) {
        assert_eq!(ReadLevelRequest::decode(&request.encode()), Ok(request));
    }
    if let Ok(request) = OperationPurpose::decode(value) {
        assert_eq!(OperationPurpose::decode(&request.encode()), Ok(request));
    }
    if let Ok(request) = PersistentSearch::decode(value) {
        assert_eq!(PersistentSearch::decode(&request.encode()), Ok(request));
    }
    if let Ok(told) = EntryChange::decode(value) {
        assert_eq!(EntryChange::decode(&told.encode()), Ok(told));
    }
    if let Ok(request) = SyncRequest::decode(value) {
        assert_eq!(SyncRequest::decode(&request.encode()), Ok(request));
    }
    if let Ok(told) = EntryState::decode(value) {
        assert_eq!(EntryState::decode(&told.encode()), Ok(told));
    }
    if let Ok(told) = SyncInfo::decode(value) {
        assert_eq!(SyncInfo::decode(&told.encode()), Ok(told));
    }
    if let Ok(told) = SyncDone::decode(value) {
        assert_eq!(SyncDone::decode(&told.encode()), Ok(told));
    }
    let _ = uuid_of_text(value);
    if let Ok(request) = VlvRequest::decode(value) {
        assert_eq!(VlvRequest::decode(&request.encode()), Ok(request));
    }
    if let Ok(response) = VlvResponse::decode(value) {
        assert_eq!(VlvResponse::decode(&response.encode()), Ok(response));
    }
    if let Ok(state) = PolicyState::decode(value) {
        assert_eq!(PolicyState::decode(&state.encode()), Ok(state));
    }
    if let Ok(usability) = Usability::decode(value) {
        assert_eq!(Usability::decode(&usability.encode()), Ok(usability));
    }
    if let Ok(end) = TransactionEnd::decode(value) {
        assert!(end.identifier.len() < value.len());
    }
    if let Ok(items) = values_return_filter(value, &DecodeLimits::default()) {
        assert!(!items.is_empty() && items.len() <= VALUES_ITEMS_MAX);
        let mut again = Vec::new();
        let mut writer = ldap::ber::Writer::new(&mut again);
        let list = writer.begin(ldap::ber::Tag::SEQUENCE);
        for item in &items {
            item.encode(&mut writer);
        }
        writer.end(list);
        let again = values_return_filter(&again, &DecodeLimits::default());
        assert_eq!(again.as_ref(), Ok(&items), "an encoded list decodes equal");
    }
    if let Ok(visible) = subentries_visibility(value) {
        // A length may take more octets than it must, so there can be more than three; every octet
        // but 0 is TRUE.
        assert_eq!(value.last().is_some_and(|last| *last != 0), visible);
    }
    if let Ok(request) = EntryCountRequest::decode(value) {
        assert!(i32::try_from(request.examine_max).is_ok());
    }
});
