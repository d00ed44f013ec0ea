//! The definition of one index, as a line of text: what people write, what change records carry,
//! and what `meta` keeps.
//!
//! `equality cn`, `extensible cn 2.5.13.5`, `equality l with title`,
//! `equality uid where (objectClass=person)`.
//!
//! Invariants: a definition that was parsed is shown as a line that parses to the same definition.
//! Whether the schema knows its attributes and rules is asked later, see [`super::Index`].

use std::fmt;
use std::str::FromStr;

use ldap::description::is_oid;
use ldap::filter::Filter;

use super::IndexKind;
use crate::error::StoreError;

/// The longest line of a definition. How deep its filter may be is limited by
/// [`ldap::filter::FILTER_DEPTH_MAX`].
pub const INDEX_DEFINITION_MAX_BYTES: usize = 4096;

/// Which index: its kind, its attribute, and what narrows it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IndexDefinition {
    /// What can be looked up in it.
    pub kind: IndexKind,
    /// The attribute type, by name or OID.
    pub attribute: String,
    /// The matching rule, by name or OID; of [`IndexKind::Extensible`] alone.
    pub rule: Option<String>,
    /// The second attribute of a composite index; of [`IndexKind::Equality`] alone.
    pub with: Option<String>,
    /// Of a filtered index: only entries that match this filter (RFC 4515) are in it.
    pub filter: Option<String>,
}

impl IndexDefinition {
    /// An index of one attribute, for all entries.
    #[must_use]
    pub fn new(kind: IndexKind, attribute: &str) -> Self {
        let attribute = attribute.to_owned();
        Self { kind, attribute, rule: None, with: None, filter: None }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// When it is none, or longer than [`INDEX_DEFINITION_MAX_BYTES`].
    pub fn parse(line: &str) -> Result<Self, StoreError> {
        let refused = |reason: String| invalid(line, reason);
        check_length(line)?;
        let (words, filter) = match line.split_once(" where ") {
            Some((words, filter)) => {
                let filter = Filter::parse(filter);
                let filter = filter.map_err(|error| refused(format!("its filter: {error}")))?;
                (words, Some(filter.to_string()))
            }
            None => (line, None),
        };
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        let [kind, attribute, more @ ..] = words.as_slice() else {
            return Err(refused("it needs a kind and an attribute".to_owned()));
        };
        let kind = IndexKind::from_name(kind).ok_or_else(|| {
            let names: Vec<&str> = IndexKind::ALL.iter().map(|kind| kind.name()).collect();
            refused(format!("'{kind}' is no kind of index: {}", names.join(", ")))
        })?;
        let (rule, with) = match (kind, more) {
            (IndexKind::Extensible, [rule]) => (Some(*rule), None),
            (IndexKind::Extensible, _) => {
                return Err(refused("it needs one matching rule".to_owned()));
            }
            (_, []) => (None, None),
            (IndexKind::Equality, ["with", with]) => (None, Some(*with)),
            (_, [word, ..]) => return Err(refused(format!("'{word}' does not belong there"))),
        };
        for name in [Some(*attribute), rule, with].into_iter().flatten() {
            if !is_oid(name) {
                return Err(refused(format!("'{name}' is neither a name nor an OID")));
            }
        }
        let definition = Self {
            kind,
            attribute: (*attribute).to_owned(),
            rule: rule.map(str::to_owned),
            with: with.map(str::to_owned),
            filter,
        };
        // Its filter may be longer with all its escapes.
        check_length(&definition.to_string())?;
        Ok(definition)
    }

    /// What reports call it: `uid.equality`, `l+title.equality`, `cn.extensible.2.5.13.5`, and
    /// behind that the filter.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.attribute.clone();
        for (before, part) in [
            ("+", self.with.as_deref()),
            (".", Some(self.kind.name())),
            (".", self.rule.as_deref()),
            (" where ", self.filter.as_deref()),
        ] {
            if let Some(part) = part {
                name.push_str(before);
                name.push_str(part);
            }
        }
        name
    }
}

impl fmt::Display for IndexDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.attribute)?;
        if let Some(rule) = &self.rule {
            write!(f, " {rule}")?;
        }
        if let Some(with) = &self.with {
            write!(f, " with {with}")?;
        }
        match &self.filter {
            Some(filter) => write!(f, " where {filter}"),
            None => Ok(()),
        }
    }
}

impl FromStr for IndexDefinition {
    type Err = StoreError;

    fn from_str(line: &str) -> Result<Self, StoreError> {
        Self::parse(line)
    }
}

/// Refuses a line that is too long to be kept.
pub(super) fn check_length(line: &str) -> Result<(), StoreError> {
    if line.len() <= INDEX_DEFINITION_MAX_BYTES {
        return Ok(());
    }
    Err(invalid(line, format!("it is longer than {INDEX_DEFINITION_MAX_BYTES} octets")))
}

/// Why a definition is refused. A long one is not repeated whole.
pub(super) fn invalid(line: &str, reason: String) -> StoreError {
    let end = line.floor_char_boundary(TEXT_SHOWN_MAX_BYTES);
    let text = line.get(..end).unwrap_or_default().to_owned();
    StoreError::Invalid { what: "index", text, reason }
}

/// So much of a line is in a message about it.
const TEXT_SHOWN_MAX_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::Schema;

    use super::*;

    fn line() -> impl Strategy<Value = String> {
        let words = [
            "equality",
            "substring",
            "extensible",
            "approximate",
            "ordering",
            "cn",
            "l",
            "2.5.4.3",
            "uidNumber",
            "member",
            "with",
            "where",
            "(sn=a*b\\2a)",
            "(&(l=x)(!(cn=*)))",
            "(:2.5.13.2:=\u{e9})",
            "caseExactMatch",
            "2.5.13.2",
            "wordMatch",
            "(",
            "x;y",
            "",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..7)
            .prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn what_is_read_is_shown_so_that_it_reads_back_and_canonical_is_final(
            line in prop_oneof![3 => line(), 1 => any::<String>()],
        ) {
            let Ok(definition) = IndexDefinition::parse(&line) else { return Ok(()) };
            let reread = |one: &IndexDefinition| IndexDefinition::parse(&one.to_string()).unwrap();
            prop_assert_eq!(&reread(&definition), &definition);
            let schema = Schema::builtin();
            if let Ok(canonical) = definition.canonical(&schema) {
                prop_assert_eq!(&canonical.canonical(&schema).unwrap(), &canonical);
                prop_assert_eq!(&reread(&canonical), &canonical);
            }
        }
    }

    #[track_caller]
    fn check(line: &str, shown: &str, name: &str) {
        let definition = IndexDefinition::parse(line).unwrap();
        assert_eq!(definition.to_string(), shown);
        assert_eq!(definition.name(), name);
        assert_eq!(shown.parse::<IndexDefinition>().unwrap(), definition);
    }

    #[test]
    fn definitions_are_read_and_shown() {
        check("presence sn", "presence sn", "sn.presence");
        check(" substring  cn ", "substring cn", "cn.substring");
        check("ordering 1.2.3", "ordering 1.2.3", "1.2.3.ordering");
        check("extensible cn 2.5.13.5", "extensible cn 2.5.13.5", "cn.extensible.2.5.13.5");
        check("equality l with title", "equality l with title", "l+title.equality");
        check(
            "equality uid where  (objectClass=a where \\28)",
            "equality uid where (objectClass=a where \\28)",
            "uid.equality where (objectClass=a where \\28)",
        );
        check(
            "equality l with title where objectClass=person",
            "equality l with title where (objectClass=person)",
            "l+title.equality where (objectClass=person)",
        );
    }

    #[track_caller]
    fn refused(line: &str, reason: &str) {
        let error = IndexDefinition::parse(line).unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
        assert!(error.len() < 500);
    }

    #[test]
    fn what_is_no_definition_is_refused() {
        refused("", "it needs a kind and an attribute");
        refused("equality", "it needs a kind and an attribute");
        refused(
            "fuzzy cn",
            "'fuzzy' is no kind of index: presence, equality, ordering, substring, approximate, \
             extensible",
        );
        refused("equality cn sn", "'sn' does not belong there");
        refused("substring cn with sn", "'with' does not belong there");
        refused("extensible cn", "it needs one matching rule");
        refused("extensible cn 2.5.13.5 x", "it needs one matching rule");
        refused("equality c%n", "'c%n' is neither a name nor an OID");
        refused("equality cn;lang-de", "'cn;lang-de' is neither a name nor an OID");
        refused("equality cn where (", "a filter such as (cn=name) is missing (at byte 1)");
        refused(&format!("equality {}", "c".repeat(5000)), "it is longer than 4096 octets");
        let escapes = format!("equality cn where (sn={})", "\u{7}".repeat(2000));
        refused(&escapes, "it is longer than 4096 octets");
        let deep = format!("equality cn where {}(cn=*){}", "(!".repeat(101), ")".repeat(101));
        refused(&deep, "the filter is nested deeper than 100 levels (at byte 202)");
    }
}
