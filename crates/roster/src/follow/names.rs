//! Whether all entries have the names here that they have at the source, and those that have not
//! are told of once more.
//!
//! An entry comes with its name, and who is above it is found by that: another entry may have had
//! that name here at that time, so that it came below a wrong one. When all have the names that
//! they are to have, each is below the right one.
//!
//! Invariant: in memory are some octets for each entry here, and some names at a time.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use client::{Connection, SearchAnswer, SearchFor};
use ldap::control_value::sync::uuid_of_text;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{Control, Controls, ControlsBuf, Scope};
use ldap::result::ResultCode;
use offline::PlainEntry;
use schema::DnKey;

use super::apply::Applier;
use super::goal::Settle;
use super::source::Source;
use super::sync::plain;
use super::wanted::{Translation, Uuid, Wanted};
use crate::failure::Failure;
use crate::online::server::Server;

/// Both sides.
pub(super) struct Names<'c> {
    pub(super) source: &'c mut dyn Source,
    pub(super) translation: &'c mut Translation,
    pub(super) applier: &'c mut Applier,
    pub(super) here: &'c mut Connection,
    /// The branch, there and here.
    pub(super) from: &'c str,
    pub(super) to: &'c DnKey,
    pub(super) to_text: &'c str,
}

/// An entry here.
struct Here {
    uuid: Uuid,
    name: u64,
    depth: usize,
    is_there: bool,
}

/// An entry that is not here, or has another name.
struct Differing {
    depth: usize,
    uuid: Uuid,
    /// As the source has it.
    dn: String,
}

/// What differs.
struct Found {
    /// Entries that are to be told of again.
    again: Vec<Differing>,
    /// Entries here that were not seen there, those below others first.
    gone: Vec<Uuid>,
}

impl Names<'_> {
    /// Makes the names here those of the source, as long as that helps.
    pub(super) fn make_equal(&mut self) -> Result<(), Failure> {
        let is_whole = std::mem::replace(&mut self.applier.is_whole, false);
        let mut last = Vec::new();
        for _ in 0..ROUNDS_MAX {
            self.applier.drain()?;
            let Some(Found { mut again, gone }) = self.differing()? else { break };
            again.sort_by_key(|one| one.depth);
            let all: Vec<Uuid> = again.iter().map(|one| one.uuid).chain(gone.clone()).collect();
            if all.is_empty() {
                self.applier.forget_all();
            }
            if all.is_empty() || all == last {
                break;
            }
            // It may have waited for a name that nobody has any more.
            self.applier.forget_all();
            self.tell_again(&again)?;
            for uuid in gone {
                if !self.source.is_there(&uuid)? {
                    self.applier.remove(uuid)?;
                }
            }
            self.applier.settle(self.source, Settle::Displace)?;
            last = all;
        }
        self.applier.is_whole = is_whole;
        Ok(())
    }

    /// Looks at all names; none if the source does not show them.
    fn differing(&mut self) -> Result<Option<Found>, Failure> {
        let hasher = RandomState::new();
        let tells_subentries = self.source.tells_subentries();
        let mut here = self.all_here(tells_subentries, &hasher)?;
        let waiting = self.applier.who_waits();
        let connection = self.source.questions()?;
        let passes = passes(connection, tells_subentries)?;
        let (mut wrong, mut missing, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
        for controls in passes {
            let mut each = |dn: &str, entry: PlainEntry| {
                let Some(Wanted { uuid, dn: wanted, .. }) = self.translation.wanted(None, entry)?
                else {
                    return Ok(());
                };
                let Some(key) = self.translation.key(&wanted).filter(|key| key.is_within(self.to))
                else {
                    return Ok(());
                };
                let name = hasher.hash_one(&key);
                let at = here.binary_search_by_key(&uuid, |one| one.uuid).ok();
                if let Some(one) = at.and_then(|at| here.get_mut(at)) {
                    one.is_there = true;
                    if one.name == name && !waiting.contains(&uuid) {
                        return Ok(());
                    }
                }
                let above = key.parent().map_or(0, |above| hasher.hash_one(&above));
                // What goes with the one above it is looked at in the next round; what waited does
                // so no more, so it is told of now.
                let waits = match at {
                    Some(_) => wrong.contains(&above) && !waiting.contains(&uuid),
                    None => missing.contains(&above),
                };
                wrong.insert(name);
                if self.applier.is_refused(&uuid) || (waits && at.is_none()) {
                    missing.insert(name);
                } else if !waits && found.len() < NAMES_MAX {
                    found.push(Differing { depth: key.depth(), uuid, dn: dn.to_owned() });
                }
                Ok(())
            };
            if !list(connection, self.from, IDENTITY, controls.as_ref(), &mut each)? {
                return Ok(None);
            }
        }
        here.retain(|one| !one.is_there);
        here.sort_by_key(|one| std::cmp::Reverse(one.depth));
        let gone = here.iter().take(NAMES_MAX).map(|one| one.uuid).collect();
        Ok(Some(Found { again: found, gone }))
    }

    /// All entries here, by their identity.
    fn all_here(
        &mut self,
        tells_subentries: bool,
        hasher: &RandomState,
    ) -> Result<Vec<Here>, Failure> {
        let mut all = Vec::new();
        for controls in passes(self.here, tells_subentries)? {
            let mut each = |dn: &str, entry: PlainEntry| {
                let uuid = entry.values.iter().find_map(|(_, value)| uuid_of_text(value));
                if let Some((uuid, key)) = uuid.zip(self.translation.key(dn)) {
                    let (name, depth) = (hasher.hash_one(&key), key.depth());
                    all.push(Here { uuid, name, depth, is_there: false });
                }
                Ok(())
            };
            if !list(self.here, self.to_text, OWN, controls.as_ref(), &mut each)? {
                return Err(Failure::refused(
                    "the server here does not list the names of the branch",
                )
                .hint("whoever follows needs to read it whole, without limits"));
            }
        }
        all.sort_unstable_by_key(|one| one.uuid);
        Ok(all)
    }

    /// Tells of entries as they are at the source by now, those above others first.
    fn tell_again(&mut self, differing: &[Differing]) -> Result<(), Failure> {
        for level in differing.chunk_by(|one, other| one.depth == other.depth) {
            for Differing { uuid, dn, .. } in level {
                let Some(entry) = entry_at(self.source.questions()?, dn)? else { continue };
                let wanted = self.translation.wanted(None, entry)?;
                if let Some(wanted) = wanted.filter(|wanted| wanted.uuid == *uuid) {
                    self.applier.put(wanted)?;
                }
            }
            self.applier.settle(self.source, Settle::Displace)?;
        }
        Ok(())
    }
}

/// Whether the source has an entry of this name.
pub(super) fn is_taken(source: &mut dyn Source, dn: &str) -> Result<bool, Failure> {
    Ok(entry_at(source.questions()?, dn)?.is_some())
}

/// The controls of the searches that show all entries together.
fn passes(
    connection: &mut Connection,
    tells_subentries: bool,
) -> Result<Vec<ControlsBuf>, Failure> {
    let mut all = Server::look(connection)?.controls_for_all(Scope::Subtree);
    if !tells_subentries {
        all.truncate(1);
    }
    Ok(all)
}

/// Reads some attributes of all entries; says whether it was all of them. Where the branch itself
/// is not there, it is.
fn list(
    connection: &mut Connection,
    base: &str,
    attributes: &[&str],
    controls: Controls<'_>,
    tell: &mut dyn FnMut(&str, PlainEntry) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let asked = SearchFor { attributes, ..SearchFor::below(base, any()) };
    let mut cookie = Vec::new();
    loop {
        let mut each = |answer: SearchAnswer<'_>| match answer {
            SearchAnswer::Entry { dn, attributes } => tell(dn, plain(dn, attributes)),
            SearchAnswer::Reference(_) => Ok(()),
        };
        let page =
            connection.search_page_with(&asked, PAGE_ENTRIES, &cookie, controls, &mut each)?;
        match page.outcome.code {
            ResultCode::Success => cookie = page.cookie,
            ResultCode::NoSuchObject => return Ok(true),
            // It may say more when it is asked again.
            ResultCode::Busy
            | ResultCode::Unavailable
            | ResultCode::TimeLimitExceeded
            | ResultCode::Other => {
                let failure = Failure::refused(format!("names are not told: {}", page.outcome));
                return Err(Failure { is_passing: true, ..failure });
            }
            _ => return Ok(false),
        }
        if cookie.is_empty() {
            return Ok(true);
        }
    }
}

/// The entry of this name, as a source has it.
fn entry_at(connection: &mut Connection, dn: &str) -> Result<Option<PlainEntry>, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["*", "+", "entryUUID", "nsUniqueId", "aci", "ref"],
        ..SearchFor::below(dn, any())
    };
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: MANAGE_DSA_IT, critical: false, value: None });
    let mut found = None;
    let mut each = |answer: SearchAnswer<'_>| {
        if let SearchAnswer::Entry { dn, attributes } = answer {
            found = Some(plain(dn, attributes));
        }
        Ok::<_, Failure>(())
    };
    let outcome = connection.search_with(&asked, controls.as_ref(), &mut each)?;
    match outcome.code {
        ResultCode::Success | ResultCode::NoSuchObject => Ok(found),
        _ => Err(outcome
            .into_result("search")
            .map_or_else(Failure::from, |()| Failure::refused("the search has no end"))),
    }
}

/// All entries; some servers show subentries to who names their class.
fn any() -> Filter<'static> {
    let value = b"ldapSubEntry".to_vec().into();
    let subentries = Filter::Equality(AvaFilter { description: "objectClass", value });
    Filter::Or(vec![Filter::Present("objectClass"), subentries])
}

/// What tells the identity of an entry, and whether it is left out.
const IDENTITY: &[&str] = &["objectClass", "entryUUID", "nsUniqueId"];
const OWN: &[&str] = &["entryUUID"];
/// One round puts right at least one level of the tree.
const ROUNDS_MAX: usize = 40;
/// Entries that are told of again in one round.
const NAMES_MAX: usize = 100_000;
const PAGE_ENTRIES: u32 = 1_000;
/// RFC 3296 §3.
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";
