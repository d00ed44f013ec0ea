//! ACIs that can grant nothing to anybody, since they name what there is not.
//!
//! Invariant: what is read of an ACI here is no decision: only names that are whole and without a
//! pattern are looked up, and what cannot be read is passed over.

use std::collections::{BTreeMap, BTreeSet};

use client::{Connection, SearchAnswer, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;

use super::facts::values;
use crate::failure::Failure;

/// A name in an ACI that names nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DeadName {
    /// The entry that has the ACI.
    pub(crate) entry: String,
    /// What the ACI calls itself.
    pub(crate) acl: String,
    pub(crate) name: String,
    pub(crate) is_attribute: bool,
}

/// Finds them among the first ACIs.
pub(crate) fn dead(connection: &mut Connection) -> Result<Vec<DeadName>, Failure> {
    let mut acis = Vec::new();
    let global = "cn=Access Control Handler,cn=config";
    for text in values(connection, global, "ds-cfg-global-aci")? {
        acis.push((global.to_owned(), text));
    }
    let asked = SearchFor { attributes: &["aci"], ..SearchFor::below("", Filter::Present("aci")) };
    let page = connection.search_page(&asked, ACIS_MAX, &[], &mut |answer| {
        if let SearchAnswer::Entry { dn, attributes } = answer {
            for value in attributes.iter().flat_map(|attribute| attribute.values.iter()) {
                acis.push((dn.to_owned(), String::from_utf8_lossy(value).into_owned()));
            }
        }
        Ok::<_, Failure>(())
    })?;
    if !matches!(page.outcome.code, ResultCode::Success | ResultCode::SizeLimitExceeded) {
        return Err(Failure::refused(page.outcome));
    }
    let types = attribute_types(connection)?;
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    let mut dead = Vec::new();
    for (entry, text) in acis.into_iter().take(ACIS_MAX as usize) {
        let acl = quoted_after(&text, "acl").next().unwrap_or_default().to_owned();
        let mut tell = |name: &str, is_attribute| {
            let (entry, acl, name) = (entry.clone(), acl.clone(), name.to_owned());
            dead.push(DeadName { entry, acl, name, is_attribute });
        };
        for name in attributes(&text) {
            if !types.is_empty() && !types.contains(&name.to_ascii_lowercase()) {
                tell(name, true);
            }
        }
        for name in names(&text) {
            let is_there = match known.get(name) {
                Some(is_there) => *is_there,
                None if known.len() >= NAMES_MAX => continue,
                None => is_there(connection, name)?,
            };
            known.insert(name.to_owned(), is_there);
            if !is_there {
                tell(name, false);
            }
        }
    }
    Ok(dead)
}

fn is_there(connection: &mut Connection, name: &str) -> Result<bool, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["1.1"],
        ..SearchFor::below(name, Filter::Present("objectClass"))
    };
    let outcome = connection.search(&asked)?.outcome;
    match outcome.code {
        ResultCode::NoSuchObject | ResultCode::InvalidDnSyntax => Ok(false),
        // Where a referral leads is not asked.
        ResultCode::Success | ResultCode::Referral => Ok(true),
        _ => Err(Failure::refused(outcome)),
    }
}

/// The names of all attribute types, in lower case.
fn attribute_types(connection: &mut Connection) -> Result<BTreeSet<String>, Failure> {
    let mut names = BTreeSet::new();
    for text in values(connection, "cn=schema", "attributeTypes")? {
        let oid = text.trim_start_matches(['(', ' ']).split(' ').next().unwrap_or_default();
        names.insert(oid.to_ascii_lowercase());
        let Some((_, rest)) = text.split_once(" NAME ") else { continue };
        let rest = rest.trim_start();
        // One name in quotes, or several in parentheses.
        let end = if rest.starts_with('(') { rest.find(')') } else { rest.find("' ") };
        let list = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let quoted = list.split('\'').skip(1).step_by(2);
        names.extend(quoted.map(str::to_ascii_lowercase));
    }
    Ok(names)
}

/// What `targetattr` names, but for patterns, words of this server, and options.
fn attributes(text: &str) -> impl Iterator<Item = &str> {
    let lists = quoted_after(text, "targetattr");
    let names = lists.flat_map(|list| list.split("||")).map(str::trim);
    let names = names.map(|name| name.split(';').next().unwrap_or_default());
    names.filter(|name| !name.is_empty() && !name.contains(['*', '+', '#', '$']))
}

/// The entries that subjects and targets name, whole and without a pattern.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let keywords = ["userdn", "groupdn", "roledn", "target"].into_iter();
    let urls = keywords.flat_map(|keyword| quoted_after(text, keyword));
    let urls = urls.flat_map(|list| list.split("||")).map(str::trim);
    let names = urls.filter_map(|url| url.strip_prefix("ldap:///"));
    let is_pattern = |name: &&str| !name.contains(['*', '$', '?', '[', '%', '(']);
    names.filter(is_pattern).filter(|name| name.contains('='))
}

/// What stands in quotes behind a keyword and an operator. A longer keyword is another one.
fn quoted_after<'t>(text: &'t str, keyword: &'t str) -> impl Iterator<Item = &'t str> {
    let places = text.match_indices(keyword);
    places.filter_map(move |(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        if before.is_some_and(|letter| letter.is_ascii_alphanumeric()) {
            return None;
        }
        let rest = text.get(at + keyword.len()..)?.trim_start();
        let rest = rest.strip_prefix("!=").or_else(|| rest.strip_prefix('=')).unwrap_or(rest);
        rest.trim_start().strip_prefix('"')?.split('"').next()
    })
}

/// ACIs that are read, and names that are looked up.
const ACIS_MAX: u32 = 1_000;
const NAMES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_are_found_and_patterns_are_not() {
        let text = "(target = \"ldap:///ou=a,dc=x\")(targetattr = \"cn || frob;lang-de || * || \
                    #secret\")(targetattrfilters = \"add=x:(x=1)\")(version 3.0; acl \"Desk\"; \
                    allow (write) \
                    userdn = \"ldap:///uid=b,dc=x || ldap:///uid=*,dc=x || ldap:///anyone\" or \
                    groupdn != \"ldap:///cn=g,dc=x\" and userdn=\"ldap:///dc=x??sub?(uid=1)\";)";
        assert_eq!(attributes(text).collect::<Vec<_>>(), ["cn", "frob"]);
        let want = ["uid=b,dc=x", "cn=g,dc=x", "ou=a,dc=x"];
        assert_eq!(names(text).collect::<Vec<_>>(), want);
        assert_eq!(quoted_after(text, "acl").next(), Some("Desk"));
        for text in ["", "target", "target=", "targetattr=\"", "acl ü\"", "userdn = ldap:///x"] {
            assert_eq!(names(text).count() + attributes(text).count(), 0, "{text}");
        }
    }
}
