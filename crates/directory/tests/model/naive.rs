//! A directory as simple as can be: a map from names to attributes, and filters evaluated value by
//! value. It knows nothing of the schema but what is written here.

#![allow(missing_docs, unreachable_pub, reason = "a module of tests")]

use std::collections::BTreeMap;
use std::fmt;

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::{Found, SUFFIX};

/// A name: folded RDNs, the suffix first.
pub type Key = Vec<String>;

/// Operation, attribute description, values.
pub type Modification<'a> = (ModifyOperation, &'a str, Vec<&'a str>);

#[derive(Clone, Debug)]
struct NaiveEntry {
    /// The RDN as it was sent.
    rdn: String,
    attributes: BTreeMap<String, Vec<String>>,
}

/// The directory.
#[derive(Debug)]
pub struct Naive {
    entries: BTreeMap<Key, NaiveEntry>,
}

/// What one may look for.
#[derive(Clone, Debug)]
pub enum NaiveFilter {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Equal(&'static str, String),
    Present(&'static str),
    Starts(&'static str, &'static str),
    Holds(&'static str, &'static str),
    Ends(&'static str, &'static str),
    AtLeast(&'static str, &'static str),
    AtMost(&'static str, &'static str),
    HasSubordinates(bool),
    EntryDn(String),
    /// An attribute that no schema knows.
    Unknown,
}

/// Case and repeated spaces do not count.
pub fn fold(text: &str) -> String {
    text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The key of a name; only the suffix has commas that do not end an RDN, or escaped ones.
fn key(name: &str) -> Option<Key> {
    let rest = name.strip_suffix(SUFFIX)?;
    let mut key = vec![SUFFIX.to_owned()];
    let protected = rest.replace("\\,", "\u{0}");
    let mut rdns: Vec<String> =
        protected.split(',').filter(|rdn| !rdn.is_empty()).map(fold).collect();
    rdns.reverse();
    key.extend(rdns);
    Some(key)
}

fn rdn_value(rdn: &str) -> String {
    rdn.trim_start_matches("ou=").replace("\\,", ",")
}

impl Naive {
    pub fn new(suffix: &Found) -> Self {
        let attributes = suffix.attributes.keys().map(|name| (name.clone(), suffix.texts(name)));
        let entry = NaiveEntry { rdn: SUFFIX.to_owned(), attributes: attributes.collect() };
        Self { entries: BTreeMap::from([(vec![SUFFIX.to_owned()], entry)]) }
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.keys()
    }

    /// The name of an entry, each RDN as it was sent.
    pub fn dn(&self, key: &[String]) -> String {
        let rdns: Vec<&str> =
            (1..=key.len()).rev().map(|depth| self.entries[&key[..depth]].rdn.as_str()).collect();
        rdns.join(",")
    }

    fn has_children(&self, key: &Key) -> bool {
        self.entries.keys().any(|other| other.len() == key.len() + 1 && other.starts_with(key))
    }

    pub fn add(&mut self, name: &str, attributes: &[(&str, Vec<&str>)]) -> ResultCode {
        let key = key(name).unwrap();
        if !self.entries.contains_key(&key[..key.len() - 1]) {
            return ResultCode::NoSuchObject;
        }
        if self.entries.contains_key(&key) {
            return ResultCode::EntryAlreadyExists;
        }
        let rdn = first_rdn(name);
        let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let mut all: BTreeMap<String, Vec<String>> =
            attributes.iter().map(|(name, values)| ((*name).to_owned(), texts(values))).collect();
        all.insert("ou".to_owned(), vec![rdn_value(&rdn)]);
        all.entry("objectClass".to_owned()).or_default().push("top".to_owned());
        self.entries.insert(key, NaiveEntry { rdn, attributes: all });
        ResultCode::Success
    }

    pub fn delete(&mut self, name: &str) -> ResultCode {
        let key = key(name).unwrap();
        if !self.entries.contains_key(&key) {
            ResultCode::NoSuchObject
        } else if self.has_children(&key) {
            ResultCode::NotAllowedOnNonLeaf
        } else {
            self.entries.remove(&key);
            ResultCode::Success
        }
    }

    pub fn modify(&mut self, name: &str, changes: &[Modification<'_>]) -> ResultCode {
        let key = key(name).unwrap();
        let Some(entry) = self.entries.get(&key) else { return ResultCode::NoSuchObject };
        let mut attributes = entry.attributes.clone();
        for change in changes {
            let code = apply(&mut attributes, change);
            if code != ResultCode::Success {
                return code;
            }
        }
        if key.len() == 1 {
            // The suffix is no extensible object.
            let allowed = ["objectClass", "dc", "o", "l", "l;lang-de", "description"];
            if attributes.contains_key("ou")
                || attributes.keys().any(|name| !allowed.contains(&name.as_str()))
            {
                return ResultCode::ObjectClassViolation;
            }
        } else {
            let value = fold(&rdn_value(&entry.rdn));
            let values = attributes.get("ou").map(Vec::as_slice).unwrap_or_default();
            if !values.iter().any(|one| fold(one) == value) {
                return ResultCode::NotAllowedOnRdn;
            }
        }
        self.entries.get_mut(&key).unwrap().attributes = attributes;
        ResultCode::Success
    }

    /// Whether a name is that of the naming context.
    pub fn is_suffix(&self, name: &str) -> bool {
        key(name).is_some_and(|key| key.len() == 1)
    }

    pub fn rename(
        &mut self,
        name: &str,
        new_rdn: &str,
        delete_old: bool,
        superior: Option<&str>,
    ) -> ResultCode {
        let old = key(name).unwrap();
        let Some(entry) = self.entries.get(&old) else { return ResultCode::NoSuchObject };
        let mut new = match superior {
            None => old[..old.len() - 1].to_vec(),
            Some(name) => key(name).unwrap(),
        };
        if !self.entries.contains_key(&new) {
            return ResultCode::NoSuchObject;
        }
        if new.starts_with(&old) {
            return ResultCode::UnwillingToPerform;
        }
        new.push(fold(&new_rdn.replace("\\,", "\u{0}")));
        if new != old && self.entries.contains_key(&new) {
            return ResultCode::EntryAlreadyExists;
        }
        let mut entry = entry.clone();
        let values = entry.attributes.entry("ou".to_owned()).or_default();
        if delete_old {
            let gone = fold(&rdn_value(&entry.rdn));
            values.retain(|value| fold(value) != gone);
        }
        let value = rdn_value(new_rdn);
        if !values.iter().any(|one| fold(one) == fold(&value)) {
            values.push(value);
        }
        entry.rdn = new_rdn.to_owned();
        self.entries.insert(old.clone(), entry);
        let moved: Vec<Key> =
            self.entries.keys().filter(|key| key.starts_with(&old)).cloned().collect();
        let moved: Vec<(Key, NaiveEntry)> = moved
            .into_iter()
            .map(|key| {
                let entry = self.entries.remove(&key).unwrap();
                ([&new, &key[old.len()..]].concat(), entry)
            })
            .collect();
        self.entries.extend(moved);
        ResultCode::Success
    }

    /// What a search finds; `None` when its base does not exist.
    pub fn search(&self, base: &str, scope: Scope, filter: &NaiveFilter) -> Option<Vec<Found>> {
        let base = key(base).unwrap();
        self.entries.get(&base)?;
        let in_scope = |key: &Key| match scope {
            Scope::Base => *key == base,
            Scope::One => key.len() == base.len() + 1 && key.starts_with(&base),
            Scope::Subtree => key.starts_with(&base),
            Scope::Subordinate => key.len() > base.len() && key.starts_with(&base),
        };
        let found = self.entries.iter().filter(|(key, entry)| {
            in_scope(key) && self.evaluate(key, entry, filter) == Some(true)
        });
        Some(found.map(|(key, entry)| self.found(key, entry)).collect())
    }

    fn found(&self, key: &Key, entry: &NaiveEntry) -> Found {
        let attributes = entry.attributes.iter().map(|(name, values)| {
            (name.clone(), values.iter().map(|value| value.clone().into_bytes()).collect())
        });
        Found { dn: self.dn(key), attributes: attributes.collect() }
    }

    /// `None` is Undefined (RFC 4511 §4.5.1.7).
    fn evaluate(&self, key: &Key, entry: &NaiveEntry, filter: &NaiveFilter) -> Option<bool> {
        let parts = |all: &[NaiveFilter]| -> Vec<Option<bool>> {
            all.iter().map(|one| self.evaluate(key, entry, one)).collect()
        };
        let any = |attribute: &str, holds: &dyn Fn(&str) -> bool| {
            Some(entry.values(attribute).any(|value| holds(&fold(value))))
        };
        match filter {
            NaiveFilter::And(all) => {
                let all = parts(all);
                if all.contains(&Some(false)) {
                    Some(false)
                } else if all.contains(&None) {
                    None
                } else {
                    Some(true)
                }
            }
            NaiveFilter::Or(all) => {
                let all = parts(all);
                if all.contains(&Some(true)) {
                    Some(true)
                } else if all.contains(&None) {
                    None
                } else {
                    Some(false)
                }
            }
            NaiveFilter::Not(one) => self.evaluate(key, entry, one).map(|truth| !truth),
            NaiveFilter::Equal(attribute, asked) => any(attribute, &|value| value == fold(asked)),
            NaiveFilter::Present(attribute) => any(attribute, &|_| true),
            NaiveFilter::Starts(attribute, piece) => {
                any(attribute, &|value| value.starts_with(&piece.to_lowercase()))
            }
            NaiveFilter::Holds(attribute, piece) => {
                any(attribute, &|value| value.contains(&piece.to_lowercase()))
            }
            NaiveFilter::Ends(attribute, piece) => {
                any(attribute, &|value| value.ends_with(&piece.to_lowercase()))
            }
            NaiveFilter::AtLeast(attribute, asked) => {
                any(attribute, &|value| number(value) >= number(asked))
            }
            NaiveFilter::AtMost(attribute, asked) => {
                any(attribute, &|value| number(value) <= number(asked))
            }
            NaiveFilter::HasSubordinates(asked) => Some(self.has_children(key) == *asked),
            NaiveFilter::EntryDn(name) => Some(self::key(name).as_ref() == Some(key)),
            NaiveFilter::Unknown => None,
        }
    }
}

impl NaiveEntry {
    /// The values of an attribute, its subtypes and those with more options.
    fn values<'a>(&'a self, asked: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.attributes.iter().filter(move |(name, _)| match asked {
            "l" => matches!(name.as_str(), "l" | "l;lang-de"),
            "OU" => *name == "ou",
            "name" => matches!(name.as_str(), "l" | "l;lang-de" | "ou" | "title" | "o"),
            other => *name == other,
        });
        named.flat_map(|(_, values)| values.iter().map(String::as_str))
    }
}

pub fn number(text: &str) -> i128 {
    text.parse().unwrap()
}

/// The RDN of a name, with escapes as they are.
fn first_rdn(name: &str) -> String {
    let protected = name.replace("\\,", "\u{0}");
    protected.split(',').next().unwrap().replace('\u{0}', "\\,")
}

fn apply(
    attributes: &mut BTreeMap<String, Vec<String>>,
    (operation, name, values): &Modification<'_>,
) -> ResultCode {
    let has = |all: &[String], value: &str| all.iter().any(|one| fold(one) == fold(value));
    let current = attributes.get(*name).cloned().unwrap_or_default();
    let next = match operation {
        ModifyOperation::Add => {
            if values.iter().any(|value| has(&current, value)) {
                return ResultCode::AttributeOrValueExists;
            }
            let added = values.iter().map(|value| (*value).to_owned());
            current.into_iter().chain(added).collect()
        }
        ModifyOperation::Delete if current.is_empty() => return ResultCode::NoSuchAttribute,
        ModifyOperation::Delete if values.is_empty() => Vec::new(),
        ModifyOperation::Delete => {
            if values.iter().any(|value| !has(&current, value)) {
                return ResultCode::NoSuchAttribute;
            }
            let gone: Vec<String> = values.iter().map(|value| fold(value)).collect();
            current.into_iter().filter(|value| !gone.contains(&fold(value))).collect()
        }
        ModifyOperation::Replace => values.iter().map(|value| (*value).to_owned()).collect(),
        ModifyOperation::Increment => {
            if current.is_empty() {
                return ResultCode::NoSuchAttribute;
            }
            let by = number(values[0]);
            current.iter().map(|value| (number(value) + by).to_string()).collect()
        }
    };
    if next.is_empty() {
        attributes.remove(*name);
    } else {
        attributes.insert((*name).to_owned(), next);
    }
    ResultCode::Success
}

impl fmt::Display for NaiveFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, sign: char, all: &[Self]| {
            write!(f, "({sign}")?;
            all.iter().try_for_each(|one| write!(f, "{one}"))?;
            f.write_str(")")
        };
        match self {
            Self::And(all) => list(f, '&', all),
            Self::Or(all) => list(f, '|', all),
            Self::Not(one) => write!(f, "(!{one})"),
            Self::Equal(attribute, value) => write!(f, "({attribute}={value})"),
            Self::Present(attribute) => write!(f, "({attribute}=*)"),
            Self::Starts(attribute, piece) => write!(f, "({attribute}={piece}*)"),
            Self::Holds(attribute, piece) => write!(f, "({attribute}=*{piece}*)"),
            Self::Ends(attribute, piece) => write!(f, "({attribute}=*{piece})"),
            Self::AtLeast(attribute, value) => write!(f, "({attribute}>={value})"),
            Self::AtMost(attribute, value) => write!(f, "({attribute}<={value})"),
            Self::HasSubordinates(true) => f.write_str("(hasSubordinates=TRUE)"),
            Self::HasSubordinates(false) => f.write_str("(hasSubordinates=FALSE)"),
            Self::EntryDn(name) => write!(f, "(entryDN={})", name.replace('\\', "\\5c")),
            Self::Unknown => f.write_str("(noSuchType=x)"),
        }
    }
}
