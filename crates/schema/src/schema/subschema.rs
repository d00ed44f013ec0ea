//! The definitions of a schema, as the subschema entry shows them (RFC 4512 §4.2).

use super::Schema;
use crate::attribute_type::AttributeType;
use crate::definition::{Body, Definition, DefinitionKind};
use crate::matching_rule::MATCHING_RULES;
use crate::rules::{MatchingRule, Syntax};
use crate::syntax::SYNTAXES;

impl Schema {
    /// The definitions of one kind, as the subschema entry shows them (RFC 4512 §4.2).
    pub fn definitions(&self, kind: DefinitionKind) -> impl Iterator<Item = String> + '_ {
        let own: Vec<Definition> = match kind {
            DefinitionKind::Syntax => SYNTAXES.iter().map(syntax_definition).collect(),
            DefinitionKind::MatchingRule => MATCHING_RULES.iter().map(rule_definition).collect(),
            DefinitionKind::MatchingRuleUse => self.rule_uses(),
            DefinitionKind::AttributeType
            | DefinitionKind::ObjectClass
            | DefinitionKind::ContentRule
            | DefinitionKind::StructureRule
            | DefinitionKind::NameForm => Vec::new(),
        };
        let from_files = self.sources.iter().map(|source| &source.definition);
        let from_files = from_files.filter(move |definition| definition.kind() == kind);
        own.into_iter().map(|own| own.to_string()).chain(from_files.map(Definition::to_string))
    }

    /// Which attribute types each matching rule suits (RFC 4512 §4.1.4); rules that suit none
    /// are left out.
    fn rule_uses(&self) -> Vec<Definition> {
        let suits = |rule: &MatchingRule, kind: &AttributeType| {
            let own = [kind.equality, kind.ordering, kind.substring];
            rule.applies_to(kind.syntax.oid)
                || own.into_iter().flatten().any(|own| own.oid == rule.oid)
        };
        let mut uses = Vec::new();
        for rule in MATCHING_RULES {
            let kinds = self.attribute_types.iter().filter(|kind| suits(rule, kind));
            let mut applies: Vec<String> = kinds.map(|kind| kind.name().to_owned()).collect();
            applies.sort_unstable_by_key(|name| name.to_ascii_lowercase());
            if !applies.is_empty() {
                uses.push(definition(
                    rule.oid,
                    &[rule.name],
                    None,
                    Body::MatchingRuleUse { applies },
                ));
            }
        }
        uses
    }
}

fn definition(oid: &str, names: &[&str], description: Option<&str>, body: Body) -> Definition {
    Definition {
        oid: oid.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        description: description.map(str::to_owned),
        obsolete: false,
        body,
        extensions: Vec::new(),
    }
}

fn syntax_definition(syntax: &Syntax) -> Definition {
    let mut definition = definition(syntax.oid, &[], Some(syntax.name), Body::Syntax);
    if !syntax.human_readable {
        definition.set_extension("X-NOT-HUMAN-READABLE", "TRUE");
    }
    definition
}

fn rule_definition(rule: &MatchingRule) -> Definition {
    let syntax = rule.syntax.to_owned();
    definition(rule.oid, &[rule.name], None, Body::MatchingRule { syntax })
}
