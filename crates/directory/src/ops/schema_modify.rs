//! Modify of the subschema subentry: the schema changes online (RFC 4512 §4.2).

use std::sync::Arc;

use aci::Purpose;
use ldap::message::ModifyOperation;
use ldap::result::ResultCode;
use schema::{Change, Definition, DefinitionKind, SchemaChange};

use crate::ops::modify::Modification;
use crate::refusal::Refusal;
use crate::write_queue::{Decide, Decision};

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
    let changed = decide
        .state
        .schema
        .with_change(&added, &removed)
        .map_err(|error| Refusal::new(ResultCode::ConstraintViolation, error.to_string()))?;
    let text = |list: &[Definition]| list.iter().map(Definition::line).collect();
    let change = Change::Schema(SchemaChange { added: text(&added), removed: text(&removed) });
    let mut decision = Decision::change(decide.access.permit(change, Purpose::Update)?);
    decision.schema = Some(Arc::new(changed));
    Ok(decision)
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
