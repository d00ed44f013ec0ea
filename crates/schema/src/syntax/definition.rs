//! Syntaxes of schema definitions (RFC 4512 §4.1).

use super::text::utf8;
use crate::definition::{Definition, DefinitionKind};
use crate::schema::Schema;

fn check(kind: DefinitionKind, value: &[u8]) -> Result<(), &'static str> {
    match Definition::parse(kind, utf8(value)?) {
        Ok(_) => Ok(()),
        Err(_) => Err("is not a definition of RFC 4512 §4.1"),
    }
}

pub(super) fn attribute_type(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::AttributeType, value)
}

pub(super) fn object_class(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::ObjectClass, value)
}

pub(super) fn matching_rule(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::MatchingRule, value)
}

pub(super) fn matching_rule_use(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::MatchingRuleUse, value)
}

pub(super) fn ldap_syntax(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::Syntax, value)
}

pub(super) fn name_form(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::NameForm, value)
}

pub(super) fn dit_content_rule(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::ContentRule, value)
}

pub(super) fn dit_structure_rule(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    check(DefinitionKind::StructureRule, value)
}
