//! Names of lines, names of entries in lines, and filters in lines.

use ldap::dn::Dn;
use ldap::filter::Filter;

/// A name of a line, of the letters that one may have.
pub(super) fn line_name(hint: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut name = String::new();
    for letter in hint.trim().chars() {
        let plain = if is_plain(letter) { letter } else { '-' };
        if plain != '-' || !name.ends_with('-') {
            name.push(plain);
        }
        if name.len() >= NAME_MAX_BYTES {
            break;
        }
    }
    let name = name.trim_matches('-');
    if name.is_empty() { "imported".to_owned() } else { name.to_ascii_lowercase() }
}

/// `below DN where FILTER`, with a blank before it.
///
/// # Errors
/// When the one is no name or the other no filter, with the reason.
pub(super) fn place(below: Option<&str>, filter: Option<&str>) -> Result<String, String> {
    let mut text = String::new();
    if let Some(name) = below.map(entry_name).transpose()?
        && !name.is_empty()
    {
        text.push_str(" below ");
        text.push_str(&name);
    }
    if let Some(filter) = filter {
        let filter = enclosed(filter);
        let parsed =
            Filter::parse(&filter).map_err(|error| format!("'{filter}' is no filter: {error}"))?;
        text.push_str(" where ");
        text.push_str(&parsed.to_string());
    }
    Ok(text)
}

/// The name of an entry, as it stands in a line.
///
/// # Errors
/// When it is none, with the reason.
pub(super) fn entry_name(text: &str) -> Result<String, String> {
    let dn = Dn::parse(text).map_err(|error| format!("'{text}' is no name: {error}"))?;
    // A line ends a name at these words.
    Ok(dn.to_string().replace(" where", "\\20where").replace(" below", "\\20below"))
}

/// Whether it is a number, and nothing else that a line could take for more.
pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit())
}

/// A filter in its parentheses.
pub(super) fn enclosed(filter: &str) -> String {
    let filter = filter.trim();
    if filter.starts_with('(') { filter.to_owned() } else { format!("({filter})") }
}

/// `attribute.kind` of an index, as a definition of one.
pub(super) fn index(attribute: &str, kind: &str) -> Option<String> {
    let kind = match kind.to_ascii_lowercase().as_str() {
        "eq" | "equality" => "equality",
        "sub" | "substring" | "subinitial" | "subany" | "subfinal" => "substring",
        "pres" | "presence" => "presence",
        "approx" | "approximate" => "approximate",
        "ordering" => "ordering",
        _ => return None,
    };
    Some(format!("{kind} {attribute}"))
}

/// The longest name, some letters less than a line may have: a number may follow.
const NAME_MAX_BYTES: usize = 58;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lines_have_plain_letters() {
        for (hint, name) in [
            ("{0}unique", "0-unique"),
            ("Mail uniqueness", "mail-uniqueness"),
            ("", "imported"),
            ("{}", "imported"),
            ("é", "imported"),
        ] {
            assert_eq!(line_name(hint), name, "{hint}");
        }
        assert_eq!(line_name(&"a".repeat(100)).len(), NAME_MAX_BYTES);
    }

    #[test]
    fn places_are_what_lines_take() {
        let place = |below, filter| place(below, filter);
        assert_eq!(
            place(Some("ou=a where, dc=x"), Some("cn=a")).unwrap(),
            " below ou=a\\20where,dc=x where (cn=a)"
        );
        assert_eq!(place(Some(""), None).unwrap(), "");
        assert!(place(Some("x"), None).unwrap_err().contains("is no name"));
        assert!(place(None, Some("(")).unwrap_err().contains("is no filter"));
    }
}
