//! Delete (RFC 4511 §4.8).

use aci::Purpose;
use ldap::dn::Dn;
use ldap::message::{DeleteRequest, MessageId, ResponseKind};
use ldap::result::ResultCode;
use schema::{Change, DeleteChange, DnKey};

use crate::controls::RequestControls;
use crate::decide::{Decide, Decision, WriteOp};
use crate::ops::target;
use crate::ops::update::{self, Named};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::worker::{Next, Worker};

/// A delete, resolved.
pub(crate) struct Delete {
    key: DnKey,
    dn: Dn,
}

/// Resolves the request and hands it to the writer.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &DeleteRequest<'_>,
    controls: &RequestControls<'_>,
    id: MessageId,
) -> Result<Next, Refusal> {
    let Named { dn, key, .. } = update::named_stored(worker, session, request.name)?;
    let op = WriteOp::Delete(Delete { key, dn });
    Ok(update::pending(worker, session, controls, (id, ResponseKind::Delete), op))
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Delete) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(&decide.view, decide.state, &lookup)?;
    if decide.view.child_count(id)? > 0 {
        return Err(Refusal::new(
            ResultCode::NotAllowedOnNonLeaf,
            "the entry has subordinates; delete them first",
        ));
    }
    let change = Change::Delete(DeleteChange { id, dn: op.dn.clone(), attributes: Vec::new() });
    Ok(Decision::change(decide.access.permit(change, Purpose::Update)?))
}
