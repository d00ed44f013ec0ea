//! What looks values up in indexes of equality, and so needs them.

use std::sync::Arc;

use ldap::result::ResultCode;
use schema::{AttributeDescription, AttributeType};
use store::{Dictionary, IndexDefinition, IndexKind, IndexState};

use crate::config::group_config;
use crate::groups::user_names::MEMBER_UID_BASES;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::references;

/// Who needs an index of which attributes.
pub(super) struct IndexNeed {
    /// As a refusal names it.
    pub(super) by: String,
    pub(super) attributes: Vec<Arc<AttributeDescription>>,
    /// Of all of them, or of one.
    pub(super) needs_all: bool,
}

impl IndexNeed {
    /// An attribute without an index that has to be there.
    fn lacks(&self, has: &dyn Fn(&AttributeType) -> bool) -> Option<&AttributeDescription> {
        let mut without = self.attributes.iter().filter(|one| !has(&one.kind)).map(|one| &**one);
        match self.needs_all || without.clone().count() == self.attributes.len() {
            true => without.next(),
            false => None,
        }
    }
}

/// Refuses what would have to look at all entries, for want of an index.
pub(super) fn check(decide: &Decide<'_>, need: &IndexNeed) -> Result<(), Refusal> {
    let dictionary = decide.view.dictionary();
    match need.lacks(&|kind| has_index(dictionary, kind)) {
        None => Ok(()),
        Some(attribute) => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!(
                "'{name}' has no equality index that is complete, and each change would have to \
                 look at all entries: add one first (roster index add 'equality {name}' --wait)",
                name = attribute.kind.name()
            ),
        )),
    }
}

/// Refuses to drop indexes that something looks values up in.
pub(super) fn check_dropped(
    decide: &Decide<'_>,
    kept: impl Fn(&IndexDefinition) -> bool,
) -> Result<(), Refusal> {
    let dictionary = decide.view.dictionary();
    let stays = |kind: &AttributeType| {
        has_index(dictionary, kind) && kept(&IndexDefinition::new(IndexKind::Equality, kind.name()))
    };
    for need in needs(decide)? {
        // What has none now loses none.
        let had = need.lacks(&|kind| has_index(dictionary, kind)).is_none();
        if had && need.lacks(&stays).is_some() {
            let why = format!("{} looks values up in this index: delete that first", need.by);
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        }
    }
    Ok(())
}

/// Everything that needs any.
fn needs(decide: &Decide<'_>) -> Result<Vec<IndexNeed>, Refusal> {
    let (rules, schema) = (&decide.directory.rules, &*decide.state.schema);
    let mut needs = Vec::new();
    for constraint in rules.constraints.of(decide.view, schema).iter() {
        let (attributes, needs_all) = constraint.looks_up();
        let by = format!("constraint '{}'", constraint.name);
        needs.push(IndexNeed { by, attributes: attributes.to_vec(), needs_all });
    }
    for assignment in rules.assignments.of(decide.view, schema).iter() {
        let attributes = assignment.looks_up();
        let by = format!("assignment '{}'", assignment.name);
        needs.push(IndexNeed { by, attributes, needs_all: true });
    }
    if !decide.view.setting(MEMBER_UID_BASES)?.is_empty() {
        needs.extend(group_config::index_need(schema));
    }
    // By default those follow that have an index; but what is said is meant.
    let set = decide.view.setting(references::REFERENCES)?;
    for name in set.iter().filter(|name| *name != references::NONE_AT_ALL) {
        let Ok(attribute) = schema.describe(name) else { continue };
        let by = format!("'{name}' in cn=References,cn=config");
        needs.push(IndexNeed { by, attributes: vec![attribute], needs_all: true });
    }
    Ok(needs)
}

fn has_index(dictionary: &Dictionary, kind: &AttributeType) -> bool {
    let mut all = dictionary.definitions();
    all.any(|(_, one, state)| {
        let is_plain = one.with.is_none() && one.filter.is_none();
        let is_it = one.kind == IndexKind::Equality && one.attribute == kind.name();
        is_plain && is_it && state == IndexState::Valid
    })
}
