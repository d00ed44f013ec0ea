//! Whether an ACI is about an entry: name, scope, filter, values.

use std::cell::OnceCell;

use schema::{AttributeDescription, DnKey, EntryRead, Schema, Truth};

use super::truth;
use crate::rule::pattern::OneValue;
use crate::rule::template;
use crate::rule::{EntryTargets, NameTarget, TargetScope, ValueFilter};
use crate::set::{Above, AciSet, Link};

/// The entry that is asked about.
pub(super) struct Target<'e> {
    pub(super) entry: &'e dyn EntryRead,
    given: Option<&'e DnKey>,
    made: OnceCell<Option<DnKey>>,
    set: &'e AciSet,
}

impl<'e> Target<'e> {
    pub(super) fn new(entry: &'e dyn EntryRead, key: Option<&'e DnKey>, set: &'e AciSet) -> Self {
        Self { entry, given: key, made: OnceCell::new(), set }
    }

    /// The key of its name, made when it is first asked for; none if the name has none.
    pub(super) fn key(&self) -> Option<&DnKey> {
        let make = || match self.superior() {
            Some((leaf, above)) => above.superior().below(leaf, self.set.schema()),
            None => DnKey::from_text(self.set.schema(), self.entry.dn()).ok(),
        };
        self.given.or_else(|| self.made.get_or_init(make).as_ref())
    }

    /// Its leaf and its superior, when they are at hand.
    fn superior(&self) -> Option<(&'e str, Above<'e>)> {
        let (leaf, above) = self.entry.split_dn()?;
        Some((leaf, self.set.superior(above)?))
    }

    /// Whether this is its name. Most are told apart by their superiors.
    pub(super) fn is(&self, who: &DnKey) -> Truth {
        if let Some((_, above)) = self.superior()
            && !who.is_within(&above.superior().key)
        {
            return Truth::False;
        }
        self.key().map_or(Truth::Undefined, |key| truth(key == who))
    }

    /// Whether this is the name of its superior.
    pub(super) fn is_directly_below(&self, who: &DnKey) -> Truth {
        if let Some((_, above)) = self.superior() {
            return truth(above.superior().key == *who);
        }
        let is_above = |key: &DnKey| key.parent().is_some_and(|parent| parent == *who);
        self.key().map_or(Truth::Undefined, |key| truth(is_above(key)))
    }
}

/// Whether the targets of a statement leave something to ask of the entry.
pub(super) fn depends_on_entry(link: &Link) -> bool {
    let Some(targets) = link.entry_targets() else { return false };
    let has_pattern = targets.name.as_ref().is_some_and(is_for_entry);
    let is_one_level = targets.scope == TargetScope::OneLevel;
    has_pattern || is_one_level || targets.filter.is_some() || targets.values.is_some()
}

/// Whether the place of the ACI does not say all about its `target`.
fn is_for_entry(name: &NameTarget) -> bool {
    name.negated || name.pattern.exact().is_none()
}

/// Whether an entry within reach of the ACI is among its targets; attributes and values aside.
pub(super) fn target_truth(link: &Link, target: &Target<'_>, schema: &Schema) -> Truth {
    let Some(targets) = link.entry_targets() else { return Truth::True };
    let name = name_truth(link, target, schema);
    if name == Truth::False {
        return Truth::False;
    }
    match &targets.filter {
        None => name,
        Some(own) => {
            let matches = if own.has_macro {
                template_truth(&own.filter.text, targets, target, schema)
            } else {
                own.filter.filter.matches(schema, target.entry)
            };
            name.and(if own.negated { !matches } else { matches })
        }
    }
}

/// What a filter with macros says of an entry; not known without a `($dn)` in the target.
fn template_truth(
    text: &str,
    targets: &EntryTargets,
    target: &Target<'_>,
    schema: &Schema,
) -> Truth {
    let key = target.key();
    let name = targets.name.as_ref().zip(key);
    let part = name.and_then(|(name, key)| name.pattern.part(key, schema));
    let Some(part) = part else { return Truth::Undefined };
    let steps = if template::goes_up(text) { part.len() } else { 1 };
    let mut found = Truth::False;
    for step in 0..steps {
        let name = part.text(target.entry.dn(), step);
        let filter = template::instance(text, &name, schema);
        found = found.or(filter.map_or(Truth::Undefined, |one| one.matches(schema, target.entry)));
        if found == Truth::True {
            break;
        }
    }
    found
}

/// Whether the name of an entry within reach of the ACI is meant.
pub(super) fn name_truth(link: &Link, target: &Target<'_>, schema: &Schema) -> Truth {
    let Some(targets) = link.entry_targets() else { return Truth::True };
    let scope = targets.scope;
    let name = targets.name.as_ref();
    let pattern = name.filter(|name| is_for_entry(name));
    if pattern.is_none() && scope != TargetScope::OneLevel {
        return Truth::True;
    }
    let Some(key) = target.key() else { return Truth::Undefined };
    let above: &DnKey = &link.placed.holder;
    match pattern {
        Some(NameTarget { negated: false, pattern }) => {
            pattern.matches_above(key, schema, |distance| reaches(scope, distance))
        }
        Some(NameTarget { negated: true, pattern }) => {
            let distance = key.depth().saturating_sub(above.depth());
            let is_in_scope = truth(reaches(scope, distance));
            is_in_scope.and(!pattern.matches_above(key, schema, |_| true))
        }
        None => {
            let anchor = link.placed.aci.targets.exact_name().unwrap_or(above);
            truth(key.depth() == anchor.depth() + 1)
        }
    }
}

/// Whether a scope reaches so far below its base.
fn reaches(scope: TargetScope, distance: usize) -> bool {
    match scope {
        TargetScope::Base => distance == 0,
        TargetScope::OneLevel => distance == 1,
        TargetScope::Subtree => true,
        TargetScope::Subordinate => distance > 0,
    }
}

/// What value filters say of one value: an attribute that they do not name is not meant, nor, in an
/// allow, one of a type derived from those that they name. Where several are about the attribute,
/// an allow is for values that all match, a deny for those that one does.
pub(super) fn value_truth(
    list: &[ValueFilter],
    allows: bool,
    attribute: &AttributeDescription,
    value: &[u8],
    schema: &Schema,
) -> Truth {
    let one = OneValue { description: attribute, value };
    let about = list.iter().filter(|filter| filter.is_about(attribute));
    let is_named = about.clone().any(|filter| filter.names_type_of(attribute));
    let matches = about.map(|filter| filter.filter.filter.matches(schema, &one));
    match allows {
        true => matches.fold(truth(is_named), Truth::and),
        false => matches.fold(Truth::False, Truth::or),
    }
}

/// What value filters say of a whole entry. An allow is for entries whose values all match; a deny
/// is for those of which one does.
pub(super) fn entry_values_truth(
    list: &[ValueFilter],
    allows: bool,
    entry: &dyn EntryRead,
    schema: &Schema,
) -> Truth {
    let mut found = truth(allows);
    for filter in list {
        let Some(name) = filter.attribute.known() else { continue };
        entry.visit_values(name, &mut |description, value| {
            let one = OneValue { description, value };
            let matches = filter.filter.filter.matches(schema, &one);
            found = if allows { found.and(matches) } else { found.or(matches) };
            true
        });
    }
    found
}
