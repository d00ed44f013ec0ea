//! The access rules at work in one request: who asks, and what that means for each entry.
//!
//! Invariant: every decision about an entry goes through the rights at its place; there is no other
//! way from an entry to a client, or from a request to a change.
//! Invariant: a view is guarded by the rules of its own point of the log; newer ones are put in
//! force before a change of them is visible, so a view never has entries without their rules. A
//! view of what is being decided is guarded by the rules that the changes before left.

use std::cell::OnceCell;
use std::hint::black_box;

use aci::{Access, AccessSubject, Bypass, EntryRights, Reach, Right, Rights, Rules};
use schema::{AttributeDescription, DnKey, EntryId, EntryRead, Schema};
use store::{StoredEntry, View};

use crate::access::surroundings::ViewSurroundings;
use crate::access::view_rules::ViewRules;
use crate::directory::Directory;
use crate::request::refusal::Refusal;
use crate::virtual_attributes::set::VirtualAttributes;

/// Who looks, and at which view.
pub(crate) struct Viewer<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) access: &'a Access,
    pub(crate) view: &'a View<'a>,
    pub(crate) schema: &'a Schema,
}

/// Who asks, and the rules in force. One for each request.
pub(crate) struct Guard<'a> {
    subject: Subject<'a>,
    /// What entries have without storing it, if anything.
    given: Option<&'a VirtualAttributes>,
}

/// Who asks: somebody that no rules apply to, or somebody with those that do.
enum Subject<'a> {
    Bypassed(Bypass<'a>),
    Ruled(InForce<'a>),
}

/// What decides for those who are subject to access control.
struct InForce<'a> {
    access: &'a Access,
    sees_all: OnceCell<bool>,
    reach: &'a Reach<'a>,
    rules: &'a Rules,
    asker: &'a AccessSubject<'a>,
}

/// Calls `act` with the guard of a request about entries at and below `base`.
pub(crate) fn guarded<T>(
    viewer: &Viewer<'_>,
    base: &DnKey,
    act: impl FnOnce(&Guard<'_>) -> T,
) -> T {
    let rules = viewer.directory.rules.of_views.load();
    guarded_by(viewer, rules.at(viewer.view.lsn()), base, act)
}

/// Calls `act` with a guard by these rules: those of a view that is in the making.
pub(crate) fn guarded_by<T>(
    viewer: &Viewer<'_>,
    view_rules: &ViewRules,
    base: &DnKey,
    act: impl FnOnce(&Guard<'_>) -> T,
) -> T {
    let &Viewer { directory, access, view, schema } = viewer;
    let given = Some(&*view_rules.virtual_attributes).filter(|all| !all.is_empty());
    if let Some(bypass) = access.bypass() {
        return act(&Guard { subject: Subject::Bypassed(bypass), given });
    }
    // Numbers come again when what was decided is dropped, hashes do not.
    let mark = view.mark();
    let rules = access.rules(&view_rules.acis, mark.lsn.0 ^ mark.hash);
    let key = match (access.key(), access.identity().dn()) {
        (None, Some(dn)) => DnKey::from_text(schema, dn.as_str()).ok(),
        (Some(_), _) | (None, None) => None,
    };
    let host_name = access.origin().host_name.as_deref();
    let around = ViewSurroundings::new(view, schema, &*directory.clock, host_name);
    let asker = access.asker(key.as_ref(), &around);
    let reach = rules.below(&asker, base);
    let sees_all = OnceCell::new();
    let in_force = InForce { access, sees_all, reach: &reach, rules: &rules, asker: &asker };
    act(&Guard { subject: Subject::Ruled(in_force), given })
}

impl<'a> Guard<'a> {
    /// The guard that lets everything through, for tests of what is behind it.
    #[cfg(test)]
    pub(crate) fn open(access: &'a Access) -> Self {
        let bypass = access.bypass().expect("a test asks for one who has the privilege");
        Self { subject: Subject::Bypassed(bypass), given: None }
    }

    /// Who asks.
    pub(crate) fn access(&self) -> &'a Access {
        match &self.subject {
            Subject::Bypassed(bypass) => bypass.access(),
            Subject::Ruled(rules) => rules.access,
        }
    }

    /// A number that is another one when what rules ask of the world beside the entries is
    /// answered otherwise: see [`Rules::standing`].
    pub(crate) fn standing(&self, each: &dyn Fn()) -> u64 {
        self.rules().map_or(0, |rules| rules.rules.standing(rules.asker, each))
    }

    /// Whether what the asker may see of an entry can change with another one: see
    /// [`Rules::hangs_on_others`].
    pub(crate) fn hangs_on_others(&self) -> bool {
        self.rules().is_some_and(|rules| rules.rules.hangs_on_others(rules.asker))
    }

    /// Whether access control does not apply to the asker.
    pub(crate) fn is_bypassed(&self) -> bool {
        self.rules().is_none()
    }

    fn rules(&self) -> Option<&InForce<'a>> {
        match &self.subject {
            Subject::Bypassed(_) => None,
            Subject::Ruled(rules) => Some(rules),
        }
    }

    fn reach(&self) -> Option<&'a Reach<'a>> {
        self.rules().map(|rules| rules.reach)
    }

    /// The rights on an entry at or below the base, stored or made by the server.
    pub(crate) fn on<'e>(&'e self, entry: &'e dyn EntryRead) -> Rights<'e> {
        match &self.subject {
            Subject::Bypassed(bypass) => Rights::all(*bypass),
            Subject::Ruled(rules) => Rights::on(rules.access, rules.reach, entry),
        }
    }

    /// What the rules say about an entry; none where they are not asked.
    pub(crate) fn explained<T>(
        &self,
        entry: &dyn EntryRead,
        ask: impl FnOnce(&EntryRights<'_>) -> T,
    ) -> Option<T> {
        self.reach().map(|reach| ask(&reach.of(entry)))
    }

    /// Calls `act` with a guard for entries anywhere.
    pub(crate) fn anywhere<T>(&self, act: impl FnOnce(&Guard<'_>) -> T) -> T {
        let Some(&InForce { access, rules, asker, .. }) = self.rules() else { return act(self) };
        let reach = rules.below(asker, &DnKey::root());
        let in_force = InForce { access, sees_all: OnceCell::new(), reach: &reach, rules, asker };
        act(&Guard { subject: Subject::Ruled(in_force), given: self.given })
    }

    /// What entries have without storing it, if anything.
    pub(crate) fn given(&self) -> Option<&'a VirtualAttributes> {
        self.given
    }

    /// Whether the asker may search for values of an attribute, if that is so for every entry.
    pub(crate) fn may_search(&self, description: &AttributeDescription) -> Option<bool> {
        self.reach().map_or(Some(true), |reach| reach.always(Right::Search, description))
    }

    /// Whether the asker may search for whatever an index on an attribute that may be searched may
    /// hold, values of its subtypes, and such with options, and the index has all there is.
    pub(crate) fn may_search_all_of(&self, description: &AttributeDescription) -> bool {
        self.given.is_none_or(|all| !all.may_give(description))
            && self.reach().is_none_or(|reach| reach.always_all(Right::Search, description))
    }

    /// Whether the asker may search for values of an attribute in every entry there is: only then
    /// what an index says need not be asked of the entries.
    pub(crate) fn may_search_everywhere(&self, description: &AttributeDescription) -> bool {
        self.may_search(description) == Some(true) && self.may_search_all_of(description)
    }

    /// Whether there is an entry in which the asker may search for values of an attribute.
    pub(crate) fn may_search_somewhere(&self, description: &AttributeDescription) -> bool {
        self.may_search(description) != Some(false)
    }

    /// Whether the asker may see every entry there is: what `Rights::may_see` asks of each.
    pub(crate) fn sees_all(&self) -> bool {
        self.rules().is_none_or(|rules| {
            let is_seen = || rules.reach.always_entry(Right::Read) == Some(true);
            *rules.sees_all.get_or_init(is_seen)
        })
    }

    /// Whether the asker may learn that there is the entry at which the guard begins, when that is
    /// so whatever the entry holds.
    pub(crate) fn discloses_base(&self) -> Option<bool> {
        let Some(reach) = self.reach() else { return Some(true) };
        let may = [Right::Read, Right::Search, Right::Compare].map(|one| reach.may_base(one));
        match may.contains(&Some(true)) {
            true => Some(true),
            false => may.iter().all(Option::is_some).then_some(false),
        }
    }

    /// Whether the asker may use a control.
    pub(crate) fn may_use_control(&self, oid: &str) -> bool {
        self.reach().is_none_or(|reach| reach.may_use_control(oid))
    }

    /// Whether the asker may call an extended operation.
    pub(crate) fn may_extend(&self, oid: &str) -> bool {
        self.reach().is_none_or(|reach| reach.may_extend(oid))
    }

    /// `noSuchObject`, as if there were nothing at `id`: it names the nearest superior that the
    /// asker may know of.
    pub(crate) fn hidden(&self, view: &View<'_>, id: EntryId) -> Result<Refusal, Refusal> {
        let above = stored(view, id)?.parent();
        self.missing(view, above)
    }

    /// `noSuchObject` for a name that is not there below `nearest`, after as much work as there is
    /// for one that is hidden: how long the answer takes shall not tell the two apart.
    pub(crate) fn not_there(&self, view: &View<'_>, nearest: EntryId) -> Result<Refusal, Refusal> {
        if !self.is_bypassed() && nearest != EntryId::ROOT {
            let above = stored(view, nearest)?;
            black_box(self.anywhere(|guard| guard.on(&above).is_disclosed()));
            black_box(stored(view, nearest)?.id());
        }
        self.missing(view, nearest)
    }

    /// Whether the asker may know of nothing at the base and below it, if that is so for all.
    pub(crate) fn knows_nothing(&self) -> bool {
        let rights = [Right::Read, Right::Search, Right::Compare];
        let is_nowhere = |reach: &Reach<'_>, right| reach.always_entry(right) == Some(false);
        self.reach().is_some_and(|reach| rights.into_iter().all(|one| is_nowhere(reach, one)))
    }

    /// `noSuchObject` for what is not known of below `nearest`.
    pub(crate) fn missing(&self, view: &View<'_>, nearest: EntryId) -> Result<Refusal, Refusal> {
        let matched = self.nearest_known(view, nearest)?;
        Ok(Refusal::no_such_object(matched, NO_SUCH_ENTRY))
    }

    /// The name of the nearest entry at `id` or above it that the asker may know of.
    fn nearest_known(&self, view: &View<'_>, id: EntryId) -> Result<String, Refusal> {
        self.anywhere(|guard| {
            let mut next = id;
            while next != EntryId::ROOT
                && let Some(entry) = view.entry(next)?
            {
                if guard.on(&entry).is_disclosed() {
                    return Ok(entry.dn().to_owned());
                }
                next = entry.parent();
            }
            Ok(String::new())
        })
    }

    /// The refusal of a right on an entry: it tells of the entry only to those who may know of it.
    pub(crate) fn denied(
        &self,
        view: &View<'_>,
        stored: &StoredEntry<'_>,
    ) -> Result<Refusal, Refusal> {
        if self.on(stored).is_disclosed() {
            return Ok(aci::Denied.into());
        }
        self.missing(view, stored.parent())
    }
}

/// Reads an entry that was found.
pub(crate) fn stored<'v>(view: &'v View<'_>, id: EntryId) -> Result<StoredEntry<'v>, Refusal> {
    view.entry(id)?.ok_or_else(|| Refusal::no_such_object(String::new(), NO_SUCH_ENTRY))
}

/// The same words whether there is no entry or one that may not be seen.
const NO_SUCH_ENTRY: &str = "no such entry";
