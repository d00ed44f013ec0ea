//! What a filter says of an entry, value by value: three-valued logic, subtypes and options written
//! down a second time. Only what a rule makes of one value is the schema's.

use std::sync::Arc;

use schema::{
    APPROXIMATE_RULE, AttributeType, Compare, Entry, MatchingRule, Position, RuleKind, Schema,
};

use super::filters::Asked;

/// A filter, ready to judge entries.
pub enum Judge {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    /// Some value that it is about passes.
    Some(About, Test),
    Undefined,
}

/// Which values are looked at.
pub struct About {
    /// Type and options; none: all that the rule applies to.
    of: Option<(Arc<AttributeType>, Vec<String>)>,
    rule: Option<&'static MatchingRule>,
    /// The values of the name, too.
    name: bool,
}

pub enum Test {
    Present,
    Equal(Vec<u8>),
    AtLeast(Vec<u8>),
    AtMost(Vec<u8>),
    Before(Vec<u8>),
    Pieces { initial: Vec<u8>, any: Vec<Vec<u8>>, final_: Vec<u8> },
}

impl Judge {
    pub fn new(asked: &Asked, schema: &Schema) -> Self {
        let all = |all: &[Asked]| all.iter().map(|one| Self::new(one, schema)).collect();
        let judge = match asked {
            Asked::And(parts) => Some(Self::And(all(parts))),
            Asked::Or(parts) => Some(Self::Or(all(parts))),
            Asked::Not(part) => Some(Self::Not(Box::new(Self::new(part, schema)))),
            Asked::Present(of) => describe(of, schema).map(|of| {
                Self::Some(About { of: Some(of), rule: None, name: false }, Test::Present)
            }),
            Asked::Equal(of, value) => {
                compared(of, value, schema, |kind| kind.equality, Test::Equal)
            }
            Asked::AtLeast(of, value) => {
                compared(of, value, schema, |kind| kind.ordering, Test::AtLeast)
            }
            Asked::AtMost(of, value) => {
                compared(of, value, schema, |kind| kind.ordering, Test::AtMost)
            }
            Asked::Like(of, value) => {
                let approximate = MatchingRule::find(APPROXIMATE_RULE).unwrap();
                let rule = |kind: &AttributeType| match approximate.applies_to(kind.syntax.oid) {
                    true => Some(approximate),
                    false => kind.equality,
                };
                compared(of, value, schema, rule, Test::Equal)
            }
            Asked::Pieces { of, initial, any, final_ } => describe(of, schema).and_then(|of| {
                let rule = of.0.substring?;
                pieces(of, rule, initial.as_deref(), any, final_.as_deref())
            }),
            Asked::ByRule { of, rule, dn, value } => {
                by_rule(of.as_deref(), rule.as_deref(), *dn, value, schema)
            }
        };
        judge.unwrap_or(Self::Undefined)
    }

    /// None is Undefined.
    pub fn says(&self, schema: &Schema, entry: &Entry) -> Option<bool> {
        match self {
            Self::And(parts) => {
                let said: Vec<_> = parts.iter().map(|part| part.says(schema, entry)).collect();
                if said.contains(&Some(false)) {
                    Some(false)
                } else {
                    (!said.contains(&None)).then_some(true)
                }
            }
            Self::Or(parts) => {
                let said: Vec<_> = parts.iter().map(|part| part.says(schema, entry)).collect();
                if said.contains(&Some(true)) {
                    Some(true)
                } else {
                    (!said.contains(&None)).then_some(false)
                }
            }
            Self::Not(part) => part.says(schema, entry).map(|said| !said),
            Self::Some(about, test) => {
                Some(about.values(entry, schema).any(|value| about.passes(test, value, schema)))
            }
            Self::Undefined => None,
        }
    }
}

impl About {
    fn values<'a>(
        &'a self,
        entry: &'a Entry,
        schema: &'a Schema,
    ) -> impl Iterator<Item = &'a [u8]> + 'a {
        let stored = entry.attributes().iter().filter(|attribute| {
            let had = &attribute.description;
            self.is_about(&had.kind, had.options())
        });
        let stored = stored.flat_map(|attribute| attribute.values.iter());
        let named = entry.name().rdns().iter().flat_map(|rdn| rdn.avas()).filter(|ava| {
            let kind = schema.attribute_type(&ava.attribute);
            self.name && kind.is_some_and(|kind| self.is_about(kind, &[]))
        });
        stored.map(Vec::as_slice).chain(named.map(|ava| &ava.value[..]))
    }

    fn is_about(&self, kind: &Arc<AttributeType>, had: &[String]) -> bool {
        let Some((asked, options)) = &self.of else {
            return self.rule.unwrap().applies_to.contains(&kind.syntax.oid);
        };
        let mut next = Some(kind);
        while let Some(one) = next
            && one.oid != asked.oid
        {
            next = one.superior.as_ref();
        }
        let has = |option: &String| match option.strip_suffix('-') {
            Some(range) => had.iter().any(|had| had == range || had.starts_with(option)),
            None => had.contains(option),
        };
        next.is_some() && options.iter().all(has)
    }

    fn passes(&self, test: &Test, value: &[u8], schema: &Schema) -> bool {
        let Some(rule) = self.rule else { return true };
        let mut key = Vec::new();
        if (rule.prepare)(schema, value, &mut key).is_err() {
            return false;
        }
        match test {
            Test::Present => true,
            Test::Equal(asked) => matches(rule, &key, asked),
            Test::AtLeast(asked) => key >= *asked,
            Test::AtMost(asked) => key <= *asked,
            Test::Before(asked) => key < *asked,
            Test::Pieces { initial, any, final_ } => {
                let fits = key.starts_with(initial)
                    && key.ends_with(final_)
                    && key.len() >= initial.len() + final_.len();
                fits && in_order(&key[initial.len()..key.len() - final_.len()], any)
            }
        }
    }
}

fn in_order(text: &[u8], pieces: &[Vec<u8>]) -> bool {
    let Some((piece, others)) = pieces.split_first() else { return true };
    (0..=text.len())
        .any(|at| text[at..].starts_with(piece) && in_order(&text[at + piece.len()..], others))
}

fn matches(rule: &MatchingRule, value: &[u8], asked: &[u8]) -> bool {
    let words = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split(|&octet| octet == b' ').map(<[u8]>::to_vec).collect()
    };
    // In two's complement, both of one length.
    let number = |key: &[u8]| {
        let sign = if key[0] & 0x80 == 0 { 0 } else { 0xff };
        let length = value.len().max(asked.len());
        [vec![sign; length - key.len()], key.to_vec()].concat()
    };
    let both = || -> Vec<(u8, u8)> { number(value).into_iter().zip(number(asked)).collect() };
    match rule.compare {
        Compare::Key | Compare::Chain => value == asked,
        Compare::Word => words(value).contains(&asked.to_vec()),
        Compare::Words => {
            let mut left = words(value);
            words(asked).iter().all(|word| {
                let at = left.iter().position(|one| one == word);
                at.is_some_and(|at| left.drain(..=at).count() > 0)
            })
        }
        Compare::AllBits => both().iter().all(|(value, asked)| value & asked == *asked),
        Compare::AnyBits => both().iter().any(|(value, asked)| value & asked != 0),
    }
}

fn describe(text: &str, schema: &Schema) -> Option<(Arc<AttributeType>, Vec<String>)> {
    let mut parts = text.split(';');
    let kind = schema.attribute_type(parts.next()?)?;
    let options = parts.map(str::to_lowercase).filter(|option| option != "binary").collect();
    Some((Arc::clone(kind), options))
}

fn compared(
    of: &str,
    value: &[u8],
    schema: &Schema,
    rule: impl Fn(&AttributeType) -> Option<&'static MatchingRule>,
    test: impl Fn(Vec<u8>) -> Test,
) -> Option<Judge> {
    let of = describe(of, schema)?;
    let rule = rule(&of.0)?;
    let key = asserted(rule, value, schema)?;
    Some(Judge::Some(About { of: Some(of), rule: Some(rule), name: false }, test(key)))
}

fn asserted(rule: &MatchingRule, value: &[u8], schema: &Schema) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    rule.prepare_assertion(schema, value, &mut key).ok()?;
    Some(key)
}

fn pieces(
    of: (Arc<AttributeType>, Vec<String>),
    rule: &'static MatchingRule,
    initial: Option<&[u8]>,
    any: &[Vec<u8>],
    final_: Option<&[u8]>,
) -> Option<Judge> {
    let prepared = |position, piece: &[u8]| {
        let mut key = Vec::new();
        rule.prepare_piece?(position, piece, &mut key).ok()?;
        Some(key)
    };
    let initial = initial.map_or(Some(Vec::new()), |one| prepared(Position::Initial, one))?;
    let final_ = final_.map_or(Some(Vec::new()), |one| prepared(Position::Final, one))?;
    let any = any.iter().map(|one| prepared(Position::Any, one)).collect::<Option<_>>()?;
    let about = About { of: Some(of), rule: Some(rule), name: false };
    Some(Judge::Some(about, Test::Pieces { initial, any, final_ }))
}

/// RFC 4511 §4.5.1.7.7.
fn by_rule(
    of: Option<&str>,
    rule: Option<&str>,
    dn: bool,
    value: &[u8],
    schema: &Schema,
) -> Option<Judge> {
    let of = match of {
        Some(of) => Some(describe(of, schema)?),
        None => None,
    };
    let rule = match rule {
        Some(rule) => schema.matching_rule(rule)?,
        None => of.as_ref()?.0.equality?,
    };
    if let Some((kind, _)) = &of {
        let own = [kind.equality, kind.ordering, kind.substring].contains(&Some(rule));
        if !own && !rule.applies_to.contains(&kind.syntax.oid) {
            return None;
        }
    }
    if rule.kind == RuleKind::Substring {
        // Its assertion is text with stars; the name cannot be asked so.
        let of = of.filter(|_| !dn)?;
        let parts: Vec<Vec<u8>> =
            value.split(|&octet| octet == b'*').map(unescaped).collect::<Option<_>>()?;
        let (first, others) = parts.split_first()?;
        let (last, any) = others.split_last()?;
        if any.iter().any(Vec::is_empty) || (any.is_empty() && first.is_empty() && last.is_empty())
        {
            return None;
        }
        let given = |piece: &Vec<u8>| (!piece.is_empty()).then(|| piece.clone());
        return pieces(of, rule, given(first).as_deref(), any, given(last).as_deref());
    }
    let key = asserted(rule, value, schema)?;
    // The attributes of a name have no options (RFC 4514 §2).
    let about = About { of, rule: Some(rule), name: dn };
    let is_order = rule.kind == RuleKind::Ordering;
    Some(Judge::Some(about, if is_order { Test::Before(key) } else { Test::Equal(key) }))
}

fn unescaped(piece: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(piece);
    let plain = text.replace("\\2a", "*").replace("\\2A", "*");
    if plain.replace("\\5c", "").replace("\\5C", "").contains('\\') {
        return None;
    }
    if std::str::from_utf8(piece).is_err() {
        return Some(piece.to_vec());
    }
    Some(plain.replace("\\5c", "\\").replace("\\5C", "\\").into_bytes())
}
