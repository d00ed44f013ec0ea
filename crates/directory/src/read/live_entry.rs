//! A stored entry together with the attributes that are computed when it is read.

use std::cell::{Cell, OnceCell};

use ldap::message::{Values, ValuesBuf};
use schema::{AttributeDescription, EntryRead, WellKnown};
use store::{StoredEntry, View};

use crate::access::guard::Guard;
use crate::read::subschema::SUBSCHEMA_DN;

/// A stored entry as filters and clients see it: with `entryDN` (RFC 5020), `subschemaSubentry`
/// (RFC 4512 §4.2), `hasSubordinates` and `numSubordinates`.
pub struct LiveEntry<'v> {
    view: &'v View<'v>,
    stored: &'v StoredEntry<'v>,
    known: &'v WellKnown,
    /// Whether a reader of all attributes is to see the computed ones; they cost look-ups.
    computed: bool,
    /// Who reads it, when that is not the server itself.
    reader: Option<&'v Guard<'v>>,
    /// What was computed of subordinates: whether there are any, and how many. A filter may ask for
    /// it in each of its terms.
    counted: [OnceCell<Option<u64>>; 2],
    /// Subordinates that were read for it.
    children_read: Cell<u64>,
}

impl<'v> LiveEntry<'v> {
    /// `stored` as it is read from `view`. With `computed`, a reader of all attributes sees those
    /// that are computed, too.
    pub fn new(
        view: &'v View<'v>,
        stored: &'v StoredEntry<'v>,
        known: &'v WellKnown,
        computed: bool,
    ) -> Self {
        let (counted, children_read) = (Default::default(), Cell::new(0));
        Self { view, stored, known, computed, reader: None, counted, children_read }
    }

    /// The entry as this reader sees it: subordinates that may not be seen are not counted.
    #[must_use]
    pub(crate) fn seen_by(self, reader: &'v Guard<'v>) -> Self {
        Self { reader: Some(reader), ..self }
    }

    /// How many subordinates were read to compute what it was asked for.
    pub(crate) fn children_read(&self) -> u64 {
        self.children_read.get()
    }

    /// The descriptions that are computed.
    pub fn computed_descriptions(known: &WellKnown) -> [&AttributeDescription; 4] {
        [
            &known.entry_dn,
            &known.subschema_subentry,
            &known.has_subordinates,
            &known.num_subordinates,
        ]
    }

    fn compute(&self, description: &AttributeDescription) -> Option<String> {
        let known = self.known;
        if *description == *known.entry_dn {
            Some(self.stored.dn().to_owned())
        } else if *description == *known.subschema_subentry {
            Some(SUBSCHEMA_DN.to_owned())
        } else {
            // A store that cannot count answers as if there were no such attribute.
            let asks_how_many = *description == *known.num_subordinates;
            let [any, all] = &self.counted;
            let (known, enough) = if asks_how_many { (all, u64::MAX) } else { (any, 1) };
            let count =
                (*known.get_or_init(|| match self.reader.filter(|reader| !reader.sees_all()) {
                    None => self.view.child_count(self.stored.id()).ok(),
                    Some(reader) => self.seen(reader, enough),
                }))?;
            if !asks_how_many {
                Some(if count > 0 { "TRUE" } else { "FALSE" }.to_owned())
            } else {
                Some(count.to_string())
            }
        }
    }

    /// How many subordinates the reader may see, up to `enough`; none when there are too many to
    /// look at each.
    fn seen(&self, reader: &Guard<'_>, enough: u64) -> Option<u64> {
        let mut count = 0;
        for (number, child) in self.view.children(self.stored.id()).ok()?.enumerate() {
            if number >= SUBORDINATES_LOOKED_AT_MAX {
                return None;
            }
            self.children_read.set(self.children_read.get() + 1);
            let child = self.view.entry(child.ok()?).ok()??;
            count += u64::from(reader.on(&child).may_see());
            if count >= enough {
                break;
            }
        }
        Some(count)
    }
}

impl EntryRead for LiveEntry<'_> {
    fn dn(&self) -> &str {
        self.stored.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.stored.split_dn()
    }

    fn visit_values(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        if asked.is_operational() {
            for description in Self::computed_descriptions(self.known) {
                if asked.covers(description)
                    && let Some(value) = self.compute(description)
                    && !visit(description, value.as_bytes())
                {
                    return true;
                }
            }
        }
        self.stored.visit_values(asked, visit)
    }

    fn visit_attributes(&self, visit: &mut dyn FnMut(&AttributeDescription, Values<'_>)) {
        self.stored.visit_attributes(visit);
        if !self.computed {
            return;
        }
        for description in Self::computed_descriptions(self.known) {
            if let Some(value) = self.compute(description) {
                let mut values = ValuesBuf::new();
                values.push(value.as_bytes());
                visit(description, values.as_ref());
            }
        }
    }
}

/// The most subordinates of an entry that are looked at to count those its reader may see. Of an
/// entry with more, a reader who may not see all is told neither attribute.
pub(crate) const SUBORDINATES_LOOKED_AT_MAX: usize = 1_000;
