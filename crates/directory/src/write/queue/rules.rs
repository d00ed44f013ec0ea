//! The rules that a batch changes: the schema, ACIs and password policies, from when it is handed
//! to the log until it is known what becomes of it.
//!
//! Invariant: rules are in force where the batch that changes them is visible, and those of a batch
//! that is lost are not.

use std::sync::Arc;

use arc_swap::ArcSwap;
use environment::Timestamp;
use store::{Lsn, Store};

use crate::access::view_rules::{ViewRules, ViewRulesInForce};
use crate::config::setting_rows::ServerSettings;
use crate::directory::{Directory, State};
use crate::password_policy::in_force::PoliciesInForce;

/// What a change of the schema replaces.
pub(super) struct InForce {
    state: Arc<ArcSwap<State>>,
    view_rules: Arc<ViewRulesInForce>,
    password_policies: Arc<PoliciesInForce>,
    store: Arc<Store>,
}

impl InForce {
    pub(super) fn of(directory: &Directory) -> Self {
        Self {
            state: Arc::clone(&directory.state),
            view_rules: Arc::clone(&directory.rules.of_views),
            password_policies: Arc::clone(&directory.rules.password_policies),
            store: Arc::clone(&directory.storage.store),
        }
    }

    /// The schema that is visible is in force.
    pub(super) fn begin(self) {
        let Self { state, view_rules, password_policies, store } = self;
        let (schema, published) = (store.schema(), store.published());
        password_policies.resolve_against(&schema);
        view_rules.resolve_against(&schema, published.lsn);
        State::replace(&state, schema, Timestamp(published.time_us));
    }
}

/// What begins to hold when a batch is visible, and before its requests are answered.
pub(super) struct Begins {
    schema: Option<InForce>,
    settings: Option<Arc<ServerSettings>>,
}

impl Begins {
    pub(super) fn of(directory: &Directory, schema: bool, settings: bool) -> Self {
        Self {
            schema: schema.then(|| InForce::of(directory)),
            settings: settings.then(|| Arc::clone(&directory.settings)),
        }
    }

    pub(super) fn begin(self) {
        if let Some(schema) = self.schema {
            schema.begin();
        }
        if let Some(settings) = self.settings {
            settings.begin();
        }
    }
}

/// The rules that a batch is to change.
pub(super) struct RulesOfBatch {
    /// The last record of the batch.
    pub(super) last: Lsn,
    pub(super) changes_schema: bool,
    pub(super) view_rules: Option<Arc<ViewRules>>,
    pub(super) changes_policies: bool,
}

impl RulesOfBatch {
    /// The batch was lost, and is dropped: unless it had become visible by then, the rules are what
    /// they were before. Whoever follows what others decide is told of theirs.
    pub(super) fn forget(&self, directory: &Directory) {
        let Self { last, changes_schema, view_rules, changes_policies } = self;
        let store = &directory.storage.store;
        if store.published().lsn >= *last {
            let known = directory.state.load().schema.generation();
            if *changes_schema && store.schema().generation() != known {
                InForce::of(directory).begin();
            }
            return;
        }
        if let Some(rules) = view_rules {
            directory.rules.of_views.take_back(rules);
        }
        if *changes_policies {
            directory.rules.password_policies.take_back(*last);
        }
    }
}
