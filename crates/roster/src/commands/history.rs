//! `roster history`: who changed an entry when, and how.

use clap::Args;
use client::SearchFor;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{ModifyOperation, Scope};

use crate::changes::{self, Printed as _, Start, ToldChange, ToldDelta};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Show who changed an entry, when and how, as far as changes are kept.
///
/// An entry that is there is followed by its entryUUID, so also under the names it had before. One
/// that was deleted is looked for by its name.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The entry
    #[arg(value_name = "DN")]
    dn: String,

    /// Print JSON, an object in each line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster history uid=anna,ou=people,dc=example,dc=com -W
  roster history uid=anna,ou=people,dc=example,dc=com --json -W";

/// Values that are shown of an attribute; more are counted.
const VALUES_SHOWN: usize = 10;

/// Attributes that every change sets.
const STAMPS: [&str; 3] = ["modifyTimestamp", "modifiersName", "entryCSN"];

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let equals = |description, value: &str| {
        Filter::Equality(AvaFilter { description, value: value.as_bytes().to_vec().into() })
    };
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["entryUUID"],
        ..SearchFor::below(&options.dn, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let uuid = found.entries.first().and_then(|entry| entry.text("entryUUID"));
    let mut names = vec![equals("targetDN", &options.dn)];
    names.extend(uuid.map(|uuid| equals("targetEntryUUID", uuid)));
    let filter = Filter::Or(names);
    let mut count = 0_u64;
    changes::read(&mut connection, Start::Number(0), Some(&filter), &mut |change| {
        count += 1;
        if options.json { changes::print(&change, true) } else { tell(&change) }
    })?;
    if count == 0 {
        return Err(Failure::refused(format!("no change of {} is kept", options.dn))
            .hint("changes are kept for archive.keep_days; check the name"));
    }
    Ok(Exit::Done)
}

fn tell(change: &ToldChange) -> Result<(), Failure> {
    output::line(format_args!("{}", output::within_line(&change.line())))?;
    if change.kind == "add" || change.kind == "delete" {
        return Ok(());
    }
    let deltas = change.deltas();
    for delta in deltas.iter().filter(|delta| !is_stamp(&delta.attribute)) {
        let sign = match delta.operation {
            ModifyOperation::Add | ModifyOperation::Increment => '+',
            ModifyOperation::Delete => '-',
            ModifyOperation::Replace => '=',
        };
        for value in delta.values.iter().take(VALUES_SHOWN) {
            let shown = changes::shown(value).to_string();
            line(sign, delta, &shown)?;
        }
        if delta.values.len() > VALUES_SHOWN {
            let more = delta.values.len() - VALUES_SHOWN;
            line(sign, delta, &format!("… and {more} more"))?;
        }
    }
    Ok(())
}

fn is_stamp(attribute: &str) -> bool {
    STAMPS.iter().any(|stamp| attribute.eq_ignore_ascii_case(stamp))
}

fn line(sign: char, delta: &ToldDelta, shown: &str) -> Result<(), Failure> {
    let text = format!("    {sign} {}: {shown}", delta.attribute);
    Ok(output::line(format_args!("{}", output::within_line(&text)))?)
}
