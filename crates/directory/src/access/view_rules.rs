//! Which rules a view is read by: those of its own point of the log.
//!
//! Invariant: a view is guarded by the ACIs that were in force when its last change was decided,
//! and by no others. Newer ones may lack what still protects it: the ACIs of an entry that was
//! renamed or deleted go away with its name, and the view has the entry where it was.

use std::sync::Arc;

use aci::AciSet;
use arc_swap::{ArcSwap, Guard};
use schema::{Change, Schema};
use store::{Lsn, StoreError, View};

use crate::access::acis;
use crate::virtual_attributes::set::VirtualAttributes;

/// What entries of a view are read by.
#[derive(Clone)]
pub(crate) struct ViewRules {
    /// Who may see and do what.
    pub(crate) acis: Arc<AciSet>,
    /// What entries have without storing it.
    pub(crate) virtual_attributes: Arc<VirtualAttributes>,
}

/// The rules of the directory, now and a little while ago.
pub(crate) struct ViewRulesInForce(ArcSwap<Versions>);

/// The newest first, each with the point of the log from which on it is in force.
#[derive(Clone)]
pub(crate) struct Versions(Vec<(Lsn, Arc<ViewRules>)>);

impl Versions {
    /// Those of a view of this point of the log.
    pub(crate) fn at(&self, lsn: Lsn) -> &Arc<ViewRules> {
        let found = self.0.iter().find(|(since, _)| *since <= lsn).or_else(|| self.0.last());
        found.map(|(_, set)| set).expect("there is always one")
    }

    fn newest(&self) -> &Arc<ViewRules> {
        self.at(Lsn(u64::MAX))
    }
}

impl ViewRules {
    /// Reads all.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn read(view: &View<'_>, schema: &Arc<Schema>) -> Result<Self, StoreError> {
        let acis = Arc::new(acis::read(view, schema)?);
        Ok(Self { acis, virtual_attributes: Arc::new(VirtualAttributes::read(view, schema)?) })
    }

    /// Those after these changes; none when they leave them as they are. `view` has the changes.
    pub(crate) fn after<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change> + Clone,
        view: &View<'_>,
    ) -> Result<Option<Self>, StoreError> {
        let acis = acis::after(&self.acis, changes.clone(), view)?.map(Arc::new);
        let given = self.virtual_attributes.after(changes, view)?.map(Arc::new);
        Ok((acis.is_some() || given.is_some()).then(|| Self {
            acis: acis.unwrap_or_else(|| Arc::clone(&self.acis)),
            virtual_attributes: given.unwrap_or_else(|| Arc::clone(&self.virtual_attributes)),
        }))
    }

    /// These rules by another schema.
    pub(crate) fn resolved_against(&self, schema: &Arc<Schema>) -> Self {
        let acis = Arc::new(self.acis.resolved_against(Arc::clone(schema)));
        // Those were read again with the change.
        Self { acis, virtual_attributes: Arc::clone(&self.virtual_attributes) }
    }
}

impl ViewRulesInForce {
    pub(crate) fn new(rules: ViewRules) -> Self {
        Self(ArcSwap::from_pointee(Versions(vec![(Lsn(0), Arc::new(rules))])))
    }

    /// All of them.
    pub(crate) fn load(&self) -> Guard<Arc<Versions>> {
        self.0.load()
    }

    /// Those that the last change left, visible or not.
    pub(crate) fn newest(&self) -> Arc<ViewRules> {
        Arc::clone(self.0.load().newest())
    }

    /// From this point of the log on, these are in force. Only who makes a batch says so, before
    /// anybody can see it.
    pub(crate) fn put(&self, rules: &Arc<ViewRules>, since: Lsn) {
        self.0.rcu(|now| {
            let kept = now.0.iter().take(VERSIONS_MAX - 1).cloned();
            Versions([(since, Arc::clone(rules))].into_iter().chain(kept).collect())
        });
    }

    /// What was put never comes.
    pub(crate) fn take_back(&self, rules: &Arc<ViewRules>) {
        self.retain(|(_, one)| !Arc::ptr_eq(one, rules));
    }

    /// What was decided after this point of the log never comes.
    pub(crate) fn drop_after(&self, lsn: Lsn) {
        if self.0.load().0.iter().any(|(since, _)| *since > lsn) {
            self.retain(|(since, _)| *since <= lsn);
        }
    }

    fn retain(&self, stays: impl Fn(&(Lsn, Arc<ViewRules>)) -> bool) {
        self.0.rcu(|now| {
            let mut all: Vec<_> = now.0.iter().filter(|one| stays(one)).cloned().collect();
            if all.is_empty() {
                all.extend(now.0.last().cloned());
            }
            Versions(all)
        });
    }

    /// The schema is another one for the newest that are visible, at this point of the log.
    pub(crate) fn resolve_against(&self, schema: &Arc<Schema>, visible: Lsn) {
        self.0.rcu(|now| {
            let mut all = now.0.clone();
            if let Some((_, newest)) = all.iter_mut().find(|(since, _)| *since <= visible) {
                *newest = Arc::new(newest.resolved_against(schema));
            }
            Versions(all)
        });
    }
}

/// A thread takes its view, and a moment later the rules: so many changes of them may come between.
const VERSIONS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_the_rules_of_its_time() {
        let schema = Schema::builtin();
        let set = || ViewRules {
            acis: Arc::new(AciSet::new(Arc::clone(&schema))),
            virtual_attributes: Arc::default(),
        };
        let rules = ViewRulesInForce::new(set());
        let oldest = rules.newest();
        let (ten, twenty) = (Arc::new(set()), Arc::new(set()));
        rules.put(&ten, Lsn(10));
        rules.put(&twenty, Lsn(20));
        let check = |lsn: u64, want: &Arc<ViewRules>| {
            assert!(Arc::ptr_eq(rules.load().at(Lsn(lsn)), want), "{lsn}");
        };
        for (lsn, want) in [(0, &oldest), (9, &oldest), (10, &ten), (19, &ten), (20, &twenty)] {
            check(lsn, want);
        }
        rules.take_back(&twenty);
        check(20, &ten);
        // What another has decided at the same point stays.
        rules.put(&twenty, Lsn(20));
        rules.drop_after(Lsn(19));
        check(20, &ten);
        let other = Arc::new(set());
        rules.put(&other, Lsn(20));
        rules.take_back(&twenty);
        check(20, &other);
        rules.drop_after(Lsn(20));
        check(20, &other);
        // The oldest there is, of whatever is older.
        for lsn in 21..40 {
            rules.put(&Arc::new(set()), Lsn(lsn));
        }
        assert!(!Arc::ptr_eq(rules.load().at(Lsn(0)), rules.load().at(Lsn(39))));
        assert!(Arc::ptr_eq(rules.load().at(Lsn(0)), rules.load().at(Lsn(32))));
    }
}
