//! Attribute types that the server itself acts on: what grants, locks, steers or hides.
//!
//! Invariant: no new type is derived from one of them. Asking for a type gets its subtypes, too,
//! so a derived one would take effect, under a name that no access rule and no eye looks for.

use std::sync::Arc;

use crate::attribute_type::AttributeType;
use crate::definition::{Definition, DefinitionKind};
use crate::error::{Place, SchemaError, SchemaFault};
use crate::schema::Schema;

/// Whether the server acts on values of a type: on all operational ones, and some of users.
fn acts_on(kind: &AttributeType) -> bool {
    kind.is_operational()
        || OF_USERS.iter().any(|name| kind.is_named(name))
        || kind.names.iter().any(|name| name.to_ascii_lowercase().starts_with(OF_CONFIGURATION))
}

/// Types for users' data that say what an entry is, who has a role, and who signs in as it.
const OF_USERS: &[&str] =
    &["objectClass", "nsRoleFilter", "ds-certificate-fingerprint", "ds-certificate-subject-dn"];

/// What types of the configuration begin with.
const OF_CONFIGURATION: &str = "ds-cfg-";

impl Schema {
    /// Refuses definitions that are new in this schema and derive a type from one that the server
    /// acts on. That is for who defines them, not for a schema that is read again: what was
    /// accepted by an older release stays.
    pub fn check_superiors<'d>(
        &self,
        place: &Place,
        added: impl IntoIterator<Item = &'d Definition>,
    ) -> Result<(), SchemaError> {
        for (definition, kind) in self.types_of(added) {
            let mut above =
                std::iter::successors(kind.superior.as_ref(), |one| one.superior.as_ref());
            if let Some(superior) = above.find(|one| acts_on(one)) {
                let fault = SchemaFault::ActedOn(superior.name().to_owned());
                return Err(SchemaError::of(place, definition, fault));
            }
        }
        Ok(())
    }

    /// Refuses definitions that open what the server acts on to clients: a type that only the
    /// server changes, or one that is operational, defined anew without that.
    pub fn check_openness<'d>(
        &self,
        place: &Place,
        added: impl IntoIterator<Item = &'d Definition>,
    ) -> Result<(), SchemaError> {
        let builtin = Self::builtin();
        for (definition, kind) in self.types_of(added) {
            let names = kind.names.iter().chain([&kind.oid]);
            let mut known = names.filter_map(|name| builtin.attribute_type(name));
            let is_opened = |known: &Arc<AttributeType>| {
                (known.is_operational() && !kind.is_operational())
                    || (known.no_user_modification && !kind.no_user_modification)
            };
            if known.any(is_opened) {
                return Err(SchemaError::of(place, definition, SchemaFault::Opened));
            }
        }
        Ok(())
    }

    /// The attribute types among definitions, as this schema has them.
    fn types_of<'d>(
        &self,
        added: impl IntoIterator<Item = &'d Definition>,
    ) -> impl Iterator<Item = (&'d Definition, &Arc<AttributeType>)> {
        let types = added.into_iter().filter(|one| one.kind() == DefinitionKind::AttributeType);
        types.filter_map(|one| Some((one, self.attribute_type(&one.oid)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    #[test]
    fn a_schema_file_derives_no_type_from_one_that_the_server_acts_on() {
        let check = |superior: &str, want: bool| {
            let text = format!(
                "dn: cn=schema\nattributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'mine' \
                 SUP {superior} )\n"
            );
            let file = crate::SchemaFile { name: "99-user.ldif".to_owned(), text };
            let found = Schema::builtin().with_files(&[file]);
            assert_eq!(found.is_ok(), want, "{superior}: {:?}", found.err());
        };
        check("objectClass", false);
        check("ds-privilege-name USAGE directoryOperation", false);
        check("userPassword", true);
        check("member", true);
    }

    fn definition(text: &str) -> Definition {
        Definition::parse(DefinitionKind::AttributeType, text).unwrap()
    }

    #[test]
    fn no_type_of_the_tree_is_derived_from_one_that_the_server_acts_on() {
        let schema = Schema::builtin();
        for kind in schema.attribute_types() {
            let superior = kind.superior.as_deref();
            assert!(!superior.is_some_and(acts_on), "{kind:?} is derived from {superior:?}");
        }
    }

    #[test]
    fn what_is_derived_from_what_only_the_server_changes_is_changed_by_it_alone() {
        // Such a type may be in a schema that an older release wrote.
        let derived = definition(
            "( 1.3.6.1.4.1.99999.1 NAME 'myChanged' SUP pwdChangedTime USAGE directoryOperation )",
        );
        let schema = Schema::builtin().with_change(from_ref(&derived), &[]).unwrap();
        assert!(schema.attribute_type("myChanged").unwrap().no_user_modification);
        assert!(schema.check_superiors(&Place::default(), [&derived]).is_err());
    }

    #[test]
    fn a_definition_opens_nothing_that_the_server_acts_on() {
        let check = |text: &str, want: bool| {
            let definition = definition(text);
            let schema = Schema::builtin().with_change(from_ref(&definition), &[]).unwrap();
            let found = schema.check_openness(&Place::default(), [&definition]);
            assert_eq!(found.is_ok(), want, "{text}: {found:?}");
        };
        let limit = "( 1.3.6.1.4.1.26027.1.1.116 NAME 'ds-rlim-size-limit' EQUALITY integerMatch \
             SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE";
        check(&format!("{limit} )"), false);
        check(&format!("{limit} USAGE directoryOperation )"), true);
        check("( 1.3.6.1.4.1.99999.1 NAME 'hat' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )", true);
    }
}
