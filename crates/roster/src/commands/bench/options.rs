//! What jobs of several kinds are told, and mixes too: each part of a command line once.

use clap::Args;

use super::common::PeopleOptions;
use crate::bench::answer::Expected;
use crate::bench::jobs::{MODIFIED, MODIFIED_VALUE, Maker, Searched};
use crate::bench::keys::Order;
use crate::bench::request::ScopeName;

/// What is searched for.
#[derive(Args, Debug)]
pub(super) struct SearchOptions {
    /// The base entry of searches; may contain values. The suffix by default
    #[arg(short, long, value_name = "DN")]
    base: Option<String>,

    /// How far to search
    #[arg(short, long, value_enum, default_value_t = ScopeName::Sub)]
    scope: ScopeName,

    /// The filter; may contain values. (uid=user.[1-100000]) by default
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
            expect: Expected::Entries(1, 1),
        }
    }
}

/// What a search is to bring.
#[derive(Args, Debug)]
pub(super) struct FoundOptions {
    /// How many entries each search must find: 1, 0-5, 3- (3 or more), or 'same': as many as the
    /// first response to the same search, for the first 1048576 different searches (of each agent).
    /// Nothing may write then
    #[arg(long, value_name = "COUNT", default_value = "1-", value_parser = expected)]
    expect: Expected,

    /// The requested attributes; all user attributes by default
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
    /// The entries that are bound as, compared or modified; may contain values.
    /// uid=user.[1-100000],ou=people,dc=example,dc=com by default
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
    /// The password of binds; may contain values
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
    pub(super) attribute: String,

    /// Its new value; may contain values
    #[arg(long, value_name = "VALUE", default_value = MODIFIED_VALUE)]
    pub(super) value: String,
}

/// What is added.
#[derive(Args, Debug)]
pub(super) struct AddOptions {
    /// Entries of the template that adds skip, usually because they exist; 1000000, or --entries if
    /// that is more
    #[arg(long, value_name = "N")]
    first: Option<u64>,

    /// Delete the added entries at the end
    #[arg(long)]
    pub(super) remove: bool,
}

impl AddOptions {
    pub(super) fn first(&self, people: &PeopleOptions) -> u64 {
        self.first.unwrap_or_else(|| people.first())
    }
}

/// `3`, `0-5`, `3-` or `same`.
fn expected(text: &str) -> Result<Expected, String> {
    let number = |text: &str| {
        text.parse::<u64>().map_err(|_| format!("'{text}' is neither a number nor 'same'"))
    };
    match text.split_once('-') {
        None if text == "same" => Ok(Expected::Same),
        None => number(text).map(|count| Expected::Entries(count, count)),
        Some((low, "")) => Ok(Expected::Entries(number(low)?, u64::MAX)),
        Some((low, high)) => Ok(Expected::Entries(number(low)?, number(high)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_ranges_or_the_same() {
        assert_eq!(expected("3"), Ok(Expected::Entries(3, 3)));
        assert_eq!(expected("0-5"), Ok(Expected::Entries(0, 5)));
        assert_eq!(expected("3-"), Ok(Expected::Entries(3, u64::MAX)));
        assert_eq!(expected("same"), Ok(Expected::Same));
        assert_eq!(expected("x"), Err("'x' is neither a number nor 'same'".to_owned()));
    }

    #[test]
    fn the_help_names_the_limit() {
        let limit = crate::bench::same::REQUESTS_REMEMBERED_MAX.to_string();
        let command = FoundOptions::augment_args(clap::Command::new("x"));
        let expect = command.get_arguments().find(|argument| argument.get_id() == "expect");
        let help = expect.and_then(clap::Arg::get_help).map(ToString::to_string).unwrap();
        assert!(help.contains(&limit), "{help}");
    }
}
