//! `roster task`: work that a server does by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Connection, FoundEntry, SearchFor};
use directory::password_policy::time;
use environment::{Clock as _, SystemClock};
use ldap::dn::escape_value;
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use super::lines::{AddOptions, DropOptions, Lines, name_of};
use crate::account::moment::written as moment;
use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::online;
use crate::output;
use crate::progress;
use crate::table::{Side, Table, dash};

/// Have a running server do work by itself: at once, later, or again and again.
///
/// A task is 'KIND [OPTION=VALUE …]'. Kinds are backup, verify-backup, export, import, index, check
/// and config-apply; docs/reference/tasks.md lists them with their options, docs/how-to/tasks.md
/// shows how they are used. Files are below the directory that the setting tasks.directory names.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster task schedule 'nightly: backup to=nightly at \"0 2 * * *\"' -W
  roster task schedule 'verify: verify-backup from=nightly after nightly' -W
  roster task list -W
  roster task start backup to=before-upgrade --wait -W
  roster task start export to=people.ldif.zst --at 20261231020000Z -W
  roster task show nightly-20261129020000 -W
  roster task cancel nightly-20261129020000 -W
  roster task unschedule nightly -W";

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Show(Show),
    Start(Start),
    /// Have tasks done again and again: 'NAME: KIND [OPTION=VALUE …] at "CRON"', or '… after NAME'
    Schedule(AddOptions),
    /// Do the scheduled tasks of these names no more; one that is at work goes on
    Unschedule(DropOptions),
    Cancel(Cancel),
}

/// List what is scheduled, and the tasks that wait, are at work or have ended.
#[derive(Args, Debug)]
struct List {
    /// Only tasks that wait or are at work
    #[arg(long)]
    open: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Show a task, with what it has told.
#[derive(Args, Debug)]
struct Show {
    /// Its name
    #[arg(value_name = "TASK")]
    id: String,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Have the server do a task once.
#[derive(Args, Debug)]
struct Start {
    /// What is to be done, such as: backup to=before-upgrade
    #[arg(value_name = "KIND OPTION=VALUE", required = true)]
    work: Vec<String>,

    /// What the task is called; by default its kind, with the time
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Not before this time (UTC), such as 20261231020000Z
    #[arg(long, value_name = "TIME")]
    at: Option<String>,

    /// Not before these tasks have ended; it is canceled if one of them fails
    #[arg(long, value_name = "TASK")]
    after: Vec<String>,

    /// Return when it has ended; exits with code 1 unless it has done what it was to do
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// End tasks that are at work, and have those that wait never begin.
#[derive(Args, Debug)]
struct Cancel {
    /// Their names
    #[arg(value_name = "TASK", required = true)]
    ids: Vec<String>,

    #[command(flatten)]
    server: ServerOptions,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(options) => list(options),
        Action::Show(options) => show(options),
        Action::Start(options) => start(options),
        Action::Schedule(options) => schedule(options),
        Action::Unschedule(options) => LINES.drop(options),
        Action::Cancel(options) => cancel(options),
    }
}

fn list(options: &List) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let is_wanted = |entry: &FoundEntry| !options.open || !entry.text(STATE).is_some_and(is_end);
    let mut tasks = below(&mut connection, SCHEDULED)?;
    tasks.retain(is_wanted);
    tasks.sort_by_key(|entry| entry.text("createTimestamp").unwrap_or_default().to_owned());
    let recurring = below(&mut connection, RECURRING)?;
    if options.json {
        let all: Vec<_> = recurring.iter().chain(&tasks).map(as_json).collect();
        output::json(&all)?;
        return Ok(Exit::Done);
    }
    if !recurring.is_empty() {
        let columns = [("SCHEDULED", Side::Left), ("NEXT", Side::Left), ("TASK", Side::Left)];
        let mut table = Table::new(&columns);
        for entry in &recurring {
            let next = entry.text("roster-task-next").map_or_else(dash, moment);
            let line = entry.text("roster-task").unwrap_or_default();
            let text = line.split_once(':').map_or(line, |(_, text)| text.trim());
            table.row(vec![name_of(line).to_owned(), next, text.to_owned()]);
        }
        output::line(format_args!("{table}"))?;
    }
    if tasks.is_empty() {
        output::note(format_args!("roster: there are no tasks"));
        return Ok(Exit::Done);
    }
    let columns = [("TASK", Side::Left), ("STATE", Side::Left), ("BEGAN", Side::Left)];
    let mut table = Table::new(&columns);
    table.column("TOOK", Side::Right);
    table.column("WORK", Side::Left);
    for entry in &tasks {
        let text = |name: &str| entry.text(name).unwrap_or_default().to_owned();
        let began = entry.text(BEGAN).or(entry.text(START)).map_or_else(dash, moment);
        let state = match entry.text("roster-task-progress").filter(|_| text(STATE) == "RUNNING") {
            Some(progress) => format!("running, {progress}"),
            None => plain(&text(STATE)),
        };
        let took = took(entry).map_or_else(dash, |took| format!("{} s", took.as_secs()));
        table.row(vec![text(ID), state, began, took, text("roster-task-work")]);
    }
    output::line(format_args!("{table}"))?;
    Ok(Exit::Done)
}

fn show(options: &Show) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let entry = one(&mut connection, &options.id)?;
    if options.json {
        output::json(&as_json(&entry))?;
        return Ok(Exit::Done);
    }
    for (title, attribute) in SHOWN {
        for value in entry.texts(attribute) {
            let value = match *attribute {
                STATE => plain(value),
                START | BEGAN | ENDED | "createTimestamp" => moment(value),
                _ => value.to_owned(),
            };
            output::line(format_args!("{title:<10} {}", output::within_line(&value)))?;
        }
    }
    for line in log(&entry) {
        output::line(format_args!("  {}", output::within_line(line)))?;
    }
    Ok(Exit::Done)
}

fn start(options: &Start) -> Result<Exit, Failure> {
    let (kind, given) = options.work.split_first().ok_or_else(|| Failure::local("no task"))?;
    let id = options
        .name
        .clone()
        .unwrap_or_else(|| format!("{kind}-{}", SystemClock::new().now().compact()));
    let own = [id.as_str()];
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let after: Vec<&str> = options.after.iter().map(String::as_str).collect();
    let mut attributes: Vec<(&str, &[&str])> = vec![("objectClass", &["ds-task"]), (ID, &own)];
    let (kind, at) = ([kind.as_str()], options.at.as_deref().map(|at| [at]));
    attributes.push((CLASS, &kind));
    if !given.is_empty() {
        attributes.push(("roster-task-option", &given));
    }
    if let Some(at) = &at {
        attributes.push((START, at));
    }
    if !after.is_empty() {
        attributes.push(("ds-task-dependency-id", &after));
    }
    let mut connection = options.server.connect()?;
    connection.add(&name(&id), &attributes)?.into_result("task")?;
    if !options.wait {
        output::line(format_args!("{id}: taken; 'roster task show {id}' tells how far it is"))?;
        return Ok(Exit::Done);
    }
    wait(&mut connection, &id)
}

/// Waits for the end of a task, and shows how far it is.
fn wait(connection: &mut Connection, id: &str) -> Result<Exit, Failure> {
    let bar = progress::bar(None, "");
    bar.set_message(id.to_owned());
    let entry = loop {
        let entry = one(connection, id)?;
        let state = entry.text(STATE).unwrap_or_default();
        if is_end(state) {
            break entry;
        }
        let told = entry.text("roster-task-progress").unwrap_or_default();
        bar.set_message(format!("{id}: {} {told}", plain(state)));
        online::wait(LOOK_EVERY);
    };
    bar.finish_and_clear();
    for line in log(&entry) {
        output::line(format_args!("{}", output::within_line(line)))?;
    }
    let state = entry.text(STATE).unwrap_or_default();
    output::note(format_args!("roster: {id}: {}", plain(state)));
    Ok(if state == "COMPLETED_SUCCESSFULLY" { Exit::Done } else { Exit::Refused })
}

fn schedule(options: &AddOptions) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    LINES.add(&mut connection, options)?;
    let all = below(&mut connection, RECURRING)?;
    for text in &options.lines {
        let own = name_of(text);
        let entry = all.iter().find(|entry| entry.text(ID) == Some(own));
        match entry.and_then(|entry| entry.text("roster-task-next")) {
            Some(next) => output::line(format_args!("{own}: next {}", moment(next)))?,
            None => output::line(format_args!("{own}: scheduled"))?,
        }
    }
    Ok(Exit::Done)
}

fn cancel(options: &Cancel) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    for id in &options.ids {
        let change = (ModifyOperation::Replace, STATE, &["STOPPED_BY_ADMINISTRATOR"] as &[&str]);
        connection.modify(&name(id), &[change])?.into_result("cancel")?;
        output::line(format_args!("{id}: ends"))?;
    }
    Ok(Exit::Done)
}

fn below(connection: &mut Connection, base: &str) -> Result<Vec<FoundEntry>, Failure> {
    let asked = SearchFor {
        scope: Scope::One,
        attributes: &["*", "createTimestamp"],
        ..SearchFor::below(base, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    if found.outcome.code == ResultCode::NoSuchObject {
        return Err(Failure::refused("the server shows no tasks").hint(ADMINISTRATOR_HINT));
    }
    Ok(found.entries)
}

fn one(connection: &mut Connection, id: &str) -> Result<FoundEntry, Failure> {
    let base = name(id);
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["*", "createTimestamp"],
        ..SearchFor::below(&base, Filter::Present("objectClass"))
    };
    connection.search(&asked)?.entries.into_iter().next().ok_or_else(|| {
        Failure::refused(format!("there is no task '{id}'"))
            .hint("'roster task list' lists those that the server knows")
    })
}

fn name(id: &str) -> String {
    let mut name = format!("{ID}=");
    escape_value(id.as_bytes(), &mut name);
    name + "," + SCHEDULED
}

/// What a task has told, in order, without the numbers of the lines.
fn log(entry: &FoundEntry) -> impl Iterator<Item = &str> {
    let mut lines: Vec<&str> = entry.texts("ds-task-log-message").collect();
    lines.sort_unstable();
    lines.into_iter().map(|line| line.split_once(' ').map_or(line, |(_, line)| line))
}

fn as_json(entry: &FoundEntry) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for (_, attribute) in SHOWN.iter().chain(ALSO) {
        let values: Vec<String> = entry.texts(attribute).map(str::to_owned).collect();
        if !values.is_empty() {
            all.insert((*attribute).to_owned(), values);
        }
    }
    all
}

fn took(entry: &FoundEntry) -> Option<Duration> {
    let micros = |name: &str| Some(time(entry.text(name)?)?.0);
    let until = micros(ENDED).unwrap_or_else(|| SystemClock::new().now().0);
    Some(Duration::from_micros(until.saturating_sub(micros(BEGAN)?)))
}

fn plain(state: &str) -> String {
    state.replace('_', " ").to_lowercase()
}

fn is_end(state: &str) -> bool {
    !matches!(state, "UNSCHEDULED" | "WAITING_ON_START_TIME" | "WAITING_ON_DEPENDENCY" | "RUNNING")
}

const LINES: Lines = Lines {
    config: "cn=Tasks,cn=config",
    attribute: "roster-task",
    monitor: None,
    what: "scheduled task",
    change: "change of the schedule",
};

const SCHEDULED: &str = "cn=Scheduled Tasks,cn=tasks";
const RECURRING: &str = "cn=Recurring Tasks,cn=tasks";
const ID: &str = "ds-task-id";
const CLASS: &str = "ds-task-class-name";
const STATE: &str = "ds-task-state";
const START: &str = "ds-task-scheduled-start-time";
const BEGAN: &str = "ds-task-actual-start-time";
const ENDED: &str = "ds-task-completion-time";

/// What is shown of a task, with its title.
const SHOWN: &[(&str, &str)] = &[
    ("task", ID),
    ("work", "roster-task-work"),
    ("state", STATE),
    ("progress", "roster-task-progress"),
    ("of", "roster-task-of"),
    ("by", "roster-task-by"),
    ("asked", "createTimestamp"),
    ("not before", START),
    ("after", "ds-task-dependency-id"),
    ("began", BEGAN),
    ("ended", ENDED),
    ("exit code", "roster-task-exit-code"),
];

/// What else is there in JSON.
const ALSO: &[(&str, &str)] = &[
    ("", CLASS),
    ("", "roster-task"),
    ("", "roster-task-next"),
    ("", "ds-recurring-task-schedule"),
    ("", "ds-task-log-message"),
];

const LOOK_EVERY: Duration = Duration::from_millis(200);
