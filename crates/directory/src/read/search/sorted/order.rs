//! What a sorted list is in the order of (RFC 2891): the sort keys, and the keys of entries.
//!
//! Invariants: the key of an entry holds only what the asker may search. Keys are ordered as their
//! octets are; entries with equal keys are ordered by id, so an order is the same each time.
//! A value that is missing counts as larger than any other (RFC 2891 §2.2), so it comes last, and
//! first in reverse.

use std::fmt;
use std::sync::Arc;

use ldap::control_value::sort::{SORT_KEYS_MAX, SortKey, SortResult};
use ldap::result::ResultCode;
use schema::{
    AttributeDescription, AttributeType, Compare, EntryRead, MatchingRule, Meter, RuleKind, Schema,
};
use store::OrderedGroup;

use crate::access::guard::Guard;
use crate::request::controls::request::SortRequest;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::sort::{SORT_KEY_MAX_BYTES, SORT_VALUE_MAX_BYTES};

/// The response control's OID.
pub(crate) const RESPONSE: &str = "1.2.840.113556.1.4.474";

/// What it costs to find the values of a sort key in an entry, and whether the asker may search
/// for them, in steps of work.
const KEY_STEPS: u64 = 100;

/// Equality rules whose keys make a sensible order, for attributes without an ordering rule: most
/// of those that people are listed by (`cn`, `sn`, `mail`) have none.
const ORDERED_EQUALITY_RULES: [&str; 13] = [
    "caseIgnoreMatch",
    "caseExactMatch",
    "caseIgnoreIA5Match",
    "caseExactIA5Match",
    "caseIgnoreListMatch",
    "numericStringMatch",
    "telephoneNumberMatch",
    "integerMatch",
    "booleanMatch",
    "octetStringMatch",
    "generalizedTimeMatch",
    "UUIDMatch",
    "CSNMatch",
];

/// Why entries are not sorted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SortFault {
    pub(crate) code: ResultCode,
    /// That of the sort key at fault.
    pub(crate) attribute: Option<String>,
    /// What to do about it.
    pub(crate) diagnostic: String,
}

impl SortFault {
    /// A fault of no single key.
    pub(crate) fn new(code: ResultCode, diagnostic: impl Into<String>) -> Self {
        Self { code, attribute: None, diagnostic: diagnostic.into() }
    }

    fn of_key(key: &SortKey<'_>, code: ResultCode, diagnostic: String) -> Self {
        Self { code, attribute: Some(key.attribute.to_owned()), diagnostic }
    }

    /// What the response control says.
    pub(crate) fn response(&self) -> ResponseControl {
        let result = SortResult { code: self.code.code(), attribute: self.attribute.as_deref() };
        ResponseControl { oid: RESPONSE, value: Some(result.encode()) }
    }
}

/// The response control of entries that are in order.
pub(crate) fn sorted_response() -> ResponseControl {
    let result = SortResult { code: ResultCode::Success.code(), attribute: None };
    ResponseControl { oid: RESPONSE, value: Some(result.encode()) }
}

impl SortRequest<'_> {
    /// What the keys mean, or why they mean nothing here.
    pub(crate) fn resolve(
        &self,
        schema: &Schema,
        guard: &Guard<'_>,
    ) -> Result<SortOrder, SortFault> {
        let mut order: Vec<OrderKey> = Vec::new();
        let Some(keys) = &self.keys else {
            return Err(SortFault::new(
                ResultCode::UnwillingToPerform,
                format!("entries are sorted by at most {SORT_KEYS_MAX} keys"),
            ));
        };
        for key in keys {
            let resolved = resolve_key(key, schema, guard)?;
            if order.iter().any(|before| before.description == resolved.description) {
                let diagnostic = format!("'{}' is a sort key twice", key.attribute);
                return Err(SortFault::of_key(key, ResultCode::UnwillingToPerform, diagnostic));
            }
            order.push(resolved);
        }
        Ok(SortOrder { keys: order })
    }
}

fn resolve_key(
    key: &SortKey<'_>,
    schema: &Schema,
    guard: &Guard<'_>,
) -> Result<OrderKey, SortFault> {
    let description = schema.describe(key.attribute).map_err(|error| {
        let diagnostic = format!("sort key '{}': {error}", key.attribute);
        SortFault::of_key(key, ResultCode::NoSuchAttribute, diagnostic)
    })?;
    let inappropriate =
        |diagnostic| SortFault::of_key(key, ResultCode::InappropriateMatching, diagnostic);
    let rule = match key.rule {
        Some(name) => {
            let rule = schema.matching_rule(name);
            let rule = rule.ok_or_else(|| {
                inappropriate(format!("sort key '{}': no rule '{name}'", key.attribute))
            })?;
            if !orders(rule, &description.kind) {
                return Err(inappropriate(format!(
                    "rule '{}' does not order values of '{}'",
                    rule.name, key.attribute
                )));
            }
            rule
        }
        None => own_rule(&description.kind).ok_or_else(|| {
            inappropriate(format!("'{}' has no order; name an ordering rule", key.attribute))
        })?,
    };
    if !guard.may_search_somewhere(&description) {
        let diagnostic = format!("no right to search '{}'", key.attribute);
        return Err(SortFault::of_key(key, ResultCode::InsufficientAccessRights, diagnostic));
    }
    Ok(OrderKey { description, rule, reverse: key.reverse })
}

fn orders(rule: &MatchingRule, kind: &AttributeType) -> bool {
    rule.kind == RuleKind::Ordering
        && (rule.applies_to(kind.syntax.oid) || kind.ordering == Some(rule))
}

/// The rule that values are ordered by when none is named.
fn own_rule(kind: &AttributeType) -> Option<&'static MatchingRule> {
    let is_ordered = |rule: &&MatchingRule| {
        rule.compare == Compare::Key && ORDERED_EQUALITY_RULES.contains(&rule.name)
    };
    kind.ordering.or_else(|| kind.equality.filter(is_ordered))
}

/// In which order entries are wanted.
#[derive(Debug)]
pub(crate) struct SortOrder {
    keys: Vec<OrderKey>,
}

/// One sort key, resolved.
#[derive(Debug)]
pub(crate) struct OrderKey {
    pub(crate) description: Arc<AttributeDescription>,
    pub(crate) rule: &'static MatchingRule,
    pub(crate) reverse: bool,
}

impl fmt::Display for SortOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for OrderKey { description, rule, reverse } in &self.keys {
            let sign = if *reverse { "-" } else { "" };
            write!(f, "{sign}{}:{} ", description.text(), rule.oid)?;
        }
        Ok(())
    }
}

/// Stands in the key of an entry for a value that is missing, in reverse: before all that are
/// there.
const MISSING_FIRST: u8 = 0;
/// Stands before a value in the key of an entry.
const PRESENT: u8 = 1;
/// Stands in the key of an entry for a value that is missing: after all that are there. In reverse
/// it stands for values that the rule cannot compare, which no index has.
const MISSING: u8 = 2;

impl SortOrder {
    /// The first sort key. There is always one.
    pub(crate) fn primary(&self) -> &OrderKey {
        self.keys.first().expect("a list of sort keys is never empty")
    }

    /// The sort keys for people: names, `-` before those in reverse.
    pub(crate) fn names(&self) -> String {
        let name = |key: &OrderKey| {
            let sign = if key.reverse { "-" } else { "" };
            format!("{sign}{}", key.description.text())
        };
        self.keys.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Whether there is no other sort key.
    pub(crate) fn is_single(&self) -> bool {
        self.keys.len() == 1
    }

    /// The most octets that the key of an entry has.
    pub(crate) fn key_max_bytes(&self) -> usize {
        self.keys.len() * SORT_KEY_MAX_BYTES
    }

    /// Whether the asker may search whatever an index on the primary key's type may hold: the
    /// values of its subtypes, too.
    pub(crate) fn may_use_index(&self, guard: &Guard<'_>) -> bool {
        let kind = &self.primary().description.kind;
        let plain = || AttributeDescription::plain(Arc::clone(kind));
        guard.may_search_all_of(&plain())
            && (guard.is_bypassed() || (guard.sees_all() && guard.may_search_everywhere(&plain())))
    }

    /// Appends the key of an entry, reduced to what the asker may search; of several values the
    /// least counts (RFC 2891 §2.2). When the meter has no more steps, what is appended means
    /// nothing.
    pub(crate) fn append_key(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        meter: &mut Meter<'_>,
        out: &mut Vec<u8>,
    ) {
        let (mut least, mut other) = (Vec::new(), Vec::new());
        for key in &self.keys {
            if !meter.spend(KEY_STEPS) {
                return;
            }
            let (mut is_there, mut is_missing) = (false, true);
            entry.visit_values(&key.description, &mut |_, value| {
                is_missing = false;
                if !meter.spend(key.rule.steps(value)) {
                    return false;
                }
                other.clear();
                if (key.rule.prepare)(schema, value, &mut other).is_ok()
                    && (!is_there || other < least)
                {
                    std::mem::swap(&mut least, &mut other);
                    is_there = true;
                }
                true
            });
            if is_there {
                key.append_value(&least, true, out);
            } else {
                out.push(if key.reverse && is_missing { MISSING_FIRST } else { MISSING });
            }
        }
    }

    /// Whether the first part of an entry's key says that it has no value of the primary one.
    pub(crate) fn lacks_primary(key: &[u8]) -> bool {
        key.first() != Some(&PRESENT)
    }

    /// Whether an entry is among those that come before all with a value of the primary key.
    pub(crate) fn is_before_values(key: &[u8]) -> bool {
        key.first() == Some(&MISSING_FIRST)
    }

    /// Whether it is among those that come after them.
    pub(crate) fn is_behind_values(key: &[u8]) -> bool {
        key.first() == Some(&MISSING)
    }
}

impl OrderKey {
    /// Appends a prepared value as it stands in the keys of entries; without its end, it stands
    /// before whatever begins like it.
    pub(crate) fn append_value(&self, value: &[u8], is_whole: bool, out: &mut Vec<u8>) {
        out.push(PRESENT);
        let start = out.len();
        for &octet in value.get(..SORT_VALUE_MAX_BYTES).unwrap_or(value) {
            out.push(octet);
            if octet == 0 {
                out.push(0xff);
            }
        }
        if is_whole {
            out.extend_from_slice(&[0, 0]);
        }
        if self.reverse {
            out.iter_mut().skip(start).for_each(|octet| *octet = !*octet);
        }
    }

    /// Appends what the keys of all entries begin with that have their least value in this group.
    pub(crate) fn append_group(&self, group: &OrderedGroup, out: &mut Vec<u8>) {
        self.append_value(group.value(), group.is_whole(), out);
    }

    /// The prepared value that the key of an entry begins with; none when it has none.
    pub(crate) fn value_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut octets =
            key.strip_prefix(&[PRESENT])?.iter().map(|&o| if self.reverse { !o } else { o });
        let mut value = Vec::new();
        loop {
            match octets.next()? {
                0 if octets.next()? == 0 => return Some(value),
                octet => value.push(octet),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aci::{Access, Identity};
    use ldap::control_value::sort::write_sort_keys;
    use ldap::dn::{Dn, DnText};
    use ldap::message::Control;
    use schema::Entry;

    use super::*;
    use crate::request::controls::sort;

    fn key<'a>(attribute: &'a str, rule: Option<&'a str>, reverse: bool) -> SortKey<'a> {
        SortKey { attribute, rule, reverse }
    }

    fn order(keys: &[SortKey<'_>], access: &Access) -> Result<SortOrder, SortFault> {
        let value = write_sort_keys(keys);
        let control = Control { oid: sort::OID, critical: true, value: Some(&value) };
        sort::read(&control).unwrap().resolve(&Schema::builtin(), &Guard::open(access))
    }

    /// Whom no access rules keep from anything.
    fn root() -> Access {
        Access::of(Identity::Root(DnText::of_entry("cn=root").unwrap()))
    }

    #[test]
    fn sort_keys_that_cannot_be_used_say_why() {
        let check = |one: SortKey<'_>, code: ResultCode| {
            let fault = order(&[one], &root()).unwrap_err();
            assert_eq!((fault.code, fault.attribute.as_deref()), (code, Some(one.attribute)));
        };
        check(key("shoeSize", None, false), ResultCode::NoSuchAttribute);
        check(key("cn", Some("noSuchRule"), false), ResultCode::InappropriateMatching);
        check(key("cn", Some("integerOrderingMatch"), false), ResultCode::InappropriateMatching);
        check(key("cn", Some("caseIgnoreMatch"), false), ResultCode::InappropriateMatching);
        check(key("member", None, false), ResultCode::InappropriateMatching);
        check(key("jpegPhoto", None, false), ResultCode::InappropriateMatching);
        let twice = [key("cn", None, false), key("commonName", None, true)];
        let fault = order(&twice, &root()).unwrap_err();
        assert_eq!(fault.code, ResultCode::UnwillingToPerform);
        let many = [key("cn", None, false); SORT_KEYS_MAX + 1];
        let fault = order(&many, &root()).unwrap_err();
        assert_eq!((fault.code, fault.attribute), (ResultCode::UnwillingToPerform, None));
        for rule in [None, Some("2.5.13.3"), Some("CASEIGNOREORDERINGMATCH"), Some("2.5.13.6")] {
            assert!(order(&[key("sn", rule, true)], &root()).is_ok(), "{rule:?}");
        }
        let root = root();
        assert!(order(&[key("userPassword", None, false)], &root).is_ok());
    }

    fn sorted(keys: &[SortKey<'_>], people: &[&[(&str, &str)]]) -> Vec<usize> {
        let schema = Schema::builtin();
        let order = order(keys, &root()).unwrap();
        let mut found: Vec<(Vec<u8>, usize)> = Vec::new();
        for (at, person) in people.iter().enumerate() {
            let pairs = person.iter().map(|(name, value)| (*name, value.as_bytes()));
            let entry =
                Entry::from_pairs(Dn::parse("dc=example").unwrap(), pairs, &schema).unwrap();
            let mut key = Vec::new();
            order.append_key(&schema, &entry, &mut Meter::unlimited(), &mut key);
            let primary = order.primary();
            if let Some(value) = primary.value_of(&key) {
                let mut again = Vec::new();
                primary.append_value(&value, true, &mut again);
                assert!(key.starts_with(&again));
            } else {
                assert!(SortOrder::lacks_primary(&key));
            }
            found.push((key, at));
        }
        found.sort();
        found.into_iter().map(|(_, at)| at).collect()
    }

    #[test]
    fn keys_order_entries() {
        let people: [&[(&str, &str)]; 6] = [
            &[("sn", "b"), ("uidNumber", "10")],
            &[("sn", "A"), ("sn", "z"), ("uidNumber", "9")],
            &[("uidNumber", "-3")],
            &[("sn", "ab"), ("uidNumber", "9")],
            &[("sn", "B"), ("uidNumber", "2")],
            &[("sn", "a1")],
        ];
        assert_eq!(sorted(&[key("sn", None, false)], &people), [1, 5, 3, 0, 4, 2]);
        assert_eq!(sorted(&[key("sn", None, true)], &people), [2, 0, 4, 3, 5, 1]);
        assert_eq!(sorted(&[key("uidNumber", None, false)], &people), [2, 4, 1, 3, 0, 5]);
        assert_eq!(sorted(&[key("uidNumber", None, true)], &people), [5, 0, 1, 3, 4, 2]);
        let two = [key("sn", None, true), key("uidNumber", None, false)];
        assert_eq!(sorted(&two, &people), [2, 4, 0, 3, 5, 1]);
        let two = [key("uidNumber", None, false), key("sn", None, true)];
        assert_eq!(sorted(&two, &people), [2, 4, 3, 1, 0, 5]);
    }
}
