//! The constraints that hold in a view.
//!
//! Invariant: they are those of the view that is asked about, tentative or not: what was read last
//! is only used again where the view says the same.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use schema::Schema;
use store::{StoreError, View};

use super::text::{Constraint, name_of};

/// The setting with the texts.
pub(crate) const CONSTRAINTS: &str = "constraints";

/// The constraints, read once for a version of them.
#[derive(Default)]
pub(crate) struct ConstraintsInForce(ArcSwapOption<Known>);

struct Known {
    texts: Vec<String>,
    /// The generation of the schema.
    generation: u64,
    all: Arc<[Constraint]>,
}

impl ConstraintsInForce {
    /// Those of a view.
    pub(crate) fn of(
        &self,
        view: &View<'_>,
        schema: &Schema,
    ) -> Result<Arc<[Constraint]>, StoreError> {
        let texts = view.setting(CONSTRAINTS)?;
        let generation = schema.generation();
        if let Some(known) = &*self.0.load()
            && known.texts == texts
            && known.generation == generation
        {
            return Ok(Arc::clone(&known.all));
        }
        let all: Arc<[Constraint]> = texts.iter().filter_map(|text| read(text, schema)).collect();
        let known = Known { texts, generation, all: Arc::clone(&all) };
        self.0.store(Some(Arc::new(known)));
        Ok(all)
    }
}

/// One that the schema does not allow any more holds for nothing: there are no such values.
fn read(text: &str, schema: &Schema) -> Option<Constraint> {
    let read = Constraint::parse(text, schema);
    read.inspect_err(|error| {
        tracing::warn!(constraint = name_of(text), %error, "a constraint means nothing any more");
    })
    .ok()
}
