//! `roster cluster verify`: comparing what all members of a cluster have stored, while they serve.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use client::Connection;
use directory::{VERIFY, VerifyAnswer, VerifyDifference, VerifyOdd, VerifyRequest};
use ldap::result::ResultCode;

use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::table::number;
use crate::{interrupt, output, progress};

/// Compare what all members have stored, entry by entry, while they serve.
///
/// It reads all entries again on each member, at the same change of each, no faster than
/// cluster.verify_mib_per_second of the server that is asked, and names what differs: never a
/// value. It needs the privilege config-write. Ctrl-C ends it on the servers, too. Indexes are not
/// compared: 'roster index verify' compares those of one server with its entries. Exits with 1 if
/// something differs, or a member could not be compared.
#[derive(Args, Debug)]
pub(super) struct Verify {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    servers: ServerOptions,
}

pub(super) fn verify(options: &Verify) -> Result<Exit, Failure> {
    let interrupted = interrupt::flag()?;
    let (mut connection, mut told) = begin(&options.servers)?;
    let bar = progress::bar(Some(told.of_entries), "entries");
    bar.set_message("comparing");
    let run = told.run;
    let mut differences = std::mem::take(&mut told.differences);
    while told.state == RUNNING || differences.len() < told.named {
        if interrupted.load(Ordering::Relaxed) {
            // Else it would go on until nobody has asked for a while.
            let _ = ask(&mut connection, VerifyRequest::Stop { run });
            bar.finish_and_clear();
            return Err(Failure::interrupted("interrupted: the comparison was ended"));
        }
        bar.set_length(told.of_entries.max(told.entries));
        bar.set_position(told.entries);
        if told.state == RUNNING {
            thread::park_timeout(LOOK_EVERY);
        }
        told = ask(&mut connection, VerifyRequest::Look { run, told: differences.len() })?;
        let more = std::mem::take(&mut told.differences);
        if more.is_empty() && told.state != RUNNING {
            break;
        }
        differences.extend(more);
    }
    bar.finish_and_clear();
    told.differences = differences;
    if options.json {
        output::json(&told)?;
    } else {
        tell(&told)?;
    }
    Ok(if is_alike(&told) { Exit::Done } else { Exit::Refused })
}

/// Begins a comparison on the first server that answers.
fn begin(servers: &ServerOptions) -> Result<(Connection, VerifyAnswer), Failure> {
    let mut connection = servers.connect()?;
    let told = ask(&mut connection, VerifyRequest::Start {})?;
    Ok((connection, told))
}

fn ask(connection: &mut Connection, asked: VerifyRequest) -> Result<VerifyAnswer, Failure> {
    let value = serde_json::to_vec(&asked)
        .map_err(|error| Failure::local(format!("the question cannot be encoded: {error}")))?;
    let (outcome, answer) = connection.extended(VERIFY, Some(&value))?;
    let code = outcome.code;
    if !outcome.is_success() {
        let diagnostic = outcome.diagnostic.clone();
        let failure = match outcome.into_result("comparison of the data") {
            Err(error) => Failure::from(error),
            Ok(()) => Failure::refused(""),
        };
        return Err(match code {
            ResultCode::Busy => {
                Failure::refused(diagnostic).hint("wait until that is over, or end it with Ctrl-C")
            }
            ResultCode::UnwillingToPerform => Failure::refused(diagnostic),
            ResultCode::InsufficientAccessRights => failure.hint(ADMINISTRATOR_HINT),
            ResultCode::ProtocolError => {
                failure.hint("does the server run an earlier release? Upgrade it first")
            }
            _ => failure,
        });
    }
    serde_json::from_slice(&answer.unwrap_or_default())
        .map_err(|error| Failure::refused(format!("the server sent a malformed answer: {error}")))
}

/// Whether all members were compared, and have the same.
fn is_alike(told: &VerifyAnswer) -> bool {
    told.state == DONE
        && told.differing == 0
        && told.members.iter().all(|member| member.not_compared.is_none())
}

fn tell(told: &VerifyAnswer) -> Result<(), Failure> {
    for difference in &told.differences {
        named(difference).iter().try_for_each(|line| shown(line))?;
    }
    output::line(format_args!("{}", summary(told)))?;
    for member in &told.members {
        if let Some(why) = &member.not_compared {
            output::note(format_args!(
                "roster: note: member {} was not compared: {why}",
                member.member
            ));
        }
    }
    let shown = told.differences.len() as u64;
    if shown < told.differing {
        let more = told.differing - shown;
        output::note(format_args!("roster: note: {more} more differ, and are not named"));
    }
    if told.differences.iter().any(|difference| !difference.clear) {
        output::note(format_args!(
            "roster: note: where no majority has the same, nobody knows which member is right: \
             compare the values by hand"
        ));
    }
    if told.differing > 0 {
        output::note(format_args!(
            "roster: note: make a member that differs from the others anew: see \
             docs/how-to/cluster.md, 'Compare the copies'"
        ));
    }
    Ok(())
}

/// Writes a line; names may hold anything.
fn shown(line: &str) -> std::io::Result<()> {
    output::line(format_args!("{}", output::within_line(line)))
}

/// What of an entry differs, in lines.
fn named(difference: &VerifyDifference) -> Vec<String> {
    let VerifyDifference { entry, name, uuid, clear, members } = difference;
    let mut line = match (entry, &**name) {
        (0, name) => name.to_owned(),
        (id, "") => format!("entry {id}, whose name cannot be read"),
        (id, name) => format!("{name} (entry {id}, entryUUID {})", or_none(uuid)),
    };
    if !clear {
        line.push_str(": no majority has the same");
    }
    let mut lines = vec![line];
    for odd in members {
        lines.push(format!("  member {}: {}", odd.member, how(odd, *entry == 0)));
    }
    lines
}

fn or_none(uuid: &str) -> &str {
    if uuid.is_empty() { "none" } else { uuid }
}

fn how(odd: &VerifyOdd, is_row: bool) -> String {
    match &*odd.how {
        "missing" => "missing".to_owned(),
        "surplus" => "there, and not on most".to_owned(),
        "unreadable" => format!("cannot be read: {}", odd.why.as_deref().unwrap_or("damaged")),
        _ if is_row => "another value".to_owned(),
        _ => {
            let mut what = Vec::new();
            if odd.name {
                what.push("another name".to_owned());
            }
            if !odd.attributes.is_empty() {
                what.push(format!("other values of {}", odd.attributes.join(", ")));
            }
            match what.is_empty() {
                true => "the same in another order".to_owned(),
                false => what.join(", and "),
            }
        }
    }
}

fn summary(told: &VerifyAnswer) -> String {
    let compared: Vec<&_> =
        told.members.iter().filter(|member| member.not_compared.is_none()).collect();
    let entries = number(told.entries);
    if told.state != DONE {
        let why = told.why.as_deref().unwrap_or("it was ended");
        return format!("not compared to the end: {why}; {entries} entries were compared");
    }
    let (count, first, last) = (compared.len(), told.first_lsn, told.last_lsn);
    let at = match first == last {
        true => format!("at change {first}"),
        false => format!("at changes {first} to {last}"),
    };
    if told.differing == 0 {
        return format!("{count} members have stored the same: {entries} entries, {at}");
    }
    let odd = told.members.iter().filter(|member| member.differing > 0);
    let odd = odd.map(|member| format!("member {}: {}", member.member, member.differing));
    let odd = odd.collect::<Vec<_>>().join(", ");
    let differing = told.differing;
    format!("{differing} of {entries} entries differ among {count} members, {at}; {odd}")
}

const RUNNING: &str = "running";
const DONE: &str = "done";
/// How often it is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use directory::VerifyMember;

    use super::*;

    fn odd(member: u64, how: &str, attributes: &[&str]) -> VerifyOdd {
        let attributes = attributes.iter().map(|one| (*one).to_owned()).collect();
        VerifyOdd { member, how: how.to_owned(), why: None, name: false, attributes }
    }

    #[test]
    fn what_differs_is_told_in_words() {
        let mut difference = VerifyDifference {
            entry: 5,
            name: "cn=a,dc=b".to_owned(),
            uuid: "u".to_owned(),
            clear: true,
            members: vec![odd(2, "differs", &["cn", "sn"]), odd(3, "missing", &[])],
        };
        let want = "cn=a,dc=b (entry 5, entryUUID u)\n  member 2: other values of cn, sn\n  \
                    member 3: missing";
        assert_eq!(named(&difference).join("\n"), want);
        let moved = VerifyOdd { name: true, ..odd(2, "differs", &["cn"]) };
        let damaged = VerifyOdd { why: Some("is empty".to_owned()), ..odd(3, "unreadable", &[]) };
        difference.members = vec![moved, damaged, odd(4, "differs", &[]), odd(5, "surplus", &[])];
        (difference.name, difference.clear) = (String::new(), false);
        let want = "entry 5, whose name cannot be read: no majority has the same\n  member 2: \
                    another name, and other values of cn\n  member 3: cannot be read: is empty\n  \
                    member 4: the same in another order\n  member 5: there, and not on most";
        assert_eq!(named(&difference).join("\n"), want);
        difference.members = vec![odd(2, "differs", &[])];
        (difference.name, difference.entry, difference.clear) = ("setting a".to_owned(), 0, true);
        assert_eq!(named(&difference), ["setting a", "  member 2: another value"]);
    }

    #[test]
    fn what_came_of_it_is_one_line() {
        let member = |member, differing, why: Option<&str>| VerifyMember {
            member,
            differing,
            not_compared: why.map(str::to_owned),
        };
        let mut told = VerifyAnswer {
            run: 1,
            state: DONE.to_owned(),
            why: None,
            entries: 9,
            of_entries: 9,
            bytes: 1,
            first_lsn: 3,
            last_lsn: 7,
            positions: 2,
            members: vec![member(1, 0, None), member(2, 0, None), member(3, 0, None)],
            differing: 0,
            named: 0,
            differences: Vec::new(),
        };
        assert!(is_alike(&told));
        let same = "3 members have stored the same: 9 entries, at changes 3 to 7";
        assert_eq!(summary(&told), same);
        told.members[2] = member(3, 0, Some("it is behind"));
        assert!(!is_alike(&told));
        (told.first_lsn, told.last_lsn) = (7, 7);
        assert_eq!(summary(&told), "2 members have stored the same: 9 entries, at change 7");
        (told.members[1].differing, told.differing) = (2, 2);
        let differ = "2 of 9 entries differ among 2 members, at change 7; member 2: 2";
        assert_eq!(summary(&told), differ);
        (told.state, told.why) = ("stopped".to_owned(), Some("it was stopped".to_owned()));
        let stopped = "not compared to the end: it was stopped; 9 entries were compared";
        assert_eq!((summary(&told), is_alike(&told)), (stopped.to_owned(), false));
    }
}
