//! Readers: what a thread reads with.
//!
//! Invariant: taking a view takes no lock and waits for nobody.

use std::sync::Arc;
use std::thread;

use crate::error::StoreError;
use crate::names::NameCache;
use crate::stack::Ground;
use crate::store::Store;
use crate::view::View;

/// What one thread reads with; it keeps its view while nothing is published, and what the view
/// reads of LMDB until that has moved on.
#[derive(Debug)]
pub struct Reader {
    store: Arc<Store>,
    /// As of this exchange of the version.
    exchanges: u64,
    view: Option<View<'static>>,
    /// Kept here while there is no view.
    names: NameCache,
}

impl Store {
    /// What a thread reads with.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Reader {
        let (store, names) = (Arc::clone(self), NameCache::default());
        Reader { store, exchanges: 0, view: None, names }
    }

    /// A view of what is published.
    pub(crate) fn snapshot(&self, names: NameCache) -> Result<View<'static>, StoreError> {
        loop {
            let version = self.versions.load();
            let ground = Ground::take(&version)?;
            if version.fits(&ground) {
                return Ok(View::of_reader(ground, &version, self.shared_contexts(), names));
            }
            // The base has moved on in between, and the version is just about to.
            thread::yield_now();
        }
    }
}

impl Reader {
    /// The view of what is published.
    #[inline]
    pub fn view(&mut self) -> Result<&View<'static>, StoreError> {
        let exchanges = self.store.versions.exchanges();
        if self.view.is_none() || self.exchanges != exchanges {
            self.refresh(exchanges)?;
        }
        Ok(self.view.as_ref().expect("a refreshed reader has a view"))
    }

    #[inline(never)]
    fn refresh(&mut self, exchanges: u64) -> Result<(), StoreError> {
        // Read before the version is: a later exchange makes for another look, never for none.
        self.exchanges = exchanges;
        if let Some(view) = &mut self.view
            && self.store.versions.with(|version| view.move_to(version))
        {
            return Ok(());
        }
        self.release();
        self.view = Some(self.store.snapshot(std::mem::take(&mut self.names))?);
        Ok(())
    }

    /// Gives the view up, so that its pages and layers can be used again. Call it before waiting
    /// for long.
    pub fn release(&mut self) {
        if let Some(view) = self.view.take() {
            self.names = view.into_names();
        }
    }
}
