//! Which changes a filter can be true of, by their numbers and times.
//!
//! Invariant: may hold too many, never too few: each change is tested.

use environment::Timestamp;
use ldap::filter::{AvaFilter, Filter};
use schema::Schema;

use super::place::number;
use crate::password_policy::attributes::time;

/// Numbers and times of changes, both ends included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Not decided before this.
    pub(crate) since: Timestamp,
}

impl Range {
    const ALL: Self = Self { first: 0, last: u64::MAX, since: Timestamp(0) };

    /// The changes that `filter` can be true of.
    pub(crate) fn of(filter: &Filter<'_>, schema: &Schema) -> Self {
        match filter {
            Filter::And(parts) => {
                parts.iter().fold(Self::ALL, |all, part| all.and(Self::of(part, schema)))
            }
            Filter::Or(parts) => {
                let ranges = parts.iter().map(|part| Self::of(part, schema));
                ranges.reduce(Self::or).unwrap_or(Self::ALL)
            }
            Filter::Equality(ava) => match numbered(ava, schema) {
                Some(number) => Self { first: number, last: number, ..Self::ALL },
                None => Self::ALL,
            },
            Filter::GreaterOrEqual(ava) => match numbered(ava, schema) {
                Some(first) => Self { first, ..Self::ALL },
                None => Self { since: timed(ava, schema).unwrap_or(Timestamp(0)), ..Self::ALL },
            },
            Filter::LessOrEqual(ava) => match numbered(ava, schema) {
                Some(last) => Self { last, ..Self::ALL },
                None => Self::ALL,
            },
            Filter::Not(_)
            | Filter::Substrings(_)
            | Filter::Present(_)
            | Filter::Approx(_)
            | Filter::Extensible(_) => Self::ALL,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
            since: self.since.max(other.since),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            since: self.since.min(other.since),
        }
    }
}

/// The number that a part of a filter asserts, if it is about numbers.
fn numbered(ava: &AvaFilter<'_>, schema: &Schema) -> Option<u64> {
    is(ava, "changeNumber", schema).then(|| number(&ava.value))?
}

/// The time that a part of a filter asserts, if it is about times, as `YYYYMMDDHHMMSSZ`.
fn timed(ava: &AvaFilter<'_>, schema: &Schema) -> Option<Timestamp> {
    let text = std::str::from_utf8(&ava.value).ok()?;
    is(ava, "changeTime", schema).then(|| time(text))?
}

fn is(ava: &AvaFilter<'_>, name: &str, schema: &Schema) -> bool {
    match (schema.describe(ava.description), schema.describe(name)) {
        (Ok(asked), Ok(named)) => asked == named,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_of_a_filter_are_found() {
        let schema = Schema::builtin();
        let range = |text: &str| {
            let Range { first, last, since } = Range::of(&Filter::parse(text).unwrap(), &schema);
            (first, last, since.0)
        };
        let all = (0, u64::MAX, 0);
        for (text, expected) in [
            ("(objectClass=*)", all),
            ("(changeNumber>=5)", (5, u64::MAX, 0)),
            ("(&(changeNumber>=5)(changeNumber<=9)(targetDN=dc=x))", (5, 9, 0)),
            ("(|(changeNumber=5)(changeNumber=9))", (5, 9, 0)),
            ("(|(changeNumber=5)(cn=x))", all),
            ("(!(changeNumber=5))", all),
            ("(changeNumber=x)", all),
            ("(changeTime>=19700101000007Z)", (0, u64::MAX, 7_000_000)),
            ("(&(changeTime>=19700101000007Z)(changeNumber<=3))", (0, 3, 7_000_000)),
            ("(|)", all),
            ("(&)", all),
        ] {
            assert_eq!(range(text), expected, "{text}");
        }
    }
}
