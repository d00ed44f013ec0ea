//! The shape of a filter: what it tests, without the values it tests for.
//!
//! Invariant: filters that differ in values, in the order of their parts, or in how often a part
//! with the same shape stands in them, have the same shape.

use std::fmt;

use schema::{AttributeDescription, ResolvedFilter};

/// The most items of a shape; of what has more the rest is left out.
pub(crate) const ITEM_COUNT_MAX: usize = 64;

/// A filter without its values.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Shape {
    /// Sorted, each once.
    And(Vec<Self>),
    /// Sorted, each once.
    Or(Vec<Self>),
    Not(Box<Self>),
    Item(Item),
    /// What the schema cannot answer.
    Undefined,
    /// There is more than is shown.
    More,
}

/// One test of one attribute.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Item {
    /// The attribute description; empty where a matching rule asks all attributes.
    pub(crate) attribute: String,
    pub(crate) test: Test,
}

/// How an attribute is tested.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Test {
    Present,
    Equality,
    GreaterOrEqual,
    LessOrEqual,
    Approx,
    Substrings { initial: bool, any: bool, final_: bool },
    Extensible { rule: &'static str, dn_attributes: bool },
}

impl Shape {
    /// The shape of a filter.
    pub(crate) fn of(filter: &ResolvedFilter) -> Self {
        let mut room = ITEM_COUNT_MAX;
        Self::within(filter, &mut room)
    }

    fn within(filter: &ResolvedFilter, room: &mut usize) -> Self {
        match filter {
            ResolvedFilter::And(filters) => Self::And(parts(filters, room)),
            ResolvedFilter::Or(filters) => Self::Or(parts(filters, room)),
            ResolvedFilter::Not(filter) => Self::Not(Box::new(Self::within(filter, room))),
            ResolvedFilter::Present(description) => item(description, Test::Present),
            ResolvedFilter::Equality(assertion) => item(&assertion.description, Test::Equality),
            ResolvedFilter::GreaterOrEqual(assertion) => {
                item(&assertion.description, Test::GreaterOrEqual)
            }
            ResolvedFilter::LessOrEqual(assertion) => {
                item(&assertion.description, Test::LessOrEqual)
            }
            ResolvedFilter::Approx(assertion) => item(&assertion.description, Test::Approx),
            ResolvedFilter::Substrings(assertion) => {
                let test = Test::Substrings {
                    initial: assertion.initial.is_some(),
                    any: !assertion.any.is_empty(),
                    final_: assertion.final_.is_some(),
                };
                item(&assertion.description, test)
            }
            ResolvedFilter::Extensible(assertion) => Self::Item(Item {
                attribute: assertion
                    .description
                    .as_ref()
                    .map(|description| description.text().to_owned())
                    .unwrap_or_default(),
                test: Test::Extensible {
                    rule: assertion.rule.name,
                    dn_attributes: assertion.dn_attributes,
                },
            }),
            ResolvedFilter::Undefined => Self::Undefined,
        }
    }

    /// Calls `visit` with each test.
    pub(crate) fn each_item(&self, visit: &mut dyn FnMut(&Item)) {
        match self {
            Self::And(shapes) | Self::Or(shapes) => {
                shapes.iter().for_each(|shape| shape.each_item(visit));
            }
            Self::Not(shape) => shape.each_item(visit),
            Self::Item(item) => visit(item),
            Self::Undefined | Self::More => {}
        }
    }
}

fn item(description: &AttributeDescription, test: Test) -> Shape {
    Shape::Item(Item { attribute: description.text().to_owned(), test })
}

fn parts(filters: &[ResolvedFilter], room: &mut usize) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for filter in filters {
        if *room == 0 {
            shapes.push(Shape::More);
            break;
        }
        let shape = Shape::within(filter, room);
        if !shapes.contains(&shape) {
            *room = room.saturating_sub(1);
            shapes.push(shape);
        }
    }
    shapes.sort_unstable();
    shapes
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, sign: char, shapes: &[Self]| {
            write!(f, "({sign}")?;
            shapes.iter().try_for_each(|shape| shape.fmt(f))?;
            f.write_str(")")
        };
        match self {
            Self::And(shapes) => all(f, '&', shapes),
            Self::Or(shapes) => all(f, '|', shapes),
            Self::Not(shape) => write!(f, "(!{shape})"),
            Self::Item(item) => item.fmt(f),
            Self::Undefined => f.write_str("(undefined)"),
            Self::More => f.write_str("(...)"),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attribute = &self.attribute;
        match &self.test {
            Test::Present => write!(f, "({attribute}=*)"),
            Test::Equality => write!(f, "({attribute}=?)"),
            Test::GreaterOrEqual => write!(f, "({attribute}>=?)"),
            Test::LessOrEqual => write!(f, "({attribute}<=?)"),
            Test::Approx => write!(f, "({attribute}~=?)"),
            Test::Substrings { initial, any, final_ } => {
                let piece = |is_there: bool, text| if is_there { text } else { "" };
                let (initial, any) = (piece(*initial, "?"), piece(*any, "?*"));
                write!(f, "({attribute}={initial}*{any}{})", piece(*final_, "?"))
            }
            Test::Extensible { rule, dn_attributes } => {
                let dn = if *dn_attributes { ":dn" } else { "" };
                write!(f, "({attribute}{dn}:{rule}:=?)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ldap::filter::Filter;
    use schema::Schema;

    use super::*;

    #[track_caller]
    fn check(filter: &str, want: &str) {
        let parsed = Filter::parse(filter).unwrap();
        let resolved = ResolvedFilter::resolve(&parsed, &Schema::builtin());
        assert_eq!(Shape::of(&resolved).to_string(), want);
    }

    #[test]
    fn filters_have_these_shapes() {
        check("(uid=anna)", "(uid=?)");
        check("(uid=*)", "(uid=*)");
        check("(cn=a*b*c*d)", "(cn=?*?*?)");
        check("(cn=*b*)", "(cn=*?*)");
        check("(cn=a*)", "(cn=?*)");
        check("(cn=*d)", "(cn=*?)");
        check("(uidNumber>=7)", "(uidNumber>=?)");
        check("(uidNumber<=7)", "(uidNumber<=?)");
        check("(cn~=anna)", "(cn~=?)");
        check("(cn;lang-de=x)", "(cn;lang-de=?)");
        check("(cn:dn:2.5.13.5:=x)", "(cn:dn:caseExactMatch:=?)");
        check("(noSuchType=x)", "(undefined)");
        check("(!(uid=anna))", "(!(uid=?))");
    }

    #[test]
    fn order_and_repetition_do_not_show() {
        check("(|(uid=a)(uid=b)(uid=c))", "(|(uid=?))");
        check("(&(sn=a)(cn=b))", "(&(cn=?)(sn=?))");
        check("(&(cn=b)(sn=a))", "(&(cn=?)(sn=?))");
    }

    #[test]
    fn long_filters_have_short_shapes() {
        let many: String = (0..100).map(|n| format!("(cn;x-{n}=a)")).collect();
        let parsed = format!("(|{many})");
        let resolved =
            ResolvedFilter::resolve(&Filter::parse(&parsed).unwrap(), &Schema::builtin());
        let Shape::Or(shapes) = Shape::of(&resolved) else { panic!() };
        assert_eq!(shapes.len(), ITEM_COUNT_MAX + 1);
    }
}
