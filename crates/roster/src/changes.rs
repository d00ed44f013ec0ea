//! Reading changes from a server, any that has `cn=changelog`, and telling them: as LDIF that can
//! be applied elsewhere, as JSON lines, or in a line each.
//!
//! Invariant: a page is held at a time, and who reads goes on behind the last number that came.

pub(crate) mod back;
pub(crate) mod difference;
pub(crate) mod inverse;
pub(crate) mod moments;
pub(crate) mod names;
pub(crate) mod step;
pub(crate) mod values;

use std::io::Write as _;

pub(crate) use directory::{ToldChange, ToldDelta, shown, verb};

use client::{Connection, FoundEntry, SearchAnswer, SearchFor};
use environment::Timestamp;
use ldap::filter::{AvaFilter, Filter};
use ldap::ldif::{LdifChange, push_ldif_line};
use ldap::message::Scope;

use crate::failure::Failure;
use crate::output;

/// Changes that are asked for at a time.
const PAGE_ENTRIES: u32 = 500;

/// What is asked for of a change.
const ATTRIBUTES: &[&str] =
    &["*", "targetEntryUUID", "changeInitiatorsName", "roster-change-purpose"];

/// Attributes that only servers set: who applies changes elsewhere may not send them.
const SERVER_SET: [&str; 8] = [
    "entryUUID",
    "entryCSN",
    "createTimestamp",
    "creatorsName",
    "modifyTimestamp",
    "modifiersName",
    "structuralObjectClass",
    "pwdChangedTime",
];

/// Where in a server's change log the changes are.
pub(crate) const CHANGELOG: &str = "cn=changelog";

/// The change that an entry tells; none if it is no change.
pub(crate) fn told(entry: &FoundEntry) -> Option<ToldChange> {
    ToldChange::read(&|name| {
        let found = entry.attributes.iter().find(|(one, _)| one.eq_ignore_ascii_case(name));
        found.and_then(|(_, values)| values.first().cloned())
    })
}

/// A change as it is printed.
pub(crate) trait Printed {
    /// As LDIF that can be applied elsewhere, with a comment that says whose it is.
    fn ldif(&self) -> Vec<u8>;
    /// In a line: when, who, what.
    fn line(&self) -> String;
}

impl Printed for ToldChange {
    fn ldif(&self) -> Vec<u8> {
        let by = self.by.as_deref().unwrap_or("the server");
        let why = self.purpose.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        let said = format!("change {} at {} by {by}{why}", self.number, self.time);
        let mut out = format!("# {}\n", output::within_line(&said)).into_bytes();
        if self.kind == "delete" {
            for line in self.lines.split_inclusive(|octet| *octet == b'\n') {
                out.extend_from_slice(b"# ");
                out.extend_from_slice(line);
            }
        }
        let lines = match &*self.kind {
            "add" | "modify" => settable_lines(self),
            _ => Vec::new(),
        };
        // Nothing is left that could be applied.
        if self.kind == "modify" && lines.is_empty() {
            out.push(b'\n');
            return out;
        }
        push_ldif_line(&mut out, "dn", self.dn.as_bytes(), 0);
        push_ldif_line(&mut out, "changetype", self.kind.as_bytes(), 0);
        match &*self.kind {
            "modrdn" => {
                let rdn = self.new_rdn.as_deref().unwrap_or_default();
                push_ldif_line(&mut out, "newrdn", rdn.as_bytes(), 0);
                let deletes = if self.deletes_old_rdn { "1" } else { "0" };
                push_ldif_line(&mut out, "deleteoldrdn", deletes.as_bytes(), 0);
                if let Some(superior) = &self.new_superior {
                    push_ldif_line(&mut out, "newsuperior", superior.as_bytes(), 0);
                }
            }
            _ => out.extend_from_slice(&lines),
        }
        out.push(b'\n');
        out
    }

    fn line(&self) -> String {
        let by = self.by.as_deref().unwrap_or("the server");
        let what = match &*self.kind {
            "modrdn" => format!("renamed to {}", self.new_dn().unwrap_or_default()),
            "add" => "added".to_owned(),
            "delete" => "deleted".to_owned(),
            kind => kind.to_owned(),
        };
        let why = self.purpose.as_ref().map(|text| format!("  ({text})")).unwrap_or_default();
        format!("{}  {}  {by}  {} {what}{why}", self.number, self.time, self.dn)
    }
}

/// The lines of LDIF without what only servers set.
fn settable_lines(change: &ToldChange) -> Vec<u8> {
    let mut lines = Vec::new();
    match change.record(&change.kind) {
        Some(LdifChange::Add(values)) => {
            for (name, value) in values.iter().filter(|(name, _)| !is_server_set(name)) {
                push_ldif_line(&mut lines, name, value, 0);
            }
        }
        Some(LdifChange::Modify(all)) => {
            for one in all.iter().filter(|one| !is_server_set(&one.description)) {
                let name = &one.description;
                push_ldif_line(&mut lines, verb(one.operation), name.as_bytes(), 0);
                for value in &one.values {
                    push_ldif_line(&mut lines, name, value, 0);
                }
                lines.extend_from_slice(b"-\n");
            }
        }
        // As they came: what cannot be read is not left out.
        Some(LdifChange::Delete | LdifChange::ModifyDn { .. }) | None => {
            lines.extend_from_slice(&change.lines);
        }
    }
    lines
}

fn is_server_set(attribute: &str) -> bool {
    SERVER_SET.iter().any(|one| attribute.eq_ignore_ascii_case(one))
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Start {
    /// Behind the last change.
    Now,
    /// With this number.
    Number(u64),
    /// With this number, behind the last one that was read: none may be missing between them.
    Next(u64),
    /// With the first change that was not made before.
    Time(Timestamp),
}

/// Reads changes that `filter` is true of, from `start` on, up to the last one there is; `each` is
/// given them in order. The number behind the last change that there was.
///
/// # Errors
/// When the server refuses, or `each` fails.
pub(crate) fn read(
    connection: &mut Connection,
    start: Start,
    filter: Option<&Filter<'_>>,
    each: &mut dyn FnMut(ToldChange) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let kept = kept(connection)?;
    let end = kept.last.saturating_add(1);
    if let Start::Next(number) = start
        && let Some(why) = kept.gap_before(number)
    {
        return Err(Failure::refused(why)
            .hint("look at what changed meanwhile, and go on from a number or time with --from"));
    }
    let (attribute, value) = match start {
        Start::Now => return Ok(end),
        Start::Number(number) | Start::Next(number) if number >= end => return Ok(end),
        Start::Number(number) | Start::Next(number) => ("changeNumber", number.to_string()),
        Start::Time(time) => ("changeTime", time.generalized_time()),
    };
    let ava = |description, value: &str| AvaFilter {
        description,
        value: value.as_bytes().to_vec().into(),
    };
    let mut terms = vec![
        Filter::GreaterOrEqual(ava(attribute, &value)),
        Filter::LessOrEqual(ava("changeNumber", &(end - 1).to_string())),
    ];
    terms.extend(filter.cloned());
    let asked = SearchFor {
        scope: Scope::One,
        attributes: ATTRIBUTES,
        ..SearchFor::below(CHANGELOG, Filter::And(terms))
    };
    let mut cookie = Vec::new();
    loop {
        let page =
            connection.search_page::<Failure>(&asked, PAGE_ENTRIES, &cookie, &mut |found| {
                let SearchAnswer::Entry { dn, attributes } = found else { return Ok(()) };
                match told(&FoundEntry::of(dn, attributes)) {
                    Some(change) => each(change),
                    None => Ok(()),
                }
            })?;
        page.outcome.into_result("search").map_err(refused)?;
        if page.cookie.is_empty() {
            return Ok(end);
        }
        cookie = page.cookie;
    }
}

/// The numbers of the changes that a server has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// None where it does not tell.
    pub(crate) first: Option<u64>,
    last: u64,
}

impl Kept {
    /// Why who has read all changes before `number` cannot go on with it; none if he can.
    fn gap_before(self, number: u64) -> Option<String> {
        let before = number.saturating_sub(1);
        if self.last < before {
            return Some(format!(
                "the last change of the server is {} now, and {before} was read already: older \
                 data were restored",
                self.last
            ));
        }
        let first = self.first.filter(|first| *first > number)?;
        let gone = first.saturating_sub(1);
        Some(format!(
            "the server has no changes before {first} any more: {number} to {gone} are gone"
        ))
    }
}

/// Which changes there are.
pub(crate) fn kept(connection: &mut Connection) -> Result<Kept, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["firstChangeNumber", "lastChangeNumber"],
        ..SearchFor::below("", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let number = |name| found.entries.first()?.text(name)?.parse::<u64>().ok();
    let first = number("firstChangeNumber");
    number("lastChangeNumber").map(|last| Kept { first, last }).ok_or_else(|| {
        Failure::refused("the server shows no changes to this identity")
            .hint("bind as the administrator (-W), or as who has the privilege changelog-read")
    })
}

/// Since when a server has changes, if it has any.
pub(crate) fn begun(connection: &mut Connection) -> Result<Option<String>, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["createTimestamp"],
        ..SearchFor::below(CHANGELOG, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?.entries.into_iter().next();
    let told = found.and_then(|entry| entry.text("createTimestamp").map(str::to_owned));
    // Others than roster do not tell that.
    match told {
        Some(time) => Ok(Some(time)),
        None => Ok(first(connection)?.map(|change| change.time)),
    }
}

/// The first change that a server tells.
fn first(connection: &mut Connection) -> Result<Option<ToldChange>, Failure> {
    let filter = Filter::Present("changeNumber");
    let asked = SearchFor {
        scope: Scope::One,
        attributes: ATTRIBUTES,
        ..SearchFor::below(CHANGELOG, filter)
    };
    let mut first = None;
    let page = connection.search_page::<Failure>(&asked, 1, &[], &mut |found| {
        if let SearchAnswer::Entry { dn, attributes } = found {
            first = first.take().or(told(&FoundEntry::of(dn, attributes)));
        }
        Ok(())
    })?;
    page.outcome.into_result("search").map_err(refused)?;
    Ok(first)
}

fn refused(error: client::ClientError) -> Failure {
    Failure::from(error)
}

/// Prints a change as LDIF or as a line of JSON, at once.
pub(crate) fn print(change: &ToldChange, is_json: bool) -> Result<(), Failure> {
    let mut out = output::out();
    if is_json {
        let text = change.json().to_string();
        out.write_all(output::json_shown(&text).as_bytes())?;
        out.write_all(b"\n")?;
    } else {
        out.write_all(&change.ldif())?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(values: &[(&str, &str)]) -> ToldChange {
        let attributes = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), vec![value.as_bytes().to_vec()]))
            .collect();
        super::told(&FoundEntry { dn: String::new(), attributes }).unwrap()
    }

    #[test]
    fn a_modification_is_told_as_ldif_and_as_json() {
        let change = told(&[
            ("changeNumber", "7"),
            ("changeTime", "20270131180000Z"),
            ("changeType", "modify"),
            ("targetDN", "cn=a,dc=x"),
            ("changeInitiatorsName", "cn=b\nc,dc=x"),
            ("changes", "delete: l\nl: Bern\n-\nadd: l\nl:: AAH/\nl: Chur\n-\n"),
        ]);
        let ldif = String::from_utf8(change.ldif()).unwrap();
        assert!(ldif.starts_with("# change 7 at 20270131180000Z by cn=b"), "{ldif}");
        assert_eq!(ldif.lines().filter(|line| line.starts_with('#')).count(), 1);
        assert!(ldif.contains("dn: cn=a,dc=x\nchangetype: modify\ndelete: l\n"), "{ldif}");
        let json = change.json();
        let expected = json!([
            { "attribute": "l", "delete": ["Bern"] },
            { "attribute": "l", "add": [{ "base64": "AAH/" }, "Chur"] },
        ]);
        assert_eq!(json.get("changes"), Some(&expected));
    }

    #[test]
    fn what_only_servers_set_is_not_in_the_ldif() {
        let stamps = "replace: modifyTimestamp\nmodifyTimestamp: 20270131180000Z\n-\n";
        let change = |changes: &str| {
            let name = ("targetDN", "cn=a,dc=x");
            told(&[("changeNumber", "7"), ("changeType", "modify"), name, ("changes", changes)])
        };
        let both = change(&format!("replace: l\nl: Chur\n-\n{stamps}"));
        let ldif = String::from_utf8(both.ldif()).unwrap();
        assert!(ldif.ends_with("changetype: modify\nreplace: l\nl: Chur\n-\n\n"), "{ldif}");
        let json = both.json().to_string();
        assert!(json.contains("\"replace\":[\"Chur\"]"), "{json}");
        assert!(json.contains("modifyTimestamp"), "{json}");
        let ldif = String::from_utf8(change(stamps).ldif()).unwrap();
        assert!(ldif.starts_with("# change 7 at "), "{ldif}");
        assert!(!ldif.contains("dn: "), "{ldif}");
    }

    #[test]
    fn changes_that_are_missing_are_noticed() {
        let kept = |first, last| Kept { first, last };
        assert_eq!(kept(Some(3), 9).gap_before(10), None);
        assert_eq!(kept(Some(3), 9).gap_before(3), None);
        assert_eq!(kept(None, 9).gap_before(1), None);
        assert!(kept(Some(3), 9).gap_before(2).unwrap().contains("2 to 2 are gone"));
        assert!(kept(Some(3), 9).gap_before(11).unwrap().contains("10 was read already"));
    }

    #[test]
    fn a_rename_is_told_with_the_new_name() {
        let rename = [
            ("changeNumber", "7"),
            ("changeType", "modrdn"),
            ("targetDN", "cn=a,ou=one,dc=x"),
            ("newRDN", "cn=b"),
            ("deleteOldRDN", "true"),
        ];
        assert_eq!(told(&rename).new_dn().unwrap(), "cn=b,ou=one,dc=x");
        let moved = told(&[&rename[..], &[("newSuperior", "dc=x")]].concat());
        assert_eq!(moved.new_dn().unwrap(), "cn=b,dc=x");
        let ldif = String::from_utf8(moved.ldif()).unwrap();
        assert!(ldif.ends_with("newrdn: cn=b\ndeleteoldrdn: 1\nnewsuperior: dc=x\n\n"), "{ldif}");
    }

    #[test]
    fn what_was_deleted_stands_in_comments() {
        let change = told(&[
            ("changeNumber", "7"),
            ("changeType", "delete"),
            ("targetDN", "cn=a,dc=x"),
            ("deletedEntryAttrs", "objectClass: device\ncn: a\n"),
        ]);
        let ldif = String::from_utf8(change.ldif()).unwrap();
        assert!(ldif.ends_with("# cn: a\ndn: cn=a,dc=x\nchangetype: delete\n\n"), "{ldif}");
        assert_eq!(change.values().len(), 2);
    }
}
