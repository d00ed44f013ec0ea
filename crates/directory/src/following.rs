//! What is kept in memory beside the store follows the records that were decided elsewhere, as it
//! follows this server's own decisions (`write/queue/pipeline.rs`, `WriteOutcome::keep`).
//!
//! Invariant: ACIs and password policies are in force before the entries that they guard are
//! visible, the schema right after.
//! Invariant: what was decided here and never comes is not in force when records that were decided
//! elsewhere become visible.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use environment::Timestamp;
use history::log::ApplyError;
use history::record::{OpKind, Record};
use history::recovery::Follower;
use schema::{Change, Schema};
use store::{Mark, Store, View};

use crate::access::view_rules::{ViewRules, ViewRulesInForce};
use crate::bind::sasl::scram::{KeySearch, KnownKeys};
use crate::config::schema_times::SchemaTimes;
use crate::config::setting_rows::{ServerSettings, is_of_settings};
use crate::directory::State;
use crate::password_policy::in_force::PoliciesInForce;
use crate::password_policy::pending::Accounts;
use crate::password_policy::set;

/// What follows.
pub(crate) struct Following {
    pub(crate) store: Arc<Store>,
    pub(crate) state: Arc<ArcSwap<State>>,
    pub(crate) view_rules: Arc<ViewRulesInForce>,
    pub(crate) password_policies: Arc<PoliciesInForce>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) scram_keys: Arc<KnownKeys>,
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) unseen: Mutex<Unseen>,
}

/// What follows when that is visible which was applied.
#[derive(Default)]
pub(crate) struct Unseen {
    /// Since when the schema is what records that are not visible yet have made it.
    schema_times: Option<SchemaTimes>,
    key_search: Searching,
    /// The server's settings have changed.
    settings: bool,
}

/// A search for accounts with keys for SCRAM.
#[derive(Default)]
enum Searching {
    /// There was none since the start.
    #[default]
    Not,
    /// There is to be one, of what is about to become visible.
    Due,
    /// It lives as long as this does.
    Begun(#[expect(dead_code, reason = "it ends with this")] KeySearch),
}

impl Follower for Following {
    fn dropped(&self, published: &Mark) {
        self.view_rules.drop_after(published.lsn);
        self.password_policies.drop_after(published.lsn);
        self.accounts.drop_after(published.lsn);
    }

    fn applied(&self, mark: &Mark, record: &Record, view: &View<'_>) -> Result<(), ApplyError> {
        let changes = &record.changes;
        if changes.iter().any(|change| matches!(change, Change::Schema(_))) {
            self.note_schema(view.schema(), Timestamp(mark.time_us));
            let resolved = self.view_rules.newest().resolved_against(view.schema());
            self.view_rules.put(&Arc::new(resolved), mark.lsn);
            self.password_policies.resolve_against(view.schema());
        }
        if let Some(after) = self.view_rules.newest().after(changes, view)? {
            self.view_rules.put(&Arc::new(after), mark.lsn);
        }
        let policies = self.password_policies.load_full();
        if let Some(after) = set::after(&policies, changes, view)? {
            self.password_policies.set(Arc::new(after));
        }
        // What binds have left is a change of the server's own account.
        if record.origin.op != OpKind::Internal {
            self.accounts.heed_another(changes, Timestamp(mark.time_us));
        }
        self.scram_keys.heed(changes);
        if changes.iter().any(is_of_settings) {
            self.unseen().settings = true;
        }
        Ok(())
    }

    fn replacing(&self, mark: &Mark, view: &View<'_>) -> Result<(), ApplyError> {
        let schema = view.schema();
        let rules = ViewRules::read(view, schema)?;
        let policies = set::read_again(view, schema, &self.password_policies.load());
        let policies = policies.map_err(|error| ApplyError::Copy(error.to_string()))?;
        self.note_schema(schema, Timestamp(mark.time_us));
        // For views of the copy; those of before keep theirs.
        self.view_rules.put(&Arc::new(rules), mark.lsn);
        self.password_policies.set(Arc::new(policies));
        let mut unseen = self.unseen();
        unseen.key_search = Searching::Due;
        unseen.settings = true;
        Ok(())
    }

    fn published(&self) {
        let mut unseen = self.unseen();
        if matches!(unseen.key_search, Searching::Due) {
            unseen.key_search = Searching::Begun(self.scram_keys.search_all(&self.store));
        }
        if let Some(times) = unseen.schema_times.take() {
            self.state.store(Arc::new(State::new(self.store.schema(), times)));
        }
        let has_settings = std::mem::take(&mut unseen.settings);
        drop(unseen);
        if has_settings {
            self.settings.begin();
        }
    }
}

impl Following {
    /// Each change is later than the one before, as where it was decided.
    fn note_schema(&self, schema: &Schema, changed: Timestamp) {
        let mut unseen = self.unseen();
        let after = match &unseen.schema_times {
            Some(times) => times.after(schema, changed),
            None => self.state.load().schema_times.after(schema, changed),
        };
        unseen.schema_times = Some(after);
    }

    fn unseen(&self) -> MutexGuard<'_, Unseen> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
