//! ModifyDN (RFC 4511 §4.9): new name, new place, the whole subtree with it.

use aci::{Permitted, Right};
use history::record::GATHER_LEVEL;
use ldap::dn::{Dn, RDN_COUNT_MAX, Rdn};
use ldap::message::{ModifyDnRequest, ModifyOperation, NAME_LENGTH_MAX_BYTES};
use ldap::result::ResultCode;
use schema::{
    AttributeDescription, Change, Entry, EntryId, Mode, RenameChange, Schema, validate_tolerant,
};
use store::{Resolved, StoredEntry};

use crate::access::guard;
use crate::assignment::membership;
use crate::config::record_level;
use crate::enforcement::broken::Broken;
use crate::enforcement::placement::{self, Placed};
use crate::read::search::aliases;
use crate::read::{excerpt, target};
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::context_rename;
use crate::write::decision::{Decide, Decision};
use crate::write::named::{self, Named};
use crate::write::passes::Passes;
use crate::write::references::Gathering;
use crate::write::request::{Modification, ModifyDn, Preparation, WriteOp};
use crate::write::{delta, relax, stamp};

/// Resolves the request.
pub(crate) fn resolve(worker: &Worker, request: &ModifyDnRequest<'_>) -> Result<WriteOp, Refusal> {
    let Named { state, dn, key } = named::named_stored(&worker.directory, request.name)?;
    let schema = &state.schema;
    let new_rdn = Rdn::parse(request.new_rdn)?;
    checks::check_rdn(&new_rdn, schema)?;
    let new_superior = match request.new_superior {
        None => None,
        Some(text) => {
            let dn = Dn::parse(text)?;
            let key = named::key(schema, &dn)?;
            if state.virtual_trees.hold(&key) {
                return Err(named::refuse_special());
            }
            Some((dn, key))
        }
    };
    let delete_old_rdn = request.delete_old_rdn;
    let preparation = Preparation::default();
    Ok(WriteOp::ModifyDn(ModifyDn { key, dn, new_rdn, delete_old_rdn, new_superior, preparation }))
}

/// Decides on the next step; false beside it when there is more to do. All steps but the last only
/// have values kept by number that name what is renamed, where these are very many.
pub(crate) fn decide_step(
    decide: &mut Decide<'_>,
    op: &mut ModifyDn,
) -> Result<(Decision, bool), Refusal> {
    let step = |changes| (Decision { changes, ..Decision::default() }, false);
    // Before each step: what is refused is refused before anything more is done for it.
    let decision = self::decide(decide, op)?;
    let is_renamed = |change: &Permitted<Change>| match change.get() {
        Change::Rename(change) => {
            named::key(&decide.state.schema, &change.new_dn).is_ok_and(|new| new != op.key)
        }
        _ => false,
    };
    if decide.controls.no_op || !decision.changes.iter().any(is_renamed) {
        return Ok((decision, true));
    }
    Ok(match prepare(decide, op)? {
        None => (decision, true),
        Some(changes) => step(changes),
    })
}

/// The next step of what is to be done before the rename, which may find nothing to change; none
/// when the rename may follow.
fn prepare(
    decide: &Decide<'_>,
    op: &mut ModifyDn,
) -> Result<Option<Vec<Permitted<Change>>>, Refusal> {
    let now = decide.directory.clock.elapsed();
    if matches!(op.preparation, Preparation::Unknown) {
        // Not where some member could not read it.
        let is_known = record_level::check(decide.directory, decide.view, GATHER_LEVEL).is_ok();
        let gathering = match is_known {
            true => Gathering::begin(decide.view, &decide.state.schema, &op.key, now).map_err(
                |blocked| {
                    let may_read = |stored: &StoredEntry<'_>, one: &AttributeDescription| {
                        let rights = decide.guard.on(stored);
                        rights.may_see() && rights.may_read(one)
                    };
                    blocked.refusal(&may_read, decide.view)
                },
            )?,
            false => None,
        };
        op.preparation = match gathering {
            Some(gathering) => {
                gathering.announce(&op.dn);
                Preparation::Gathering(Box::new(gathering))
            }
            None => Preparation::Done,
        };
    }
    let Preparation::Gathering(gathering) = &mut op.preparation else { return Ok(None) };
    let changes = gathering.step(decide.view, &op.key)?;
    if !changes.is_empty() || !gathering.is_over() {
        return Ok(Some(changes));
    }
    gathering.tell_end(&op.dn, now);
    op.preparation = Preparation::Done;
    Ok(None)
}

/// Decides on what the entries before it left.
fn decide(decide: &mut Decide<'_>, op: &ModifyDn) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let is_context = decide.is_context(&op.key);
    let stored = guard::stored(decide.view, id)?;
    let mut passes = Passes::new(decide.directory.limits().modify_work_max);
    let before = excerpt::load(
        decide.view,
        id,
        &decide.state.schema,
        &named_values(op, decide),
        &mut passes,
    )?;
    let (new_parent, parent_dn) = match is_context {
        true => (EntryId::ROOT, context_rename::superior(op)),
        false => new_place(decide, op, id)?,
    };
    let schema = &decide.state.schema;
    let new_dn = parent_dn.child(op.new_rdn.clone());
    check_length(&new_dn)?;
    let new_key = named::key(schema, &new_dn)?;
    if is_context {
        // Only who may rename a naming context learns what else has such a name.
        context_rename::check_privilege(decide)?;
    }
    if let Resolved::Found(other) = decide.view.resolve(&new_key)?
        && other != id
    {
        return Err(Refusal::new(
            ResultCode::EntryAlreadyExists,
            "an entry with the new name exists already",
        ));
    }
    let mut changes = match is_context {
        true => context_rename::decide(decide, &op.key, &new_dn)?,
        false => Vec::new(),
    };
    let after = renamed(&before, &new_dn, op, decide)?;
    let modes = decide.schema_modes();
    let mut tolerance = modes.tolerance();
    let structure = validate_tolerant(&after, schema, Mode::Import, &mut tolerance)?;
    let change = Change::Rename(RenameChange {
        id,
        old_dn: before.name().clone(),
        new_parent,
        new_rdn: op.new_rdn.clone(),
        key: delta::name_key(&new_key, new_parent),
        deltas: delta::deltas(&before, &after),
        new_dn,
    });
    let is_moved = op.new_superior.is_some() && !is_context;
    let superior = is_moved.then(|| guard::stored(decide.view, new_parent));
    let superior = superior.transpose()?;
    let onto = superior.as_ref().map(|superior| decide.guard.on(superior));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&stored),
        onto: onto.as_ref(),
        after: &after,
        passwords: Passwords::Untouched,
        given: &[],
    };
    let change = checks::permit(decide, &checked, change)?;
    if new_key != op.key {
        membership::check_places(decide, &op.key)?;
    }
    let (name, structural) = (after.name(), &*structure.structural);
    let placed = Placed { name, structural, superior: new_parent, stored: Some(&stored) };
    placement::check(decide, &modes, &placed, &mut tolerance)?;
    let broken = Broken::of(name, tolerance, &modes);
    // Last: it is what the request is about.
    changes.push(change);
    Ok(Decision { changes, broken, ..Decision::default() })
}

/// The values of the new name, as modifications that add them: these are looked at.
fn named_values(op: &ModifyDn, decide: &Decide<'_>) -> Vec<Modification> {
    let avas = op.new_rdn.avas().iter().filter_map(|ava| {
        let description = decide.state.schema.describe(&ava.attribute).ok()?;
        let values = vec![ava.value.clone()];
        Some(Modification { operation: ModifyOperation::Add, description, values })
    });
    avas.collect()
}

/// Refuses a name that no request could name again. As it is written: escapes make it longer.
fn check_length(name: &Dn) -> Result<(), Refusal> {
    let is_short =
        name.rdns().len() <= RDN_COUNT_MAX && name.to_string().len() <= NAME_LENGTH_MAX_BYTES;
    match is_short {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!(
                "the new name would be longer than {NAME_LENGTH_MAX_BYTES} bytes or \
                 {RDN_COUNT_MAX} levels"
            ),
        )),
    }
}

/// A refusal to look for the new superior.
fn of_superior(mut refusal: Refusal) -> Refusal {
    if refusal.code == ResultCode::NoSuchObject {
        refusal.diagnostic = "the new superior does not exist".into();
    }
    refusal
}

/// The entry below which the renamed one goes.
fn new_place(decide: &Decide<'_>, op: &ModifyDn, id: EntryId) -> Result<(EntryId, Dn), Refusal> {
    let stored = decide
        .view
        .entry(id)?
        .ok_or_else(|| Refusal::no_such_object(String::new(), "no such entry"))?;
    let Some((dn, key)) = &op.new_superior else {
        let parent = stored.parent();
        return Ok((parent, Dn::parse_stored(&decide.view.dn(parent)?)?));
    };
    let name = dn.to_string();
    if decide.view.resolve(key)? == Resolved::NoContext {
        return Err(Refusal::new(
            ResultCode::AffectsMultipleDsas,
            "the new superior is in none of the naming contexts of this server",
        ));
    }
    let lookup = decide.lookup(&name, key);
    let superior =
        target::find(decide.view, decide.state, decide.guard, &lookup).map_err(of_superior)?;
    let Some(entry) = decide.view.entry(superior)? else {
        return Err(Refusal::no_such_object(String::new(), "the new superior does not exist"));
    };
    if !decide.guard.on(&entry).may_entry(Right::Import) {
        return Err(of_superior(decide.guard.denied(decide.view, &entry)?));
    }
    if superior == id || decide.view.is_within(&entry, id)? {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "an entry cannot be moved below itself",
        ));
    }
    aliases::refuse_below(&entry, decide.state.schema.well_known())?;
    Ok((superior, Dn::parse_stored(&decide.view.dn(superior)?)?))
}

/// The entry under its new name: the values of the new RDN are added, those of the old one go if
/// the client says so (RFC 4511 §4.9).
fn renamed(
    before: &Entry,
    new_dn: &Dn,
    op: &ModifyDn,
    decide: &Decide<'_>,
) -> Result<Entry, Refusal> {
    let schema = &decide.state.schema;
    let mut after = before.clone();
    if op.delete_old_rdn {
        remove_rdn_values(&mut after, before, schema)?;
    }
    after.rename(new_dn.clone());
    for ava in op.new_rdn.avas() {
        let description = describe(schema, &ava.attribute)?;
        relax::check_settable(&description, schema, decide.controls.relax)?;
        if !after.has_value(schema, &description, &ava.value) {
            after.add_values(schema, &description, vec![ava.value.clone()])?;
        }
    }
    stamp::stamp_modified(&mut after, schema, &decide.stamp, &[])?;
    Ok(after)
}

fn remove_rdn_values(after: &mut Entry, before: &Entry, schema: &Schema) -> Result<(), Refusal> {
    let Some(rdn) = before.name().rdns().first() else {
        return Ok(());
    };
    for ava in rdn.avas() {
        let description = describe(schema, &ava.attribute)?;
        if description == schema.well_known().object_class {
            return Err(Refusal::new(
                ResultCode::ObjectClassModsProhibited,
                "the name holds an object class, which stays: keep the old values",
            ));
        }
        if after.has_value(schema, &description, &ava.value) {
            after.remove_values(schema, &description, std::slice::from_ref(&ava.value))?;
        }
    }
    Ok(())
}

fn describe(schema: &Schema, name: &str) -> Result<std::sync::Arc<AttributeDescription>, Refusal> {
    Ok(schema.describe(name).map_err(schema::EntryError::from)?)
}
