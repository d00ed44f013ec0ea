//! Modify (RFC 4511 §4.6, increment RFC 4525).

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use aci::{Denied, Privilege, Rights, ValueChange};
use auth::password;
use ldap::message::{ModifyOperation, ModifyRequest};
use ldap::result::ResultCode;
use schema::{
    ATTRIBUTE_COUNT_MAX, AttributeDescription, Change, ClassKind, DnKey, Entry, EntryId, EntryRead,
    ObjectClass, Schema, SchemaRule, Structure, Tolerance, check_name, validate_touched,
};

use crate::access::guard;
use crate::assignment::number::{self, Before, Given};
use crate::assignment::text::Assignment;
use crate::bind;
use crate::bind::hashing::Behind;
use crate::config::{index_config, schema_modify, server_settings, setting_config};
use crate::directory::Directory;
use crate::enforcement::broken::Broken;
use crate::enforcement::placement::{self, Placed};
use crate::groups::kind::is_posix;
use crate::password_policy::change::{self, SentPasswords};
use crate::password_policy::verdict::{Storing, Verdict};
use crate::read::{excerpt, target};
use crate::request::controls::request::RequestControls;
use crate::request::controls::write::WriteControls;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::named::{self, Named};
use crate::write::passes::Passes;
use crate::write::rehash::queue::current_form;
use crate::write::request::{Modification, Modify, RefusedPasswords, WriteOp};
use crate::write::submit::Resolution;
use crate::write::{
    before_hashing, delta, old_password, passwords, permit, relax, stamp, stored_form,
};

/// Resolves the request.
pub(crate) fn resolve(
    worker: &mut Worker,
    session: &Session,
    controls: &RequestControls<'_>,
    request: &ModifyRequest<'_>,
) -> Result<Resolution, Refusal> {
    let named = named::named(&worker.directory, request.name)?;
    if named.state.virtual_trees.hold(&named.key) {
        if let Some(op) = server_settings::modify(&worker.directory, &named, request)? {
            return Ok(op.into());
        }
        let settings = setting_config::named(&named);
        if !settings.is_empty() {
            return Ok(setting_config::modify(&settings, &named, request)?.into());
        }
        return Ok(index_config::modify(&named, request)?.into());
    }
    let Named { state, dn, key } = named;
    if key.depth() == 0 {
        return Err(named::refuse_special());
    }
    let access = session.access();
    let sent = sent_passwords(request, &state.schema)
        .map(|sent| SentPasswords { is_trial: controls.is_trial(), ..sent });
    let guesses = sent.as_ref().is_some_and(|sent| sent.old.is_some());
    let is_own = access.key() == Some(&key) && access.prover().is_none();
    let is_privileged = access.has(Privilege::PasswordReset);
    check_count(request, &state.schema, is_privileged)?;
    let is_stranger = !checks::may_change_password(access, &key);
    // Beside the privilege, which is there.
    let is_denied = !is_stranger
        && !session.may_gain_rights(controls.transaction)
        && sent.is_some()
        && !before_hashing::may_change(worker, access, &key, |entry, rights| {
            may_set_passwords(request, &state.schema, entry, rights)
        })?;
    let may_try = !is_stranger && !is_denied;
    let mut verdict = match is_denied {
        true => Some(Err(change::allowed_meanwhile())),
        false => sent.map(|sent| change::judge(worker, access, &key, &sent)),
    };
    if guesses && is_own && may_try && old_password::is_shut(worker, &key, &state)? {
        verdict = Some(Err(change::shut()));
    }
    let storing = verdict.as_ref().map_or(Some(Storing::default()), change::storing);
    let (mut modifications, mut refused) = (Vec::new(), Vec::new());
    let mut passwords = StoredNow { key: &key, of: Vec::new() };
    let (mut is_wrong, mut proven) = (false, Vec::new());
    for modification in request.changes.iter() {
        // Who may not is refused by the writer, and has nothing hashed.
        let stored = may_try.then_some(&mut passwords);
        let (schema, storing) = (&*state.schema, storing.as_ref());
        match resolve_one(worker, session, schema, storing, stored, &modification)? {
            ResolvedOne::Kept(modification, old) => {
                modifications.push(modification);
                is_wrong |= old.misses;
                proven.extend(old.proven);
            }
            ResolvedOne::Refused(passwords) => refused.push(passwords),
        }
    }
    check_attribute_count(&modifications)?;
    if let Some(questions) = worker.request.hashing.questions() {
        return Ok(Resolution::NeedsHash(questions));
    }
    // To the policy a bind that failed. Noted when nothing is computed any more, so once.
    if is_wrong && is_own {
        old_password::note_wrong(worker, &key, &state)?;
    }
    Ok(WriteOp::Modify(Modify { key, dn, modifications, refused, proven, verdict }).into())
}

/// Refuses more passwords than one account has use for: each is hashed, and each that is to be
/// deleted is a guess, of which one request may make one.
fn check_count(
    request: &ModifyRequest<'_>,
    schema: &Schema,
    is_privileged: bool,
) -> Result<(), Refusal> {
    let (mut new, mut old, mut old_hashed) = (0, 0, 0);
    for modification in request.changes.iter() {
        let attribute = &modification.attribute;
        let Ok(description) = schema.describe(attribute.description) else { continue };
        if !passwords::is_hashable(&description) {
            continue;
        }
        let clear = attribute.values.iter().filter(|value| !password::is_hashed(value));
        match modification.operation {
            ModifyOperation::Add | ModifyOperation::Replace => {
                new += attribute.values.iter().count()
            }
            ModifyOperation::Delete => {
                let clear = clear.count();
                old += clear;
                old_hashed += attribute.values.iter().count() - clear;
            }
            ModifyOperation::Increment => {}
        }
    }
    if old_hashed > HASHES_DELETED_MAX {
        return Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("a request may delete at most {HASHES_DELETED_MAX} hashed passwords"),
        ));
    }
    let old_max = if is_privileged { passwords::PASSWORDS_MAX } else { 1 };
    if old > old_max {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "one password at a time is deleted by its clear text",
        ));
    }
    passwords::check_password_count(new)
}

/// Whether the rules let the passwords of a request come and go, whatever their stored forms are.
fn may_set_passwords(
    request: &ModifyRequest<'_>,
    schema: &Schema,
    entry: &dyn EntryRead,
    rights: &Rights<'_>,
) -> bool {
    request.changes.iter().all(|modification| {
        let attribute = &modification.attribute;
        let Ok(description) = schema.describe(attribute.description) else { return true };
        let is_any = passwords::is_hashable(&description) && !attribute.values.is_empty();
        let operation = modification.operation;
        !is_any
            || match operation {
                ModifyOperation::Add | ModifyOperation::Replace => {
                    permit::may_set(rights, entry, &RefusedPasswords { operation, description })
                }
                ModifyOperation::Delete => {
                    rights.may_value(ValueChange::Delete, &description, passwords::UNKNOWN)
                }
                ModifyOperation::Increment => true,
            }
    })
}

/// The passwords of a request; none when it is not about any.
fn sent_passwords<'r>(request: &ModifyRequest<'r>, schema: &Schema) -> Option<SentPasswords<'r>> {
    let mut sent = None;
    for modification in request.changes.iter() {
        let attribute = &modification.attribute;
        let Ok(description) = schema.describe(attribute.description) else { continue };
        if !description.is_password() {
            continue;
        }
        let sent = sent.get_or_insert_with(SentPasswords::default);
        let is_hashable = passwords::is_hashable(&description);
        for value in attribute.values.iter() {
            match modification.operation {
                ModifyOperation::Add | ModifyOperation::Replace => sent.take(value, is_hashable),
                ModifyOperation::Delete if is_hashable && !password::is_hashed(value) => {
                    sent.old = sent.old.or(Some(value));
                }
                ModifyOperation::Delete | ModifyOperation::Increment => {}
            }
        }
    }
    sent
}

/// Clear-text passwords that are to be removed.
#[derive(Default)]
struct Old {
    /// One of them is none of the entry's.
    misses: bool,
    /// The stored forms of the others.
    proven: Vec<Vec<u8>>,
}

/// What one modification of a request leads to.
enum ResolvedOne {
    Kept(Modification, Old),
    Refused(RefusedPasswords),
}

fn resolve_one(
    worker: &mut Worker,
    session: &Session,
    schema: &Schema,
    storing: Option<&Storing>,
    passwords: Option<&mut StoredNow<'_>>,
    modification: &ldap::message::Modification<'_>,
) -> Result<ResolvedOne, Refusal> {
    let attribute = &modification.attribute;
    let description = schema
        .describe(attribute.description)
        .map_err(|error| Refusal::new(ResultCode::UndefinedAttributeType, error.to_string()))?;
    let operation = modification.operation;
    let values = attribute.values.iter();
    let is_new = matches!(operation, ModifyOperation::Add | ModifyOperation::Replace);
    if is_new && !attribute.values.is_empty() {
        checks::check_description(&description)?;
    }
    if passwords::is_hashable(&description) && !attribute.values.is_empty() {
        bind::refusals::require_confidentiality(
            &worker.directory.credentials.authentication(),
            session,
        )?;
    }
    let mut old = Old::default();
    let values = match operation {
        ModifyOperation::Add | ModifyOperation::Replace
            if passwords::is_hashable(&description) && !attribute.values.is_empty() =>
        {
            let Some(storing) = storing else {
                return Ok(ResolvedOne::Refused(RefusedPasswords { operation, description }));
            };
            values
                .filter_map(|value| {
                    stored_form::stored_password(worker, storing, value).transpose()
                })
                .collect::<Result<_, _>>()?
        }
        ModifyOperation::Delete
            if passwords::is_hashable(&description)
                && !attribute.values.is_empty()
                && let Some(passwords) = passwords =>
        {
            let stored = passwords.of(worker, &description)?;
            let named = |value: &[u8]| {
                let found = named_value(worker, stored, value);
                if !password::is_hashed(value) {
                    old.misses |= found.is_none();
                    old.proven.extend(found.clone());
                }
                found.unwrap_or_else(|| value.to_vec())
            };
            values.map(named).collect()
        }
        ModifyOperation::Add
        | ModifyOperation::Replace
        | ModifyOperation::Delete
        | ModifyOperation::Increment => values.map(<[u8]>::to_vec).collect(),
    };
    Ok(ResolvedOne::Kept(Modification { operation, description, values }, old))
}

/// Refuses to look for more attributes than an entry can have.
fn check_attribute_count(modifications: &[Modification]) -> Result<(), Refusal> {
    match modifications.len() > ATTRIBUTE_COUNT_MAX
        && touched(modifications).len() > ATTRIBUTE_COUNT_MAX
    {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("a request may modify at most {ATTRIBUTE_COUNT_MAX} attributes"),
        )),
    }
}

/// The passwords that an entry has, read once for a request.
struct StoredNow<'k> {
    key: &'k DnKey,
    of: Vec<(Arc<AttributeDescription>, Vec<Vec<u8>>)>,
}

impl StoredNow<'_> {
    fn of(
        &mut self,
        worker: &mut Worker,
        description: &Arc<AttributeDescription>,
    ) -> Result<&[Vec<u8>], Refusal> {
        let place = match self.of.iter().position(|(known, _)| known == description) {
            Some(place) => place,
            None => {
                let stored = old_password::stored_now(worker, self.key, description)?;
                self.of.push((Arc::clone(description), stored));
                self.of.len() - 1
            }
        };
        Ok(self.of.get(place).map_or(&[], |(_, stored)| stored))
    }
}

/// A clear-text password to be removed stands for the stored value it is behind, if there is one.
fn named_value(worker: &mut Worker, stored: &[Vec<u8>], value: &[u8]) -> Option<Vec<u8>> {
    if stored.iter().any(|one| one == value) {
        return Some(value.to_vec());
    }
    match worker.which(value, stored) {
        Behind::At(place) => stored.get(place).cloned(),
        Behind::Nowhere | Behind::Pending => None,
    }
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Modify) -> Result<Decision, Refusal> {
    let is_empty = op.modifications.is_empty() && op.refused.is_empty();
    if op.key == decide.state.subschema_key {
        return match &op.verdict {
            _ if is_empty => Ok(Decision::default()),
            Some(Err(refusal)) => Err(refusal.clone()),
            Some(Ok(_)) | None => schema_modify::decide(decide, &op.modifications),
        };
    }
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    // No right is asked for where nothing is written: there is no stamp and no record.
    if is_empty {
        return Ok(Decision::default());
    }
    let schema = &decide.state.schema;
    let stored = guard::stored(decide.view, id)?;
    // The policy's word comes first: whether an old password is right is told to nobody who may not
    // try one now.
    let verdict = op.verdict.as_ref().map(|verdict| verdict.as_ref().map_err(Refusal::clone));
    let verdict = verdict.transpose()?;
    // They are somebody else's.
    if !op.refused.is_empty() {
        return Err(Denied.into());
    }
    let (before, mut after) = modified(decide, op, id)?;
    let touched = touched(&op.modifications);
    let given = give_numbers(
        decide,
        op,
        &touched,
        &Before { stored: &stored, before: &before },
        &mut after,
    )?;
    let relax = decide.controls.relax;
    let modes = decide.schema_modes();
    let mut tolerance = modes.tolerance();
    let structural = check_result(&before, &mut after, schema, &touched, relax, &mut tolerance)?;
    let known = schema.well_known();
    if relax && touched.contains(&known.entry_uuid) {
        relax::check_uuid(decide, &after, Some(id))?;
    }
    let mut own = None;
    let late = verdict.and_then(Verdict::late);
    if let Some(verdict) = verdict {
        let proves_old = proves_old(decide.directory, &before, op);
        let target =
            change::Target { key: &op.key, stored: Some(&stored), proves_old, touched: &touched };
        own = Some(change::decide(decide, verdict, &target, &mut after)?);
    }
    // What was set under relaxed rules stays as it was set.
    let kept = if relax { &touched[..] } else { &[] };
    stamp::stamp_modified(&mut after, schema, &decide.stamp, kept)?;
    let change = Change::Modify(delta::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&stored),
        onto: None,
        after: &after,
        passwords: own.as_deref().map_or(Passwords::Untouched, Passwords::Decided),
        given: &given.attributes,
    };
    let change = checks::permit(decide, &checked, change)?;
    let name = before.name();
    let was = before.values(&known.structural_object_class).first();
    if was.is_none_or(|was| !was.eq_ignore_ascii_case(structural.name().as_bytes())) {
        let (structural, superior) = (&*structural, stored.parent());
        let placed = Placed { name, structural, superior, stored: Some(&stored) };
        placement::check(decide, &modes, &placed, &mut tolerance)?;
    }
    let broken = Broken::of(name, tolerance, &modes);
    let changes = given.change.into_iter().chain([change]).collect();
    Ok(Decision { changes, late, broken, ..Decision::default() })
}

/// Gives the entry numbers that it came to lack: by other object classes, by what the assignment
/// asks for, or by a value that stands for none.
fn give_numbers(
    decide: &Decide<'_>,
    op: &Modify,
    touched: &[Arc<AttributeDescription>],
    before: &Before<'_>,
    after: &mut Entry,
) -> Result<Given, Refusal> {
    let class = &decide.state.schema.well_known().object_class;
    let is_touched = |asked: &AttributeDescription| touched.iter().any(|one| asked.covers(one));
    let is_concerned = |one: &Assignment| {
        let numbers = one.numbers().map_or(&[][..], |numbers| &numbers.attributes);
        numbers.iter().any(|one| is_touched(one))
            || !numbers.is_empty() && (is_touched(class) || one.asks_about(is_touched))
    };
    let all = decide.directory.rules.assignments.of(decide.view, &decide.state.schema);
    match all.iter().any(is_concerned) {
        true => number::give(decide, &op.key, Some(before), after),
        false => Ok(Given::default()),
    }
}

/// The entry as it was, as far as the modifications need it, and as they leave it.
fn modified(decide: &Decide<'_>, op: &Modify, id: EntryId) -> Result<(Entry, Entry), Refusal> {
    let schema = &decide.state.schema;
    let mut passes = Passes::new(decide.directory.limits().modify_work_max);
    passes.sent(&op.modifications)?;
    let before = excerpt::load(decide.view, id, schema, &op.modifications, &mut passes)?;
    let mut after = before.clone();
    for modification in merged(&op.modifications) {
        passes.modification(&after, &modification)?;
        apply(&mut after, schema, &modification, decide.directory, decide.controls)?;
    }
    passes.name(&after, schema)?;
    Ok((before, after))
}

/// Whether a password that is to be deleted is one of the entry, for which permissive modifies do
/// not care, and was sent in clear text: who has read a hash does not know the password.
fn proves_old(directory: &Directory, before: &Entry, op: &Modify) -> bool {
    let is_there = |stored: &Vec<u8>, description: &AttributeDescription| {
        current_form(directory.credentials.rehasher(), before.values(description), stored).is_some()
    };
    op.modifications.iter().any(|one| {
        let Modification { operation: ModifyOperation::Delete, description, values } = one else {
            return false;
        };
        // What was stored since the request was resolved.
        let clear = values.iter().filter(|value| !password::is_hashed(value)).cloned();
        let late = stored_forms(directory, before, description, &clear.collect::<Vec<_>>());
        passwords::is_hashable(description)
            && op.proven.iter().chain(&late).any(|stored| is_there(stored, description))
    })
}

/// A class that an entry may have from its first day on only, and that it did not have: a valid
/// entry cannot gain one either, since it keeps its structural class.
fn gained(before: &Entry, after: &Entry, schema: &Schema) -> Option<Arc<ObjectClass>> {
    let known = &schema.well_known().object_class;
    let class = |value: &Vec<u8>| schema.object_class(std::str::from_utf8(value).ok()?).cloned();
    let had: Vec<_> = before.values(known).iter().filter_map(class).collect();
    let has = after.values(known).iter().filter_map(class);
    let mut gained = has.filter(|class| !had.iter().any(|one| one.is_subclass_of(class)));
    // Groups of RFC 2307 are some by this class where they have no structural one.
    let is_structural = |class: &Arc<ObjectClass>| class.kind == ClassKind::Structural;
    let is_nothing_else =
        !after.values(known).iter().filter_map(class).any(|one| is_structural(&one));
    gained.find(|class| {
        (is_structural(class) && class.is_minded(schema)) || (is_nothing_else && is_posix(class))
    })
}

/// Whether the entry may be left like this. Tells its structural class.
fn check_result(
    before: &Entry,
    after: &mut Entry,
    schema: &Schema,
    touched: &[Arc<AttributeDescription>],
    relax: bool,
    tolerance: &mut Tolerance,
) -> Result<Arc<ObjectClass>, Refusal> {
    if check_name(after, schema).is_err() {
        return Err(Refusal::new(
            ResultCode::NotAllowedOnRdn,
            "the values of the RDN cannot be removed; rename the entry to change them",
        ));
    }
    let structure = validate_touched(after, schema, touched, tolerance)?;
    // An entry that was invalid already (imported, or under an older schema) may be mended; one
    // that may be of several classes is of none that it has to keep.
    if !relax
        && !tolerance.is_broken(SchemaRule::StructuralClass)
        && Structure::of(before, schema).is_ok_and(|was| was.structural != structure.structural)
    {
        return Err(Refusal::new(
            ResultCode::ObjectClassModsProhibited,
            "the structural object class of an entry cannot be changed; delete the entry and add \
             it again",
        ));
    }
    let object_class = &schema.well_known().object_class;
    let are_classes_touched = touched.iter().any(|one| one == object_class);
    if !relax
        && are_classes_touched
        && let Some(class) = gained(before, after, schema)
    {
        return Err(Refusal::new(
            ResultCode::ObjectClassModsProhibited,
            format!(
                "an entry does not become one of class '{}' later: delete it and add it again",
                class.name()
            ),
        ));
    }
    let structural = structure.structural;
    let known = schema.well_known();
    let name = structural.name().as_bytes().to_vec();
    after.replace_values(schema, &known.structural_object_class, vec![name])?;
    after.add_superior_classes(schema)?;
    Ok(structural)
}

/// The attributes that are modified, each once.
fn touched(modifications: &[Modification]) -> Vec<Arc<AttributeDescription>> {
    if let [one] = modifications {
        return vec![Arc::clone(&one.description)];
    }
    let mut seen = HashSet::with_capacity(modifications.len());
    let all = modifications.iter().map(|one| &one.description);
    all.filter(|description| seen.insert(&***description)).cloned().collect()
}

/// The modifications. Those that add values to one attribute after each other are one, and so are
/// those that delete values: each compares its values with all that are there.
fn merged(modifications: &[Modification]) -> Vec<Cow<'_, Modification>> {
    let mut merged: Vec<Cow<'_, Modification>> = Vec::with_capacity(modifications.len());
    for modification in modifications {
        let Modification { operation, description, values } = modification;
        let is_mergeable = matches!(operation, ModifyOperation::Add | ModifyOperation::Delete)
            && !values.is_empty()
            && !passwords::is_hashable(description);
        match merged.last_mut() {
            Some(last)
                if is_mergeable
                    && last.operation == *operation
                    && last.description == *description
                    && !last.values.is_empty() =>
            {
                last.to_mut().values.extend(values.iter().cloned());
            }
            Some(_) | None => merged.push(Cow::Borrowed(modification)),
        }
    }
    merged
}

/// One modification, applied to a copy of the entry.
fn apply(
    entry: &mut Entry,
    schema: &Schema,
    modification: &Modification,
    directory: &Directory,
    controls: &WriteControls,
) -> Result<(), Refusal> {
    let Modification { operation, description, values } = modification;
    relax::check_settable(description, schema, controls.relax)?;
    match operation {
        ModifyOperation::Add => {
            if values.is_empty() {
                return Err(Refusal::new(
                    ResultCode::ProtocolError,
                    format!("adding to '{}' needs at least one value", description.text()),
                ));
            }
            if controls.permissive {
                entry.add_missing_values(schema, description, values)?;
            } else {
                entry.add_values(schema, description, values.clone())?;
            }
        }
        ModifyOperation::Delete if values.is_empty() => {
            if entry.get(description).is_some() || !controls.permissive {
                entry.remove_attribute(description)?;
            }
        }
        ModifyOperation::Delete => {
            let values = stored_forms(directory, entry, description, values);
            if controls.permissive {
                entry.remove_present_values(schema, description, &values);
            } else {
                entry.remove_values(schema, description, &values)?;
            }
        }
        ModifyOperation::Replace => {
            entry.replace_values(schema, description, values.clone())?;
        }
        ModifyOperation::Increment => increment(entry, schema, description, values)?,
    }
    Ok(())
}

/// A clear-text password to be removed stands for the stored hash it verifies against. This finds
/// what was stored since the request was resolved, unless that takes long to verify: the writer
/// waits for nothing.
fn stored_forms(
    directory: &Directory,
    entry: &Entry,
    description: &AttributeDescription,
    values: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    if !passwords::is_hashable(description) {
        return values.to_vec();
    }
    let stored = entry.values(description);
    values
        .iter()
        .map(|value| {
            let is_it = |one: &&Vec<u8>| password::verify_if_fast(one, value);
            current_form(directory.credentials.rehasher(), stored, value)
                .or_else(|| stored.iter().find(is_it).cloned())
                .unwrap_or_else(|| value.clone())
        })
        .collect()
}

/// Adds the one value given to every value of an integer attribute (RFC 4525 §3).
fn increment(
    entry: &mut Entry,
    schema: &Schema,
    description: &Arc<AttributeDescription>,
    values: &[Vec<u8>],
) -> Result<(), Refusal> {
    let name = description.text();
    if description.kind.syntax.oid != INTEGER_SYNTAX {
        return Err(Refusal::new(
            ResultCode::ConstraintViolation,
            format!("attribute '{name}' is not an integer, it cannot be incremented"),
        ));
    }
    let [by] = values else {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            format!("an increment of '{name}' takes exactly one value"),
        ));
    };
    let by = integer(by, name)?;
    let old = entry.get(description).ok_or_else(|| {
        Refusal::new(ResultCode::NoSuchAttribute, format!("the entry has no '{name}'"))
    })?;
    let new = old
        .values
        .iter()
        .map(|value| {
            let sum = integer(value, name)?.checked_add(by).ok_or_else(|| {
                Refusal::new(ResultCode::ConstraintViolation, format!("'{name}' is too large"))
            })?;
            Ok(sum.to_string().into_bytes())
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    entry.replace_values(schema, description, new)?;
    Ok(())
}

fn integer(value: &[u8], name: &str) -> Result<i128, Refusal> {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Refusal::new(
            ResultCode::InvalidAttributeSyntax,
            format!("a value of '{name}' is not an integer, or has more than 38 digits"),
        )
    })
}

/// Hashed passwords that one request may delete: each is looked for among those that are there, and
/// may be a clear text that looks like a hash.
const HASHES_DELETED_MAX: usize = 100;

/// INTEGER (RFC 4517 §3.3.16).
const INTEGER_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.27";
