//! Random operations against a naive directory in memory, through the same door as clients: every
//! result code, every entry of every search must agree, with and without controls.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "model/controls.rs"]
mod controls;
#[path = "model/naive.rs"]
mod naive;
mod support;

use environment::{Chance as _, SeededChance};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use naive::{Key, Modification, Naive, NaiveFilter};
use support::{Asked, Client, Found, SUFFIX, Served};

const SEEDS: [u64; 3] = [4711, 815, 42];
const STEPS: usize = 1_500;

const NAMES: [&str; 6] = ["a", "B", "c c", "d,d", "E", "ü"];
const WORDS: [&str; 8] =
    ["red", "Red wine", "green", "GREEN  tea", "blue", "r", "e", "red green blue tea wine"];
const NUMBERS: [&str; 5] = ["-1", "0", "7", "10", "123456789012345678901234567890"];
/// Indexed, indexed by another rule, not indexed, with an option, indexed.
const TEXTS: [&str; 5] = ["l", "mail", "description", "l;lang-de", "title"];

/// Chance with a seed, so that a failure can be repeated.
struct Dice(SeededChance);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        let mut octets = [0; 8];
        self.0.fill(&mut octets);
        usize::try_from(u64::from_le_bytes(octets) % sides as u64).unwrap()
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.roll(from.len())]
    }

    /// Some different words; different also when case and spaces do not count.
    fn words(&mut self, most: usize) -> Vec<&'static str> {
        let mut words = Vec::<&'static str>::new();
        for _ in 0..self.roll(most + 1) {
            let word = self.pick(&WORDS);
            if !words.iter().any(|known| naive::fold(known) == naive::fold(word)) {
                words.push(word);
            }
        }
        words
    }

    fn rdn(&mut self) -> String {
        let value = self.pick(&NAMES);
        let value = if self.roll(4) == 0 { value.to_uppercase() } else { value.to_owned() };
        format!("ou={}", value.replace(',', "\\,"))
    }

    /// A name: mostly one that exists, sometimes one below it.
    fn name(&mut self, model: &Naive) -> String {
        let keys: Vec<&Key> = model.keys().collect();
        let above = match keys.get(self.roll(keys.len().max(1))) {
            Some(key) => model.dn(key),
            None => SUFFIX.to_owned(),
        };
        if self.roll(8) == 0 { format!("{},{above}", self.rdn()) } else { above }
    }

    fn scope(&mut self) -> Scope {
        [Scope::Base, Scope::One, Scope::Subtree, Scope::Subtree, Scope::Subordinate][self.roll(5)]
    }

    fn filter(&mut self, model: &Naive, depth: usize) -> NaiveFilter {
        let attribute = self.pick(&["l", "mail", "description", "l;lang-de", "name", "OU"]);
        let word = self.pick(&WORDS).to_owned();
        let several =
            |dice: &mut Self| (0..dice.roll(4)).map(|_| dice.filter(model, depth - 1)).collect();
        match self.roll(if depth > 0 { 16 } else { 12 }) {
            0 | 1 => NaiveFilter::Equal(attribute, word),
            2 => NaiveFilter::Present(attribute),
            3 => NaiveFilter::Starts(attribute, self.pick(&["r", "Re", "green t", "BLUE"])),
            4 => NaiveFilter::Holds(attribute, self.pick(&["re", "N", "tea", "d g"])),
            5 => NaiveFilter::Ends(attribute, self.pick(&["d", "TEA", "wine", "n"])),
            6 => NaiveFilter::AtLeast("uidNumber", self.pick(&NUMBERS)),
            7 => NaiveFilter::AtMost("uidNumber", self.pick(&NUMBERS)),
            8 => NaiveFilter::Equal("uidNumber", self.pick(&NUMBERS).to_owned()),
            9 => NaiveFilter::HasSubordinates(self.roll(2) == 0),
            10 => NaiveFilter::EntryDn(self.name(model)),
            11 => NaiveFilter::Unknown,
            12 | 13 => NaiveFilter::And(several(self)),
            14 => NaiveFilter::Or(several(self)),
            _ => NaiveFilter::Not(Box::new(self.filter(model, depth - 1))),
        }
    }
}

fn add(dice: &mut Dice, model: &mut Naive, root: &mut Client) -> (ResultCode, ResultCode) {
    let name = format!("{},{}", dice.rdn(), dice.name(model));
    let mut attributes = vec![("objectClass", vec!["organizationalUnit", "extensibleObject"])];
    for description in TEXTS {
        attributes.push((description, dice.words(3)));
    }
    if dice.roll(2) == 0 {
        attributes.push(("uidNumber", vec![dice.pick(&NUMBERS)]));
    }
    attributes.retain(|(_, values)| !values.is_empty());
    let list: Vec<(&str, &[&str])> =
        attributes.iter().map(|(description, values)| (*description, &values[..])).collect();
    (root.add(&name, &list), model.add(&name, &attributes))
}

fn modify(dice: &mut Dice, model: &mut Naive, root: &mut Client) -> (ResultCode, ResultCode) {
    let name = dice.name(model);
    let mut changes: Vec<Modification<'_>> = Vec::new();
    for _ in 0..=dice.roll(3) {
        changes.push(match dice.roll(12) {
            0 => (ModifyOperation::Replace, "uidNumber", vec![dice.pick(&NUMBERS)]),
            1 => (ModifyOperation::Increment, "uidNumber", vec![dice.pick(&["1", "-8"])]),
            2 => (ModifyOperation::Delete, "uidNumber", vec![]),
            3 => (ModifyOperation::Delete, "ou", vec![dice.pick(&NAMES)]),
            4 => (ModifyOperation::Add, "ou", vec![dice.pick(&NAMES)]),
            5 | 6 => (ModifyOperation::Replace, dice.pick(&TEXTS), dice.words(3)),
            7 => (ModifyOperation::Delete, dice.pick(&TEXTS), vec![]),
            8 => (ModifyOperation::Delete, dice.pick(&TEXTS), vec![dice.pick(&WORDS)]),
            _ => (ModifyOperation::Add, dice.pick(&TEXTS), vec![dice.pick(&WORDS)]),
        });
    }
    let list: Vec<(ModifyOperation, &str, &[&str])> = changes
        .iter()
        .map(|(operation, description, values)| (*operation, *description, &values[..]))
        .collect();
    (root.modify(&name, &list), model.modify(&name, &changes))
}

fn rename(dice: &mut Dice, model: &mut Naive, root: &mut Client) -> (ResultCode, ResultCode) {
    let name = dice.name(model);
    let rdn = dice.rdn();
    let delete_old = dice.roll(2) == 0;
    let superior = (dice.roll(3) > 0).then(|| dice.name(model));
    let superior = superior.as_deref();
    if model.is_suffix(&name) {
        // A naming context that is renamed has tests of its own: the model has one for good.
        return (ResultCode::UnwillingToPerform, ResultCode::UnwillingToPerform);
    }
    let code = root.rename(&name, &rdn, delete_old, superior);
    (code, model.rename(&name, &rdn, delete_old, superior))
}

fn search(dice: &mut Dice, model: &Naive, client: &mut Client) {
    let filter = dice.filter(model, 3);
    let (base, scope) = (dice.name(model), dice.scope());
    let want = check_search(model, client, &base, scope, &filter);
    if dice.roll(2) == 0 {
        let text = filter.to_string();
        let asked =
            Asked { base: &base, scope, filter: &text, attributes: &["*"], ..Asked::default() };
        let what = format!("{scope:?} of '{base}' for {text}");
        want.iter().for_each(|want| controls::check(dice, client, &asked, want, &what));
    }
}

/// Compares the answer with the naive one, and returns it; none when there is no such base.
fn check_search(
    model: &Naive,
    client: &mut Client,
    base: &str,
    scope: Scope,
    filter: &NaiveFilter,
) -> Option<Vec<Found>> {
    let text = filter.to_string();
    let search = Asked { base, scope, filter: &text, attributes: &["*"], ..Asked::default() };
    let answer = client.search(&search);
    let what = format!("{scope:?} of '{base}' for {text}");
    let Some(want) = model.search(base, scope, filter) else {
        assert_eq!(answer.code(), ResultCode::NoSuchObject, "{what}");
        return None;
    };
    assert_eq!(answer.code(), ResultCode::Success, "{what}: {}", answer.diagnostic);
    assert_eq!(sorted(answer.entries), sorted(want.clone()), "{what}");
    Some(want)
}

/// Entries and values have no order.
fn sorted(mut entries: Vec<Found>) -> Vec<Found> {
    for values in entries.iter_mut().flat_map(|entry| entry.attributes.values_mut()) {
        values.sort();
    }
    entries.sort_by(|a, b| a.dn.cmp(&b.dn));
    entries
}

/// The suffix as the model has it.
fn begin(root: &mut Client) -> Naive {
    let everything = Asked { attributes: &["*"], ..Asked::default() };
    let entries = root.search(&everything).entries;
    let [suffix] = &entries[..] else { panic!("a new directory has its suffix only") };
    Naive::new(suffix)
}

fn play(seed: u64) {
    let mut dice = Dice(SeededChance(seed));
    let served = Served::with(|options| options.limits.inline_candidates_max = 20);
    let mut root = served.root();
    let mut model = begin(&mut root);
    let mut done = 0;
    for step in 0..STEPS {
        let (code, want) = match dice.roll(20) {
            0..5 => add(&mut dice, &mut model, &mut root),
            5..8 => modify(&mut dice, &mut model, &mut root),
            8..10 => rename(&mut dice, &mut model, &mut root),
            10 => {
                let name = dice.name(&model);
                // An empty directory is a dull one.
                if name == SUFFIX {
                    continue;
                }
                (root.delete(&name), model.delete(&name))
            }
            _ => {
                search(&mut dice, &model, &mut root);
                continue;
            }
        };
        assert_eq!(code, want, "seed {seed}, step {step}");
        done += usize::from(code == ResultCode::Success);
    }
    assert!(done > STEPS / 10, "only {done} changes were made");
    let everything = NaiveFilter::And(Vec::new());
    let _ = check_search(&model, &mut root, SUFFIX, Scope::Subtree, &everything);
    let report = served.directory.store().check(&mut |_, _, _| {}).unwrap();
    assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
    let all = Asked { attributes: &["*", "+"], ..Asked::default() };
    let before = root.search(&all);
    drop(root);
    let served = served.reopen();
    assert_eq!(served.root().search(&all), before, "seed {seed}: re-opened");
}

#[test]
fn the_directory_does_what_a_naive_one_does() {
    for seed in SEEDS {
        println!("seed {seed}");
        play(seed);
    }
}
