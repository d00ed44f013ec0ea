//! The entry that an update request names, under the schema in force.

use std::sync::Arc;

use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{DnKey, Schema};

use crate::directory::{Directory, State};
use crate::request::refusal::Refusal;

/// The key of a name; `invalidDNSyntax` when an attribute of it is unknown or a value malformed.
pub(crate) fn key(schema: &Schema, dn: &Dn) -> Result<DnKey, Refusal> {
    DnKey::from_dn(schema, dn)
        .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))
}

/// The entry that an update request names.
pub(crate) struct Named {
    pub(crate) state: Arc<State>,
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
}

/// What every update begins with: the name of the request, and what it means under the schema in
/// force. Whether the session may have the update is decided by the writer, see `permit.rs`.
pub(crate) fn named(directory: &Directory, name: &str) -> Result<Named, Refusal> {
    let dn = Dn::parse(name)?;
    let state = directory.state.load_full();
    let key = key(&state.schema, &dn)?;
    Ok(Named { state, dn, key })
}

/// The entry that an update names, as [`named`] gives it. Refuses the names of entries that the
/// server makes itself.
pub(crate) fn named_stored(directory: &Directory, name: &str) -> Result<Named, Refusal> {
    stored(named(directory, name)?)
}

/// Refuses the names of entries the server makes itself.
pub(crate) fn stored(named: Named) -> Result<Named, Refusal> {
    let Named { state, key, .. } = &named;
    if key.depth() == 0 || *key == state.subschema_key || state.virtual_trees.hold(key) {
        return Err(refuse_special());
    }
    Ok(named)
}

/// The refusal for changes of entries the server makes itself.
pub(crate) fn refuse_special() -> Refusal {
    Refusal::new(
        ResultCode::UnwillingToPerform,
        "the root DSE, cn=schema, cn=config, cn=monitor and cn=changelog are maintained by the \
         server",
    )
}
