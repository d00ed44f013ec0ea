//! What jobs of several kinds are told, and mixes too: each part of a command line once.

use clap::Args;

use super::common::PeopleOptions;
use crate::bench::jobs::{MODIFIED, MODIFIED_VALUE, Maker, Searched};
use crate::bench::keys::Order;
use crate::bench::request::ScopeName;

/// What is searched for.
#[derive(Args, Debug)]
pub(super) struct SearchOptions {
    /// The base entry of searches; may hold values. The suffix without
    #[arg(short, long, value_name = "DN")]
    base: Option<String>,

    /// How far to search
    #[arg(short, long, value_enum, default_value_t = ScopeName::Sub)]
    scope: ScopeName,

    /// The filter; may hold values. (uid=user.[1-100000]) without
    #[arg(short, long, value_name = "FILTER")]
    filter: Option<String>,
}

impl SearchOptions {
    /// A search that finds one entry.
    pub(super) fn one(&self, people: &PeopleOptions) -> Searched {
        let anybody = || format!("(uid=user.[1-{}])", people.entries);
        Searched {
            base: self.base.clone().unwrap_or_else(|| people.suffix.clone()),
            scope: self.scope,
            filter: self.filter.clone().unwrap_or_else(anybody),
            attributes: Vec::new(),
            expect: (1, 1),
        }
    }
}

/// What a search is to bring.
#[derive(Args, Debug)]
pub(super) struct FoundOptions {
    /// How many entries each search must find: 1, 0-5 or 3- (3 or more)
    #[arg(long, value_name = "COUNT", default_value = "1-", value_parser = count)]
    expect: (u64, u64),

    /// The attributes that searches ask for; all user attributes without
    #[arg(value_name = "ATTRIBUTE")]
    attributes: Vec<String>,
}

impl FoundOptions {
    pub(super) fn of(&self, searched: Searched) -> Searched {
        Searched { attributes: self.attributes.clone(), expect: self.expect, ..searched }
    }
}

/// The entries that requests name.
#[derive(Args, Debug)]
pub(super) struct TargetOptions {
    /// The entries that are bound as, compared or modified; may hold values.
    /// uid=user.[1-100000],ou=people,dc=example,dc=com without
    #[arg(long, value_name = "DN")]
    dn: Option<String>,
}

impl TargetOptions {
    pub(super) fn dn(&self, people: &PeopleOptions) -> String {
        self.dn.clone().unwrap_or_else(|| people.everybody())
    }
}

/// How requests differ from each other.
#[derive(Args, Debug)]
pub(super) struct OrderOptions {
    /// How values follow each other
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
}

impl OrderOptions {
    pub(super) fn maker(&self, people: &PeopleOptions) -> Maker {
        people.maker(self.order)
    }
}

/// What binds prove who they are with.
#[derive(Args, Debug)]
pub(super) struct PasswordOptions {
    /// The password of binds; may hold values
    // Another id than that of the login's own password.
    #[arg(
        id = "entry_password",
        long = "password",
        value_name = "PASSWORD",
        default_value = "password"
    )]
    pub(super) password: String,
}

/// What is modified.
#[derive(Args, Debug)]
pub(super) struct ModifyOptions {
    /// The attribute to replace
    #[arg(short, long, value_name = "ATTRIBUTE", default_value = MODIFIED)]
    attribute: String,

    /// Its new value; may hold values
    #[arg(long, value_name = "VALUE", default_value = MODIFIED_VALUE)]
    value: String,
}

impl ModifyOptions {
    pub(super) fn pair(&self) -> (&str, &str) {
        (&self.attribute, &self.value)
    }
}

/// What is added.
#[derive(Args, Debug)]
pub(super) struct AddOptions {
    /// Entries of the template that adds pass over, usually because they exist; 1000000, or
    /// --entries if that is more
    #[arg(long, value_name = "N")]
    first: Option<u64>,

    /// Delete at the end what was added
    #[arg(long)]
    pub(super) remove: bool,
}

impl AddOptions {
    pub(super) fn first(&self, people: &PeopleOptions) -> u64 {
        self.first.unwrap_or_else(|| people.first())
    }
}

/// `3`, `0-5` or `3-`.
fn count(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    match text.split_once('-') {
        None => number(text).map(|count| (count, count)),
        Some((low, "")) => Ok((number(low)?, u64::MAX)),
        Some((low, high)) => Ok((number(low)?, number(high)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_ranges() {
        assert_eq!(count("3"), Ok((3, 3)));
        assert_eq!(count("0-5"), Ok((0, 5)));
        assert_eq!(count("3-"), Ok((3, u64::MAX)));
        assert_eq!(count("x"), Err("'x' is no number".to_owned()));
    }
}
