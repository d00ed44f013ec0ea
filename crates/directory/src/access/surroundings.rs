//! What access rules ask of the directory itself: groups, other entries, the time.
//!
//! Invariant: no access control here: a rule that an administrator wrote decides by all there is.
//! But filters of groups and roles see nothing secret: who may write one could else read secrets,
//! by what the group may.
//! Invariant: every walk has an end: groups in circles are gone through once, and at most
//! [`GROUPS_MAX`] of them, at most [`GROUP_DEPTH_MAX`] deep. Where some were left out
//! the answer is Undefined, which gives no access and lifts no deny.

use std::collections::BTreeSet;

use aci::{Surroundings, TimeOfWeek};
use environment::Clock;
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::url::LdapUrl;
use schema::{
    Assertion, AttributeDescription, DnKey, EntryId, EntryRead, MatchingRule, ResolvedFilter,
    Schema, Truth, WithoutSecrets,
};
use store::{Ask, Resolved, StoreError, StoredEntry, View};

use crate::access::groups::is_group;

/// Groups that one question goes through, at the most.
pub(crate) const GROUPS_MAX: usize = 1_000;
/// How deep groups are looked for in groups.
pub(crate) const GROUP_DEPTH_MAX: usize = 16;
/// How deep roles are looked for in roles, and how many parts of one are looked at.
const ROLE_DEPTH_MAX: usize = 4;
const ROLE_PARTS_MAX: usize = 16;

/// The directory at one point in time, as rules ask about it.
pub(crate) struct ViewSurroundings<'a> {
    view: &'a View<'a>,
    schema: &'a Schema,
    clock: &'a dyn Clock,
    host_name: Option<&'a str>,
}

impl<'a> ViewSurroundings<'a> {
    /// Rules ask for a client on the host of this name, where it is known.
    pub(crate) fn new(
        view: &'a View<'a>,
        schema: &'a Schema,
        clock: &'a dyn Clock,
        host_name: Option<&'a str>,
    ) -> Self {
        Self { view, schema, clock, host_name }
    }

    fn entry(&self, name: &DnKey) -> Result<Option<StoredEntry<'_>>, StoreError> {
        match self.view.resolve(name)? {
            Resolved::Found(id) => self.view.entry(id),
            Resolved::Missing { .. } | Resolved::NoContext => Ok(None),
        }
    }

    /// Whether `who` is in the group, in a group that is in it, and so on: from `who` upwards,
    /// since an index knows which groups a name is in.
    fn membership(&self, group: &DnKey, who: &DnKey) -> Result<Truth, StoreError> {
        let Some(target) = self.entry(group)? else { return Ok(Truth::Undefined) };
        if let Some(kind) = RoleKind::of(&target, self.schema) {
            return self.has_role(&target, kind, group, who, 0);
        }
        // An entry of another kind has no members, whatever it holds.
        if !is_group(&target, self.schema) {
            return Ok(Truth::Undefined);
        }
        let person = self.entry(who)?;
        let is_meant: IsMeant<'_> = &|urls| {
            let described = person.as_ref().map(|person| self.is_described(urls, person, who));
            described.unwrap_or(Truth::False)
        };
        let of_target = is_meant(&target);
        if of_target == Truth::True {
            return Ok(Truth::True);
        }
        let mut doubtful = Vec::new();
        let dynamic = Some((is_meant, &mut doubtful));
        let found = self.leads_up(&target, vec![who.clone()], dynamic)?;
        if found != Truth::False || of_target == Truth::Undefined {
            return Ok(found.or(of_target));
        }
        if doubtful.is_empty() {
            return Ok(Truth::False);
        }
        // Nobody can say that `who` is in none of these.
        let found = self.leads_up(&target, doubtful, None)?;
        Ok(if found == Truth::False { Truth::False } else { Truth::Undefined })
    }

    /// Whether one of some names is in a group, in a group that is in it, and so on. With
    /// `dynamic`, which says whom a group means that describes its members, these are among the
    /// first, and those that cannot be understood are told.
    fn leads_up(
        &self,
        target: &StoredEntry<'_>,
        from: Vec<DnKey>,
        mut dynamic: Option<(IsMeant<'_>, &mut Vec<DnKey>)>,
    ) -> Result<Truth, StoreError> {
        let mut known: BTreeSet<EntryId> = BTreeSet::new();
        // Groups were left out: then nobody can say that there is no way to the target.
        let (mut level, mut is_cut) = (from, false);
        for _ in 0..GROUP_DEPTH_MAX {
            let mut next = Vec::new();
            let mut found = Groups::default();
            for member in &level {
                self.groups_of(member, target, &mut found)?;
            }
            if let Some((is_meant, doubtful)) = dynamic.take() {
                self.dynamic_groups(is_meant, doubtful, &mut found)?;
            }
            is_cut |= found.is_cut;
            for (id, name) in found.groups {
                if id == target.id() {
                    return Ok(Truth::True);
                }
                if known.contains(&id) {
                    continue;
                }
                if known.len() >= GROUPS_MAX {
                    is_cut = true;
                    continue;
                }
                known.insert(id);
                next.push(name);
            }
            if next.is_empty() {
                return Ok(if is_cut { Truth::Undefined } else { Truth::False });
            }
            level = next;
        }
        Ok(Truth::Undefined)
    }

    /// Whether `who` has a role (of Sun's and 389's servers): roles are for entries below the
    /// superior of the one that defines them.
    fn has_role(
        &self,
        definition: &StoredEntry<'_>,
        kind: RoleKind,
        role: &DnKey,
        who: &DnKey,
        depth: usize,
    ) -> Result<Truth, StoreError> {
        let known = self.schema.well_known();
        let Some(person) = self.entry(who)? else { return Ok(Truth::False) };
        if !role.parent().is_some_and(|superior| who.is_within(&superior)) {
            return Ok(Truth::False);
        }
        Ok(match kind {
            RoleKind::Managed => {
                let names = self.names(&person, &known.ns_role_dn);
                if names.contains(role) { Truth::True } else { Truth::False }
            }
            RoleKind::Filtered => {
                let mut found = Truth::Undefined;
                definition.visit_values(&known.ns_role_filter, &mut |_, value| {
                    let text = std::str::from_utf8(value).ok();
                    let filter = text.and_then(|text| Filter::parse(text).ok());
                    found = filter.map_or(Truth::Undefined, |filter| {
                        let filter = ResolvedFilter::resolve(&filter, self.schema);
                        filter.matches(self.schema, &WithoutSecrets(&person))
                    });
                    false
                });
                found
            }
            RoleKind::Nested if depth >= ROLE_DEPTH_MAX => Truth::Undefined,
            RoleKind::Nested => {
                let mut found = Truth::False;
                let names = self.names(definition, &known.ns_role_dn);
                for (number, part) in names.iter().enumerate() {
                    let entry = self.entry(part)?.filter(|_| number < ROLE_PARTS_MAX);
                    let kind = entry.as_ref().and_then(|entry| RoleKind::of(entry, self.schema));
                    found = found.or(match (&entry, kind) {
                        (Some(entry), Some(kind)) => {
                            self.has_role(entry, kind, part, who, depth + 1)?
                        }
                        _ => Truth::Undefined,
                    });
                    if found == Truth::True {
                        break;
                    }
                }
                found
            }
        })
    }

    /// The names that an attribute of an entry has.
    fn names(&self, entry: &StoredEntry<'_>, asked: &AttributeDescription) -> Vec<DnKey> {
        let mut names = Vec::new();
        entry.visit_values(asked, &mut |_, value| {
            let text = std::str::from_utf8(value).ok();
            names.extend(text.and_then(|text| DnKey::from_text(self.schema, text).ok()));
            true
        });
        names
    }

    /// The groups that name `member`. Without an index on members only `target` is looked at.
    fn groups_of(
        &self,
        member: &DnKey,
        target: &StoredEntry<'_>,
        found: &mut Groups,
    ) -> Result<(), StoreError> {
        let known = self.schema.well_known();
        let parts = [&known.member, &known.unique_member].map(|description| {
            let rule = description.kind.equality.or_else(|| MatchingRule::find(DN_MATCH));
            rule.map_or(ResolvedFilter::Undefined, |rule| {
                let (description, key) = (description.clone(), member.as_bytes().to_vec());
                ResolvedFilter::Equality(Assertion { description, rule, key })
            })
        });
        let filter = ResolvedFilter::Or(parts.into());
        let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            found.is_cut = true;
            if filter.matches(self.schema, target) == Truth::True {
                found.groups.push((target.id(), self.key(target)));
            }
            return Ok(());
        }
        for (number, group) in plan.entries(self.view, EntryId::ROOT).enumerate() {
            // What is no group counts: the work has an end.
            found.is_cut |= number >= GROUPS_MAX;
            if found.is_cut {
                break;
            }
            let group = group?;
            if (plan.exact || filter.matches(self.schema, &group) == Truth::True)
                && is_group(&group, self.schema)
            {
                found.push(group.id(), self.key(&group));
            }
        }
        Ok(())
    }

    /// The groups that describe their members instead of naming them, and mean this one; apart
    /// those of which that cannot be said.
    fn dynamic_groups(
        &self,
        is_meant: IsMeant<'_>,
        doubtful: &mut Vec<DnKey>,
        found: &mut Groups,
    ) -> Result<(), StoreError> {
        let known = self.schema.well_known();
        let class = known.object_class.clone();
        let Ok(filter) = Assertion::equality(self.schema, class, b"groupOfURLs") else {
            return Ok(());
        };
        let filter = ResolvedFilter::Equality(filter);
        let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            found.is_cut = true;
            return Ok(());
        }
        for (number, group) in plan.entries(self.view, EntryId::ROOT).enumerate() {
            found.is_cut |= number >= GROUPS_MAX;
            if found.is_cut {
                break;
            }
            let group = group?;
            let meant = is_meant(&group);
            if meant == Truth::False || !is_group(&group, self.schema) {
                continue;
            }
            match meant {
                Truth::True => found.push(group.id(), self.key(&group)),
                Truth::Undefined | Truth::False => doubtful.push(self.key(&group)),
            }
        }
        Ok(())
    }

    /// Whether a `memberURL` of a group means an entry; Undefined where one is not understood.
    fn is_described(&self, group: &StoredEntry<'_>, entry: &StoredEntry<'_>, key: &DnKey) -> Truth {
        let mut found = Truth::False;
        group.visit_values(&self.schema.well_known().member_url, &mut |_, value| {
            let url = std::str::from_utf8(value).ok().and_then(|text| LdapUrl::parse(text).ok());
            let means = url.map_or(Truth::Undefined, |url| self.url_means(&url, entry, key));
            found = found.or(means);
            found != Truth::True
        });
        found
    }

    fn url_means(&self, url: &LdapUrl, entry: &StoredEntry<'_>, key: &DnKey) -> Truth {
        let Ok(base) = DnKey::from_dn(self.schema, &url.dn) else { return Truth::Undefined };
        let (depth, top) = (key.depth(), base.depth());
        let in_scope = key.is_within(&base)
            && match url.scope.unwrap_or(Scope::Base) {
                Scope::Base => depth == top,
                Scope::One => depth == top + 1,
                Scope::Subtree => true,
                Scope::Subordinate => depth > top,
            };
        match &url.filter {
            _ if !in_scope => Truth::False,
            None => Truth::True,
            Some(text) => Filter::parse(text).map_or(Truth::Undefined, |filter| {
                let filter = ResolvedFilter::resolve(&filter, self.schema);
                filter.matches(self.schema, &WithoutSecrets(entry))
            }),
        }
    }

    fn key(&self, entry: &StoredEntry<'_>) -> DnKey {
        let name = Dn::parse_stored(entry.dn()).ok();
        name.and_then(|name| DnKey::from_dn(self.schema, &name).ok()).unwrap_or_default()
    }
}

/// Whether a group that describes its members means somebody.
type IsMeant<'f> = &'f dyn Fn(&StoredEntry<'_>) -> Truth;

/// How a role says who has it.
#[derive(Clone, Copy)]
enum RoleKind {
    /// Their entries name it.
    Managed,
    /// By a filter.
    Filtered,
    /// They have one of other roles.
    Nested,
}

impl RoleKind {
    /// What an entry defines, if it defines a role.
    fn of(entry: &dyn EntryRead, schema: &Schema) -> Option<Self> {
        let mut kind = None;
        entry.visit_values(&schema.well_known().object_class, &mut |_, class| {
            let rows = [
                (&b"nsManagedRoleDefinition"[..], Self::Managed),
                (b"nsFilteredRoleDefinition", Self::Filtered),
                (b"nsNestedRoleDefinition", Self::Nested),
            ];
            let found = rows.into_iter().find(|(name, _)| class.eq_ignore_ascii_case(name));
            kind = found.map(|(_, kind)| kind);
            kind.is_none()
        });
        kind
    }
}

/// Groups that were found, and whether some were left out.
#[derive(Default)]
struct Groups {
    groups: Vec<(EntryId, DnKey)>,
    is_cut: bool,
}

impl Groups {
    fn push(&mut self, id: EntryId, name: DnKey) {
        if self.groups.len() < GROUPS_MAX {
            self.groups.push((id, name));
        } else {
            self.is_cut = true;
        }
    }
}

impl Surroundings for ViewSurroundings<'_> {
    fn is_member(&self, group: &DnKey, who: &DnKey) -> Truth {
        self.membership(group, who).unwrap_or_else(|error| {
            tracing::error!(%error, "a group could not be read");
            Truth::Undefined
        })
    }

    fn visit_entry(&self, name: &DnKey, visit: &mut dyn FnMut(&dyn EntryRead)) -> Truth {
        match self.entry(name) {
            Ok(Some(entry)) => {
                visit(&entry);
                Truth::True
            }
            Ok(None) => Truth::False,
            Err(error) => {
                tracing::error!(%error, "an entry that a rule names could not be read");
                Truth::Undefined
            }
        }
    }

    fn time(&self) -> Option<TimeOfWeek> {
        let now = self.clock.now();
        let local = now.seconds().checked_add_signed(self.clock.offset_s(now)?.into())?;
        let minutes = local / 60;
        let days = minutes / MINUTES_PER_DAY;
        Some(TimeOfWeek {
            day: u8::try_from((days + FIRST_DAY) % 7).unwrap_or(0),
            minute: u16::try_from(minutes % MINUTES_PER_DAY).unwrap_or(0),
        })
    }

    fn host_name(&self) -> Option<String> {
        self.host_name.map(str::to_owned)
    }
}

const MINUTES_PER_DAY: u64 = 24 * 60;
/// 1970 began on a Thursday.
const FIRST_DAY: u64 = 4;
const DN_MATCH: &str = "2.5.13.1";
