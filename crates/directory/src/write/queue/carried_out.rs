//! Requests of other nodes that were carried out before, and are asked for again.
//!
//! Invariant: what has happened is told, whatever there is room or a right for now.

use ldap::result::ResultCode;

use crate::directory::Directory;
use crate::request::controls::write::WriteControls;
use crate::request::refusal::Refusal;
use crate::write::request::{WriteOp, WriteRequest};
use crate::write::response::WriteResponse;
use crate::write::subtree_delete::deleted_tree;

/// The answer to a request of another node that was carried out before, under the same name. What
/// was begun of the deletion of a tree has to go on.
pub(super) fn carried_out(directory: &Directory, request: &WriteRequest) -> Option<WriteResponse> {
    if !request.is_forwarded {
        return None;
    }
    let last = directory.queue.forwarding()?.known().applied(&request.request)?;
    let refusal = match &request.op {
        WriteOp::SubtreeDelete(op) if op.is_begun() => return None,
        WriteOp::SubtreeDelete(op) => match deleted_tree(directory, op, last) {
            Ok(true) if reads_entry(&request.controls, &request.op) => Refusal::value_lost(),
            Ok(true) => Refusal::new(ResultCode::Success, ""),
            Ok(false) => return None,
            Err(refusal) => refusal,
        },
        WriteOp::StateChange(_) => Refusal::value_lost(),
        op if op.value().is_some() => Refusal::value_lost(),
        op if reads_entry(&request.controls, op) => Refusal::value_lost(),
        _ => Refusal::new(ResultCode::Success, ""),
    };
    Some(refusal.into())
}

/// Whether an update wants to be told of its entry.
fn reads_entry(controls: &WriteControls, op: &WriteOp) -> bool {
    let reads =
        |controls: &WriteControls| controls.pre_read.is_some() || controls.post_read.is_some();
    reads(controls)
        || matches!(op, WriteOp::Transaction(all)
            if all.updates.iter().any(|one| reads(&one.controls)))
}
