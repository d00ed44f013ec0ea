//! Changes of the entries below `cn=config`, resolved: which steps a request consists of.

use history::record::OpKind;
use store::IndexDefinition;

/// A change of an entry below `cn=Index,cn=config`.
pub(crate) struct IndexConfig {
    /// The attribute type, as the name of the entry has it.
    pub(super) attribute: String,
    pub(crate) kind: OpKind,
    pub(super) steps: Vec<IndexStep>,
}

/// A part of a change of indexes. Definitions are as the client sent them.
pub(super) enum IndexStep {
    Put(IndexDefinition),
    Take(IndexDefinition),
    TakeAll(Which),
    Rebuild(IndexDefinition),
}

/// The definitions that the values of one attribute stand for.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// `ds-cfg-index-type`: those of a kind and the attribute alone.
    Kinds,
    /// `ds-cfg-index-extensible-matching-rule`.
    Rules,
    /// `roster-index-definition`.
    All,
}

/// A change of an entry that shows a setting.
pub(crate) struct SettingConfig {
    pub(crate) setting: Setting,
    pub(crate) steps: Vec<SettingStep>,
}

/// The settings that entries show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Setting {
    /// `cn=Access Control Handler,cn=config`.
    GlobalAcis,
    /// `cn=Join Tokens,cn=config`.
    JoinTokens,
    /// `cn=Constraints,cn=config`.
    Constraints,
    /// `cn=Assignments,cn=config`.
    Assignments,
    /// `cn=Virtual Attributes,cn=config`.
    VirtualAttributes,
    /// `cn=Groups,cn=config`.
    MemberOf,
    /// There, too.
    MemberUid,
    /// `cn=References,cn=config`.
    References,
    /// `cn=Schema,cn=config`.
    SchemaModes,
    /// `cn=Sinks,cn=config`.
    Sinks,
    /// `cn=Naming Contexts,cn=config`.
    NamingContexts,
    /// `cn=Following,cn=config`.
    Following,
    /// `cn=Settings,cn=config`.
    Server,
    /// `cn=Tasks,cn=config`.
    ScheduledTasks,
}

/// A part of a change of the values of a setting.
pub(crate) enum SettingStep {
    Put(String),
    Take(String),
    /// All lines of one of the server's settings.
    TakeOf(String),
    TakeAll,
}
