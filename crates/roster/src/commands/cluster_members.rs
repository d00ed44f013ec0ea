//! `roster cluster promote`, `demote`, `remove`, `replace` and `transfer`: changing who takes part
//! in a cluster while it runs.
//!
//! Invariant: each can be run again, whatever became of it before: what is so already is no error,
//! but for a number that is gone.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use cluster::member_numbers as numbers;
use directory::{CHANGE_MEMBERS, MembersRequest};
use ldap::result::ResultCode;
use serde::Deserialize;

use crate::connect::{ADMINISTRATOR_HINT, Login, ServerOptions, note_passed_over};
use crate::failure::{Exit, Failure};
use crate::{output, progress};

/// Which member leads, and how it is asked.
#[derive(Args, Debug)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    servers: ServerOptions,
}

/// Make learners voters, all that are named at once.
///
/// A learner must have caught up. The number of voters must be odd afterwards, and 7 at the most:
/// name two to go from 3 to 5.
#[derive(Args, Debug)]
pub(super) struct Promote {
    /// Numbers of learners
    #[arg(required = true, value_name = "NUMBER")]
    members: Vec<u64>,

    #[command(flatten)]
    common: Common,
}

/// Make voters learners, all that are named at once.
///
/// They go on getting all changes and answering reads. The number of voters must be odd afterwards.
#[derive(Args, Debug)]
pub(super) struct Demote {
    /// Numbers of voters
    #[arg(required = true, value_name = "NUMBER")]
    members: Vec<u64>,

    #[command(flatten)]
    common: Common,
}

/// Remove members for ever, all that are named at once; they may be dead.
///
/// A number that was removed is never used again: a machine that comes back joins as a new member.
/// To remove one dead voter of three, use 'replace'.
#[derive(Args, Debug)]
pub(super) struct Remove {
    /// Numbers of members
    #[arg(required = true, value_name = "NUMBER")]
    members: Vec<u64>,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    common: Common,
}

/// Put a learner in the place of a voter, in one step, and remove the voter for ever; it may be
/// dead.
#[derive(Args, Debug)]
pub(super) struct Replace {
    /// The number of the voter that goes
    #[arg(value_name = "NUMBER")]
    member: u64,

    /// The number of the learner that comes
    #[arg(value_name = "BY")]
    by: u64,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    common: Common,
}

/// Have a member be found elsewhere: by the other members, by clients, or both.
///
/// What it listens on is in its own roster.toml: change that, and restart it, just before or just
/// after. Meanwhile the others do not reach it.
#[derive(Args, Debug)]
pub(super) struct Rename {
    /// The number of the member
    #[arg(value_name = "NUMBER")]
    member: u64,

    /// Where the other members reach it from now on
    #[arg(short, long, value_name = "HOST:PORT", required_unless_present = "url")]
    address: Option<String>,

    /// Where clients reach it from now on
    #[arg(short, long, value_name = "URL")]
    url: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Have another voter lead.
#[derive(Args, Debug)]
pub(super) struct Transfer {
    /// The number of the voter
    #[arg(value_name = "NUMBER")]
    to: u64,

    #[command(flatten)]
    common: Common,
}

/// What it answers.
#[derive(Debug, Deserialize)]
struct Answer {
    outcome: String,
}

pub(super) fn promote(options: &Promote) -> Result<Exit, Failure> {
    change(&options.common, &MembersRequest::Promote { members: set(&options.members) })
}

pub(super) fn demote(options: &Demote) -> Result<Exit, Failure> {
    change(&options.common, &MembersRequest::Demote { members: set(&options.members) })
}

pub(super) fn remove(options: &Remove) -> Result<Exit, Failure> {
    let members = set(&options.members);
    if !options.yes {
        confirm(&format!("Remove {} for ever?", numbers(&members)))?;
    }
    change(&options.common, &MembersRequest::Remove { members })
}

pub(super) fn replace(options: &Replace) -> Result<Exit, Failure> {
    let Replace { member, by, .. } = options;
    if !options.yes {
        confirm(&format!("Remove member {member} for ever, and put member {by} in its place?"))?;
    }
    change(&options.common, &MembersRequest::Replace { member: *member, by: *by })
}

pub(super) fn rename(options: &Rename) -> Result<Exit, Failure> {
    let Rename { member, address, url, common } = options;
    let [address, url] = [address, url].map(|text| text.clone().unwrap_or_default());
    change(common, &MembersRequest::Rename { member: *member, address, url })
}

pub(super) fn transfer(options: &Transfer) -> Result<Exit, Failure> {
    change(&options.common, &MembersRequest::Transfer { to: options.to })
}

fn change(options: &Common, asked: &MembersRequest) -> Result<Exit, Failure> {
    let value = serde_json::to_vec(asked)
        .map_err(|error| Failure::local(format!("the change cannot be encoded: {error}")))?;
    let bar = progress::bar(None, "");
    bar.set_message("waiting for the member that leads to carry it out");
    bar.enable_steady_tick(TICK);
    let answered = ask_any(&options.servers, &value);
    bar.finish_and_clear();
    let is_done_before = answered?.outcome == ALREADY;
    if options.json {
        let outcome = if is_done_before { ALREADY } else { "done" };
        output::json(&serde_json::json!({ "asked": asked, "outcome": outcome }))?;
    } else {
        output::line(format_args!("{}", told(asked, is_done_before)))?;
    }
    Ok(Exit::Done)
}

/// What is so now.
fn told(asked: &MembersRequest, is_done_before: bool) -> String {
    let already = if is_done_before { " already" } else { " now" };
    let many = |members: &BTreeSet<u64>, one: &str, several: &str| {
        let what = if members.len() == 1 { one } else { several };
        format!("{} {what}{already}", numbers(members))
    };
    match asked {
        MembersRequest::Promote { members } => many(members, "is a voter", "are voters"),
        MembersRequest::Demote { members } => many(members, "is a learner", "are learners"),
        MembersRequest::Remove { members } => {
            let is = if members.len() == 1 { "is" } else { "are" };
            format!("{} {is} removed", numbers(members))
        }
        MembersRequest::Replace { member, by } => {
            format!("member {by} has the place of member {member}{already}")
        }
        MembersRequest::Rename { member, address, url } => {
            let places: Vec<&str> = [address, url]
                .into_iter()
                .map(String::as_str)
                .filter(|it| !it.is_empty())
                .collect();
            format!("member {member} is at {}{already}", places.join(" and "))
        }
        MembersRequest::Transfer { to } => format!("member {to} leads{already}"),
    }
}

/// Asks the servers, one after the other, until one can answer.
fn ask_any(servers: &ServerOptions, value: &[u8]) -> Result<Answer, Failure> {
    let mut failed = None;
    let logins = servers.logins()?;
    let is_one = logins.len() == 1;
    for login in logins {
        let login = if is_one { login } else { login.among_others() };
        match ask(&login, value) {
            Err(failure) if failure.is_passing => {
                if !is_one {
                    note_passed_over(login.uri(), &failure);
                }
                failed = failed.or(Some(failure));
            }
            answered => return answered,
        }
    }
    Err(failed.unwrap_or_else(|| Failure::local("no server is named")))
}

fn ask(login: &Login, value: &[u8]) -> Result<Answer, Failure> {
    let mut connection = login.connect()?;
    let (outcome, answer) = connection.extended(CHANGE_MEMBERS, Some(value))?;
    let code = outcome.code;
    if !outcome.is_success() {
        let diagnostic = outcome.diagnostic.clone();
        let failure = match outcome.into_result("change of the members") {
            Err(error) => Failure::from(error),
            Ok(()) => Failure::refused(""),
        };
        return Err(match code {
            ResultCode::UnwillingToPerform => Failure::refused(diagnostic),
            ResultCode::InsufficientAccessRights => failure.hint(ADMINISTRATOR_HINT),
            ResultCode::Unavailable => Failure { is_passing: true, ..failure }
                .hint("'roster cluster status' shows which members answer"),
            ResultCode::Busy => failure.hint("wait until it is over, then run the command again"),
            ResultCode::Other => failure.hint(
                "look at 'roster cluster status', and run the command again: what has happened is \
                 not done twice",
            ),
            ResultCode::ProtocolError => {
                failure.hint("does the server run an earlier release? Upgrade it first")
            }
            _ => failure,
        });
    }
    serde_json::from_slice(&answer.unwrap_or_default())
        .map_err(|error| Failure::refused(format!("the server sent a malformed answer: {error}")))
}

/// Goes on only if somebody says yes.
fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::local("nobody can be asked: standard input is no terminal")
            .hint("say --yes if that is what you want"));
    }
    output::note(format_args!("{question} [y/N]"));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::local("nothing was changed")),
    }
}

fn set(members: &[u64]) -> BTreeSet<u64> {
    members.iter().copied().collect()
}

const ALREADY: &str = "already";
/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_so_is_told() {
        let members = || BTreeSet::from([4, 65_600]);
        assert_eq!(
            told(&MembersRequest::Promote { members: [4].into() }, false),
            "member 4 is a voter now"
        );
        assert_eq!(
            told(&MembersRequest::Promote { members: members() }, true),
            "members 4 and 65600 are voters already"
        );
        assert_eq!(
            told(&MembersRequest::Demote { members: members() }, false),
            "members 4 and 65600 are learners now"
        );
        assert_eq!(
            told(&MembersRequest::Remove { members: [4].into() }, false),
            "member 4 is removed"
        );
        assert_eq!(
            told(&MembersRequest::Replace { member: 3, by: 65_600 }, false),
            "member 65600 has the place of member 3 now"
        );
        assert_eq!(told(&MembersRequest::Transfer { to: 2 }, true), "member 2 leads already");
    }
}
