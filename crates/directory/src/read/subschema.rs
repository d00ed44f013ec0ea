//! The subschema subentry (RFC 4512 §4.2), complete and true: made from the schema in force.

use ldap::dn::Dn;
use schema::{DefinitionKind, DnKey, Entry, Schema};

use crate::config::schema_times::SchemaTimes;

/// The subschema entry of `schema`, and its key.
pub(crate) fn entry(schema: &Schema, times: &SchemaTimes) -> (Entry, DnKey) {
    let dn = Dn::parse(SUBSCHEMA_DN).expect("the constant is a DN");
    let key = DnKey::from_dn(schema, &dn).expect("cn is always defined");
    let mut entry = Entry::new(dn);
    let mut put = |name: &str, values: Vec<Vec<u8>>| {
        if let Ok(description) = schema.describe(name)
            && !values.is_empty()
        {
            // Made of distinct values by construction.
            let _ = entry.replace_values(schema, &description, values);
        }
    };
    let text = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect();
    put("objectClass", text(&["top", "subentry", "subschema", "extensibleObject"]));
    put("cn", text(&["schema"]));
    put("subtreeSpecification", text(&["{}"]));
    put("structuralObjectClass", text(&["subentry"]));
    put("createTimestamp", text(&[&times.created()]));
    put("modifyTimestamp", text(&[&times.modified()]));
    put("entryDN", text(&[SUBSCHEMA_DN]));
    put("subschemaSubentry", text(&[SUBSCHEMA_DN]));
    put("hasSubordinates", text(&["FALSE"]));
    put("numSubordinates", text(&["0"]));
    for kind in DefinitionKind::ALL {
        let values = schema.definitions(kind).map(String::into_bytes).collect();
        put(kind.attribute(), values);
    }
    (entry, key)
}

/// The name of the subschema subentry of the whole server.
pub(crate) const SUBSCHEMA_DN: &str = "cn=schema";
