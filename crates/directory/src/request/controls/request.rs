//! The controls of one request, read: plain data that operations look at.
//!
//! Invariant: what stands here borrows from the message and means nothing of a schema yet.

use ldap::control_value::join::EntryJoin;
use ldap::control_value::persistent_search::PersistentSearch;
use ldap::control_value::read_level::ReadLevelRequest;
use ldap::control_value::sort::SortKey;
use ldap::control_value::sync::SyncRequest;
use ldap::control_value::uniqueness::UniquenessRequest;
use ldap::control_value::vlv::VlvRequest;
use ldap::filter::Filter;
use ldap::message::Strings;
use ldap::search_control::EntryCountRequest;

use super::changelog_cookie::ChangelogCookieRequest;
use super::dereference::DereferenceRequest;
use super::position::PositionRequest;

/// The controls of one request that this server acts on.
#[derive(Debug, Default)]
pub(crate) struct RequestControls<'a> {
    /// Referral objects are treated as ordinary entries (RFC 3296 §3).
    pub(crate) manage_dsa_it: bool,
    /// Simple paged results (RFC 2696).
    pub(crate) paged: Option<PagedRequest<'a>>,
    /// The entries are wanted in an order (RFC 2891).
    pub(crate) sort: Option<SortRequest<'a>>,
    /// A part of the sorted entries is wanted (draft-ietf-ldapext-ldapv3-vlv).
    pub(crate) vlv: Option<VlvRequest<'a>>,
    /// Only subentries are wanted, or none of them (RFC 3672).
    pub(crate) subentries: Option<bool>,
    /// Only values that one of these matches are wanted (RFC 3876).
    pub(crate) matched_values: Option<Vec<Filter<'a>>>,
    /// Attributes of the entries that values name are wanted beside them.
    pub(crate) dereference: Option<DereferenceRequest<'a>>,
    /// Entries that have to do with each are wanted beside it.
    pub(crate) join: Option<Box<EntryJoin<'a>>>,
    /// Changes are wanted, behind one.
    pub(crate) changelog_cookie: Option<ChangelogCookieRequest<'a>>,
    /// Only the number of entries is wanted.
    pub(crate) entry_count: Option<EntryCountRequest>,
    /// Only attributes that are stored are wanted.
    pub(crate) real_only: bool,
    /// Only attributes that are computed or given are wanted.
    pub(crate) virtual_only: bool,
    /// A search that no index helps is to be refused.
    pub(crate) reject_unindexed: bool,
    /// A search that no index helps is meant.
    pub(crate) permit_unindexed: bool,
    /// The request is carried out only if this holds for its target (RFC 4528).
    pub(crate) assertion: Option<Filter<'a>>,
    /// The target as it was is wanted (RFC 4527).
    pub(crate) pre_read: Option<ReadRequest<'a>>,
    /// The target as it is afterwards is wanted (RFC 4527).
    pub(crate) post_read: Option<ReadRequest<'a>>,
    /// No other entry may have what the target is to have.
    pub(crate) unique: Vec<UniquenessRequest<'a>>,
    /// Values that are there already, or missing already, are no reason to refuse a modify.
    pub(crate) permissive: bool,
    /// A delete takes the subordinates with it (draft-armijo-ldap-treedelete).
    pub(crate) subtree: bool,
    /// Nothing is to happen; only whether it could is asked (draft-zeilenga-ldap-noop).
    pub(crate) no_op: bool,
    /// What only the server sets may be set (draft-zeilenga-ldap-relax).
    pub(crate) relax: bool,
    /// The session of who follows another server with it.
    pub(crate) following: Option<&'a str>,
    /// The answer need not wait for the disk.
    pub(crate) lazy: bool,
    /// The update belongs to this transaction (RFC 5805 §2.2).
    pub(crate) transaction: Option<&'a [u8]>,
    /// The request is carried out as somebody else (RFC 4370).
    pub(crate) proxied: Option<Proxied<'a>>,
    /// What somebody may do with the entries is wanted beside them.
    pub(crate) effective_rights: Option<EffectiveRights<'a>>,
    /// A bind is to answer who the client is (RFC 3829).
    pub(crate) authorization_identity: bool,
    /// Whether accounts can be used is wanted beside their entries.
    pub(crate) account_usability: bool,
    /// What a password policy says is wanted.
    pub(crate) password_policy: bool,
    /// How fresh the data must be.
    pub(crate) read_level: Option<Box<ReadLevelRequest<'a>>>,
    /// Up to which change the response speaks of the data is wanted.
    pub(crate) position: Option<PositionRequest>,
    /// Why it is asked for.
    pub(crate) purpose: Option<&'a str>,
    /// The search goes on with what changes (draft-ietf-ldapext-psearch).
    pub(crate) persistent: Option<PersistentSearch>,
    /// The search keeps a consumer up to date (RFC 4533).
    pub(crate) sync: Option<Box<SyncRequest<'a>>>,
    /// OIDs of those that the asker may not use and that were left out.
    pub(crate) denied: Vec<&'static str>,
    /// OIDs of those without which the request is not to be carried out.
    pub(crate) critical: Vec<&'static str>,
    /// OIDs of those that the change records note.
    pub(crate) recorded: Vec<&'static str>,
}

impl RequestControls<'_> {
    /// Whether a search goes on with what changes, or tells what has changed.
    pub(crate) fn is_stream(&self) -> bool {
        self.persistent.is_some() || self.sync.is_some()
    }

    /// Whether an update that is accepted may not be made, or be undone.
    pub(crate) fn is_trial(&self) -> bool {
        self.no_op || self.transaction.is_some()
    }
}

/// Which page of the entries a client asks for (RFC 2696).
#[derive(Debug)]
pub(crate) struct PagedRequest<'a> {
    /// Entries wanted at most; 0 ends the paging.
    pub(crate) size_entries: u32,
    /// Empty for the first page.
    pub(crate) cookie: &'a [u8],
}

/// What entries are to be sorted by (RFC 2891).
#[derive(Debug)]
pub(crate) struct SortRequest<'a> {
    /// None: they are more than entries are sorted by.
    pub(crate) keys: Option<Vec<SortKey<'a>>>,
    /// Without the order, nothing is wanted.
    pub(crate) critical: bool,
}

/// What a client wants to read of the target of an update (RFC 4527).
#[derive(Debug)]
pub(crate) struct ReadRequest<'a> {
    /// The attributes, as a search names them.
    pub(crate) attributes: Strings<'a>,
    /// Without the entry, the update is not to be carried out.
    pub(crate) critical: bool,
}

/// As whom a request is to be carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proxied<'a> {
    Anonymous,
    Dn(&'a str),
    User(&'a str),
}

/// Whose rights are wanted, and to which attributes beside those of the entry.
#[derive(Debug, Default)]
pub(crate) struct EffectiveRights<'a> {
    /// A DN; none means the asker, an empty one anonymous.
    pub(crate) identity: Option<&'a str>,
    /// Names of attributes, as the client wrote them.
    pub(crate) attributes: Vec<&'a str>,
}
