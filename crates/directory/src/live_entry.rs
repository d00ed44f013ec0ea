//! A stored entry together with the attributes that are computed when it is read.

use ldap::message::{Values, ValuesBuf};
use schema::{AttributeDescription, EntryRead, WellKnown};
use store::{StoredEntry, View};

/// A stored entry as filters and clients see it: with `entryDN` (RFC 5020), `subschemaSubentry`
/// (RFC 4512 §4.2), `hasSubordinates` and `numSubordinates`.
pub(crate) struct LiveEntry<'v> {
    view: &'v View<'v>,
    stored: &'v StoredEntry<'v>,
    known: &'v WellKnown,
    /// Whether a reader of all attributes is to see the computed ones; they cost look-ups.
    computed: bool,
}

impl<'v> LiveEntry<'v> {
    pub(crate) fn new(
        view: &'v View<'v>,
        stored: &'v StoredEntry<'v>,
        known: &'v WellKnown,
        computed: bool,
    ) -> Self {
        Self { view, stored, known, computed }
    }

    /// The descriptions that are computed.
    pub(crate) fn computed_descriptions(known: &WellKnown) -> [&AttributeDescription; 4] {
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
            let count = self.view.child_count(self.stored.id()).ok()?;
            if *description == *known.has_subordinates {
                Some(if count > 0 { "TRUE" } else { "FALSE" }.to_owned())
            } else {
                Some(count.to_string())
            }
        }
    }
}

impl EntryRead for LiveEntry<'_> {
    fn dn(&self) -> &str {
        self.stored.dn()
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

/// The name of the subschema subentry of the whole server.
pub(crate) const SUBSCHEMA_DN: &str = "cn=schema";
