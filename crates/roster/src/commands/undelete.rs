//! `roster undelete`: brings back what was deleted.

use std::collections::BTreeMap;

use clap::Args;
use client::{Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::{
    AddRequest, AttributesBuf, Control, ControlsBuf, Modification, ModificationsBuf,
    ModifyOperation, ModifyRequest, PartialAttribute, Request, Scope, ValuesBuf,
};
use ldap::result::ResultCode;

use crate::changes::{self, Start, ToldChange};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Bring back an entry or a subtree that was deleted, with its entryUUID, its password and the
/// groups it was in.
///
/// Works on a running server, as its administrator, as far as changes are kept. Superiors that were
/// deleted come back first.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The entry that was deleted
    #[arg(value_name = "DN")]
    dn: String,

    /// Also what was below it when it was deleted
    #[arg(short = 'r', long)]
    recursive: bool,

    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster undelete uid=anna,ou=people,dc=example,dc=com -W
  roster undelete -r -n ou=people,dc=example,dc=com -W";

/// Lets the administrator set what only the server sets (draft-zeilenga-ldap-relax).
const RELAX: &str = "1.3.6.1.4.1.4203.666.5.12";

/// Attributes that the server makes, also under the relax rules.
const MADE: [&str; 2] = ["entryCSN", "structuralObjectClass"];

/// An entry to bring back.
struct Deleted {
    dn: String,
    change: ToldChange,
    /// What named it, in other entries: their names, attributes and values.
    references: Vec<(String, String, Vec<Vec<u8>>)>,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let all = deleted(&mut connection, &options.dn, options.recursive)?;
    if all.is_empty() {
        return Err(Failure::refused(format!(
            "no deletion of {} is kept that was not made up for",
            options.dn
        ))
        .hint("'roster history DN' shows what is kept of it; a backup may have it"));
    }
    for one in &all {
        let Deleted { dn, change, references } = one;
        let by = change.by.as_deref().unwrap_or("the server");
        output::line(format_args!("{dn}: deleted at {} by {by}", change.time))?;
        if options.dry_run {
            for (holder, attribute, _) in references {
                output::line(format_args!("  {attribute} of {holder}"))?;
            }
            continue;
        }
        add(&mut connection, one)?;
    }
    if options.dry_run {
        return Ok(Exit::Done);
    }
    // Not before all entries are there: they may name each other.
    let mut missing = 0;
    for (holder, attribute, values) in all.iter().flat_map(|one| &one.references) {
        if let Some(why) = refer(&mut connection, holder, attribute, values)? {
            missing += 1;
            output::note(format_args!("roster: {attribute} of {holder}: {why}"));
        }
    }
    let count = all.len();
    output::line(format_args!("{count} entries are back"))?;
    Ok(if missing > 0 { Exit::Refused } else { Exit::Done })
}

/// What was deleted last at this name, and below it, and is not there again; superiors first.
fn deleted(
    connection: &mut Connection,
    dn: &str,
    recursive: bool,
) -> Result<Vec<Deleted>, Failure> {
    let top = key(dn)?;
    let mut last: BTreeMap<Vec<String>, Deleted> = BTreeMap::new();
    let mut current = None;
    changes::read(connection, Start::Number(0), None, &mut |change| {
        let own = key(&change.dn)?;
        let is_meant = own == top || (recursive && own.starts_with(&top));
        match &*change.kind {
            "delete" if is_meant => {
                current = Some((change.number, own.clone()));
                let dn = change.dn.clone();
                last.insert(own, Deleted { dn, change, references: Vec::new() });
            }
            // It was brought back, or another took its place.
            "add" if is_meant => {
                last.remove(&own);
            }
            // What the same change did to others: their references to it ended.
            "modify" => {
                let of_delete = current.as_ref().filter(|(number, _)| *number == change.number);
                let Some(one) = of_delete.and_then(|(_, key)| last.get_mut(key)) else {
                    return Ok(());
                };
                for delta in change.deltas().into_iter().filter(|delta| !delta.adds) {
                    if !MADE_BY_CHANGE.iter().any(|name| delta.attribute.eq_ignore_ascii_case(name))
                    {
                        let (holder, name) = (change.dn.clone(), delta.attribute);
                        one.references.push((holder, name, delta.values));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    let mut all: Vec<Deleted> = last.into_values().collect();
    let mut there = Vec::new();
    for one in &all {
        there.push(is_there(connection, &one.dn)?);
    }
    let mut is_there = there.into_iter();
    all.retain(|_| is_there.next() != Some(true));
    // In the order of their keys, superiors come before what is below them.
    Ok(all)
}

/// Attributes that each change of an entry replaces.
const MADE_BY_CHANGE: [&str; 3] = ["modifyTimestamp", "modifiersName", "entryCSN"];

/// The RDNs of a name, the topmost first, so that what is below begins with what is above.
fn key(dn: &str) -> Result<Vec<String>, Failure> {
    let dn = ldap::dn::Dn::parse(dn)
        .map_err(|error| Failure::local(format!("'{dn}' is no name: {error}")))?;
    Ok(dn.rdns().iter().rev().map(|rdn| rdn.to_string().to_lowercase()).collect())
}

fn is_there(connection: &mut Connection, dn: &str) -> Result<bool, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["1.1"],
        ..SearchFor::below(dn, Filter::Present("objectClass"))
    };
    Ok(!connection.search(&asked)?.entries.is_empty())
}

/// Adds an entry as it was.
fn add(connection: &mut Connection, deleted: &Deleted) -> Result<(), Failure> {
    let mut values: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for (name, value) in deleted.change.values() {
        if MADE.iter().any(|made| name.eq_ignore_ascii_case(made)) {
            continue;
        }
        match values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => values.push((name, vec![value])),
        }
    }
    let bufs: Vec<(String, ValuesBuf)> = values
        .into_iter()
        .map(|(name, values)| {
            let mut buf = ValuesBuf::new();
            values.iter().for_each(|value| buf.push(value));
            (name, buf)
        })
        .collect();
    let mut attributes = AttributesBuf::new();
    for (description, values) in &bufs {
        attributes.push(PartialAttribute { description, values: values.as_ref() });
    }
    let request = Request::Add(AddRequest { name: &deleted.dn, attributes: attributes.as_ref() });
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: RELAX, critical: true, value: None });
    let outcome = connection.request_with(request, controls.as_ref())?;
    outcome.into_result("add").map_err(|error| {
        Failure::refused(format!("{}: {error}", deleted.dn))
            .hint("what is above it must be there first: undelete that, or add it")
    })
}

/// Has an entry name what is back; why not, if it does not.
fn refer(
    connection: &mut Connection,
    holder: &str,
    attribute: &str,
    values: &[Vec<u8>],
) -> Result<Option<String>, Failure> {
    let mut buf = ValuesBuf::new();
    values.iter().for_each(|value| buf.push(value));
    let mut list = ModificationsBuf::new();
    let attribute = PartialAttribute { description: attribute, values: buf.as_ref() };
    list.push(Modification { operation: ModifyOperation::Add, attribute });
    let request = Request::Modify(ModifyRequest { name: holder, changes: list.as_ref() });
    let outcome = connection.request_with(request, ldap::message::Controls::EMPTY)?;
    Ok(match outcome.code {
        ResultCode::Success | ResultCode::AttributeOrValueExists => None,
        _ => outcome.into_result("modify").err().map(|error| error.to_string()),
    })
}
