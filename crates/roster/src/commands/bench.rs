//! `roster bench`: measures a directory server, roster or another.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ldap::message::Scope;
use ldap::result::ResultCode;
use ldap::url::{LdapUrl, Scheme};

use super::generate::{definition, read};
use crate::bench::answer::{Expected, Operation};
use crate::bench::pattern::{Pattern, Ranges};
use crate::bench::process::Process;
use crate::bench::report::Summary;
use crate::bench::request::Blueprint;
use crate::bench::run::{self, Order, Outcome, Plan, Work};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::template::{PEOPLE, ParseOptions, ShippedWords, Template};

/// Put load on an LDAP server and measure it.
///
/// Every connection asks, waits for the answer, and asks again. Every answer is checked: its
/// result code and, for a search, the number of entries. A run with a wrong answer ends with exit
/// code 1.
///
/// In DNs, filters and values [a-b] stands for a number from a to b (with as many digits as a, when
/// that starts with 0), and [1] for the first number of the same request again. The defaults fit
/// the directory of 'roster demo'.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    load: Load,
}

const EXAMPLES: &str = "\
Examples:
  roster bench search -H ldap://127.0.0.1:1389 --server-pid $(pidof roster)
  roster bench search --filter '(uid=user.[1-5000])' --expect 1 mail telephoneNumber
  roster bench bind --dn 'uid=user.[1-100000],ou=people,dc=example,dc=com' --password password
  roster bench modify -D 'cn=Directory Manager' -w secret --attribute description
  roster bench add -D 'cn=Directory Manager' -w secret --first 200000
  roster bench search --rate 20000 --with modify -D 'cn=Directory Manager' -w secret";

#[derive(Debug, Subcommand)]
enum Load {
    Search(Search),
    Compare(Compare),
    Bind(Bind),
    Modify(Modify),
    ModifyDn(ModifyDn),
    Add(Add),
    Delete(Delete),
}

/// What every kind of load needs.
#[derive(Args, Debug)]
struct Common {
    /// The server; ldap:// only
    #[arg(short = 'H', long, value_name = "URI", default_value = "ldap://127.0.0.1:1389")]
    uri: String,

    /// Bind each connection as this entry first; without it connections stay anonymous
    #[arg(short = 'D', long, value_name = "DN", requires = "bind_password")]
    bind_dn: Option<String>,

    /// The password of the bind
    #[arg(short = 'w', long, value_name = "PASSWORD", requires = "bind_dn")]
    bind_password: Option<String>,

    /// How many connections
    #[arg(short, long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// How long to measure, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    duration: u32,

    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(0..=3_600))]
    warmup: u32,

    /// Unanswered requests of each connection at a time
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    outstanding: u32,

    /// Ask so many times a second, whatever the answers do, and measure each latency from the time
    /// the request was due; without it, each connection asks as soon as it is answered
    #[arg(long, value_name = "N", conflicts_with = "outstanding",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,

    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Where chance starts
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The process id of a server on this machine: report its CPU time and memory
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,

    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Search for entries.
#[derive(Args, Debug)]
struct Search {
    #[command(flatten)]
    common: Common,

    /// The base entry; may hold numbers
    #[arg(short, long, value_name = "DN", default_value = "dc=example,dc=com")]
    base: String,

    /// How far to search
    #[arg(short, long, value_enum, default_value_t = ScopeName::Sub)]
    scope: ScopeName,

    /// The filter; may hold numbers
    #[arg(short, long, value_name = "FILTER", default_value = "(uid=user.[1-100000])")]
    filter: String,

    /// How many entries each search must find: 1, 0-5 or 3- (3 or more)
    #[arg(long, value_name = "COUNT", default_value = "1-", value_parser = count)]
    expect: RangeInclusive<u64>,

    /// How numbers follow each other
    #[arg(long, value_enum, default_value_t = OrderName::Random)]
    order: OrderName,

    /// At the same time write as fast as answers come, on connections of their own
    #[arg(long, value_enum, value_name = "OPERATION")]
    with: Option<WriteName>,

    /// Connections that write
    #[arg(long, value_name = "N", default_value_t = 50, requires = "with",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    with_connections: u32,

    /// For --with modify: the entries; may hold numbers
    #[arg(long, value_name = "DN", default_value = PEOPLE_DN, requires = "with")]
    with_dn: String,

    /// For --with add: entries of the template to pass over, usually because they exist
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "with")]
    with_first: u64,

    /// The attributes to ask for; all user attributes without
    #[arg(value_name = "ATTRIBUTE")]
    attributes: Vec<String>,
}

/// Compare a value with those of an entry.
#[derive(Args, Debug)]
struct Compare {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    target: Target,

    /// The attribute to compare
    #[arg(short, long, value_name = "ATTRIBUTE", default_value = "employeeNumber")]
    attribute: String,

    /// The value to compare with; may hold numbers
    #[arg(long, value_name = "VALUE", default_value = "[1]")]
    value: String,

    /// The right answer
    #[arg(long, value_name = "ANSWER", default_value_t = true, action = clap::ArgAction::Set)]
    expect: bool,
}

/// Bind with names and passwords of entries.
#[derive(Args, Debug)]
struct Bind {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    target: Target,

    /// The password; may hold numbers
    #[arg(long, value_name = "PASSWORD", default_value = "password")]
    password: String,
}

/// Replace an attribute of an entry by one value.
#[derive(Args, Debug)]
struct Modify {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    target: Target,

    /// The attribute to replace
    #[arg(short, long, value_name = "ATTRIBUTE", default_value = MODIFIED)]
    attribute: String,

    /// Its new value; may hold numbers
    #[arg(long, value_name = "VALUE", default_value = MODIFIED_VALUE)]
    value: String,
}

/// Rename entries, each once; the run ends when all numbers were used.
#[derive(Args, Debug)]
struct ModifyDn {
    #[command(flatten)]
    common: Common,

    /// The entries; [a-b] counts up from a
    #[arg(
        long,
        value_name = "DN",
        default_value = "uid=user.[1000001-2000000],ou=people,dc=example,dc=com"
    )]
    dn: String,

    /// Their new RDN
    #[arg(long, value_name = "RDN", default_value = "uid=renamed.[1]")]
    new_rdn: String,
}

/// Add entries made from a template, each once.
#[derive(Args, Debug)]
struct Add {
    #[command(flatten)]
    common: Common,

    /// The template; without it that of examples/people.template
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,

    /// Give a constant of the template another value
    #[arg(long = "define", value_name = "NAME=VALUE", value_parser = definition)]
    definitions: Vec<(String, String)>,

    /// Entries of the template to pass over, usually because they exist
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    first: u64,
}

/// Delete entries, each once; the run ends when all numbers were used.
#[derive(Args, Debug)]
struct Delete {
    #[command(flatten)]
    common: Common,

    /// The entries; [a-b] counts up from a
    #[arg(
        long,
        value_name = "DN",
        default_value = "uid=user.[1000001-2000000],ou=people,dc=example,dc=com"
    )]
    dn: String,
}

/// The entries an operation names.
#[derive(Args, Debug)]
struct Target {
    /// The entry; may hold numbers
    #[arg(
        long,
        value_name = "DN",
        default_value = PEOPLE_DN
    )]
    dn: String,

    /// How numbers follow each other
    #[arg(long, value_enum, default_value_t = OrderName::Random)]
    order: OrderName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeName {
    /// The base entry
    Base,
    /// The entries directly below it
    One,
    /// The base entry and all below
    Sub,
    /// All below the base entry
    Children,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WriteName {
    /// As 'roster bench modify' does
    Modify,
    /// As 'roster bench add' does
    Add,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderName {
    /// Drawn
    Random,
    /// Counted up, again and again
    Sequential,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let (name, common, work, expected) = match &options.load {
        Load::Search(load) => ("search", &load.common, load.work(), load.expected()),
        Load::Compare(load) => ("compare", &load.common, load.work(), load.expected()),
        Load::Bind(load) => ("bind", &load.common, load.work(), success(Operation::Bind)),
        Load::Modify(load) => ("modify", &load.common, load.work(), success(Operation::Modify)),
        Load::ModifyDn(load) => {
            ("modify-dn", &load.common, load.work(), success(Operation::ModifyDn))
        }
        Load::Add(load) => ("add", &load.common, load.work()?, success(Operation::Add)),
        Load::Delete(load) => ("delete", &load.common, load.work(), success(Operation::Delete)),
    };
    if name == "bind" && common.outstanding > 1 {
        return Err(Failure::local("a bind must be the only outstanding request of a connection")
            .hint("leave --outstanding at 1 and use more --connections"));
    }
    let plan = common.plan(work, expected)?;
    let beside = match &options.load {
        Load::Search(load) => load.beside()?,
        _ => None,
    };
    match beside {
        None => report(common.json, &[(name, &plan, run::run(&plan)?)]),
        Some((other_name, other)) => {
            let (outcome, other_outcome) = std::thread::scope(|scope| {
                let beside = scope.spawn(|| run::run(&other));
                let outcome = run::run(&plan);
                (outcome, beside.join())
            });
            let panicked = |_| Failure::local("the writes beside the searches panicked");
            let other_outcome = other_outcome.map_err(panicked)??;
            let both = [(name, &plan, outcome?), (other_name, &other, other_outcome)];
            report(common.json, &both)
        }
    }
}

/// Prints what came of runs that went on at the same time, the first of them in front.
fn report(is_json: bool, runs: &[(&'static str, &Plan, Outcome)]) -> Result<Exit, Failure> {
    let summaries: Vec<Summary> =
        runs.iter().map(|(name, plan, outcome)| Summary::new(name, plan, outcome)).collect();
    if is_json {
        let mut values = summaries.iter().map(Summary::to_json);
        let mut value = values.next().unwrap_or_default();
        if let (Some(with), Some(object)) = (values.next(), value.as_object_mut()) {
            object.insert("with".to_owned(), with);
        }
        output::line(format_args!("{value}"))?;
    } else {
        for summary in &summaries {
            output::line(format_args!("{summary}"))?;
        }
    }
    for (_, _, outcome) in runs {
        if let Some(failure) = &outcome.failure {
            return Err(failure.clone());
        }
        if let Some(fault) = &outcome.tally.first_wrong {
            let wrong = outcome.tally.wrong;
            let reason = format!("{wrong} answers were wrong, the first one: {fault}");
            return Err(Failure::refused(reason));
        }
    }
    Ok(Exit::Done)
}

const fn success(operation: Operation) -> Expected {
    Expected::Code(operation, ResultCode::Success)
}

impl Common {
    fn plan(&self, work: Work, expected: Expected) -> Result<Plan, Failure> {
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Ok(Plan {
            address: address(&self.uri)?,
            login: self.bind_dn.clone().zip(self.bind_password.clone()),
            work,
            expected: Arc::new(expected),
            connections: self.connections as usize,
            threads: self.threads.min(self.connections) as usize,
            outstanding: self.outstanding as usize,
            rate: self.rate,
            is_told: true,
            warmup: seconds(self.warmup),
            duration: seconds(self.duration),
            seed: self.seed,
            server: self.server_pid.map(Process::with_id),
        })
    }
}

/// Host and port of an LDAP URI.
fn address(uri: &str) -> Result<(String, u16), Failure> {
    let url = LdapUrl::parse(uri)
        .map_err(|error| Failure::local(format!("'{uri}' is not an LDAP URI: {error}")))?;
    if url.scheme != Scheme::Ldap {
        return Err(Failure::local(format!("bench does not speak {}:// yet", url.scheme.name()))
            .hint("use the server's ldap:// address"));
    }
    let port = url.port_or_default();
    Ok((url.host.unwrap_or_else(|| "127.0.0.1".to_owned()), port))
}

impl Search {
    fn work(&self) -> Work {
        let mut ranges = Ranges::default();
        let scope = match self.scope {
            ScopeName::Base => Scope::Base,
            ScopeName::One => Scope::One,
            ScopeName::Sub => Scope::Subtree,
            ScopeName::Children => Scope::Subordinate,
        };
        let blueprint = Blueprint::Search {
            base: Pattern::parse(&self.base, &mut ranges),
            scope,
            filter: Pattern::parse(&self.filter, &mut ranges),
            attributes: self.attributes.clone(),
        };
        numbered(blueprint, ranges, self.order.order())
    }

    fn expected(&self) -> Expected {
        Expected::Entries(self.expect.clone())
    }

    /// The writes that go on at the same time.
    fn beside(&self) -> Result<Option<(&'static str, Plan)>, Failure> {
        let (name, work, operation) = match self.with {
            None => return Ok(None),
            Some(WriteName::Modify) => {
                let blueprint = |ranges: &mut Ranges| Blueprint::Modify {
                    dn: Pattern::parse(&self.with_dn, ranges),
                    attribute: MODIFIED.to_owned(),
                    value: Pattern::parse(MODIFIED_VALUE, ranges),
                };
                let mut ranges = Ranges::default();
                let blueprint = blueprint(&mut ranges);
                ("modify", numbered(blueprint, ranges, Order::Random), Operation::Modify)
            }
            Some(WriteName::Add) => {
                let work = entries(None, &[], self.with_first)?;
                ("add", work, Operation::Add)
            }
        };
        let common = &self.common;
        let plan = Plan {
            connections: self.with_connections as usize,
            threads: 1,
            outstanding: 1,
            rate: None,
            is_told: false,
            // What the server spends is spent for both.
            server: None,
            ..common.plan(work, success(operation))?
        };
        Ok(Some((name, plan)))
    }
}

impl Compare {
    fn work(&self) -> Work {
        let mut ranges = Ranges::default();
        let blueprint = Blueprint::Compare {
            dn: Pattern::parse(&self.target.dn, &mut ranges),
            attribute: self.attribute.clone(),
            value: Pattern::parse(&self.value, &mut ranges),
        };
        numbered(blueprint, ranges, self.target.order.order())
    }

    const fn expected(&self) -> Expected {
        let code = if self.expect { ResultCode::CompareTrue } else { ResultCode::CompareFalse };
        Expected::Code(Operation::Compare, code)
    }
}

impl Bind {
    fn work(&self) -> Work {
        let mut ranges = Ranges::default();
        let blueprint = Blueprint::Bind {
            dn: Pattern::parse(&self.target.dn, &mut ranges),
            password: Pattern::parse(&self.password, &mut ranges),
        };
        numbered(blueprint, ranges, self.target.order.order())
    }
}

impl Modify {
    fn work(&self) -> Work {
        let mut ranges = Ranges::default();
        let blueprint = Blueprint::Modify {
            dn: Pattern::parse(&self.target.dn, &mut ranges),
            attribute: self.attribute.clone(),
            value: Pattern::parse(&self.value, &mut ranges),
        };
        numbered(blueprint, ranges, self.target.order.order())
    }
}

impl ModifyDn {
    fn work(&self) -> Work {
        let mut ranges = Ranges::default();
        let blueprint = Blueprint::ModifyDn {
            dn: Pattern::parse(&self.dn, &mut ranges),
            new_rdn: Pattern::parse(&self.new_rdn, &mut ranges),
        };
        numbered(blueprint, ranges, Order::Once)
    }
}

impl Delete {
    fn work(&self) -> Work {
        let mut ranges = Ranges::default();
        let blueprint = Blueprint::Delete { dn: Pattern::parse(&self.dn, &mut ranges) };
        numbered(blueprint, ranges, Order::Once)
    }
}

impl Add {
    fn work(&self) -> Result<Work, Failure> {
        entries(self.template.as_deref(), &self.definitions, self.first)
    }
}

/// Adds of the entries of a template, or of the shipped one, but for the first so many.
fn entries(
    template: Option<&Path>,
    definitions: &[(String, String)],
    first: u64,
) -> Result<Work, Failure> {
    let options = ParseOptions { entries: Some(ENTRIES_MAX), constants: definitions.to_vec() };
    let template = match template {
        Some(path) => read(path, &options)?,
        None => Arc::new(Template::parse("people.template", PEOPLE, &ShippedWords, &options)?),
    };
    let subordinate = template.first_subordinate().unwrap_or(0);
    Ok(Work::Entries { template, first: subordinate.saturating_add(first) })
}

fn numbered(blueprint: Blueprint, ranges: Ranges, order: Order) -> Work {
    Work::Numbered { blueprint: Arc::new(blueprint), ranges, order }
}

impl OrderName {
    const fn order(self) -> Order {
        match self {
            Self::Random => Order::Random,
            Self::Sequential => Order::Sequential,
        }
    }
}

/// `3`, `0-5` or `3-`.
fn count(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    match text.split_once('-') {
        None => number(text).map(|count| count..=count),
        Some((low, "")) => Ok(number(low)?..=u64::MAX),
        Some((low, high)) => Ok(number(low)?..=number(high)?),
    }
}

/// The people of 'roster demo'.
const PEOPLE_DN: &str = "uid=user.[1-100000],ou=people,dc=example,dc=com";
/// What is modified: an attribute that no index knows.
const MODIFIED: &str = "description";
const MODIFIED_VALUE: &str = "[10000000000-99999999999]";
/// Entries an endless template is given.
const ENTRIES_MAX: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_ranges() {
        assert_eq!(count("3"), Ok(3..=3));
        assert_eq!(count("0-5"), Ok(0..=5));
        assert_eq!(count("3-"), Ok(3..=u64::MAX));
        assert_eq!(count("x"), Err("'x' is no number".to_owned()));
    }

    #[test]
    fn addresses_are_ldap_uris() {
        assert_eq!(address("ldap://h:99").unwrap(), ("h".to_owned(), 99));
        assert_eq!(address("ldap://h").unwrap(), ("h".to_owned(), 389));
        assert_eq!(address("ldap://").unwrap(), ("127.0.0.1".to_owned(), 389));
        let message = |uri| address(uri).unwrap_err().message;
        assert_eq!(message("ldaps://h"), "bench does not speak ldaps:// yet");
        assert!(message("h:99").starts_with("'h:99' is not an LDAP URI: "));
    }
}
