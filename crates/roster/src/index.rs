//! The indexes of a server, over LDAP: `cn=index,cn=monitor` tells of them, entries below
//! `cn=Index,cn=config` change them.

pub(crate) mod advise;
pub(crate) mod change;
pub(crate) mod offline;
pub(crate) mod status;
pub(crate) mod verify;

use client::{Connection, FoundEntry, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;

use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::Failure;

/// Reads entries that only the administrator sees.
fn read(
    connection: &mut Connection,
    base: &str,
    scope: Scope,
    attributes: &[&str],
) -> Result<Vec<FoundEntry>, Failure> {
    let all = Filter::Present("objectClass");
    let found =
        connection.search(&SearchFor { scope, attributes, ..SearchFor::below(base, all) })?;
    if found.outcome.code == ResultCode::NoSuchObject && found.outcome.matched.is_empty() {
        return Err(Failure::refused("the server shows its indexes only to its administrator")
            .hint(ADMINISTRATOR_HINT));
    }
    found.outcome.into_result("search")?;
    Ok(found.entries)
}

/// Where the server tells of its indexes.
const STATUS: &str = "cn=index,cn=monitor";
