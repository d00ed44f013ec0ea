//! Persistent search (draft-ietf-ldapext-psearch-03) and content synchronisation (RFC 4533): the
//! controls with which a search tells what changes.

use ldap::control_value::persistent_search::PersistentSearch;
use ldap::control_value::sync::SyncRequest;
use ldap::message::Control;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

pub(super) use ldap::control_value::persistent_search::OID as PERSISTENT_SEARCH;
pub(super) use ldap::control_value::sync::REQUEST_OID as SYNC;

/// What the controls are called.
pub(super) const PERSISTENT_SEARCH_NAME: &str = "the persistent search control";
pub(super) const SYNC_NAME: &str = "the sync request control";

pub(super) fn read_persistent_search(control: &Control<'_>) -> Result<PersistentSearch, Refusal> {
    PersistentSearch::decode(required(control, PERSISTENT_SEARCH_NAME)?).map_err(|_| {
        malformed("the value of the persistent search control is malformed, or asks for no changes")
    })
}

pub(super) fn read_sync<'a>(control: &Control<'a>) -> Result<Box<SyncRequest<'a>>, Refusal> {
    let asked = SyncRequest::decode(required(control, SYNC_NAME)?)
        .map_err(|_| malformed("the value of the sync request control is malformed"))?;
    if asked.cookie.is_some_and(|cookie| cookie.len() > COOKIE_MAX_BYTES) {
        return Err(malformed("the cookie of the sync request control is none of a server"));
    }
    Ok(Box::new(asked))
}

/// Cookies of this server have about 250 octets, and those that consumers keep of several servers
/// some more.
const COOKIE_MAX_BYTES: usize = 4_096;
