//! Sessions of a server, over LDAP: entries below `cn=Sessions,cn=monitor`; to delete one is to
//! close it.
//!
//! Invariant: one session that cannot be closed does not keep the others from it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use client::{Connection, FoundEntry, SearchFor};
use directory::password_policy::time;
use environment::Timestamp;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::Scope;
use ldap::result::ResultCode;
use serde::Serialize;

use crate::account::moment;
use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{Side, Table, number};

/// Which sessions are meant; none of both: all.
#[derive(Clone, Copy)]
pub(crate) struct Which<'a> {
    pub(crate) identity: Option<&'a str>,
    pub(crate) address: Option<&'a str>,
}

/// A session, as the server shows it.
#[derive(Serialize)]
struct Session {
    number: u64,
    identity: Option<String>,
    mechanism: Option<String>,
    address: String,
    listener: String,
    tls: Option<String>,
    since: String,
    last_activity: String,
    operations: u64,
    outstanding: u64,
    waiting_bytes: u64,
}

impl Session {
    fn of(entry: &FoundEntry) -> Option<Self> {
        let text = |name: &str| entry.text(&format!("roster-session-{name}")).map(str::to_owned);
        let count = |name: &str| text(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(Self {
            number: entry.text("cn")?.parse().ok()?,
            identity: text("bind-dn"),
            mechanism: text("mechanism"),
            address: text("address").unwrap_or_default(),
            listener: text("listener").unwrap_or_default(),
            tls: text("tls"),
            since: text("since").unwrap_or_default(),
            last_activity: text("last-activity").unwrap_or_default(),
            operations: count("operations"),
            outstanding: count("outstanding"),
            waiting_bytes: count("waiting-bytes"),
        })
    }

    fn is_from(&self, address: &str) -> bool {
        let Ok(asked) = address.parse::<IpAddr>() else { return self.address == address };
        let own = self.address.parse().map(|socket: SocketAddr| socket.ip());
        own.is_ok_and(|own| own.to_canonical() == asked.to_canonical())
    }
}

/// Prints the sessions.
pub(crate) fn list(
    connection: &mut Connection,
    which: Which<'_>,
    json: bool,
) -> Result<Exit, Failure> {
    let all = read(connection, which)?;
    if json {
        output::json(&all)?;
    } else {
        output::line(format_args!("{}", text(&all)))?;
    }
    Ok(Exit::Done)
}

/// Closes those that are meant.
pub(crate) fn close_all(connection: &mut Connection, which: Which<'_>) -> Result<Exit, Failure> {
    let all = read(connection, which)?;
    if all.is_empty() {
        return Err(Failure::refused("there is no such session")
            .hint("'roster session list' shows those there are"));
    }
    // The own one may be among them: it is one of the newest.
    for one in all {
        match end(connection, one.number)? {
            Ended::Closed => {
                let who = output::within_line(one.identity.as_deref().unwrap_or("nobody"));
                output::line(format_args!("{}: closed, {who} at {}", one.number, one.address))?;
            }
            Ended::Missing => {
                output::line(format_args!("{}: it ended by itself meanwhile", one.number))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Closes these.
pub(crate) fn close(connection: &mut Connection, numbers: &[u64]) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for &number in numbers {
        match end(connection, number)? {
            Ended::Closed => output::line(format_args!("{number}: closed"))?,
            Ended::Missing => {
                output::failure(
                    &Failure::refused(format!("there is no session {number}"))
                        .hint("'roster session list' shows those there are"),
                );
                exit = Exit::Refused;
            }
        }
    }
    Ok(exit)
}

enum Ended {
    Closed,
    Missing,
}

fn end(connection: &mut Connection, number: u64) -> Result<Ended, Failure> {
    let outcome = connection.delete(&format!("cn={number},{SESSIONS}"))?;
    match outcome.code {
        ResultCode::Success => Ok(Ended::Closed),
        ResultCode::NoSuchObject => Ok(Ended::Missing),
        ResultCode::InsufficientAccessRights => {
            Err(Failure::refused(outcome.to_string()).hint(PRIVILEGE_HINT))
        }
        _ => Err(Failure::refused(format!("{number}: {outcome}"))),
    }
}

/// The sessions that are meant, the oldest first.
fn read(connection: &mut Connection, which: Which<'_>) -> Result<Vec<Session>, Failure> {
    let identity = |dn| AvaFilter { description: BIND_DN, value: Cow::Borrowed(dn) };
    let filter = match which.identity {
        Some(dn) if !dn.is_empty() => Filter::Equality(identity(dn.as_bytes())),
        Some(_) | None => Filter::Present("objectClass"),
    };
    let asked = SearchFor { scope: Scope::One, ..SearchFor::below(SESSIONS, filter) };
    let found = connection.search(&asked)?;
    if found.outcome.code == ResultCode::NoSuchObject {
        return Err(Failure::refused("the server shows its sessions only to its administrator")
            .hint(ADMINISTRATOR_HINT));
    }
    found.outcome.into_result("search")?;
    let mut all = found.entries.iter().filter_map(Session::of).collect::<Vec<_>>();
    all.retain(|one| which.address.is_none_or(|address| one.is_from(address)));
    all.retain(|one| which.identity.is_none_or(|dn| !dn.is_empty() || one.identity.is_none()));
    all.sort_by_key(|one| one.number);
    Ok(all)
}

fn text(all: &[Session]) -> String {
    let mut table = Table::new(&[
        ("number", Side::Right),
        ("identity", Side::Left),
        ("address", Side::Left),
        ("listener", Side::Left),
        ("TLS", Side::Left),
        ("since (UTC)", Side::Left),
        ("idle", Side::Left),
        ("operations", Side::Right),
        ("under way", Side::Right),
        ("waiting octets", Side::Right),
    ]);
    // By the clock of the server, which has just answered.
    let now = all.iter().filter_map(|one| time(&one.last_activity)).max();
    for one in all {
        let dash = || "–".to_owned();
        table.row(vec![
            one.number.to_string(),
            one.identity.clone().unwrap_or_else(dash),
            one.address.clone(),
            one.listener.clone(),
            one.tls.clone().unwrap_or_else(dash),
            moment::written(&one.since),
            idle(one, now).unwrap_or_else(dash),
            number(one.operations),
            number(one.outstanding),
            number(one.waiting_bytes),
        ]);
    }
    format!("{table}\n{} session{}", all.len(), if all.len() == 1 { "" } else { "s" })
}

/// How long nothing was heard of the client.
fn idle(one: &Session, now: Option<Timestamp>) -> Option<String> {
    let length = now?.0.saturating_sub(time(&one.last_activity)?.0);
    Some(moment::rough(Duration::from_micros(length))).filter(|text| !text.is_empty())
}

const SESSIONS: &str = "cn=Sessions,cn=monitor";
const BIND_DN: &str = "roster-session-bind-dn";

/// Who may close.
const PRIVILEGE_HINT: &str = "run it as the administrator (-D 'cn=Directory Manager' -W), or as an \
                              identity with the privilege disconnect-client";

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Session {
        Session {
            number: 17,
            identity: None,
            mechanism: None,
            address: address.to_owned(),
            listener: "ldap".to_owned(),
            tls: None,
            since: "20270131180000Z".to_owned(),
            last_activity: "20270131180100Z".to_owned(),
            operations: 1_234,
            outstanding: 0,
            waiting_bytes: 0,
        }
    }

    #[test]
    fn an_address_is_of_all_its_ports_and_one_with_a_port_of_that() {
        assert!(at("192.0.2.7:4711").is_from("192.0.2.7"));
        assert!(at("192.0.2.7:4711").is_from("192.0.2.7:4711"));
        assert!(!at("192.0.2.7:4711").is_from("192.0.2.7:47"));
        assert!(!at("192.0.2.71:4711").is_from("192.0.2.7"));
        assert!(at("[2001:db8::1]:389").is_from("2001:DB8:0::1"));
        assert!(at("[::ffff:192.0.2.7]:389").is_from("192.0.2.7"));
        assert!(at("local").is_from("local"));
        assert!(!at("local").is_from("192.0.2.7"));
    }

    #[test]
    fn a_session_is_a_line_and_idle_is_by_the_clock_of_the_server() {
        let quiet = Session { last_activity: "20270131175800Z".to_owned(), ..at("local") };
        let text = text(&[at("192.0.2.7:1"), quiet]);
        let lines = text.lines().collect::<Vec<_>>();
        assert!(lines[1].contains("2027-01-31 18:00") && lines[1].contains("1,234"), "{text}");
        assert!(lines[2].contains("3 minutes"), "{text}");
        assert_eq!(lines.last(), Some(&"2 sessions"));
    }

    #[test]
    fn a_name_neither_moves_the_cursor_nor_makes_a_line_of_its_own() {
        let name = "cn=\u{9b}2J\u{202e}\n18  cn=Directory Manager".to_owned();
        let text = text(&[Session { identity: Some(name), ..at("local") }]);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains(r"cn=\u{9b}2J\u{202e}\u{a}18"), "{text}");
    }
}
