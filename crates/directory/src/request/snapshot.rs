//! What a thread reads the store with: the directory as of the last commit.
//!
//! Invariant: what was found out about a version of the directory is looked up once, and holds for
//! that version alone.

use ldap::message::{DerefAliases, Scope};
use schema::{Assertion, EntryId, ResolvedFilter, Schema, WellKnown};
use store::{Ask, DetachedView, Lsn, StoreError, StoreReader, View};

use crate::directory::State;
use crate::groups::known::KnownGroups;
use crate::request::refusal::Refusal;

/// What a thread reads the store with, and what it found out about the version it reads.
pub(crate) struct Snapshot {
    reader: StoreReader,
    /// Whether there was any referral object at this point of the log.
    referrals: Option<(Lsn, bool)>,
    /// Whether there was any subentry at this one.
    subentries: Option<(Lsn, bool)>,
    /// Whether there was any alias at this one; looked for when aliases are to be followed.
    aliases: Option<(Lsn, bool)>,
    /// The groups that were asked about in this one.
    groups: KnownGroups,
}

/// The directory as of the last commit, and what a search has to look out for in it.
pub(crate) struct SearchView<'r> {
    pub(crate) view: &'r View<'r>,
    /// There are referral objects, and the client does not manage them.
    pub(crate) referrals: bool,
    /// There are subentries.
    pub(crate) subentries: bool,
    /// There are aliases, and they are to be followed.
    pub(crate) aliases: bool,
    /// What the thread knows of groups.
    pub(crate) groups: &'r KnownGroups,
}

impl Snapshot {
    /// A reader that has found out nothing yet.
    pub(super) fn new(reader: StoreReader) -> Self {
        let (referrals, subentries, aliases) = (None, None, None);
        Self { reader, referrals, subentries, aliases, groups: KnownGroups::default() }
    }

    /// The old pages may be reused.
    pub(crate) fn release(&mut self) {
        self.reader.release();
    }

    /// Gives away the view that was read last, if it was not given up.
    pub(crate) fn detach(&mut self) -> Option<DetachedView> {
        self.reader.detach()
    }

    /// The directory as of the last commit.
    pub(crate) fn view(&mut self) -> Result<&View<'_>, StoreError> {
        self.reader.view()
    }

    /// The directory as of the last commit, and what is known of its groups.
    pub(crate) fn view_with_groups(&mut self) -> Result<(&View<'_>, &KnownGroups), StoreError> {
        let view = self.reader.view()?;
        Ok((view, &self.groups))
    }

    /// The directory as of the last commit, and whether referral objects are to be looked out for:
    /// there are some, and the client does not manage them.
    pub(crate) fn view_for(
        &mut self,
        known: &WellKnown,
        manage_dsa_it: bool,
    ) -> Result<(&View<'_>, bool), Refusal> {
        Self::look(&mut self.reader, &mut self.referrals, known, manage_dsa_it)
    }

    fn look<'r>(
        reader: &'r mut StoreReader,
        known_before: &mut Option<(Lsn, bool)>,
        known: &WellKnown,
        manage_dsa_it: bool,
    ) -> Result<(&'r View<'r>, bool), Refusal> {
        let view = reader.view()?;
        let referrals = match *known_before {
            Some((lsn, any)) if lsn == view.lsn() => any,
            Some(_) | None => view.has_any(&known.ref_)?,
        };
        *known_before = Some((view.lsn(), referrals));
        Ok((view, referrals && !manage_dsa_it))
    }

    /// The directory as of the last commit, and what a search has to look out for in it. Schemas
    /// never change without the log going on, so the answers hold as long as its position does.
    pub(crate) fn view_for_search(
        &mut self,
        state: &State,
        manage_dsa_it: bool,
        deref: DerefAliases,
    ) -> Result<SearchView<'_>, Refusal> {
        let known = state.schema.well_known();
        let Self { reader, referrals, subentries, aliases, groups } = self;
        let (view, referrals) = Self::look(reader, referrals, known, manage_dsa_it)?;
        let lsn = view.lsn();
        let there = match *subentries {
            Some((at, any)) if at == lsn => any,
            Some(_) | None => state.subentries.any(view)?,
        };
        *subentries = Some((lsn, there));
        let subentries = there;
        if deref == DerefAliases::Never {
            return Ok(SearchView { view, referrals, subentries, aliases: false, groups });
        }
        let there = match *aliases {
            Some((at, any)) if at == lsn => any,
            Some(_) | None => any_alias(view)?,
        };
        *aliases = Some((lsn, there));
        Ok(SearchView { view, referrals, subentries, aliases: there, groups })
    }
}

/// Whether the directory holds any alias: one index look-up.
pub(crate) fn any_alias(view: &View<'_>) -> Result<bool, Refusal> {
    let plan = view.plan(&Ask::new(&alias_filter(view.schema()), EntryId::ROOT, Scope::Subtree))?;
    Ok(plan.estimate > 0)
}

/// The filter that finds all aliases.
pub(crate) fn alias_filter(schema: &Schema) -> ResolvedFilter {
    let class = schema.well_known().object_class.clone();
    Assertion::equality(schema, class, b"alias")
        .map_or(ResolvedFilter::Undefined, ResolvedFilter::Equality)
}
