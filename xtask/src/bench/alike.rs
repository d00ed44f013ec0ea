//! Whether all servers would answer alike: the same number of entries for some filters of each
//! kind, and the same attributes to a person.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use testing::crash::server::SUFFIX;

use crate::servers::Server;

/// Filters of each kind that are asked.
const SAMPLES: u64 = 4;

/// Who asks which server.
pub(super) type Asking<'a> = (&'a Server, (&'a str, &'a str));

/// Fails when some find another number of entries than others.
pub(super) fn find(list: &[Asking<'_>], pattern: &str) -> Result<(), String> {
    for sample in 0..SAMPLES {
        let filter = fill(pattern, sample);
        same(list, &filter, |asking| {
            let text = ask(asking, &["-b", SUFFIX, &filter, "1.1"])?;
            Ok(text.lines().filter(|line| line.starts_with("dn:")).count())
        })?;
    }
    Ok(())
}

/// Fails when some show a person other attributes of an entry than others.
pub(super) fn show(list: &[Asking<'_>], dn: &str) -> Result<(), String> {
    same(list, dn, |asking| {
        let text = ask(asking, &["-b", dn, "-s", "base", "(objectClass=*)"])?;
        let names = text.lines().filter_map(|line| line.split_once(':'));
        let mut names: Vec<String> = names.map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    })
}

fn same<T: PartialEq + std::fmt::Debug>(
    list: &[Asking<'_>],
    what: &str,
    answer: impl Fn(&Asking<'_>) -> Result<T, String>,
) -> Result<(), String> {
    let mut first: Option<(&str, T)> = None;
    for asking in list {
        let (name, answer) = (asking.0.name, answer(asking)?);
        match &first {
            None => first = Some((name, answer)),
            Some((_, known)) if *known == answer => {}
            Some((other, known)) => {
                return Err(format!("{what}: {other} gives {known:?}, {name} {answer:?}"));
            }
        }
    }
    Ok(())
}

/// A filter of the pattern: numbers spread over their ranges.
fn fill(pattern: &str, sample: u64) -> String {
    let mut filter = String::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('[') {
        let Some((range, after)) = behind.split_once(']') else { break };
        let Some((low, high)) = range.split_once('-') else { break };
        let (first, last): (u64, u64) = (low.parse().unwrap_or(0), high.parse().unwrap_or(0));
        let number = first + (last - first) / (SAMPLES + 1) * (sample + 1);
        let _ = write!(filter, "{before}{number:0width$}", width = low.len());
        rest = after;
    }
    filter.push_str(rest);
    filter
}

fn ask((server, (dn, password)): &Asking<'_>, words: &[&str]) -> Result<String, String> {
    let output = Command::new("ldapsearch")
        .args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", &format!("ldap://{}", server.address)])
        .args(["-D", dn, "-w", password])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ldapsearch: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(format!("ldapsearch of {}: {why}", server.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_over_the_range() {
        assert_eq!(fill("(a=[000-699]*)(b=[1-9])", 0), "(a=139*)(b=2)");
    }
}
