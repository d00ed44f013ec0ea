//! Password policies that entries name, and that are not there: such a name is ignored, so that the
//! account has another policy than where it comes from, or none.
//!
//! Invariant: bounded, however many entries there are.

use std::collections::{BTreeMap, BTreeSet};

use ldap::dn::Dn;
use schema::{DnKey, Entry, EntryRead as _, Schema};
use store::{Resolved, Store, StoreError};

/// Names of policies in the entries of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PolicyNames {
    /// Entries that are policies.
    policies: BTreeSet<String>,
    /// Policies that are named: how often, and by which entry first.
    named: BTreeMap<String, (u64, String)>,
    /// Whether a limit left something out: then nothing is told.
    is_cut: bool,
}

impl PolicyNames {
    /// Looks at an entry.
    pub(super) fn count(&mut self, entry: &Entry, schema: &Schema) {
        let classes = &schema.well_known().object_class;
        let mut is_policy = false;
        entry.visit_values(classes, &mut |_, value| {
            is_policy |= CLASSES.iter().any(|class| class.as_bytes().eq_ignore_ascii_case(value));
            !is_policy
        });
        if is_policy {
            self.policies.insert(entry.name().to_string().to_lowercase());
            self.is_cut |= self.policies.len() > POLICIES_MAX;
        }
        for pointer in POINTERS.iter().filter_map(|name| schema.describe(name).ok()) {
            entry.visit_values(&pointer, &mut |_, value| {
                let dn = std::str::from_utf8(value).ok().and_then(|text| Dn::parse(text).ok());
                if let Some(dn) = dn {
                    self.name(dn.to_string().to_lowercase(), 1, || entry.name().to_string());
                }
                true
            });
        }
        if self.is_cut {
            self.policies.clear();
            self.named.clear();
        }
    }

    fn name(&mut self, policy: String, times: u64, example: impl FnOnce() -> String) {
        if self.named.len() >= NAMED_MAX && !self.named.contains_key(&policy) {
            self.is_cut = true;
            return;
        }
        self.named.entry(policy).or_insert_with(|| (0, example())).0 += times;
    }

    /// Adds what another worker has seen.
    pub(super) fn merge(&mut self, other: Self) {
        self.is_cut |= other.is_cut;
        self.policies.extend(other.policies);
        for (policy, (times, example)) in other.named {
            self.name(policy, times, || example);
        }
    }

    /// Forgets those that are there: in the import, or, where `store` is given, before it.
    pub(super) fn settle(&mut self, store: Option<&Store>) -> Result<(), StoreError> {
        if self.is_cut {
            self.named.clear();
        }
        let policies = &self.policies;
        self.named.retain(|name, _| !policies.contains(name));
        let (Some(store), false) = (store, self.named.is_empty()) else { return Ok(()) };
        let schema = store.schema();
        let batch = store.begin()?;
        let view = batch.view();
        let mut found = Vec::new();
        for name in self.named.keys() {
            let Ok(key) = DnKey::from_text(&schema, name) else { continue };
            if matches!(view.resolve(&key)?, Resolved::Found(_)) {
                found.push(name.clone());
            }
        }
        self.named.retain(|name, _| !found.contains(name));
        Ok(())
    }

    /// What is told of those that are left, in a sentence.
    pub(super) fn warning(&self) -> Option<String> {
        let (policy, (_, example)) = self.named.first_key_value()?;
        let times: u64 = self.named.values().map(|(times, _)| times).sum();
        let entries = if times == 1 { "1 entry names" } else { &format!("{times} entries name") };
        let (policy, example) = (shortened(policy), shortened(example));
        Some(format!(
            "{entries} a password policy that is not there, '{example}' for one the policy \
             '{policy}': the name is ignored, and another policy governs the account, or none"
        ))
    }
}

/// A name for a sentence: one line, not too long.
fn shortened(dn: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let end = dn.floor_char_boundary(NAME_MAX_BYTES);
    let mut text: String = dn.get(..end).unwrap_or_default().chars().map(plain).collect();
    if end < dn.len() {
        text.push('…');
    }
    text
}

/// What names the policy of an account.
const POINTERS: [&str; 2] = ["pwdPolicySubentry", "ds-pwp-password-policy-dn"];
/// Classes of policies.
const CLASSES: [&str; 5] = [
    "pwdPolicy",
    "passwordPolicy",
    "sunPwdPolicy",
    "ds-pwp-password-policy",
    "ds-cfg-password-policy",
];
/// The most policies that are remembered.
const POLICIES_MAX: usize = 10_000;
/// The most names of policies that are remembered.
const NAMED_MAX: usize = 1000;
/// The longest name in a sentence, in bytes.
const NAME_MAX_BYTES: usize = 200;
