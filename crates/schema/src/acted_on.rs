//! Attribute types that the server itself acts on: what grants, locks, steers or hides.
//!
//! Invariant: no new type is derived from one of them. Asking for a type gets its subtypes, too,
//! so a derived one would take effect, under a name that no access rule and no eye looks for.

use std::sync::Arc;

use crate::attribute_type::AttributeType;
use crate::definition::{Definition, DefinitionKind};
use crate::error::{DefinitionLocation, SchemaError, SchemaFault};
use crate::schema::Schema;

/// Whether the server acts on values of a type: on all operational ones, and some of users.
fn acts_on(kind: &AttributeType) -> bool {
    kind.is_operational()
        || OF_USERS.iter().any(|name| kind.is_named(name))
        || kind.names.iter().any(|name| name.to_ascii_lowercase().starts_with(OF_CONFIGURATION))
}

/// Whether the server may rely on values of a type being what its definition says: those that it
/// acts on, passwords and what is kept of them, and what limits, policies and groups are made of.
pub(crate) fn is_acted_on(kind: &AttributeType) -> bool {
    let is_of_server = |name: &String| {
        let name = name.to_ascii_lowercase();
        name == OF_GROUPS || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    kind.is_secret() || acts_on(kind) || kind.names.iter().any(is_of_server)
}

/// What names of types begin with that only servers heed.
const OWN_PREFIXES: [&str; 3] = ["ds-", "roster-", "pwd"];

/// Describes the members of a group, in lower case.
const OF_GROUPS: &str = "memberurl";

/// Types for users' data that say what an entry is, who has a role, and who signs in as it.
const OF_USERS: &[&str] =
    &["objectClass", "nsRoleFilter", "ds-certificate-fingerprint", "ds-certificate-subject-dn"];

/// What types of the configuration begin with.
const OF_CONFIGURATION: &str = "ds-cfg-";

const LOSES_A_NAME: &str = "loses a name";
const GOES: &str = "is gone, and came with the server";

impl Schema {
    /// Refuses definitions that are new in this schema and derive a type from one that the server
    /// acts on. That is for who defines them, not for a schema that is read again: what was
    /// accepted by an older release stays.
    pub fn check_superiors<'d>(
        &self,
        place: &DefinitionLocation,
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
        place: &DefinitionLocation,
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

    /// Refuses to remove types that the server acts on: without one it would go on, and heed no
    /// value of it any more.
    pub fn check_removed(
        &self,
        place: &DefinitionLocation,
        removed: &[Definition],
    ) -> Result<(), SchemaError> {
        let gone = removed.iter().filter(|one| self.attribute_type(&one.oid).is_none());
        for definition in gone.filter(|one| one.kind() == DefinitionKind::AttributeType) {
            if let Some(kind) = Self::builtin().attribute_type(&definition.oid)
                && acts_on(kind)
            {
                let fault = SchemaFault::Kept(kind.name().to_owned());
                return Err(SchemaError::of(place, definition, fault));
            }
        }
        Ok(())
    }

    /// Refuses what makes ACIs, groups and policies mean something else, for values that are there:
    /// a type becomes operational or ordinary (`*` means only the latter) or is secret no more, a
    /// type or class loses a name, or one that came with the server is gone. `old` is the schema
    /// before.
    pub fn check_meaning(
        &self,
        old: &Self,
        place: &DefinitionLocation,
        added: &[Definition],
        removed: &[Definition],
    ) -> Result<(), SchemaError> {
        for definition in added.iter().chain(removed) {
            let what = match definition.kind() {
                DefinitionKind::AttributeType => self.other_type(old, &definition.oid),
                DefinitionKind::ObjectClass => self.other_class(old, &definition.oid),
                _ => None,
            };
            if let Some(what) = what {
                return Err(SchemaError::of(place, definition, SchemaFault::Reinterpreted(what)));
            }
        }
        Ok(())
    }

    fn other_type(&self, old: &Self, oid: &str) -> Option<&'static str> {
        let before = old.attribute_type(oid)?;
        let Some(kind) = self.attribute_type(oid) else {
            return Self::builtin().attribute_type(oid).and(Some(GOES));
        };
        if before.is_operational() != kind.is_operational() {
            Some("changes between operational and ordinary")
        } else if before.is_secret() && !kind.is_secret() {
            Some("is secret no more")
        } else {
            let keeps_all = before.names.iter().all(|name| kind.is_named(name));
            (!keeps_all).then_some(LOSES_A_NAME)
        }
    }

    fn other_class(&self, old: &Self, oid: &str) -> Option<&'static str> {
        let before = old.object_class(oid)?;
        let Some(class) = self.object_class(oid) else {
            return Self::builtin().object_class(oid).and(Some(GOES));
        };
        let is_kept = |name: &String| self.object_class(name).is_some_and(|one| one == class);
        (!before.names.iter().all(is_kept)).then_some(LOSES_A_NAME)
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
        assert!(schema.check_superiors(&DefinitionLocation::default(), [&derived]).is_err());
    }

    #[test]
    fn a_definition_leaves_to_acis_what_they_mean() {
        let own = |more: &str| {
            let syntax = "EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15";
            definition(&format!("( 1.3.6.1.4.1.99999.1 NAME {more} {syntax} )"))
        };
        let first = definition(
            "( 1.3.6.1.4.1.99999.1 NAME ( 'pin' 'doorPin' ) EQUALITY caseIgnoreMatch \
             SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 X-SECRET 'TRUE' )",
        );
        let old = Schema::builtin().with_change(from_ref(&first), &[]).unwrap();
        let check = |definition: Definition, want: &str| {
            let new = old.with_change(from_ref(&definition), &[]).unwrap();
            let found = new.check_meaning(&old, &DefinitionLocation::default(), &[definition], &[]);
            let found = found.map_err(|error| error.to_string());
            match want {
                "" => assert_eq!(found, Ok(())),
                _ => assert!(found.clone().unwrap_err().contains(want), "{found:?}"),
            }
        };
        let mut same = first.clone();
        same.names.push("thePin".to_owned());
        check(same.clone(), "");
        same.names.retain(|name| name != "doorPin");
        check(same, "loses a name");
        check(own("( 'pin' 'doorPin' ) DESC 'of a door'"), "is secret no more");
        let operational = "( 1.3.6.1.4.1.99999.1 NAME ( 'pin' 'doorPin' ) EQUALITY \
             caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 USAGE directoryOperation \
             X-SECRET 'TRUE' )";
        check(definition(operational), "operational");
        check(definition("( 1.3.6.1.4.1.99999.2 NAME 'other' SUP name )"), "");
    }

    #[test]
    fn what_came_with_the_server_keeps_its_names_and_stays() {
        let old = Schema::builtin();
        let of = |kind: DefinitionKind, text: &str| Definition::parse(kind, text).unwrap();
        let class = of(
            DefinitionKind::ObjectClass,
            "( 1.3.6.1.4.1.42.2.27.8.2.1 NAME 'xyzPolicy' SUP top AUXILIARY MUST pwdAttribute )",
        );
        let new = old.with_change(from_ref(&class), &[]).unwrap();
        let found = new.check_meaning(&old, &DefinitionLocation::default(), &[class], &[]);
        assert!(found.unwrap_err().to_string().contains("loses a name"));
        let kind = DefinitionKind::AttributeType;
        let gone = |oid: &str| {
            let start = format!("( {oid} ");
            of(kind, &old.definitions(kind).find(|line| line.starts_with(&start)).unwrap())
        };
        let lock = gone("1.3.6.1.4.1.42.2.27.8.1.17");
        let new = old.with_change(&[], from_ref(&lock)).unwrap();
        let found = new.check_removed(&DefinitionLocation::default(), from_ref(&lock));
        assert!(found.unwrap_err().to_string().contains("the server acts on"));
        // One that no class has.
        let mut others = old.attribute_types().filter(|one| !acts_on(one));
        let (other, new) = others
            .find_map(|one| {
                let other = gone(&one.oid);
                Some((other.clone(), old.with_change(&[], &[other]).ok()?))
            })
            .unwrap();
        assert!(new.check_removed(&DefinitionLocation::default(), from_ref(&other)).is_ok());
        let found = new.check_meaning(&old, &DefinitionLocation::default(), &[], &[other]);
        assert!(found.unwrap_err().to_string().contains("is gone"));
    }

    #[test]
    fn a_definition_opens_nothing_that_the_server_acts_on() {
        let check = |text: &str, want: bool| {
            let definition = definition(text);
            let schema = Schema::builtin().with_change(from_ref(&definition), &[]).unwrap();
            let found = schema.check_openness(&DefinitionLocation::default(), [&definition]);
            assert_eq!(found.is_ok(), want, "{text}: {found:?}");
        };
        let limit = "( 1.3.6.1.4.1.26027.1.1.116 NAME 'ds-rlim-size-limit' EQUALITY integerMatch \
             SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE";
        check(&format!("{limit} )"), false);
        check(&format!("{limit} USAGE directoryOperation )"), true);
        check("( 1.3.6.1.4.1.99999.1 NAME 'hat' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )", true);
    }
}
