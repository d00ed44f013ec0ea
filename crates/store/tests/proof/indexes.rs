//! Arbitrary index configurations: every kind, rules other than the attribute's own, two
//! attributes, some entries only.

use schema::RuleKind;
use store::{IndexConfig, IndexDefinition, IndexKind};

use crate::arbitrary::dice::Dice;
use crate::arbitrary::filters::{self, Asked, Condition};
use crate::arbitrary::tree::often_first;
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
    for _ in 0..dice.below(7) * usize::from(share > 0) {
        all.extend(special(words, &mut conditions, dice));
    }
    if dice.one_in(2) {
        // Beside an index of all entries one of some is not asked.
        let has_some =
            |attribute: &String| conditions.iter().any(|one| one.attribute == *attribute);
        all.retain(|one: &IndexDefinition| one.filter.is_some() || !has_some(&one.attribute));
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
        let mut rules = vocabulary::applying(syntax);
        rules.retain(|rule| rule.kind == RuleKind::Equality);
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
    let word = often_first(words, dice);
    let attribute = word.kind.name();
    let kind = match dice.one_in(2) {
        true => IndexKind::Equality,
        false => *dice.pick(&IndexKind::ALL),
    };
    let mut definition = match dice.below(2) {
        0 => one(words, kind, attribute, dice)?,
        _ => {
            let with = often_first(words, dice);
            let (of, value) = (words.asked(with, dice), dice.pick_skewed(&with.pool).clone());
            // What is asked together with the other attribute.
            let filter = Asked::Equal(of, value);
            conditions.push(Condition { filter, attribute: attribute.to_owned() });
            IndexDefinition {
                with: Some(with.kind.name().to_owned()),
                ..IndexDefinition::new(IndexKind::Equality, attribute)
            }
        }
    };
    if definition.with.is_none() || dice.one_in(4) {
        let depth = dice.below(3);
        let mut filter = match dice.below(3) {
            0 => filters::filter(words, dice, depth),
            1 => filters::about(words, word, dice),
            _ => Asked::Equal(attribute.to_owned(), dice.pick_skewed(&word.pool).clone()),
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
