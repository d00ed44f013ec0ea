//! Request controls: taken before the operation, refused when critical and unknown
//! (RFC 4511 §4.1.11).

pub(crate) mod paged;

use ldap::message::{Control, Controls};
use ldap::result::ResultCode;

use self::paged::PagedRequest;
use crate::refusal::Refusal;

/// The controls of one request that this server acts on.
#[derive(Debug, Default)]
pub(crate) struct RequestControls<'a> {
    /// Referral objects are treated as ordinary entries (RFC 3296 §3).
    pub(crate) manage_dsa_it: bool,
    /// Simple paged results (RFC 2696).
    pub(crate) paged: Option<PagedRequest<'a>>,
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
    Extended,
}

/// One supported control: a row here is its entry in the root DSE and its place in `take`.
struct ControlRow {
    oid: &'static str,
    applies: &'static [Operation],
    take: for<'a> fn(&mut RequestControls<'a>, &Control<'a>) -> Result<(), Refusal>,
}

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
        take: take_manage_dsa_it,
    },
    ControlRow { oid: paged::OID, applies: &[Operation::Search], take: paged::take },
];

/// The OIDs for `supportedControl`.
pub(crate) fn supported() -> impl Iterator<Item = &'static str> {
    CONTROLS.iter().map(|row| row.oid)
}

/// Reads the controls of a request. What is unknown, or does not apply to the operation, is ignored
/// unless it is critical.
pub(crate) fn take<'a>(
    controls: &Controls<'a>,
    operation: Operation,
) -> Result<RequestControls<'a>, Refusal> {
    let mut taken = RequestControls::default();
    for control in controls.iter() {
        let row =
            CONTROLS.iter().find(|row| row.oid == control.oid && row.applies.contains(&operation));
        match row {
            Some(row) => (row.take)(&mut taken, &control)?,
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

fn take_manage_dsa_it<'a>(
    taken: &mut RequestControls<'a>,
    _control: &Control<'a>,
) -> Result<(), Refusal> {
    // RFC 3296 §3 has no value; one that is sent carries no meaning.
    taken.manage_dsa_it = true;
    Ok(())
}
