//! The table of subcommands, and how the program starts and ends.
//!
//! Invariant: a new subcommand is one row of `Command` and one file in `commands/`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    account, assignment, backup, bench, changes, check, cluster, config, constraint, demo, diff,
    doctor, explain, export, follow, generate, history, import, index, init, lockdown, log,
    naming_context, reload, restart, restore, revert, schema, serve, session, sink, status, stop,
    task, top, undelete, virtual_attribute, why,
};
use crate::failure::{Exit, Failure};
use crate::{output, task_process};

/// An LDAP directory server in one program.
#[derive(Debug, Parser)]
#[command(
    name = "roster",
    version,
    after_help = EXIT_CODES,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Every subcommand, in the order of a first day with roster.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Options),
    Init(init::Options),
    Serve(serve::Options),
    Import(import::Options),
    Export(export::Options),
    Follow(follow::Options),
    Explain(explain::Options),
    Why(why::Options),
    Account(account::Options),
    Session(session::Options),
    Log(log::Options),
    Status(status::Options),
    Doctor(doctor::Options),
    Top(top::Options),
    Config(config::Options),
    Reload(reload::Options),
    Stop(stop::Options),
    Restart(restart::Options),
    Lockdown(lockdown::Options),
    Cluster(cluster::Options),
    Index(index::Options),
    NamingContext(naming_context::Options),
    Schema(schema::Options),
    Constraint(constraint::Options),
    Assignment(assignment::Options),
    VirtualAttribute(virtual_attribute::Options),
    Sink(sink::Options),
    Task(task::Options),
    Changes(changes::Options),
    Diff(diff::Options),
    History(history::Options),
    Undelete(undelete::Options),
    Revert(revert::Options),
    Check(check::Options),
    Backup(backup::Options),
    Restore(restore::Options),
    Generate(generate::Options),
    Bench(bench::Options),
}

impl Command {
    fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Demo(options) => demo::run(&options),
            Self::Init(options) => init::run(&options),
            Self::Serve(options) => serve::run(&options),
            Self::Import(options) => import::run(&options),
            Self::Export(options) => export::run(&options),
            Self::Follow(options) => follow::run(&options),
            Self::Explain(options) => explain::run(&options),
            Self::Why(options) => why::run(&options),
            Self::Account(options) => account::run(&options),
            Self::Session(options) => session::run(&options),
            Self::Log(options) => log::run(&options),
            Self::Status(options) => status::run(&options),
            Self::Doctor(options) => doctor::run(&options),
            Self::Top(options) => top::run(&options),
            Self::Config(options) => config::run(&options),
            Self::Reload(options) => reload::run(&options),
            Self::Stop(options) => stop::run(&options),
            Self::Restart(options) => restart::run(&options),
            Self::Lockdown(options) => lockdown::run(&options),
            Self::Cluster(options) => cluster::run(&options),
            Self::Index(options) => index::run(&options),
            Self::NamingContext(options) => naming_context::run(&options),
            Self::Schema(options) => schema::run(&options),
            Self::Constraint(options) => constraint::run(&options),
            Self::Assignment(options) => assignment::run(&options),
            Self::VirtualAttribute(options) => virtual_attribute::run(&options),
            Self::Sink(options) => sink::run(&options),
            Self::Task(options) => task::run(&options),
            Self::Changes(options) => changes::run(&options),
            Self::Diff(options) => diff::run(&options),
            Self::History(options) => history::run(&options),
            Self::Undelete(options) => undelete::run(&options),
            Self::Revert(options) => revert::run(&options),
            Self::Check(options) => check::run(&options),
            Self::Backup(options) => backup::run(&options),
            Self::Restore(options) => restore::run(&options),
            Self::Generate(options) => generate::run(&options),
            Self::Bench(options) => bench::run(&options),
        }
    }
}

/// Runs the program with its arguments, the first being its name.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let exit = match Cli::try_parse_from(arguments) {
        Ok(cli) => task_process::behave().and_then(|()| cli.command.run()),
        Err(error) => wrong_use(&error),
    };
    let exit = exit.unwrap_or_else(|failure| {
        output::failure(&failure);
        failure.exit
    });
    ExitCode::from(exit as u8)
}

/// Prints help and version as they are, and wrong use the way all errors are printed.
fn wrong_use(error: &clap::Error) -> Result<Exit, Failure> {
    if !error.use_stderr() {
        error.print()?;
        return Ok(Exit::Done);
    }
    let text = error.render().to_string();
    let text = text.replace("\n\n  tip: ", "\nroster: hint: ");
    match text.strip_prefix("error: ") {
        Some(text) => output::note(format_args!("roster: error: {}", text.trim_end())),
        None => output::note(format_args!("{}", text.trim_end())),
    }
    Ok(Exit::Local)
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  refused by the server, or a wrong response from it; of diff: something differs; of
       doctor: something is wrong
    2  wrong usage, or a local failure (the message says which)
  130  ended by Ctrl-C, a benchmark also by SIGTERM

'roster <command> --help' explains a command, with examples.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::{DATA_DEFAULT, DATA_VARIABLE};

    #[test]
    fn the_table_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    /// Every command that asks a server finds it by LDAPURI, and every command that needs a data
    /// directory finds that as `serve` does, whatever the command is.
    #[test]
    fn commands_find_the_server_and_the_directory_alike() {
        use clap::CommandFactory as _;
        let mut seen = [0, 0];
        look(&Cli::command(), &mut String::new(), &mut seen);
        assert!(seen[0] >= 30 && seen[1] >= 8, "{seen:?}");
    }

    fn look(command: &clap::Command, path: &mut String, seen: &mut [usize; 2]) {
        for one in command.get_subcommands() {
            let length = path.len();
            path.extend([" ", one.get_name()]);
            look(one, path, seen);
            path.truncate(length);
        }
        for argument in command.get_arguments() {
            let variable = argument.get_env().and_then(|name| name.to_str());
            let defaults = argument.get_default_values();
            match argument.get_id().as_str() {
                // Without a default they need no server: the option says that one is meant.
                "uri" if !defaults.is_empty() => {
                    assert_eq!(variable, Some("LDAPURI"), "{path}");
                    seen[0] += 1;
                }
                "data" if variable.is_some() || !defaults.is_empty() => {
                    assert_eq!(variable, Some(DATA_VARIABLE), "{path}");
                    assert_eq!(defaults, [DATA_DEFAULT], "{path}");
                    seen[1] += 1;
                }
                // The settings say where it is, as of 'serve'; or it stands for a server.
                "data" => assert!(DATA_BY_SETTINGS.contains(&path.trim_start()), "{path}"),
                _ => {}
            }
        }
    }

    /// Where --data may be left out because the settings say where, or a server is meant then.
    const DATA_BY_SETTINGS: &[&str] = &[
        "demo",
        "serve",
        "status",
        "doctor",
        "log failures",
        "account set-administrator-password",
        "cluster init",
        "config apply",
        "index status",
        "index verify",
        "index rebuild",
        "index add",
        "index drop",
        "schema list",
        "schema add",
        "naming-context list",
        "naming-context add",
        "naming-context rename",
        "naming-context empty",
        "naming-context drop",
    ];

    /// The words of a command line with single quotes.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let mut words = Vec::new();
        for (number, part) in parts {
            match number % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    /// Those who know the commands of other servers find commands that there are.
    #[test]
    fn the_commands_of_the_page_of_equivalents_can_be_read() {
        let page = include_str!("../../../docs/how-to/dsconfig-and-dsconf.md");
        let commands = page.split('`').skip(1).step_by(2);
        let commands: Vec<&str> = commands.filter(|text| text.starts_with("roster ")).collect();
        for line in &commands {
            let read = Cli::try_parse_from(words(line)).map(drop);
            let names_only = words(line).len() <= 3;
            // A command that is named without its arguments has to exist.
            let is_there = |error: &clap::Error| {
                names_only && error.kind() == clap::error::ErrorKind::MissingRequiredArgument
            };
            assert!(read.is_ok() || read.as_ref().is_err_and(is_there), "{line}: {read:?}");
        }
        assert!(commands.len() >= 30, "{commands:?}");
    }

    #[test]
    fn the_directory_is_by_default_where_the_settings_say() {
        let settings = server::Settings::default();
        assert_eq!(settings.server.data, std::path::Path::new(DATA_DEFAULT));
    }
}
