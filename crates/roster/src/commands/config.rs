//! `roster config`: the settings that are the same on all servers of a directory.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use client::{Connection, FoundEntry, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;
use serde_json::json;
use server::SettingDescription;

use super::config_history::{self, Diff, History, Undo};
use super::config_plan::{self, Apply, Export, PlanOptions};
use crate::configuration::requests::{self, MessageOption};
use crate::configuration::{SETTING as LINE, SETTINGS_DN as CONFIG, present};
use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{Side, Table};

/// Show and change settings of a directory, which hold on all its servers at once.
///
/// A setting is called SECTION.KEY, as in roster.toml; docs/reference/settings.md and 'roster
/// config describe' tell of each. What a server's own file, environment and options say comes
/// before what is set here, on that server alone.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
Examples:
  roster config list -W
  roster config list limits -W
  roster config set limits.size_limit_entries=5000 limits.time_limit_s=30 -W
  roster config reset limits.size_limit_entries -W
  roster config describe limits.size_limit_entries
  roster config history -W
  roster config diff 1042 -W
  roster config undo 1042 --message 'imports failed' -W
  roster config export -W > directory.toml
  roster config plan directory.toml -W
  roster config apply directory.toml -W";

#[derive(Debug, Subcommand)]
enum Action {
    /// List settings, each with its value and who says so.
    List(List),
    /// Print the value of one setting, an item of a list in each line.
    Get(Get),
    /// Set settings, all or none; they hold at once.
    Set(Set),
    /// Have settings be what they are by default, all or none.
    Reset(Reset),
    /// Tell what settings mean, which values they take, and where they live; asks no server.
    Describe(Describe),
    /// List the changes of the configuration and of the schema: who, when, what and why.
    History(History),
    /// Show what a change did to the configuration, or what differs between two states of it.
    Diff(Diff),
    /// Undo a change of the configuration or of the schema, as one change; refused if what it
    /// changed has changed since.
    Undo(Undo),
    /// Write the configuration as one file of TOML: settings, indexes, constraints and the like.
    Export(Export),
    /// Show how a directory differs from such a file, and what would follow.
    Plan(PlanOptions),
    /// Make a directory what such a file says: new indexes first, then all else as one change.
    Apply(Apply),
}

#[derive(Args, Debug)]
struct List {
    /// Only those whose name contains one of these
    #[arg(value_name = "PART")]
    parts: Vec<String>,

    /// Only those that are not as by default
    #[arg(short, long)]
    changed: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
struct Get {
    /// Its name
    #[arg(value_name = "SECTION.KEY")]
    name: String,

    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
struct Set {
    /// The settings; items of a list are separated as in a variable
    #[arg(value_name = "SECTION.KEY=VALUE", required = true)]
    settings: Vec<String>,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
struct Reset {
    /// Their names
    #[arg(value_name = "SECTION.KEY", required = true)]
    names: Vec<String>,

    #[command(flatten)]
    message: MessageOption,

    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args, Debug)]
struct Describe {
    /// Only those whose name contains one of these
    #[arg(value_name = "PART")]
    parts: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    match &options.action {
        Action::List(options) => list(&mut options.server.connect()?, options),
        Action::Get(options) => get(&mut options.server.connect()?, &options.name),
        Action::Set(options) => {
            let given = options.settings.iter().map(|text| wanted(text));
            let given = given.collect::<Result<Vec<_>, _>>()?;
            let count = given.len();
            let wanted: BTreeMap<_, _> = given.into_iter().collect();
            if wanted.len() < count {
                return Err(Failure::local("a setting is given twice"));
            }
            change(&mut options.server.connect()?, &wanted, &options.message)
        }
        Action::Reset(options) => {
            let wanted = options.names.iter().map(|name| Ok((known(name)?.name, Vec::new())));
            let wanted = wanted.collect::<Result<BTreeMap<_, _>, Failure>>()?;
            change(&mut options.server.connect()?, &wanted, &options.message)
        }
        Action::Describe(options) => describe(options),
        Action::History(options) => config_history::history(options),
        Action::Diff(options) => config_history::diff(options),
        Action::Undo(options) => config_history::undo(options),
        Action::Export(options) => config_plan::export(options),
        Action::Plan(options) => config_plan::plan(options),
        Action::Apply(options) => config_plan::apply(options),
    }
}

/// A setting as the server has it.
#[derive(serde::Serialize)]
struct Shown {
    name: String,
    values: Vec<String>,
    /// `default`, `directory`, `server` or `left out`.
    source: &'static str,
}

/// What the server shows.
struct Told {
    lines: Vec<String>,
    overridden: Vec<String>,
    left_out: Vec<String>,
    entries: Vec<FoundEntry>,
}

impl Told {
    fn ask(connection: &mut Connection) -> Result<Self, Failure> {
        let asked = SearchFor {
            scope: Scope::Subtree,
            attributes: &["*", LINE, OVERRIDDEN, LEFT_OUT],
            ..SearchFor::below(CONFIG, Filter::Present("objectClass"))
        };
        let entries = connection.search(&asked)?.entries;
        let top = entries.first().ok_or_else(|| {
            Failure::refused("the server shows no settings").hint(ADMINISTRATOR_HINT)
        })?;
        let texts = |name| top.texts(name).map(str::to_owned).collect();
        Ok(Self {
            lines: texts(LINE),
            overridden: texts(OVERRIDDEN),
            left_out: texts(LEFT_OUT),
            entries,
        })
    }

    /// The lines of a setting.
    fn lines_of<'l>(&'l self, name: &'l str) -> impl Iterator<Item = &'l str> {
        let lines = self.lines.iter().map(String::as_str);
        lines.filter(move |line| line.split_once('=').is_some_and(|(its, _)| its == name))
    }

    /// What the server says itself of a setting, if it does.
    fn own(&self, name: &str) -> Option<&str> {
        let mut lines = self.overridden.iter().filter_map(|line| line.split_once('='));
        lines.find(|(its, _)| *its == name).map(|(_, value)| value)
    }

    /// The settings whose names contain one of these.
    fn settings(&self, parts: &[String]) -> Vec<Shown> {
        let of_directory = server::setting_descriptions().into_iter();
        let of_directory = of_directory.filter(|one| one.attribute.is_some());
        let is_meant = |one: &SettingDescription| {
            parts.is_empty() || parts.iter().any(|part| one.name.contains(part.as_str()))
        };
        of_directory.filter(is_meant).filter_map(|one| self.shown(&one)).collect()
    }

    fn shown(&self, setting: &SettingDescription) -> Option<Shown> {
        let attribute = setting.attribute.as_deref()?;
        let has_it = self.entries.iter().find(|entry| entry.text(attribute).is_some());
        let mut values: Vec<String> = has_it
            .map(|entry| entry.texts(attribute).map(|text| as_written(setting, text)).collect())
            .unwrap_or_default();
        let source = if self.left_out.contains(&setting.name) {
            "left out"
        } else if let Some(own) = self.own(&setting.name) {
            values = items(setting, own);
            "server"
        } else if self.lines_of(&setting.name).next().is_some() {
            "directory"
        } else {
            "default"
        };
        Some(Shown { name: setting.name.clone(), values, source })
    }
}

/// A value as it is written in a file.
fn as_written(setting: &SettingDescription, text: &str) -> String {
    if setting.is_switch { text.to_ascii_lowercase() } else { text.to_owned() }
}

fn list(connection: &mut Connection, options: &List) -> Result<Exit, Failure> {
    let mut settings = Told::ask(connection)?.settings(&options.parts);
    if let (true, Some(part)) = (settings.is_empty(), options.parts.first()) {
        return Err(unknown(part));
    }
    settings.retain(|one| !options.changed || one.source != "default");
    if options.json {
        output::json(&settings)?;
        return Ok(Exit::Done);
    }
    let mut table =
        Table::new(&[("SETTING", Side::Left), ("VALUE", Side::Left), ("SAID BY", Side::Left)]);
    let is_overridden = settings.iter().any(|one| one.source == "server");
    for Shown { name, values, source } in settings {
        table.row(vec![name, values.join(", "), source.to_owned()]);
    }
    output::line(format_args!("{table}"))?;
    if is_overridden {
        output::note(format_args!(
            "roster: note: where it says 'server', the value is that of this server alone, by its \
             roster.toml, a variable or an option"
        ));
    }
    Ok(Exit::Done)
}

fn get(connection: &mut Connection, name: &str) -> Result<Exit, Failure> {
    let setting = known(name)?;
    let shown = Told::ask(connection)?.shown(&setting);
    let shown = shown.ok_or_else(|| not_of_directory(&setting))?;
    for value in &shown.values {
        output::line(format_args!("{value}"))?;
    }
    Ok(Exit::Done)
}

/// Sets what is wanted: values, or none for the default.
fn change(
    connection: &mut Connection,
    wanted: &BTreeMap<String, Vec<String>>,
    message: &MessageOption,
) -> Result<Exit, Failure> {
    let told = Told::ask(connection)?;
    let mut gone = Vec::new();
    let mut put = Vec::new();
    for (name, values) in wanted {
        gone.extend(told.lines_of(name).map(str::to_owned));
        put.extend(values.iter().map(|value| format!("{name}={value}")));
    }
    let kept: Vec<String> = gone.iter().filter(|line| put.contains(line)).cloned().collect();
    gone.retain(|line| !kept.contains(line));
    put.retain(|line| !kept.contains(line));
    let steps: Vec<_> = present::modify(CONFIG, LINE, &gone, &put).into_iter().collect();
    requests::carry_out(connection, &steps, message, "change of the settings")?;
    for (name, values) in wanted {
        let value = if values.is_empty() { "as by default".to_owned() } else { values.join(", ") };
        output::line(format_args!("{name}: {value}"))?;
        if told.own(name).is_some() {
            output::note(format_args!(
                "roster: note: {name} is set on this server itself, by roster.toml, a variable or \
                 an option, which comes before this; it holds on other servers"
            ));
        }
    }
    Ok(Exit::Done)
}

fn describe(options: &Describe) -> Result<Exit, Failure> {
    let mut all = server::setting_descriptions();
    let is_meant = |one: &SettingDescription| {
        options.parts.is_empty() || options.parts.iter().any(|part| one.name.contains(part))
    };
    all.retain(is_meant);
    if let (true, Some(part)) = (all.is_empty(), options.parts.first()) {
        return Err(unknown(part));
    }
    if options.json {
        let told = |one: &SettingDescription| {
            json!({
                "name": one.name, "sentence": one.sentence, "accepts": one.accepts,
                "default": one.default, "variable": one.variable, "place": one.place,
                "attribute": one.attribute,
            })
        };
        output::json(&all.iter().map(told).collect::<Vec<_>>())?;
        return Ok(Exit::Done);
    }
    for one in &all {
        output::line(format_args!("{}", one.name))?;
        output::line(format_args!("  {}", one.sentence))?;
        output::line(format_args!("  Value: {}", one.accepts))?;
        output::line(format_args!("  Default: {}", one.default))?;
        output::line(format_args!("  {}", one.place))?;
    }
    Ok(Exit::Done)
}

/// `SECTION.KEY=VALUE`, with the items of a list by themselves.
fn wanted(text: &str) -> Result<(String, Vec<String>), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failure::local(format!("'{text}' says no value")).hint("write SECTION.KEY=VALUE")
    })?;
    let setting = known(name)?;
    if setting.attribute.is_none() {
        return Err(not_of_directory(&setting));
    }
    let values = items(&setting, value);
    // An empty list is said by a line without a value.
    let values = if values.is_empty() { vec![String::new()] } else { values };
    Ok((setting.name, values))
}

/// The values that one text stands for.
fn items(setting: &SettingDescription, text: &str) -> Vec<String> {
    match setting.separator {
        Some(separator) => {
            let items = text.split(separator).map(str::trim).filter(|item| !item.is_empty());
            items.map(str::to_owned).collect()
        }
        None => vec![text.trim().to_owned()],
    }
}

fn known(name: &str) -> Result<SettingDescription, Failure> {
    let mut all = server::setting_descriptions().into_iter();
    all.find(|one| one.name == name).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Failure {
    let failure = Failure::local(format!("there is no setting '{name}'"));
    match server::setting_like(name) {
        Some(like) => failure.hint(format!("is {like} meant?")),
        None => failure.hint("'roster config describe' lists all settings"),
    }
}

fn not_of_directory(setting: &SettingDescription) -> Failure {
    Failure::local(format!("{} is a setting of each server, not of the directory", setting.name))
        .hint(format!("set it in roster.toml of the server, or by {}", setting.variable))
}

const LEFT_OUT: &str = "roster-setting-left-out";
const OVERRIDDEN: &str = "roster-setting-overridden";
