//! `cn=Access Control Handler,cn=config`: the global ACIs, which hold for every entry. The names
//! are those of OpenDJ.
//!
//! Invariant: the entry is not stored; it is made from a setting of the directory, and a change of
//! it is a change of that setting. Until it is changed for the first time the defaults hold.

use ldap::message::{ModifyOperation, ModifyRequest};
use ldap::result::ResultCode;
use schema::{Change, DnKey, Entry, Schema, SettingChange};

use crate::access::acis::{self, GLOBAL_ACI, NONE_AT_ALL};
use crate::config::changes::{AccessConfig, AccessStep};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::ACCESS_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::{Decide, Decision};
use crate::write::named::{self, Named};
use crate::write::request::WriteOp;

/// Whether a request names the entry.
pub(crate) fn holds(named: &Named) -> bool {
    let own = DnKey::from_text(&named.state.schema, ACCESS_CONFIG_DN);
    own.is_ok_and(|own| own == named.key)
}

/// Resolves a modify of the entry.
pub(crate) fn modify(named: &Named, request: &ModifyRequest<'_>) -> Result<WriteOp, Refusal> {
    let mut steps = Vec::new();
    for modification in request.changes.iter() {
        let (operation, attribute) = (modification.operation, modification.attribute);
        if !is_named(&named.state.schema, attribute.description) {
            let why = format!("'{}' cannot be changed here", attribute.description);
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        }
        let is_empty = attribute.values.iter().next().is_none();
        match operation {
            ModifyOperation::Increment => return Err(named::refuse_special()),
            ModifyOperation::Replace => steps.push(AccessStep::TakeAll),
            ModifyOperation::Delete if is_empty => steps.push(AccessStep::TakeAll),
            ModifyOperation::Add | ModifyOperation::Delete => {}
        }
        for value in attribute.values.iter() {
            let text = std::str::from_utf8(value).map_err(|_| {
                Refusal::new(ResultCode::InvalidAttributeSyntax, "a value is not UTF-8")
            })?;
            let text = text.to_owned();
            steps.push(match operation {
                ModifyOperation::Delete => AccessStep::Take(text),
                _ => AccessStep::Put(text),
            });
        }
    }
    Ok(WriteOp::AccessConfig(AccessConfig { steps }))
}

fn is_named(schema: &Schema, attribute: &str) -> bool {
    schema.attribute_type(attribute).is_some_and(|kind| kind.name() == ATTRIBUTE)
}

/// Decides on the ACIs that the changes before it left.
pub(crate) fn decide(decide: &Decide<'_>, op: &AccessConfig) -> Result<Decision, Refusal> {
    let before = acis::global_values(decide.view)?;
    let mut after = before.clone();
    for step in &op.steps {
        match step {
            AccessStep::TakeAll => after.clear(),
            AccessStep::Put(text) => {
                acis::check(&decide.state.schema, &DnKey::root(), text.as_bytes())?;
                if after.contains(text) {
                    let why = "the ACI is there already";
                    return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
                }
                after.push(text.clone());
            }
            AccessStep::Take(text) => {
                let place = after.iter().position(|one| one == text);
                let place = place.ok_or_else(|| {
                    Refusal::new(ResultCode::NoSuchAttribute, "there is no such ACI")
                })?;
                after.remove(place);
            }
        }
    }
    if after == before {
        return Ok(Decision::default());
    }
    if after.is_empty() {
        after.push(NONE_AT_ALL.to_owned());
    }
    let change = Change::Setting(SettingChange { name: GLOBAL_ACI.to_owned(), values: after });
    Ok(Decision::change(decide.guard.access().permit(change)?))
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = acis::global_values(source.directory.storage.store.reader().view()?)?;
    let entry = source
        .entry(ACCESS_CONFIG_DN, &["ds-cfg-dsee-compat-access-control-handler", "top"])
        .value("ds-cfg-enabled", "TRUE")
        .values(ATTRIBUTE, values);
    Ok(vec![entry.done()])
}

const ATTRIBUTE: &str = "ds-cfg-global-aci";
