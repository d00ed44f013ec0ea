//! What a request was like, without its values.
//!
//! Invariant: two requests that differ in values alone have the same shape.

use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};

use super::super::pattern::VARIABLES_MAX;
use super::super::request::ScopeName;
use crate::access_log::line::Line;

/// A request without its values.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Shape {
    Search(SearchShape),
    Compare {
        name: NameShape,
        attribute: String,
    },
    Bind(NameShape),
    /// What they change is not replayed, only that they change something.
    Modify(NameShape),
    Add,
    Delete,
}

/// A search without its values.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct SearchShape {
    pub(crate) base: NameShape,
    pub(crate) scope: ScopeName,
    pub(crate) filter: FilterShape,
    pub(crate) attributes: Vec<String>,
}

/// The name of an entry without its values.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum NameShape {
    /// The root, or an entry of the server itself.
    Own(String),
    /// Attribute types of its RDNs, those of one with `+` between, in lower case.
    Types(Vec<String>),
}

/// A filter without its values.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum FilterShape {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    /// As it is, in the form of RFC 4515: a presence, or an object class.
    Whole(String),
    /// What stands before and behind a value of the attribute.
    Value {
        attribute: String,
        before: String,
    },
    /// Lengths in characters of what is asserted of a value.
    Substrings {
        attribute: String,
        initial: Option<usize>,
        any: Vec<usize>,
        last: Option<usize>,
    },
}

/// What becomes of a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// It is a request that can be repeated.
    Shape(Shape),
    /// It is a request that is not; why not.
    LeftOut(&'static str),
    /// It is no request.
    Passed,
}

impl Fate {
    /// Of a line that was read.
    pub(super) fn of(line: &Line) -> Result<Self, &'static str> {
        if line.cut {
            return Ok(Self::LeftOut("requests that were too long to be logged"));
        }
        let name = || match &line.dn {
            Some(dn) => NameShape::of(dn),
            None => Err("it names no entry"),
        };
        Ok(match &*line.kind {
            "search" => return SearchShape::of(line),
            "compare" => {
                let attribute = line.attribute.clone().ok_or("it names no attribute")?;
                Self::Shape(Shape::Compare { name: name()?, attribute })
            }
            "bind" if line.auth.as_deref().is_none_or(|auth| auth == "simple") => {
                Self::Shape(Shape::Bind(name()?))
            }
            "bind" => Self::LeftOut("binds with SASL"),
            "modify" => Self::Shape(Shape::Modify(name()?)),
            "add" => Self::Shape(Shape::Add),
            "delete" => Self::Shape(Shape::Delete),
            "modify_dn" => Self::LeftOut("renames"),
            "extended" => Self::LeftOut("extended operations"),
            "abandon" => Self::LeftOut("abandons"),
            "unknown" => Self::LeftOut("requests that could not be decoded"),
            "connect" | "tls" | "disconnect" | "refused" | "dropped" => Self::Passed,
            _ => Self::LeftOut("operations of a kind that this release does not know"),
        })
    }
}

impl SearchShape {
    fn of(line: &Line) -> Result<Fate, &'static str> {
        let base = NameShape::of(line.base.as_deref().ok_or("it has no base")?)?;
        let scope = match line.scope.as_deref() {
            Some("base") => ScopeName::Base,
            Some("one") => ScopeName::One,
            Some("sub") => ScopeName::Sub,
            Some("subordinate") => ScopeName::Children,
            Some(_) | None => return Err("it has no scope"),
        };
        let text = line.filter.as_deref().ok_or("it has no filter")?;
        if text.ends_with('…') {
            return Ok(Fate::LeftOut("requests that were too long to be logged"));
        }
        // What is hidden is no value in the form of RFC 4515, and is none that is drawn.
        let text = text.replace("{hidden}", "hidden");
        let filter = Filter::parse(&text).map_err(|_| "its filter is none")?;
        let mut values = 0;
        let Some(filter) = FilterShape::of(&filter, &mut values) else {
            return Ok(Fate::LeftOut("searches with rules for all attributes"));
        };
        if values + 1 > VARIABLES_MAX || line.attributes.len() > ATTRIBUTES_MAX {
            return Ok(Fate::LeftOut("searches with more values than can be drawn"));
        }
        let attributes = line.attributes.clone();
        Ok(Fate::Shape(Shape::Search(Self { base, scope, filter, attributes })))
    }
}

impl NameShape {
    fn of(text: &str) -> Result<Self, &'static str> {
        let dn = Dn::parse(text).map_err(|_| "its entry has no name that can be read")?;
        let suffix = dn.rdns().last().map(ToString::to_string).unwrap_or_default();
        if OWN.iter().any(|own| own.eq_ignore_ascii_case(&suffix)) {
            return Ok(Self::Own(text.to_owned()));
        }
        Ok(Self::Types(types(&dn)))
    }
}

/// The attribute types of the RDNs of a name.
pub(super) fn types(dn: &Dn) -> Vec<String> {
    let types = |rdn: &ldap::dn::Rdn| {
        let types = rdn.avas().iter().map(|ava| ava.attribute.to_ascii_lowercase());
        types.collect::<Vec<_>>().join("+")
    };
    dn.rdns().iter().map(types).collect()
}

impl FilterShape {
    /// Counts the values that are to be drawn; nothing if one cannot.
    fn of(filter: &Filter<'_>, values: &mut usize) -> Option<Self> {
        let mut all = |filters: &[Filter<'_>]| {
            filters.iter().map(|filter| Self::of(filter, values)).collect::<Option<Vec<_>>>()
        };
        match filter {
            Filter::And(filters) => Some(Self::And(all(filters)?)),
            Filter::Or(filters) => Some(Self::Or(all(filters)?)),
            Filter::Not(filter) => Some(Self::Not(Box::new(Self::of(filter, values)?))),
            Filter::Present(_) => Some(Self::Whole(filter.to_string())),
            Filter::Equality(ava) if ava.description.eq_ignore_ascii_case("objectClass") => {
                Some(Self::Whole(filter.to_string()))
            }
            Filter::Equality(ava) => Self::value(ava, "=", values),
            Filter::GreaterOrEqual(ava) => Self::value(ava, ">=", values),
            Filter::LessOrEqual(ava) => Self::value(ava, "<=", values),
            Filter::Approx(ava) => Self::value(ava, "~=", values),
            Filter::Extensible(item) => {
                let attribute = item.description?.to_owned();
                let dn = if item.dn_attributes { ":dn" } else { "" };
                let rule = item.rule.map_or_else(String::new, |rule| format!(":{rule}"));
                *values += 1;
                Some(Self::Value { before: format!("{attribute}{dn}{rule}:="), attribute })
            }
            Filter::Substrings(item) => {
                *values += usize::from(item.initial.is_some())
                    + item.any.len()
                    + usize::from(item.final_.is_some());
                let length = |value: &[u8]| String::from_utf8_lossy(value).chars().count();
                Some(Self::Substrings {
                    attribute: item.description.to_owned(),
                    initial: item.initial.as_deref().map(length),
                    any: item.any.iter().map(|value| length(value)).collect(),
                    last: item.final_.as_deref().map(length),
                })
            }
        }
    }

    fn value(ava: &AvaFilter<'_>, operator: &str, values: &mut usize) -> Option<Self> {
        *values += 1;
        let attribute = ava.description.to_owned();
        Some(Self::Value { before: format!("{attribute}{operator}"), attribute })
    }

    /// The attributes of which values are drawn, in order.
    pub(super) fn attributes(&self) -> Vec<&str> {
        match self {
            Self::And(filters) | Self::Or(filters) => {
                filters.iter().flat_map(Self::attributes).collect()
            }
            Self::Not(filter) => filter.attributes(),
            Self::Whole(_) => Vec::new(),
            Self::Value { attribute, .. } | Self::Substrings { attribute, .. } => vec![attribute],
        }
    }
}

impl Shape {
    /// The attributes of which values are drawn.
    pub(super) fn attributes(&self) -> Vec<&str> {
        match self {
            Self::Search(search) => search.filter.attributes(),
            Self::Compare { attribute, .. } => vec![attribute],
            Self::Bind(_) | Self::Modify(_) | Self::Add | Self::Delete => Vec::new(),
        }
    }
}

/// Where the entries of a server itself are. The empty name is the root DSE.
const OWN: [&str; 4] = ["", "cn=config", "cn=monitor", "cn=schema"];
/// Attributes that a search asks for.
const ATTRIBUTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(line: &str) -> Result<Fate, &'static str> {
        Fate::of(&Line::parse(format!("[] {line}").as_bytes()).unwrap())
    }

    fn search(base: &str, filter: &str) -> Fate {
        fate(&format!(r#"SEARCH base="{base}" scope="sub" filter="{filter}""#)).unwrap()
    }

    #[test]
    fn values_make_no_shape() {
        let one = search("uid=anna,ou=people,dc=x", "(&(uid=anna)(mail=an*x*com)(!(n>=5)))");
        let other = search("UID=b+CN=c,OU=staff,DC=y", "(&(uid=bob)(mail=bo*y*org)(!(n>=99)))");
        assert_ne!(one, other, "an RDN of two types");
        let other = search("UID=b,OU=staff,DC=y", "(&(uid=bob)(mail=bo*y*org)(!(n>=99)))");
        assert_eq!(one, other);
        let text = format!("{one:?}");
        assert!(!text.contains("anna") && !text.contains("people"), "{text}");
        assert_ne!(one, search("ou=people,dc=x", "(&(uid=anna)(mail=an*x*com)(!(n>=5)))"));
        assert_ne!(search("dc=x", "(cn=abc*)"), search("dc=x", "(cn=ab*)"));
        assert_ne!(search("dc=x", "(objectClass=person)"), search("dc=x", "(objectClass=group)"));
        assert_eq!(search("dc=x", "(m:1.2.3:=a)"), search("dc=x", "(m:1.2.3:=b)"));
    }

    #[test]
    fn entries_of_the_server_keep_their_names() {
        for name in ["", "cn=schema", "cn=process,cn=monitor"] {
            let Fate::Shape(Shape::Search(found)) = search(name, "(objectClass=*)") else {
                panic!("{name}")
            };
            assert_eq!(found.base, NameShape::Own(name.to_owned()));
        }
    }

    #[test]
    fn what_is_not_repeated_is_told() {
        for (line, want) in [
            (r#"MODIFYDN dn="cn=x""#, "renames"),
            (r#"EXTENDED oid="1.2""#, "extended operations"),
            (r#"BIND dn="" authType="SCRAM-SHA-256""#, "binds with SASL"),
            (r#"SEARCH cut"#, "requests that were too long to be logged"),
            ("FROB", "operations of a kind that this release does not know"),
        ] {
            assert_eq!(fate(line), Ok(Fate::LeftOut(want)), "{line}");
        }
        assert_eq!(fate("CONNECT"), Ok(Fate::Passed));
        assert_eq!(fate(r#"COMPARE dn="cn=x""#), Err("it names no attribute"));
        assert_eq!(
            fate(r#"SEARCH base="cn=x" scope="sub" filter="(cn=""#),
            Err("its filter is none")
        );
        // A hidden value is one like others, which nobody can draw.
        let Fate::Shape(shape) = search("dc=x", "(userPassword={hidden})") else { panic!() };
        assert_eq!(shape.attributes(), ["userPassword"]);
    }
}
