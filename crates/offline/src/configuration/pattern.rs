//! Regular expressions of other servers, as patterns of constraints and as filters.
//!
//! Invariant: what becomes one means the same; where that is not sure there is none.

use ldap::filter::Filter;

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
/// without.
pub(super) fn filter(condition: &str) -> Option<String> {
    let (attribute, expression) = condition.split_once('=')?;
    let attribute = attribute.trim();
    if !ldap::description::is_oid(attribute) {
        return None;
    }
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
                Some(next) if next.is_ascii_punctuation() => push(&mut text, next),
                Some(_) | None => return None,
            },
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                return None;
            }
            _ => push(&mut text, letter),
        }
    }
    let text = match (start, end) {
        _ if text.is_empty() => "*".to_owned(),
        (true, true) => text,
        (true, false) => format!("{text}*"),
        (false, true) => format!("*{text}"),
        (false, false) => format!("*{text}*"),
    };
    let made = format!("({attribute}={text})");
    Filter::parse(&made).ok().map(|filter| filter.to_string())
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

const CLASSES: [&str; 12] = [
    ":alnum:", ":alpha:", ":blank:", ":cntrl:", ":digit:", ":graph:", ":lower:", ":print:",
    ":punct:", ":space:", ":upper:", ":xdigit:",
];
/// The longest expression, in bytes; a line is not much longer.
const PATTERN_MAX_BYTES: usize = 3000;

#[cfg(test)]
mod tests {
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
        for (condition, wanted) in [
            ("fqdn=^web", "(fqdn=web*)"),
            ("fqdn=^web.*", "(fqdn=web*)"),
            ("fqdn=\\.corp$", "(fqdn=*.corp)"),
            ("fqdn=^a$", "(fqdn=a)"),
            ("fqdn=a", "(fqdn=*a*)"),
            ("fqdn=.*", "(fqdn=*)"),
            ("fqdn=^a\\*$", "(fqdn=a\\2a)"),
        ] {
            let made = filter(condition).map(|text| text.to_lowercase());
            assert_eq!(made.as_deref(), Some(wanted), "{condition}");
        }
        for other in ["fqdn", "=a", "a b=c", "fqdn=^(a|b)$", "fqdn=\\d", "fqdn=a+", "fqdn=a\\"] {
            assert_eq!(filter(other), None, "{other}");
        }
    }
}
