//! The source takes no changes any more: made so where its configuration can be changed over LDAP,
//! by one row of [`WAYS`] for each kind of server.

use client::{Connection, SearchFor};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::ModifyOperation;

use crate::connect::Login;
use crate::failure::Failure;

/// How a kind of server is made to take no changes.
struct Way {
    /// Whose servers these are.
    name: &'static str,
    /// Where the databases are.
    base: &'static str,
    /// What names the branch of one.
    branch: &'static str,
    attribute: &'static str,
    frozen: &'static str,
}

/// All of them.
const WAYS: [Way; 3] = [
    Way {
        name: "OpenLDAP",
        base: "cn=config",
        branch: "olcSuffix",
        attribute: "olcReadOnly",
        frozen: "TRUE",
    },
    Way {
        name: "389 Directory Server",
        base: "cn=ldbm database,cn=plugins,cn=config",
        branch: "nsslapd-suffix",
        attribute: "nsslapd-readonly",
        frozen: "on",
    },
    Way {
        name: "OpenDJ",
        base: "cn=Backends,cn=config",
        branch: "ds-cfg-base-dn",
        attribute: "ds-cfg-writability-mode",
        frozen: "internal-only",
    },
];

/// A source that takes no changes.
pub(super) struct Frozen {
    connection: Connection,
    way: &'static Way,
    dn: String,
    before: Vec<String>,
}

impl Frozen {
    /// Freezes the branch; why that cannot be done, if it cannot.
    pub(super) fn freeze(login: &Login, branch: &str) -> Result<Self, Failure> {
        let mut connection = login.connect()?;
        let mut why = None;
        for way in &WAYS {
            let value = branch.as_bytes().into();
            let filter = Filter::Equality(AvaFilter { description: way.branch, value });
            let attributes = [way.attribute];
            let asked = SearchFor { attributes: &attributes, ..SearchFor::below(way.base, filter) };
            let found = connection.search(&asked)?;
            let Some(entry) = found.entries.first() else { continue };
            let before = entry.texts(way.attribute).map(str::to_owned).collect();
            let values = [way.frozen];
            let change = [(ModifyOperation::Replace, way.attribute, &values[..])];
            let outcome = connection.modify(&entry.dn, &change)?;
            if outcome.is_success() {
                let dn = entry.dn.clone();
                return Ok(Self { connection, way, dn, before });
            }
            why = Some(format!("{} refuses {}: {outcome}", way.name, way.attribute));
        }
        let why = why.unwrap_or_else(|| "this entry does not see its configuration".to_owned());
        Err(Failure::refused(format!("the source cannot be made read-only from here: {why}")).hint(
            "make it read-only by hand (olcReadOnly: TRUE, nsslapd-readonly: on, \
             ds-cfg-writability-mode: internal-only), or stop its clients, and then run this with \
             --source-is-read-only",
        ))
    }

    /// The source takes changes again.
    pub(super) fn thaw(mut self) -> Result<(), Failure> {
        let before: Vec<&str> = self.before.iter().map(String::as_str).collect();
        let change = [(ModifyOperation::Replace, self.way.attribute, before.as_slice())];
        Ok(self.connection.modify(&self.dn, &change)?.into_result("modify")?)
    }
}
