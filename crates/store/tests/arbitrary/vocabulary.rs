//! What a case speaks of: a schema with arbitrary attribute types, and values for each of them.

use std::fmt::Write as _;
use std::sync::Arc;

use schema::{
    AttributeType, Compare, MATCHING_RULES, MatchingRule, RuleKind, SYNTAXES, Schema, SchemaFile,
};

use super::dice::Dice;
use super::values;

#[derive(Debug)]
pub struct Vocabulary {
    pub schema: Arc<Schema>,
    /// The definitions that are not in every schema.
    pub definitions: String,
    pub words: Vec<Word>,
}

/// An attribute type and what its values look like.
#[derive(Debug)]
pub struct Word {
    pub kind: Arc<AttributeType>,
    pub pool: Vec<Vec<u8>>,
}

/// Types that the server itself has plans for, and usual ones.
const USUAL: [&str; 17] = [
    "objectClass",
    "cn",
    "sn",
    "name",
    "uid",
    "mail",
    "telephoneNumber",
    "member",
    "uniqueMember",
    "uidNumber",
    "description",
    "postalAddress",
    "title",
    "createTimestamp",
    "jpegPhoto",
    "distinguishedName",
    "seeAlso",
];
const OPTIONS: [&str; 5] = [";lang-de", ";lang-de-at", ";lang-en", ";x-a", ";lang-de;x-a"];
/// Syntaxes that most rules are about: integers, octets, texts, times.
const TELLING: [&str; 4] = [
    "1.3.6.1.4.1.1466.115.121.1.27",
    "1.3.6.1.4.1.1466.115.121.1.40",
    "1.3.6.1.4.1.1466.115.121.1.15",
    "1.3.6.1.4.1.1466.115.121.1.24",
];
/// Options that only a question may have.
const RANGES: [&str; 2] = [";lang-", ";lang-de-"];

impl Vocabulary {
    pub fn random(dice: &mut Dice) -> Self {
        let mut definitions = String::new();
        for number in 0..dice.between(2, 10) {
            define(&mut definitions, number, dice);
        }
        let mut all = Self::of(definitions, dice);
        if dice.one_in(2) {
            // Of few types, so that entries and filters have them together.
            all.words.truncate(dice.between(2, 4));
        }
        all
    }

    /// The types that are in every schema.
    pub fn usual(dice: &mut Dice) -> Self {
        Self::of(String::new(), dice)
    }

    /// These types, and some of the usual ones.
    pub fn defined(definitions: String, dice: &mut Dice) -> Self {
        Self::of(definitions, dice)
    }

    fn of(definitions: String, dice: &mut Dice) -> Self {
        let file = SchemaFile { name: "90-arbitrary.ldif".to_owned(), text: definitions.clone() };
        let schema = Schema::builtin().with_files(&[file]);
        let schema = Arc::new(schema.unwrap_or_else(|error| panic!("{error}: {definitions}")));
        let arbitrary = (0..definitions.lines().count()).map(|number| format!("x{number}"));
        let usual = USUAL.into_iter().filter(|_| !dice.one_in(3)).map(str::to_owned);
        let names: Vec<String> = usual.chain(arbitrary).collect();
        let mut word = |name: String| {
            let kind = Arc::clone(schema.attribute_type(&name).unwrap());
            let mut pool = values::pool(kind.syntax.oid, dice);
            if name == "objectClass" {
                pool = ["top", "person", "PERSON", "2.5.6.6"].map(Vec::from).to_vec();
            }
            Word { kind, pool }
        };
        let mut words: Vec<Word> = names.into_iter().map(&mut word).collect();
        let first = dice.below(words.len());
        words.rotate_left(first);
        Self { schema, definitions, words }
    }

    pub fn word(&self, dice: &mut Dice) -> &Word {
        dice.pick(&self.words)
    }

    /// The description of an attribute that is stored.
    pub fn stored(&self, word: &Word, dice: &mut Dice) -> String {
        let option = if dice.one_in(4) { *dice.pick(&OPTIONS) } else { "" };
        format!("{}{option}", word.kind.name())
    }

    /// The description of an attribute that is asked for: of the type, or of one above or below.
    pub fn asked(&self, word: &Word, dice: &mut Dice) -> String {
        let mut kind = &word.kind;
        while let Some(superior) = &kind.superior
            && dice.one_in(3)
        {
            kind = superior;
        }
        let name = match dice.below(30) {
            0 => "noSuchType".to_owned(),
            1 | 2 => kind.oid.clone(),
            3 | 4 => kind.names.last().unwrap_or(&kind.oid).to_uppercase(),
            _ => kind.name().to_owned(),
        };
        let option = match dice.below(15) {
            0 | 1 => *dice.pick(&OPTIONS),
            2 => *dice.pick(&RANGES),
            _ => "",
        };
        format!("{name}{option}")
    }
}

/// The rules there are. In-chain is not a question about one entry, so it is left out.
pub fn rules() -> impl Iterator<Item = &'static MatchingRule> {
    MATCHING_RULES.iter().filter(|rule| rule.oid != IN_CHAIN)
}

/// Those that apply to a syntax; those about bits three times, as few syntaxes have them.
pub fn applying(syntax: &str) -> Vec<&'static MatchingRule> {
    let times = |rule: &MatchingRule| match rule.compare {
        Compare::AllBits | Compare::AnyBits => 3,
        _ => 1,
    };
    let all = rules().filter(|rule| rule.applies_to(syntax));
    all.flat_map(|rule| std::iter::repeat_n(rule, times(rule))).collect()
}

const IN_CHAIN: &str = "1.2.840.113556.1.4.1941";

fn define(text: &mut String, number: usize, dice: &mut Dice) {
    let superior = (number > 0 && dice.one_in(2)).then(|| dice.below(number));
    // A type and its subtypes have one usage.
    let superior = superior.filter(|of| !text.lines().nth(*of).unwrap().contains(" USAGE "));
    write!(text, "attributeTypes: ( 1.3.6.1.4.1.99999.{number} NAME ( 'x{number}' ").unwrap();
    write!(text, "'alias{number}' )").unwrap();
    if let Some(superior) = superior {
        write!(text, " SUP x{superior}").unwrap();
    }
    if superior.is_none() || dice.one_in(4) {
        // Any rule's syntax, so that each rule has its turn.
        let rule: Vec<&MatchingRule> = rules().collect();
        let syntax = match dice.below(6) {
            0 => dice.pick(SYNTAXES).oid,
            1 | 2 => *dice.pick(&TELLING),
            _ => {
                let rule = *dice.pick(&rule);
                *dice.pick(rule.applies_to)
            }
        };
        for (kind, word) in [
            (RuleKind::Equality, "EQUALITY"),
            (RuleKind::Ordering, "ORDERING"),
            (RuleKind::Substring, "SUBSTR"),
        ] {
            let fits = |rule: &&MatchingRule| rule.kind == kind && rule.applies_to(syntax);
            let fitting: Vec<&MatchingRule> = rules().filter(fits).collect();
            if !fitting.is_empty() && !dice.one_in(8) {
                write!(text, " {word} {}", dice.pick(&fitting).name).unwrap();
            }
        }
        write!(text, " SYNTAX {syntax}").unwrap();
    }
    if dice.one_in(4) {
        text.push_str(" SINGLE-VALUE");
    }
    if superior.is_none() && dice.one_in(5) {
        // With one value that only the server changes, both bounds of a range are about that value.
        text.push_str(" NO-USER-MODIFICATION USAGE directoryOperation");
    }
    text.push_str(" )\n");
}
