//! `cn=Index,cn=config`: which indexes there are, as entries that can be added, changed and
//! deleted, one for each attribute type. The names are those of OpenDJ.
//!
//! Invariant: the entries are not stored; they are made from the indexes there are, and a change
//! of them is a change of indexes. What is being built is there, what is being removed is not.

use std::collections::BTreeSet;

use history::record::OpKind;
use ldap::message::{AddRequest, ModifyOperation, ModifyRequest};
use ldap::result::ResultCode;
use schema::{Change, DnKey, Entry, IndexChange, Schema};
use store::{Dictionary, INDEX_COUNT_MAX, IndexDefinition, IndexKind, IndexState};

use crate::config::changes::{IndexConfig, IndexStep, Which};
use crate::config::index_needs;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::INDEX_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::{Decide, Decision};
use crate::write::named::{self, Named};
use crate::write::request::WriteOp;

impl Which {
    fn has(self, definition: &IndexDefinition) -> bool {
        let is_plain = definition.with.is_none() && definition.filter.is_none();
        let is_extensible = definition.kind == IndexKind::Extensible;
        match self {
            Self::Kinds => is_plain && !is_extensible,
            Self::Rules => is_plain && is_extensible,
            Self::All => true,
        }
    }
}

/// Resolves an add of such an entry; refuses every other name.
pub(crate) fn add(named: &Named, request: &AddRequest<'_>) -> Result<WriteOp, Refusal> {
    let mut op = begin(named, OpKind::Add)?;
    for attribute in request.attributes.iter() {
        for value in attribute.values.iter() {
            op.value(attribute.description, ModifyOperation::Add, value)?;
        }
    }
    if op.steps.is_empty() {
        return Err(Refusal::new(
            ResultCode::ObjectClassViolation,
            "an index needs a ds-cfg-index-type or a roster-index-definition",
        ));
    }
    Ok(WriteOp::IndexConfig(op))
}

/// Resolves a modify of such an entry; refuses every other name.
pub(crate) fn modify(named: &Named, request: &ModifyRequest<'_>) -> Result<WriteOp, Refusal> {
    let mut op = begin(named, OpKind::Modify)?;
    for modification in request.changes.iter() {
        let (operation, attribute) = (modification.operation, modification.attribute);
        if operation == ModifyOperation::Increment {
            return Err(refuse("definitions of indexes are no numbers"));
        }
        let takes_all = match operation {
            ModifyOperation::Replace => true,
            ModifyOperation::Delete => attribute.values.iter().next().is_none(),
            ModifyOperation::Add | ModifyOperation::Increment => false,
        };
        if takes_all && let Some(which) = which(attribute.description) {
            op.steps.push(IndexStep::TakeAll(which));
        }
        for value in attribute.values.iter() {
            op.value(attribute.description, operation, value)?;
        }
    }
    Ok(WriteOp::IndexConfig(op))
}

/// Resolves a delete of such an entry; refuses every other name.
pub(crate) fn delete(named: &Named) -> Result<WriteOp, Refusal> {
    let mut op = begin(named, OpKind::Delete)?;
    op.steps.push(IndexStep::TakeAll(Which::All));
    Ok(WriteOp::IndexConfig(op))
}

/// A change of the entry of this name.
fn begin(named: &Named, kind: OpKind) -> Result<IndexConfig, Refusal> {
    let schema = &named.state.schema;
    let above = DnKey::from_text(schema, INDEX_CONFIG_DN).ok();
    let leaf = named.dn.rdns().first().map_or(&[][..], |rdn| rdn.avas());
    match leaf {
        [ava]
            if above.is_some()
                && named.key.parent() == above
                && is_named(schema, &ava.attribute) =>
        {
            let attribute = text(&ava.value)?.to_owned();
            Ok(IndexConfig { attribute, kind, steps: Vec::new() })
        }
        _ => Err(named::refuse_special()),
    }
}

fn is_named(schema: &Schema, attribute: &str) -> bool {
    schema.attribute_type(attribute).is_some_and(|kind| kind.name() == ATTRIBUTE)
}

fn which(description: &str) -> Option<Which> {
    let is = |name: &str| description.eq_ignore_ascii_case(name);
    if is(TYPE) {
        Some(Which::Kinds)
    } else if is(RULE) {
        Some(Which::Rules)
    } else {
        is(DEFINITION).then_some(Which::All)
    }
}

impl IndexConfig {
    /// Takes one value of a request in.
    fn value(
        &mut self,
        description: &str,
        operation: ModifyOperation,
        value: &[u8],
    ) -> Result<(), Refusal> {
        let value = text(value)?;
        let is = |name: &str| description.eq_ignore_ascii_case(name);
        let definition = if is(TYPE) {
            let kind = kind(value)?;
            if kind == IndexKind::Extensible {
                // Which, say the matching rules; without the kind there are none.
                if operation == ModifyOperation::Delete {
                    self.steps.push(IndexStep::TakeAll(Which::Rules));
                }
                return Ok(());
            }
            IndexDefinition::new(kind, &self.attribute)
        } else if is(RULE) {
            let rule = Some(value.to_owned());
            IndexDefinition { rule, ..IndexDefinition::new(IndexKind::Extensible, &self.attribute) }
        } else if is(DEFINITION) {
            parse(value)?
        } else if is(REBUILD) {
            if operation == ModifyOperation::Delete {
                return Err(refuse("a rebuild cannot be stopped; delete the index"));
            }
            let definition = match IndexKind::from_name(value) {
                Some(kind) if kind != IndexKind::Extensible => {
                    IndexDefinition::new(kind, &self.attribute)
                }
                Some(_) | None => parse(value)?,
            };
            self.steps.push(IndexStep::Rebuild(definition));
            return Ok(());
        } else if is(ENTRY_LIMIT) {
            tracing::info!(
                attribute = self.attribute,
                "index-entry-limit has no effect: lists of entries have no limit"
            );
            return Ok(());
        } else if self.kind == OpKind::Add && (is("objectClass") || is(ATTRIBUTE)) {
            return Ok(());
        } else {
            return Err(refuse(&format!("'{description}' of an index cannot be changed")));
        };
        self.steps.push(match operation {
            ModifyOperation::Delete => IndexStep::Take(definition),
            _ => IndexStep::Put(definition),
        });
        Ok(())
    }
}

/// Decides on the indexes that the changes before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &IndexConfig) -> Result<Decision, Refusal> {
    let schema = &decide.state.schema;
    let Some(kind) = schema.attribute_type(&op.attribute) else {
        return Err(match op.kind {
            OpKind::Add => Refusal::new(
                ResultCode::ConstraintViolation,
                format!("there is no attribute type '{}'", op.attribute),
            ),
            _ => no_such_entry(),
        });
    };
    let dictionary = decide.view.dictionary();
    let before = of_attribute(dictionary, kind.name());
    match op.kind {
        OpKind::Add if !before.is_empty() => {
            let why = "the attribute has indexes; modify its entry";
            return Err(Refusal::new(ResultCode::EntryAlreadyExists, why));
        }
        OpKind::Add => {}
        _ if before.is_empty() => return Err(no_such_entry()),
        _ => {}
    }
    let mut after = before.clone();
    let mut rebuilt = BTreeSet::new();
    for step in &op.steps {
        take_step(step, kind.name(), schema, &mut after, &mut rebuilt)?;
    }
    rebuilt.retain(|definition| before.contains(definition));
    for definition in after.difference(&before).chain(&rebuilt) {
        if let Some(description) = dictionary.lists_against(definition) {
            let why = format!(
                "entries have very many values of '{}', which an index of this kind does not take: \
                 only those of equality and of presence do",
                description.text()
            );
            return Err(refuse(&why));
        }
    }
    let lines = |set: &mut dyn Iterator<Item = &IndexDefinition>| -> Vec<String> {
        set.map(ToString::to_string).collect()
    };
    let added = lines(&mut after.difference(&before));
    let removed = lines(&mut before.difference(&after));
    let rebuilt = lines(&mut rebuilt.intersection(&after));
    let mut changes = Vec::new();
    if !added.is_empty() || !removed.is_empty() {
        changes.push(IndexChange { added: added.clone(), removed });
    }
    if !rebuilt.is_empty() {
        // That they are there already, the record says before: see `history::record::ChangeRole`.
        changes.push(IndexChange::default());
        changes.push(IndexChange { added: rebuilt.clone(), removed: Vec::new() });
    }
    let count = dictionary.definitions().count() + added.len() + rebuilt.len();
    if count > INDEX_COUNT_MAX {
        let why = format!("there may be at most {INDEX_COUNT_MAX} indexes");
        return Err(Refusal::new(ResultCode::AdminLimitExceeded, why));
    }
    index_needs::check_dropped(decide, |one| one.attribute != kind.name() || after.contains(one))?;
    let mut decision = Decision::default();
    for change in changes {
        decision.changes.push(decide.guard.access().permit(Change::Index(change))?);
    }
    Ok(decision)
}

fn take_step(
    step: &IndexStep,
    attribute: &str,
    schema: &Schema,
    after: &mut BTreeSet<IndexDefinition>,
    rebuilt: &mut BTreeSet<IndexDefinition>,
) -> Result<(), Refusal> {
    let canonical = |definition: &IndexDefinition| -> Result<IndexDefinition, Refusal> {
        let known = definition.canonical(schema);
        let known = known
            .map_err(|error| Refusal::new(ResultCode::ConstraintViolation, error.to_string()))?;
        if known.attribute != attribute {
            let why = format!("'{known}' belongs to the entry {ATTRIBUTE}={}", known.attribute);
            return Err(Refusal::new(ResultCode::ConstraintViolation, why));
        }
        Ok(known)
    };
    let lacks = |definition: &IndexDefinition| {
        let why = format!("there is no index '{definition}'");
        Refusal::new(ResultCode::NoSuchAttribute, why)
    };
    match step {
        IndexStep::Put(definition) => {
            let known = canonical(definition)?;
            // What another kind provides is there already, and takes no room.
            let is_provided = known.kind != definition.kind;
            let why = format!("there is an index '{known}'");
            if !after.insert(known) && !is_provided {
                return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
            }
        }
        IndexStep::Take(definition) => {
            let known = canonical(definition)?;
            if known.kind != definition.kind || !after.remove(&known) {
                return Err(lacks(definition));
            }
        }
        IndexStep::TakeAll(which) => after.retain(|definition| !which.has(definition)),
        IndexStep::Rebuild(definition) => {
            let known = canonical(definition)?;
            if !after.contains(&known) {
                return Err(lacks(definition));
            }
            rebuilt.insert(known);
        }
    }
    Ok(())
}

/// The indexes of an attribute type that are not being removed.
fn of_attribute(dictionary: &Dictionary, attribute: &str) -> BTreeSet<IndexDefinition> {
    written(dictionary).filter(|definition| definition.attribute == attribute).cloned().collect()
}

fn written(dictionary: &Dictionary) -> impl Iterator<Item = &IndexDefinition> {
    let all = dictionary.definitions();
    all.filter(|(_, _, state)| *state != IndexState::Dropping).map(|(_, definition, _)| definition)
}

/// `cn=Index,cn=config`, and an entry for each attribute type that has indexes.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let dictionary = source.directory.storage.store.dictionary();
    let mut made = vec![source.entry(INDEX_CONFIG_DN, &["top", "extensibleObject"]).done()];
    let attributes: BTreeSet<&str> =
        written(&dictionary).map(|definition| definition.attribute.as_str()).collect();
    for attribute in attributes {
        let all = of_attribute(&dictionary, attribute);
        let plain = all.iter().filter(|one| Which::Kinds.has(one)).map(|one| one.kind);
        let mut kinds: BTreeSet<IndexKind> = plain.collect();
        let rules: Vec<String> = all
            .iter()
            .filter(|one| Which::Rules.has(one))
            .filter_map(|one| one.rule.clone())
            .collect();
        if !rules.is_empty() {
            kinds.insert(IndexKind::Extensible);
        }
        let name = entry_name(attribute);
        let entry = source
            .entry(&name, &["ds-cfg-backend-index", "top"])
            .values(TYPE, kinds.into_iter().map(|kind| kind.name().to_owned()))
            .values(RULE, rules)
            .values(DEFINITION, all.iter().map(ToString::to_string));
        made.push(entry.done());
    }
    Ok(made)
}

fn kind(value: &str) -> Result<IndexKind, Refusal> {
    IndexKind::from_name(&value.to_ascii_lowercase()).ok_or_else(|| {
        let names = IndexKind::ALL.map(IndexKind::name).join(", ");
        let why = format!("'{value}' is not an index type; the types are {names}");
        Refusal::new(ResultCode::InvalidAttributeSyntax, why)
    })
}

fn parse(line: &str) -> Result<IndexDefinition, Refusal> {
    IndexDefinition::parse(line)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))
}

fn text(value: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(value)
        .map_err(|_| Refusal::new(ResultCode::InvalidAttributeSyntax, "a value is not UTF-8"))
}

fn no_such_entry() -> Refusal {
    Refusal::no_such_object(INDEX_CONFIG_DN.to_owned(), "the attribute has no index")
}

fn refuse(why: &str) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, why.to_owned())
}

/// The name of the entry of an attribute type with indexes.
pub(crate) fn entry_name(attribute: &str) -> String {
    format!("{ATTRIBUTE}={attribute},{INDEX_CONFIG_DN}")
}

const ATTRIBUTE: &str = "ds-cfg-attribute";
const TYPE: &str = "ds-cfg-index-type";
const RULE: &str = "ds-cfg-index-extensible-matching-rule";
const ENTRY_LIMIT: &str = "ds-cfg-index-entry-limit";
pub(crate) const DEFINITION: &str = "roster-index-definition";
pub(crate) const REBUILD: &str = "roster-index-rebuild";
