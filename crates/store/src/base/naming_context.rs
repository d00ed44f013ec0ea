//! The naming contexts of a store.
//!
//! Invariant: none is the root, and none lies within another.

use ldap::dn::Dn;
use schema::{DnKey, Schema};

use crate::error::StoreError;

/// The most naming contexts of one store.
pub const CONTEXT_COUNT_MAX: usize = 1000;

/// A naming context.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
}

impl Context {
    /// Resolves the names of all naming contexts of a store.
    pub(crate) fn resolve_all(contexts: &[Dn], schema: &Schema) -> Result<Vec<Self>, StoreError> {
        if contexts.len() > CONTEXT_COUNT_MAX {
            return Err(StoreError::TooMany { what: "naming contexts", limit: CONTEXT_COUNT_MAX });
        }
        let mut resolved: Vec<Self> = Vec::with_capacity(contexts.len());
        for dn in contexts {
            let invalid = |reason| StoreError::Invalid {
                what: "naming context",
                text: dn.to_string(),
                reason,
            };
            let key = DnKey::from_dn(schema, dn).map_err(|error| invalid(error.to_string()))?;
            if key.is_root() {
                return Err(invalid("it needs a name".to_owned()));
            }
            for other in &resolved {
                let overlap = |inner: &Dn, outer: &Dn| StoreError::ContextsOverlap {
                    inner: inner.to_string(),
                    outer: outer.to_string(),
                };
                if key.is_within(&other.key) {
                    return Err(overlap(dn, &other.dn));
                }
                if other.key.is_within(&key) {
                    return Err(overlap(&other.dn, dn));
                }
            }
            resolved.push(Self { dn: dn.clone(), key });
        }
        Ok(resolved)
    }
}
