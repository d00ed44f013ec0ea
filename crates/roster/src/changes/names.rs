//! Names of entries over time: what a name of then is called now, as renames are told.
//!
//! Invariant: names are compared as servers compare them, not as they are written.

use std::collections::HashMap;
use std::sync::Arc;

use client::Connection;
use ldap::dn::{Dn, Rdn};
use ldap::filter::{AvaFilter, Filter};
use schema::{RdnKey, Schema};

use super::{Start, ToldChange, read};
use crate::failure::Failure;

/// A name to compare: the keys of its RDNs, the topmost first, so that what is below begins with
/// what is above.
pub(crate) type NameKey = Vec<Vec<u8>>;

/// Which entry is meant by a name of then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Then {
    /// One that was deleted: another had its name later, if that was renamed.
    Deleted,
    /// One that was there, and moved with its renames.
    There,
}

/// The renames that a server tells, and the deletions: who has a name later may be another.
pub(crate) struct Names {
    schema: Arc<Schema>,
    /// By the name before, in order.
    renames: HashMap<NameKey, Vec<Renamed>>,
    /// In which changes a name went, and whose it was; in order.
    deletions: HashMap<NameKey, Vec<(u64, Option<String>)>>,
}

/// What a change called an entry.
struct Renamed {
    number: u64,
    uuid: Option<String>,
    new: Dn,
}

impl Names {
    /// Without any rename.
    pub(crate) fn unchanged() -> Self {
        let (renames, deletions) = (HashMap::new(), HashMap::new());
        Self { schema: Schema::builtin(), renames, deletions }
    }

    /// All renames and deletions that a server has.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) fn of(connection: &mut Connection) -> Result<Self, Failure> {
        let mut names = Self::unchanged();
        let of_type = |value: &'static str| {
            let value = value.as_bytes().into();
            Filter::Equality(AvaFilter { description: "changeType", value })
        };
        let filter = Filter::Or(vec![of_type("modrdn"), of_type("delete")]);
        read(connection, Start::Number(0), Some(&filter), &mut |change| names.note(&change))?;
        Ok(names)
    }

    /// Takes a rename or a deletion to those that are known; they come in order.
    pub(crate) fn note(&mut self, change: &ToldChange) -> Result<(), Failure> {
        let (number, uuid) = (change.number, change.uuid.clone());
        let old = self.key_of(&change.dn)?;
        if change.kind == "delete" {
            self.deletions.entry(old).or_default().push((number, uuid));
            return Ok(());
        }
        let Some(new) = change.new_dn() else { return Ok(()) };
        let new = parsed(&new)?;
        if old != self.key(&new) {
            self.renames.entry(old).or_default().push(Renamed { number, uuid, new });
        }
        Ok(())
    }

    /// A name to compare.
    pub(crate) fn key(&self, dn: &Dn) -> NameKey {
        let is_known =
            |rdn: &Rdn| rdn.avas().iter().all(|ava| self.schema.describe(&ava.attribute).is_ok());
        let key = |rdn: &Rdn| match RdnKey::from_rdn(&self.schema, rdn) {
            Ok(key) if is_known(rdn) => key.as_bytes().to_vec(),
            // Of a type that only the server knows.
            Ok(_) | Err(_) => rdn.to_string().to_lowercase().into_bytes(),
        };
        dn.rdns().iter().rev().map(key).collect()
    }

    /// A name to compare, of a text.
    pub(crate) fn key_of(&self, dn: &str) -> Result<NameKey, Failure> {
        Ok(self.key(&parsed(dn)?))
    }

    /// Whether a name is that of the schema, or of a setting.
    pub(crate) fn is_of_server(&self, dn: &str) -> Result<bool, Failure> {
        let key = self.key_of(dn)?;
        for name in ["cn=schema", "cn=config"] {
            if key.starts_with(&self.key_of(name)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What an entry that had this name after the change `number` is called now.
    pub(crate) fn now(&self, dn: &Dn, number: u64, then: Then) -> Dn {
        let (mut dn, mut number) = (dn.clone(), number);
        // What is above a deleted entry may have gone with it, in the same change.
        let mut since = number.saturating_add(u64::from(then == Then::There));
        // RDNs at the leaf that stay: what has the name with these later is another.
        let mut staying = usize::from(then == Then::Deleted);
        loop {
            let key = self.key(&dn);
            let most = key.len().saturating_sub(staying);
            let all: Vec<(usize, &Renamed, Option<u64>)> = (1..=most)
                .filter_map(|depth| {
                    let above = key.get(..depth)?;
                    let next = self.renames.get(above)?.iter().find(|one| one.number > number)?;
                    Some((depth, next, self.gone_before(above, since, next)))
                })
                .collect();
            // Of several in one change the topmost.
            let next = all.iter().min_by_key(|(depth, next, _)| (next.number, *depth));
            let Some((depth, next, _)) = next else { return dn };
            let is_gone = |gone: Option<u64>| gone.is_some_and(|gone| gone < next.number);
            if let Some((gone, _, _)) = all.iter().find(|(_, _, gone)| is_gone(*gone)) {
                staying = key.len() + 1 - gone;
                continue;
            }
            let below = dn.rdns().iter().take(key.len() - depth);
            dn = Dn::new(below.chain(next.new.rdns()).cloned().collect());
            number = next.number;
            since = number.saturating_add(1);
        }
    }

    /// In which change, from `since` on, the one who had a name went, if another was renamed.
    fn gone_before(&self, name: &[Vec<u8>], since: u64, next: &Renamed) -> Option<u64> {
        let between = |at: u64| at >= since && at < next.number;
        // Who was brought back is the same.
        let is_other = |uuid: &Option<String>| uuid.is_none() || *uuid != next.uuid;
        let mut all = self.deletions.get(name)?.iter();
        all.find(|(at, uuid)| between(*at) && is_other(uuid)).map(|(at, _)| *at)
    }
}

/// A name, read.
pub(crate) fn parsed(dn: &str) -> Result<Dn, Failure> {
    Dn::parse(dn).map_err(|error| Failure::local(format!("'{dn}' is no name: {error}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn rename(number: u64, dn: &str, new_rdn: &str, superior: Option<&str>) -> ToldChange {
        ToldChange {
            number,
            kind: "modrdn".to_owned(),
            dn: dn.to_owned(),
            new_rdn: Some(new_rdn.to_owned()),
            new_superior: superior.map(str::to_owned),
            ..ToldChange::default()
        }
    }

    #[test]
    fn names_follow_the_renames_above_them() {
        let mut names = Names::unchanged();
        for one in [
            rename(3, "ou=a,dc=x", "ou=b", None),
            rename(5, "OU=B, dc=X", "ou=c", Some("ou=top,dc=x")),
            rename(7, "cn=leaf,ou=c,ou=top,dc=x", "cn=twig", None),
        ] {
            names.note(&one).unwrap();
        }
        let now = |dn: &str, number, then| names.now(&parsed(dn).unwrap(), number, then);
        for (dn, number, deleted, there) in [
            ("cn=leaf,ou=A,dc=x", 2, "cn=leaf,ou=c,ou=top,dc=x", "cn=twig,ou=c,ou=top,dc=x"),
            ("cn=leaf,ou=a,dc=x", 4, "cn=leaf,ou=a,dc=x", "cn=leaf,ou=a,dc=x"),
            ("cn=leaf,ou=b,dc=x", 4, "cn=leaf,ou=c,ou=top,dc=x", "cn=twig,ou=c,ou=top,dc=x"),
            ("ou=a,dc=x", 2, "ou=a,dc=x", "ou=c,ou=top,dc=x"),
        ] {
            assert_eq!(now(dn, number, Then::Deleted).to_string(), deleted, "{dn} {number}");
            assert_eq!(now(dn, number, Then::There).to_string(), there, "{dn} {number}");
        }
    }

    #[test]
    fn names_do_not_follow_another_that_took_the_name() {
        let delete = |number, uuid: &str| ToldChange {
            kind: "delete".to_owned(),
            uuid: Some(uuid.to_owned()),
            ..rename(number, "ou=a,dc=x", "", None)
        };
        let by = |uuid: &str| ToldChange {
            uuid: Some(uuid.to_owned()),
            ..rename(7, "ou=a,dc=x", "ou=b", None)
        };
        for (gone, renamed, number, expected) in [
            (delete(5, "1"), by("2"), 4, "cn=leaf,ou=a,dc=x"),
            // It went with what was below it.
            (delete(4, "1"), by("2"), 4, "cn=leaf,ou=a,dc=x"),
            // It was brought back.
            (delete(5, "1"), by("1"), 4, "cn=leaf,ou=b,dc=x"),
            // Before it, and behind it.
            (delete(3, "1"), by("2"), 4, "cn=leaf,ou=b,dc=x"),
            (delete(8, "2"), by("2"), 4, "cn=leaf,ou=b,dc=x"),
        ] {
            let mut names = Names::unchanged();
            names.note(&gone).unwrap();
            names.note(&renamed).unwrap();
            let leaf = parsed("cn=leaf,ou=a,dc=x").unwrap();
            assert_eq!(names.now(&leaf, number, Then::Deleted).to_string(), expected);
        }
    }

    #[test]
    fn names_are_equal_however_they_are_written() {
        let names = Names::unchanged();
        let key = |dn: &str| names.key_of(dn).unwrap();
        assert_eq!(key("CN=Anna  Berg,dc=x"), key("2.5.4.3=anna berg, DC=X"));
        assert_eq!(key(r"cn=a\2cb,dc=x"), key(r"cn=a\,b,dc=x"));
        assert_eq!(key("cn=a+sn=b,dc=x"), key("sn=B+cn=A,dc=x"));
        assert_ne!(key("cn=a,dc=x"), key("cn=b,dc=x"));
        assert_eq!(key("ownType=A,dc=x"), key("owntype=a,dc=x"));
    }
}
