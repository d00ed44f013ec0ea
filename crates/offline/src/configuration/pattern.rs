//! Regular expressions of other servers, as patterns of constraints and as filters.
//!
//! Invariant: what becomes one means the same; where that is not sure there is none.

use ldap::filter::Filter;
use schema::{AttributeType, Schema};

/// A POSIX extended expression that is searched for, as one that the whole value matches, in the
/// form of a line; `None` where the two languages differ.
pub(super) fn whole(posix: &str) -> Option<String> {
    if posix.len() > PATTERN_MAX_BYTES || !is_common(posix) {
        return None;
    }
    // Alternatives have anchors of their own.
    let body = match (posix.strip_prefix('^'), strip_end(posix)) {
        _ if posix.contains('|') => format!("(?s:.*)(?:{posix})(?s:.*)"),
        (Some(rest), Some(_)) => strip_end(rest)?.to_owned(),
        (Some(rest), None) => format!("{rest}(?s:.*)"),
        (None, Some(rest)) => format!("(?s:.*){rest}"),
        (None, None) => format!("(?s:.*){posix}(?s:.*)"),
    };
    Some(escaped(&body))
}

/// A slash ends a pattern in a line.
fn escaped(body: &str) -> String {
    let (mut text, mut is_behind) = (String::new(), false);
    for letter in body.chars() {
        if letter == '/' && !is_behind {
            text.push('\\');
        }
        text.push(letter);
        is_behind = letter == '\\' && !is_behind;
    }
    text
}

/// Without the `$` at the end that stands for it.
fn strip_end(text: &str) -> Option<&str> {
    text.strip_suffix('$').filter(|rest| !rest.ends_with('\\'))
}

/// Whether it is surely the same expression in both languages.
fn is_common(posix: &str) -> bool {
    let mut in_brackets = false;
    let mut letters = posix.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '[' if !in_brackets => {
                in_brackets = true;
                // A bracket that stands first is one of those that are meant.
                let _ = letters.next_if_eq(&'^');
                if letters.next_if_eq(&']').is_some() {
                    return false;
                }
            }
            // Classes such as `[:alpha:]` are the same; equivalence classes are not there.
            '[' if letters.peek() == Some(&':') => {
                let class: String = letters.by_ref().take_while(|letter| *letter != ']').collect();
                if !CLASSES.contains(&class.as_str()) {
                    return false;
                }
            }
            // There a backslash in brackets is one; `&&`, `--` and `~~` are operators here.
            '[' | '\\' | '&' | '~' if in_brackets => return false,
            '-' if in_brackets && letters.peek() == Some(&'-') => return false,
            ']' => in_brackets = false,
            '\\' => match letters.next() {
                // An escaped letter or digit means something else in each language.
                Some(next) if next.is_ascii_punctuation() => {}
                Some(_) | None => return false,
            },
            // Groups of another kind, and repetitions that take as little as they can.
            '(' if letters.peek() == Some(&'?') => return false,
            '*' | '+' | '?' | '}' if matches!(letters.peek(), Some('?' | '+' | '*')) => {
                return false;
            }
            _ if letter.is_control() => return false,
            _ => {}
        }
    }
    !in_brackets
}

/// `attribute=expression` of 389 DS, as a filter: where the expression is a text, with anchors or
/// without. Case counts in an expression, so it does in the filter.
///
/// # Errors
/// When no filter means the same, with the reason.
pub(super) fn filter(condition: &str, schema: Option<&Schema>) -> Result<String, String> {
    let other = || format!("'{condition}' is no text with anchors: {WRITE}");
    let (attribute, expression) = condition.split_once('=').ok_or_else(other)?;
    let attribute = attribute.trim();
    if !ldap::description::is_oid(attribute) {
        return Err(other());
    }
    let (start, end, letters) = text(expression).ok_or_else(other)?;
    let made = if letters.is_empty() {
        format!("({attribute}=*)")
    } else {
        let is_whole = start && end;
        let kind = schema.map(|schema| schema.attribute_type(attribute));
        let rule = match kind {
            Some(None) => return Err(format!("the schema has no attribute '{attribute}'")),
            Some(Some(kind)) => rule(kind, is_whole, &letters),
            // Who does not know the rule of the attribute names one.
            None => Some(exact(&letters)),
        };
        let other = || format!("'{condition}' would mean something else here: {WRITE}");
        let rule = rule.ok_or_else(other)?;
        // A star and a backslash have a meaning of their own in values of the rule of pieces.
        let (star, name) = match (rule, is_whole) {
            (Rule::Own, _) => ("*", String::new()),
            (Rule::Exact, true) => ("", ":caseExactMatch:".to_owned()),
            (Rule::Exact, false) if letters.contains(['*', '\\']) => return Err(other()),
            (Rule::Exact, false) => ("\\2a", ":caseExactSubstringsMatch:".to_owned()),
        };
        let before = if start { "" } else { star };
        let behind = if end { "" } else { star };
        let mut text = String::new();
        letters.chars().for_each(|letter| push(&mut text, letter));
        format!("({attribute}{name}={before}{text}{behind})")
    };
    let parsed = Filter::parse(&made).map_err(|_| other())?;
    Ok(parsed.to_string())
}

/// By which rule values are compared.
enum Rule {
    /// That of the attribute.
    Own,
    /// One in which case counts.
    Exact,
}

/// Where the case of letters means nothing, the rule of the attribute does as well.
fn exact(letters: &str) -> Rule {
    if letters.chars().any(char::is_alphabetic) { Rule::Exact } else { Rule::Own }
}

/// The rule by which values of a type are the text, or have it in them; `None` where there is none.
fn rule(kind: &AttributeType, is_whole: bool, letters: &str) -> Option<Rule> {
    let name = kind.equality.map(|rule| rule.name)?;
    if !is_whole && kind.substring.is_none() {
        return None;
    }
    match name {
        "caseExactMatch" | "caseExactIA5Match" => Some(Rule::Own),
        "caseIgnoreMatch" | "caseIgnoreIA5Match" => Some(exact(letters)),
        _ => None,
    }
}

/// The text of an expression, and whether it stands at the beginning and at the end.
fn text(expression: &str) -> Option<(bool, bool, String)> {
    let (start, rest) = match expression.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, expression),
    };
    let (end, body) = match strip_end(rest) {
        Some(body) => (true, body),
        None => (false, rest),
    };
    // `^web.*` is what begins so.
    let (start, body) = body.strip_prefix(".*").map_or((start, body), |body| (false, body));
    let (end, body) = body.strip_suffix(".*").map_or((end, body), |body| (false, body));
    let mut text = String::new();
    let mut letters = body.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next) if next.is_ascii_punctuation() => text.push(next),
                Some(_) | None => return None,
            },
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return None;
            }
            _ => text.push(letter),
        }
    }
    // No value is empty: such an expression finds nothing.
    (!(start && end && text.is_empty())).then_some((start, end, text))
}

/// As a filter has it.
fn push(text: &mut String, letter: char) {
    match letter {
        '*' => text.push_str("\\2a"),
        '(' => text.push_str("\\28"),
        ')' => text.push_str("\\29"),
        '\\' => text.push_str("\\5c"),
        '\0' => text.push_str("\\00"),
        _ => text.push(letter),
    }
}

const WRITE: &str = "write an assignment 'member' by a filter";
const CLASSES: [&str; 12] = [
    ":alnum:", ":alpha:", ":blank:", ":cntrl:", ":digit:", ":graph:", ":lower:", ":print:",
    ":punct:", ":space:", ":upper:", ":xdigit:",
];
/// The longest expression, in bytes; a line is not much longer.
const PATTERN_MAX_BYTES: usize = 3000;

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;
    use schema::{Entry, ResolvedFilter, Truth};

    use super::*;

    #[test]
    fn an_expression_that_is_searched_for_matches_the_whole() {
        for (posix, pattern) in [
            ("^[0-9]+$", "[0-9]+"),
            ("^a", "a(?s:.*)"),
            ("a$", "(?s:.*)a"),
            ("a", "(?s:.*)a(?s:.*)"),
            ("^(a|b)$", "(?s:.*)(?:^(a|b)$)(?s:.*)"),
            ("^[[:alpha:]./]*$", "[[:alpha:].\\/]*"),
            ("^a\\$", "a\\$(?s:.*)"),
            ("^a\\/b\\\\/c$", "a\\/b\\\\\\/c"),
        ] {
            assert_eq!(whole(posix).as_deref(), Some(pattern), "{posix}");
        }
        for other in ["[]a]", "[\\d]", "\\d", "(?i)a", "a*?", "[[=a=]]", "[a", "\\", "[a&&b]"] {
            assert_eq!(whole(other), None, "{other}");
        }
    }

    #[test]
    fn a_text_with_anchors_is_a_filter() {
        let schema = Schema::builtin();
        for (condition, wanted) in [
            // Case counts in the expression, and not in `cn`.
            ("cn=^web", "(cn:caseexactsubstringsmatch:=web\\2a)"),
            ("cn=^web.*", "(cn:caseexactsubstringsmatch:=web\\2a)"),
            ("cn=\\.corp$", "(cn:caseexactsubstringsmatch:=\\2a.corp)"),
            ("mail=a\\.b", "(mail:caseexactsubstringsmatch:=\\2aa.b\\2a)"),
            ("cn=^a$", "(cn:caseexactmatch:=a)"),
            ("cn=^a\\*$", "(cn:caseexactmatch:=a\\2a)"),
            ("cn=^10\\.", "(cn=10.*)"),
            ("cn=^1\\*$", "(cn=1\\2a)"),
            ("homeDirectory=^/home$", "(homedirectory=/home)"),
            ("cn=.*", "(cn=*)"),
            ("cn=^", "(cn=*)"),
            ("uidNumber=.*", "(uidnumber=*)"),
        ] {
            let made = filter(condition, Some(&schema)).map(|text| text.to_lowercase());
            assert_eq!(made.as_deref(), Ok(wanted), "{condition}");
        }
        // Without a schema nobody knows whether case counts.
        assert_eq!(filter("fqdn=^a", None).unwrap(), "(fqdn:caseExactSubstringsMatch:=a\\2a)");
        for other in [
            "cn",
            "=a",
            "a b=c",
            "cn=^(a|b)$",
            "cn=\\d",
            "cn=a+",
            "cn=a\\",
            "cn=^$",
            "title=^$",
            "cn=^a\\*",
            "noSuch=a",
            "uidNumber=1",
            "member=^cn",
            "homeDirectory=/home",
        ] {
            assert!(filter(other, Some(&schema)).is_err(), "{other}");
        }
    }

    /// The filter finds what the expression finds.
    #[test]
    fn a_filter_of_an_expression_minds_the_case() {
        let schema = Schema::builtin();
        for (condition, value, is_found) in [
            ("cn=^web", "web1", true),
            ("cn=^web", "Web1", false),
            ("cn=^web", "my web", false),
            ("cn=b$", "web", true),
            ("cn=e", "web", true),
            ("cn=e", "WEB", false),
            ("cn=^web$", "web", true),
            ("cn=^web$", "WEB", false),
            ("mail=@x\\.org$", "a@x.org", true),
            ("mail=@x\\.org$", "a@X.org", false),
        ] {
            let attribute = condition.split('=').next().unwrap();
            let pairs = vec![("objectClass", &b"person"[..]), (attribute, value.as_bytes())];
            let entry = Entry::from_pairs(Dn::parse("dc=x").unwrap(), pairs, &schema).unwrap();
            let filter = filter(condition, Some(&schema)).unwrap();
            let filter = Filter::parse(&filter).unwrap();
            let truth = ResolvedFilter::resolve(&filter, &schema).matches(&schema, &entry);
            let wanted = if is_found { Truth::True } else { Truth::False };
            assert_eq!(truth, wanted, "{condition}: {value}");
        }
    }
}
