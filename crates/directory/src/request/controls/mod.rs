//! Request controls: taken before the operation, refused when critical and unknown
//! (RFC 4511 §4.1.11).

pub(crate) mod account_usability;
pub(crate) mod assertion;
pub(crate) mod authorization_identity;
pub(crate) mod effective_rights;
pub(crate) mod entry_count;
pub(crate) mod matched_values;
pub(crate) mod paged;
pub(crate) mod proxied;
pub(crate) mod read_entry;
pub(crate) mod response;
pub(crate) mod sort;
pub(crate) mod subentries;
pub(crate) mod vlv;

use aci::{Privilege, Rights};
use ldap::control_value::vlv::VlvRequest;
use ldap::filter::Filter;
use ldap::message::{Control, Controls, Request};
use ldap::result::ResultCode;
use ldap::search_control::EntryCountRequest;
use schema::{DnKey, EntryRead, ResolvedFilter, Schema};

use self::effective_rights::EffectiveRights;
use self::paged::PagedRequest;
use self::proxied::Proxied;
use self::read_entry::{ReadEntry, ReadRequest};
use self::sort::SortRequest;
use crate::access::guard::{Site, guarded};
use crate::password_policy;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::write::{password_modify, transactions};

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
    /// Only the number of entries is wanted.
    pub(crate) entry_count: Option<EntryCountRequest>,
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
    /// Values that are there already, or missing already, are no reason to refuse a modify.
    pub(crate) permissive: bool,
    /// A delete takes the subordinates with it (draft-armijo-ldap-treedelete).
    pub(crate) subtree: bool,
    /// Nothing is to happen; only whether it could is asked (draft-zeilenga-ldap-noop).
    pub(crate) no_op: bool,
    /// What only the server sets may be set (draft-zeilenga-ldap-relax).
    pub(crate) relax: bool,
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
    /// OIDs of those that the asker may not use and that were left out.
    pub(crate) denied: Vec<&'static str>,
    /// OIDs of those that the change records note.
    recorded: Vec<&'static str>,
}

/// The controls that an update is decided with: resolved against the schema, and owned.
#[derive(Debug, Default)]
pub(crate) struct WriteControls {
    pub(crate) manage_dsa_it: bool,
    pub(crate) assertion: Option<ResolvedFilter>,
    pub(crate) pre_read: Option<ReadEntry>,
    pub(crate) post_read: Option<ReadEntry>,
    pub(crate) permissive: bool,
    pub(crate) no_op: bool,
    pub(crate) relax: bool,
    /// What a password policy says is wanted.
    pub(crate) password_policy: bool,
    /// OIDs of those that the change records note.
    pub(crate) recorded: Vec<&'static str>,
}

impl RequestControls<'_> {
    /// Refuses with `assertionFailed` when there is an assertion that does not hold; see
    /// [`assertion::check`].
    pub(crate) fn check_assertion(
        &self,
        target: (&dyn EntryRead, &Rights<'_>),
        schema: &Schema,
        work_max: u64,
    ) -> Result<(), Refusal> {
        let Some(filter) = &self.assertion else { return Ok(()) };
        assertion::check(&ResolvedFilter::resolve(filter, schema), target, schema, work_max)
    }

    /// Whether an update that is accepted may not be made, or be undone.
    pub(crate) fn is_trial(&self) -> bool {
        self.no_op || self.transaction.is_some()
    }

    /// The form that the writer keeps.
    pub(crate) fn resolve(&self, schema: &Schema) -> WriteControls {
        let read = |request: &Option<ReadRequest<'_>>| {
            request.as_ref().map(|request| request.resolve(schema))
        };
        WriteControls {
            manage_dsa_it: self.manage_dsa_it,
            assertion: self.assertion.as_ref().map(|one| ResolvedFilter::resolve(one, schema)),
            pre_read: read(&self.pre_read),
            post_read: read(&self.post_read),
            permissive: self.permissive,
            no_op: self.no_op,
            relax: self.relax,
            password_policy: self.password_policy,
            recorded: self.recorded.clone(),
        }
    }
}

/// To which operations a control applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    Bind,
    Search,
    Compare,
    Add,
    Delete,
    Modify,
    ModifyDn,
    PasswordModify,
    StartTransaction,
    EndTransaction,
    /// Any other extended operation.
    Extended,
}

impl Operation {
    /// Which one a request asks for; `None` where there is no answer.
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        Some(match request {
            Request::Unbind | Request::Abandon(_) => return None,
            Request::Bind(_) => Self::Bind,
            Request::Search(_) => Self::Search,
            Request::Compare(_) => Self::Compare,
            Request::Add(_) => Self::Add,
            Request::Delete(_) => Self::Delete,
            Request::Modify(_) => Self::Modify,
            Request::ModifyDn(_) => Self::ModifyDn,
            Request::Extended(extended) => match extended.oid {
                password_modify::value::OID => Self::PasswordModify,
                transactions::START => Self::StartTransaction,
                transactions::END => Self::EndTransaction,
                _ => Self::Extended,
            },
        })
    }
}

impl Operation {
    /// Whether every answer says what a password policy has to say, to whoever asks: nothing, if
    /// there is nothing (draft-behera-ldap-password-policy-10 §6.2). Others tell of refusals alone.
    pub(crate) fn tells_policy(self) -> bool {
        match self {
            Self::Bind | Self::Compare | Self::Add | Self::Modify | Self::PasswordModify => true,
            Self::Search
            | Self::Delete
            | Self::ModifyDn
            | Self::EndTransaction
            | Self::StartTransaction
            | Self::Extended => false,
        }
    }
}

/// One supported control: a row here is its entry in the root DSE and its place in `take`.
struct ControlRow {
    oid: &'static str,
    applies: &'static [Operation],
    /// Whether the change records note that it was there.
    recorded: bool,
    take: for<'a> fn(&mut RequestControls<'a>, &Control<'a>) -> Result<(), Refusal>,
}

/// The updates of RFC 4511.
const UPDATES: &[Operation] =
    &[Operation::Add, Operation::Delete, Operation::Modify, Operation::ModifyDn];

/// What is carried out as somebody else. RFC 5805 §4.4 has a transaction carried out so, and none
/// of its updates; here each update says as whom, and the start takes no such control.
const PROXIED: &[Operation] = &[
    Operation::Search,
    Operation::Compare,
    Operation::Add,
    Operation::Delete,
    Operation::Modify,
    Operation::ModifyDn,
    Operation::PasswordModify,
    Operation::Extended,
];

/// All supported controls.
const CONTROLS: &[ControlRow] = &[
    ControlRow {
        oid: "2.16.840.1.113730.3.4.2",
        applies: &[
            Operation::Search,
            Operation::Compare,
            Operation::Add,
            Operation::Delete,
            Operation::Modify,
            Operation::ModifyDn,
        ],
        recorded: true,
        take: take_manage_dsa_it,
    },
    ControlRow {
        oid: paged::OID,
        applies: &[Operation::Search],
        recorded: false,
        take: paged::take,
    },
    ControlRow { oid: sort::OID, applies: &[Operation::Search], recorded: false, take: sort::take },
    ControlRow { oid: vlv::OID, applies: &[Operation::Search], recorded: false, take: vlv::take },
    ControlRow {
        oid: subentries::OID,
        applies: &[Operation::Search],
        recorded: false,
        take: subentries::take,
    },
    ControlRow {
        oid: subentries::LDUP,
        applies: &[Operation::Search],
        recorded: false,
        take: subentries::take,
    },
    ControlRow {
        oid: matched_values::OID,
        applies: &[Operation::Search],
        recorded: false,
        take: matched_values::take,
    },
    ControlRow {
        oid: entry_count::OID,
        applies: &[Operation::Search],
        recorded: false,
        take: entry_count::take,
    },
    ControlRow {
        // Reject unindexed search.
        oid: "1.3.6.1.4.1.30221.2.5.54",
        applies: &[Operation::Search],
        recorded: false,
        take: take_reject_unindexed,
    },
    ControlRow {
        // Permit unindexed search.
        oid: "1.3.6.1.4.1.30221.2.5.55",
        applies: &[Operation::Search],
        recorded: false,
        take: take_permit_unindexed,
    },
    ControlRow {
        oid: assertion::OID,
        applies: &[
            Operation::Search,
            Operation::Compare,
            Operation::Add,
            Operation::Delete,
            Operation::Modify,
            Operation::ModifyDn,
        ],
        recorded: false,
        take: assertion::take,
    },
    ControlRow {
        oid: read_entry::PRE_READ,
        applies: &[Operation::Delete, Operation::Modify, Operation::ModifyDn],
        recorded: false,
        take: read_entry::take_pre_read,
    },
    ControlRow {
        oid: read_entry::POST_READ,
        applies: &[Operation::Add, Operation::Modify, Operation::ModifyDn],
        recorded: false,
        take: read_entry::take_post_read,
    },
    ControlRow {
        // Permissive modify.
        oid: "1.2.840.113556.1.4.1413",
        applies: &[Operation::Modify],
        recorded: true,
        take: take_permissive,
    },
    ControlRow {
        // Subtree delete.
        oid: "1.2.840.113556.1.4.805",
        applies: &[Operation::Delete],
        recorded: true,
        take: take_subtree,
    },
    // No-op, as the draft names it and as OpenLDAP does.
    ControlRow { oid: NO_OP[0], applies: UPDATES, recorded: false, take: take_no_op },
    ControlRow { oid: NO_OP[1], applies: UPDATES, recorded: false, take: take_no_op },
    ControlRow {
        // Relax rules.
        oid: "1.3.6.1.4.1.4203.666.5.12",
        applies: UPDATES,
        recorded: true,
        take: take_relax,
    },
    ControlRow {
        oid: transactions::SPECIFICATION,
        applies: &[
            Operation::Add,
            Operation::Delete,
            Operation::Modify,
            Operation::ModifyDn,
            Operation::PasswordModify,
        ],
        recorded: true,
        take: take_transaction,
    },
    ControlRow {
        oid: effective_rights::OID,
        applies: &[Operation::Search],
        recorded: false,
        take: effective_rights::take,
    },
    ControlRow {
        oid: account_usability::OID,
        applies: &[Operation::Search],
        recorded: false,
        take: account_usability::take,
    },
    ControlRow { oid: proxied::V1, applies: PROXIED, recorded: false, take: proxied::take_v1 },
    ControlRow { oid: proxied::V2, applies: PROXIED, recorded: false, take: proxied::take_v2 },
    ControlRow {
        oid: authorization_identity::REQUEST,
        applies: &[Operation::Bind],
        recorded: false,
        take: authorization_identity::take,
    },
    ControlRow {
        // Lazy commit.
        oid: "1.2.840.113556.1.4.619",
        applies: &[
            Operation::Add,
            Operation::Delete,
            Operation::Modify,
            Operation::ModifyDn,
            Operation::PasswordModify,
            Operation::EndTransaction,
        ],
        recorded: true,
        take: take_lazy,
    },
    ControlRow {
        oid: password_policy::REQUEST,
        applies: &[
            Operation::Bind,
            Operation::Search,
            Operation::Compare,
            Operation::Add,
            Operation::Delete,
            Operation::Modify,
            Operation::ModifyDn,
            Operation::PasswordModify,
            Operation::StartTransaction,
            Operation::Extended,
        ],
        recorded: false,
        take: take_password_policy,
    },
    ControlRow {
        // Don't use copy (RFC 6171): all that is here is the original.
        oid: "1.3.6.1.1.22",
        applies: &[Operation::Search, Operation::Compare],
        recorded: false,
        take: take_dont_use_copy,
    },
    ControlRow {
        // Session tracking (draft-wahl-ldap-session): for the access log alone.
        oid: "1.3.6.1.4.1.21008.108.63.1",
        applies: &[
            Operation::Bind,
            Operation::Search,
            Operation::Compare,
            Operation::Add,
            Operation::Delete,
            Operation::Modify,
            Operation::ModifyDn,
            Operation::PasswordModify,
            Operation::StartTransaction,
            Operation::EndTransaction,
            Operation::Extended,
        ],
        recorded: false,
        take: |_, _| Ok(()),
    },
];

/// The OIDs for `supportedControl`.
pub(crate) fn supported() -> impl Iterator<Item = &'static str> {
    CONTROLS.iter().map(|row| row.oid)
}

/// Of the controls that were sent, those that the asker may not use.
pub(crate) fn denied(
    controls: &Controls<'_>,
    worker: &mut Worker,
    session: &Session,
) -> Result<Vec<&'static str>, Refusal> {
    let access = session.access();
    if access.has(Privilege::BypassAcl) || controls.iter().next().is_none() {
        return Ok(Vec::new());
    }
    let directory = &worker.directory;
    let state = directory.state.load();
    let site = Site { directory, access, view: worker.snapshot.view()?, schema: &state.schema };
    Ok(guarded(&site, &DnKey::root(), |guard| {
        let known = CONTROLS.iter().map(|row| row.oid);
        let sent = known.filter(|oid| controls.iter().any(|control| control.oid == *oid));
        sent.filter(|oid| !guard.may_use_control(oid)).collect()
    }))
}

/// Reads the controls of a request. What is unknown, does not apply to the operation, or is
/// `denied` to the asker, is ignored unless it is critical.
pub(crate) fn take<'a>(
    controls: &Controls<'a>,
    operation: Operation,
    denied: &[&'static str],
) -> Result<RequestControls<'a>, Refusal> {
    let mut taken = RequestControls { denied: denied.to_vec(), ..RequestControls::default() };
    for control in controls.iter() {
        proxied::check_critical(&control)?;
        let row = CONTROLS.iter().find(|row| {
            row.oid == control.oid && row.applies.contains(&operation) && !denied.contains(&row.oid)
        });
        match row {
            Some(row) => {
                (row.take)(&mut taken, &control)?;
                if row.recorded && !taken.recorded.contains(&row.oid) {
                    taken.recorded.push(row.oid);
                }
            }
            None if control.critical => {
                return Err(Refusal::new(
                    ResultCode::UnavailableCriticalExtension,
                    format!("control {} is not supported for this operation", control.oid),
                ));
            }
            None => {}
        }
    }
    Ok(taken)
}

/// The refusal of a control whose value is not as it has to be.
fn malformed(what: &'static str) -> Refusal {
    Refusal::new(ResultCode::ProtocolError, what)
}

/// A control that says all by being there. Microsoft's clients send an empty value.
fn check_no_value(control: &Control<'_>) -> Result<(), Refusal> {
    if control.value.is_some_and(|value| !value.is_empty()) {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            format!("control {} has no value", control.oid),
        ));
    }
    Ok(())
}

fn take_manage_dsa_it<'a>(
    taken: &mut RequestControls<'a>,
    _control: &Control<'a>,
) -> Result<(), Refusal> {
    // RFC 3296 §3 has no value; one that is sent carries no meaning.
    taken.manage_dsa_it = true;
    Ok(())
}

fn take_reject_unindexed<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    taken.reject_unindexed = true;
    check_no_value(control)
}

fn take_permit_unindexed<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    taken.permit_unindexed = true;
    check_no_value(control)
}

fn take_permissive<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    taken.permissive = true;
    check_no_value(control)
}

fn take_subtree<'a>(taken: &mut RequestControls<'a>, control: &Control<'a>) -> Result<(), Refusal> {
    taken.subtree = true;
    check_no_value(control)
}

/// The OIDs of the no-op control: the draft's, and OpenLDAP's.
pub(crate) const NO_OP: [&str; 2] = ["1.3.6.1.4.1.4203.1.10.2", "1.3.6.1.4.1.4203.666.5.2"];

fn take_no_op<'a>(taken: &mut RequestControls<'a>, control: &Control<'a>) -> Result<(), Refusal> {
    taken.no_op = true;
    check_no_value(control)
}

fn take_relax<'a>(taken: &mut RequestControls<'a>, control: &Control<'a>) -> Result<(), Refusal> {
    taken.relax = true;
    check_no_value(control)
}

fn take_lazy<'a>(taken: &mut RequestControls<'a>, control: &Control<'a>) -> Result<(), Refusal> {
    taken.lazy = true;
    check_no_value(control)
}

fn take_password_policy<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    taken.password_policy = true;
    check_no_value(control)
}

fn take_dont_use_copy<'a>(
    _taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    if !control.critical {
        return Err(malformed("the don't use copy control must be critical"));
    }
    check_no_value(control)
}

fn take_transaction<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    if !control.critical {
        return Err(malformed("the transaction specification control must be critical"));
    }
    if taken.transaction.is_some() {
        return Err(malformed("the transaction specification control was sent twice"));
    }
    let value = control
        .value
        .ok_or_else(|| malformed("the transaction specification control lacks its value"))?;
    taken.transaction = Some(value);
    Ok(())
}
