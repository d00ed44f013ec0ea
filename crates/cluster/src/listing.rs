//! Members that list others than this one does: which of them, in sentences.
//!
//! Invariant: the log is told when that changes, not whenever it is found again; a member that does
//! not answer for a while has not changed its list.

use std::collections::{BTreeMap, BTreeSet};

/// Members by their numbers, as a sentence has them.
pub(crate) fn numbers(members: &BTreeSet<u64>) -> String {
    let all: Vec<String> = members.iter().map(u64::to_string).collect();
    match all.split_last() {
        None => "no members".to_owned(),
        Some((last, [])) => format!("member {last}"),
        Some((last, others)) => format!("members {} and {last}", others.join(", ")),
    }
}

/// What the other members were heard to list, and who asked that is on no list here.
#[derive(Default)]
pub(crate) struct Listings {
    heard: BTreeMap<u64, BTreeSet<u64>>,
}

impl Listings {
    /// Member `id` lists these now; one of an earlier release does not say.
    pub(crate) fn hear(&mut self, id: u64, listed: &[u64]) {
        if !listed.is_empty() {
            self.heard.insert(id, listed.iter().copied().collect());
        }
    }

    /// A sentence for each member that lists others than `own`, the list of member `id`, and for
    /// each that counts on it and is not on that list.
    pub(crate) fn differing(
        &self,
        id: u64,
        own: &BTreeSet<u64>,
        unlisted: &BTreeSet<u64>,
    ) -> Vec<String> {
        let others =
            self.heard.iter().filter(|(_, listed)| *listed != own).map(|(other, theirs)| {
                let (theirs, own) = (numbers(theirs), numbers(own));
                format!("member {other} lists {theirs}, and member {id} lists {own}: {ADVICE}")
            });
        let unlisted = unlisted.difference(own).map(|other| {
            let own = numbers(own);
            format!("member {other} asks member {id}, which lists {own}: {ADVICE}")
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
        let own = BTreeSet::from([1, 2, 3]);
        let mut listings = Listings::default();
        let differing = |listings: &Listings, asks: &[u64]| {
            listings.differing(2, &own, &asks.iter().copied().collect())
        };
        listings.hear(1, &[3, 2, 1]);
        listings.hear(3, &[]);
        assert!(differing(&listings, &[1, 3]).is_empty());
        listings.hear(3, &[3]);
        listings.hear(3, &[]);
        let said = differing(&listings, &[1, 4]);
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
        listings.hear(3, &[1, 2, 3]);
        assert!(differing(&listings, &[]).is_empty());
    }
}
