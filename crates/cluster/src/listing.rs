//! Members that list others than this one does: which of them, in sentences.
//!
//! Invariant: the log is told when that changes, not whenever it is found again; a member that does
//! not answer for a while has not changed its list.

use std::collections::{BTreeMap, BTreeSet};

/// Members by their numbers, as a sentence has them.
pub fn numbers(members: &BTreeSet<u64>) -> String {
    let all: Vec<String> = members.iter().map(u64::to_string).collect();
    match all.split_last() {
        None => "no members".to_owned(),
        Some((last, [])) => format!("member {last}"),
        Some((last, others)) => format!("members {} and {last}", others.join(", ")),
    }
}

/// Who takes part, as a member has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// Where its log says so; 0 for those with whom the cluster began, of whom its settings say.
    pub(crate) at: u64,
    pub(crate) members: BTreeSet<u64>,
}

/// What the other members were heard to list, and who asked that is on no list here.
#[derive(Default)]
pub(crate) struct Listings {
    heard: BTreeMap<u64, Listed>,
}

impl Listings {
    /// Member `id` lists these now; one of an earlier release does not say.
    pub(crate) fn hear(&mut self, id: u64, listed: Listed) {
        if !listed.members.is_empty() {
            self.heard.insert(id, listed);
        }
    }

    /// A sentence for each member that lists others than `own`, the list of member `id`, and for
    /// each that counts on it and is not on that list. What the log says is the same everywhere,
    /// sooner or later.
    pub(crate) fn differing(
        &mut self,
        id: u64,
        own: &Listed,
        unlisted: &BTreeSet<u64>,
    ) -> Vec<String> {
        let own_numbers = numbers(&own.members);
        if own.at > 0 {
            self.heard.retain(|other, _| own.members.contains(other));
            return Vec::new();
        }
        let is_other = |theirs: &Listed| theirs.at == 0 && theirs.members != own.members;
        let others = self.heard.iter().filter(|(_, theirs)| is_other(theirs));
        let others = others.map(|(other, theirs)| {
            let theirs = numbers(&theirs.members);
            format!("member {other} lists {theirs}, and member {id} lists {own_numbers}: {ADVICE}")
        });
        let unlisted = unlisted.difference(&own.members).map(|other| {
            format!("member {other} asks member {id}, which lists {own_numbers}: {ADVICE}")
        });
        others.chain(unlisted).collect()
    }
}

/// Tells the log what is new, and that nothing is left.
pub(crate) fn tell(before: &[String], now: &[String]) {
    for sentence in now.iter().filter(|sentence| !before.contains(sentence)) {
        tracing::error!("{sentence}");
    }
    if now.is_empty() && !before.is_empty() {
        tracing::info!("all members list the same again");
    }
}

const ADVICE: &str = "what one takes for a majority may be none; stop the members with the wrong \
                      list, and have cluster.members list the same everywhere";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_told_of_until_it_lists_the_same() {
        let list = |at: u64, ids: &[u64]| Listed { at, members: ids.iter().copied().collect() };
        let own = list(0, &[1, 2, 3]);
        let mut listings = Listings::default();
        let differing = |listings: &mut Listings, asks: &[u64]| {
            listings.differing(2, &own, &asks.iter().copied().collect())
        };
        listings.hear(1, list(0, &[3, 2, 1]));
        listings.hear(3, list(0, &[]));
        assert!(differing(&mut listings, &[1, 3]).is_empty());
        listings.hear(3, list(0, &[3]));
        listings.hear(3, list(0, &[]));
        let said = differing(&mut listings, &[1, 4]);
        assert_eq!(said.len(), 2);
        assert!(
            said[0].starts_with("member 3 lists member 3, and member 2 lists members 1, 2 and 3: "),
            "{}",
            said[0]
        );
        assert!(
            said[1].starts_with("member 4 asks member 2, which lists members 1, 2 and 3: "),
            "{}",
            said[1]
        );
        // What the log says comes here as well.
        listings.hear(3, list(40, &[1, 3]));
        assert!(differing(&mut listings, &[]).is_empty());
        listings.hear(3, list(0, &[1, 3]));
        let changed = list(40, &[1, 2]);
        assert!(listings.differing(2, &changed, &BTreeSet::from([3])).is_empty());
        listings.hear(3, list(0, &[1, 2, 3]));
        assert!(differing(&mut listings, &[]).is_empty());
    }
}
