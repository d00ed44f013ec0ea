//! Writes definitions in the order of fields that RFC 4512 §4.1 has.

use std::fmt;

use super::{AttributeTypeBody, Body, ClassKind, Definition, Usage};

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "( {}", self.oid)?;
        quoted_list(f, "NAME", &self.names)?;
        if let Some(description) = &self.description {
            f.write_str(" DESC ")?;
            quoted(f, description)?;
        }
        flag(f, "OBSOLETE", self.obsolete)?;
        self.body.fmt(f)?;
        for extension in &self.extensions {
            quoted_list(f, &extension.name, &extension.values)?;
        }
        f.write_str(" )")
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => Ok(()),
            Self::MatchingRule { syntax } => field(f, "SYNTAX", Some(syntax)),
            Self::MatchingRuleUse { applies } => oids(f, "APPLIES", applies),
            Self::AttributeType(body) => body.fmt(f),
            Self::ObjectClass { superiors, kind, must, may } => {
                oids(f, "SUP", superiors)?;
                flag(f, kind.keyword(), *kind != ClassKind::Structural)?;
                oids(f, "MUST", must)?;
                oids(f, "MAY", may)
            }
            Self::ContentRule { auxiliary, must, may, not } => {
                oids(f, "AUX", auxiliary)?;
                oids(f, "MUST", must)?;
                oids(f, "MAY", may)?;
                oids(f, "NOT", not)
            }
            Self::StructureRule { form, superiors } => {
                field(f, "FORM", Some(form))?;
                list(f, "SUP", " ", superiors)
            }
            Self::NameForm { class, must, may } => {
                field(f, "OC", Some(class))?;
                oids(f, "MUST", must)?;
                oids(f, "MAY", may)
            }
        }
    }
}

impl fmt::Display for AttributeTypeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        field(f, "SUP", self.superior.as_ref())?;
        field(f, "EQUALITY", self.equality.as_ref())?;
        field(f, "ORDERING", self.ordering.as_ref())?;
        field(f, "SUBSTR", self.substring.as_ref())?;
        field(f, "SYNTAX", self.syntax.as_ref())?;
        if let Some(length) = self.length_max {
            write!(f, "{{{length}}}")?;
        }
        flag(f, "SINGLE-VALUE", self.single_value)?;
        flag(f, "COLLECTIVE", self.collective)?;
        flag(f, "NO-USER-MODIFICATION", self.no_user_modification)?;
        let usage = Usage::ALL.iter().find(|(usage, _)| *usage == self.usage);
        match usage {
            Some((usage, word)) if usage.is_operational() => write!(f, " USAGE {word}"),
            _ => Ok(()),
        }
    }
}

fn flag(f: &mut fmt::Formatter<'_>, keyword: &str, set: bool) -> fmt::Result {
    if set { write!(f, " {keyword}") } else { Ok(()) }
}

fn field(f: &mut fmt::Formatter<'_>, keyword: &str, value: Option<&String>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {keyword} {value}"))
}

fn oids(f: &mut fmt::Formatter<'_>, keyword: &str, values: &[String]) -> fmt::Result {
    list(f, keyword, " $ ", values)
}

fn list(
    f: &mut fmt::Formatter<'_>,
    keyword: &str,
    between: &str,
    values: &[String],
) -> fmt::Result {
    match values {
        [] => Ok(()),
        [one] => write!(f, " {keyword} {one}"),
        several => write!(f, " {keyword} ( {} )", several.join(between)),
    }
}

fn quoted_list(f: &mut fmt::Formatter<'_>, keyword: &str, values: &[String]) -> fmt::Result {
    match values {
        [] => Ok(()),
        [one] => {
            write!(f, " {keyword} ")?;
            quoted(f, one)
        }
        several => {
            write!(f, " {keyword} (")?;
            for value in several {
                f.write_str(" ")?;
                quoted(f, value)?;
            }
            f.write_str(" )")
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '\\']) {
        let (plain, special) = rest.split_at(at);
        f.write_str(plain)?;
        f.write_str(if special.starts_with('\'') { "\\27" } else { "\\5C" })?;
        rest = special.get(1..).unwrap_or("");
    }
    f.write_str(rest)?;
    f.write_str("'")
}
