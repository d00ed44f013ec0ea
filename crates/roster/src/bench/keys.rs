//! Which numbers the requests of a run use, in which order, without storing any of them.
//!
//! Every request takes a turn of its job. Turns are counted once for all connections and threads,
//! and interleaved between agents, so that no two requests have the same; a number is a function of
//! the turn.
//!
//! Invariant: in the order `unique` no number comes twice before every number has come once, for
//! ranges of any size.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::chance::{Chance, mix};

/// How numbers follow each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Drawn, so that one may come again at any time
    Random,
    /// In an order that looks random, none twice before all have come
    Unique,
    /// Counted up, again and again
    Sequential,
    /// Drawn, a few of them most of the time (Zipf's law, exponent 0.99)
    Zipf,
    /// Counted up, each once; then the run ends.
    #[value(skip)]
    Once,
}

/// Numbers below `span`, by turn.
#[derive(Debug)]
pub(crate) struct Keys {
    span: u64,
    order: Order,
    seed: u64,
    /// For the round that the last turn was in.
    permutation: (u64, Permutation),
    zipf: Option<Zipf>,
}

impl Keys {
    /// Numbers below `span`, which is above 0; `seed` differs between the ranges of a request.
    pub(crate) fn new(span: u64, order: Order, seed: u64) -> Self {
        Self {
            span,
            order,
            seed,
            permutation: (0, Permutation::new(span, seed)),
            zipf: (order == Order::Zipf).then(|| Zipf::new(span)),
        }
    }

    /// The number of this turn.
    pub(crate) fn at(&mut self, turn: u64) -> u64 {
        match self.order {
            Order::Random => Chance::new(self.seed, turn).below(self.span),
            Order::Sequential | Order::Once => turn % self.span,
            Order::Unique => {
                let round = turn / self.span;
                if self.permutation.0 != round {
                    self.permutation = (round, Permutation::new(self.span, self.seed ^ mix(round)));
                }
                self.permutation.1.at(turn % self.span)
            }
            Order::Zipf => {
                let rank = match &self.zipf {
                    Some(zipf) => zipf.draw(&mut Chance::new(self.seed, turn)),
                    None => 0,
                };
                // The numbers that come often stand anywhere, as they do in life.
                self.permutation.1.at(rank)
            }
        }
    }
}

/// A bijection of the numbers below `span`: a Feistel network over the next even power of two,
/// walked until it is back in the range (Black and Rogaway 2002).
#[derive(Debug)]
struct Permutation {
    span: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    fn new(span: u64, seed: u64) -> Self {
        let bits = u64::BITS - span.saturating_sub(1).leading_zeros();
        let mut chance = Chance::new(seed, span);
        let keys = std::array::from_fn(|_| chance.draw());
        Self { span, half_bits: bits.div_ceil(2).max(1), keys }
    }

    fn at(&self, number: u64) -> u64 {
        let mut number = number;
        // Fewer than four steps on average: the network is less than four times the range.
        loop {
            number = self.step(number);
            if number < self.span {
                return number;
            }
        }
    }

    fn step(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// Ranks by Zipf's law, drawn by rejection and inversion (Hörmann and Derflinger 1996).
#[derive(Debug)]
struct Zipf {
    span: f64,
    begin: f64,
    end: f64,
    cut: f64,
}

impl Zipf {
    fn new(span: u64) -> Self {
        let span = span as f64;
        Self {
            span,
            begin: integral(1.5) - 1.0,
            end: integral(span + 0.5),
            cut: 2.0 - inverse(integral(2.5) - 2_f64.powf(-EXPONENT)),
        }
    }

    /// A rank from 0.
    fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let part = unit(chance);
            let area = self.end + part * (self.begin - self.end);
            let place = inverse(area);
            let rank = (place + 0.5).floor().clamp(1.0, self.span);
            if rank - place <= self.cut || area >= integral(rank + 0.5) - rank.powf(-EXPONENT) {
                return rank as u64 - 1;
            }
        }
    }
}

/// The integral of `x^-EXPONENT`.
fn integral(x: f64) -> f64 {
    (x.powf(1.0 - EXPONENT) - 1.0) / (1.0 - EXPONENT)
}

fn inverse(area: f64) -> f64 {
    (area * (1.0 - EXPONENT) + 1.0).max(0.0).powf(1.0 / (1.0 - EXPONENT))
}

/// A number from 0 up to but not 1.
pub(crate) fn unit(chance: &mut Chance) -> f64 {
    (chance.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Rounds of the network: four look random, and a few more cost nothing.
const ROUNDS: usize = 6;
const EXPONENT: f64 = 0.99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_numbers_come_once_in_every_round() {
        for span in [1_u64, 2, 3, 5, 64, 65, 1000, 4097] {
            let mut keys = Keys::new(span, Order::Unique, 7);
            let mut rounds = Vec::new();
            for round in 0..3 {
                let numbers: Vec<u64> =
                    (0..span).map(|turn| keys.at(round * span + turn)).collect();
                let mut sorted = numbers.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..span), "{span}");
                rounds.push(numbers);
            }
            assert!(span < 64 || (rounds[0] != rounds[1] && rounds[1] != rounds[2]));
        }
    }

    #[test]
    fn unique_numbers_of_tens_of_millions_are_spread() {
        let mut keys = Keys::new(50_000_000, Order::Unique, 1);
        let numbers: Vec<u64> = (0..100_000).map(|turn| keys.at(turn)).collect();
        let distinct: std::collections::BTreeSet<&u64> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len());
        // Each tenth of the range gets about a tenth of them.
        for tenth in 0..10 {
            let here = numbers.iter().filter(|number| *number / 5_000_000 == tenth).count();
            assert!((9_500..10_500).contains(&here), "{tenth}: {here}");
        }
    }

    #[test]
    fn the_largest_ranges_work() {
        for order in [Order::Random, Order::Unique, Order::Sequential, Order::Zipf] {
            for span in [1, 2, u64::MAX] {
                let mut keys = Keys::new(span, order, 1);
                assert!((0..100).all(|turn| keys.at(turn) < span), "{order:?} {span}");
            }
        }
    }

    #[test]
    fn a_few_numbers_come_most_of_the_time_by_zipfs_law() {
        let mut keys = Keys::new(1000, Order::Zipf, 1);
        let mut counts = vec![0_u32; 1000];
        (0..100_000).for_each(|turn| counts[keys.at(turn) as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The first has 1/H of all, with H the sum of 1/n^0.99 up to 1000: about 7.7.
        assert!((12_000..14_000).contains(&counts[0]), "{}", counts[0]);
        assert!((6_000..7_200).contains(&counts[1]), "{}", counts[1]);
    }

    #[test]
    fn the_same_turn_gives_the_same_number_whoever_asks() {
        for order in [Order::Random, Order::Unique, Order::Zipf] {
            let (mut one, mut other) = (Keys::new(99, order, 3), Keys::new(99, order, 3));
            let upwards: Vec<u64> = (0..300).map(|turn| one.at(turn)).collect();
            let mut downwards: Vec<u64> = (0..300).rev().map(|turn| other.at(turn)).collect();
            downwards.reverse();
            assert_eq!(upwards, downwards);
        }
    }
}
