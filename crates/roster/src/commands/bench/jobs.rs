//! The jobs of one kind of operation.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::common::{Common, Defaults, PeopleOptions};
use super::options::{
    AddOptions, FoundOptions, ModifyOptions, OrderOptions, PasswordOptions, SearchOptions,
    TargetOptions,
};
use crate::bench::jobs::{self, BindOver, MODIFIED, MODIFIED_VALUE, NO_ATTRIBUTES, Searched};
use crate::bench::keys::Order;
use crate::bench::plan::{Job, People, Stream};
use crate::commands::generate::definition;
use crate::failure::{Exit, Failure};

/// Search for entries.
#[derive(Args, Debug)]
pub(super) struct Search {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    order: OrderOptions,
    #[command(flatten)]
    found: FoundOptions,

    /// Also write, on connections of their own
    #[arg(long, value_enum, value_name = "OPERATION")]
    with: Option<WriteName>,

    /// Connections that write
    #[arg(long, value_name = "N", default_value_t = 50, requires = "with",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    with_connections: u32,

    /// Writes a second; by default as fast as responses arrive
    #[arg(long, value_name = "N", requires = "with",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    with_rate: Option<u32>,

    /// For --with modify: the entries; may contain values
    #[arg(long, value_name = "DN", requires = "with")]
    with_dn: Option<String>,

    /// For --with add: entries of the template to skip, usually because they exist; 1000000, or
    /// --entries if that is more
    #[arg(long, value_name = "N", requires = "with")]
    with_first: Option<u64>,
}

impl Search {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let people = &self.common.people;
        let searched = self.found.of(self.search.one(people));
        let job = self.order.maker(people).search(&searched)?;
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
                people.maker(Order::Random).modify(&dn, MODIFIED, MODIFIED_VALUE)?
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
    #[command(flatten)]
    order: OrderOptions,
    #[command(flatten)]
    bind: PasswordOptions,

    /// Bind over the connection that searched, so that the next search is the user's; without it,
    /// over a second connection
    #[arg(long)]
    same_connection: bool,
}

impl Auth {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let people = &self.common.people;
        // The name is all that is needed.
        let attributes = vec![NO_ATTRIBUTES.to_owned()];
        let searched = Searched { attributes, ..self.search.one(people) };
        let over = if self.same_connection { BindOver::Same } else { BindOver::Second };
        let job = self.order.maker(people).auth(&searched, &self.bind.password, over)?;
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

    /// The value to compare with; may contain values
    #[arg(long, value_name = "VALUE", default_value = "[1]")]
    value: String,

    /// The expected result
    #[arg(long, value_name = "ANSWER", default_value_t = true, action = clap::ArgAction::Set)]
    expect: bool,
}

impl Compare {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (dn, maker) = self.target.of(&self.common.people);
        let job = maker.compare(&dn, &self.attribute, &self.value, self.expect)?;
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
    #[command(flatten)]
    bind: PasswordOptions,
}

impl Bind {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (dn, maker) = self.target.of(&self.common.people);
        let job = maker.bind(&dn, &self.bind.password, false)?;
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
    #[command(flatten)]
    modify: ModifyOptions,
}

impl Modify {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let (dn, maker) = self.target.of(&self.common.people);
        let job = maker.modify(&dn, &self.modify.attribute, &self.modify.value)?;
        self.common.run_one("modify", Stream::of(job, self.common.connections_or(CONNECTIONS)))
    }
}

/// Rename entries, each once; the run ends when all values have been used.
#[derive(Args, Debug)]
pub(super) struct ModifyDn {
    #[command(flatten)]
    common: Common,

    /// The entries; [a-b] counts up from a. By default those that 'roster bench add' adds
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

    /// The template; examples/people.template by default
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,

    /// Give a constant of the template another value
    #[arg(long = "define", value_name = "NAME=VALUE", value_parser = definition)]
    definitions: Vec<(String, String)>,

    #[command(flatten)]
    add: AddOptions,
}

impl Add {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let first = self.add.first(&self.common.people);
        let people = match &self.template {
            None if self.definitions.is_empty() => jobs::people(&self.common.people.suffix, first),
            None => shipped(&self.definitions, first),
            Some(path) => template(path, &self.definitions, first)?,
        };
        // A template that cannot be used is refused before anything is connected.
        people.template()?;
        let connections = self.common.connections_or(CONNECTIONS);
        let stream = Stream::of(jobs::add(people), connections);
        self.common.run_one("add", Stream { removes: self.add.remove, ..stream })
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

/// Delete entries, each once; the run ends when all values have been used.
#[derive(Args, Debug)]
pub(super) struct Delete {
    #[command(flatten)]
    common: Common,

    /// The entries; [a-b] counts up from a. By default those that 'roster bench add' adds
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

/// The entries that an operation names, one after the other.
#[derive(Args, Debug)]
struct Target {
    #[command(flatten)]
    entries: TargetOptions,
    #[command(flatten)]
    order: OrderOptions,
}

impl Target {
    fn of(&self, people: &PeopleOptions) -> (String, jobs::Maker) {
        (self.entries.dn(people), self.order.maker(people))
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

/// Connections unless told otherwise.
pub(super) const CONNECTIONS: u32 = 50;
