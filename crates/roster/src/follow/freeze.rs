//! The source takes no changes any more: made so where its configuration can be changed over LDAP,
//! by one row of [`WAYS`] for each kind of server.

use client::{Connection, SearchFor};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::ModifyOperation;

use crate::connect::Login;
use crate::failure::Failure;

/// How a kind of server is made to take no changes.
struct Freezing {
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
const WAYS: [Freezing; 3] = [
    Freezing {
        name: "OpenLDAP",
        base: "cn=config",
        branch: "olcSuffix",
        attribute: "olcReadOnly",
        frozen: "TRUE",
    },
    Freezing {
        name: "389 Directory Server",
        base: "cn=ldbm database,cn=plugins,cn=config",
        branch: "nsslapd-suffix",
        attribute: "nsslapd-readonly",
        frozen: "on",
    },
    Freezing {
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
    way: &'static Freezing,
    dn: String,
    before: Vec<String>,
}

impl Frozen {
    /// Looks whether the branch can be frozen, as far as that shows.
    pub(super) fn look(login: &Login, branch: &str) -> Result<(), Failure> {
        match find(&mut login.connect()?, branch)? {
            Some(_) => Ok(()),
            None => Err(impossible("this entry does not see its configuration")),
        }
    }

    /// Freezes the branch.
    pub(super) fn freeze(login: &Login, branch: &str) -> Result<Self, Failure> {
        let mut connection = login.connect()?;
        let Some((way, dn, before)) = find(&mut connection, branch)? else {
            return Err(impossible("this entry does not see its configuration"));
        };
        let values = [way.frozen];
        let change = [(ModifyOperation::Replace, way.attribute, &values[..])];
        let outcome = connection.modify(&dn, &change)?;
        match outcome.is_success() {
            true => Ok(Self { connection, way, dn, before }),
            false => Err(impossible(&format!("{} refuses {}: {outcome}", way.name, way.attribute))),
        }
    }

    /// The source takes changes again.
    pub(super) fn thaw(mut self) -> Result<(), Failure> {
        let before: Vec<&str> = self.before.iter().map(String::as_str).collect();
        let change = [(ModifyOperation::Replace, self.way.attribute, before.as_slice())];
        Ok(self.connection.modify(&self.dn, &change)?.into_result("modify")?)
    }
}

/// A database: how it is frozen, its entry, and what that has now.
type Found = (&'static Freezing, String, Vec<String>);

/// The database of a branch; none where none is shown.
fn find(connection: &mut Connection, branch: &str) -> Result<Option<Found>, Failure> {
    for way in &WAYS {
        let value = branch.as_bytes().into();
        let filter = Filter::Equality(AvaFilter { description: way.branch, value });
        let attributes = [way.attribute];
        let asked = SearchFor { attributes: &attributes, ..SearchFor::below(way.base, filter) };
        let found = connection.search(&asked)?;
        if let Some(entry) = found.entries.first() {
            let before = entry.texts(way.attribute).map(str::to_owned).collect();
            return Ok(Some((way, entry.dn.clone(), before)));
        }
    }
    Ok(None)
}

fn impossible(why: &str) -> Failure {
    Failure::refused(format!("the source cannot be made read-only from here: {why}")).hint(
        "make it read-only by hand (olcReadOnly: TRUE, nsslapd-readonly: on, \
         ds-cfg-writability-mode: internal-only), or stop its clients, and then run this with \
         --source-is-read-only",
    )
}
