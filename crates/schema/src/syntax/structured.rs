//! Syntaxes with parts: lists, triples, guides, subtree specifications.

use ldap::description::is_oid;

use super::text::{is_printable, utf8};
use crate::schema::Schema;

type Checked = Result<(), &'static str>;

/// The deepest nesting of parentheses or braces in a value.
const NESTING_MAX: usize = 32;

fn ensure(holds: bool, reason: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(reason) }
}

/// RFC 4517 §3.3.5: methods in order of preference, `telephone $ videotex`.
pub(super) fn delivery_method(_: &Schema, value: &[u8]) -> Checked {
    const METHODS: [&str; 10] = [
        "any",
        "mhs",
        "physical",
        "telex",
        "teletex",
        "g3fax",
        "g4fax",
        "ia5",
        "videotex",
        "telephone",
    ];
    let is_method = |part: &str| METHODS.contains(&part.trim_matches(' '));
    ensure(
        utf8(value)?.split('$').all(is_method),
        "is not a list of delivery methods such as telephone $ mhs",
    )
}

/// RFC 4517 §3.3.10: class `#` criteria `#` scope.
pub(super) fn enhanced_guide(_: &Schema, value: &[u8]) -> Checked {
    const REASON: &str = "is not of the form class#criteria#scope";
    let mut parts = utf8(value)?.split('#').map(|part| part.trim_matches(' '));
    let (Some(class), Some(criteria), Some(scope), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(REASON);
    };
    let is_scope = matches!(scope, "baseobject" | "oneLevel" | "wholeSubtree" | "subordinates");
    ensure(is_oid(class) && is_criteria(criteria) && is_scope, REASON)
}

/// RFC 4517 §3.3.14: the class is optional.
pub(super) fn guide(_: &Schema, value: &[u8]) -> Checked {
    let text = utf8(value)?;
    let (class, criteria) = match text.split_once('#') {
        Some((class, criteria)) => (Some(class.trim_matches(' ')), criteria),
        None => (None, text),
    };
    ensure(
        class.is_none_or(is_oid) && is_criteria(criteria.trim_matches(' ')),
        "is not of the form class#criteria",
    )
}

/// `criteria` of RFC 4517 §3.3.10: terms `attribute$EQ` with `!`, `&`, `|` and parentheses.
fn is_criteria(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut wants_term = true;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut taken = 1;
        match (wants_term, first) {
            (true, '!') => {}
            (true, '(') => depth += 1,
            (false, ')') if depth > 0 => depth -= 1,
            (false, '&' | '|') => wants_term = true,
            (true, _) => {
                taken = rest.find(['&', '|', '(', ')', '!']).unwrap_or(rest.len());
                if !rest.get(..taken).is_some_and(is_criteria_term) {
                    return false;
                }
                wants_term = false;
            }
            (false, _) => return false,
        }
        if depth > NESTING_MAX {
            return false;
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    depth == 0 && !wants_term
}

fn is_criteria_term(text: &str) -> bool {
    match text.split_once('$') {
        Some((attribute, kind)) => {
            is_oid(attribute) && matches!(kind, "EQ" | "SUBSTR" | "GE" | "LE" | "APPROX")
        }
        None => matches!(text, "?true" | "?false"),
    }
}

/// RFC 4517 §3.3.11: a telephone number and parameters, `+1 555 1234$twoDimensional`.
pub(super) fn facsimile_number(_: &Schema, value: &[u8]) -> Checked {
    const PARAMETERS: [&str; 7] = [
        "twoDimensional",
        "fineResolution",
        "unlimitedLength",
        "b4Length",
        "a3Width",
        "b4Width",
        "uncompressed",
    ];
    let mut parts = utf8(value)?.split('$');
    let number = parts.next().unwrap_or_default();
    ensure(
        is_printable(number.as_bytes()) && parts.all(|part| PARAMETERS.contains(&part)),
        "is not a fax number, with parameters such as $fineResolution after it",
    )
}

/// RFC 4517 §3.3.27: type `$` mailbox.
pub(super) fn other_mailbox(_: &Schema, value: &[u8]) -> Checked {
    let is_well_formed = utf8(value)?
        .split_once('$')
        .is_some_and(|(kind, mailbox)| is_printable(kind.as_bytes()) && mailbox.is_ascii());
    ensure(is_well_formed, "is not of the form type$mailbox")
}

/// RFC 4517 §3.3.30: pieces separated by `*`, at least one `*` and one piece.
pub(super) fn substring_assertion(_: &Schema, value: &[u8]) -> Checked {
    let text = utf8(value)?;
    let pieces = text.split('*').filter(|piece| !piece.is_empty()).count();
    ensure(
        text.contains('*') && pieces > 0 && !text.contains("**"),
        "is not a substring assertion such as a*b",
    )
}

/// RFC 4517 §3.3.32: an identifier and parameters `key:value`.
pub(super) fn teletex_terminal_identifier(_: &Schema, value: &[u8]) -> Checked {
    const KEYS: [&[u8]; 5] = [b"graphic", b"control", b"misc", b"page", b"private"];
    let mut parts = value.split(|&byte| byte == b'$');
    let is_parameter = |part: &[u8]| {
        part.iter()
            .position(|&byte| byte == b':')
            .and_then(|colon| part.get(..colon))
            .is_some_and(|key| KEYS.contains(&key))
    };
    ensure(
        parts.next().is_some_and(is_printable) && parts.all(is_parameter),
        "is not a teletex terminal identifier",
    )
}

/// RFC 4517 §3.3.33: number, country code and answerback.
pub(super) fn telex_number(_: &Schema, value: &[u8]) -> Checked {
    let parts = value.split(|&byte| byte == b'$');
    ensure(
        parts.clone().count() == 3 && parts.clone().all(is_printable),
        "is not of the form number$country$answerback",
    )
}

/// RFC 2307 §2.4: key `=` server `:` path.
pub(super) fn boot_parameter(_: &Schema, value: &[u8]) -> Checked {
    let is_well_formed = || {
        let (key, rest) = utf8(value).ok()?.split_once('=')?;
        let (server, path) = rest.split_once(':')?;
        Some(!key.is_empty() && !server.is_empty() && !path.is_empty() && value.is_ascii())
    };
    ensure(is_well_formed() == Some(true), "is not of the form key=server:path")
}

/// RFC 2307 §2.4: `(host,user,domain)`, each a name, nothing or `-`.
pub(super) fn nis_netgroup_triple(_: &Schema, value: &[u8]) -> Checked {
    let is_name = |name: &str| {
        let name = name.trim_matches(' ');
        name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'(' | b')'))
    };
    let is_well_formed = || {
        let inner = utf8(value).ok()?.strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').count() == 3 && inner.split(',').all(is_name))
    };
    ensure(is_well_formed() == Some(true), "is not of the form (host,user,domain)")
}

/// RFC 3672 Appendix A, as far as its structure goes: the parts known, braces and quotes closed.
pub(super) fn subtree_specification(_: &Schema, value: &[u8]) -> Checked {
    const REASON: &str = "is not a subtree specification such as { base \"ou=people\", minimum 1 }";
    const PARTS: [&str; 5] =
        ["base", "specificExclusions", "minimum", "maximum", "specificationFilter"];
    let text = utf8(value)?.trim_matches(' ');
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or(REASON)?;
    let mut known = PARTS.iter();
    let mut rest = inner.trim_matches(' ');
    while !rest.is_empty() {
        let end = component_end(rest).ok_or(REASON)?;
        let (part, after) = rest.split_at_checked(end).ok_or(REASON)?;
        let (name, content) = part.split_once(' ').ok_or(REASON)?;
        // In the order of the definition, each at most once.
        let content = content.trim_matches(' ');
        let is_fitting = match name {
            "base" => content.starts_with('"'),
            "minimum" | "maximum" => content.bytes().all(|byte| byte.is_ascii_digit()),
            _ => true,
        };
        if !known.any(|part| *part == name) || content.is_empty() || !is_fitting {
            return Err(REASON);
        }
        rest = after.strip_prefix(',').unwrap_or(after);
        if rest.is_empty() && !after.is_empty() {
            return Err(REASON);
        }
        rest = rest.trim_start_matches(' ');
    }
    Ok(())
}

/// Where the component at the start of `text` ends: at a comma outside of braces and quotes, or at
/// the end; none if those are not balanced.
fn component_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_quotes) = (0_usize, false);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            b',' if depth == 0 => return Some(position),
            b'{' if depth < NESTING_MAX => depth += 1,
            b'{' => return None,
            b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0 && !in_quotes).then_some(text.len())
}
