//! What follows from what the members have: which of them have something else than most, and what.
//!
//! Invariant: each member has one voice, and only voters count for a majority.

use std::collections::{BTreeMap, BTreeSet};

use history::log::{EntryDifference, OddMember, Oddity};
use store::{Digest, HeldEntry};

/// What each member has of one row, in one number; none where it is not there.
pub(super) type Voices = BTreeMap<u64, Option<Digest>>;

/// Whom most agree with.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Verdict {
    /// One who has what most have.
    pub(super) model: u64,
    /// Those who have something else.
    pub(super) odd: Vec<u64>,
    /// Whether those who have the same are a majority of the voters.
    pub(super) is_clear: bool,
}

/// Judges; none where all have the same. `voters` are all voters, asked or not.
pub(super) fn judge(voices: &Voices, voters: &BTreeSet<u64>) -> Option<Verdict> {
    let mut groups: BTreeMap<Option<Digest>, Vec<u64>> = BTreeMap::new();
    for (member, voice) in voices {
        groups.entry(*voice).or_default().push(*member);
    }
    if groups.len() < 2 {
        return None;
    }
    let votes = |group: &[u64]| group.iter().filter(|member| voters.contains(member)).count();
    // Of several as large, the one with the lowest number.
    let order =
        |group: &&Vec<u64>| (votes(group), group.len(), std::cmp::Reverse(group.first().copied()));
    let most = groups.values().max_by_key(order)?;
    let odd = voices.keys().filter(|member| !most.contains(member)).copied().collect();
    Some(Verdict { model: *most.first()?, odd, is_clear: 2 * votes(most) > voters.len() })
}

/// What rows of each kind differ on whom: the ids or names, in order.
pub(super) fn differing<K: Ord + Clone>(
    said: &BTreeMap<u64, Vec<(K, Digest)>>,
    voters: &BTreeSet<u64>,
) -> Vec<(K, Voices, Verdict)> {
    let mut rows: BTreeMap<&K, Voices> = BTreeMap::new();
    let nobody: Voices = said.keys().map(|member| (*member, None)).collect();
    for (member, all) in said {
        for (row, digest) in all {
            let voices = rows.entry(row).or_insert_with(|| nobody.clone());
            if let Some(voice) = voices.get_mut(member) {
                // A damaged table may have several.
                let before = voice.unwrap_or_default().number();
                *voice = Some(Digest::from_number(before.wrapping_add(digest.number())));
            }
        }
    }
    let judged = rows.into_iter().filter_map(|(row, voices)| {
        let verdict = judge(&voices, voters)?;
        Some((row.clone(), voices, verdict))
    });
    judged.collect()
}

/// The difference of a row that is no entry.
pub(super) fn of_row(name: String, voices: &Voices, verdict: &Verdict) -> EntryDifference {
    let has = |member: &u64| voices.get(member).is_some_and(Option::is_some);
    let odd = verdict.odd.iter().map(|member| {
        let how = match (has(&verdict.model), has(member)) {
            (_, false) => Oddity::Missing,
            (false, true) => Oddity::Surplus,
            (true, true) => Oddity::Differs { is_name: false, attributes: Vec::new() },
        };
        OddMember { member: *member, how }
    });
    let (odd, is_clear) = (odd.collect(), verdict.is_clear);
    EntryDifference { id: 0, name, uuid: String::new(), odd, is_clear }
}

/// The difference of an entry, from what each member says of it.
pub(super) fn of_entry(
    id: u64,
    verdict: &Verdict,
    said: &BTreeMap<u64, HeldEntry>,
) -> EntryDifference {
    let model = said.get(&verdict.model).unwrap_or(&HeldEntry::Missing);
    let odd = verdict.odd.iter().map(|member| {
        let there = said.get(member).unwrap_or(&HeldEntry::Missing);
        OddMember { member: *member, how: oddity(model, there) }
    });
    let odd = odd.collect();
    // Of most, or else of anybody.
    let all = [model].into_iter().chain(said.values());
    let names = all.filter_map(|entry| match entry {
        HeldEntry::Readable { dn, uuid, .. } => Some((dn.clone(), uuid.clone())),
        HeldEntry::Missing | HeldEntry::Unreadable(_) => None,
    });
    let names: Vec<(Option<String>, String)> = names.collect();
    let name = names.iter().find_map(|(dn, _)| dn.clone()).unwrap_or_default();
    let uuid = names.into_iter().map(|(_, uuid)| uuid).find(|uuid| !uuid.is_empty());
    let (uuid, is_clear) = (uuid.unwrap_or_default(), verdict.is_clear);
    EntryDifference { id, name, uuid, odd, is_clear }
}

fn oddity(model: &HeldEntry, there: &HeldEntry) -> Oddity {
    match (model, there) {
        (_, HeldEntry::Missing) => Oddity::Missing,
        (_, HeldEntry::Unreadable(reason)) => Oddity::Unreadable(reason.clone()),
        (HeldEntry::Missing | HeldEntry::Unreadable(_), HeldEntry::Readable { .. }) => {
            Oddity::Surplus
        }
        (
            HeldEntry::Readable { name, attributes, .. },
            HeldEntry::Readable { name: other_name, attributes: others, .. },
        ) => {
            let lacks = |all: &[(String, Digest)], one: &(String, Digest)| !all.contains(one);
            let here = attributes.iter().filter(|one| lacks(others, one));
            let there = others.iter().filter(|one| lacks(attributes, one));
            let differ: BTreeSet<String> =
                here.chain(there).map(|(text, _)| text.clone()).collect();
            Oddity::Differs {
                is_name: name != other_name,
                attributes: differ.into_iter().collect(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voices(of: &[(u64, u128)]) -> Voices {
        let some = |number| (number > 0).then(|| Digest::from_number(number));
        of.iter().map(|(member, number)| (*member, some(*number))).collect()
    }

    fn judged(of: &[(u64, u128)], voters: u64) -> Option<(u64, Vec<u64>, bool)> {
        let verdict = judge(&voices(of), &(1..=voters).collect())?;
        Some((verdict.model, verdict.odd, verdict.is_clear))
    }

    #[test]
    fn who_has_something_else_than_a_majority_is_odd() {
        assert_eq!(judged(&[(1, 7), (2, 7), (3, 7)], 3), None);
        assert_eq!(judged(&[(1, 7), (2, 8), (3, 7)], 3), Some((1, vec![2], true)));
        assert_eq!(judged(&[(1, 7), (2, 8), (3, 8)], 3), Some((2, vec![1], true)));
        // It is not there on most.
        assert_eq!(judged(&[(1, 0), (2, 0), (3, 8)], 3), Some((1, vec![3], true)));
        // Two of five are no majority, nor are learners.
        assert_eq!(judged(&[(1, 7), (2, 8), (3, 8)], 5), Some((2, vec![1], false)));
        assert_eq!(judged(&[(1, 7), (8, 8), (9, 8)], 3), Some((1, vec![8, 9], false)));
        assert_eq!(judged(&[(1, 7), (2, 8)], 2), Some((1, vec![2], false)));
    }

    #[test]
    fn rows_are_compared_by_their_keys() {
        let number = Digest::from_number;
        let said = BTreeMap::from([
            (1, vec![(1, number(1)), (2, number(2)), (3, number(3))]),
            (2, vec![(1, number(1)), (2, number(9))]),
            (3, vec![(1, number(1)), (2, number(2)), (3, number(3)), (4, number(4))]),
        ]);
        let found = differing(&said, &[1, 2, 3].into());
        let found: Vec<_> =
            found.iter().map(|(id, _, verdict)| (*id, verdict.model, &*verdict.odd)).collect();
        assert_eq!(found, [(2, 1, &[2][..]), (3, 1, &[2]), (4, 1, &[3])]);
    }

    #[test]
    fn it_is_told_what_is_odd() {
        let number = Digest::from_number;
        let readable = |name: u128, of: &[(&str, u128)]| HeldEntry::Readable {
            dn: Some(format!("cn={name}")),
            uuid: "u".to_owned(),
            name: number(name),
            attributes: of.iter().map(|(text, of)| ((*text).to_owned(), number(*of))).collect(),
        };
        let model = readable(1, &[("cn", 1), ("sn", 1)]);
        let differs = |is_name, attributes: &[&str]| Oddity::Differs {
            is_name,
            attributes: attributes.iter().map(|one| (*one).to_owned()).collect(),
        };
        assert_eq!(oddity(&model, &HeldEntry::Missing), Oddity::Missing);
        assert_eq!(oddity(&HeldEntry::Missing, &model), Oddity::Surplus);
        let more = readable(1, &[("cn", 2), ("sn", 1), ("l", 1)]);
        assert_eq!(oddity(&model, &more), differs(false, &["cn", "l"]));
        assert_eq!(oddity(&model, &readable(2, &[("sn", 1)])), differs(true, &["cn"]));
        assert_eq!(oddity(&model, &readable(1, &[("sn", 1), ("cn", 1)])), differs(false, &[]));
        let verdict = Verdict { model: 1, odd: vec![2, 3], is_clear: true };
        let unreadable = HeldEntry::Unreadable("is empty".to_owned());
        let said = BTreeMap::from([(1, HeldEntry::Missing), (2, more), (3, unreadable)]);
        let found = of_entry(9, &verdict, &said);
        assert_eq!((found.id, &*found.name, &*found.uuid), (9, "cn=1", "u"));
        let how: Vec<_> = found.odd.into_iter().map(|one| (one.member, one.how)).collect();
        let reason = "is empty".to_owned();
        assert_eq!(how, [(2, Oddity::Surplus), (3, Oddity::Unreadable(reason))]);
    }
}
