//! What an update operation is given to decide with, and what it gives back.
//!
//! Invariant: a decision sees the state its predecessors left. All clock and chance that a change
//! holds come from here: applying is a function of store and change alone.

use aci::{AciSet, Permitted};
use environment::Chance;
use schema::{AttributeDescription, Change, DnKey, EntryId};
use store::View;

use crate::access::guard::Guard;
use crate::directory::{Directory, State};
use crate::enforcement::broken::Broken;
use crate::enforcement::modes::Modes;
use crate::read::lookup::Lookup;
use crate::request::controls::write::WriteControls;
use crate::request::refusal::Refusal;
use crate::virtual_attributes::set::VirtualAttributes;
use crate::write::stamp::Stamp;

/// What a decision has at hand: the state its predecessors left, and its own stamp.
pub(crate) struct Decide<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) view: &'a View<'a>,
    pub(crate) state: &'a State,
    pub(crate) guard: &'a Guard<'a>,
    /// All ACIs, as its predecessors left them.
    pub(crate) acis: &'a AciSet,
    /// What entries have without storing it, as its predecessors left that.
    pub(crate) virtual_attributes: &'a VirtualAttributes,
    pub(crate) controls: &'a WriteControls,
    /// There are referral objects, and the client does not manage them.
    pub(crate) referrals: bool,
    pub(crate) stamp: Stamp,
    pub(crate) chance: &'a mut dyn Chance,
    /// The id an added entry gets.
    pub(crate) next_id: EntryId,
}

impl Decide<'_> {
    /// How an entry of this name is looked for.
    pub(crate) fn lookup<'a>(&self, name: &'a str, key: &'a DnKey) -> Lookup<'a> {
        Lookup { name, key, referrals: self.referrals, scope: None }
    }

    /// How strictly the schema is enforced.
    pub(crate) fn schema_modes(&self) -> Modes {
        Modes::new(self.directory.rules.schema_modes.of(self.view, &self.state.schema))
    }

    /// Whether values of an attribute sign somebody in.
    pub(crate) fn signs_in(&self, description: &AttributeDescription) -> bool {
        description.is_password()
            || self.directory.credentials.authentication().signs_in(&description.kind)
    }

    /// Whether `key` names the entry at the top of a naming context.
    pub(crate) fn is_context(&self, key: &DnKey) -> bool {
        self.view.naming_contexts().keys().any(|context| context == key)
    }
}

/// What the decision of one operation leads to.
#[derive(Default)]
pub(crate) struct Decision {
    /// What is to be logged and applied; empty when the request changes nothing.
    pub(crate) changes: Vec<Permitted<Change>>,
    /// The value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
    /// What binds left of this account and is not in its entry yet is in the changes, or undone.
    pub(crate) settled: Option<EntryId>,
    /// What stands against it, told when nothing else does: to learn it one has to risk that the
    /// change is made.
    pub(crate) late: Option<Refusal>,
    /// What the entry breaks of the schema, where that is tolerated.
    pub(crate) broken: Option<Broken>,
}

impl Decision {
    /// A decision that is nothing but a change.
    pub(crate) fn change(change: Permitted<Change>) -> Self {
        Self { changes: vec![change], ..Self::default() }
    }
}
