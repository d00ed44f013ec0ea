//! Filters with macros: `($dn)` and `[$dn]` are replaced by a part of the entry's name, as text.
//!
//! Invariant: what is put in stays a part of the assertion value that it stands in: characters that
//! have a meaning in filters are escaped (RFC 4515 §3).

use ldap::filter::Filter;
use schema::{ResolvedFilter, Schema};

const PART: &str = "($dn)";
const PART_OR_ABOVE: &str = "[$dn]";

/// Whether a filter has a macro.
pub(crate) fn has_macro(text: &str) -> bool {
    text.contains(PART) || text.contains(PART_OR_ABOVE)
}

/// Whether a filter is true of one of the parts above as well.
pub(crate) fn goes_up(text: &str) -> bool {
    text.contains(PART_OR_ABOVE)
}

/// The filter that a part of a name makes; none when that is no filter.
pub(crate) fn instance(text: &str, part: &str, schema: &Schema) -> Option<ResolvedFilter> {
    let text = filled(text, part);
    let filter = Filter::parse(&text).ok()?;
    Some(ResolvedFilter::resolve(&filter, schema))
}

/// The text of that filter.
pub(crate) fn filled(text: &str, part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for character in part.chars() {
        match character {
            '\\' => escaped.push_str("\\5c"),
            '*' => escaped.push_str("\\2a"),
            '(' => escaped.push_str("\\28"),
            ')' => escaped.push_str("\\29"),
            '\0' => escaped.push_str("\\00"),
            other => escaped.push(other),
        }
    }
    text.replace(PART, &escaped).replace(PART_OR_ABOVE, &escaped)
}
