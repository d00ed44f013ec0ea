//! Who asks: the identity, what it was given, and where it comes from.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use schema::{DnKey, EntryId};

use crate::{
    AccessSubject, AciSet, AuthenticationMethod, Denied, Grants, Identity, Permitted, Privilege,
    Privileges, Rules, Surroundings,
};

/// Who asks, and what that identity was given. Made once per bind; what it may do with an entry is
/// asked of the [`crate::Rights`] on that entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    identity: Identity,
    /// The name of the identity as rules compare it; none when anonymous or not known yet.
    key: Option<DnKey>,
    /// The entry of the identity: names change hands, this does not. ROOT stands for none.
    entry: EntryId,
    /// The entry that acts as this identity by a privilege; ROOT when it is itself.
    prover: EntryId,
    grants: Grants,
    origin: ClientOrigin,
    memo: Memo,
}

/// Where requests come from, as bind rules ask about it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientOrigin {
    /// The client's address; none on a socket of this machine.
    pub address: Option<IpAddr>,
    /// The name of the client's host; none when it is not known.
    pub host_name: Option<Arc<str>>,
    /// How strongly the connection is protected, in bits of a key; 0 = not at all.
    pub ssf: u32,
    /// How the identity was proved.
    pub method: Method,
}

/// How a session authenticated.
pub type Method = AuthenticationMethod<'static>;

/// An identity that access rules do not apply to. Only [`Access::bypass`] makes one.
///
/// ```compile_fail,E0423
/// fn forge(access: &aci::Access) -> aci::Bypass<'_> {
///     aci::Bypass(access)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bypass<'a>(&'a Access);

impl<'a> Bypass<'a> {
    /// Who it is.
    pub fn access(self) -> &'a Access {
        self.0
    }
}

/// The setting that says how strictly the schema is enforced.
const SCHEMA_MODES: &str = "schema-modes";

/// Settings that say nothing of who may do what.
const WITHOUT_ACCESS: [&str; 3] = ["constraints", "member-of", "naming-contexts"];

impl Access {
    /// The access of `identity`, which was given nothing of its own; the root identity has all
    /// privileges.
    pub fn of(identity: Identity) -> Self {
        let privileges = match &identity {
            Identity::Root(_) => Privileges::ALL,
            Identity::Entry(_) | Identity::Anonymous => Privileges::NONE,
        };
        Self::with(identity, Grants { privileges, ..Grants::default() })
    }

    /// The access of `identity` with what it was given.
    pub fn with(identity: Identity, grants: Grants) -> Self {
        let (origin, memo) = (ClientOrigin::default(), Memo::default());
        let (entry, prover) = (EntryId::ROOT, EntryId::ROOT);
        Self { identity, key: None, entry, prover, grants, origin, memo }
    }

    /// This access with the name of the identity as rules compare it.
    #[must_use]
    pub fn keyed(self, key: DnKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// This access with other grants.
    #[must_use]
    pub fn granted(self, grants: Grants) -> Self {
        Self { grants, ..self }
    }

    /// This access with the entry of the identity.
    #[must_use]
    pub fn of_entry(self, entry: EntryId) -> Self {
        Self { entry, ..self }
    }

    /// This access for another entry that acts as this identity.
    #[must_use]
    pub fn proved_by(self, prover: Option<EntryId>) -> Self {
        Self { prover: prover.unwrap_or(EntryId::ROOT), ..self }
    }

    /// This access for requests that come from there.
    #[must_use]
    pub fn from_origin(self, origin: ClientOrigin) -> Self {
        Self { origin, memo: Memo::default(), ..self }
    }

    /// Whose access it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name of the identity as rules compare it.
    pub fn key(&self) -> Option<&DnKey> {
        self.key.as_ref()
    }

    /// The entry of the identity; none for the administrator and for strangers.
    pub fn entry(&self) -> Option<EntryId> {
        (self.entry != EntryId::ROOT).then_some(self.entry)
    }

    /// The entry that acts as this identity by a privilege.
    pub fn prover(&self) -> Option<EntryId> {
        (self.prover != EntryId::ROOT).then_some(self.prover)
    }

    /// What the identity was given of its own.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Where requests come from.
    pub fn origin(&self) -> &ClientOrigin {
        &self.origin
    }

    /// That access rules do not apply to it, if that is so.
    pub fn bypass(&self) -> Option<Bypass<'_>> {
        self.has(Privilege::BypassAcl).then_some(Bypass(self))
    }

    /// Whether it has a privilege.
    pub fn has(&self, privilege: Privilege) -> bool {
        self.grants.privileges.has(privilege)
    }

    /// Whether `now` has another name, or lacks a privilege of this one.
    pub fn loses(&self, now: &Self) -> bool {
        self.key != now.key || !now.grants.privileges.include(self.grants.privileges)
    }

    /// Whether it is the administrator: limits and locks of others do not apply.
    pub fn is_root(&self) -> bool {
        matches!(self.identity, Identity::Root(_))
    }

    /// Whether the identity may search where no index helps; `asks` says that it means to.
    pub fn may_search_unindexed(&self, asks: bool) -> bool {
        self.is_root()
            || self.has(Privilege::UnindexedSearch)
            || (asks && self.grants.unindexed_search_with_control)
    }

    /// Decides on a change of what is the whole server's: definitions of the schema, indexes,
    /// settings.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks the privilege.
    pub fn permit(&self, change: schema::Change) -> Result<Permitted<schema::Change>, Denied> {
        use schema::Change;
        let needed: &[Privilege] = match &change {
            Change::Schema(_) => &[Privilege::UpdateSchema],
            Change::Index(_) => &[Privilege::ConfigWrite],
            Change::Setting(setting) if WITHOUT_ACCESS.contains(&&*setting.name) => {
                &[Privilege::ConfigWrite]
            }
            Change::Setting(setting) if setting.name == SCHEMA_MODES => {
                &[Privilege::ConfigWrite, Privilege::UpdateSchema]
            }
            // All others decide about access.
            Change::Setting(_) => &[Privilege::ConfigWrite, Privilege::ModifyAcl],
            // Those are decided on by the rights on the entry, and the last by the server alone.
            Change::Add(_)
            | Change::Modify(_)
            | Change::Rename(_)
            | Change::Delete(_)
            | Change::Gather(_)
            | Change::Level(_) => return Err(Denied),
        };
        let is_allowed = needed.iter().all(|one| self.has(*one));
        if is_allowed { Ok(Permitted::new(change)) } else { Err(Denied) }
    }

    /// What the rules mean for this identity, kept until they change. `stamp` says how far the
    /// directory is: rules may ask for groups.
    pub fn rules(&self, set: &Arc<AciSet>, stamp: u64) -> Arc<Rules> {
        let memo = self.memo.0.get_or_init(ArcSwapOption::default);
        if let Some(rules) = &*memo.load()
            && rules.is_current(set, stamp)
        {
            return Arc::clone(rules);
        }
        let rules = Arc::new(Rules::new(set, stamp));
        memo.store(Some(Arc::clone(&rules)));
        rules
    }

    /// The identity as rules see it; `key` is its name when the access was made without.
    pub fn asker<'a>(
        &'a self,
        key: Option<&'a DnKey>,
        surroundings: &'a dyn Surroundings,
    ) -> AccessSubject<'a> {
        let ClientOrigin { address, ssf, method, .. } = self.origin;
        AccessSubject { identity: self.key.as_ref().or(key), address, ssf, method, surroundings }
    }
}

/// What the rules meant when they were looked at last. It is no part of who asks. Made when they
/// are looked at: many connections only bind.
#[derive(Default)]
struct Memo(OnceLock<ArcSwapOption<Rules>>);

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}
