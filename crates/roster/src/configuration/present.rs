//! What the configuration is now.

use std::collections::BTreeMap;

use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};

use super::{INDEX, INDEXED, INDEXES_DN};
use crate::changes::step::{Modification, Step};
use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::Failure;

/// The values that an entry of the configuration has of an attribute, in their order.
///
/// # Errors
/// When the server does not show the entry.
pub(crate) fn values(
    connection: &mut Connection,
    dn: &str,
    attribute: &str,
) -> Result<Vec<String>, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &[attribute],
        ..SearchFor::below(dn, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let entry = found.entries.first().ok_or_else(|| {
        Failure::refused(format!("the server does not show {dn}")).hint(ADMINISTRATOR_HINT)
    })?;
    Ok(entry.texts(attribute).map(str::to_owned).collect())
}

/// The definitions of all indexes, by the attribute that names their entry.
///
/// # Errors
/// When the server does not show them.
pub(crate) fn indexes(
    connection: &mut Connection,
) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let asked = SearchFor {
        attributes: &[INDEXED, INDEX],
        ..SearchFor::below(INDEXES_DN, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    if found.entries.is_empty() {
        let why = "the server does not show its indexes";
        return Err(Failure::refused(why).hint(ADMINISTRATOR_HINT));
    }
    found.outcome.into_result("search")?;
    let own = |entry: &client::FoundEntry| {
        let texts = entry.texts(INDEX).map(str::to_owned).collect();
        entry.text(INDEXED).map(|name| (name.to_owned(), texts))
    };
    Ok(found.entries.iter().filter_map(own).collect())
}

/// The requests that add indexes of an attribute: to its entry, or with a new one.
pub(crate) fn add_indexes(attribute: &str, lines: &[String], is_new: bool) -> Step {
    let (dn, values) = (index_dn(attribute), octets(lines));
    if !is_new {
        let changes = vec![modification(ModifyOperation::Add, INDEX, values)];
        return Step::Modify { dn, changes };
    }
    let classes = ["top", "ds-cfg-backend-index"].map(|name| name.as_bytes().to_vec()).to_vec();
    let attributes = vec![
        ("objectClass".to_owned(), classes),
        (INDEXED.to_owned(), vec![attribute.as_bytes().to_vec()]),
        (INDEX.to_owned(), values),
    ];
    Step::Add { dn, attributes }
}

/// The request that drops indexes of an attribute.
pub(crate) fn drop_indexes(attribute: &str, lines: &[String]) -> Step {
    let changes = vec![modification(ModifyOperation::Delete, INDEX, octets(lines))];
    Step::Modify { dn: index_dn(attribute), changes }
}

fn index_dn(attribute: &str) -> String {
    format!("{INDEXED}={},{INDEXES_DN}", crate::index::verify::escaped(attribute))
}

/// What an attribute loses, and what it gets; nothing, if that is nothing.
pub(crate) fn modify(dn: &str, attribute: &str, gone: &[String], come: &[String]) -> Option<Step> {
    let parts = [(ModifyOperation::Delete, gone), (ModifyOperation::Add, come)];
    let parts = parts.into_iter().filter(|(_, values)| !values.is_empty());
    let changes: Vec<Modification> =
        parts.map(|(what, values)| modification(what, attribute, octets(values))).collect();
    (!changes.is_empty()).then(|| Step::Modify { dn: dn.to_owned(), changes })
}

fn modification(operation: ModifyOperation, attribute: &str, values: Vec<Vec<u8>>) -> Modification {
    Modification { operation, attribute: attribute.to_owned(), values }
}

fn octets(lines: &[String]) -> Vec<Vec<u8>> {
    lines.iter().map(|line| line.as_bytes().to_vec()).collect()
}
