//! Sorting what a run gathers: grams as numbers, values by eight octets at a time.

use crate::index::posting::Span;

/// A gram and the entry that has it, as one number: the gram (32 bits), and the id (32, from the
/// first of the run).
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct GramOf(u64);

/// How many ids one run can tell apart in its grams.
pub(super) const RUN_IDS_MAX: u64 = 1 << ID_BITS;

const ID_BITS: u32 = 32;
/// The bits that are sorted by at once: two octets. The text of an index has some hundreds of pairs
/// of them, so what is written next lies in few places, though there is room for all pairs.
const DIGIT_BITS: u32 = 16;
const BUCKETS: usize = 1 << DIGIT_BITS;

impl GramOf {
    #[inline]
    pub(super) const fn new(gram: [u8; 4], id: u64) -> Self {
        Self((u32::from_be_bytes(gram) as u64) << ID_BITS | id)
    }

    #[inline]
    pub(super) const fn gram(self) -> [u8; 4] {
        ((self.0 >> ID_BITS) as u32).to_be_bytes()
    }

    #[inline]
    pub(super) const fn id(self) -> u64 {
        self.0 & (RUN_IDS_MAX - 1)
    }

    /// The last two octets of the gram, and its first two.
    #[inline]
    const fn digits(self) -> (u16, u16) {
        let low = self.0 >> ID_BITS;
        (low as u16, (low >> DIGIT_BITS) as u16)
    }
}

/// Sorts by gram. What has the same stays in its order: that of the ids.
pub(super) fn sort_grams(grams: &mut [GramOf], scratch: &mut Vec<GramOf>) {
    if grams.len() < FEW_GRAMS {
        grams.sort_by_key(|gram| gram.gram());
        return;
    }
    let mut counts = [vec![0_usize; BUCKETS], vec![0_usize; BUCKETS]];
    let [lows, highs] = &mut counts;
    for gram in grams.iter() {
        let (low, high) = gram.digits();
        for (counts, digit) in [(&mut *lows, low), (&mut *highs, high)] {
            if let Some(count) = counts.get_mut(usize::from(digit)) {
                *count += 1;
            }
        }
    }
    if scratch.len() < grams.len() {
        // What is there need not be kept.
        *scratch = vec![GramOf::default(); grams.len()];
    }
    let scratch = scratch.get_mut(..grams.len()).unwrap_or_default();
    scatter(grams, scratch, lows, |gram| gram.digits().0);
    scatter(scratch, grams, highs, |gram| gram.digits().1);
}

/// Puts `from` into the order of a digit, of which `counts` says how often each value comes.
fn scatter(
    from: &[GramOf],
    to: &mut [GramOf],
    counts: &mut [usize],
    digit: impl Fn(GramOf) -> u16,
) {
    let mut next = 0;
    for count in counts.iter_mut() {
        next += std::mem::replace(count, next);
    }
    for &gram in from {
        if let Some(place) = counts.get_mut(usize::from(digit(gram)))
            && let Some(to) = to.get_mut(*place)
        {
            *to = gram;
            *place += 1;
        }
    }
}

/// So few are sorted by comparing them.
const FEW_GRAMS: usize = 1 << 15;

/// A key of some octets, and the entry that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueOf {
    /// Eight octets of the key, see [`sort_values`].
    prefix: u64,
    pub(super) id: u64,
    start: u32,
    length: u32,
}

impl ValueOf {
    /// `start` and `length` say where in the octets the key is.
    pub(super) const fn new(start: u32, length: u32, id: u64) -> Self {
        Self { prefix: 0, id, start, length }
    }

    /// Its id alone.
    pub(super) const fn span(&self) -> Span {
        Span { first: self.id, last: self.id }
    }

    #[inline]
    pub(super) fn key<'k>(&self, octets: &'k [u8]) -> &'k [u8] {
        let start = self.start as usize;
        octets.get(start..start + self.length as usize).unwrap_or_default()
    }
}

/// Sorts by key and id.
///
/// The keys of an index often begin alike. So what all have is left out, the next eight octets are
/// compared as a number, and what is the same in these goes on behind them.
pub(super) fn sort_values(values: &mut [ValueOf], octets: &[u8]) {
    sort_behind(values, octets, 0);
}

fn sort_behind(values: &mut [ValueOf], octets: &[u8], depth: usize) {
    if values.len() <= FEW_VALUES {
        values.sort_unstable_by(|one, other| {
            one.key(octets).cmp(other.key(octets)).then(one.id.cmp(&other.id))
        });
        return;
    }
    let Some((first, others)) = values.split_first() else { return };
    let first = first.key(octets).get(depth..).unwrap_or_default();
    let mut common = first.len();
    let mut is_same = true;
    for value in others {
        let key = value.key(octets).get(depth..).unwrap_or_default();
        is_same &= key.len() == first.len();
        let same = key.iter().zip(first).take(common).take_while(|(one, other)| one == other);
        common = same.count();
    }
    if is_same && common == first.len() {
        values.sort_unstable_by_key(|value| value.id);
        return;
    }
    let depth = depth + common;
    for value in values.iter_mut() {
        value.prefix = prefix_of(value.key(octets).get(depth..).unwrap_or_default());
    }
    values.sort_unstable_by_key(|value| value.prefix);
    for group in values.chunk_by_mut(|one, next| one.prefix == next.prefix) {
        // Where keys end within these octets, they may differ in their lengths alone. Not to go
        // over the octets keeps that in sight: what follows finds that they are common.
        sort_group(group, octets, depth);
    }
}

fn sort_group(group: &mut [ValueOf], octets: &[u8], depth: usize) {
    if group.len() <= 1 {
        return;
    }
    let is_long = |value: &ValueOf| value.length as usize >= depth + 8;
    if group.iter().all(is_long) {
        return sort_behind(group, octets, depth + 8);
    }
    // Zeros at the end of a key, or none: rare, and so sorted in the plain way.
    let is_same = group.iter().all(|value| !is_long(value)) && {
        let length = group.first().map(|value| value.length);
        group.iter().all(|value| Some(value.length) == length)
    };
    if is_same {
        group.sort_unstable_by_key(|value| value.id);
    } else {
        group.sort_unstable_by(|one, other| {
            one.key(octets).cmp(other.key(octets)).then(one.id.cmp(&other.id))
        });
    }
}

/// The first eight octets as a number, zeros behind a shorter key.
#[inline]
pub(super) fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(octets) => u64::from_be_bytes(*octets),
        None => {
            let mut octets = [0; 8];
            octets.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(octets)
        }
    }
}

/// So few are sorted by comparing them.
const FEW_VALUES: usize = 24;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_into_order(
            keys in prop::collection::vec(
                (0_usize..4, prop::collection::vec(0_u8..3, 0..30)),
                0..300,
            ),
        ) {
            let mut octets = Vec::new();
            let mut values = Vec::new();
            for (id, (prefix, key)) in keys.iter().enumerate() {
                let start = octets.len();
                octets.extend_from_slice(&b"commoncommoncommon"[..prefix * 6]);
                octets.extend_from_slice(key);
                let length = octets.len() - start;
                values.push(ValueOf::new(start as u32, length as u32, id as u64 % 7));
            }
            let pair = |value: &ValueOf| (value.key(&octets).to_vec(), value.id);
            let mut want: Vec<_> = values.iter().map(pair).collect();
            want.sort();
            sort_values(&mut values, &octets);
            prop_assert_eq!(values.iter().map(pair).collect::<Vec<_>>(), want);
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn grams_come_into_order(seed: u64, is_many: bool, count in 0_usize..10_000) {
            let count = if is_many { FEW_GRAMS + count } else { count };
            let (mut next, mut scratch) = (seed | 1, Vec::new());
            let mut grams: Vec<GramOf> = (0..count).map(|id| {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let [a, b, ..] = next.to_be_bytes();
                GramOf::new([b % 3, b, a, 7], id as u64)
            }).collect();
            let mut want = grams.clone();
            want.sort();
            sort_grams(&mut grams, &mut scratch);
            prop_assert_eq!(&grams, &want);
            prop_assert!(want.iter().all(|gram| gram.gram()[3] == 7));
            // Fewer afterwards, with what the first left in the scratch.
            grams.truncate(FEW_GRAMS + 7);
            grams.reverse();
            let mut want = grams.clone();
            want.sort_by_key(|gram| gram.gram());
            sort_grams(&mut grams, &mut scratch);
            prop_assert_eq!(&grams, &want);
        }
    }
}
