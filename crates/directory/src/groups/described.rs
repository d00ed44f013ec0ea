//! Groups that describe their members: by LDAP URLs in `memberURL` (of `groupOfURLs`).

use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::url::LdapUrl;
use schema::{DnKey, EntryRead, ResolvedFilter, Schema, Truth, WithoutSecrets};

/// What a group says of its members.
pub(crate) struct Described(Vec<Option<Place>>);

/// What one URL means.
pub(crate) struct Place {
    pub(crate) base: DnKey,
    pub(crate) scope: Scope,
    /// None: all there.
    pub(crate) filter: Option<ResolvedFilter>,
}

impl Described {
    /// What the URLs of a group say; those that are not understood mean nobody knows whom.
    pub(crate) fn of(group: &dyn EntryRead, schema: &Schema) -> Self {
        let mut places = Vec::new();
        group.visit_values(&schema.well_known().member_url, &mut |_, value| {
            places.push(Place::parse(value, schema));
            true
        });
        Self(places)
    }

    /// The places of those that are understood.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().flatten()
    }

    /// Whether an entry of this name is meant; Undefined where that is not understood.
    pub(crate) fn means(&self, entry: &dyn EntryRead, key: &DnKey, schema: &Schema) -> Truth {
        let mut found = Truth::False;
        for place in &self.0 {
            let means =
                place.as_ref().map_or(Truth::Undefined, |place| place.means(entry, key, schema));
            found = found.or(means);
            if found == Truth::True {
                break;
            }
        }
        found
    }
}

impl Place {
    fn parse(value: &[u8], schema: &Schema) -> Option<Self> {
        let url = LdapUrl::parse(std::str::from_utf8(value).ok()?).ok()?;
        let base = DnKey::from_dn(schema, &url.dn).ok()?;
        let filter = match &url.filter {
            None => None,
            Some(text) => Some(ResolvedFilter::resolve(&Filter::parse(text).ok()?, schema)),
        };
        Some(Self { base, scope: url.scope.unwrap_or(Scope::Base), filter })
    }

    fn means(&self, entry: &dyn EntryRead, key: &DnKey, schema: &Schema) -> Truth {
        let (depth, top) = (key.depth(), self.base.depth());
        let in_scope = key.is_within(&self.base)
            && match self.scope {
                Scope::Base => depth == top,
                Scope::One => depth == top + 1,
                Scope::Subtree => true,
                Scope::Subordinate => depth > top,
            };
        match &self.filter {
            _ if !in_scope => Truth::False,
            None => Truth::True,
            Some(filter) => filter.matches(schema, &WithoutSecrets(entry)),
        }
    }
}
