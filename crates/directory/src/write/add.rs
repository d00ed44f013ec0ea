//! Add (RFC 4511 §4.7).

use std::sync::Arc;

use aci::Identity;
use environment::random_uuid;
use ldap::message::AddRequest;
use ldap::result::ResultCode;
use schema::{AddChange, Change, Entry, EntryId, Mode, steps_of_name, validate_tolerant};
use store::Resolved;

use crate::access::guard;
use crate::assignment::number;
use crate::config::index_config;
use crate::enforcement::broken::Broken;
use crate::enforcement::placement::{self, Placed};
use crate::password_policy::change::{self, SentPasswords};
use crate::password_policy::verdict::Storing;
use crate::read::search::aliases;
use crate::read::target;
use crate::request::controls::request::RequestControls;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::tasks::recurring;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::named::{self, Named};
use crate::write::passes::Passes;
use crate::write::request::{Add, WriteOp};
use crate::write::submit::Resolution;
use crate::write::{before_hashing, delta, passwords, relax, stamp, stored_form};

/// Resolves the request.
pub(crate) fn resolve(
    worker: &mut Worker,
    session: &Session,
    controls: &RequestControls<'_>,
    request: &AddRequest<'_>,
) -> Result<Resolution, Refusal> {
    check_work(worker, session, request)?;
    let named = named::named(&worker.directory, request.name)?;
    if named.state.virtual_trees.hold(&named.key) {
        return Ok(match recurring::add(&named, request)? {
            Some(op) => op.into(),
            None => index_config::add(&named, request)?.into(),
        });
    }
    let Named { state, dn, key } = named;
    let schema = &state.schema;
    if let Some(rdn) = dn.rdns().first() {
        checks::check_rdn(rdn, schema)?;
    }
    let mut entry = Entry::from_wire(dn, request.attributes, schema)?;
    for attribute in entry.attributes() {
        checks::check_description(&attribute.description)?;
    }
    let passwords =
        entry.attributes().iter().filter(|one| passwords::is_hashable(&one.description));
    passwords::check_password_count(passwords.map(|one| one.values.len()).sum())?;
    entry.add_naming_values(schema)?;
    let access = session.access();
    let mut verdict =
        sent_passwords(&entry).map(|sent| change::judge_new(worker, access, &key, &entry, &sent));
    let mut storing = verdict.as_ref().map_or(Some(Storing::default()), change::storing);
    let may_come = session.may_gain_rights(controls.transaction) && access.key().is_some();
    if verdict.is_some()
        && !may_come
        && storing.as_ref().is_some_and(|storing| worker.hashes_slowly(storing.scheme))
        && !before_hashing::may_add(worker, access, &entry)?
    {
        (verdict, storing) = (Some(Err(change::allowed_meanwhile())), None);
    }
    match &storing {
        Some(storing) => {
            stored_form::hash_passwords(worker, session, &mut entry, schema, Some(storing))?;
        }
        None => passwords::replace_by_unknown(&mut entry, schema)?,
    }
    Ok(match worker.request.hashing.questions() {
        Some(questions) => Resolution::NeedsHash(questions),
        None => WriteOp::Add(Add { key, entry, verdict }).into(),
    })
}

/// Refuses a name and values that take too long to prepare: the name as such and as a value, values
/// of one attribute to compare them with each other, and with that of the name.
fn check_work(worker: &Worker, session: &Session, request: &AddRequest<'_>) -> Result<(), Refusal> {
    let limits = &worker.directory.limits();
    let is_stranger = matches!(session.access().identity(), Identity::Anonymous);
    let max = if is_stranger { limits.add_work_anonymous_max } else { limits.modify_work_max };
    let octets = request.name.len() + request.attributes.as_ber().len();
    if octets as u64 * OCTET_STEPS_MAX <= max {
        return Ok(());
    }
    let mut passes = Passes::new(max);
    passes.spend(2 * steps_of_name(request.name))?;
    let state = worker.directory.state.load();
    for attribute in request.attributes.iter() {
        // What is not known is refused in a moment.
        let Ok(description) = state.schema.describe(attribute.description) else { continue };
        let values = || attribute.values.iter();
        passes.prepared(&description, values())?;
        if values().nth(1).is_some() {
            passes.prepared(&description, values())?;
        }
    }
    Ok(())
}

/// What any octet of an add costs at the most.
const OCTET_STEPS_MAX: u64 = 400;

/// The passwords of a new entry; none when it has none.
fn sent_passwords(entry: &Entry) -> Option<SentPasswords<'_>> {
    let mut sent = None;
    for attribute in entry.attributes().iter().filter(|one| one.description.is_password()) {
        let sent = sent.get_or_insert_with(SentPasswords::default);
        let is_hashable = passwords::is_hashable(&attribute.description);
        attribute.values.iter().for_each(|value| sent.take(value, is_hashable));
    }
    sent
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Add) -> Result<Decision, Refusal> {
    let exists =
        || Refusal::new(ResultCode::EntryAlreadyExists, "an entry with this name exists already");
    if op.key.depth() == 0 || op.key == decide.state.subschema_key {
        return Err(exists());
    }
    let parent = parent(decide, op)?;
    if let Resolved::Found(_) = decide.view.resolve(&op.key)? {
        return Err(exists());
    }
    // An entry whose passwords are refused has not got them: nothing else is said of it.
    let verdict = op.verdict.as_ref().map(|verdict| verdict.as_ref().map_err(Refusal::clone));
    let verdict = verdict.transpose()?;
    let schema = &decide.state.schema;
    let relax = decide.controls.relax;
    let mode = if relax { Mode::Import } else { Mode::Client };
    let mut entry = op.entry.clone();
    let given = number::give(decide, &op.key, None, &mut entry)?;
    let modes = decide.schema_modes();
    let mut tolerance = modes.tolerance();
    let structure = validate_tolerant(&entry, schema, mode, &mut tolerance)?;
    let structural = structure.structural.name().to_owned();
    entry.add_superior_classes(schema)?;
    if relax {
        for attribute in op.entry.attributes() {
            relax::check_settable(&attribute.description, schema, relax)?;
        }
        let known = schema.well_known();
        entry.replace_values(schema, &known.structural_object_class, Vec::new())?;
        if entry.get(&known.entry_uuid).is_some() {
            relax::check_uuid(decide, &entry, None)?;
        }
    }
    let uuid = random_uuid(decide.chance);
    let mut own = None;
    if let Some(verdict) = verdict {
        let touched = op.entry.attributes().iter();
        let touched = touched.map(|one| Arc::clone(&one.description)).collect::<Vec<_>>();
        let target =
            change::Target { key: &op.key, stored: None, proves_old: false, touched: &touched };
        own = Some(change::decide(decide, verdict, &target, &mut entry)?);
    }
    stamp::stamp_new(&mut entry, schema, &decide.stamp, &uuid, &structural)?;
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&op.entry),
        onto: None,
        after: &op.entry,
        passwords: own.as_deref().map_or(Passwords::Untouched, Passwords::Decided),
        given: &given.attributes,
    };
    let change = Change::Add(AddChange {
        id: decide.next_id,
        parent,
        key: delta::name_key(&op.key, parent),
        entry,
    });
    let change = checks::permit(decide, &checked, change)?;
    let (name, structural) = (op.entry.name(), &*structure.structural);
    let placed = Placed { name, structural, superior: parent, stored: None };
    placement::check(decide, &modes, &placed, &mut tolerance)?;
    let broken = Broken::of(name, tolerance, &modes);
    let changes = given.change.into_iter().chain([change]).collect();
    Ok(Decision { changes, broken, ..Decision::default() })
}

/// The id of the entry the new one goes below; ROOT for the entry of a naming context.
fn parent(decide: &Decide<'_>, op: &Add) -> Result<EntryId, Refusal> {
    if decide.is_context(&op.key) {
        return Ok(EntryId::ROOT);
    }
    let above = op.key.parent().ok_or_else(named::refuse_special)?;
    let name = op.entry.name().to_string();
    let lookup = decide.lookup(&name, &op.key);
    let superior = target::find_superior(decide.view, decide.state, decide.guard, &above, &lookup)?;
    let known = decide.state.schema.well_known();
    aliases::refuse_below(&guard::stored(decide.view, superior)?, known)?;
    Ok(superior)
}
