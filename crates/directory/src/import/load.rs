//! Into the store, in whichever way it takes entries.

use std::sync::Arc;

use aci::Permitted;
use schema::{AddChange, Change, DnKey, Entry, EntryId, Schema};
use store::{
    Added, Batch, BulkError, BulkLoader, LoadOptions, Place, PreparedEntry, Preparer, Resolved,
    Store,
};

use super::ImportError;
use crate::ops::update;

/// A load that was begun.
pub(super) enum Load<'s> {
    /// Nothing is there but the entries of the naming contexts.
    Bulk(Box<BulkLoader<'s>>),
    /// Added one by one to what is there, in one transaction.
    Batch { batch: Box<Batch<'s>>, schema: Arc<Schema>, contexts: Vec<DnKey> },
}

/// An entry that is ready for a load.
#[derive(Debug)]
pub(super) enum Ready {
    Bulk(PreparedEntry),
    Batch { entry: Box<Entry>, line: u64 },
}

/// Makes entries ready for a load, on any thread.
pub(super) enum Finisher {
    Bulk(Preparer, u64),
    Batch,
}

impl Finisher {
    pub(super) fn finish(
        &mut self,
        entry: Entry,
        line: u64,
        number: u64,
    ) -> Result<Ready, ImportError> {
        match self {
            Self::Bulk(preparer, first_id) => {
                let place = Place { source: 0, line };
                let prepared = preparer.prepare(&entry, place, *first_id + number);
                Ok(Ready::Bulk(prepared.map_err(BulkError::from)?))
            }
            Self::Batch => Ok(Ready::Batch { entry: Box::new(entry), line }),
        }
    }
}

impl<'s> Load<'s> {
    pub(super) fn start(store: &'s Store) -> Result<Self, ImportError> {
        match store.bulk_load(&LoadOptions::default()) {
            Ok(loader) => Ok(Self::Bulk(Box::new(loader))),
            Err(BulkError::NotEmpty { .. }) => {
                let schema = store.schema();
                let contexts = store.naming_contexts().iter();
                let contexts = contexts.filter_map(|dn| DnKey::from_dn(&schema, dn).ok()).collect();
                Ok(Self::Batch { batch: Box::new(store.begin()?), schema, contexts })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What makes entries ready on a thread of their own.
    pub(super) fn finisher(&self) -> Finisher {
        match self {
            Self::Bulk(loader) => Finisher::Bulk(loader.preparer(), loader.first_id()),
            Self::Batch { .. } => Finisher::Batch,
        }
    }

    pub(super) fn add(&mut self, ready: Ready) -> Result<(), ImportError> {
        match (self, ready) {
            (Self::Bulk(loader), Ready::Bulk(entry)) => match loader.add(entry)? {
                Added::Loaded | Added::Replaced | Added::Waiting => Ok(()),
                Added::Refused(refusal) => Err(BulkError::Refused(refusal).into()),
            },
            (Self::Batch { batch, schema, contexts }, Ready::Batch { entry, line }) => {
                let change = add_change(batch, schema, contexts, *entry);
                let change = change?.map_err(|reason| ImportError::File { line, reason })?;
                Ok(batch.apply(Permitted::internal(Change::Add(change)).get())?)
            }
            (Self::Bulk(_), Ready::Batch { .. }) | (Self::Batch { .. }, Ready::Bulk(_)) => {
                unreachable!("entries are made ready by this load's own finishers")
            }
        }
    }

    pub(super) fn finish(
        self,
        progress: &mut dyn FnMut(&'static str, u64, u64),
    ) -> Result<(), ImportError> {
        match self {
            Self::Bulk(loader) => {
                let mut first = None;
                let finished = loader.finish(
                    &mut |phase, done, of| {
                        progress(phase.name(), done, of);
                        std::ops::ControlFlow::Continue(())
                    },
                    &mut |refusal| {
                        first = Some(refusal);
                        std::ops::ControlFlow::Break(())
                    },
                );
                match (finished, first) {
                    (Err(BulkError::Stopped), Some(refusal)) => {
                        return Err(BulkError::Refused(refusal).into());
                    }
                    (finished, _) => finished?,
                };
            }
            Self::Batch { batch, .. } => {
                batch.commit()?;
            }
        }
        Ok(())
    }
}

/// The change that adds an entry, or why it does not fit to what is there.
fn add_change(
    batch: &Batch<'_>,
    schema: &Schema,
    contexts: &[DnKey],
    entry: Entry,
) -> Result<Result<AddChange, String>, ImportError> {
    let dn = entry.name().to_string();
    let key = match DnKey::from_dn(schema, entry.name()) {
        Ok(key) => key,
        Err(error) => return Ok(Err(format!("'{dn}': {error}"))),
    };
    if let Resolved::Found(_) = batch.view().resolve(&key)? {
        return Ok(Err(format!("an entry '{dn}' exists already")));
    }
    let parent = if contexts.contains(&key) {
        EntryId::ROOT
    } else {
        let above = key.parent().map(|above| batch.view().resolve(&above)).transpose()?;
        match above {
            Some(Resolved::Found(parent)) => parent,
            Some(Resolved::Missing { .. }) => {
                return Ok(Err(format!("the superior of '{dn}' does not exist")));
            }
            Some(Resolved::NoContext) | None => {
                return Ok(Err(format!("'{dn}' is in no naming context")));
            }
        }
    };
    let key = update::name_key(&key, parent);
    Ok(Ok(AddChange { id: batch.next_entry_id(), parent, key, entry }))
}
