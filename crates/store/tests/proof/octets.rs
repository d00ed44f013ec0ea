//! Octet strings that are hard on keys: zeros and the octets that keys escape and end with, each a
//! beginning of others, alike for longer than a key may be.

use ldap::message::Scope;

use crate::arbitrary::dice::Dice;
use crate::arbitrary::filters::{self, Asked};
use crate::arbitrary::vocabulary::Vocabulary;
use crate::question::Question;

/// Octets of a value key that is stored whole, and of what is kept of a longer one, and beside.
const LENGTHS: [usize; 9] = [203, 204, 205, 206, 219, 220, 221, 222, 400];

/// Types of octet strings that have every rule or only some, and nothing else.
pub fn vocabulary(dice: &mut Dice) -> Vocabulary {
    const SYNTAX: &str = "SYNTAX 1.3.6.1.4.1.1466.115.121.1.40";
    const ORDERING: &str = "ORDERING octetStringOrderingMatch";
    const SUBSTRINGS: &str = "SUBSTR octetStringSubstringsMatch";
    let all = [
        format!("EQUALITY octetStringMatch {ORDERING} {SUBSTRINGS} {SYNTAX}"),
        format!("EQUALITY octetStringMatch {SUBSTRINGS} {SYNTAX}"),
        "SUP x0".to_owned(),
    ];
    let define = |(number, rules): (usize, String)| {
        format!("attributeTypes: ( 1.3.6.1.4.1.99999.{number} NAME 'x{number}' {rules} )\n")
    };
    let definitions: String = all.into_iter().enumerate().map(define).collect();
    let mut words = Vocabulary::defined(definitions, dice);
    words.words.retain(|word| word.kind.name().starts_with('x'));
    for word in &mut words.words {
        word.pool = pool(dice);
    }
    words
}

fn pool(dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut pool = vec![vec![0], vec![0, 0], vec![0xff], vec![0, 0xff], vec![0, 0xff, 0, 0]];
    for _ in 0..dice.between(2, 12) {
        let mut value = dice.pick(&pool).clone();
        value.extend((0..dice.below(4)).map(|_| octet(dice)));
        pool.push(value);
    }
    for _ in 0..dice.below(3) {
        let start = vec![octet(dice); 202];
        for _ in 0..dice.between(1, 4) {
            let mut value = start.clone();
            let length = *dice.pick(&LENGTHS);
            value.extend((start.len()..length).map(|_| if dice.one_in(8) { 0 } else { 0xff }));
            pool.push(value);
        }
    }
    let first = dice.below(pool.len());
    pool.rotate_left(first);
    pool
}

fn octet(dice: &mut Dice) -> u8 {
    if dice.one_in(3) { dice.below(256) as u8 } else { *dice.pick(&[0, 0, 1, 2, 0xfe, 0xff]) }
}

/// A search by alternatives, the first of them an equality that values have.
pub fn question(words: &Vocabulary, ids: &[u64], dice: &mut Dice) -> Question {
    let word = words.word(dice);
    let value = dice.pick_skewed(&word.pool).clone();
    let mut parts = vec![Asked::Equal(words.asked(word, dice), value)];
    for _ in 0..dice.between(1, 4) {
        let part = match dice.below(4) {
            0 => filters::filter(words, dice, 2),
            _ => filters::about(words, word, dice),
        };
        parts.push(if dice.one_in(4) { Asked::Not(Box::new(part)) } else { part });
    }
    let filter = Asked::Or(parts);
    let base = if ids.is_empty() || dice.one_in(2) { 0 } else { *dice.pick_skewed(ids) };
    let wanted = dice.one_in(3).then(|| dice.between(1, 5) as u64);
    Question { filter, base, scope: Scope::Subtree, page: dice.below(8), wanted }
}
