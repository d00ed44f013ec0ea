//! The lines that hold in a view.
//!
//! Invariant: they are those of the view that is asked about, tentative or not: what was read last
//! is only used again where the view says the same.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use schema::Schema;
use store::View;

use super::{Line, name_of};

/// The lines, read once for a version of them.
pub(crate) struct InForce<L>(ArcSwapOption<Known<L>>);

struct Known<L> {
    texts: Arc<[String]>,
    /// The generation of the schema.
    generation: u64,
    all: Arc<[L]>,
}

impl<L> Default for InForce<L> {
    fn default() -> Self {
        Self(ArcSwapOption::empty())
    }
}

impl<L: Line> InForce<L> {
    /// Those of a view.
    pub(crate) fn of(&self, view: &View<'_>, schema: &Schema) -> Arc<[L]> {
        let Some(texts) = view.setting_at_hand(L::SETTING) else { return Arc::default() };
        let generation = schema.generation();
        if let Some(known) = &*self.0.load()
            && (Arc::ptr_eq(&known.texts, texts) || known.texts == *texts)
            && known.generation == generation
        {
            return Arc::clone(&known.all);
        }
        let all: Arc<[L]> = texts.iter().filter_map(|text| read(text, schema)).collect();
        let known = Known { texts: Arc::clone(texts), generation, all: Arc::clone(&all) };
        self.0.store(Some(Arc::new(known)));
        all
    }
}

/// One that the schema does not allow any more holds for nothing: there are no such values.
fn read<L: Line>(text: &str, schema: &Schema) -> Option<L> {
    let read = L::read(text, schema);
    read.inspect_err(|error| {
        let (line, setting) = (name_of(text), L::SETTING);
        tracing::warn!(line, setting, %error, "a line of a setting means nothing any more");
    })
    .ok()
}
