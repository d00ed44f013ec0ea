//! Arbitrary index configurations: every kind, rules other than the attribute's own, two
//! attributes, some entries only.

use schema::RuleKind;
use store::{IndexConfig, IndexDefinition, IndexKind};

use crate::arbitrary::dice::Dice;
use crate::arbitrary::filters::{self, Asked, Condition};
use crate::arbitrary::vocabulary::{self, Vocabulary};

/// Some of the indexes that the vocabulary allows: none, few, most or all.
pub fn random(words: &Vocabulary, dice: &mut Dice) -> (Vec<IndexDefinition>, Vec<Condition>) {
    let share = *dice.pick(&[0, 3, 6, 6, 9, 10]);
    let mut names: Vec<String> = words.words.iter().map(|word| word.kind.name().into()).collect();
    names.extend(["name", "distinguishedName"].map(str::to_owned));
    names.sort();
    names.dedup();
    let mut all = Vec::new();
    for attribute in names {
        for kind in IndexKind::ALL {
            if dice.below(10) < share {
                all.extend(one(words, kind, &attribute, dice));
            }
        }
    }
    let mut conditions = Vec::new();
    for _ in 0..dice.below(5) * usize::from(share > 0) {
        all.extend(special(words, &mut conditions, dice));
    }
    all.sort();
    all.dedup();
    (all, conditions)
}

/// An index of this kind; none when there can be none.
fn one(
    words: &Vocabulary,
    kind: IndexKind,
    attribute: &str,
    dice: &mut Dice,
) -> Option<IndexDefinition> {
    let mut definition = IndexDefinition::new(kind, attribute);
    if kind == IndexKind::Extensible {
        let syntax = words.schema.attribute_type(attribute)?.syntax.oid;
        let fits = |rule: &&schema::MatchingRule| {
            rule.kind == RuleKind::Equality && rule.applies_to(syntax)
        };
        let rules: Vec<_> = vocabulary::rules().filter(fits).collect();
        definition.rule = Some((!rules.is_empty()).then(|| *dice.pick(&rules))?.oid.to_owned());
    }
    definition.canonical(&words.schema).ok()
}

/// An index of two attributes, or of the entries that a filter is true of.
pub fn special(
    words: &Vocabulary,
    conditions: &mut Vec<Condition>,
    dice: &mut Dice,
) -> Option<IndexDefinition> {
    let word = words.word(dice);
    let attribute = word.kind.name();
    let kind = *dice.pick(&IndexKind::ALL);
    let mut definition = match dice.below(3) {
        0 => one(words, kind, attribute, dice)?,
        _ => IndexDefinition {
            with: Some(words.word(dice).kind.name().to_owned()),
            ..IndexDefinition::new(IndexKind::Equality, attribute)
        },
    };
    if definition.with.is_none() || dice.one_in(4) {
        let depth = dice.below(3);
        let mut filter = match dice.one_in(2) {
            true => filters::filter(words, dice, depth),
            false => filters::about(words, word, dice),
        };
        if dice.one_in(3) {
            filter = Asked::Not(Box::new(filter));
        }
        definition.filter = Some(filter.to_string());
        conditions.push(Condition { filter, attribute: attribute.to_owned() });
    }
    definition.canonical(&words.schema).ok()
}

/// One more index of whatever kind; none when there can be none such.
pub fn another(
    words: &Vocabulary,
    conditions: &mut Vec<Condition>,
    dice: &mut Dice,
) -> Option<IndexDefinition> {
    if dice.one_in(3) {
        return special(words, conditions, dice);
    }
    let kind = *dice.pick(&IndexKind::ALL);
    one(words, kind, words.word(dice).kind.name(), dice)
}

pub fn config(indexes: &[IndexDefinition]) -> IndexConfig {
    indexes.iter().fold(IndexConfig::none(), |config, one| config.and(one.clone()))
}

/// What a data directory keeps of a definition must be readable when it is opened again: values of
/// certificates travel as `;binary`, which is no part of a type's name.
#[test]
fn a_definition_names_types_by_their_names() {
    let schema = schema::Schema::builtin();
    let line = "equality title with userCertificate";
    let definition = IndexDefinition::parse(line).unwrap().canonical(&schema).unwrap();
    assert_eq!(definition.to_string(), line);
}
