//! Changes of the configuration and of the schema, as the change log tells them.

use std::collections::BTreeMap;

use client::Connection;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::ModifyOperation;

use super::{REBUILD, SCHEMA_DN, brief};
use crate::changes::values::{Net, Values};
use crate::changes::{self, Start, ToldChange};
use crate::failure::Failure;

/// What one change did to the configuration: in each entry that it changed.
#[derive(Debug)]
pub(crate) struct ConfigChange {
    pub(crate) number: u64,
    pub(crate) parts: Vec<ToldChange>,
}

impl ConfigChange {
    pub(crate) fn first(&self) -> Option<&ToldChange> {
        self.parts.first()
    }

    /// What it did, in a few words each.
    pub(crate) fn summary(&self) -> Vec<String> {
        let (mut gone, mut come, mut anew) = (Vec::new(), Vec::new(), Vec::new());
        for delta in self.parts.iter().flat_map(ToldChange::deltas) {
            let texts =
                delta.values.iter().map(|value| String::from_utf8_lossy(value).into_owned());
            let own = texts.map(|text| (delta.attribute.clone(), text));
            match delta.operation {
                ModifyOperation::Delete => gone.extend(own),
                ModifyOperation::Add | ModifyOperation::Increment => come.extend(own),
                ModifyOperation::Replace => anew.push(format!(
                    "{} has {} values, nobody says which it had",
                    delta.attribute,
                    delta.values.len()
                )),
            }
        }
        let mut told = brief::summary(&borrowed(&gone), &borrowed(&come));
        told.extend(anew);
        told
    }
}

fn borrowed(all: &[(String, String)]) -> Vec<(&str, &str)> {
    all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Reads the changes of the configuration that are kept, from this number on, in order.
///
/// # Errors
/// When the server refuses, or `each` fails.
pub(crate) fn read(
    connection: &mut Connection,
    from: u64,
    each: &mut dyn FnMut(ConfigChange) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // What the server makes itself has no entryUUID.
    let filter = Filter::Not(Box::new(Filter::Present("targetEntryUUID")));
    let mut open: Option<ConfigChange> = None;
    changes::read(connection, Start::Number(from), Some(&filter), &mut |change| {
        if !is_configuration(&change.dn) {
            return Ok(());
        }
        if let Some(own) = open.as_mut().filter(|own| own.number == change.number) {
            own.parts.push(change);
            return Ok(());
        }
        let next = ConfigChange { number: change.number, parts: vec![change] };
        open.replace(next).map_or(Ok(()), &mut *each)
    })?;
    open.map_or(Ok(()), each)
}

/// The change with this number.
///
/// # Errors
/// When it is not kept any more, or changed something else.
pub(crate) fn one(connection: &mut Connection, number: u64) -> Result<ConfigChange, Failure> {
    let kept = changes::kept(connection)?;
    let value = number.to_string().into_bytes().into();
    let filter = Filter::Equality(AvaFilter { description: "changeNumber", value });
    let mut parts = Vec::new();
    changes::read(connection, Start::Number(number), Some(&filter), &mut |change| {
        if is_configuration(&change.dn) {
            parts.push(change);
        }
        Ok(())
    })?;
    let found = (!parts.is_empty()).then_some(ConfigChange { number, parts });
    found.ok_or_else(|| {
        Failure::refused(match kept.first.filter(|first| *first > number) {
            Some(first) => format!("change {number} is not kept any more: the first is {first}"),
            None => format!("change {number} is none of the configuration, or there is none yet"),
        })
        .hint("'roster config history' lists the changes of the configuration")
    })
}

/// Whether an entry of this name shows a part of the configuration, or is the schema.
pub(crate) fn is_configuration(dn: &str) -> bool {
    let dn = dn.to_ascii_lowercase();
    dn == SCHEMA_DN || dn == "cn=config" || dn.ends_with(",cn=config")
}

/// What changes did to entries, taken together: by their names in small letters, the name and what
/// became of each attribute.
#[derive(Default)]
pub(crate) struct Together {
    entries: BTreeMap<String, (String, Net)>,
}

impl Together {
    /// Takes one in.
    ///
    /// # Errors
    /// When it does not tell the values of before.
    pub(crate) fn put(&mut self, change: &ConfigChange) -> Result<(), Failure> {
        for part in &change.parts {
            // That an index is built anew is no change of what there is.
            if part.deltas().iter().any(|delta| delta.attribute.eq_ignore_ascii_case(REBUILD)) {
                continue;
            }
            let key = part.dn.to_ascii_lowercase();
            let (_, net) =
                self.entries.entry(key).or_insert_with(|| (part.dn.clone(), Net::none()));
            net.put(part).map_err(|failure| Failure {
                hint: Some(
                    "it was made by an older release, which did not keep them; set what \
                     'roster config history' shows"
                        .to_owned(),
                ),
                ..failure
            })?;
        }
        Ok(())
    }

    /// Each attribute that is not as it was, with the name of its entry.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &str, &Values)> {
        self.entries.values().flat_map(|(dn, net)| {
            net.attributes.iter().map(|(name, values)| (dn.as_str(), name.as_str(), values))
        })
    }
}
