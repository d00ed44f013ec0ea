//! Modify of the subschema subentry: the schema changes online (RFC 4512 §4.2).

use aci::Privilege;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use schema::{
    AttributeType, Change, Definition, DefinitionKind, DefinitionLocation, EntryId, ONLINE_FILE,
    ResolvedFilter, Schema, SchemaChange, SchemaError, Truth,
};
use store::{Ask, IndexDefinition};

use crate::request::refusal::Refusal;
use crate::write::decision::{Decide, Decision};
use crate::write::request::Modification;

/// Decides on a change of the schema: values of `attributeTypes`, `objectClasses` and the like are
/// added and removed one by one; the whole request takes effect or nothing of it.
pub(crate) fn decide(
    decide: &mut Decide<'_>,
    modifications: &[Modification],
) -> Result<Decision, Refusal> {
    let mut added = Vec::new();
    let mut removed = Vec::new();
    for modification in modifications {
        let target = match modification.operation {
            ModifyOperation::Add => &mut added,
            ModifyOperation::Delete => &mut removed,
            ModifyOperation::Replace | ModifyOperation::Increment => {
                return Err(Refusal::new(
                    ResultCode::UnwillingToPerform,
                    "definitions are added and deleted one by one, never replaced as a whole",
                ));
            }
        };
        if modification.values.is_empty() {
            return Err(Refusal::new(
                ResultCode::UnwillingToPerform,
                "deleting all definitions of a kind is refused; name the values",
            ));
        }
        for value in &modification.values {
            target.push(definition(modification.description.kind.name(), value)?);
        }
    }
    let old = &decide.state.schema;
    let refuse =
        |error: SchemaError| Refusal::new(ResultCode::ConstraintViolation, error.to_string());
    let new = old.with_change(&added, &removed).map_err(refuse)?;
    let place = DefinitionLocation { file: ONLINE_FILE.to_owned(), line: None };
    new.check_superiors(&place, &added).map_err(refuse)?;
    new.check_openness(&place, &added).map_err(refuse)?;
    new.check_removed(&place, &removed).map_err(refuse)?;
    if !decide.guard.access().has(Privilege::BypassAcl) {
        new.check_meaning(old, &place, &added, &removed).map_err(refuse)?;
        check_groups(old, &new)?;
    }
    if let Some(policy) = decide.directory.rules.password_policies.load().unreadable_under(&new) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!("the subtree of the password policy '{policy}' names it: it stays"),
        ));
    }
    check_unused(decide, old, &new)?;
    let text = |list: &[Definition]| list.iter().map(Definition::line).collect();
    let change = Change::Schema(SchemaChange { added: text(&added), removed: text(&removed) });
    Ok(Decision::change(decide.guard.access().permit(change)?))
}

fn definition(attribute: &str, value: &[u8]) -> Result<Definition, Refusal> {
    let kind = DefinitionKind::ALL
        .into_iter()
        .find(|kind| kind.attribute().eq_ignore_ascii_case(attribute))
        .ok_or_else(|| {
            Refusal::new(
                ResultCode::UnwillingToPerform,
                format!("only definitions of the schema can be changed here, not '{attribute}'"),
            )
        })?;
    let text = std::str::from_utf8(value)
        .map_err(|_| Refusal::new(ResultCode::InvalidAttributeSyntax, "not UTF-8"))?;
    Definition::parse(kind, text)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))
}

/// Refuses to make groups of entries that were none, or the other way round: who may write one of
/// their attributes would say who is in all the groups that they are in.
fn check_groups(old: &Schema, new: &Schema) -> Result<(), Refusal> {
    let changed = old.object_classes().find(|class| {
        let becomes = new.object_class(&class.oid);
        becomes.is_some_and(|one| one.is_of_groups(new) != class.is_of_groups(old))
    });
    let Some(class) = changed else { return Ok(()) };
    Err(Refusal::new(
        ResultCode::ConstraintViolation,
        format!(
            "entries of the class '{}' would become groups, or stop being groups: that takes the \
             privilege bypass-acl, or a schema file and a restart",
            class.name()
        ),
    ))
}

/// Refuses to take away what entries or indexes use.
fn check_unused(decide: &Decide<'_>, old: &Schema, new: &Schema) -> Result<(), Refusal> {
    let refuse = |name: &str, by: &str| {
        Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!("the definition of '{name}' is used by {by} and stays"),
        ))
    };
    for kind in old.attribute_types().filter(|kind| new.attribute_type(&kind.oid).is_none()) {
        let is_kind = |name: &String| old.attribute_type(name).is_some_and(|one| one == kind);
        let is_indexed = |one: &IndexDefinition| {
            is_kind(&one.attribute) || one.with.as_ref().is_some_and(is_kind)
        };
        if decide.directory.storage.store.indexes().definitions().iter().any(is_indexed) {
            return refuse(kind.name(), "an index");
        }
        if was_stored(decide, kind) && matches_any(decide, old, &Filter::Present(&kind.oid))? {
            return refuse(kind.name(), "an entry");
        }
    }
    // Those that are being removed count, too: their definitions are there until the end.
    if let Some(index) = decide.view.dictionary().misfit(new) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!("the index '{index}' would change its meaning; delete it first"),
        ));
    }
    for class in old.object_classes().filter(|class| new.object_class(&class.oid).is_none()) {
        let value = class.oid.as_bytes().into();
        let filter = Filter::Equality(AvaFilter { description: "objectClass", value });
        if matches_any(decide, old, &filter)? {
            return refuse(class.name(), "an entry");
        }
    }
    Ok(())
}

/// Whether any entry ever had an attribute of this type; saves looking through all entries.
fn was_stored(decide: &Decide<'_>, kind: &AttributeType) -> bool {
    let dictionary = decide.view.dictionary();
    let ids = 0..u32::try_from(dictionary.len()).unwrap_or(u32::MAX);
    ids.filter_map(|id| dictionary.description(id)).any(|known| known.kind.is_subtype_of(kind))
}

fn matches_any(decide: &Decide<'_>, schema: &Schema, filter: &Filter<'_>) -> Result<bool, Refusal> {
    let filter = ResolvedFilter::resolve(filter, schema);
    let plan = decide.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
    for entry in plan.entries(decide.view, EntryId::ROOT) {
        if filter.matches(schema, &entry?) == Truth::True {
            return Ok(true);
        }
    }
    Ok(false)
}
