//! `roster undelete`: brings back what was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use client::{Connection, SearchFor};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{
    AddRequest, AttributesBuf, Control, ControlsBuf, Modification, ModificationsBuf,
    ModifyOperation, ModifyRequest, PartialAttribute, Request, Scope, ValuesBuf,
};
use ldap::result::ResultCode;

use crate::account::moment;
use crate::changes::{self, Delta, Start, ToldChange};
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

    /// Also what was below it, deleted by the same in the hour before it
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

/// What was below an entry and was deleted earlier than so long before it did not go with it.
const WITH_IT_WITHIN: Duration = Duration::from_secs(3600);

/// A value of another entry that named it.
#[derive(Debug)]
struct Reference {
    /// The other entry: its name then, and what it is found by now.
    holder: String,
    uuid: Option<String>,
    attribute: String,
    value: Vec<u8>,
}

/// An entry to bring back.
#[derive(Debug)]
struct Deleted {
    dn: String,
    change: ToldChange,
    references: Vec<Reference>,
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
    if options.dry_run {
        return tell(&all);
    }
    let (mut back, mut failed) = (Vec::new(), None);
    for one in &all {
        match add(&mut connection, one) {
            Ok(()) => {
                output::line(format_args!("{}", told(one)))?;
                back.push(one);
            }
            // What does not depend on it may come back, with the groups it was in.
            Err(failure) if failed.is_none() => failed = Some(failure),
            Err(_) => {}
        }
    }
    let referred = refer_all(&mut connection, &back);
    output::line(format_args!("{} entries are back", back.len()))?;
    match failed {
        Some(failure) => Err(failure),
        None => referred.map(|all| if all { Exit::Done } else { Exit::Refused }),
    }
}

fn told(one: &Deleted) -> String {
    let Deleted { dn, change, .. } = one;
    let by = change.by.as_deref().unwrap_or("the server");
    format!("{dn}: deleted at {} by {by}", change.time)
}

/// Says what would be done.
fn tell(all: &[Deleted]) -> Result<Exit, Failure> {
    for one in all {
        output::line(format_args!("{}", told(one)))?;
        for Reference { holder, attribute, .. } in &one.references {
            output::line(format_args!("  {attribute} of {holder}"))?;
        }
    }
    Ok(Exit::Done)
}

/// Has entries be named where they were; whether all are. Not before all are there: they may name
/// each other.
fn refer_all(connection: &mut Connection, back: &[&Deleted]) -> Result<bool, Failure> {
    let mut are_all = true;
    for one in back.iter().flat_map(|one| &one.references) {
        let why = match now(connection, one)? {
            Some(holder) => refer(connection, &holder, &one.attribute, &one.value)?,
            None => Some("is not there any more".to_owned()),
        };
        if let Some(why) = why {
            are_all = false;
            output::note(format_args!("roster: {} of {}: {why}", one.attribute, one.holder));
        }
    }
    Ok(are_all)
}

/// How the other entry is called now: another one may have its name.
fn now(connection: &mut Connection, reference: &Reference) -> Result<Option<String>, Failure> {
    let Some(uuid) = &reference.uuid else { return Ok(None) };
    let value = uuid.as_bytes().into();
    let asked = SearchFor {
        attributes: &["1.1"],
        ..SearchFor::below("", Filter::Equality(AvaFilter { description: "entryUUID", value }))
    };
    Ok(connection.search(&asked)?.entries.into_iter().next().map(|entry| entry.dn))
}

/// What was deleted last at this name, and below it with it, and is not there again; superiors
/// first.
fn deleted(
    connection: &mut Connection,
    dn: &str,
    recursive: bool,
) -> Result<Vec<Deleted>, Failure> {
    let mut found = Found::of(key(dn)?, recursive);
    changes::read(connection, Start::Number(0), None, &mut |change| found.heed(change))?;
    let mut all = Vec::new();
    for one in found.with_the_top() {
        if !is_there(connection, &one.dn)? {
            all.push(one);
        }
    }
    Ok(all)
}

/// What the changes say that were read so far.
struct Found {
    top: Vec<String>,
    recursive: bool,
    last: BTreeMap<Vec<String>, Deleted>,
    /// The number of the last change that deleted such entries.
    number: u64,
    /// Which it deleted.
    gone: Vec<Vec<String>>,
}

impl Found {
    const fn of(top: Vec<String>, recursive: bool) -> Self {
        Self { top, recursive, last: BTreeMap::new(), number: 0, gone: Vec::new() }
    }

    fn heed(&mut self, change: ToldChange) -> Result<(), Failure> {
        if change.number != self.number {
            self.number = change.number;
            self.gone.clear();
        }
        let own = key(&change.dn)?;
        let is_meant = own == self.top || (self.recursive && own.starts_with(&self.top));
        match &*change.kind {
            "delete" if is_meant => {
                self.gone.push(own.clone());
                let dn = change.dn.clone();
                self.last.insert(own, Deleted { dn, change, references: Vec::new() });
            }
            // It was brought back, or another took its place.
            "add" if is_meant => {
                self.last.remove(&own);
            }
            // What the same change did to others: their references to it ended.
            "modify" if !self.gone.is_empty() => self.heed_references(&change),
            _ => {}
        }
        Ok(())
    }

    /// Takes values that named what the same change deleted: others went for other reasons.
    fn heed_references(&mut self, change: &ToldChange) {
        let is_removal = |one: &Delta| one.operation == ModifyOperation::Delete;
        for delta in change.deltas().into_iter().filter(is_removal) {
            for value in delta.values {
                let name = std::str::from_utf8(&value).ok().and_then(|text| key(text).ok());
                let Some(name) = name.filter(|name| self.gone.contains(name)) else { continue };
                let Some(one) = self.last.get_mut(&name) else { continue };
                one.references.push(Reference {
                    holder: change.dn.clone(),
                    uuid: change.uuid.clone(),
                    attribute: delta.attribute.clone(),
                    value,
                });
            }
        }
    }

    /// In the order of their keys, superiors come before what is below them.
    fn with_the_top(self) -> Vec<Deleted> {
        let Self { top, last, .. } = self;
        let Some(of_top) = last.get(&top).map(|one| one.change.clone()) else { return Vec::new() };
        let all = last.into_iter();
        let with_it = all.filter(|(key, one)| *key == top || is_with(&one.change, &of_top));
        with_it.map(|(_, one)| one).collect()
    }
}

/// Whether something was deleted as a part of the deletion of what was above it.
fn is_with(change: &ToldChange, of_top: &ToldChange) -> bool {
    let (Ok(own), Ok(top)) = (moment::parsed(&change.time), moment::parsed(&of_top.time)) else {
        return false;
    };
    let before = top.0.checked_sub(own.0).map(Duration::from_micros);
    change.by == of_top.by && before.is_some_and(|before| before <= WITH_IT_WITHIN)
}

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
    let is_without_superior = outcome.code == ResultCode::NoSuchObject;
    outcome.into_result("add").map_err(|error| {
        let failure = Failure::refused(format!("{}: {error}", deleted.dn));
        match is_without_superior {
            true => failure.hint("what is above it must be there first: undelete that, or add it"),
            false => failure,
        }
    })
}

/// Has an entry name what is back; why not, if it does not.
fn refer(
    connection: &mut Connection,
    holder: &str,
    attribute: &str,
    value: &[u8],
) -> Result<Option<String>, Failure> {
    let mut buf = ValuesBuf::new();
    buf.push(value);
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A change by an identity, so many minutes after an hour.
    fn change(number: u64, kind: &str, dn: &str, by: &str, minute: u64) -> ToldChange {
        ToldChange {
            number,
            time: format!("2027013118{minute:02}00Z"),
            kind: kind.to_owned(),
            dn: dn.to_owned(),
            by: Some(by.to_owned()),
            ..ToldChange::default()
        }
    }

    fn found(changes: Vec<ToldChange>) -> Vec<Deleted> {
        let mut found = Found::of(key("ou=a,dc=x").unwrap(), true);
        changes.into_iter().for_each(|change| found.heed(change).unwrap());
        found.with_the_top()
    }

    #[test]
    fn only_what_went_with_the_top_comes_back() {
        let below = |number, name: &str, by, minute| {
            change(number, "delete", &format!("cn={name},ou=a,dc=x"), by, minute)
        };
        let mut long_ago = below(1, "old", "cn=b", 0);
        long_ago.time = "20270131160000Z".to_owned();
        let mut all = vec![long_ago, below(2, "other", "cn=c", 1), below(3, "same", "cn=b", 2)];
        assert!(found(all.clone()).is_empty(), "the top is there");
        all.push(change(4, "delete", "OU=a,dc=x", "cn=b", 3));
        let names: Vec<String> = found(all).into_iter().map(|one| one.dn).collect();
        assert_eq!(names, ["OU=a,dc=x", "cn=same,ou=a,dc=x"]);
    }

    #[test]
    fn only_values_that_named_it_are_put_back() {
        let group = |number| {
            let lines = b"delete: member\nmember: OU=A,dc=x\nmember: cn=other,dc=x\n-\n\
                          delete: description\ndescription: text\n-\n";
            let change = change(number, "modify", "cn=g,dc=x", "cn=b", 0);
            ToldChange { lines: lines.to_vec(), ..change }
        };
        let gone = change(2, "delete", "ou=a,dc=x", "cn=b", 0);
        let all = found(vec![group(1), gone, group(2), group(3)]);
        let told = |one: &Reference| {
            (one.holder.clone(), one.attribute.clone(), String::from_utf8(one.value.clone()))
        };
        let references = &all.first().unwrap().references;
        let member = ("cn=g,dc=x".to_owned(), "member".to_owned(), Ok("OU=A,dc=x".to_owned()));
        assert_eq!(references.iter().map(told).collect::<Vec<_>>(), [member]);
    }
}
