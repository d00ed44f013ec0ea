//! The wall before the socket: an entry reduced to what its reader may see.

use ldap::message::{Values, ValuesBuf};
use schema::{
    AttributeDescription, EntryRead, ResolvedFilter, Schema, Selection, Truth, ValueKey, ValueRange,
};

use crate::Rights;
use crate::rule::pattern::OneValue;

/// Which values of an entry are wanted (RFC 3876): those that one of the items matches.
#[derive(Clone, Copy, Debug)]
pub struct WantedValues<'e> {
    /// What the items are resolved against.
    pub schema: &'e Schema,
    /// The items, each a filter of one assertion.
    pub items: &'e [ResolvedFilter],
}

impl WantedValues<'_> {
    fn wants(&self, description: &AttributeDescription, value: &[u8]) -> bool {
        let one = OneValue { description, value };
        self.items.iter().any(|item| item.matches(self.schema, &one) == Truth::True)
    }
}

/// An attribute of an entry, as one identity may see it.
#[derive(Clone, Copy, Debug)]
pub enum VisibleAttribute<'v> {
    /// Its description, and its values.
    Whole(&'v str, Values<'v>),
    /// All its values may be read, and are not put together.
    InParts(&'v AttributeDescription),
}

/// An entry as one identity may see it. The only form in which an entry leaves the server.
///
/// ```compile_fail,E0451
/// fn forge<'e>(
///     rights: &'e aci::Rights<'e>,
///     entry: &'e dyn schema::EntryRead,
///     selection: &'e schema::Selection,
/// ) -> aci::VisibleEntry<'e> {
///     aci::VisibleEntry { rights, entry, selection, wanted: None }
/// }
/// ```
pub struct VisibleEntry<'e> {
    rights: &'e Rights<'e>,
    entry: &'e dyn EntryRead,
    selection: &'e Selection,
    wanted: Option<WantedValues<'e>>,
}

impl<'e> VisibleEntry<'e> {
    pub(crate) fn new(
        rights: &'e Rights<'e>,
        entry: &'e dyn EntryRead,
        selection: &'e Selection,
    ) -> Self {
        Self { rights, entry, selection, wanted: None }
    }

    /// This entry with the wanted values only; an attribute without any is left out.
    #[must_use]
    pub fn only(self, wanted: Option<WantedValues<'e>>) -> Self {
        Self { wanted, ..self }
    }

    /// The name, as sent.
    pub fn dn(&self) -> &str {
        self.entry.dn()
    }

    /// Calls `visit` with the description and the values of each attribute that was asked for and
    /// may be read: none of an entry that may not be seen.
    pub fn visit(&self, visit: &mut dyn FnMut(&str, Values<'_>)) {
        self.visit_in_parts(&|_| false, &mut |attribute| match attribute {
            VisibleAttribute::Whole(description, values) => visit(description, values),
            VisibleAttribute::InParts(_) => {}
        });
    }

    /// As [`Self::visit`], but the values of attributes that `is_long` is true of are not put
    /// together, where that takes long; unless only some of the values are wanted.
    pub fn visit_in_parts(
        &self,
        is_long: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(VisibleAttribute<'_>),
    ) {
        if !self.rights.may_see() {
            return;
        }
        let Self { rights, selection, .. } = self;
        let is_long = |one: &AttributeDescription| self.wanted.is_none() && is_long(one);
        // Asked of what takes long to be put together, before it is.
        let wants = |one: &AttributeDescription| {
            selection.selects_this(one) && rights.may_read(one) && !is_long(one)
        };
        self.entry.visit_wanted(&wants, &mut |description, values| {
            if !self.selection.selects(description) || !self.rights.may_read(description) {
                return;
            }
            let text = description.text();
            let Some(values) = values else {
                return visit(VisibleAttribute::InParts(description));
            };
            let Some(wanted) = &self.wanted else {
                return visit(VisibleAttribute::Whole(text, values));
            };
            // What may not be searched is Undefined, as in any filter.
            if !self.rights.may_search(description) {
                return;
            }
            let mut kept = ValuesBuf::new();
            for value in values.iter().filter(|value| wanted.wants(description, value)) {
                kept.push(value);
            }
            let kept = kept.as_ref();
            if !kept.is_empty() {
                visit(VisibleAttribute::Whole(text, kept));
            }
        });
        for range in self.selection.ranges() {
            self.visit_range(range, &mut |text, values| {
                visit(VisibleAttribute::Whole(text, values));
            });
        }
    }

    /// Values of an attribute of which only a part is asked for.
    fn visit_range(&self, range: &ValueRange, visit: &mut dyn FnMut(&str, Values<'_>)) {
        let description = &*range.description;
        // Which of the values are wanted and which are asked for do not go together.
        let is_other = self.selection.selects_this(description) || self.wanted.is_some();
        if is_other || !self.rights.may_read(description) {
            return;
        }
        let mut values = ValuesBuf::new();
        let has_more = self.entry.values_from(description, range.first, range.most(), &mut values);
        let values = values.as_ref();
        if !values.is_empty() {
            visit(&range.told(values.iter().count() as u64, has_more), values);
        }
    }
}

/// An entry as a filter of one identity may see it: an assertion on an attribute without the right
/// to search it cannot be answered and is Undefined.
pub struct Searchable<'e> {
    rights: &'e Rights<'e>,
    entry: &'e dyn EntryRead,
}

impl<'e> Searchable<'e> {
    pub(crate) fn new(rights: &'e Rights<'e>, entry: &'e dyn EntryRead) -> Self {
        Self { rights, entry }
    }
}

impl EntryRead for Searchable<'_> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.entry.split_dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        if !self.rights.may_search(asked) {
            return false;
        }
        self.entry.visit_matching(asked, only, &mut |description, value| {
            // A supertype may be searchable where one of its subtypes is not.
            (description != asked && !self.rights.may_search(description))
                || visit(description, value)
        })
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, &mut |description, values| {
            if self.rights.may_search(description) {
                visit(description, values);
            }
        });
    }
}
