//! The schema of a server, as far as it is of use here: by which rules its attributes are compared,
//! and which of its classes are structural.
//!
//! Invariant: what cannot be read or understood is left out; what roster ships is known then.

use std::sync::Arc;

use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{
    AttributeTypeBody, Body, Definition, DefinitionKind, RuleKind, SHIPPED, Schema, SchemaFile,
};

use crate::failure::Failure;
use crate::output;

/// Everything that roster ships.
pub(crate) fn shipped() -> Result<Arc<Schema>, Failure> {
    let files: Vec<SchemaFile> = SHIPPED.iter().flat_map(|one| one.files()).collect();
    let mut seen = std::collections::HashSet::new();
    let files: Vec<_> = files.into_iter().filter(|file| seen.insert(file.name.clone())).collect();
    Ok(Arc::new(Schema::builtin().with_files(&files).map_err(Failure::local)?))
}

/// The schema of a server, with all that roster ships; none if it shows none.
pub(crate) fn of_server(
    connection: &mut Connection,
    shipped: &Arc<Schema>,
) -> Result<Option<Arc<Schema>>, Failure> {
    let Some(name) = text_of(connection, "", "subschemaSubentry")?.into_iter().next() else {
        return Ok(None);
    };
    let mut definitions = Vec::new();
    for kind in [DefinitionKind::AttributeType, DefinitionKind::ObjectClass] {
        let texts = text_of(connection, &name, kind.attribute())?;
        let parsed = texts.iter().filter_map(|text| Definition::parse(kind, text).ok());
        definitions.extend(parsed.filter_map(|one| usable(one, shipped)));
    }
    Ok(Some(with_definitions(shipped, &definitions)))
}

fn text_of(
    connection: &mut Connection,
    name: &str,
    attribute: &str,
) -> Result<Vec<String>, Failure> {
    let attributes = [attribute];
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &attributes,
        ..SearchFor::below(name, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let texts = found.entries.first().map(|entry| entry.texts(attribute).map(str::to_owned));
    Ok(texts.into_iter().flatten().collect())
}

/// A definition as it can be added; none if there is no need.
fn usable(definition: Definition, shipped: &Schema) -> Option<Definition> {
    let Definition { oid, names, body, .. } = definition;
    let is_taken = |name: &String| shipped.oid_of(name).is_some_and(|other| other != oid);
    let names: Vec<String> = names.into_iter().filter(|name| !is_taken(name)).collect();
    let (names, body) = match body {
        Body::AttributeType(body) => {
            let known = shipped.attribute_type(&oid);
            let names = known.map_or(names, |known| known.names.clone());
            let body = known_rules(body, shipped);
            if known.is_some_and(|known| !is_compared_otherwise(&body, known, shipped)) {
                return None;
            }
            (names, Body::AttributeType(body))
        }
        Body::ObjectClass { superiors, kind, .. } => {
            if shipped.object_class(&oid).is_some() {
                return None;
            }
            // What its entries hold is not asked here.
            (names, Body::ObjectClass { superiors, kind, must: Vec::new(), may: Vec::new() })
        }
        Body::Syntax
        | Body::MatchingRule { .. }
        | Body::MatchingRuleUse { .. }
        | Body::ContentRule { .. }
        | Body::StructureRule { .. }
        | Body::NameForm { .. } => return None,
    };
    let (description, obsolete) = (None, false);
    Some(Definition { oid, names, description, obsolete, body, extensions: Vec::new() })
}

/// The body without rules and syntaxes that are not known here.
fn known_rules(body: AttributeTypeBody, shipped: &Schema) -> AttributeTypeBody {
    let rule = |name: Option<String>, kind: RuleKind| {
        name.filter(|name| shipped.matching_rule(name).is_some_and(|rule| rule.kind == kind))
    };
    let syntax = body.syntax.filter(|oid| shipped.syntax(oid).is_some());
    let syntax = match (&syntax, &body.superior) {
        (None, None) => Some(OCTET_STRING.to_owned()),
        _ => syntax,
    };
    AttributeTypeBody {
        equality: rule(body.equality, RuleKind::Equality),
        ordering: None,
        substring: None,
        length_max: None,
        syntax,
        ..body
    }
}

/// Whether the server compares values of a type that is known here by another rule.
fn is_compared_otherwise(
    body: &AttributeTypeBody,
    known: &schema::AttributeType,
    shipped: &Schema,
) -> bool {
    let own = known.equality.map(|rule| rule.oid);
    match &body.equality {
        Some(name) => shipped.matching_rule(name).map(|rule| rule.oid) != own,
        None => body.superior.is_none() && own.is_some(),
    }
}

/// The schema with as many of the definitions as go together.
fn with_definitions(shipped: &Arc<Schema>, definitions: &[Definition]) -> Arc<Schema> {
    let file = |(number, one): (usize, &Definition)| SchemaFile {
        name: number.to_string(),
        text: format!("{}\n", one.line()),
    };
    let mut files: Vec<SchemaFile> = definitions.iter().enumerate().map(file).collect();
    for _ in 0..ATTEMPTS_MAX {
        match shipped.with_files(&files) {
            Ok(schema) => return Arc::new(schema),
            Err(error) => {
                let before = files.len();
                files.retain(|file| file.name != error.place.file);
                if files.len() == before {
                    break;
                }
            }
        }
    }
    output::note(format_args!(
        "roster: note: the definitions of the server's schema do not go together: values are \
         compared by what roster ships"
    ));
    Arc::clone(shipped)
}

/// Definitions that are left out at the most before nothing of the server's schema is used.
const ATTEMPTS_MAX: usize = 400;
const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";

#[cfg(test)]
mod tests {
    use super::*;

    fn schema_of(types: &[&str], classes: &[&str]) -> Arc<Schema> {
        let shipped = shipped().unwrap();
        let of = |kind, texts: &[&str]| -> Vec<Definition> {
            let parsed = texts.iter().map(|text| Definition::parse(kind, text).unwrap());
            parsed.filter_map(|one| usable(one, &shipped)).collect()
        };
        let all =
            [of(DefinitionKind::AttributeType, types), of(DefinitionKind::ObjectClass, classes)];
        with_definitions(&shipped, &all.concat())
    }

    #[test]
    fn what_a_server_defines_is_known_as_far_as_it_can_be() {
        let schema = schema_of(
            &[
                "( 1.9.1 NAME 'badge' EQUALITY caseIgnoreMatch \
                 SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
                "( 1.9.2 NAME 'odd' EQUALITY noSuchMatch SYNTAX 1.9.9.9 )",
                "( 1.9.3 NAME 'lost' SUP nowhere )",
                // As roster has it, and as it has it not.
                "( 2.5.4.4 NAME ( 'sn' 'surname' ) SUP name )",
                "( 2.5.4.15 NAME 'businessCategory' EQUALITY caseExactMatch \
                 SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )",
            ],
            &["( 1.9.4 NAME 'thing' SUP top STRUCTURAL MUST ( cn $ lost ) )"],
        );
        let rule = |name: &str| {
            schema.attribute_type(name).map(|kind| kind.equality.map(|rule| rule.name))
        };
        assert_eq!(rule("badge"), Some(Some("caseIgnoreMatch")));
        assert_eq!(rule("odd"), Some(None));
        assert_eq!(rule("lost"), None);
        assert_eq!(rule("sn"), Some(Some("caseIgnoreMatch")));
        assert_eq!(rule("businessCategory"), Some(Some("caseExactMatch")));
        assert!(schema.object_class("thing").is_some());
    }
}
