//! The jobs of one kind of operation.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::common::{Common, Defaults, PeopleOptions};
use crate::bench::jobs::{self, BindOver, MODIFIED, MODIFIED_VALUE, NO_ATTRIBUTES, Searched};
use crate::bench::keys::Order;
use crate::bench::plan::{Job, People, Stream};
use crate::bench::request::ScopeName;
use crate::commands::generate::definition;
use crate::failure::{Exit, Failure};

/// What is searched for.
#[derive(Args, Debug)]
struct SearchOptions {
    /// The base entry; may hold values. The suffix without
    #[arg(short, long, value_name = "DN")]
    base: Option<String>,

    /// How far to search
    #[arg(short, long, value_enum, default_value_t = ScopeName::Sub)]
    scope: ScopeName,

    /// The filter; may hold values. (uid=user.[1-100000]) without
    #[arg(short, long, value_name = "FILTER")]
    filter: Option<String>,

    /// How values follow each other
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
}

impl SearchOptions {
    fn searched(&self, people: &PeopleOptions, expect: (u64, u64)) -> Searched {
        let anybody = || format!("(uid=user.[1-{}])", people.entries);
        Searched {
            base: self.base.clone().unwrap_or_else(|| people.suffix.clone()),
            scope: self.scope,
            filter: self.filter.clone().unwrap_or_else(anybody),
            attributes: Vec::new(),
            expect,
        }
    }
}

/// Search for entries.
#[derive(Args, Debug)]
pub(super) struct Search {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    search: SearchOptions,

    /// How many entries each search must find: 1, 0-5 or 3- (3 or more)
    #[arg(long, value_name = "COUNT", default_value = "1-", value_parser = count)]
    expect: (u64, u64),

    /// At the same time write, on connections of their own
    #[arg(long, value_enum, value_name = "OPERATION")]
    with: Option<WriteName>,

    /// Connections that write
    #[arg(long, value_name = "N", default_value_t = 50, requires = "with",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    with_connections: u32,

    /// Write so many times a second; without it, as fast as answers come
    #[arg(long, value_name = "N", requires = "with",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    with_rate: Option<u32>,

    /// For --with modify: the entries; may hold values
    #[arg(long, value_name = "DN", requires = "with")]
    with_dn: Option<String>,

    /// For --with add: entries of the template to pass over, usually because they exist; 1000000,
    /// or --entries if that is more
    #[arg(long, value_name = "N", requires = "with")]
    with_first: Option<u64>,

    /// The attributes to ask for; all user attributes without
    #[arg(value_name = "ATTRIBUTE")]
    attributes: Vec<String>,
}

impl Search {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let people = &self.common.people;
        let mut searched = self.search.searched(people, self.expect);
        searched.attributes.clone_from(&self.attributes);
        let job = people.maker(self.search.order).search(&searched)?;
        let connections = self.common.connections_or(CONNECTIONS);
        let mut streams = vec![self.common.applied(Stream::of(job, connections), connections)];
        streams.extend(self.beside()?);
        self.common.run(&self.common.plan("search", streams, Defaults::default()))
    }

    /// The writes that go on at the same time.
    fn beside(&self) -> Result<Option<Stream>, Failure> {
        let people = &self.common.people;
        let job = match self.with {
            None => return Ok(None),
            Some(WriteName::Modify) => {
                let dn = self.with_dn.clone().unwrap_or_else(|| people.everybody());
                people.maker(Order::Random).modify(&dn, (MODIFIED, MODIFIED_VALUE))?
            }
            Some(WriteName::Add) => {
                let first = self.with_first.unwrap_or_else(|| people.first());
                jobs::add(jobs::people(&people.suffix, first))
            }
        };
        let rate = self.with_rate.map(f64::from);
        Ok(Some(Stream { rate, ..Stream::of(job, self.with_connections as usize) }))
    }
}

/// Search for an entry, then bind as it.
///
/// One operation is both of them: latencies and throughput are given for searches, for binds and
/// for the two together ('cycle').
#[derive(Args, Debug)]
pub(super) struct Auth {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    search: SearchOptions,

    /// The password; may hold values
    #[arg(
        id = "entry_password",
        long = "password",
        value_name = "PASSWORD",
        default_value = "password"
    )]
    password: String,

    /// Bind over the connection that searched, so that the next search is the user's; without it,
    /// over a second connection
    #[arg(long)]
    same_connection: bool,
}

impl Auth {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let people = &self.common.people;
        let mut searched = self.search.searched(people, (1, 1));
        // The name is all that is needed.
        searched.attributes = vec![NO_ATTRIBUTES.to_owned()];
        let over = if self.same_connection { BindOver::Same } else { BindOver::Second };
        let job = people.maker(self.search.order).auth(&searched, &self.password, over)?;
        self.common.run_one("auth", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// Compare a value with those of an entry.
#[derive(Args, Debug)]
pub(super) struct Compare {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    target: Target,

    /// The attribute to compare
    #[arg(short, long, value_name = "ATTRIBUTE", default_value = "employeeNumber")]
    attribute: String,

    /// The value to compare with; may hold values
    #[arg(long, value_name = "VALUE", default_value = "[1]")]
    value: String,

    /// The right answer
    #[arg(long, value_name = "ANSWER", default_value_t = true, action = clap::ArgAction::Set)]
    expect: bool,
}

impl Compare {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (dn, maker) = self.target.of(&self.common.people);
        let job = maker.compare(&dn, (&self.attribute, &self.value), self.expect)?;
        self.common.run_one("compare", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// Bind with names and passwords of entries.
#[derive(Args, Debug)]
pub(super) struct Bind {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    target: Target,

    /// The password; may hold values
    #[arg(
        id = "entry_password",
        long = "password",
        value_name = "PASSWORD",
        default_value = "password"
    )]
    password: String,
}

impl Bind {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (dn, maker) = self.target.of(&self.common.people);
        let job = maker.bind(&dn, &self.password, false)?;
        self.common.run_one("bind", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// Replace an attribute of an entry by one value.
#[derive(Args, Debug)]
pub(super) struct Modify {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    target: Target,

    /// The attribute to replace
    #[arg(short, long, value_name = "ATTRIBUTE", default_value = MODIFIED)]
    attribute: String,

    /// Its new value; may hold values
    #[arg(long, value_name = "VALUE", default_value = MODIFIED_VALUE)]
    value: String,
}

impl Modify {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (dn, maker) = self.target.of(&self.common.people);
        let job = maker.modify(&dn, (&self.attribute, &self.value))?;
        self.common.run_one("modify", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// Rename entries, each once; the run ends when all values were used.
#[derive(Args, Debug)]
pub(super) struct ModifyDn {
    #[command(flatten)]
    common: Common,

    /// The entries; [a-b] counts up from a. Those that 'roster bench add' adds without
    #[arg(long, value_name = "DN")]
    dn: Option<String>,

    /// Their new RDN
    #[arg(long, value_name = "RDN", default_value = "uid=renamed.[1]")]
    new_rdn: String,
}

impl ModifyDn {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let people = &self.common.people;
        let dn = self.dn.clone().unwrap_or_else(|| added(people));
        let job = people.maker(Order::Once).modify_dn(&dn, &self.new_rdn)?;
        self.common.run_one("modify-dn", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// Add entries made from a template, each once.
#[derive(Args, Debug)]
pub(super) struct Add {
    #[command(flatten)]
    common: Common,

    /// The template; without it that of examples/people.template
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,

    /// Give a constant of the template another value
    #[arg(long = "define", value_name = "NAME=VALUE", value_parser = definition)]
    definitions: Vec<(String, String)>,

    /// Entries of the template to pass over, usually because they exist; 1000000, or --entries if
    /// that is more
    #[arg(long, value_name = "N")]
    first: Option<u64>,

    /// Delete at the end what was added
    #[arg(long)]
    remove: bool,
}

impl Add {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let first = self.first.unwrap_or_else(|| self.common.people.first());
        let people = match &self.template {
            None if self.definitions.is_empty() => jobs::people(&self.common.people.suffix, first),
            None => shipped(&self.definitions, first),
            Some(path) => template(path, &self.definitions, first)?,
        };
        // A template that cannot be used is refused before anything is connected.
        people.template()?;
        let connections = self.common.connections_or(CONNECTIONS);
        let stream = Stream::of(jobs::add(people), connections);
        self.common.run_one("add", Stream { removes: self.remove, ..stream })
    }
}

fn shipped(definitions: &[(String, String)], first: u64) -> People {
    let text = crate::template::PEOPLE.to_owned();
    People::new("people.template".to_owned(), text, None, definitions.to_vec(), first)
}

/// The template in a file; its word files are beside it.
fn template(path: &Path, definitions: &[(String, String)], first: u64) -> Result<People, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::path("read", path, &error))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = path.display().to_string();
    Ok(People::new(name, text, Some(folder), definitions.to_vec(), first))
}

/// Delete entries, each once; the run ends when all values were used.
#[derive(Args, Debug)]
pub(super) struct Delete {
    #[command(flatten)]
    common: Common,

    /// The entries; [a-b] counts up from a. Those that 'roster bench add' adds without
    #[arg(long, value_name = "DN")]
    dn: Option<String>,
}

impl Delete {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let people = &self.common.people;
        let dn = self.dn.clone().unwrap_or_else(|| added(people));
        let job: Job = people.maker(Order::Once).delete(&dn)?;
        self.common.run_one("delete", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// The entries an operation names.
#[derive(Args, Debug)]
struct Target {
    /// The entry; may hold values. uid=user.[1-100000],ou=people,dc=example,dc=com without
    #[arg(long, value_name = "DN")]
    dn: Option<String>,

    /// How values follow each other
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
}

impl Target {
    fn of(&self, people: &PeopleOptions) -> (String, jobs::Maker) {
        let dn = self.dn.clone().unwrap_or_else(|| people.everybody());
        (dn, people.maker(self.order))
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WriteName {
    /// As 'roster bench modify' does
    Modify,
    /// As 'roster bench add' does
    Add,
}

/// What a run of add adds.
fn added(people: &PeopleOptions) -> String {
    let first = people.first();
    format!("uid=user.[{}-{}],ou=people,{}", first + 1, 2 * first, people.suffix)
}

/// `3`, `0-5` or `3-`.
pub(super) fn count(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    match text.split_once('-') {
        None => number(text).map(|count| (count, count)),
        Some((low, "")) => Ok((number(low)?, u64::MAX)),
        Some((low, high)) => Ok((number(low)?, number(high)?)),
    }
}

/// Connections unless told otherwise.
pub(super) const CONNECTIONS: u32 = 50;

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
