//! `roster explain`: how a running server answers a search.

use clap::Args;
use client::SearchFor;
use ldap::filter::Filter;
use ldap::message::Scope;

use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::explain::Report;
use crate::failure::{Exit, Failure};
use crate::output;

/// Tell how a search is answered: which indexes, how many candidates, what takes the time.
///
/// Asks a running server as its administrator; no entry is returned. For each part of the filter
/// the tree shows the index, the keys looked up in it, the candidates it gave, whether they are
/// exact, in which order parts were read and how long that took; and what would make it faster. A
/// search that finds nothing says which part of the filter is why.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Where the search begins
    #[arg(short, long, value_name = "DN", env = "LDAPBASE", hide_env_values = true)]
    base: String,

    /// How far it goes: base, one, sub or subordinate
    #[arg(short, long, value_name = "SCOPE", default_value = "sub", value_parser = scope)]
    scope: Scope,

    /// Print what the server says as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,

    /// The filter
    #[arg(value_name = "FILTER")]
    filter: String,
}

const EXAMPLES: &str = "\
Examples:
  roster explain -b dc=example,dc=com -W '(&(l=North*)(title=*Engineer))'
  roster explain -b ou=people,dc=example,dc=com -s one -H ldapi://%2Frun%2Froster%2Fldapi '(sn=A*)'
  roster explain -b dc=example,dc=com -y secret.txt --json '(mail=*)' | jq .plan";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let filter = Filter::parse(&options.filter)
        .map_err(|error| Failure::local(format!("invalid filter: {error}")))?;
    let mut connection = options.server.connect()?;
    let found = connection.search(&SearchFor {
        scope: options.scope,
        attributes: &[EXPLAIN],
        // Who is not the administrator gets ordinary entries; one tells.
        size_limit_entries: 1,
        ..SearchFor::below(&options.base, filter)
    })?;
    let explained = found.entries.iter().find_map(|entry| entry.text(EXPLAIN));
    let Some(json) = explained else {
        // A search that could not begin has its own reason.
        if found.entries.is_empty() {
            found.outcome.into_result("search")?;
        }
        return Err(Failure::refused("the server explains searches to its administrator only")
            .hint(ADMINISTRATOR_HINT));
    };
    let malformed =
        |error| Failure::refused(format!("the server sent a malformed explanation: {error}"));
    if options.json {
        let value: serde_json::Value = serde_json::from_str(json).map_err(malformed)?;
        let pretty = serde_json::to_string_pretty(&value).map_err(malformed)?;
        output::line(format_args!("{pretty}"))?;
    } else {
        let report: Report = serde_json::from_str(json).map_err(malformed)?;
        output::line(format_args!("{report}"))?;
    }
    Ok(Exit::Done)
}

fn scope(text: &str) -> Result<Scope, String> {
    Ok(match text {
        "base" => Scope::Base,
        "one" => Scope::One,
        "sub" => Scope::Subtree,
        // The words of OpenDJ and of OpenLDAP.
        "subordinate" | "children" => Scope::Subordinate,
        _ => return Err("it is base, one, sub or subordinate".to_owned()),
    })
}

/// The attribute that has a search explained.
const EXPLAIN: &str = "roster-explain";
