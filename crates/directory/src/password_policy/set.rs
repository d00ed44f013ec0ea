//! Which policy governs an account: the one its entry points to, else that of a group or role, else
//! that of the nearest subtree, else the default of the settings.
//!
//! Invariant: the set is that of the directory as the last change left it: it is read once at
//! start, and every change that touches a policy, or the name of one, brings it up to date before
//! it is visible. Without any policy a question costs one look. Who is in a group is looked up in
//! the view that the question is about.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use auth::password::Scheme;
use environment::Timestamp;
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    AttributeDescription, Change, DnKey, Entry, EntryId, EntryRead, RdnKey, ResolvedFilter, Schema,
};
use store::{Ask, StoreError, View};

use super::attributes::{text, time};
use super::rules::{CheckQuality, PasswordPolicy};
use crate::error::DirectoryError;
use crate::groups::member_entry::MemberEntry;
use crate::read::subtree::Subtree;
use crate::request::refusal::Refusal;

/// What the settings of a node say about accounts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PasswordPolicyOptions {
    /// The policy of accounts that nothing else says one for; empty: none.
    pub default_dn: String,
    /// How long what binds leave in an account's state may wait in memory.
    pub state_delay: Duration,
    /// Accounts whose state may wait; about 200 octets of memory each.
    pub accounts_max: usize,
    /// Whether pwdLastSuccess is kept of every account, not only where a policy needs it.
    pub last_login: bool,
    /// How far pwdLastSuccess may be behind.
    pub last_login_precision: Duration,
}

impl Default for PasswordPolicyOptions {
    fn default() -> Self {
        Self {
            default_dn: String::new(),
            state_delay: Duration::from_secs(1),
            accounts_max: 100_000,
            last_login: false,
            last_login_precision: Duration::from_secs(86_400),
        }
    }
}

/// A policy in force, and its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Governing {
    /// The name of its entry.
    pub name: Dn,
    /// What it says.
    pub policy: PasswordPolicy,
}

/// All policies of a directory.
pub struct PasswordPolicies {
    schema: Arc<Schema>,
    held: BTreeMap<DnKey, Held>,
    /// In which forms they have passwords stored.
    schemes: Vec<Scheme>,
    /// Subtrees with a policy: those that are about groups or roles first, then the nearest.
    areas: Vec<(Subtree, Arc<Governing>)>,
    /// Some are about groups or roles.
    ask_for_groups: bool,
    /// The name in the settings, and the policy it stands for.
    default_dn: Arc<str>,
    default: Option<Arc<Governing>>,
    /// The attributes that name the policy of an entry.
    pointers: Vec<Arc<AttributeDescription>>,
    locks: Locks,
    /// A pointer to nothing was told of.
    has_warned: AtomicBool,
}

/// A policy entry.
#[derive(Clone, Debug)]
pub(super) struct Held {
    governing: Arc<Governing>,
    /// The subtree specification, when it is a subentry.
    specification: Option<Arc<str>>,
}

impl fmt::Debug for PasswordPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordPolicies").field("held", &self.held).finish_non_exhaustive()
    }
}

impl PasswordPolicies {
    pub(super) fn new(
        schema: Arc<Schema>,
        default_dn: Arc<str>,
        held: BTreeMap<DnKey, Held>,
    ) -> Self {
        let mut areas = Vec::new();
        for (key, Held { governing, specification }) in &held {
            let (Some(text), Some(point)) = (specification, key.parent()) else { continue };
            match Subtree::parse(text, &point, &schema) {
                Ok(subtree) => {
                    if let Some(secret) = subtree.secret() {
                        let policy = &governing.name;
                        tracing::error!(
                            %policy,
                            secret,
                            "the filter of a password policy uses a secret attribute, so the \
                             policy governs nobody; use another attribute"
                        );
                    }
                    areas.push((point.depth(), subtree, Arc::clone(governing)));
                }
                Err(error) => {
                    let policy = &governing.name;
                    tracing::error!(%policy, %error, "a password policy governs no subtree");
                }
            }
        }
        let of_groups = |subtree: &Subtree| subtree.asks_for_groups(&schema);
        let ask_for_groups = areas.iter().any(|(_, subtree, _)| of_groups(subtree));
        // Of two that are as near the one whose name comes first.
        areas.sort_by_key(|(point, subtree, _)| {
            (!of_groups(subtree), Reverse(*point), Reverse(subtree.base().depth()))
        });
        let areas = areas.into_iter().map(|(_, subtree, governing)| (subtree, governing)).collect();
        let default = DnKey::from_text(&schema, &default_dn)
            .ok()
            .and_then(|key| held.get(&key))
            .map(|held| Arc::clone(&held.governing));
        let pointers = POINTERS.iter().filter_map(|name| schema.describe(name).ok()).collect();
        let mut schemes = Vec::new();
        for scheme in held.values().filter_map(|held| held.governing.policy.scheme) {
            if !schemes.contains(&scheme) {
                schemes.push(scheme);
            }
        }
        let (locks, has_warned) = (Locks::new(&schema), AtomicBool::new(false));
        Self {
            schema,
            held,
            schemes,
            areas,
            ask_for_groups,
            default_dn,
            default,
            pointers,
            locks,
            has_warned,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether one of them has passwords stored so.
    pub(crate) fn store(&self, scheme: Scheme) -> bool {
        self.schemes.contains(&scheme)
    }

    /// Whether the entry of this name is one.
    pub(crate) fn holds(&self, key: &DnKey) -> bool {
        self.held.contains_key(key)
    }

    /// Whether there is one at or below this name.
    pub(crate) fn holds_within(&self, base: &DnKey) -> bool {
        self.within(base).next().is_some()
    }

    /// The policy that governs an account; none when nothing says one.
    ///
    /// # Errors
    /// When the groups of the account cannot be read, and a policy asks for them: it might be
    /// another one.
    pub(crate) fn of(
        &self,
        account: &MemberEntry<'_>,
    ) -> Result<Option<Arc<Governing>>, StoreError> {
        if self.held.is_empty() {
            return Ok(None);
        }
        if let Some(pointer) = self.pointer(account.stored()) {
            if let Some(held) = self.held.get(&pointer) {
                return Ok(Some(Arc::clone(&held.governing)));
            }
            if !self.has_warned.swap(true, Ordering::Relaxed) {
                let entry = account.dn();
                tracing::warn!(entry, "an account names a password policy that does not exist");
            }
        }
        let key = account.key();
        let mut areas = self.areas.iter();
        let found = areas.find(|(subtree, _)| subtree.covers(account, key, &self.schema));
        account.check()?;
        Ok(found.map(|(_, governing)| governing).or(self.default.as_ref()).map(Arc::clone))
    }

    /// A policy of which `schema` does not let the subtree be read any more.
    pub(crate) fn unreadable_under(&self, schema: &Schema) -> Option<&Dn> {
        let is_read = |key: &DnKey, text: &str, schema: &Schema| {
            Subtree::parse(text, &key.parent().unwrap_or_default(), schema).is_ok()
        };
        let mut all = self.held.iter();
        let lost = all.find(|(key, held)| {
            let text = held.specification.as_deref();
            text.is_some_and(|text| is_read(key, text, &self.schema) && !is_read(key, text, schema))
        });
        lost.map(|(_, held)| &held.governing.name)
    }

    /// Whether a rename has policies govern other subtrees than they say now.
    pub(crate) fn are_of_rename(&self, old: &DnKey, new: &DnKey) -> bool {
        self.areas.iter().any(|(subtree, _)| subtree.is_of_rename(old, new))
    }

    /// Whether an attribute of an entry, beside the name of a policy, may decide which one governs
    /// it. Groups and roles may ask for any.
    pub(crate) fn ask_for(&self, description: &AttributeDescription) -> bool {
        self.ask_for_groups || self.areas.iter().any(|(subtree, _)| subtree.asks_for(description))
    }

    /// The policy that somebody wrote into the entry as its own, whether it is there or not.
    pub fn pointer(&self, entry: &dyn EntryRead) -> Option<DnKey> {
        self.pointers.iter().find_map(|description| {
            let mut found = None;
            entry.visit_values(description, &mut |_, value| {
                let name = std::str::from_utf8(value).ok();
                found = name.and_then(|name| DnKey::from_text(&self.schema, name).ok());
                found.is_none()
            });
            found
        })
    }

    /// Whether an account is locked under any policy and without one: by somebody, or because it is
    /// not its time. A lock with a time is over when its policy says so; without one, never.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(crate) fn is_locked(
        &self,
        account: &MemberEntry<'_>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Locks { locked, start, end } = &self.locks;
        let entry = account.stored();
        let (is_locked, has_time) =
            (read_first(entry, locked, |_| true), |text: &str| time(text).is_some());
        let for_ever =
            is_locked && (!read_first(entry, locked, has_time) || self.of(account)?.is_none());
        let early = read_first(entry, start, |text| time(text).is_some_and(|start| now < start));
        let late = read_first(entry, end, |text| time(text).is_some_and(|end| now >= end));
        Ok(for_ever || early || late)
    }

    /// These policies, their names resolved against another schema.
    pub(crate) fn resolved_against(&self, schema: Arc<Schema>) -> Self {
        let held = self.held.iter().map(|(key, held)| {
            let again = DnKey::from_dn(&schema, &held.governing.name);
            (again.unwrap_or_else(|_| key.clone()), held.clone())
        });
        let held = held.collect();
        Self::new(schema, Arc::clone(&self.default_dn), held)
    }

    fn within<'s>(&'s self, base: &'s DnKey) -> impl Iterator<Item = (&'s DnKey, &'s Held)> {
        self.held.range::<DnKey, _>(base..).take_while(|(key, _)| key.is_within(base))
    }
}

/// The attributes that lock an account whatever its policy.
struct Locks {
    locked: Option<Arc<AttributeDescription>>,
    start: Option<Arc<AttributeDescription>>,
    end: Option<Arc<AttributeDescription>>,
}

impl Locks {
    fn new(schema: &Schema) -> Self {
        let find = |name| schema.describe(name).ok();
        Self {
            locked: find("pwdAccountLockedTime"),
            start: find("pwdStartTime"),
            end: find("pwdEndTime"),
        }
    }
}

/// Whether the first value of an attribute is so.
fn read_first(
    entry: &dyn EntryRead,
    description: &Option<Arc<AttributeDescription>>,
    is_so: impl Fn(&str) -> bool,
) -> bool {
    let Some(description) = description else { return false };
    let mut found = false;
    entry.visit_values(description, &mut |_, value| {
        found = std::str::from_utf8(value).is_ok_and(&is_so);
        false
    });
    found
}

/// Reads all policies.
pub(crate) fn read(
    view: &View<'_>,
    schema: &Arc<Schema>,
    options: &PasswordPolicyOptions,
) -> Result<PasswordPolicies, DirectoryError> {
    read_with(view, schema, &options.default_dn)
}

/// Reads them anew, where another state takes the place of the one that `before` was read of.
///
/// # Errors
/// When the view cannot be read, or the name of the default policy is none by its schema.
pub(crate) fn read_again(
    view: &View<'_>,
    schema: &Arc<Schema>,
    before: &PasswordPolicies,
) -> Result<PasswordPolicies, DirectoryError> {
    read_with(view, schema, &before.default_dn)
}

fn read_with(
    view: &View<'_>,
    schema: &Arc<Schema>,
    default_dn: &str,
) -> Result<PasswordPolicies, DirectoryError> {
    if let Err(error) = DnKey::from_text(schema, default_dn) {
        let (text, reason) = (default_dn.to_owned(), error.to_string());
        return Err(DirectoryError::Name { text, reason });
    }
    let classes = CLASSES.iter().filter(|name| schema.object_class(name).is_some());
    let classes = classes.map(|name| format!("(objectClass={name})")).collect::<String>();
    let text = format!("(|{classes})");
    let filter = Filter::parse(&text)
        .map_or(ResolvedFilter::Undefined, |filter| ResolvedFilter::resolve(&filter, schema));
    let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
    let mut all = BTreeMap::new();
    for entry in plan.entries(view, EntryId::ROOT) {
        let entry = entry?;
        if let Some((key, held)) = held(&entry, schema) {
            all.insert(key, held);
        }
    }
    let policies = PasswordPolicies::new(Arc::clone(schema), default_dn.into(), all);
    if policies.default.is_none() && !default_dn.is_empty() {
        let name = default_dn;
        tracing::warn!(name, "the default password policy of the settings does not exist");
    }
    Ok(policies)
}

/// The set after these changes; none when they leave it as it is. `view` has them.
pub(crate) fn after<'c>(
    policies: &PasswordPolicies,
    changes: impl IntoIterator<Item = &'c Change>,
    view: &View<'_>,
) -> Result<Option<PasswordPolicies>, StoreError> {
    let mut changed: Option<PasswordPolicies> = None;
    for change in changes {
        let now = changed.as_ref().unwrap_or(policies);
        if let Some(held) = touched(now, change, view)? {
            let (schema, default_dn) = (Arc::clone(&now.schema), Arc::clone(&now.default_dn));
            changed = Some(PasswordPolicies::new(schema, default_dn, held));
        }
    }
    Ok(changed)
}

/// The policies after a change that touches some.
fn touched(
    policies: &PasswordPolicies,
    change: &Change,
    view: &View<'_>,
) -> Result<Option<BTreeMap<DnKey, Held>>, StoreError> {
    let schema = view.schema();
    let name = |dn: &Dn| DnKey::from_dn(schema, dn).unwrap_or_default();
    let object_class = &schema.well_known().object_class;
    Ok(match change {
        Change::Add(add) => held(&add.entry, schema).map(|(key, one)| {
            let mut all = policies.held.clone();
            all.insert(key, one);
            all
        }),
        Change::Modify(modify) => {
            let key = name(&modify.dn);
            let mut classes = modify.deltas.iter().filter(|one| one.description == *object_class);
            if !policies.held.contains_key(&key)
                && !classes.any(|one| one.added.iter().any(|value| is_class(value)))
            {
                return Ok(None);
            }
            let mut all = policies.held.clone();
            all.remove(&key);
            all.extend(view.entry(modify.id)?.and_then(|entry| held(&entry, schema)));
            Some(all)
        }
        Change::Rename(rename) => {
            let (old, new) = (name(&rename.old_dn), name(&rename.new_dn));
            if policies.within(&old).next().is_none() {
                return Ok(None);
            }
            let mut all = policies.held.clone();
            let mut moved = Vec::new();
            for (key, one) in policies.within(&old) {
                all.remove(key);
                let mut there = new.clone();
                for rdn in key.rdns().skip(old.depth()) {
                    there.push(&RdnKey::from_bytes(rdn.to_vec()));
                }
                moved.push((there, one.clone()));
            }
            for (there, mut one) in moved {
                if let store::Resolved::Found(id) = view.resolve(&there)?
                    && let Ok(dn) = Dn::parse_stored(&view.dn(id)?)
                {
                    let policy = one.governing.policy.clone();
                    one.governing = Arc::new(Governing { name: dn, policy });
                }
                all.insert(there, one);
            }
            Some(all)
        }
        Change::Delete(delete) => {
            let gone = name(&delete.dn);
            policies.held.contains_key(&gone).then(|| {
                let mut all = policies.held.clone();
                all.remove(&gone);
                all
            })
        }
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Gather(_)
        | Change::Level(_) => None,
    })
}

/// What an entry holds, if it is a policy.
fn held(entry: &dyn EntryRead, schema: &Schema) -> Option<(DnKey, Held)> {
    if !is_policy(entry, schema) {
        return None;
    }
    let name = Dn::parse_stored(entry.dn()).ok()?;
    let key = DnKey::from_dn(schema, &name).ok()?;
    let policy = PasswordPolicy::read(entry, schema).unwrap_or_else(|fault| {
        let policy = entry.dn();
        tracing::error!(
            policy,
            %fault,
            "a password policy is invalid: until it is corrected it locks nobody out, and accepts \
             new passwords of {UNREADABLE_MIN_LENGTH} characters or more with the old one"
        );
        unreadable()
    });
    let specification = is_subentry(entry, schema)
        .then(|| text(entry, schema, SUBTREE_SPECIFICATION))
        .flatten()
        .map(Arc::from);
    Some((key, Held { governing: Arc::new(Governing { name, policy }), specification }))
}

/// What stands for a policy that was accepted once and cannot be understood any more: nobody is
/// shut out by it, and no weak password comes in.
fn unreadable() -> PasswordPolicy {
    PasswordPolicy {
        check_quality: CheckQuality::WherePossible,
        min_length: UNREADABLE_MIN_LENGTH,
        allow_user_change: true,
        safe_modify: true,
        ..PasswordPolicy::default()
    }
}

/// Whether an entry is a policy.
pub(crate) fn is_policy(entry: &dyn EntryRead, schema: &Schema) -> bool {
    let mut found = false;
    entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
        found = is_class(value);
        !found
    });
    found
}

fn is_class(value: &[u8]) -> bool {
    value == PWD_POLICY_OID
        || CLASSES.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()))
}

fn is_subentry(entry: &dyn EntryRead, schema: &Schema) -> bool {
    let mut found = false;
    entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
        found = SUBENTRIES.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()));
        !found
    });
    found
}

/// Refuses a policy that cannot be understood as a whole.
pub(crate) fn check_entry(schema: &Schema, entry: &Entry) -> Result<(), Refusal> {
    if !is_policy(entry, schema) {
        return Ok(());
    }
    let refuse = |why: String| Refusal::new(ResultCode::ConstraintViolation, why);
    PasswordPolicy::read(entry, schema).map_err(|fault| refuse(fault.to_string()))?;
    if let Some(text) = text(entry, schema, SUBTREE_SPECIFICATION)
        && is_subentry(entry, schema)
    {
        let key = DnKey::from_dn(schema, entry.name()).unwrap_or_default();
        let point = key.parent().unwrap_or_default();
        let subtree = Subtree::parse(&text, &point, schema);
        let subtree = subtree.map_err(|fault| refuse(fault.to_string()))?;
        if let Some(secret) = subtree.secret() {
            return Err(refuse(format!(
                "{SUBTREE_SPECIFICATION}: which policy governs an entry is no secret, and \
                 {secret} is: no filter asks for it"
            )));
        }
    }
    Ok(())
}

/// The classes of policies: the draft's, and those of Sun, 389 and OpenDJ.
const CLASSES: &[&str] = &[
    "pwdPolicy",
    "passwordPolicy",
    "sunPwdPolicy",
    "ds-pwp-password-policy",
    "ds-cfg-password-policy",
];

/// `pwdPolicy`, as it may be written.
const PWD_POLICY_OID: &[u8] = b"1.3.6.1.4.1.42.2.27.8.2.1";

/// The classes of subentries.
const SUBENTRIES: &[&str] = &["subentry", "ldapSubentry", "2.5.17.0"];

/// What names the policy of an entry, the strongest first. 389 calls it like the draft does.
const POINTERS: &[&str] = &["pwdPolicySubentry", "ds-pwp-password-policy-dn"];

/// Which entries a subentry is about.
const SUBTREE_SPECIFICATION: &str = "subtreeSpecification";

/// Characters of a new password under a policy that cannot be understood.
const UNREADABLE_MIN_LENGTH: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, pairs: &[(&str, &str)], schema: &Schema) -> Entry {
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        Entry::from_pairs(Dn::parse(name).unwrap(), pairs, schema).unwrap()
    }

    fn set(entries: &[(&str, &[(&str, &str)])], default_dn: &str) -> PasswordPolicies {
        let schema = Schema::builtin();
        let fixed = [("objectClass", "pwdPolicy"), ("pwdAttribute", "userPassword")];
        let all = entries.iter().filter_map(|(name, pairs)| {
            let pairs = fixed.iter().chain(*pairs).copied().collect::<Vec<_>>();
            held(&entry(name, &pairs, &schema), &schema)
        });
        let all = all.collect();
        PasswordPolicies::new(schema, default_dn.into(), all)
    }

    #[track_caller]
    fn check(policies: &PasswordPolicies, name: &str, pairs: &[(&str, &str)], want: &str) {
        let schema = Schema::builtin();
        let found =
            policies.of(&MemberEntry::alone(&schema, &entry(name, pairs, &schema))).unwrap();
        let found = found.map(|one| one.name.to_string()).unwrap_or_default();
        assert_eq!(found, want, "{name}");
    }

    #[test]
    fn the_pointer_wins_then_the_nearest_subtree_then_the_default() {
        let area = [("objectClass", "subentry"), (SUBTREE_SPECIFICATION, "{}")];
        let deep = [("objectClass", "subentry"), (SUBTREE_SPECIFICATION, "{ base \"ou=b,ou=a\" }")];
        let policies = set(
            &[
                ("cn=whole,dc=x", &area),
                ("cn=deep,dc=x", &deep),
                ("cn=near,ou=a,dc=x", &area),
                ("cn=own,dc=x", &[]),
                ("cn=default,dc=x", &[]),
            ],
            "CN=default,dc=x",
        );
        check(&policies, "uid=1,dc=x", &[], "cn=whole,dc=x");
        check(&policies, "uid=1,ou=a,dc=x", &[], "cn=near,ou=a,dc=x");
        // The nearest administrative point counts, not the base that is nearest.
        check(&policies, "uid=1,ou=b,ou=a,dc=x", &[], "cn=near,ou=a,dc=x");
        check(&policies, "uid=1,dc=y", &[], "cn=default,dc=x");
        let own = [("pwdPolicySubentry", "cn=OWN, dc=x")];
        check(&policies, "uid=1,ou=a,dc=x", &own, "cn=own,dc=x");
        let dangling = [("pwdPolicySubentry", "cn=gone,dc=x")];
        check(&policies, "uid=1,ou=a,dc=x", &dangling, "cn=near,ou=a,dc=x");
        check(&set(&[], ""), "uid=1,dc=x", &own, "");
        check(&set(&[("cn=own,dc=x", &[])], ""), "uid=1,dc=x", &[], "");
    }

    #[test]
    fn what_cannot_be_understood_is_refused_and_locks_nobody_out_once_it_is_there() {
        let schema = Schema::builtin();
        let fixed = [("objectClass", "pwdPolicy"), ("objectClass", "subentry")];
        let check = |pairs: &[(&str, &str)], want: &str| {
            let pairs = fixed.iter().chain(pairs).copied().collect::<Vec<_>>();
            let refused = check_entry(&schema, &entry("cn=p,dc=x", &pairs, &schema));
            let refused = refused.map_err(|refusal| refusal.diagnostic.into_owned());
            match want {
                "" => assert_eq!(refused, Ok(())),
                _ => assert!(refused.clone().unwrap_err().contains(want), "{refused:?}"),
            }
        };
        check(&[("pwdMaxAge", "7"), (SUBTREE_SPECIFICATION, "{ minimum 1 }")], "");
        check(&[("pwdMaxAge", "-7")], "'-7' of pwdMaxAge");
        check(&[(SUBTREE_SPECIFICATION, "{ base }")], "at octet");
        let wrong = [("pwdLockout", "TRUE"), ("pwdMaxFailure", "-1")];
        let policies = set(&[("cn=own,dc=x", &wrong)], "cn=own,dc=x");
        assert_eq!(policies.default.as_ref().unwrap().policy, unreadable());
    }
}
