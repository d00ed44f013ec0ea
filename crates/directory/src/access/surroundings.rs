//! What access rules ask of the directory itself: groups, other entries, the time.
//!
//! Invariant: no access control here: a rule that an administrator wrote decides by all there is,
//! but for secrets (see `groups`).
//! Invariant: where groups were left out the answer is Undefined, which gives no access and lifts
//! no deny.

use std::collections::BTreeSet;
use std::sync::Arc;

use aci::{Surroundings, TimeOfWeek};
use environment::Clock;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Schema, Truth};
use store::{StoreError, StoredEntry, View};

use crate::groups::described::Described;
use crate::groups::kind::is_group;
use crate::groups::lookup::{GROUP_DEPTH_MAX, GROUPS_MAX, Group, Groups, Naming};
use crate::groups::roles::RoleKind;

/// The directory at one point in time, as rules ask about it.
pub(crate) struct ViewSurroundings<'a> {
    groups: Groups<'a>,
    schema: &'a Schema,
    clock: &'a dyn Clock,
    host_name: Option<&'a str>,
}

/// What is still to be looked at of the groups that describe their members.
struct Dynamic<'p> {
    person: Option<&'p StoredEntry<'p>>,
    who: &'p DnKey,
    /// Those of which nobody can say whether they mean the person.
    doubtful: Vec<DnKey>,
}

impl<'a> ViewSurroundings<'a> {
    /// Rules ask for a client on the host of this name, where it is known.
    pub(crate) fn new(
        view: &'a View<'a>,
        schema: &'a Schema,
        clock: &'a dyn Clock,
        host_name: Option<&'a str>,
    ) -> Self {
        Self { groups: Groups::new(view, schema), schema, clock, host_name }
    }

    /// Whether `who` is in the group, in a group that is in it, and so on: from `who` upwards,
    /// since an index knows which groups a name is in.
    fn membership(&self, group: &DnKey, who: &DnKey) -> Result<Truth, StoreError> {
        let Some(target) = self.groups.entry(group)? else { return Ok(Truth::Undefined) };
        if let Some(kind) = RoleKind::of(&target, self.schema) {
            return self.groups.has_role(&target, kind, group, who);
        }
        // An entry of another kind has no members, whatever it holds.
        if !is_group(&target, self.schema) {
            return Ok(Truth::Undefined);
        }
        self.groups.begin();
        let person = self.groups.entry(who)?;
        let described = Described::of(&target, self.schema);
        let of_target = person
            .as_ref()
            .map_or(Truth::False, |person| described.means(person, who, self.schema));
        if of_target == Truth::True {
            return Ok(Truth::True);
        }
        let mut dynamic = Dynamic { person: person.as_ref(), who, doubtful: Vec::new() };
        let found = self.leads_up(&target, vec![who.clone()], Some(&mut dynamic))?;
        if found != Truth::False || of_target == Truth::Undefined {
            return Ok(found.or(of_target));
        }
        if dynamic.doubtful.contains(group) {
            return Ok(Truth::Undefined);
        }
        if dynamic.doubtful.is_empty() {
            return Ok(Truth::False);
        }
        // Nobody can say that `who` is in none of these.
        let found = self.leads_up(&target, dynamic.doubtful, None)?;
        Ok(if found == Truth::False { Truth::False } else { Truth::Undefined })
    }

    /// Whether one of some names is in a group, in a group that is in it, and so on. With
    /// `dynamic`, groups that describe their members are among the first.
    fn leads_up(
        &self,
        target: &StoredEntry<'_>,
        from: Vec<DnKey>,
        mut dynamic: Option<&mut Dynamic<'_>>,
    ) -> Result<Truth, StoreError> {
        let mut known: BTreeSet<EntryId> = BTreeSet::new();
        // Groups were left out: then nobody can say that there is no way to the target.
        let (mut level, mut is_cut) = (from, false);
        for _ in 0..GROUP_DEPTH_MAX {
            let (mut next, mut found) = (Vec::new(), Vec::new());
            for member in &level {
                is_cut |= self.groups_of(member, target, &mut found)?;
            }
            match dynamic.take() {
                Some(dynamic) => is_cut |= self.dynamic_groups(dynamic, &mut found)?,
                // All of the level are groups now.
                None => is_cut |= self.groups.showing_any(&level, &mut found)?,
            }
            for group in found {
                if group.id == target.id() {
                    return Ok(Truth::True);
                }
                if known.contains(&group.id) {
                    continue;
                }
                if known.len() >= GROUPS_MAX {
                    is_cut = true;
                    continue;
                }
                known.insert(group.id);
                next.push(group.key.clone());
            }
            if next.is_empty() {
                return Ok(if is_cut { Truth::Undefined } else { Truth::False });
            }
            level = next;
        }
        Ok(Truth::Undefined)
    }

    /// The groups that name `member`; whether some were left out. Without an index on members only
    /// `target` is looked at.
    fn groups_of(
        &self,
        member: &DnKey,
        target: &StoredEntry<'_>,
        found: &mut Vec<Arc<Group>>,
    ) -> Result<bool, StoreError> {
        match self.groups.naming(member, None, found)? {
            Naming::Found { is_cut } => Ok(is_cut),
            Naming::Unindexed => {
                let filter = ResolvedFilter::Or(self.groups.names_it(member).collect());
                if filter.matches(self.schema, target) == Truth::True {
                    found.push(self.groups.named(target));
                }
                Ok(true)
            }
        }
    }

    /// The groups that name this one by a user name, and those that describe their members instead
    /// of naming them and mean this one; apart those of which that cannot be said. Whether some
    /// were left out.
    fn dynamic_groups(
        &self,
        dynamic: &mut Dynamic<'_>,
        found: &mut Vec<Arc<Group>>,
    ) -> Result<bool, StoreError> {
        let Some(person) = dynamic.person else { return Ok(false) };
        let mut doubtful = Vec::new();
        let is_cut = self.groups.naming_user(person, dynamic.who, found, &mut doubtful)?;
        dynamic.doubtful.extend(doubtful.into_iter().map(|group| group.key.clone()));
        let describing = self.groups.describing()?;
        for (group, described) in &describing.groups {
            match described.means(person, dynamic.who, self.schema) {
                Truth::True => found.push(Arc::clone(group)),
                Truth::Undefined => dynamic.doubtful.push(group.key.clone()),
                Truth::False => {}
            }
        }
        Ok(describing.is_cut || is_cut)
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
        match self.groups.entry(name) {
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
