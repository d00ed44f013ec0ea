//! What an update takes in memory while it waits.
//!
//! Invariant: parts of which a client may send many are counted one by one; the rest is less than
//! [`FACTOR`] times what it was sent in.

use ldap::dn::{Ava, Dn};
use schema::{ResolvedFilter, values_held_bytes};

use crate::request::controls::uniqueness::Uniqueness;
use crate::request::controls::write::ReadEntry;
use crate::write::request::{Modification, WriteOp, WriteRequest};

impl WriteRequest {
    /// Octets that it takes, about; `octets` is what its message had.
    pub(crate) fn held_bytes(&self, octets: usize) -> usize {
        let assertion = self.controls.assertion.as_ref().map_or(0, ResolvedFilter::held_bytes);
        let read = [&self.controls.pre_read, &self.controls.post_read].into_iter().flatten();
        let read = read.map(|one: &ReadEntry| one.selection.held_bytes()).sum::<usize>();
        let unique = self.controls.unique.iter().map(Uniqueness::held_bytes).sum::<usize>();
        let op = match &self.op {
            WriteOp::Add(op) => dn_bytes(op.entry.name()) + op.entry.held_bytes(),
            WriteOp::Modify(op) => {
                dn_bytes(&op.dn) + op.modifications.iter().map(modification_bytes).sum::<usize>()
            }
            // They were counted when they came, and are until it is decided.
            WriteOp::Transaction(_) => 0,
            // Made by the server, which sees to it that they are few.
            WriteOp::Rehash(_)
            | WriteOp::AccountEvents(_)
            | WriteOp::Level(_)
            | WriteOp::SinkProgress(_) => 0,
            WriteOp::Delete(_)
            | WriteOp::SubtreeDelete(_)
            | WriteOp::ModifyDn(_)
            | WriteOp::PasswordModify(_)
            | WriteOp::StateChange(_)
            | WriteOp::IndexConfig(_)
            | WriteOp::SettingConfig(_) => octets.saturating_mul(FACTOR),
        };
        size_of::<Self>() + assertion + read + unique + op
    }
}

fn modification_bytes(one: &Modification) -> usize {
    size_of::<Modification>() + one.description.held_bytes() + values_held_bytes(&one.values)
}

/// A name and the key that is made of it.
fn dn_bytes(dn: &Dn) -> usize {
    let of_one = |ava: &Ava| AVA_BYTES + 3 * ava.value.len();
    dn.rdns().iter().flat_map(|rdn| rdn.avas()).map(of_one).sum()
}

/// Of what is no list of values, each octet that came takes so many at the most.
const FACTOR: usize = 8;

/// One assertion of a name, besides its value.
const AVA_BYTES: usize = 128;
