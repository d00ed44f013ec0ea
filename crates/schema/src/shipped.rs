//! Schema files that come with the server and are switched on by name.
//!
//! Invariant: any of them load together, with each other and with what every server starts with;
//! none defines an element of another one.

use crate::file::SchemaFile;

/// Definitions for one kind of entries.
#[derive(Clone, Copy, Debug)]
pub struct ShippedSchema {
    /// What it is switched on by.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Names and texts of its files; others may need the first ones, too.
    files: &'static [(&'static str, &'static str)],
}

impl ShippedSchema {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SHIPPED.iter().find(|one| one.name.eq_ignore_ascii_case(name))
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> Vec<SchemaFile> {
        let file =
            |(name, text): &(&str, &str)| SchemaFile { name: (*name).into(), text: (*text).into() };
        self.files.iter().map(file).collect()
    }

    /// Whether every server has its definitions.
    #[must_use]
    pub const fn is_always_on(&self) -> bool {
        self.files.is_empty()
    }
}

macro_rules! file {
    ($name:literal) => {
        (concat!("60-", $name, ".ldif"), include_str!(concat!("../files/shipped/", $name, ".ldif")))
    };
}

/// Every one, in the order of their names.
pub static SHIPPED: [ShippedSchema; 9] = [
    ShippedSchema {
        name: "389",
        about: "389 Directory Server: accounts, managed entries, subscribers, mail",
        files: &[file!("netscape"), file!("389")],
    },
    ShippedSchema { name: "autofs", about: "automounter maps (RFC 2307bis)", files: &[] },
    ShippedSchema {
        name: "dsee",
        about: "Sun and Oracle DSEE: Solaris clients, subscribers, mail",
        files: &[file!("netscape"), file!("dsee")],
    },
    ShippedSchema {
        name: "dua-profile",
        about: "profiles of directory user agents (RFC 4876)",
        files: &[file!("dua-profile")],
    },
    ShippedSchema {
        name: "heimdal",
        about: "Heimdal Kerberos with its database in the directory",
        files: &[file!("heimdal")],
    },
    ShippedSchema {
        name: "kerberos",
        about: "MIT Kerberos with its database in the directory",
        files: &[file!("kerberos")],
    },
    ShippedSchema { name: "openssh", about: "public keys of OpenSSH users", files: &[] },
    ShippedSchema {
        name: "samba",
        about: "Samba accounts, groups and domains (ldapsam)",
        files: &[file!("samba")],
    },
    ShippedSchema { name: "sudo", about: "rules of sudo", files: &[] },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::definition::{Definition, DefinitionKind};
    use crate::schema::Schema;

    fn with(chosen: &[&ShippedSchema]) -> Schema {
        let mut files: BTreeMap<String, SchemaFile> = BTreeMap::new();
        for file in chosen.iter().flat_map(|one| one.files()) {
            files.insert(file.name.clone(), file);
        }
        let files: Vec<SchemaFile> = files.into_values().collect();
        let names = chosen.iter().map(|one| one.name).collect::<Vec<_>>();
        Schema::builtin().with_files(&files).unwrap_or_else(|error| panic!("{names:?}: {error}"))
    }

    #[test]
    fn each_loads_with_each_other_and_all_together() {
        for one in &SHIPPED {
            assert_eq!(one.name, ShippedSchema::named(&one.name.to_uppercase()).unwrap().name);
            for other in &SHIPPED {
                with(&[one, other]);
            }
        }
        with(&SHIPPED.iter().collect::<Vec<_>>());
        assert!(ShippedSchema::named("netscape").is_none());
    }

    #[test]
    fn no_element_is_defined_twice() {
        let builtin = Schema::builtin();
        let mut seen: BTreeMap<(&str, String), String> = BTreeMap::new();
        for file in SHIPPED.iter().flat_map(ShippedSchema::files) {
            for definition in file.definitions().unwrap() {
                let kind = definition.kind().attribute();
                for name in definition.names.iter().chain([&definition.oid]) {
                    let known = match definition.kind() {
                        DefinitionKind::AttributeType => builtin.attribute_type(name).is_some(),
                        _ => builtin.object_class(name).is_some(),
                    };
                    assert!(!known, "{}: {name} is there always", file.name);
                    let old = seen.insert((kind, name.to_lowercase()), file.name.clone());
                    assert!(old.is_none_or(|old| old == file.name), "{}: {name}", file.name);
                }
            }
        }
    }

    #[test]
    fn all_can_be_added_online() {
        let mut schema = (*Schema::builtin()).with_change(&[], &[]).unwrap();
        let mut done = Vec::new();
        for file in SHIPPED.iter().flat_map(ShippedSchema::files) {
            if done.contains(&file.name) {
                continue;
            }
            let all: Vec<Definition> = file.definitions().unwrap();
            schema = schema.with_change(&all, &[]).unwrap();
            done.push(file.name);
        }
        for (name, is_secret) in [
            ("sambaNTPassword", true),
            ("sambaTrustAuthIncoming", true),
            ("krbPrincipalKey", true),
            ("krb5Key", true),
            ("SolarisBindPassword", true),
            ("nsBindPassword", true),
            ("sambaSID", false),
            ("krbPrincipalName", false),
        ] {
            assert_eq!(schema.attribute_type(name).unwrap().is_secret(), is_secret, "{name}");
        }
    }

    #[test]
    fn what_is_always_on_is_there() {
        let schema = Schema::builtin();
        for (name, class) in
            [("sudo", "sudoRole"), ("autofs", "automountMap"), ("openssh", "ldapPublicKey")]
        {
            assert!(ShippedSchema::named(name).unwrap().is_always_on());
            assert!(schema.object_class(class).is_some(), "{class}");
        }
    }

    #[test]
    fn values_that_name_or_count_can_be_compared() {
        let all = with(&SHIPPED.iter().collect::<Vec<_>>());
        let own = |oid: &str| Schema::builtin().attribute_type(oid).is_none();
        for kind in all.attribute_types().filter(|kind| own(&kind.oid)) {
            let is_blob = ["1.3.6.1.4.1.1466.115.121.1.5"].contains(&kind.syntax.oid);
            assert!(kind.equality.is_some() || is_blob, "{} has no equality rule", kind.name());
        }
    }
}
