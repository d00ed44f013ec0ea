//! `roster bench`: measures a directory server, roster or another.
//!
//! One file for what all have in common, one for the jobs of one kind, one for mixes.

mod agent;
mod common;
mod jobs;
mod mixed;
mod options;
mod profile;
mod record;
mod replay;
mod report;
mod running;

use clap::{Args, Subcommand};

use crate::failure::{Exit, Failure};

/// Put load on an LDAP server and measure it.
///
/// Every connection sends a request, waits for the response, and sends the next; or, with --rate,
/// requests are sent when they are due. Every response is checked: its result code and, for a
/// search, the number of entries. A run with a wrong response ends with exit code 1. Several
/// servers (-H 'ldap://a ldap://b') share the connections.
///
/// In DNs, filters and values, brackets stand for values: [a-b] for a number from a to b (with as
/// many digits as a, if a starts with 0), [digits:n] for n digits, [a,b,c] for one of these,
/// [file:NAME] for a line of a file, and [1] for the first value of the same request; the
/// generators of -g can be used there, too. The defaults fit the directory of 'roster demo'.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Options {
    /// Show the published benchmarks that 'roster bench run' repeats
    #[arg(long)]
    list: bool,

    #[command(subcommand)]
    load: Option<Load>,
}

const EXAMPLES: &str = "\
Examples:
  roster bench search -H ldap://127.0.0.1:1389 --server-pid $(pidof roster)
  roster bench search --filter '(uid=user.[1-5000])' --expect 1 mail telephoneNumber
  roster bench auth -c 100 -t 60
  roster bench bind --dn 'uid=user.[1-100000],ou=people,dc=example,dc=com' --password password
  roster bench modify -D 'cn=Directory Manager' -w secret --attribute description
  roster bench add -D 'cn=Directory Manager' -w secret --first 200000
  roster bench mixed --mix search=65,bind=30,modify=5 -D 'cn=Directory Manager' -w secret
  roster bench replay access.log --speed 10 -H 'ldap://10.0.0.1 ldap://10.0.0.2'
  roster bench run oid-mixed -c 100 -t 60 -D 'cn=Directory Manager' -w secret --output run.json
  roster bench search -H ldap://10.0.0.1 --agents 10.0.0.2:1390,10.0.0.3:1390 --secret-file s
  roster bench search --rate 20000 --with modify -D 'cn=Directory Manager' -w secret";

#[derive(Debug, Subcommand)]
enum Load {
    Search(Box<jobs::Search>),
    Auth(Box<jobs::Auth>),
    Bind(Box<jobs::Bind>),
    Compare(Box<jobs::Compare>),
    Modify(Box<jobs::Modify>),
    ModifyDn(Box<jobs::ModifyDn>),
    Add(Box<jobs::Add>),
    Delete(Box<jobs::Delete>),
    Mixed(Box<mixed::Mixed>),
    Run(Box<profile::Run>),
    Replay(Box<replay::Replay>),
    Report(report::Options),
    Agent(agent::Agent),
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let Some(load) = options.load.as_ref().filter(|_| !options.list) else {
        return profile::list();
    };
    match load {
        Load::Search(load) => load.run(),
        Load::Auth(load) => load.run(),
        Load::Bind(load) => load.run(),
        Load::Compare(load) => load.run(),
        Load::Modify(load) => load.run(),
        Load::ModifyDn(load) => load.run(),
        Load::Add(load) => load.run(),
        Load::Delete(load) => load.run(),
        Load::Mixed(load) => load.run(),
        Load::Run(load) => load.run(),
        Load::Replay(load) => load.run(),
        Load::Report(options) => report::run(options),
        Load::Agent(agent) => agent.run(),
    }
}
