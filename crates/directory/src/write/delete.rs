//! Delete (RFC 4511 §4.8).

use history::record::DELETED_ATTRIBUTES_MAX_BYTES;
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{DeleteChange, EntryRead as _};
use store::StoredEntry;

use crate::access::guard;
use crate::config::index_config;
use crate::directory::Directory;
use crate::read::excerpt::too_many_at_once;
use crate::read::target;
use crate::request::controls::request::RequestControls;
use crate::request::refusal::Refusal;
use crate::tasks::recurring;
use crate::write::checks;
use crate::write::decision::{Decide, Decision};
use crate::write::named::{self, Named};
use crate::write::request::{Delete, SubtreeDelete, WriteOp};

/// Resolves the request for the entry of this name.
pub(crate) fn resolve(
    directory: &Directory,
    named: Named,
    controls: &RequestControls<'_>,
) -> Result<WriteOp, Refusal> {
    if named.state.virtual_trees.hold(&named.key) {
        return match recurring::delete(directory, &named)? {
            Some(op) => Ok(op),
            None => index_config::delete(&named),
        };
    }
    let Named { dn, key, .. } = named::stored(named)?;
    Ok(if controls.subtree {
        WriteOp::SubtreeDelete(SubtreeDelete::new(key, dn))
    } else {
        WriteOp::Delete(Delete { key, dn })
    })
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Delete) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    if decide.view.child_count(id)? > 0 {
        return Err(Refusal::new(
            ResultCode::NotAllowedOnNonLeaf,
            "the entry has subordinates; delete them first",
        ));
    }
    let stored = guard::stored(decide.view, id)?;
    let (change, _) = change(&stored)?;
    Ok(Decision::change(checks::permit_delete(decide, &stored, change)?))
}

/// The change that deletes an entry, and the octets of its values. What the entry held goes into
/// the change, so that it can be told and undone, unless it is very large.
pub(crate) fn change(stored: &StoredEntry<'_>) -> Result<(DeleteChange, usize), Refusal> {
    let (mut listed, mut apart) = (0, 0_u64);
    for (description, list) in stored.outside()? {
        let count = list.count()?;
        if count > LISTED_DELETED_MAX {
            return Err(too_many_at_once(description, LISTED_DELETED_MAX));
        }
        listed += count;
        apart = apart.saturating_add(list.octets_known());
    }
    if listed > LISTED_KEPT_MAX || apart > DELETED_ATTRIBUTES_MAX_BYTES as u64 {
        let dn = Dn::parse_stored(stored.dn()).map_err(|error| {
            Refusal::new(ResultCode::Other, format!("the entry has a damaged name: {error}"))
        })?;
        let octets = listed.saturating_mul(LISTED_VALUE_BYTES).saturating_add(apart);
        let octets = usize::try_from(octets).unwrap_or(usize::MAX);
        return Ok((DeleteChange { id: stored.id(), dn, attributes: Vec::new() }, octets));
    }
    let entry = stored.to_entry()?;
    let mut octets = 0;
    for attribute in entry.attributes() {
        octets += attribute.values.iter().map(Vec::len).sum::<usize>();
    }
    let attributes = if octets > DELETED_ATTRIBUTES_MAX_BYTES {
        Vec::new()
    } else {
        entry.attributes().to_vec()
    };
    Ok((DeleteChange { id: stored.id(), dn: entry.name().clone(), attributes }, octets))
}

/// So many values of an attribute that are outside of the record may go with their entry.
const LISTED_DELETED_MAX: u64 = 1_000_000;
/// So many values outside of the record a change tells of a deleted entry; with more it tells
/// nothing.
const LISTED_KEPT_MAX: u64 = 100_000;
/// What a name takes in memory, about.
const LISTED_VALUE_BYTES: u64 = 64;
