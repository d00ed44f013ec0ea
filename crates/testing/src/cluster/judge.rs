//! After all rounds: does every node hold what was acknowledged, nothing that was refused, and the
//! same as the others?

use std::collections::{BTreeMap, BTreeSet};

use super::load::{Account, COUNTER, Fate, MEMBER, Span, Written, group_dn};
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
        for (account, client) in accounts.iter().zip(0..) {
            wrong.extend(judge_group(client, account, tree));
        }
        faults.extend(cut(wrong).into_iter().map(|what| format!("node {number}: {what}")));
    }
    if let Some(first) = trees.first() {
        faults.extend(cut(misordered(accounts, first)));
    }
    faults.extend(unlike(trees));
    faults
}

/// How the trees of other nodes differ from that of the first.
pub(super) fn unlike(trees: &[Tree]) -> Vec<String> {
    let mut faults = Vec::new();
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

/// What is wrong with the members of a client's group.
fn judge_group(client: usize, account: &Account, tree: &Tree) -> Vec<String> {
    let group = group_dn(client);
    let attributes = tree.get(&group).into_iter().flatten();
    let of_members = attributes.filter(|(name, _)| name.eq_ignore_ascii_case(MEMBER));
    let values = of_members.flat_map(|(_, values)| values);
    let found: BTreeSet<_> = values.map(|value| String::from_utf8_lossy(value)).collect();
    let known = &account.members;
    let certain = known.iter().filter(|(_, is_certain)| **is_certain);
    let lost = certain.filter(|(dn, _)| !found.contains(dn.as_str()));
    let lost = lost.map(|(dn, _)| format!("acknowledged and no member of {group}: {dn}"));
    let unasked = found.iter().filter(|dn| !known.contains_key(dn.as_ref()));
    let unasked = unasked.map(|dn| format!("nobody made it a member of {group}: {dn}"));
    lost.chain(unasked).collect()
}

/// Entries of clients that no client wanted, or that were deleted.
fn unasked(accounts: &[Account], tree: &Tree) -> Vec<String> {
    let is_known = |dn: &String| accounts.iter().any(|account| account.written.contains_key(dn));
    let of_clients = tree.keys().filter(|dn| dn.starts_with("uid=client"));
    of_clients
        .filter(|dn| !is_known(dn))
        .map(|dn| format!("nobody added it, or it was deleted: {dn}"))
        .collect()
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

/// Additions whose CSNs do not rise as they were decided: one that was asked for after another was
/// acknowledged has a higher CSN, and no two have the same.
fn misordered(accounts: &[Account], tree: &Tree) -> Vec<String> {
    let all = accounts.iter().flat_map(|account| &account.written);
    let untouched = all.filter(|(_, written)| {
        written.fate == Fate::Acknowledged && written.count == 0 && written.unknown.is_none()
    });
    let mut added: Vec<Added<'_>> =
        untouched.filter_map(|(dn, written)| Added::of(dn, written.span?, tree)).collect();
    let mut wrong = Vec::new();
    added.sort_by(|one, other| one.csn.cmp(other.csn));
    for pair in added.windows(2) {
        if let [one, other] = pair
            && one.csn == other.csn
        {
            wrong.push(format!("one CSN, {}: {} and {}", one.csn, one.dn, other.dn));
        }
    }
    let mut answered = added.clone();
    answered.sort_by_key(|one| one.span.answered);
    added.sort_by_key(|one| one.span.asked);
    let mut answered = answered.into_iter().peekable();
    let mut highest: Option<Added<'_>> = None;
    for one in added {
        while let Some(before) = answered.next_if(|before| before.span.answered < one.span.asked) {
            highest = Some(highest.filter(|highest| highest.csn > before.csn).unwrap_or(before));
        }
        if let Some(before) = &highest
            && before.csn >= one.csn
        {
            let (earlier, later) = (before.dn, one.dn);
            wrong.push(format!("{later} came after {earlier}: {} {}", one.csn, before.csn));
        }
    }
    wrong
}

/// An entry that nobody changed after it was added.
#[derive(Clone, Copy)]
struct Added<'t> {
    dn: &'t str,
    csn: &'t str,
    span: Span,
}

impl<'t> Added<'t> {
    /// With the CSN that it has in the tree.
    fn of(dn: &'t str, span: Span, tree: &'t Tree) -> Option<Self> {
        let mut attributes = tree.get(dn)?.iter();
        let (_, values) = attributes.find(|(name, _)| name.eq_ignore_ascii_case(CSN))?;
        let csn = std::str::from_utf8(values.first()?).ok()?;
        Some(Self { dn, csn, span })
    }
}

fn cut(mut wrong: Vec<String>) -> Vec<String> {
    if wrong.len() > FAULTS_MAX {
        let more = wrong.len() - FAULTS_MAX;
        wrong.truncate(FAULTS_MAX);
        wrong.push(format!("… and {more} more"));
    }
    wrong
}

/// The attribute that says when an entry was changed, in the order of changes.
const CSN: &str = "entryCSN";
/// Faults told in full of one node.
const FAULTS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn account(fate: Fate, count: u64, unknown: Option<u64>) -> Vec<Account> {
        let written =
            [("uid=client0-1".to_owned(), Written { fate, count, unknown, span: None })].into();
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
    fn members_are_those_that_were_added() {
        let check = |members: &[(&str, bool)], found: &[&str]| {
            let members = members.iter().map(|(dn, known)| ((*dn).to_owned(), *known)).collect();
            let values = found.iter().map(|value| value.as_bytes().to_vec()).collect();
            let tree: Tree = [(group_dn(0), vec![(MEMBER.to_owned(), values)])].into();
            judge(&[Account { members, ..Account::default() }], &[tree]).len()
        };
        let known = [("uid=a", true), ("uid=b", false)];
        assert_eq!(check(&known, &["uid=a"]), 0);
        assert_eq!(check(&known, &["uid=a", "uid=b"]), 0);
        assert_eq!(check(&known, &["uid=b"]), 1);
        assert_eq!(check(&known, &["uid=a", "uid=c"]), 1);
    }

    #[test]
    fn csns_rise_as_entries_were_added() {
        let start = crate::crash::server::now();
        let at = |seconds: u64| start + std::time::Duration::from_secs(seconds);
        let check = |csns: [&str; 3]| {
            // The first two at the same time, the third after both.
            let spans = [(0, 3), (1, 2), (4, 5)];
            let mut account = Account::default();
            let mut tree = Tree::new();
            for ((number, csn), (asked, answered)) in (0..).zip(csns).zip(spans) {
                let dn = format!("uid=client0-{number}");
                let span = Some(Span { asked: at(asked), answered: at(answered) });
                let (fate, count, unknown) = (Fate::Acknowledged, 0, None);
                account.written.insert(dn.clone(), Written { fate, count, unknown, span });
                tree.insert(dn, vec![(CSN.to_owned(), vec![csn.as_bytes().to_vec()])]);
            }
            misordered(&[account], &tree)
        };
        assert!(check(["1", "2", "3"]).is_empty());
        assert!(check(["2", "1", "3"]).is_empty());
        assert!(check(["2", "2", "3"])[0].starts_with("one CSN"));
        assert_eq!(check(["1", "4", "3"]), ["uid=client0-2 came after uid=client0-1: 3 4"]);
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
