//! After all rounds: does every node hold what was acknowledged, nothing that was refused, and the
//! same as the others?

use std::collections::BTreeMap;

use super::load::{Account, COUNTER, Fate, Written};
use crate::client::Tree;

/// What is wrong with the trees of all nodes, in words.
pub(super) fn judge(accounts: &[Account], trees: &[Tree]) -> Vec<String> {
    let mut faults: Vec<String> =
        accounts.iter().flat_map(|account| account.faults.iter().cloned()).collect();
    for (tree, number) in trees.iter().zip(1..) {
        let mut wrong = Vec::new();
        for (dn, written) in accounts.iter().flat_map(|account| &account.written) {
            wrong.extend(judge_entry(dn, written, tree));
        }
        wrong.extend(unasked(accounts, tree));
        faults.extend(cut(wrong).into_iter().map(|what| format!("node {number}: {what}")));
    }
    if let Some((first, others)) = trees.split_first() {
        for (tree, number) in others.iter().zip(2..) {
            let differing = cut(differences(first, tree));
            faults.extend(differing.into_iter().map(|dn| format!("nodes 1 and {number}: {dn}")));
        }
    }
    faults
}

/// What is wrong with one entry.
fn judge_entry(dn: &str, written: &Written, tree: &Tree) -> Option<String> {
    let Some(attributes) = tree.get(dn) else {
        let is_lost = written.fate == Fate::Acknowledged;
        return is_lost.then(|| format!("acknowledged and not there: {dn}"));
    };
    if written.fate == Fate::Refused {
        return Some(format!("refused and there: {dn}"));
    }
    let values = attributes.iter().find(|(name, _)| name.eq_ignore_ascii_case(COUNTER));
    let value = values.and_then(|(_, values)| values.first());
    let text = value.map(|value| String::from_utf8_lossy(value).into_owned());
    let found = text.as_ref().and_then(|text| text.parse::<u64>().ok());
    if found == Some(written.count) || found.is_some() && found == written.unknown {
        return None;
    }
    let Written { count, unknown, .. } = written;
    Some(format!("{dn}: acknowledged {count}, without an answer {unknown:?}, found {text:?}"))
}

/// Entries of clients that no client wanted.
fn unasked(accounts: &[Account], tree: &Tree) -> Vec<String> {
    let is_known = |dn: &String| accounts.iter().any(|account| account.written.contains_key(dn));
    let of_clients = tree.keys().filter(|dn| dn.starts_with("uid=client"));
    of_clients.filter(|dn| !is_known(dn)).map(|dn| format!("nobody added it: {dn}")).collect()
}

/// The names of entries that two nodes do not have alike, octet for octet, and how they differ.
fn differences(one: &Tree, other: &Tree) -> Vec<String> {
    let mut names: BTreeMap<&String, ()> = one.keys().map(|dn| (dn, ())).collect();
    names.extend(other.keys().map(|dn| (dn, ())));
    let differing = names.into_keys().filter(|dn| one.get(*dn) != other.get(*dn));
    let tell = |dn: &String| match (one.get(dn), other.get(dn)) {
        (Some(left), Some(right)) => {
            let differing = left.iter().zip(right).find(|(left, right)| left != right);
            format!("not alike: {dn}: {differing:?} of {} and {}", left.len(), right.len())
        }
        (left, _) => format!("only on one of them ({}): {dn}", if left.is_some() { 1 } else { 2 }),
    };
    differing.map(tell).collect()
}

fn cut(mut wrong: Vec<String>) -> Vec<String> {
    if wrong.len() > FAULTS_MAX {
        let more = wrong.len() - FAULTS_MAX;
        wrong.truncate(FAULTS_MAX);
        wrong.push(format!("… and {more} more"));
    }
    wrong
}

/// Faults told in full of one node.
const FAULTS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn account(fate: Fate, count: u64, unknown: Option<u64>) -> Vec<Account> {
        let written = [("uid=client0-1".to_owned(), Written { fate, count, unknown })].into();
        vec![Account { written, ..Account::default() }]
    }

    fn tree(count: &str) -> Tree {
        let attribute = (COUNTER.to_owned(), vec![count.as_bytes().to_vec()]);
        [("uid=client0-1".to_owned(), vec![attribute])].into()
    }

    #[test]
    fn what_is_right_is_no_fault() {
        let right = [
            (account(Fate::Acknowledged, 3, None), tree("3")),
            (account(Fate::Acknowledged, 3, Some(4)), tree("4")),
            (account(Fate::Acknowledged, 3, Some(4)), tree("3")),
            (account(Fate::Unknown, 0, None), tree("0")),
            (account(Fate::Unknown, 0, None), Tree::new()),
            (account(Fate::Refused, 0, None), Tree::new()),
        ];
        for (accounts, tree) in right {
            let faults = judge(&accounts, &[tree.clone(), tree.clone()]);
            assert!(faults.is_empty(), "{accounts:?} {tree:?}: {faults:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let wrong = [
            (account(Fate::Acknowledged, 0, None), Tree::new(), "acknowledged and not there"),
            (account(Fate::Refused, 0, None), tree("0"), "refused and there"),
            (account(Fate::Acknowledged, 3, None), tree("2"), "acknowledged 3"),
            (account(Fate::Acknowledged, 3, Some(4)), tree("5"), "found Some(\"5\")"),
            (Vec::new(), tree("0"), "nobody added it"),
        ];
        for (accounts, tree, want) in wrong {
            let faults = judge(&accounts, &[tree]);
            assert_eq!(faults.len(), 1, "{want}: {faults:?}");
            assert!(faults[0].contains(want), "{want}: {faults:?}");
        }
        let uncertain = account(Fate::Acknowledged, 3, Some(4));
        let faults = judge(&uncertain, &[tree("3"), tree("4"), tree("3")]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with("nodes 1 and 2: not alike"), "{faults:?}");
        let faults = judge(&account(Fate::Unknown, 0, None), &[tree("0"), Tree::new()]);
        assert!(faults[0].contains("only on one of them (1)"), "{faults:?}");
    }
}
