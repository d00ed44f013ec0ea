//! What a schema is and what it refuses to become.

mod changes;
mod descriptions;
mod files;
mod lookup;

use proptest::prelude::*;

use super::*;
use crate::definition::{ClassKind, DEFINITION_COUNT_MAX, Definition, DefinitionKind};
use crate::error::SchemaFault;
use crate::matching_rule::MATCHING_RULES;
use crate::syntax::SYNTAXES;

fn file(name: &str, text: &str) -> SchemaFile {
    SchemaFile { name: name.to_owned(), text: text.to_owned() }
}

fn attribute(text: &str) -> Definition {
    Definition::parse(DefinitionKind::AttributeType, text).unwrap()
}

fn class(text: &str) -> Definition {
    Definition::parse(DefinitionKind::ObjectClass, text).unwrap()
}

/// Drops the line numbers of the tree's own files, which change with every edit.
fn without_lines(message: &str) -> String {
    let mut text = String::new();
    for part in message.split_inclusive(".ldif:") {
        let is_own = |part: &str| part.contains("(0") && part.ends_with(".ldif:");
        let after_own = text.contains("(0") && text.ends_with(".ldif");
        let part =
            if after_own { part.trim_start_matches(|c: char| c.is_ascii_digit()) } else { part };
        text.push_str(if is_own(part) { part.trim_end_matches(':') } else { part });
    }
    text
}

fn every_definition(schema: &Schema) -> Vec<String> {
    let lines = |kind: DefinitionKind| {
        schema.definitions(kind).map(move |text| format!("{}: {text}", kind.attribute()))
    };
    let mut all: Vec<String> = DefinitionKind::ALL.into_iter().flat_map(lines).collect();
    all.sort();
    all
}

/// Compares line by line, so that a failure shows one line.
#[track_caller]
fn assert_same(found: &[String], want: &[String]) {
    for (found, want) in found.iter().zip(want) {
        assert_eq!(found, want);
    }
    assert_eq!(found.len(), want.len());
}

/// Writes all definitions of a schema as one file.
fn as_file(lines: &[String]) -> SchemaFile {
    file("all.ldif", &lines.join("\n"))
}

#[test]
fn the_definitions_of_a_schema_load_to_an_equal_one() {
    let schema = Schema::builtin();
    let all = every_definition(&schema);
    let again = Schema::load(&[as_file(&all)]).unwrap_or_else(|error| panic!("{error}"));
    assert_same(&every_definition(&again), &all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_of_definitions_does_not_matter(
        lines in Just(every_definition(&Schema::builtin())).prop_shuffle()
    ) {
        let again = Schema::load(&[as_file(&lines)]).unwrap();
        assert_same(&every_definition(&again), &every_definition(&Schema::builtin()));
        let person = again.object_class("inetOrgPerson").unwrap();
        prop_assert_eq!(person.all_must.len(), 3);
    }

    #[test]
    fn any_file_is_read_or_refused_with_its_line(
        text in "(attributeTypes: |objectclass |#|[ \t\n:a(){}']|\\( 1\\.2\\.3 |SUP top \\)){0,20}"
    ) {
        if let Err(error) = Schema::builtin().with_files(&[file("f", &text)]) {
            prop_assert!(error.to_string().starts_with("f:"), "{}", error);
        }
    }
}
