//! The source takes no changes any more: made so where its configuration can be changed over LDAP,
//! by one row of [`WAYS`] for each kind of server.

use std::time::Duration;

use client::{Connection, SearchFor};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::ModifyOperation;

use crate::connect::Login;
use crate::failure::Failure;
use crate::online::wait;

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
    writable: &'static str,
}

/// All of them.
const WAYS: [Freezing; 3] = [
    Freezing {
        name: "OpenLDAP",
        base: "cn=config",
        branch: "olcSuffix",
        attribute: "olcReadOnly",
        frozen: "TRUE",
        writable: "FALSE",
    },
    Freezing {
        name: "389 Directory Server",
        base: "cn=ldbm database,cn=plugins,cn=config",
        branch: "nsslapd-suffix",
        attribute: "nsslapd-readonly",
        frozen: "on",
        writable: "off",
    },
    Freezing {
        name: "OpenDJ",
        base: "cn=Backends,cn=config",
        branch: "ds-cfg-base-dn",
        attribute: "ds-cfg-writability-mode",
        frozen: "internal-only",
        writable: "enabled",
    },
];

/// A source that takes no changes, or is to take none.
pub(super) struct Frozen {
    connection: Connection,
    way: &'static Freezing,
    dn: String,
    before: Vec<String>,
    tried: u32,
    /// The source said that it is frozen.
    pub(super) is_sure: bool,
}

impl Frozen {
    /// Looks whether the branch can be frozen, as far as that shows.
    pub(super) fn look(login: &Login, branch: &str) -> Result<(), Failure> {
        match find(&mut login.connect()?, branch)? {
            Some(_) => Ok(()),
            None => Err(impossible("this entry does not see its configuration")),
        }
    }

    /// The branch as it is before it is frozen.
    pub(super) fn find(login: &Login, branch: &str) -> Result<Self, Failure> {
        let mut connection = login.connect()?;
        let Some((way, dn, before)) = find(&mut connection, branch)? else {
            return Err(impossible("this entry does not see its configuration"));
        };
        Ok(Self { connection, way, dn, before, tried: 0, is_sure: false })
    }

    /// Freezes the branch. When no answer comes it may be frozen, and is to be frozen again.
    pub(super) fn freeze(&mut self, login: &Login, left: Duration) -> Result<(), Failure> {
        if self.tried > 0 {
            self.connection = login.connect()?;
        }
        self.connection.end_within(Some(left));
        self.tried += 1;
        let values = [self.way.frozen];
        let change = [(ModifyOperation::Replace, self.way.attribute, &values[..])];
        let outcome = self.connection.modify(&self.dn, &change)?;
        if !outcome.is_success() {
            let (name, attribute) = (self.way.name, self.way.attribute);
            return Err(impossible(&format!("{name} refuses {attribute}: {outcome}")));
        }
        self.is_sure = true;
        Ok(())
    }

    /// The source takes changes again.
    pub(super) fn thaw(mut self, login: &Login) -> Result<(), Failure> {
        // Whoever was killed after it froze the source has left it so.
        let was_frozen = self.before.iter().any(|it| it.eq_ignore_ascii_case(self.way.frozen));
        let values: Vec<&str> = match was_frozen {
            true => vec![self.way.writable],
            false => self.before.iter().map(String::as_str).collect(),
        };
        let change = [(ModifyOperation::Replace, self.way.attribute, values.as_slice())];
        let mut turns = TURNS_MAX;
        self.connection.end_within(None);
        loop {
            let failure = match self.connection.modify(&self.dn, &change) {
                Ok(outcome) => match outcome.into_result("modify") {
                    Ok(()) => return Ok(()),
                    Err(error) => Failure::from(error),
                },
                Err(error) => error.into(),
            };
            if turns == 0 || !failure.is_passing {
                return Err(failure);
            }
            turns -= 1;
            match login.connect() {
                Ok(other) => self.connection = other,
                Err(_) => wait(TURN_WAIT),
            }
        }
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

/// A source that does not answer is asked so often to take changes again.
const TURNS_MAX: u32 = 20;
const TURN_WAIT: Duration = Duration::from_secs(1);

fn impossible(why: &str) -> Failure {
    Failure::refused(format!("the source cannot be made read-only from here: {why}")).hint(
        "make it read-only by hand (olcReadOnly: TRUE, nsslapd-readonly: on, \
         ds-cfg-writability-mode: internal-only), or stop its clients, and then run this with \
         --source-is-read-only",
    )
}
