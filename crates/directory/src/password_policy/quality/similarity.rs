//! How far one password is from another: the fewest characters to be changed, added or removed.

/// Whether fewer than `least` steps lead from one to the other.
///
/// Only paths that stay within `least` of the diagonal are looked at, so that it takes time that
/// grows with the length times `least`, which is bounded.
pub(super) fn is_nearer(old: &str, new: &str, least: u32) -> bool {
    let least = usize::try_from(least).unwrap_or(usize::MAX).min(DIFFERENCE_MAX);
    if least == 0 {
        return false;
    }
    let old = old.chars().take(COMPARED_MAX_CHARACTERS).collect::<Vec<_>>();
    let new = new.chars().take(COMPARED_MAX_CHARACTERS).collect::<Vec<_>>();
    if old.len().abs_diff(new.len()) >= least {
        return false;
    }
    // `row[j]`: steps from the first i characters of the old one to the first j of the new one.
    let mut row = (0..=new.len()).map(|steps| steps.min(least)).collect::<Vec<_>>();
    for (i, from) in old.iter().enumerate() {
        let (low, high) = (i.saturating_sub(least), (i + least).min(new.len()));
        let mut diagonal = row.get(low).copied().unwrap_or(least);
        let mut left = if low == 0 { (i + 1).min(least) } else { least };
        if let Some(first) = row.get_mut(low) {
            *first = left;
        }
        for (j, to) in new.iter().enumerate().take(high).skip(low) {
            let Some(cell) = row.get_mut(j + 1) else { break };
            let kept = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = kept.min(*cell + 1).min(left + 1).min(least);
            *cell = left;
        }
    }
    row.last().is_some_and(|steps| *steps < least)
}

/// The most that a policy may ask for; more is as much.
pub(super) const DIFFERENCE_MAX: usize = 64;
/// So much of each is compared.
const COMPARED_MAX_CHARACTERS: usize = 1_024;
