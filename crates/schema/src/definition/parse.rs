//! Reads definitions. One table of keywords serves all kinds; a list is one level deep, so
//! nothing recurses.

use std::mem::discriminant;

use ldap::description::{is_numeric_oid, is_oid};

use super::{AttributeTypeBody, Body, Definition, DefinitionError, DefinitionFault};
use super::{ClassKind, DEFINITION_LENGTH_MAX_BYTES, DefinitionKind, Extension, Usage};
use crate::NAME_LENGTH_MAX_BYTES;

type Result<T> = std::result::Result<T, DefinitionError>;

pub(super) fn definition(kind: DefinitionKind, text: &str) -> Result<Definition> {
    if text.len() > DEFINITION_LENGTH_MAX_BYTES {
        return Err(DefinitionError { offset: 0, fault: DefinitionFault::TooLong });
    }
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_space();
    if !cursor.take('(') {
        return cursor.fail(DefinitionFault::Expected("an opening parenthesis"));
    }
    let oid = identifier(&mut cursor, kind)?;
    let mut fields = Fields::default();
    loop {
        cursor.skip_space();
        if cursor.take(')') {
            break;
        }
        fields.read(&mut cursor, kind)?;
    }
    let end = cursor.at;
    cursor.skip_space();
    if cursor.at < text.len() {
        return cursor.fail(DefinitionFault::TextAfterEnd);
    }
    fields.finish(kind, oid).map_err(|fault| DefinitionError { offset: end, fault })
}

/// Everything any kind of definition may hold; which of it a kind has, [`KEYWORDS`] says.
#[derive(Default)]
struct Fields {
    seen: Vec<Keyword>,
    names: Vec<String>,
    description: Option<String>,
    attribute: AttributeTypeBody,
    class_kind: ClassKind,
    superiors: Vec<String>,
    must: Vec<String>,
    may: Vec<String>,
    not: Vec<String>,
    auxiliary: Vec<String>,
    applies: Vec<String>,
    class: Option<String>,
    form: Option<String>,
    extensions: Vec<Extension>,
}

impl Fields {
    /// Reads one keyword and what belongs to it.
    fn read(&mut self, cursor: &mut Cursor<'_>, kind: DefinitionKind) -> Result<()> {
        let start = cursor.at;
        let word = cursor.word("a keyword or the closing parenthesis")?;
        let at_word = |fault| Err(DefinitionError { offset: start, fault });
        if is_extension(word) {
            if self.extensions.iter().any(|known| known.name.eq_ignore_ascii_case(word)) {
                return at_word(DefinitionFault::Twice(word.to_owned()));
            }
            let values = cursor.quoted_list()?;
            self.extensions.push(Extension { name: word.to_owned(), values });
            return Ok(());
        }
        let row = KEYWORDS.iter().find(|(text, _, kinds)| {
            text.eq_ignore_ascii_case(word) && (kinds.is_empty() || kinds.contains(&kind))
        });
        let Some((_, keyword, _)) = row else {
            return at_word(DefinitionFault::UnknownKeyword(word.to_owned()));
        };
        // Discriminants, so that ABSTRACT and AUXILIARY together count as "given twice".
        if self.seen.iter().any(|seen| discriminant(seen) == discriminant(keyword)) {
            return at_word(DefinitionFault::Twice(word.to_owned()));
        }
        self.seen.push(*keyword);
        self.read_value(*keyword, cursor, kind)
    }

    fn read_value(
        &mut self,
        keyword: Keyword,
        cursor: &mut Cursor<'_>,
        kind: DefinitionKind,
    ) -> Result<()> {
        match keyword {
            Keyword::Name => self.names = names(cursor)?,
            Keyword::Description => {
                self.description = Some(cursor.quoted()?).filter(|text| !text.is_empty());
            }
            Keyword::Superior => match kind {
                DefinitionKind::AttributeType => self.attribute.superior = Some(oid(cursor)?),
                DefinitionKind::StructureRule => self.superiors = rule_numbers(cursor)?,
                DefinitionKind::ObjectClass
                | DefinitionKind::Syntax
                | DefinitionKind::MatchingRule
                | DefinitionKind::MatchingRuleUse
                | DefinitionKind::ContentRule
                | DefinitionKind::NameForm => self.superiors = oids(cursor)?,
            },
            Keyword::Equality => self.attribute.equality = Some(oid(cursor)?),
            Keyword::Ordering => self.attribute.ordering = Some(oid(cursor)?),
            Keyword::Substring => self.attribute.substring = Some(oid(cursor)?),
            Keyword::Syntax => {
                let (syntax, length) = syntax(cursor, kind)?;
                self.attribute.syntax = Some(syntax);
                self.attribute.length_max = length;
            }
            Keyword::Usage => self.attribute.usage = usage(cursor)?,
            Keyword::SingleValue => self.attribute.single_value = true,
            Keyword::Collective => self.attribute.collective = true,
            Keyword::NoUserModification => self.attribute.no_user_modification = true,
            Keyword::ClassKind(class_kind) => self.class_kind = class_kind,
            Keyword::Must => self.must = oids(cursor)?,
            Keyword::May => self.may = oids(cursor)?,
            Keyword::Not => self.not = oids(cursor)?,
            Keyword::Auxiliary => self.auxiliary = oids(cursor)?,
            Keyword::Applies => self.applies = oids(cursor)?,
            Keyword::Class => self.class = Some(oid(cursor)?),
            Keyword::Form => self.form = Some(oid(cursor)?),
            Keyword::Obsolete => {}
        }
        Ok(())
    }

    /// Checks that what the kind needs is there.
    fn finish(
        self,
        kind: DefinitionKind,
        oid: String,
    ) -> std::result::Result<Definition, DefinitionFault> {
        let obsolete = self.seen.contains(&Keyword::Obsolete);
        let body = match kind {
            DefinitionKind::Syntax => Body::Syntax,
            DefinitionKind::MatchingRule => {
                Body::MatchingRule { syntax: needed(self.attribute.syntax, "SYNTAX")? }
            }
            DefinitionKind::MatchingRuleUse => {
                Body::MatchingRuleUse { applies: needed_list(self.applies, "APPLIES")? }
            }
            DefinitionKind::AttributeType => {
                if self.attribute.syntax.is_none() && self.attribute.superior.is_none() {
                    return Err(DefinitionFault::Missing("SYNTAX (or SUP to inherit one)"));
                }
                Body::AttributeType(self.attribute)
            }
            DefinitionKind::ObjectClass => Body::ObjectClass {
                superiors: self.superiors,
                kind: self.class_kind,
                must: self.must,
                may: self.may,
            },
            DefinitionKind::ContentRule => Body::ContentRule {
                auxiliary: self.auxiliary,
                must: self.must,
                may: self.may,
                not: self.not,
            },
            DefinitionKind::StructureRule => {
                Body::StructureRule { form: needed(self.form, "FORM")?, superiors: self.superiors }
            }
            DefinitionKind::NameForm => Body::NameForm {
                class: needed(self.class, "OC")?,
                must: needed_list(self.must, "MUST")?,
                may: self.may,
            },
        };
        let (names, description, extensions) = (self.names, self.description, self.extensions);
        Ok(Definition { oid, names, description, obsolete, body, extensions })
    }
}

fn needed(
    value: Option<String>,
    what: &'static str,
) -> std::result::Result<String, DefinitionFault> {
    value.ok_or(DefinitionFault::Missing(what))
}

fn needed_list(
    values: Vec<String>,
    what: &'static str,
) -> std::result::Result<Vec<String>, DefinitionFault> {
    if values.is_empty() { Err(DefinitionFault::Missing(what)) } else { Ok(values) }
}

/// Reads the definition's own OID, or the number of a structure rule.
fn identifier(cursor: &mut Cursor<'_>, kind: DefinitionKind) -> Result<String> {
    cursor.skip_space();
    let start = cursor.at;
    let word = cursor.word_or_quoted("an OID")?;
    let fault = if kind == DefinitionKind::StructureRule {
        if is_rule_number(&word) {
            return Ok(word);
        }
        DefinitionFault::BadNumber(word)
    } else if word.contains(':') {
        DefinitionFault::Macro(word)
    } else if !is_oid(&word) || word.len() > NAME_LENGTH_MAX_BYTES {
        DefinitionFault::BadOid(word)
    } else if is_numeric_oid(&word) || word.to_ascii_lowercase().ends_with("-oid") {
        return Ok(word);
    } else {
        DefinitionFault::NameForOid(word)
    };
    Err(DefinitionError { offset: start, fault })
}

fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.skip_space();
    let start = cursor.at;
    let names = cursor.quoted_list()?;
    for name in &names {
        let starts_with_letter = name.starts_with(|first: char| first.is_ascii_alphabetic());
        if !starts_with_letter || !is_oid(name) || name.len() > NAME_LENGTH_MAX_BYTES {
            let fault = DefinitionFault::BadName(name.clone());
            return Err(DefinitionError { offset: start, fault });
        }
    }
    Ok(names)
}

fn oid(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.skip_space();
    let start = cursor.at;
    let word = cursor.word_or_quoted("an OID or a name")?;
    if is_oid(&word) && word.len() <= NAME_LENGTH_MAX_BYTES {
        return Ok(word);
    }
    let is_macro = word.contains(':');
    let fault = if is_macro { DefinitionFault::Macro } else { DefinitionFault::BadOid };
    Err(DefinitionError { offset: start, fault: fault(word) })
}

/// Reads one OID or `( a $ b )`.
fn oids(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.skip_space();
    if !cursor.take('(') {
        return Ok(vec![oid(cursor)?]);
    }
    let mut list = vec![oid(cursor)?];
    loop {
        cursor.skip_space();
        if cursor.take(')') {
            return Ok(list);
        }
        if !cursor.take('$') {
            return cursor.fail(DefinitionFault::Expected("'$' or ')' in the list"));
        }
        list.push(oid(cursor)?);
    }
}

/// Reads one number or `( 1 2 )`.
fn rule_numbers(cursor: &mut Cursor<'_>) -> Result<Vec<String>> {
    cursor.skip_space();
    let in_list = cursor.take('(');
    let mut list = Vec::new();
    loop {
        cursor.skip_space();
        let start = cursor.at;
        if in_list && !list.is_empty() && cursor.take(')') {
            return Ok(list);
        }
        let word = cursor.word("the number of a rule")?.to_owned();
        if !is_rule_number(&word) {
            let fault = DefinitionFault::BadNumber(word);
            return Err(DefinitionError { offset: start, fault });
        }
        list.push(word);
        if !in_list {
            return Ok(list);
        }
    }
}

/// RFC 4512 §4.1.7.1 `ruleid`: a number without leading zeros.
fn is_rule_number(word: &str) -> bool {
    word.parse::<u32>().is_ok_and(|number| number.to_string() == word)
}

/// Reads a syntax OID and, for an attribute type, a length such as `{64}`.
fn syntax(cursor: &mut Cursor<'_>, kind: DefinitionKind) -> Result<(String, Option<u32>)> {
    cursor.skip_space();
    let start = cursor.at;
    let word = cursor.word_or_quoted("the OID of a syntax")?;
    let fail = |fault| Err(DefinitionError { offset: start, fault });
    let (oid, length) = match word.split_once('{') {
        Some((oid, length)) if kind == DefinitionKind::AttributeType => (oid, Some(length)),
        _ => (word.as_str(), None),
    };
    if oid.contains(':') {
        return fail(DefinitionFault::Macro(oid.to_owned()));
    }
    if !is_numeric_oid(oid) || oid.len() > NAME_LENGTH_MAX_BYTES {
        return fail(DefinitionFault::BadOid(oid.to_owned()));
    }
    let Some(length) = length else { return Ok((oid.to_owned(), None)) };
    let digits = length.strip_suffix('}').filter(|digits| !digits.starts_with('+'));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(length) => Ok((oid.to_owned(), Some(length))),
        None => fail(DefinitionFault::BadNumber(length.to_owned())),
    }
}

fn usage(cursor: &mut Cursor<'_>) -> Result<Usage> {
    cursor.skip_space();
    let start = cursor.at;
    let word = cursor.word("a usage")?;
    let found = Usage::ALL.iter().find(|(_, text)| text.eq_ignore_ascii_case(word));
    found.map(|(usage, _)| *usage).ok_or_else(|| DefinitionError {
        offset: start,
        fault: DefinitionFault::BadUsage(word.to_owned()),
    })
}

/// RFC 4512 §4.1 `xstring`; digits are accepted too.
fn is_extension(word: &str) -> bool {
    let rest = word.strip_prefix("X-").or_else(|| word.strip_prefix("x-"));
    rest.is_some_and(|rest| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !rest.is_empty() && rest.len() <= NAME_LENGTH_MAX_BYTES && rest.bytes().all(is_part)
    })
}

/// A place in the text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn fail<T>(&self, fault: DefinitionFault) -> Result<T> {
        Err(DefinitionError { offset: self.at, fault })
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
    }

    fn take(&mut self, expected: char) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    /// Takes the characters up to a space, a parenthesis, a quote or a dollar sign.
    fn word(&mut self, expected: &'static str) -> Result<&'a str> {
        self.skip_space();
        let rest = self.rest();
        let ends = |c: char| is_space(c) || matches!(c, '(' | ')' | '\'' | '"' | '$');
        let (word, _) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        if word.is_empty() {
            return self.fail(DefinitionFault::Expected(expected));
        }
        self.at += word.len();
        Ok(word)
    }

    fn word_or_quoted(&mut self, expected: &'static str) -> Result<String> {
        self.skip_space();
        if self.rest().starts_with('\'') {
            return self.quoted();
        }
        self.word(expected).map(str::to_owned)
    }

    /// Takes `'text'`, with `\27` for a quote and `\5C` for a backslash.
    fn quoted(&mut self) -> Result<String> {
        self.skip_space();
        let start = self.at;
        if !self.take('\'') {
            return self.fail(DefinitionFault::Expected("a string in single quotes"));
        }
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(['\'', '\\']) else {
                let fault = DefinitionFault::OpenQuote;
                return Err(DefinitionError { offset: start, fault });
            };
            let (plain, special) = rest.split_at(length);
            text.push_str(plain);
            self.at += length;
            if self.take('\'') {
                return Ok(text);
            }
            match special.get(1..3) {
                Some("27") => text.push('\''),
                Some("5C" | "5c") => text.push('\\'),
                Some(_) | None => return self.fail(DefinitionFault::BadEscape),
            }
            self.at += 3;
        }
    }

    /// Takes `'a'` or `( 'a' 'b' )`.
    fn quoted_list(&mut self) -> Result<Vec<String>> {
        self.skip_space();
        if !self.take('(') {
            return Ok(vec![self.quoted()?]);
        }
        let mut list = vec![self.quoted()?];
        loop {
            self.skip_space();
            if self.take(')') {
                return Ok(list);
            }
            list.push(self.quoted()?);
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Keyword {
    Name,
    Description,
    Obsolete,
    Superior,
    Equality,
    Ordering,
    Substring,
    Syntax,
    SingleValue,
    Collective,
    NoUserModification,
    Usage,
    ClassKind(ClassKind),
    Must,
    May,
    Not,
    Auxiliary,
    Applies,
    Class,
    Form,
}

/// Each keyword and the kinds of definition that have it; none listed: all.
const KEYWORDS: &[(&str, Keyword, &[DefinitionKind])] = &[
    ("NAME", Keyword::Name, NAMED),
    ("DESC", Keyword::Description, &[]),
    ("OBSOLETE", Keyword::Obsolete, NAMED),
    ("SUP", Keyword::Superior, SUPERIORS),
    ("EQUALITY", Keyword::Equality, &[DefinitionKind::AttributeType]),
    ("ORDERING", Keyword::Ordering, &[DefinitionKind::AttributeType]),
    ("SUBSTR", Keyword::Substring, &[DefinitionKind::AttributeType]),
    ("SYNTAX", Keyword::Syntax, &[DefinitionKind::AttributeType, DefinitionKind::MatchingRule]),
    ("SINGLE-VALUE", Keyword::SingleValue, &[DefinitionKind::AttributeType]),
    ("COLLECTIVE", Keyword::Collective, &[DefinitionKind::AttributeType]),
    ("NO-USER-MODIFICATION", Keyword::NoUserModification, &[DefinitionKind::AttributeType]),
    ("USAGE", Keyword::Usage, &[DefinitionKind::AttributeType]),
    ("ABSTRACT", Keyword::ClassKind(ClassKind::Abstract), &[DefinitionKind::ObjectClass]),
    ("STRUCTURAL", Keyword::ClassKind(ClassKind::Structural), &[DefinitionKind::ObjectClass]),
    ("AUXILIARY", Keyword::ClassKind(ClassKind::Auxiliary), &[DefinitionKind::ObjectClass]),
    ("MUST", Keyword::Must, LISTS),
    ("MAY", Keyword::May, LISTS),
    ("NOT", Keyword::Not, &[DefinitionKind::ContentRule]),
    ("AUX", Keyword::Auxiliary, &[DefinitionKind::ContentRule]),
    ("APPLIES", Keyword::Applies, &[DefinitionKind::MatchingRuleUse]),
    ("OC", Keyword::Class, &[DefinitionKind::NameForm]),
    ("FORM", Keyword::Form, &[DefinitionKind::StructureRule]),
];

/// Syntaxes alone have no names.
const NAMED: &[DefinitionKind] = &[
    DefinitionKind::MatchingRule,
    DefinitionKind::MatchingRuleUse,
    DefinitionKind::AttributeType,
    DefinitionKind::ObjectClass,
    DefinitionKind::ContentRule,
    DefinitionKind::StructureRule,
    DefinitionKind::NameForm,
];

const SUPERIORS: &[DefinitionKind] =
    &[DefinitionKind::AttributeType, DefinitionKind::ObjectClass, DefinitionKind::StructureRule];

const LISTS: &[DefinitionKind] =
    &[DefinitionKind::ObjectClass, DefinitionKind::ContentRule, DefinitionKind::NameForm];
