//! `roster undelete`: brings back what was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use client::Connection;
use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::ModifyOperation;

use crate::account::moment;
use crate::changes::back::{self, Deleted, Reference, is_there};
use crate::changes::names::{NameKey, Names, Then, parsed};
use crate::changes::{self, Start, ToldChange, ToldDelta};
use crate::connect::ServerOptions;
use crate::failure::{Exit, Failure};
use crate::output;

/// Bring back an entry or a subtree that was deleted, with its entryUUID, its password and the
/// groups it was in.
///
/// Works on a running server, as its administrator, as far as changes are kept. Superiors that were
/// deleted come back first. If what is above it was renamed since, it comes back there, and is
/// found by both names.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The entry that was deleted
    #[arg(value_name = "DN")]
    dn: String,

    /// Also what was below it, deleted by the same in the hour before it
    #[arg(short = 'r', long)]
    recursive: bool,

    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerOptions,
}

const EXAMPLES: &str = "\
Examples:
  roster undelete uid=anna,ou=people,dc=example,dc=com -W
  roster undelete -r -n ou=people,dc=example,dc=com -W";

/// What was below an entry and was deleted earlier than so long before it did not go with it.
const WITH_IT_WITHIN: Duration = Duration::from_secs(3600);

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut connection = options.server.connect()?;
    let all = deleted(&mut connection, &options.dn, options.recursive)?;
    if all.is_empty() {
        return Err(Failure::refused(format!(
            "no deletion of {} is kept that was not made up for",
            options.dn
        ))
        .hint("'roster history DN' shows what is kept of it; a backup may have it"));
    }
    if options.dry_run {
        return tell(&all);
    }
    let (mut added, mut failed) = (Vec::new(), None);
    for one in &all {
        match back::add(&mut connection, one) {
            Ok(()) => {
                output::line(format_args!("{}", told(one)))?;
                added.push(one);
            }
            // What does not depend on it may come back, with the groups it was in.
            Err(failure) if failed.is_none() => failed = Some(failure),
            Err(_) => {}
        }
    }
    let referred = back::refer_all(&mut connection, &added);
    output::line(format_args!("{} entries are back", added.len()))?;
    match failed {
        Some(failure) => Err(failure),
        None => referred.map(|all| if all { Exit::Done } else { Exit::Refused }),
    }
}

fn told(one: &Deleted) -> String {
    let Deleted { dn, change, .. } = one;
    let by = change.by.as_deref().unwrap_or("the server");
    format!("{dn}: deleted at {} by {by}", change.time)
}

/// Says what would be done.
fn tell(all: &[Deleted]) -> Result<Exit, Failure> {
    for one in all {
        output::line(format_args!("{}", told(one)))?;
        for Reference { holder, attribute, .. } in &one.references {
            output::line(format_args!("  {attribute} of {holder}"))?;
        }
    }
    Ok(Exit::Done)
}

/// What was deleted last at this name, and below it with it, and is not there again; superiors
/// first.
fn deleted(
    connection: &mut Connection,
    dn: &str,
    recursive: bool,
) -> Result<Vec<Deleted>, Failure> {
    let names = Names::of(connection)?;
    let Some(top) = top(connection, &names, dn)? else { return Ok(Vec::new()) };
    let mut found = Found::of(&names, top, recursive);
    changes::read(connection, Start::Number(0), None, &mut |change| found.heed(change))?;
    let mut all = Vec::new();
    for one in found.with_the_top()? {
        if !is_there(connection, &one.dn)? {
            all.push(one);
        }
    }
    Ok(all)
}

/// What the entry is to be called that was deleted last at this name: as it was called then, or as
/// it is called since what is above it was renamed.
fn top(connection: &mut Connection, names: &Names, dn: &str) -> Result<Option<NameKey>, Failure> {
    let asked = names.key_of(dn)?;
    let value = b"delete".as_slice().into();
    let deletions = Filter::Equality(AvaFilter { description: "changeType", value });
    let mut top = None;
    changes::read(connection, Start::Number(0), Some(&deletions), &mut |change| {
        let then = parsed(&change.dn)?;
        let now = names.key(&names.now(&then, change.number, Then::Deleted));
        if names.key(&then) == asked || now == asked {
            top = Some(now);
        }
        Ok(())
    })?;
    Ok(top)
}

/// What the changes say that were read so far.
struct Found<'n> {
    names: &'n Names,
    top: NameKey,
    recursive: bool,
    /// By their names of now.
    last: BTreeMap<NameKey, Deleted>,
    by_uuid: BTreeMap<String, NameKey>,
    /// The changes of the last number: they may say in any order what was deleted, and in which
    /// others it is not named any more.
    together: Vec<ToldChange>,
}

impl<'n> Found<'n> {
    fn of(names: &'n Names, top: NameKey, recursive: bool) -> Self {
        let (last, by_uuid) = (BTreeMap::new(), BTreeMap::new());
        Self { names, top, recursive, last, by_uuid, together: Vec::new() }
    }

    fn heed(&mut self, change: ToldChange) -> Result<(), Failure> {
        if self.together.first().is_some_and(|first| first.number != change.number) {
            self.heed_together()?;
        }
        self.together.push(change);
        Ok(())
    }

    /// Takes what changes of one number say.
    fn heed_together(&mut self) -> Result<(), Failure> {
        let all = std::mem::take(&mut self.together);
        // By the names that they had.
        let mut gone = BTreeMap::new();
        for change in &all {
            let then = match &*change.kind {
                "delete" => Then::Deleted,
                "add" => Then::There,
                _ => continue,
            };
            let was = parsed(&change.dn)?;
            let now = self.names.now(&was, change.number, then);
            let key = self.names.key(&now);
            // It was brought back, perhaps by another name, or another took its place.
            if then == Then::There {
                if let Some(other) = change.uuid.as_ref().and_then(|uuid| self.by_uuid.get(uuid)) {
                    self.last.remove(other);
                }
                self.last.remove(&key);
            } else if key == self.top || (self.recursive && key.starts_with(&self.top)) {
                gone.insert(self.names.key(&was), (key.clone(), now.clone()));
                if let Some(uuid) = &change.uuid {
                    self.by_uuid.insert(uuid.clone(), key.clone());
                }
                let (dn, change) = (now.to_string(), change.clone());
                self.last.insert(key, Deleted { dn, change, references: Vec::new() });
            }
        }
        if !gone.is_empty() {
            let modified = all.iter().filter(|change| change.kind == "modify");
            modified.for_each(|change| self.heed_references(change, &gone));
        }
        Ok(())
    }

    /// Takes values that named what the same change deleted: others went for other reasons.
    fn heed_references(&mut self, change: &ToldChange, gone: &BTreeMap<NameKey, (NameKey, Dn)>) {
        let is_removal = |one: &ToldDelta| one.operation == ModifyOperation::Delete;
        for delta in change.deltas().into_iter().filter(is_removal) {
            for value in delta.values {
                let text = std::str::from_utf8(&value).ok();
                let was = text.and_then(|text| self.names.key_of(text).ok());
                let Some((was, (now, dn))) = was.and_then(|was| gone.get_key_value(&was)) else {
                    continue;
                };
                let value = if was == now { value } else { dn.to_string().into_bytes() };
                let Some(one) = self.last.get_mut(now) else { continue };
                one.references.push(Reference {
                    holder: change.dn.clone(),
                    uuid: change.uuid.clone(),
                    attribute: delta.attribute.clone(),
                    value,
                });
            }
        }
    }

    /// In the order of their keys, superiors come before what is below them.
    fn with_the_top(mut self) -> Result<Vec<Deleted>, Failure> {
        self.heed_together()?;
        let Self { top, last, .. } = self;
        let Some(of_top) = last.get(&top).map(|one| one.change.clone()) else {
            return Ok(Vec::new());
        };
        let all = last.into_iter();
        let with_it = all.filter(|(key, one)| *key == top || is_with(&one.change, &of_top));
        Ok(with_it.map(|(_, one)| one).collect())
    }
}

/// Whether something was deleted as a part of the deletion of what was above it.
fn is_with(change: &ToldChange, of_top: &ToldChange) -> bool {
    let (Ok(own), Ok(top)) = (moment::parsed(&change.time), moment::parsed(&of_top.time)) else {
        return false;
    };
    let before = top.0.checked_sub(own.0).map(Duration::from_micros);
    change.by == of_top.by && before.is_some_and(|before| before <= WITH_IT_WITHIN)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A change by an identity, so many minutes after an hour.
    fn change(number: u64, kind: &str, dn: &str, by: &str, minute: u64) -> ToldChange {
        ToldChange {
            number,
            time: format!("2027013118{minute:02}00Z"),
            kind: kind.to_owned(),
            dn: dn.to_owned(),
            by: Some(by.to_owned()),
            ..ToldChange::default()
        }
    }

    fn found(changes: Vec<ToldChange>) -> Vec<Deleted> {
        let mut names = Names::unchanged();
        for one in changes.iter().filter(|one| one.kind == "modrdn") {
            names.note(one).unwrap();
        }
        let mut found = Found::of(&names, names.key_of("ou=a,dc=x").unwrap(), true);
        changes.into_iter().for_each(|change| found.heed(change).unwrap());
        found.with_the_top().unwrap()
    }

    #[test]
    fn only_what_went_with_the_top_comes_back() {
        let below = |number, name: &str, by, minute| {
            change(number, "delete", &format!("cn={name},ou=a,dc=x"), by, minute)
        };
        let mut long_ago = below(1, "old", "cn=b", 0);
        long_ago.time = "20270131160000Z".to_owned();
        let mut all = vec![long_ago, below(2, "other", "cn=c", 1), below(3, "same", "cn=b", 2)];
        assert!(found(all.clone()).is_empty(), "the top is there");
        all.push(change(4, "delete", "OU=a,dc=x", "cn=b", 3));
        let names: Vec<String> = found(all).into_iter().map(|one| one.dn).collect();
        assert_eq!(names, ["OU=a,dc=x", "cn=same,ou=a,dc=x"]);
    }

    #[test]
    fn only_values_that_named_it_are_put_back() {
        let group = |number| {
            let lines = b"delete: member\nmember: OU=A,dc=x\nmember: cn=other,dc=x\n-\n\
                          delete: description\ndescription: text\n-\n";
            let change = change(number, "modify", "cn=g,dc=x", "cn=b", 0);
            ToldChange { lines: lines.to_vec(), ..change }
        };
        let gone = change(2, "delete", "ou=a,dc=x", "cn=b", 0);
        let all = found(vec![group(1), group(2), gone, group(2), group(3)]);
        let told = |one: &Reference| {
            (one.holder.clone(), one.attribute.clone(), String::from_utf8(one.value.clone()))
        };
        let references = &all.first().unwrap().references;
        let member = ("cn=g,dc=x".to_owned(), "member".to_owned(), Ok("OU=A,dc=x".to_owned()));
        // Whether it is told before the deletion or after it.
        let twice = vec![member.clone(), member];
        assert_eq!(references.iter().map(told).collect::<Vec<_>>(), twice);
    }

    #[test]
    fn what_was_below_it_under_another_name_comes_back_too() {
        let below = change(1, "delete", "cn=b,ou=before,dc=x", "cn=b", 0);
        let mut rename = change(2, "modrdn", "OU=Before,dc=x", "cn=b", 0);
        rename.new_rdn = Some("ou=a".to_owned());
        let top = change(3, "delete", "ou=A,dc=x", "cn=b", 0);
        let mut all = vec![below, rename, top];
        let names = |all: &[ToldChange]| -> Vec<String> {
            found(all.to_vec()).into_iter().map(|one| one.dn).collect()
        };
        assert_eq!(names(&all), ["ou=A,dc=x", "cn=b,ou=a,dc=x"]);
        // Not what was brought back by another name.
        all[0].uuid = Some("1".to_owned());
        let mut back = change(4, "add", "cn=other,dc=x", "cn=b", 1);
        back.uuid = Some("1".to_owned());
        all.push(back);
        assert_eq!(names(&all), ["ou=A,dc=x"]);
    }
}
