//! Which password policies are in force: those that the last decision left.
//!
//! Invariant: what was decided and never comes is taken back, by whoever learns of it first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use schema::Schema;
use store::Lsn;

use super::set::PasswordPolicies;

/// The password policies of the directory.
pub(crate) struct PoliciesInForce {
    now: ArcSwap<PasswordPolicies>,
    /// Those before the last that were put, as long as these may not come.
    before: Mutex<Option<Before>>,
}

struct Before {
    /// Where the log has the change.
    since: Lsn,
    policies: Arc<PasswordPolicies>,
}

impl PoliciesInForce {
    pub(crate) fn new(policies: PasswordPolicies) -> Self {
        Self { now: ArcSwap::from_pointee(policies), before: Mutex::default() }
    }

    pub(crate) fn load(&self) -> Guard<Arc<PasswordPolicies>> {
        self.now.load()
    }

    pub(crate) fn load_full(&self) -> Arc<PasswordPolicies> {
        self.now.load_full()
    }

    /// From this point of the log on, these are in force. Only who makes a batch says so, and
    /// waits for the outcome before the next.
    pub(crate) fn put(&self, policies: Arc<PasswordPolicies>, since: Lsn) {
        let mut before = self.before();
        *before = Some(Before { since, policies: self.now.swap(policies) });
    }

    /// What was put at this point of the log never comes.
    pub(crate) fn take_back(&self, since: Lsn) {
        self.restore(|before| before.since == since);
    }

    /// What was decided after this point of the log never comes.
    pub(crate) fn drop_after(&self, lsn: Lsn) {
        self.restore(|before| before.since > lsn);
    }

    fn restore(&self, is_meant: impl FnOnce(&mut Before) -> bool) {
        let mut before = self.before();
        if let Some(before) = before.take_if(is_meant) {
            self.now.store(before.policies);
        }
    }

    /// These are in force, and come for sure.
    pub(crate) fn set(&self, policies: Arc<PasswordPolicies>) {
        let mut before = self.before();
        *before = None;
        self.now.store(policies);
    }

    /// The schema is another one.
    pub(crate) fn resolve_against(&self, schema: &Arc<Schema>) {
        let _before = self.before();
        let resolved = self.now.load().resolved_against(Arc::clone(schema));
        self.now.store(Arc::new(resolved));
    }

    fn before(&self) -> MutexGuard<'_, Option<Before>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_never_comes_is_taken_back_once() {
        let schema = Schema::builtin();
        let policies = || PasswordPolicies::new(Arc::clone(&schema), "".into(), BTreeMap::new());
        let in_force = PoliciesInForce::new(policies());
        let (first, lost, other) =
            (in_force.load_full(), Arc::new(policies()), Arc::new(policies()));
        in_force.put(Arc::clone(&lost), Lsn(5));
        assert!(Arc::ptr_eq(&in_force.load(), &lost));
        // It came after all.
        in_force.drop_after(Lsn(5));
        assert!(Arc::ptr_eq(&in_force.load(), &lost));
        in_force.take_back(Lsn(5));
        assert!(Arc::ptr_eq(&in_force.load(), &first));
        in_force.put(lost, Lsn(5));
        in_force.drop_after(Lsn(4));
        assert!(Arc::ptr_eq(&in_force.load(), &first));
        // Another was decided elsewhere at the same point.
        in_force.set(Arc::clone(&other));
        in_force.take_back(Lsn(5));
        assert!(Arc::ptr_eq(&in_force.load(), &other));
    }
}
