//! Members by user name (RFC 2307 §5.3): an account is in the groups whose `memberUid` is its
//! `uid`.
//!
//! Invariant: only accounts at or below the bases of the setting are members so, and a user name
//! stands for one of them or for none: whoever may write the `uid` of an entry could else put it
//! into the groups of somebody else. Access rules may take neither for no member: somebody would
//! get rid of a deny so.
//! Invariant: this is no way into a group for another group: an account is none.

use std::sync::Arc;

use ldap::message::Scope;
use schema::{
    Assertion, AttributeDescription, DnKey, EntryId, EntryRead, ObjectClass, ResolvedFilter, Schema,
};
use store::{Ask, StoreError};

use super::kind::is_group;
use super::lookup::{GROUPS_MAX, Group, Groups};

/// The setting that says where accounts are whose user names count; none: nowhere.
pub(crate) const MEMBER_UID_BASES: &str = "member-uid-bases";
/// Bases that it may have.
pub(crate) const BASES_MAX: usize = 16;
/// User names of one account that are looked up, at the most.
const USER_NAMES_MAX: usize = 16;

/// What user names mean, where they mean anything.
pub(super) struct UserNames {
    bases: Vec<DnKey>,
    account: Arc<ObjectClass>,
    pub(super) member_uid: Arc<AttributeDescription>,
}

/// What a user name stands for.
enum StandsFor {
    One,
    Many,
    /// Those that have it are too many to be looked at, or no index tells them.
    Unknown,
}

impl UserNames {
    /// What they mean by these bases; nothing without any, and where the schema lacks the class.
    fn new(bases: &[String], schema: &Schema) -> Option<Self> {
        let bases = bases.iter().filter_map(|base| DnKey::from_text(schema, base).ok());
        let bases: Vec<DnKey> = bases.collect();
        if bases.is_empty() {
            return None;
        }
        let account = Arc::clone(schema.object_class("posixAccount")?);
        let member_uid = schema.describe("memberUid").ok()?;
        Some(Self { bases, account, member_uid })
    }

    /// Whether an entry is an account whose user names count.
    fn count_of(&self, entry: &dyn EntryRead, key: &DnKey, schema: &Schema) -> bool {
        let mut is_account = false;
        entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
            let class = std::str::from_utf8(value).ok().and_then(|name| schema.object_class(name));
            is_account = class.is_some_and(|class| class.is_subclass_of(&self.account));
            !is_account
        });
        is_account && self.bases.iter().any(|base| key.is_within(base)) && !is_group(entry, schema)
    }
}

impl Groups<'_> {
    /// What user names mean; none where they mean nothing.
    pub(super) fn user_names(&self) -> Option<&UserNames> {
        let find = || UserNames::new(self.view.setting_at_hand(MEMBER_UID_BASES)?, self.schema);
        self.asked().user_names.get_or_init(|| find().map(Box::new)).as_deref()
    }

    /// The groups that name an account by its user name, and those that name it by one that other
    /// accounts have as well; whether some were left out.
    pub(crate) fn naming_user(
        &self,
        entry: &dyn EntryRead,
        key: &DnKey,
        found: &mut Vec<Arc<Group>>,
        doubtful: &mut Vec<Arc<Group>>,
    ) -> Result<bool, StoreError> {
        let Some(names) = self.user_names() else { return Ok(false) };
        if !names.count_of(entry, key, self.schema) {
            return Ok(false);
        }
        let mut uids: Vec<Vec<u8>> = Vec::new();
        entry.visit_values(&self.schema.well_known().uid, &mut |_, value| {
            uids.push(value.to_vec());
            uids.len() <= USER_NAMES_MAX
        });
        let mut is_cut = uids.len() > USER_NAMES_MAX;
        for uid in uids.iter().take(USER_NAMES_MAX) {
            let names_it = Assertion::equality(self.schema, Arc::clone(&names.member_uid), uid);
            // What cannot be a value of that attribute names nobody.
            let Ok(names_it) = names_it else { continue };
            let mut by_name = Vec::new();
            is_cut |= self.naming_by(ResolvedFilter::Equality(names_it.clone()), &mut by_name)?;
            if by_name.is_empty() {
                continue;
            }
            match self.stands_for(names, &names_it, uid, key)? {
                StandsFor::One => found.append(&mut by_name),
                StandsFor::Many => doubtful.append(&mut by_name),
                StandsFor::Unknown => {
                    doubtful.append(&mut by_name);
                    is_cut = true;
                }
            }
        }
        Ok(is_cut)
    }

    /// The groups that match; whether some were left out.
    fn naming_by(
        &self,
        filter: ResolvedFilter,
        found: &mut Vec<Arc<Group>>,
    ) -> Result<bool, StoreError> {
        let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            return Ok(true);
        }
        for (number, id) in plan.candidates(self.view, EntryId::ROOT).enumerate() {
            if number >= GROUPS_MAX || !self.takes_one() {
                return Ok(true);
            }
            let id = id?;
            let is_one = plan.exact || self.is_true_of(&filter, id)?;
            if is_one && let Some(group) = self.known(id)? {
                found.push(group);
            }
        }
        Ok(false)
    }

    /// Whether a user name, as groups compare it, is that of another account, too.
    fn stands_for(
        &self,
        names: &UserNames,
        names_it: &Assertion,
        uid: &[u8],
        own: &DnKey,
    ) -> Result<StandsFor, StoreError> {
        let description = &self.schema.well_known().uid;
        let Ok(has_it) = Assertion::equality(self.schema, Arc::clone(description), uid) else {
            return Ok(StandsFor::Unknown);
        };
        let has_it = ResolvedFilter::Equality(has_it);
        let plan = self.view.plan(&Ask::new(&has_it, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            return Ok(StandsFor::Unknown);
        }
        for id in plan.candidates(self.view, EntryId::ROOT) {
            if !self.takes_one() {
                return Ok(StandsFor::Unknown);
            }
            let Some(other) = self.view.entry(id?)? else { continue };
            let key = self.key(&other);
            if key == *own || !names.count_of(&other, &key, self.schema) {
                continue;
            }
            let mut is_same = false;
            other.visit_values(description, &mut |_, value| {
                let (rule, mut prepared) = (names_it.rule, Vec::new());
                is_same = (rule.prepare)(self.schema, value, &mut prepared).is_ok()
                    && rule.keys_match(&prepared, &names_it.key);
                !is_same
            });
            if is_same {
                return Ok(StandsFor::Many);
            }
        }
        Ok(StandsFor::One)
    }
}
