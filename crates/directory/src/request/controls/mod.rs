//! Request controls: read before the operation, refused when critical and unknown
//! (RFC 4511 §4.1.11). A file reads one control; the table here puts what it reads in its field.

pub(crate) mod assertion;
pub(crate) mod authorization_identity;
pub(crate) mod changelog_cookie;
pub(crate) mod dereference;
pub(crate) mod effective_rights;
pub(crate) mod entry_count;
pub(crate) mod join;
pub(crate) mod matched_values;
pub(crate) mod paged;
pub(crate) mod position;
pub(crate) mod proxied;
mod purpose;
pub(crate) mod read_entry;
mod read_level;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod sort;
mod streams;
mod subentries;
pub(crate) mod transaction;
pub(crate) mod uniqueness;
mod value;
pub(crate) mod vlv;
pub(crate) mod write;

use ldap::control_value::following;
use ldap::control_value::read_level::{OID as READ_LEVEL, POSITION_OID};
use ldap::control_value::usability;
use ldap::message::{Control, Controls, OperationKind, Request};
use ldap::result::ResultCode;

use self::request::RequestControls;
use self::value::{check_no_value, malformed, once, required};
use self::write::NO_OP;
use crate::access::guard::Guard;
use crate::password_policy;
use crate::request::refusal::Refusal;
use crate::write::password_modify::value::OID as PASSWORD_MODIFY;
use crate::write::transactions;

/// To which operations a control applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    /// Those of this kind; of extended operations those that are not named below.
    Kind(OperationKind),
    PasswordModify,
    StartTransaction,
    EndTransaction,
}

const BIND: Operation = Operation::Kind(OperationKind::Bind);
const SEARCH: Operation = Operation::Kind(OperationKind::Search);
const COMPARE: Operation = Operation::Kind(OperationKind::Compare);
const ADD: Operation = Operation::Kind(OperationKind::Add);
const DELETE: Operation = Operation::Kind(OperationKind::Delete);
const MODIFY: Operation = Operation::Kind(OperationKind::Modify);
const MODIFY_DN: Operation = Operation::Kind(OperationKind::ModifyDn);
const EXTENDED: Operation = Operation::Kind(OperationKind::Extended);

impl Operation {
    /// Which one a request asks for; `None` where there is no answer.
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        Some(match request {
            Request::Unbind | Request::Abandon(_) => return None,
            Request::Extended(extended) => match extended.oid {
                PASSWORD_MODIFY => Self::PasswordModify,
                transactions::START => Self::StartTransaction,
                transactions::END => Self::EndTransaction,
                _ => EXTENDED,
            },
            other => Self::Kind(other.kind()),
        })
    }

    /// Whether every answer says what a password policy has to say, to whoever asks: nothing, if
    /// there is nothing (draft-behera-ldap-password-policy-10 §6.2). Others tell of refusals alone.
    pub(crate) fn tells_policy(self) -> bool {
        matches!(self, BIND | COMPARE | ADD | MODIFY | Self::PasswordModify)
    }
}

/// One supported control: a row here is its entry in the root DSE and its place in `take`.
struct ControlRow {
    oid: &'static str,
    applies: &'static [Operation],
    /// Whether the change records note that it was there.
    recorded: bool,
    put: Put,
}

/// What is done with a control.
enum Put {
    /// It says all by being there: this field is set.
    Flag(for<'c, 'a> fn(&'c mut RequestControls<'a>) -> &'c mut bool),
    /// It is read, and put into its field.
    Value(for<'a> fn(&mut RequestControls<'a>, &Control<'a>) -> Result<(), Refusal>),
}

impl ControlRow {
    const fn flag(
        oid: &'static str,
        applies: &'static [Operation],
        field: for<'c, 'a> fn(&'c mut RequestControls<'a>) -> &'c mut bool,
    ) -> Self {
        Self { oid, applies, recorded: false, put: Put::Flag(field) }
    }

    const fn value(
        oid: &'static str,
        applies: &'static [Operation],
        put: for<'a> fn(&mut RequestControls<'a>, &Control<'a>) -> Result<(), Refusal>,
    ) -> Self {
        Self { oid, applies, recorded: false, put: Put::Value(put) }
    }

    /// The change records note that it was there.
    const fn recorded(mut self) -> Self {
        self.recorded = true;
        self
    }
}

const SEARCHES: &[Operation] = &[SEARCH];

/// The updates of RFC 4511.
const UPDATES: &[Operation] = &[ADD, DELETE, MODIFY, MODIFY_DN];

/// Those of RFC 4511 that are about an entry.
const ABOUT_ENTRIES: &[Operation] = &[SEARCH, COMPARE, ADD, DELETE, MODIFY, MODIFY_DN];

/// What is carried out as somebody else. RFC 5805 §4.4 has a transaction carried out so, and none
/// of its updates; here each update says as whom, and the start takes no such control.
const PROXIED: &[Operation] =
    &[SEARCH, COMPARE, ADD, DELETE, MODIFY, MODIFY_DN, Operation::PasswordModify, EXTENDED];

/// Whose response says what a password policy has to say.
const WITH_POLICY: &[Operation] = &[
    BIND,
    SEARCH,
    COMPARE,
    ADD,
    DELETE,
    MODIFY,
    MODIFY_DN,
    Operation::PasswordModify,
    Operation::StartTransaction,
    EXTENDED,
];

const ALL: &[Operation] = &[
    BIND,
    SEARCH,
    COMPARE,
    ADD,
    DELETE,
    MODIFY,
    MODIFY_DN,
    Operation::PasswordModify,
    Operation::StartTransaction,
    Operation::EndTransaction,
    EXTENDED,
];

/// What may be part of a transaction (RFC 5805 §2.2).
const OF_TRANSACTIONS: &[Operation] = &[ADD, DELETE, MODIFY, MODIFY_DN, Operation::PasswordModify];

/// What is made durable.
const DURABLE: &[Operation] =
    &[ADD, DELETE, MODIFY, MODIFY_DN, Operation::PasswordModify, Operation::EndTransaction];

/// What is answered with the state of the data that it read or left.
const WITH_POSITION: &[Operation] = &[
    SEARCH,
    COMPARE,
    ADD,
    DELETE,
    MODIFY,
    MODIFY_DN,
    Operation::PasswordModify,
    Operation::EndTransaction,
];

/// What the control of who follows another server is called.
const FOLLOWING_NAME: &str = "the following control";

/// All supported controls, in the order of the root DSE.
const CONTROLS: &[ControlRow] = &[
    // ManageDsaIT. RFC 3296 §3 has no value; one that is sent carries no meaning.
    ControlRow::value("2.16.840.1.113730.3.4.2", ABOUT_ENTRIES, |controls, _| {
        controls.manage_dsa_it = true;
        Ok(())
    })
    .recorded(),
    ControlRow::value(paged::OID, SEARCHES, |controls, control| {
        once(&mut controls.paged, paged::NAME, || paged::read(control))
    }),
    ControlRow::value(sort::OID, SEARCHES, |controls, control| {
        once(&mut controls.sort, sort::NAME, || sort::read(control))
    }),
    ControlRow::value(vlv::OID, SEARCHES, |controls, control| {
        once(&mut controls.vlv, vlv::NAME, || vlv::read(control))
    }),
    ControlRow::value(subentries::OID, SEARCHES, put_subentries),
    ControlRow::value(subentries::LDUP, SEARCHES, put_subentries),
    ControlRow::value(matched_values::OID, SEARCHES, |controls, control| {
        once(&mut controls.matched_values, matched_values::NAME, || matched_values::read(control))
    }),
    ControlRow::value(dereference::OID, SEARCHES, |controls, control| {
        once(&mut controls.dereference, dereference::NAME, || dereference::read(control))
    }),
    ControlRow::value(join::OID, SEARCHES, |controls, control| {
        once(&mut controls.join, join::NAME, || join::read(control))
    }),
    ControlRow::value(changelog_cookie::OID, SEARCHES, |controls, control| {
        let field = &mut controls.changelog_cookie;
        once(field, changelog_cookie::NAME, || changelog_cookie::read(control))
    }),
    ControlRow::value(entry_count::OID, SEARCHES, |controls, control| {
        once(&mut controls.entry_count, entry_count::NAME, || entry_count::read(control))
    }),
    // Real attributes only, and virtual attributes only.
    ControlRow::flag("2.16.840.1.113730.3.4.17", SEARCHES, |all| &mut all.real_only),
    ControlRow::flag("2.16.840.1.113730.3.4.19", SEARCHES, |all| &mut all.virtual_only),
    // Reject unindexed search, and permit it.
    ControlRow::flag("1.3.6.1.4.1.30221.2.5.54", SEARCHES, |all| &mut all.reject_unindexed),
    ControlRow::flag("1.3.6.1.4.1.30221.2.5.55", SEARCHES, |all| &mut all.permit_unindexed),
    ControlRow::value(assertion::OID, ABOUT_ENTRIES, |controls, control| {
        once(&mut controls.assertion, assertion::NAME, || assertion::read(control))
    }),
    ControlRow::value(read_entry::PRE_READ, &[DELETE, MODIFY, MODIFY_DN], |controls, control| {
        once(&mut controls.pre_read, read_entry::NAME, || read_entry::read(control))
    }),
    ControlRow::value(read_entry::POST_READ, &[ADD, MODIFY, MODIFY_DN], |controls, control| {
        once(&mut controls.post_read, read_entry::NAME, || read_entry::read(control))
    }),
    ControlRow::value(uniqueness::OID, &[ADD, MODIFY, MODIFY_DN], |controls, control| {
        uniqueness::put(&mut controls.unique, control)
    }),
    // Permissive modify.
    ControlRow::flag("1.2.840.113556.1.4.1413", &[MODIFY], |all| &mut all.permissive).recorded(),
    // Subtree delete.
    ControlRow::flag("1.2.840.113556.1.4.805", &[DELETE], |all| &mut all.subtree).recorded(),
    // No-op, as the draft names it and as OpenLDAP does.
    ControlRow::flag(NO_OP[0], UPDATES, |all| &mut all.no_op),
    ControlRow::flag(NO_OP[1], UPDATES, |all| &mut all.no_op),
    // Relax rules.
    ControlRow::flag("1.3.6.1.4.1.4203.666.5.12", UPDATES, |all| &mut all.relax).recorded(),
    ControlRow::value(following::OID, UPDATES, |controls, control| {
        once(&mut controls.following, FOLLOWING_NAME, || {
            str::from_utf8(required(control, FOLLOWING_NAME)?)
                .map_err(|_| malformed("the session that follows is not UTF-8"))
        })
    }),
    ControlRow::value(transaction::SPECIFICATION, OF_TRANSACTIONS, |controls, control| {
        transaction::check_critical(control)?;
        once(&mut controls.transaction, transaction::NAME, || transaction::read(control))
    })
    .recorded(),
    ControlRow::value(effective_rights::OID, SEARCHES, |controls, control| {
        let field = &mut controls.effective_rights;
        once(field, effective_rights::NAME, || effective_rights::read(control))
    }),
    ControlRow::flag(usability::OID, SEARCHES, |all| &mut all.account_usability),
    ControlRow::value(proxied::V1, PROXIED, |controls, control| {
        once(&mut controls.proxied, proxied::NAME, || proxied::read_v1(control))
    }),
    ControlRow::value(proxied::V2, PROXIED, |controls, control| {
        once(&mut controls.proxied, proxied::NAME, || proxied::read_v2(control))
    }),
    ControlRow::flag(authorization_identity::REQUEST, &[BIND], |all| {
        &mut all.authorization_identity
    }),
    // Lazy commit.
    ControlRow::flag("1.2.840.113556.1.4.619", DURABLE, |all| &mut all.lazy).recorded(),
    ControlRow::flag(password_policy::REQUEST, WITH_POLICY, |all| &mut all.password_policy),
    // Don't use copy (RFC 6171): all that is here is the original.
    ControlRow::value("1.3.6.1.1.22", &[SEARCH, COMPARE], |_, control| match control.critical {
        true => check_no_value(control),
        false => Err(malformed("the don't use copy control must be critical")),
    }),
    ControlRow::value(READ_LEVEL, &[SEARCH, COMPARE], |controls, control| {
        once(&mut controls.read_level, read_level::NAME, || read_level::read(control))
    }),
    ControlRow::value(POSITION_OID, WITH_POSITION, |controls, control| {
        once(&mut controls.position, position::NAME, || position::read(control))
    }),
    ControlRow::value(streams::PERSISTENT_SEARCH, SEARCHES, |controls, control| {
        once(&mut controls.persistent, streams::PERSISTENT_SEARCH_NAME, || {
            streams::read_persistent_search(control)
        })
    }),
    ControlRow::value(streams::SYNC, SEARCHES, |controls, control| {
        once(&mut controls.sync, streams::SYNC_NAME, || streams::read_sync(control))
    }),
    ControlRow::value(purpose::OID, ALL, |controls, control| {
        once(&mut controls.purpose, purpose::NAME, || purpose::read(control))
    }),
    // Session tracking (draft-wahl-ldap-session): for the access log alone.
    ControlRow::value("1.3.6.1.4.1.21008.108.63.1", ALL, |_, _| Ok(())),
];

/// Both forms of the control fill one field.
fn put_subentries<'a>(
    controls: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    once(&mut controls.subentries, subentries::NAME, || subentries::read(control))
}

/// The OIDs for `supportedControl`.
pub(crate) fn supported() -> impl Iterator<Item = &'static str> {
    CONTROLS.iter().map(|row| row.oid)
}

/// Of the controls that were sent, those that the asker may not use.
pub(crate) fn denied(controls: &Controls<'_>, guard: &Guard<'_>) -> Vec<&'static str> {
    let sent = supported().filter(|oid| controls.iter().any(|control| control.oid == *oid));
    sent.filter(|oid| !guard.may_use_control(oid)).collect()
}

/// Reads the controls of a request into `taken`, which are large and stay where they are. What is
/// unknown, does not apply to the operation, or is
/// `denied` to the asker, is ignored unless it is critical.
pub(crate) fn take<'a>(
    taken: &mut RequestControls<'a>,
    controls: &Controls<'a>,
    operation: Operation,
    denied: Vec<&'static str>,
) -> Result<(), Refusal> {
    taken.denied = denied;
    for control in controls.iter() {
        proxied::check_critical(&control)?;
        let row = CONTROLS.iter().find(|row| {
            row.oid == control.oid
                && row.applies.contains(&operation)
                && !taken.denied.contains(&row.oid)
        });
        match row {
            Some(row) => {
                match row.put {
                    Put::Flag(field) => {
                        check_no_value(&control)?;
                        *field(taken) = true;
                    }
                    Put::Value(put) => put(taken, &control)?,
                }
                if control.critical {
                    taken.critical.push(row.oid);
                }
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
    Ok(())
}
