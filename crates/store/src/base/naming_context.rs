//! The naming contexts of a store.
//!
//! Those that it was made with are rows of their own. Once they have been changed, a setting has
//! all of them, and the rows count no more.
//!
//! Invariant: none is the root, and none lies within another.

use std::sync::Arc;

use ldap::dn::Dn;
use schema::{DnKey, Schema};

use crate::error::StoreError;

/// The most naming contexts of one store.
pub const CONTEXT_COUNT_MAX: usize = 1000;

/// The setting that has the naming contexts, once they have been changed: each as its DN.
pub const NAMING_CONTEXTS: &str = "naming-contexts";

/// Stands in the setting for "none at all": a setting without values is not set.
pub const NO_CONTEXT: &str = "";

/// A naming context.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
}

/// The naming contexts at one point in time, in the order they came.
#[derive(Clone, Debug, Default)]
pub struct NamingContexts(Arc<[Context]>);

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

impl NamingContexts {
    /// Resolves their names.
    pub(crate) fn resolve(names: &[Dn], schema: &Schema) -> Result<Self, StoreError> {
        Ok(Self(Context::resolve_all(names, schema)?.into()))
    }

    /// Those that the setting says.
    ///
    /// # Errors
    /// What is wrong with one, or with all together.
    pub fn of_setting(values: &[String], schema: &Schema) -> Result<Self, StoreError> {
        let texts = values.iter().filter(|text| *text != NO_CONTEXT);
        let parse = |text: &String| {
            Dn::parse_stored(text).map_err(|error| StoreError::Invalid {
                what: "naming context",
                text: text.clone(),
                reason: error.to_string(),
            })
        };
        Self::resolve(&texts.map(parse).collect::<Result<Vec<_>, _>>()?, schema)
    }

    pub(crate) fn all(&self) -> &[Context] {
        &self.0
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &Dn> {
        self.0.iter().map(|context| &context.dn)
    }

    /// Their names as they are compared.
    pub fn keys(&self) -> impl Iterator<Item = &DnKey> {
        self.0.iter().map(|context| &context.key)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
