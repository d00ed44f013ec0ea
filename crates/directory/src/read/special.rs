//! Entries the server makes itself that are in no tree: the root DSE and the subschema subentry.

use std::sync::Arc;

use schema::{DnKey, Entry};

use crate::directory::{Directory, State};
use crate::read::root_dse::{self, Offer};

/// Entries the server makes itself; they are in no naming context.
pub(crate) enum Special {
    /// The root DSE.
    Root(Entry),
    /// The subschema subentry.
    Subschema(Arc<Entry>),
}

impl Special {
    pub(crate) fn entry(&self) -> &Entry {
        match self {
            Self::Root(entry) => entry,
            Self::Subschema(entry) => entry,
        }
    }
}

/// The special entry named by `key`, if it is one.
pub(crate) fn special_entry(
    directory: &Directory,
    state: &State,
    key: &DnKey,
    offer: impl FnOnce() -> Offer,
) -> Option<Special> {
    if key.is_root() {
        return Some(Special::Root(root_dse::entry(directory, &state.schema, offer())));
    }
    (*key == state.subschema_key).then(|| Special::Subschema(Arc::clone(&state.subschema)))
}
