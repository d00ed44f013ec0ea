//! `roster explain`: how a running server answers a search.

use clap::Args;
use client::{FoundEntry, SearchAnswer, SearchFor};
use directory::explanation::{ATTRIBUTE, Report};
use ldap::ber::{Tag, Writer};
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::filter::Filter;
use ldap::message::{Control, ControlsBuf, DerefAliases, Scope};

use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::explain::Text;
use crate::failure::{Exit, Failure};
use crate::output;

/// Explain how a search is answered: which indexes, how many candidates, what takes the time.
///
/// Works on a running server, as its administrator; no entry is returned. For each part of the
/// filter, the tree shows the index, the number of keys looked up, the candidates, whether they are
/// exact, in which order the parts were read and how long that took; and what would make it faster.
/// If a search finds nothing, it says which part of the filter is the reason.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Where the search begins
    #[arg(short, long, value_name = "DN", env = "LDAPBASE", hide_env_values = true)]
    base: String,

    /// The scope: base, one, sub or subordinate
    #[arg(short, long, value_name = "SCOPE", default_value = "sub", value_parser = scope)]
    scope: Scope,

    /// The sort key, with `-` before the attribute for reverse order; repeat it for further keys
    #[arg(short = 'S', long, value_name = "ATTR[:RULE]", allow_hyphen_values = true)]
    sort: Vec<String>,

    /// When aliases are dereferenced: never, search, find or always
    #[arg(short = 'a', long, value_name = "WHEN", default_value = "never", value_parser = deref)]
    deref: DerefAliases,

    /// The size limit
    #[arg(short = 'z', long, value_name = "ENTRIES", default_value_t = 0)]
    size_limit: u32,

    /// An extension: subentries (only these) or subentries=false (none)
    #[arg(short = 'E', long, value_name = "EXTENSION", value_parser = extension)]
    extension: Option<bool>,

    /// Print the server's response as JSON
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
  roster explain -b dc=example,dc=com -W -S sn -S -givenName '(objectClass=person)'
  roster explain -b dc=example,dc=com -y secret.txt --json '(mail=*)' | jq .plan";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let filter = Filter::parse(&options.filter)
        .map_err(|error| Failure::local(format!("invalid filter: {error}")))?;
    let sort: Vec<SortKey<'_>> = options.sort.iter().map(|text| sort_key(text)).collect();
    let sort = write_sort_keys(&sort);
    let subentries = options.extension.map(visibility);
    let mut controls = ControlsBuf::new();
    if !options.sort.is_empty() {
        controls.push(Control { oid: SORT, critical: false, value: Some(&sort) });
    }
    if let Some(value) = &subentries {
        controls.push(Control { oid: SUBENTRIES, critical: true, value: Some(value) });
    }
    let asked = SearchFor {
        scope: options.scope,
        deref: options.deref,
        attributes: &[ATTRIBUTE],
        size_limit_entries: options.size_limit,
        ..SearchFor::below(&options.base, filter)
    };
    let mut explained = None;
    let mut connection = options.server.connect()?;
    let outcome = connection.search_with(&asked, controls.as_ref(), &mut |found| {
        let SearchAnswer::Entry { dn, attributes } = found else { return Ok(()) };
        let entry = FoundEntry::of(dn, attributes);
        // Who is not the administrator gets ordinary entries; one tells.
        explained = Some(entry.text(ATTRIBUTE).ok_or_else(not_administrator)?.to_owned());
        Ok::<_, Failure>(())
    })?;
    let Some(json) = &explained else {
        // A search that could not begin has its own reason.
        outcome.into_result("search")?;
        return Err(not_administrator());
    };
    let malformed =
        |error| Failure::refused(format!("the server sent a malformed explanation: {error}"));
    if options.json {
        let value: serde_json::Value = serde_json::from_str(json).map_err(malformed)?;
        output::json(&value)?;
    } else {
        let report: Report = serde_json::from_str(json).map_err(malformed)?;
        output::line(format_args!("{}", Text(&report)))?;
    }
    Ok(Exit::Done)
}

fn not_administrator() -> Failure {
    Failure::refused("the server explains searches only to its administrator")
        .hint(ADMINISTRATOR_HINT)
}

/// `[-]attribute[:rule]`, as in the `sss` extension of OpenLDAP's tools.
fn sort_key(text: &str) -> SortKey<'_> {
    let (reverse, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    match text.split_once(':') {
        Some((attribute, rule)) => SortKey { attribute, rule: Some(rule), reverse },
        None => SortKey { attribute: text, rule: None, reverse },
    }
}

/// The value of the subentries control (RFC 3672 §3).
fn visibility(only: bool) -> Vec<u8> {
    let mut value = Vec::new();
    Writer::new(&mut value).boolean(Tag::BOOLEAN, only);
    value
}

fn extension(text: &str) -> Result<bool, String> {
    Ok(match text.strip_prefix('!').unwrap_or(text) {
        "subentries" | "subentries=true" => true,
        "subentries=false" => false,
        _ => {
            return Err(
                "expected subentries or subentries=false; for a sort order see -S".to_owned()
            );
        }
    })
}

fn deref(text: &str) -> Result<DerefAliases, String> {
    Ok(match text {
        "never" => DerefAliases::Never,
        "search" => DerefAliases::InSearching,
        "find" => DerefAliases::FindingBase,
        "always" => DerefAliases::Always,
        _ => return Err("expected never, search, find or always".to_owned()),
    })
}

fn scope(text: &str) -> Result<Scope, String> {
    Ok(match text {
        "base" => Scope::Base,
        "one" => Scope::One,
        "sub" => Scope::Subtree,
        // The words of OpenDJ and of OpenLDAP.
        "subordinate" | "children" => Scope::Subordinate,
        _ => return Err("expected base, one, sub or subordinate".to_owned()),
    })
}

/// Server-side sorting (RFC 2891).
const SORT: &str = "1.2.840.113556.1.4.473";
/// Subentries (RFC 3672).
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";
