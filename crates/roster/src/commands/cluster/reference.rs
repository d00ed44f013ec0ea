//! `docs/reference/cluster.md`, made from the commands as they are and the attributes of the
//! schema.

use std::fmt::Write as _;

use clap::{Arg, Args as _, Command};
use schema::Schema;

use super::Options;
use crate::connect::ServerOptions;

#[test]
fn the_reference_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cluster.md");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page(), "see its head");
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let cluster = Options::augment_args(Command::new("roster cluster"));
    let login = ServerOptions::augment_args(Command::new("any"));
    for command in cluster.get_subcommands() {
        let what = command.get_long_about().or(command.get_about()).unwrap_or_default();
        let _ = write!(page, "\n### roster cluster {}\n\n{what}\n\n", command.get_name());
        page.push_str(OPTIONS);
        let all: Vec<&Arg> = command.get_arguments().filter(|one| !one.is_hide_set()).collect();
        let is_login =
            |one: &&Arg| login.get_arguments().any(|other| other.get_id() == one.get_id());
        all.iter().filter(|one| !is_login(one)).for_each(|one| option(&mut page, one));
        if all.iter().any(is_login) {
            page.push_str(
                "| `-H` `URI` … | [the server, and who asks](#the-server-and-who-asks) |\n",
            );
        }
    }
    page.push_str("\n### The server, and who asks\n\n");
    page.push_str(OPTIONS);
    let shown = login.get_arguments().filter(|one| !one.is_hide_set());
    shown.for_each(|one| option(&mut page, one));
    page.push_str(MONITOR);
    let schema = Schema::builtin();
    let is_of_cluster = |name: &str| {
        name.starts_with("roster-cluster-") || name.starts_with("ds-mon-") || OPENDJ.contains(&name)
    };
    let mut shown: Vec<(&str, &str)> = schema
        .attribute_types()
        .map(|one| (one.name(), one.description.as_deref().unwrap_or_default()))
        .filter(|(name, _)| is_of_cluster(name))
        .collect();
    shown.sort_unstable();
    for (name, what) in shown {
        let _ = writeln!(page, "| `{name}` | {what} |");
    }
    page
}

fn option(page: &mut String, argument: &Arg) {
    let mut name = Vec::new();
    name.extend(argument.get_short().map(|short| format!("`-{short}`")));
    name.extend(argument.get_long().map(|long| format!("`--{long}`")));
    let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let value = value.map(|names| names.join(" ")).unwrap_or_default();
    if !value.is_empty() {
        name.push(format!("`{value}`"));
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let (name, help) = (name.join(" "), help.replace('\n', " ").replace('|', "\\|"));
    let _ = writeln!(page, "| {name} | {help} |");
}

const OPTIONS: &str = "| option | |\n|---|---|\n";

/// Names of OpenDJ that begin with nothing in common.
const OPENDJ: [&str; 1] = ["missing-changes"];

const HEAD: &str = include_str!("reference-head.txt");
const MONITOR: &str = include_str!("reference-monitor.txt");
