//! Comparing indexes with the entries, which the server does.

use client::Connection;
use ldap::message::Scope;

use super::{STATUS, read, status};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;

/// Verifies the indexes, one after the other, and prints what is wrong.
pub(crate) fn run(connection: &mut Connection, asked: &[String]) -> Result<Exit, Failure> {
    let all = status::only(status::list(connection)?, asked)?;
    let mut faulty = 0_u64;
    let bar = progress::bar(Some(all.len() as u64), "indexes");
    for one in &all {
        bar.set_message(one.name.clone());
        if !one.is_valid() {
            let text = format!("{}: {}, not verified", one.name, one.state);
            bar.suspend(|| output::line(format_args!("{text}")))?;
            continue;
        }
        let base = format!("cn={},{STATUS}", escaped(&one.name));
        let entries = read(connection, &base, Scope::Base, &[VERIFY])?;
        let lines: Vec<&str> = entries.iter().flat_map(|entry| entry.texts(VERIFY)).collect();
        if lines.is_empty() {
            return Err(Failure::refused(format!("the server did not verify '{}'", one.name)));
        }
        faulty += u64::from(lines != ["ok"]);
        for line in lines {
            bar.suspend(|| output::line(format_args!("{}: {line}", one.name)))?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if faulty > 0 {
        return Err(Failure::refused(format!("{faulty} of {} indexes are faulty", all.len()))
            .hint("'roster index rebuild INDEX' rebuilds one while the server runs"));
    }
    Ok(Exit::Done)
}

/// A value as it stands in a name (RFC 4514 §2.4).
pub(crate) fn escaped(value: &str) -> String {
    let mut text = String::new();
    for (at, letter) in value.chars().enumerate() {
        let is_edge = at == 0 || at + 1 == value.chars().count();
        let is_special = matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=');
        if is_special || (is_edge && letter == ' ') || (at == 0 && letter == '#') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Asked for, the server verifies.
const VERIFY: &str = "roster-index-verify";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_escaped_in_a_name() {
        let value = "l+title.equality where (uid=a,b)";
        let dn = ldap::dn::Dn::parse(&format!("cn={},cn=x", escaped(value))).unwrap();
        assert_eq!(dn.rdns()[0].avas()[0].value, value.as_bytes());
    }
}
