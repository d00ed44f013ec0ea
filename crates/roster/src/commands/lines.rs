//! Settings of a directory that are lines, `NAME: …`: shown, added and removed by name.

use clap::Args;
use client::{Connection, FoundEntry, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;

use crate::configuration::present;
use crate::configuration::requests::{self, MessageOption};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// What `list` takes.
#[derive(Args, Debug)]
pub(super) struct ListOptions {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) server: ServerOptions,
}

/// What `add` takes.
#[derive(Args, Debug)]
pub(super) struct AddOptions {
    /// Each 'NAME: …', in quotes
    #[arg(value_name = "LINE", required = true)]
    pub(super) lines: Vec<String>,

    #[command(flatten)]
    pub(super) message: MessageOption,

    #[command(flatten)]
    pub(super) server: ServerOptions,
}

/// What `drop` takes.
#[derive(Args, Debug)]
pub(super) struct DropOptions {
    /// Those of these names
    #[arg(value_name = "NAME", required = true)]
    pub(super) names: Vec<String>,

    #[command(flatten)]
    pub(super) message: MessageOption,

    #[command(flatten)]
    pub(super) server: ServerOptions,
}

/// Such a setting.
pub(super) struct Lines {
    /// The entry that shows it, and its attribute.
    pub(super) config: &'static str,
    pub(super) attribute: &'static str,
    /// Below which entry is what the server tells of each; none where that is nothing.
    pub(super) monitor: Option<&'static str>,
    /// What a line is called; with an 's' there are several. The command is called so, too, with
    /// hyphens.
    pub(super) what: &'static str,
    /// What changing them is called.
    pub(super) change: &'static str,
}

impl Lines {
    /// Every line.
    pub(super) fn all(&self, connection: &mut Connection) -> Result<Vec<String>, Failure> {
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: &[self.attribute],
            ..SearchFor::below(self.config, Filter::Present("objectClass"))
        };
        let found = connection.search(&asked)?;
        let entry = found.entries.first().ok_or_else(|| {
            Failure::refused(format!("the server shows no {}s", self.what))
                .hint(crate::connect::ADMINISTRATOR_HINT)
        })?;
        Ok(entry.texts(self.attribute).map(str::to_owned).collect())
    }

    /// Those of these names; all of them if there are none.
    pub(super) fn named(
        &self,
        connection: &mut Connection,
        names: &[String],
    ) -> Result<Vec<String>, Failure> {
        let all = self.all(connection)?;
        let what = self.what;
        if let Some(name) = names.iter().find(|name| !all.iter().any(|text| is_named(text, name))) {
            return Err(Failure::local(format!("there is no {what} '{name}'"))
                .hint(format!("'roster {} list' lists them", what.replace(' ', "-"))));
        }
        let is_one =
            |text: &String| names.is_empty() || names.iter().any(|name| is_named(text, name));
        Ok(all.into_iter().filter(is_one).collect())
    }

    /// Prints every line.
    pub(super) fn list(&self, connection: &mut Connection, json: bool) -> Result<Exit, Failure> {
        let all = self.all(connection)?;
        if json {
            output::json(&all)?;
            return Ok(Exit::Done);
        }
        for line in &all {
            output::line(format_args!("{line}"))?;
        }
        if all.is_empty() {
            output::note(format_args!("roster: there are no {}s", self.what));
        }
        Ok(Exit::Done)
    }

    /// What the server tells of the line with this name.
    pub(super) fn told(
        &self,
        connection: &mut Connection,
        name: &str,
        attributes: &[&str],
    ) -> Result<Option<FoundEntry>, Failure> {
        let Some(monitor) = self.monitor else { return Ok(None) };
        let base = format!("cn={name},{monitor}");
        let asked = SearchFor {
            scope: Scope::Base,
            attributes,
            ..SearchFor::below(&base, Filter::Present("objectClass"))
        };
        Ok(connection.search(&asked)?.entries.into_iter().next())
    }

    /// Adds lines; all or none.
    pub(super) fn add(
        &self,
        connection: &mut Connection,
        options: &AddOptions,
    ) -> Result<(), Failure> {
        let step = present::modify(self.config, self.attribute, &[], &options.lines);
        let steps: Vec<_> = step.into_iter().collect();
        requests::carry_out(connection, &steps, &options.message, self.change)
    }

    /// Removes those of these names.
    pub(super) fn drop(&self, options: &DropOptions) -> Result<Exit, Failure> {
        let mut connection = options.server.connect()?;
        let all = self.named(&mut connection, &options.names)?;
        let step = present::modify(self.config, self.attribute, &all, &[]);
        let steps: Vec<_> = step.into_iter().collect();
        requests::carry_out(&mut connection, &steps, &options.message, self.change)?;
        for text in &all {
            output::line(format_args!("{}: dropped", name_of(text)))?;
        }
        Ok(Exit::Done)
    }
}

fn is_named(text: &str, name: &str) -> bool {
    name_of(text).eq_ignore_ascii_case(name)
}

/// The name that a line begins with.
pub(super) fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default().trim()
}
