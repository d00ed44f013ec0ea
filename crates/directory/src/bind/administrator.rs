//! The administrator's name: it has no entry, so it must not be that of one.

use ldap::dn::Dn;
use schema::{DnKey, Schema};

use crate::error::DirectoryError;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::read::virtual_tree::names::VirtualTrees;

/// Refuses a name that the administrator of a directory with these suffixes cannot have.
///
/// # Errors
/// Why not.
pub fn check_administrator(name: &Dn, suffixes: &[Dn]) -> Result<(), DirectoryError> {
    check_name(name, suffixes, &Schema::builtin()).map(drop)
}

/// Refuses a name under which the administrator would not be found: the empty one, those of entries
/// that the server makes itself and all below them, and the suffixes.
pub(crate) fn check_name(
    name: &Dn,
    suffixes: &[Dn],
    schema: &Schema,
) -> Result<DnKey, DirectoryError> {
    let bad = |reason: String| DirectoryError::Name { text: name.to_string(), reason };
    if name.is_root() {
        return Err(bad("the administrator has a name of at least one RDN".to_owned()));
    }
    let key = DnKey::from_dn(schema, name).map_err(|error| bad(error.to_string()))?;
    let subschema = DnKey::from_text(schema, SUBSCHEMA_DN).expect("the code writes valid names");
    if key.is_within(&subschema) || VirtualTrees::new(schema).hold(&key) {
        let reason = "the server makes cn=schema, cn=config, cn=monitor and what is below them \
                      itself, and the administrator has no entry";
        return Err(bad(reason.to_owned()));
    }
    let is_it = |suffix: &Dn| DnKey::from_dn(schema, suffix).is_ok_and(|suffix| suffix == key);
    if suffixes.iter().any(is_it) {
        return Err(bad("it is a suffix, and has an entry".to_owned()));
    }
    Ok(key)
}
