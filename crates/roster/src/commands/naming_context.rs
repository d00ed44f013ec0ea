//! `roster naming-context`: below which names there are entries.

use clap::{Args, Subcommand};
use client::{ClientError, Connection, SearchFor};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{Control, Controls, ControlsBuf, DeleteRequest, Request, Scope};
use ldap::result::ResultCode;
use schema::Schema;

use super::index::IndexLocation;
use crate::changes::step::Step;
use crate::configuration::requests::{self, MessageOption};
use crate::configuration::{AREAS, NAMING_CONTEXT, NAMING_CONTEXTS_DN, present};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;
use crate::table::{Side, Table};

/// List, add, rename and drop the naming contexts of a running server, or of a data directory.
///
/// A naming context, or suffix, is a name below which there are entries, such as
/// dc=example,dc=com. All members of a cluster have the same. None lies within another. If no
/// server runs, name the data directory with --data.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster naming-context list --count -W
  roster naming-context add o=partners -W
  roster naming-context rename dc=old,dc=com o=new --keep-old-rdn -W
  roster naming-context drop o=partners --with-entries -W
  roster naming-context add o=partners --data ./data";

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Add(Add),
    Rename(Rename),
    Empty(Empty),
    Drop(Drop),
}

/// List the naming contexts.
#[derive(Args, Debug)]
struct List {
    /// Count the entries of each, which looks at all of them
    #[arg(long)]
    count: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: IndexLocation,
}

/// Add naming contexts, each with its entry if its name begins with dc, o, ou, c, l, st or cn.
#[derive(Args, Debug)]
struct Add {
    /// Their names
    #[arg(value_name = "DN", required = true, value_parser = name)]
    names: Vec<Dn>,

    /// Add no entries
    #[arg(long)]
    no_entry: bool,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    place: IndexLocation,
}

/// Rename a naming context, and by that all entries in it; what names them follows.
#[derive(Args, Debug)]
struct Rename {
    /// Its name
    #[arg(value_name = "OLD", value_parser = name)]
    old: Dn,

    /// Its name from now on
    #[arg(value_name = "NEW", value_parser = name)]
    new: Dn,

    /// Keep the value of the old name in its entry, as the class dcObject needs it
    #[arg(long)]
    keep_old_rdn: bool,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    place: IndexLocation,
}

/// Delete all entries of naming contexts, which stay; what was interrupted goes on if it is run
/// again.
#[derive(Args, Debug)]
struct Empty {
    /// Their names
    #[arg(value_name = "DN", required = true, value_parser = name)]
    names: Vec<Dn>,

    #[command(flatten)]
    place: IndexLocation,
}

/// Drop naming contexts.
#[derive(Args, Debug)]
struct Drop {
    /// Their names
    #[arg(value_name = "DN", required = true, value_parser = name)]
    names: Vec<Dn>,

    /// Delete their entries first; what was interrupted goes on if it is run again
    #[arg(long)]
    with_entries: bool,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    place: IndexLocation,
}

fn name(text: &str) -> Result<Dn, String> {
    let dn = Dn::parse(text).map_err(|error| error.to_string())?;
    if dn.is_root() { Err("a naming context has at least one RDN".to_owned()) } else { Ok(dn) }
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(List { count, json, place }) => {
            place.ask(|connection| list(connection, *count, *json))
        }
        Action::Add(options) => options.place.ask(|connection| add(connection, options)),
        Action::Rename(options) => options.place.ask(|connection| rename(connection, options)),
        Action::Empty(Empty { names, place }) => place.ask(|connection| {
            for name in names {
                let text = listed(connection, name)?;
                empty(connection, &text)?;
                output::line(format_args!("{text}: has no entries"))?;
            }
            Ok(Exit::Done)
        }),
        Action::Drop(options) => options.place.ask(|connection| drop_all(connection, options)),
    }
}

fn list(connection: &mut Connection, counts: bool, json: bool) -> Result<Exit, Failure> {
    let all = present::values(connection, NAMING_CONTEXTS_DN, NAMING_CONTEXT)?;
    let mut rows = Vec::new();
    for name in &all {
        let entries = match counts {
            true => Some(count(connection, name)?),
            false => (!has_entry(connection, name)?).then_some(0),
        };
        rows.push((name, entries));
    }
    if json {
        let rows = rows.into_iter();
        let all = rows.map(|(name, count)| serde_json::json!({ "name": name, "entries": count }));
        output::json(&all.collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        output::note(format_args!("roster: there are no naming contexts"));
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&[("NAMING CONTEXT", Side::Left), ("ENTRIES", Side::Right)]);
    for (name, entries) in rows {
        let entries = entries.map_or_else(|| "some".to_owned(), |entries| entries.to_string());
        table.row(vec![name.clone(), entries]);
    }
    output::line(format_args!("{}", table.to_string().trim_end()))?;
    Ok(Exit::Done)
}

/// How many entries are at and below a name.
fn count(connection: &mut Connection, name: &str) -> Result<u64, Failure> {
    let asked = SearchFor {
        attributes: &["1.1"],
        ..SearchFor::below(name, Filter::Present("objectClass"))
    };
    let mut entries = 0;
    let mut cookie = Vec::new();
    loop {
        let page =
            connection.search_page::<ClientError>(&asked, PAGE_ENTRIES, &cookie, &mut |_| {
                entries += 1;
                Ok(())
            })?;
        if page.outcome.code == ResultCode::NoSuchObject {
            return Ok(0);
        }
        page.outcome.into_result("search")?;
        cookie = page.cookie;
        if cookie.is_empty() {
            return Ok(entries);
        }
    }
}

fn has_entry(connection: &mut Connection, name: &str) -> Result<bool, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["1.1"],
        ..SearchFor::below(name, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    if found.outcome.code == ResultCode::NoSuchObject {
        return Ok(false);
    }
    found.outcome.into_result("search")?;
    Ok(!found.entries.is_empty())
}

/// The naming context of this name, as the server spells it.
fn listed(connection: &mut Connection, name: &Dn) -> Result<String, Failure> {
    let schema = Schema::builtin();
    let key = |dn: &Dn| schema::DnKey::from_dn(&schema, dn).ok();
    let all = present::values(connection, NAMING_CONTEXTS_DN, NAMING_CONTEXT)?;
    let same = |text: &String| Dn::parse(text).is_ok_and(|other| key(&other) == key(name));
    all.into_iter().find(same).ok_or_else(|| {
        Failure::local(format!("there is no naming context '{name}'"))
            .hint("'roster naming-context list' lists them")
    })
}

/// One change, with the entries: nobody sees a naming context without its own.
fn add(connection: &mut Connection, options: &Add) -> Result<Exit, Failure> {
    let names: Vec<String> = options.names.iter().map(ToString::to_string).collect();
    let mut steps: Vec<Step> =
        present::modify(NAMING_CONTEXTS_DN, NAMING_CONTEXT, &[], &names).into_iter().collect();
    let mut bare = Vec::new();
    for dn in &options.names {
        match (options.no_entry, directory::suffix_entry(dn)) {
            (false, Ok(entry)) => {
                let attributes = entry.attributes().iter();
                let attributes = attributes
                    .map(|one| (one.description.text().to_owned(), one.values.clone()))
                    .collect();
                steps.push(Step::Add { dn: dn.to_string(), attributes });
            }
            _ => bare.push(dn.to_string()),
        }
    }
    requests::carry_out(connection, &steps, &options.message, CHANGE)?;
    for name in &names {
        let what = match bare.contains(name) {
            true => "added, without an entry: add that, and then those below",
            false => "added, with its entry",
        };
        output::line(format_args!("{name}: {what}"))?;
    }
    Ok(Exit::Done)
}

fn rename(connection: &mut Connection, options: &Rename) -> Result<Exit, Failure> {
    let old = listed(connection, &options.old)?;
    let new = &options.new;
    let step = match has_entry(connection, &old)? {
        true => {
            let rdns = new.rdns();
            let superior = Dn::new(rdns.iter().skip(1).cloned().collect()).to_string();
            rdns.first().map(|leaf| Step::Rename {
                dn: old.clone(),
                new_rdn: leaf.to_string(),
                deletes_old_rdn: !options.keep_old_rdn,
                new_superior: Some(superior),
            })
        }
        false => present::modify(
            NAMING_CONTEXTS_DN,
            NAMING_CONTEXT,
            std::slice::from_ref(&old),
            &[new.to_string()],
        ),
    };
    let steps: Vec<Step> = step.into_iter().collect();
    let done = requests::carry_out(connection, &steps, &options.message, CHANGE);
    done.map_err(|failure| match failure.message.contains(CLASS_VIOLATION) {
        true if !options.keep_old_rdn => failure.hint(
            "with --keep-old-rdn the value of the old name stays in the entry, which its object \
             class needs",
        ),
        _ => failure,
    })?;
    output::line(format_args!("{old}: is {new} now"))?;
    tell_mentions(connection, &old, "names the old one still")?;
    Ok(Exit::Done)
}

fn drop_all(connection: &mut Connection, options: &Drop) -> Result<Exit, Failure> {
    for name in &options.names {
        let text = listed(connection, name)?;
        if options.with_entries {
            empty(connection, &text)?;
        }
        let step =
            present::modify(NAMING_CONTEXTS_DN, NAMING_CONTEXT, std::slice::from_ref(&text), &[]);
        let steps: Vec<Step> = step.into_iter().collect();
        let done = requests::carry_out(connection, &steps, &options.message, CHANGE);
        done.map_err(|failure| match options.with_entries {
            false if failure.message.contains(NOT_EMPTY) => {
                failure.hint("--with-entries deletes them first")
            }
            _ => failure,
        })?;
        output::line(format_args!("{text}: dropped"))?;
        tell_mentions(connection, &text, "names it still")?;
    }
    Ok(Exit::Done)
}

/// Deletes every entry of a naming context. The server does so in steps, between which it does
/// what others ask.
fn empty(connection: &mut Connection, name: &str) -> Result<(), Failure> {
    let bar = progress::bar(None, "");
    bar.set_message(format!("{name}: deleting its entries"));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: TREE_DELETE, critical: true, value: None });
    let controls: Controls<'_> = controls.as_ref();
    let outcome = connection.request_with(Request::Delete(DeleteRequest { name }), controls);
    bar.finish_and_clear();
    let outcome = outcome?;
    if outcome.code == ResultCode::NoSuchObject {
        return Ok(());
    }
    let done = outcome.into_result("deletion of the entries").map_err(Failure::from);
    done.map_err(|failure| failure.hint("what is left is deleted if the command is run again"))
}

/// Says which parts of the configuration name an entry that is not there any more.
fn tell_mentions(connection: &mut Connection, name: &str, what: &str) -> Result<(), Failure> {
    let name = name.to_ascii_lowercase();
    for area in AREAS.iter().filter(|area| area.attribute != NAMING_CONTEXT) {
        // Whoever may change the one need not see the other.
        let Ok(values) = present::values(connection, area.dn, area.attribute) else { continue };
        for value in values.iter().filter(|value| value.to_ascii_lowercase().contains(&name)) {
            output::note(format_args!("roster: note: {} '{value}' {what}", area.what));
        }
    }
    Ok(())
}

const CHANGE: &str = "change of the naming contexts";
const TREE_DELETE: &str = "1.2.840.113556.1.4.805";
const CLASS_VIOLATION: &str = "objectClassViolation";
const NOT_EMPTY: &str = "notAllowedOnNonLeaf";
const PAGE_ENTRIES: u32 = 10_000;
