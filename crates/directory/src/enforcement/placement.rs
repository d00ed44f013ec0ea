//! Name forms and structure rules at work: which rule governs an entry, and whether a change may
//! name and place it so.
//!
//! Invariant: without structure rules in the schema no entry is read for them.

use ldap::dn::{Dn, RDN_COUNT_MAX};
use ldap::result::ResultCode;
use schema::{Above, EntryId, ObjectClass, Schema, SchemaElement, SchemaRule, Tolerance};
use schema::{Violation, WellKnown};
use store::{StoreError, StoredEntry, View};

use super::modes::Modes;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The rule that governs an entry.
pub(crate) struct Governing {
    /// Its number, if there is one.
    pub(crate) rule: Option<u32>,
    /// So many superiors were read to find it.
    pub(crate) read: u64,
}

/// The rule that governs a stored entry (RFC 4512 §3.4.6).
pub(crate) fn governing(
    view: &View<'_>,
    stored: &StoredEntry<'_>,
) -> Result<Governing, StoreError> {
    let schema = &**view.schema();
    let rules = schema.structure_rules();
    if !rules.has_rules() {
        return Ok(Governing { rule: None, read: 0 });
    }
    let mut chain = vec![part(stored, schema)];
    let mut next = stored.parent();
    while next != EntryId::ROOT && chain.len() <= RDN_COUNT_MAX {
        let Some(superior) = view.entry(next)? else { break };
        chain.push(part(&superior, schema));
        next = superior.parent();
    }
    let read = chain.len() as u64 - 1;
    let mut above = Above::Nothing;
    for part in chain.iter().rev() {
        let found = part.as_ref().and_then(|(structural, rdn)| {
            rules.governing(structural, rdn, above).map(|rule| rule.number)
        });
        above = Above::from(found);
    }
    let rule = match above {
        Above::Governed(number) => Some(number),
        Above::Nothing | Above::Ungoverned => None,
    };
    Ok(Governing { rule, read })
}

/// What an entry is, and how it is named there.
fn part(stored: &StoredEntry<'_>, schema: &Schema) -> Option<(SchemaElement, Vec<Option<String>>)> {
    let known: &WellKnown = schema.well_known();
    let structural = stored.values(&known.structural_object_class);
    let structural = structural.iter().next().and_then(|name| std::str::from_utf8(name).ok())?;
    let class = schema.object_class(structural)?;
    // Of a naming context it is the whole name.
    let name = Dn::parse_stored(stored.rdn()).ok()?;
    Some((class.element(), schema.rdn_types(name.rdns().first()?)))
}

/// An entry that is new, or has another name, place or structural class.
pub(crate) struct Placed<'p> {
    /// Its name then.
    pub(crate) name: &'p Dn,
    /// Its structural class then.
    pub(crate) structural: &'p ObjectClass,
    /// What it stands below.
    pub(crate) superior: EntryId,
    /// As it was; none of a new one.
    pub(crate) stored: Option<&'p StoredEntry<'p>>,
}

/// Checks the name and the place of an entry, as far as the modes ask for it. After the rights:
/// what governs the superior is nothing that a stranger is told.
pub(crate) fn check(
    decide: &Decide<'_>,
    modes: &Modes,
    placed: &Placed<'_>,
    tolerance: &mut Tolerance,
) -> Result<(), Refusal> {
    let schema = &*decide.state.schema;
    let rules = schema.structure_rules();
    if !rules.has_forms() {
        return Ok(());
    }
    let Placed { name, structural, superior, stored } = placed;
    let Some(rdn) = name.rdns().first() else { return Ok(()) };
    // A subentry stands below any entry that it speaks for (RFC 3672 §2.1).
    if structural.is_subclass_of(&schema.well_known().subentry) {
        return Ok(());
    }
    let (structural, rdn) = (&structural.element(), &schema.rdn_types(rdn));
    if modes.of(SchemaRule::NameForm).is_some() {
        judge(tolerance, SchemaRule::NameForm, rules.check_form(structural, rdn))?;
    }
    if !rules.has_rules() || modes.of(SchemaRule::StructureRule).is_none() {
        return Ok(());
    }
    let above = match *superior {
        EntryId::ROOT => Above::Nothing,
        superior => {
            let above = crate::access::guard::stored(decide.view, superior)?;
            Above::from(governing(decide.view, &above)?.rule)
        }
    };
    let checked = rules.check_place(structural, rdn, above);
    judge(tolerance, SchemaRule::StructureRule, checked)?;
    let Some(stored) = stored else { return Ok(()) };
    // What stands below it stands there by its rule.
    let before = governing(decide.view, stored)?.rule;
    let after = rules.governing(structural, rdn, above).map(|rule| rule.number);
    if before == after || before.is_none() || decide.view.child_count(stored.id())? == 0 {
        return Ok(());
    }
    let before = before.unwrap_or_default();
    let why = format!(
        "structure rule {before} would govern the entry no more, and entries below it stand there \
         by that rule: move or delete them first"
    );
    let violation = Violation { code: ResultCode::NamingViolation, diagnostic: why };
    judge(tolerance, SchemaRule::StructureRule, Err(violation))
}

fn judge(
    tolerance: &mut Tolerance,
    rule: SchemaRule,
    checked: Result<(), Violation>,
) -> Result<(), Refusal> {
    match checked {
        Ok(()) => Ok(()),
        Err(violation) => Ok(tolerance.judge(rule, true, || violation)?),
    }
}
