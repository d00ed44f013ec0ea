//! Names with stars and macros, matched against keys.
//!
//! A star within a value stands for any octets of that value, `*` alone for one RDN, `**` for one
//! or more. In other servers a star may also reach over the comma; a name that matches only so is
//! not known to match.
//!
//! `($dn)` in a target is what stands there in the name of the entry, and in a subject that part
//! again; `[$dn]` is that part, and what is left of it without its first RDN, and so on;
//! `($attr.x)` is a value of the entry, taken as text.
//!
//! Invariant: without macros, matching reads keys and parses nothing.

use std::borrow::Cow;
use std::sync::Arc;

use ldap::filter::{Filter, SubstringFilter};
use ldap::message::{Values, ValuesBuf};
use schema::{
    AttributeDescription, DnKey, EntryRead, InvalidDn, RdnKey, ResolvedFilter, Schema, Truth,
    ValueKey,
};

/// A name that stands for one or more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DnPattern {
    /// As it was written, without URL escapes.
    pub(crate) text: String,
    form: Form,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Form {
    Exact(DnKey),
    Wild {
        /// The leaf first.
        rdns: Vec<RdnPattern>,
        /// What stands between the stars, with the leaf first; for stars that reach over commas.
        wide: Vec<Vec<u8>>,
    },
    /// With macros, the leaf first.
    Macro(Vec<RdnPattern>),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RdnPattern {
    /// The octets of the key.
    Exact(Vec<u8>),
    One,
    Many,
    Value {
        /// The type with its `=`.
        prefix: Vec<u8>,
        /// What the value is like; none if any will do.
        value: Option<ResolvedFilter>,
    },
    /// `($dn)`
    Part,
    /// `[$dn]`
    PartOrAbove,
    /// RDNs with the values of an attribute of the entry in their midst.
    Attribute {
        before: String,
        attribute: Arc<AttributeDescription>,
        after: String,
    },
}

/// What a name may hold beside RDNs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Allowed {
    pub(crate) stars: bool,
    pub(crate) macros: Macros,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Macros {
    None,
    /// `($dn)` once.
    Target,
    /// All of them.
    Subject,
}

/// Why a text is no such name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PatternFault {
    /// A part without stars is no DN.
    Dn(InvalidDn),
    /// A star where only names without are of use.
    Star,
    /// Quotes in a name with a star or a macro.
    Quote,
    /// An RDN of several assertions has a star.
    StarInSeveral,
    /// A type is a star or not known, and its value has a star.
    StarType,
    /// Values of the type have no substrings.
    NoSubstrings(String),
    /// A macro where there can be none.
    Macro,
    /// A macro that is none of the three, or is only a part of an RDN.
    MacroForm,
    /// More than one macro of a kind, or `**` beside `($dn)`.
    MacroTwice,
    /// `($attr.x)` with a type that is not defined.
    MacroAttribute(String),
}

impl std::fmt::Display for PatternFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dn(error) => return write!(f, "the name is wrong: {error}"),
            Self::NoSubstrings(name) => {
                return write!(f, "values of '{name}' cannot be matched in part");
            }
            Self::MacroAttribute(name) => {
                return write!(f, "attribute type '{name}' is not defined");
            }
            Self::Star => "a star cannot stand here; write '\\2A' for the character itself",
            Self::Quote => {
                "a name with a star or a macro cannot have quotes; write '\\' before special \
                 characters instead"
            }
            Self::StarInSeveral => "an RDN of several assertions cannot have a star",
            Self::StarType => "a value with a star needs a defined attribute type before its '='",
            Self::Macro => "a macro cannot stand here",
            Self::MacroForm => {
                "macros are ($dn) and [$dn], each in the place of whole RDNs, and ($attr.NAME)"
            }
            Self::MacroTwice => {
                "a name has at most one ($dn) or [$dn] and one ($attr.NAME), and no '**' beside \
                 ($dn) in a target"
            }
        })
    }
}

impl DnPattern {
    pub(crate) fn parse(
        text: &str,
        allowed: Allowed,
        schema: &Schema,
    ) -> Result<Self, PatternFault> {
        let pieces = split(text);
        let is_plain = !text.contains('$') && pieces.iter().all(|piece| !has_star(piece));
        let mut rdns = Vec::new();
        if !is_plain {
            // Its pieces are cut at commas, and a comma in quotes is none: a rule that matches
            // nothing would deny nothing.
            if split_at(text, b'"').len() > 1 {
                return Err(PatternFault::Quote);
            }
            for piece in &pieces {
                rdns.push(RdnPattern::parse(piece, schema)?);
            }
        }
        check(&rdns, allowed)?;
        let form = if rdns.iter().any(RdnPattern::is_macro) {
            Form::Macro(rdns)
        } else if rdns.iter().any(RdnPattern::is_star) {
            Form::Wild { wide: wide(&pieces, schema), rdns }
        } else {
            Form::Exact(DnKey::from_text(schema, text).map_err(PatternFault::Dn)?)
        };
        Ok(Self { text: text.to_owned(), form })
    }

    /// The one name it stands for.
    pub(crate) fn exact(&self) -> Option<&DnKey> {
        match &self.form {
            Form::Exact(key) => Some(key),
            Form::Wild { .. } | Form::Macro(_) => None,
        }
    }

    /// The entry at which all that it stands for is, or below which: the name itself without stars
    /// and macros, else what follows the last of them.
    pub(crate) fn superior(&self) -> Cow<'_, DnKey> {
        let rdns = match &self.form {
            Form::Exact(key) => return Cow::Borrowed(key),
            Form::Wild { rdns, .. } | Form::Macro(rdns) => rdns,
        };
        let mut above = DnKey::root();
        for rdn in rdns.iter().rev() {
            let RdnPattern::Exact(octets) = rdn else { break };
            above.push(&RdnKey::from_bytes(octets.clone()));
        }
        Cow::Owned(above)
    }

    /// Whether it may stand for one of two names of an entry, or for something below, and not for
    /// the other: one of its RDNs is like one of the two leaves only. When the entry moves, its
    /// superiors are others, so there it is enough that one of the RDNs before a leaf is like it:
    /// what the pattern ends with may move, for that is what the rights to move are for.
    pub(crate) fn tells_apart(&self, old: &DnKey, new: &DnKey, schema: &Schema) -> bool {
        let rdns = match &self.form {
            Form::Exact(_) => return false,
            Form::Wild { rdns, .. } | Form::Macro(rdns) => rdns,
        };
        let above = self.superior();
        if !old.is_within(&above) && !new.is_within(&above) {
            return false;
        }
        let (Some(from), Some(to)) = (old.rdns().next_back(), new.rdns().next_back()) else {
            return false;
        };
        let moves = old.parent() != new.parent();
        rdns.iter().enumerate().any(|(position, rdn)| {
            if matches!(rdn, RdnPattern::One | RdnPattern::Many | RdnPattern::Part) {
                return false;
            }
            let [is_old, is_new] = [from, to].map(|leaf| rdn.matches(leaf, schema));
            is_old != is_new || (moves && position > 0 && is_old)
        })
    }

    pub(crate) fn has_macro(&self) -> bool {
        matches!(self.form, Form::Macro(_))
    }

    /// Whether it repeats a part of the name that a target has found.
    pub(crate) fn needs_part(&self) -> bool {
        let Form::Macro(rdns) = &self.form else { return false };
        rdns.iter().any(|rdn| matches!(rdn, RdnPattern::Part | RdnPattern::PartOrAbove))
    }

    /// Whether the name is meant. Not for names with macros in subjects.
    pub(crate) fn matches(&self, key: &DnKey, schema: &Schema) -> Truth {
        match &self.form {
            Form::Exact(own) => truth(own == key),
            Form::Wild { rdns, wide } => matches_wild(rdns, wide, &leaf_first(key), schema),
            Form::Macro(_) => truth(self.part(key, schema).is_some_and(|part| part.is_whole)),
        }
    }

    /// Whether the name, or one above it that `is_meant` allows, is meant: it is given how far
    /// above.
    pub(crate) fn matches_above(
        &self,
        key: &DnKey,
        schema: &Schema,
        is_meant: impl Fn(usize) -> bool,
    ) -> Truth {
        let mut best = Truth::False;
        let mut above = Cow::Borrowed(key);
        for distance in 0..=key.depth() {
            if is_meant(distance) {
                best = best.or(self.matches(&above, schema));
            }
            match above.parent() {
                Some(parent) if best != Truth::True => above = Cow::Owned(parent),
                Some(_) | None => break,
            }
        }
        best
    }

    /// What stands in the name, or in one above it, where the target has `($dn)`; of several
    /// places the one that makes it longest.
    pub(crate) fn part<'k>(&self, key: &'k DnKey, schema: &Schema) -> Option<Part<'k>> {
        let Form::Macro(rdns) = &self.form else { return None };
        let place = rdns.iter().position(|rdn| *rdn == RdnPattern::Part)?;
        let (before, after) = (rdns.get(..place)?, rdns.get(place + 1..)?);
        let names = leaf_first(key);
        for start in 0..names.len() {
            let first = start + before.len();
            let last = names.len().checked_sub(after.len())?;
            if first >= last {
                return None;
            }
            if matches_all(before, names.get(start..first)?, schema)
                && matches_all(after, names.get(last..)?, schema)
            {
                let mut rdns = names.get(first..last)?.to_vec();
                rdns.reverse();
                return Some(Part { rdns, is_whole: start == 0, first });
            }
        }
        None
    }

    /// Calls `visit` with each list of RDNs, the leaf first, that the macros make of this name;
    /// until it returns false. Returns false when one of them cannot be made.
    pub(crate) fn instances(
        &self,
        source: &Source<'_>,
        schema: &Schema,
        visit: &mut dyn FnMut(&[RdnPattern]) -> bool,
    ) -> bool {
        let rdns = match &self.form {
            Form::Exact(_) => return true,
            Form::Wild { rdns, .. } | Form::Macro(rdns) => rdns,
        };
        let parts = source.part.map_or(&[][..], |part| &part.rdns);
        let steps = if rdns.contains(&RdnPattern::PartOrAbove) { parts.len() } else { 1 };
        let values = rdns.iter().find_map(|rdn| match rdn {
            RdnPattern::Attribute { attribute, .. } => Some(texts(source.entry, attribute)),
            _ => None,
        });
        let values = values.unwrap_or_else(|| vec![String::new()]);
        let mut all_made = true;
        for value in &values {
            for step in 0..steps {
                let shown = parts.get(..parts.len().saturating_sub(step)).unwrap_or_default();
                match instance(rdns, shown, value, schema) {
                    Some(instance) if !visit(&instance) => return all_made,
                    Some(_) => {}
                    None => all_made = false,
                }
            }
        }
        all_made
    }
}

/// What macros are replaced from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) part: Option<&'s Part<'s>>,
    pub(crate) entry: &'s dyn EntryRead,
}

/// What a target's `($dn)` has found.
#[derive(Clone, Debug)]
pub(crate) struct Part<'k> {
    /// The one nearest to the root first.
    rdns: Vec<&'k [u8]>,
    /// Whether nothing is left of the name below the target.
    is_whole: bool,
    /// How many RDNs are before it.
    first: usize,
}

impl Part<'_> {
    /// How many RDNs it has.
    pub(crate) fn len(&self) -> usize {
        self.rdns.len()
    }

    /// The part of this name, without so many of its first RDNs, as it is written.
    pub(crate) fn text(&self, name: &str, step: usize) -> String {
        let end = self.first + self.len();
        split(name).get(self.first + step..end).unwrap_or_default().join(",")
    }
}

impl RdnPattern {
    fn parse(text: &str, schema: &Schema) -> Result<Self, PatternFault> {
        match text {
            "*" => return Ok(Self::One),
            "**" => return Ok(Self::Many),
            _ if text.eq_ignore_ascii_case("($dn)") => return Ok(Self::Part),
            _ if text.eq_ignore_ascii_case("[$dn]") => return Ok(Self::PartOrAbove),
            _ => {}
        }
        if let Some((before, rest)) = text.split_once("($attr.") {
            let (name, after) = rest.split_once(')').ok_or(PatternFault::MacroForm)?;
            if has_star(before) || has_star(after) || after.contains("($") {
                return Err(PatternFault::MacroForm);
            }
            let attribute =
                schema.describe(name).map_err(|_| PatternFault::MacroAttribute(name.to_owned()))?;
            let (before, after) = (before.to_owned(), after.to_owned());
            return Ok(Self::Attribute { before, attribute, after });
        }
        if text.contains("($") || text.contains("[$") {
            return Err(PatternFault::MacroForm);
        }
        if !has_star(text) {
            let key = DnKey::from_text(schema, text).map_err(PatternFault::Dn)?;
            let rdn = key.rdns().next().ok_or(PatternFault::Dn(InvalidDn::RepeatedAva))?;
            return Ok(Self::Exact(rdn.to_vec()));
        }
        if split_at(text, b'+').len() > 1 {
            return Err(PatternFault::StarInSeveral);
        }
        Self::parse_value(text, schema)
    }

    fn parse_value(text: &str, schema: &Schema) -> Result<Self, PatternFault> {
        let (name, value) = text.split_once('=').ok_or(PatternFault::StarType)?;
        let name = name.trim();
        let kind = schema.attribute_type(name).ok_or(PatternFault::StarType)?;
        let prefix = [kind.key().as_bytes(), b"="].concat();
        let pieces: Vec<Vec<u8>> =
            split_at(value.trim(), b'*').iter().map(|p| unescape(p)).collect();
        let given = |piece: &Vec<u8>| (!piece.is_empty()).then(|| Cow::Owned(piece.clone()));
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Err(PatternFault::StarType);
        };
        let inner = pieces.get(1..pieces.len() - 1).unwrap_or_default();
        let any: Vec<Cow<'_, [u8]>> = inner.iter().filter_map(given).collect();
        let (initial, final_) = (given(first), given(last));
        if initial.is_none() && final_.is_none() && any.is_empty() {
            return Ok(Self::Value { prefix, value: None });
        }
        let filter = SubstringFilter { description: name, initial, any, final_ };
        match ResolvedFilter::resolve(&Filter::Substrings(filter), schema) {
            ResolvedFilter::Undefined => Err(PatternFault::NoSubstrings(kind.name().to_owned())),
            filter => Ok(Self::Value { prefix, value: Some(filter) }),
        }
    }

    fn is_macro(&self) -> bool {
        matches!(self, Self::Part | Self::PartOrAbove | Self::Attribute { .. })
    }

    fn is_star(&self) -> bool {
        matches!(self, Self::One | Self::Many | Self::Value { .. })
    }

    fn matches(&self, rdn: &[u8], schema: &Schema) -> bool {
        match self {
            Self::Exact(own) => own == rdn,
            Self::One | Self::Many => true,
            Self::Value { prefix, value } => {
                let Some(rest) = rdn.strip_prefix(prefix.as_slice()) else { return false };
                if rest.contains(&AVA_SEPARATOR) {
                    return false;
                }
                let Some(filter) = value else { return true };
                let ResolvedFilter::Substrings(assertion) = filter else { return false };
                let value = plain(rest);
                let one = OneValue { description: &assertion.description, value: &value };
                filter.matches(schema, &one) == Truth::True
            }
            Self::Part | Self::PartOrAbove | Self::Attribute { .. } => false,
        }
    }
}

/// The key that RDNs without stars make, the leaf first.
pub(crate) fn exact_key(rdns: &[RdnPattern]) -> Option<DnKey> {
    let mut key = Vec::new();
    for rdn in rdns.iter().rev() {
        let RdnPattern::Exact(rdn) = rdn else { return None };
        key.extend_from_slice(rdn);
        key.push(RDN_END);
    }
    Some(DnKey::from_bytes(key))
}

/// Whether RDNs, with stars or without, are those of the name.
pub(crate) fn matches_name(rdns: &[RdnPattern], key: &DnKey, schema: &Schema) -> bool {
    matches_all(rdns, &leaf_first(key), schema)
}

fn check(rdns: &[RdnPattern], allowed: Allowed) -> Result<(), PatternFault> {
    let count = |is_it: fn(&RdnPattern) -> bool| rdns.iter().filter(|rdn| is_it(rdn)).count();
    let stars = count(RdnPattern::is_star);
    let parts = count(|rdn| *rdn == RdnPattern::Part);
    let or_above = count(|rdn| *rdn == RdnPattern::PartOrAbove);
    let attributes = count(|rdn| matches!(rdn, RdnPattern::Attribute { .. }));
    let many = count(|rdn| *rdn == RdnPattern::Many);
    if stars > 0 && !allowed.stars {
        return Err(PatternFault::Star);
    }
    let is_allowed = match allowed.macros {
        Macros::None => parts + or_above + attributes == 0,
        Macros::Target => or_above + attributes == 0,
        Macros::Subject => true,
    };
    if !is_allowed {
        return Err(PatternFault::Macro);
    }
    let beside = allowed.macros == Macros::Target && parts > 0 && many > 0;
    if parts + or_above > 1 || attributes > 1 || beside {
        return Err(PatternFault::MacroTwice);
    }
    Ok(())
}

/// Puts the part and the value in the place of macros.
fn instance(
    rdns: &[RdnPattern],
    part: &[&[u8]],
    value: &str,
    schema: &Schema,
) -> Option<Vec<RdnPattern>> {
    let mut made = Vec::with_capacity(rdns.len() + part.len());
    for rdn in rdns {
        match rdn {
            RdnPattern::Part | RdnPattern::PartOrAbove => {
                if part.is_empty() {
                    return None;
                }
                made.extend(part.iter().rev().map(|rdn| RdnPattern::Exact(rdn.to_vec())));
            }
            RdnPattern::Attribute { before, after, .. } => {
                let key = DnKey::from_text(schema, &format!("{before}{value}{after}")).ok()?;
                made.extend(key.rdns().rev().map(|rdn| RdnPattern::Exact(rdn.to_vec())));
            }
            RdnPattern::Exact(_)
            | RdnPattern::One
            | RdnPattern::Many
            | RdnPattern::Value { .. } => made.push(rdn.clone()),
        }
    }
    Some(made)
}

/// The first values of an attribute that are texts.
fn texts(entry: &dyn EntryRead, attribute: &AttributeDescription) -> Vec<String> {
    let mut texts = Vec::new();
    entry.visit_values(attribute, &mut |_, value| {
        let is_room = texts.len() < MACRO_VALUES_MAX;
        let text = std::str::from_utf8(value).ok().filter(|_| is_room);
        // What is no text, or too much, stays as an RDN that cannot be made.
        texts.push(text.unwrap_or("\\").to_owned());
        is_room
    });
    texts
}

fn leaf_first(key: &DnKey) -> Vec<&[u8]> {
    key.rdns().rev().collect()
}

fn matches_wild(rdns: &[RdnPattern], wide: &[Vec<u8>], names: &[&[u8]], schema: &Schema) -> Truth {
    if matches_all(rdns, names, schema) {
        return Truth::True;
    }
    let mut text = Vec::new();
    for name in names {
        text.extend_from_slice(name);
        text.push(RDN_END);
    }
    if glob(wide, &text) { Truth::Undefined } else { Truth::False }
}

/// Whether the names are matched one by one; a `**` takes as few as it can, then one more.
fn matches_all(rdns: &[RdnPattern], names: &[&[u8]], schema: &Schema) -> bool {
    let (mut at, mut name) = (0, 0);
    let mut many: Option<(usize, usize)> = None;
    loop {
        match (rdns.get(at), names.get(name)) {
            (None, None) => return true,
            (Some(RdnPattern::Many), Some(_)) => {
                many = Some((at + 1, name + 1));
                at += 1;
                name += 1;
            }
            (Some(rdn), Some(own)) if rdn.matches(own, schema) => {
                at += 1;
                name += 1;
            }
            (_, _) => match &mut many {
                Some((after, taken)) if *taken < names.len() => {
                    *taken += 1;
                    at = *after;
                    name = *taken;
                }
                Some(_) | None => return false,
            },
        }
    }
}

/// Whether the pieces are in the text in this order, the first at its start and the last at its
/// end.
fn glob(pieces: &[Vec<u8>], text: &[u8]) -> bool {
    let Some((last, pieces)) = pieces.split_last() else { return false };
    let Some(mut rest) = text.strip_suffix(last.as_slice()) else { return false };
    for (position, piece) in pieces.iter().enumerate() {
        let start = match position {
            _ if piece.is_empty() => Some(0),
            0 => rest.starts_with(piece).then_some(0),
            _ => rest.windows(piece.len()).position(|window| window == piece.as_slice()),
        };
        let Some(after) = start.and_then(|start| rest.get(start + piece.len()..)) else {
            return false;
        };
        rest = after;
    }
    true
}

/// What stands between the stars of a name, prepared, with the leaf first.
fn wide(pieces: &[&str], schema: &Schema) -> Vec<Vec<u8>> {
    let mut segments = vec![Vec::new()];
    let push = |segments: &mut Vec<Vec<u8>>, octets: &[u8]| {
        if let Some(last) = segments.last_mut() {
            last.extend_from_slice(octets);
        }
    };
    for piece in pieces {
        if !has_star(piece) {
            let key = DnKey::from_text(schema, piece).unwrap_or_default();
            push(&mut segments, key.as_bytes());
            continue;
        }
        let (name, value) = piece.split_once('=').unwrap_or(("", piece));
        if let Some(kind) = schema.attribute_type(name.trim()) {
            push(&mut segments, kind.key().as_bytes());
            push(&mut segments, b"=");
            for (position, part) in split_at(value.trim(), b'*').iter().enumerate() {
                if position > 0 {
                    segments.push(Vec::new());
                }
                let mut prepared = Vec::new();
                let part = unescape(part);
                let is_prepared = kind
                    .equality
                    .is_some_and(|rule| (rule.prepare)(schema, &part, &mut prepared).is_ok());
                push(&mut segments, if is_prepared { &prepared } else { &part });
            }
        } else {
            segments.push(Vec::new());
        }
        push(&mut segments, &[RDN_END]);
    }
    segments
}

/// The RDNs of a name, as they are written but without spaces around.
fn split(text: &str) -> Vec<&str> {
    split_at(text, b',').into_iter().map(str::trim).collect()
}

/// The parts of a text between octets that no backslash is before.
fn split_at(text: &str, separator: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut is_escaped) = (0, false);
    for (position, byte) in text.bytes().enumerate() {
        if byte == separator && !is_escaped {
            parts.push(text.get(start..position).unwrap_or_default());
            start = position + 1;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn has_star(text: &str) -> bool {
    split_at(text, b'*').len() > 1
}

/// The octets of a part of a value, without escapes (RFC 4514 §3).
fn unescape(text: &str) -> Vec<u8> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            octets.push(byte);
            continue;
        }
        match after {
            [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                octets.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            [escaped, after @ ..] => {
                octets.push(*escaped);
                rest = after;
            }
            [] => octets.push(byte),
        }
    }
    octets
}

/// The number that a hex digit is.
pub(crate) fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |digit| u8::try_from(digit).unwrap_or_default())
}

/// The value in the key of an RDN, without the escapes of keys.
fn plain(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&ESCAPE) {
        return Cow::Borrowed(value);
    }
    let mut octets = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            ESCAPE => octets.extend(rest.next().map(|next| next.wrapping_sub(ESCAPED_OFFSET))),
            byte => octets.push(byte),
        }
    }
    Cow::Owned(octets)
}

fn truth(holds: bool) -> Truth {
    if holds { Truth::True } else { Truth::False }
}

/// One value as if it were an entry of its own.
pub(crate) struct OneValue<'v> {
    pub(crate) description: &'v AttributeDescription,
    pub(crate) value: &'v [u8],
}

impl EntryRead for OneValue<'_> {
    fn dn(&self) -> &str {
        ""
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        _: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        if asked.covers(self.description) {
            visit(self.description, self.value);
        }
        true
    }

    fn visit_wanted(
        &self,
        _: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        let mut values = ValuesBuf::new();
        values.push(self.value);
        visit(self.description, Some(values.as_ref()));
    }
}

/// What ends an RDN, separates its assertions and escapes octets in keys: see [`DnKey`].
const RDN_END: u8 = 0;
const AVA_SEPARATOR: u8 = 1;
const ESCAPE: u8 = 2;
const ESCAPED_OFFSET: u8 = 3;
/// The most values of an attribute that one `($attr.x)` is replaced by.
const MACRO_VALUES_MAX: usize = 64;
