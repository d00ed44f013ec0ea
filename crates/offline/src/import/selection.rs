//! Which entries are imported at all: by subtree and by filter.

use ldap::dn::Dn;
use ldap::filter::Filter;
use schema::{DnKey, Entry, ResolvedFilter, Schema, Truth};

use super::{ImportError, ImportOptions};

/// What was asked for, resolved.
#[derive(Debug)]
pub(super) struct Selection {
    include: Vec<DnKey>,
    exclude: Vec<DnKey>,
    include_filter: Option<ResolvedFilter>,
    exclude_filter: Option<ResolvedFilter>,
}

impl Selection {
    pub(super) fn resolve(options: &ImportOptions, schema: &Schema) -> Result<Self, ImportError> {
        let keys = |names: &[Dn]| -> Result<Vec<DnKey>, ImportError> {
            let key = |dn: &Dn| {
                DnKey::from_dn(schema, dn)
                    .map_err(|error| ImportError::Asked(format!("'{dn}': {error}")))
            };
            names.iter().map(key).collect()
        };
        let filter = |text: &Option<String>| -> Result<Option<ResolvedFilter>, ImportError> {
            let Some(text) = text else { return Ok(None) };
            let filter = Filter::parse(text).map_err(|error| {
                ImportError::Asked(format!("'{text}' is not a search filter: {error}"))
            })?;
            Ok(Some(ResolvedFilter::resolve(&filter, schema)))
        };
        Ok(Self {
            include: keys(&options.include)?,
            exclude: keys(&options.exclude)?,
            include_filter: filter(&options.include_filter)?,
            exclude_filter: filter(&options.exclude_filter)?,
        })
    }

    /// Why an entry of this name is left out, if it is. A name that is none is not.
    pub(super) fn skips_name(&self, schema: &Schema, dn: &str) -> Option<&'static str> {
        if self.include.is_empty() && self.exclude.is_empty() {
            return None;
        }
        let key = DnKey::from_text(schema, dn).ok()?;
        let is_in = |branches: &[DnKey]| branches.iter().any(|branch| key.is_within(branch));
        if is_in(&self.exclude) {
            Some("it is in an excluded branch")
        } else if !self.include.is_empty() && !is_in(&self.include) {
            Some("it is in no included branch")
        } else {
            None
        }
    }

    /// Why an entry is left out, if it is.
    pub(super) fn skips_entry(&self, schema: &Schema, entry: &Entry) -> Option<&'static str> {
        let matches = |filter: &ResolvedFilter| filter.matches(schema, entry) == Truth::True;
        if self.exclude_filter.as_ref().is_some_and(matches) {
            Some("it matches the exclude filter")
        } else if self.include_filter.as_ref().is_some_and(|filter| !matches(filter)) {
            Some("it does not match the include filter")
        } else {
            None
        }
    }
}
