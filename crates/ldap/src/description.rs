//! The grammar of names: OIDs and attribute descriptions (RFC 4512 §1.4, §2.5).
//!
//! These functions only say whether a text has the right form. Whether a name is known, and which
//! type it means, is for the schema to say.

/// Whether `text` is an `oid`: a short name such as `cn` or a dotted OID such as `2.5.4.3`.
pub fn is_oid(text: &str) -> bool {
    match text.as_bytes().first() {
        Some(b'0'..=b'9') => is_numeric_oid(text),
        Some(_) => is_short_name(text),
        None => false,
    }
}

/// Whether `text` is an attribute description: an [`is_oid`] and options, as in `cn;lang-de`.
pub fn is_attribute_description(text: &str) -> bool {
    let mut parts = text.split(';');
    parts.next().is_some_and(is_oid) && parts.all(is_option)
}

/// Whether `text` is a dotted OID of at least two arcs without leading zeros.
pub fn is_numeric_oid(text: &str) -> bool {
    let is_arc = |arc: &str| {
        !arc.is_empty()
            && arc.bytes().all(|byte| byte.is_ascii_digit())
            && (arc == "0" || !arc.starts_with('0'))
    };
    text.contains('.') && text.split('.').all(is_arc)
}

/// A `keystring`: a letter, then letters, digits and hyphens.
fn is_short_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && is_option(text)
}

fn is_option(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, oid: bool, description: bool) {
        assert_eq!(is_oid(text), oid, "{text:?} as an oid");
        assert_eq!(is_attribute_description(text), description, "{text:?} as a description");
    }

    #[test]
    fn short_names_start_with_a_letter() {
        check("cn", true, true);
        check("C", true, true);
        check("user-Password", true, true);
        check("x-1-", true, true);
        check("attr-", true, true);
        check("a1", true, true);
        check("", false, false);
        check("-cn", false, false);
        check("1cn", false, false);
        check("c n", false, false);
        check(" cn", false, false);
        check("cn ", false, false);
        check("c_n", false, false);
        check("cn:", false, false);
        check("cn=", false, false);
        check("gr\u{fc}n", false, false);
        check("*", false, false);
        check("+", false, false);
    }

    #[test]
    fn dotted_oids_have_two_arcs_and_no_leading_zero() {
        check("2.5.4.3", true, true);
        check("0.9", true, true);
        check("1.1", true, true);
        check("1.3.6.1.4.1.99999999999999999999999", true, true);
        check("2", false, false);
        check("2.", false, false);
        check(".2", false, false);
        check("2..5", false, false);
        check("2.05", false, false);
        check("02.5", false, false);
        check("2.0", true, true);
        check("2.5.x", false, false);
        check("oid.2.5.4.3", false, false);
    }

    #[test]
    fn options_follow_a_semicolon() {
        check("cn;lang-de", false, true);
        check("2.5.4.3;binary", false, true);
        check("cn;lang-de;x-1", false, true);
        check("cn;1", false, true);
        check("cn;", false, false);
        check(";binary", false, false);
        check("cn;;binary", false, false);
        check("cn;lang_de", false, false);
        check("cn;lang-de;", false, false);
        check("cn; binary", false, false);
    }
}
