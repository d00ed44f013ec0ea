//! Random loads: what is in the store afterwards is what a simple model says, and every index fits.
//! Little memory, so that most is spilled; several threads; any order, names that come again,
//! superiors that come late or never; into empty and into filled stores.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::*;
use crate::conformance::Chance;
use crate::testing::TestStore;

/// Names in the order of the tree, with some below others.
fn names(count: u64, chance: &mut Chance) -> Vec<String> {
    let mut names = vec!["dc=example,dc=com".to_owned(), "o=Other".to_owned()];
    for number in 0..count {
        let above = match chance.below(4) {
            0 => chance.below(names.len()),
            _ => chance.below(names.len().min(4)),
        };
        let long = if chance.below(12) == 0 { "x".repeat(480) } else { String::new() };
        names.push(format!("cn=Entry {number}{long},{}", names[above]));
    }
    names
}

/// An entry of this name; what it holds depends on the number alone.
fn entry_of(name: &str, number: u64) -> Entry {
    let class = ["person", "inetOrgPerson", "organizationalPerson"][number as usize % 3];
    let mut text = format!(
        "{name}\nobjectClass: top\nobjectClass: {class}\nsn: Name {}\n\
         description: version {number}",
        number % 5
    );
    for value in 0..number % 4 {
        text.push_str(&format!("\ncn: Value {} of {}", number * 7 % 50, value));
    }
    if number.is_multiple_of(2) {
        text.push_str(&format!("\nmail: m{number}@example.com\nuid: u{}", number % 20));
    }
    if number.is_multiple_of(9) {
        text.push_str(&format!("\nuidNumber: {}\nl;lang-de: Ort {number}", number % 30));
    }
    entry(&text)
}

/// Which record, why, and which was first.
type Refused = (u64, &'static str, Option<u64>);

/// What a load is to do.
#[derive(Debug)]
struct Model {
    held: Held,
    /// What is there, by the name in small letters, and the number of the record that brought it.
    entries: BTreeMap<String, (u64, Option<u64>)>,
    refused: Vec<Refused>,
    replaced: u64,
}

impl Model {
    fn add(&mut self, number: u64, name: &str) -> bool {
        let key = name.to_lowercase();
        let is_top = ["dc=example,dc=com", "o=other"].contains(&key.as_str());
        if !key.ends_with("dc=example,dc=com") && !key.ends_with("o=other") {
            self.refused.push((number, "is in no naming context", None));
            return true;
        }
        let above = key.split_once(',').map(|(_, above)| above).unwrap_or_default();
        if !is_top && !self.entries.contains_key(above) {
            return false;
        }
        match self.entries.get(&key) {
            None => {
                self.entries.insert(key, (number, Some(number)));
            }
            Some((_, Some(first))) => {
                self.refused.push((number, "occurs twice", Some(*first)));
            }
            Some((_, None)) if self.held == Held::Keep => {
                self.refused.push((number, "exists already", None));
            }
            Some((_, None)) => {
                self.replaced += 1;
                self.entries.insert(key, (number, Some(number)));
            }
        }
        true
    }

    fn load(&mut self, file: &[(u64, String)]) {
        let mut waiting: Vec<_> =
            file.iter().filter(|(number, name)| !self.add(*number, name)).collect();
        loop {
            let before = waiting.len();
            waiting.retain(|(number, name)| !self.add(*number, name));
            if waiting.len() == before {
                break;
            }
        }
        for (number, _) in waiting {
            self.refused.push((*number, "lacks its superior", None));
        }
    }
}

/// What is in the store: names in small letters and descriptions.
fn contents(store: &Store) -> BTreeMap<String, String> {
    let environment = store.base_environment();
    let txn = environment.read().unwrap();
    let view = store.snapshot(Memories::default()).unwrap();
    let mut contents = BTreeMap::new();
    for row in environment.tables.entries.iter(&txn).unwrap() {
        let id = crate::rows::key::id(row.unwrap().0).unwrap();
        let entry = view.expect_entry(id).unwrap().to_entry().unwrap();
        let description = store.schema().describe("description").unwrap();
        let text = entry.get(&description).unwrap().values[0].clone();
        let name = view.dn(EntryId(id)).unwrap().to_lowercase();
        contents.insert(name, String::from_utf8(text).unwrap());
    }
    contents
}

struct Trial {
    options: LoadOptions,
    /// What is there before: numbers and names.
    before: Vec<(u64, String)>,
    file: Vec<(u64, String)>,
}

fn trial(seed: u64) -> Trial {
    let mut chance = Chance::new(seed);
    let count = [0, 3, 40, 200][chance.below(4)];
    let names = names(count, &mut chance);
    let held = [Held::Refuse, Held::Keep, Held::Replace, Held::Clear][chance.below(4)];
    let options = LoadOptions {
        seed,
        memory_bytes: [0, 1 << 20, 1 << 30][chance.below(3)],
        own_bytes: 0,
        threads: 1 + chance.below(3),
        held,
        is_check: chance.below(6) == 0,
        compress: chance.below(3) == 0,
    };
    let before_count = match held {
        Held::Refuse => chance.below(3),
        _ => chance.below(names.len() + 1),
    };
    let before = names[..before_count].iter().map(|name| (1000, name.clone())).collect();
    let mut file: Vec<String> = Vec::new();
    for name in &names {
        // Some are missing, so that others have no superior; some come again.
        for _ in 0..[0, 1, 1, 1, 1, 1, 1, 1, 1, 2][chance.below(10)] {
            file.push(if chance.below(3) == 0 { name.to_uppercase() } else { name.clone() });
        }
    }
    if chance.below(3) == 0 {
        file.push("cn=a,dc=elsewhere".to_owned());
    }
    let swaps = [0, 2, file.len()][chance.below(3)];
    for _ in 0..swaps {
        let (one, other) = (chance.below(file.len()), chance.below(file.len()));
        file.swap(one, other);
    }
    let file = (0..).zip(file).collect();
    Trial { options, before, file }
}

/// Loads the file with as many preparers as threads, by turns; gaps in the ids.
fn run(store: &Store, trial: &Trial) -> (Result<BulkReport, BulkError>, Vec<Refused>) {
    let mut loader = store.bulk_load(&trial.options).unwrap();
    let mut preparers: Vec<Preparer> =
        (0..trial.options.threads).map(|_| loader.preparer()).collect();
    let mut refused = Vec::new();
    let seen = |refusal: Refusal| {
        let first = match refusal.reason {
            RefusalReason::Duplicate { first } => first.map(|place| place.line),
            _ => None,
        };
        (refusal.place.line, refusal.reason.name(), first)
    };
    for (number, name) in &trial.file {
        let place = SourceLine { source: 3, line: *number };
        let turn = (*number as usize / 5) % preparers.len();
        let id = loader.first_id() + number * 2;
        match preparers[turn].prepare(&entry_of(name, *number), place, id) {
            Ok(prepared) => {
                if let Added::Refused(refusal) = loader.add(prepared).unwrap() {
                    refused.push(seen(refusal));
                }
            }
            Err(PrepareError::Refused(refusal)) => refused.push(seen(refusal)),
            Err(PrepareError::Store(error)) => panic!("{error}"),
        }
    }
    preparers.into_iter().for_each(|preparer| loader.retire(preparer));
    let report = loader.finish(&mut |_, _, _| ControlFlow::Continue(()), &mut |refusal| {
        refused.push(seen(refusal));
        ControlFlow::Continue(())
    });
    (report, refused)
}

fn check(seed: u64) {
    let trial = trial(seed);
    let store = fresh();
    let before: Vec<Entry> =
        trial.before.iter().map(|(number, name)| entry_of(name, *number)).collect();
    add_each(&store, &before);
    let was = contents(&store);
    let is_top = |(_, name): &(u64, String)| !name.starts_with("cn=");
    let held = match trial.options.held {
        Held::Keep if trial.before.iter().all(is_top) => Held::Refuse,
        held => held,
    };
    let mut model = Model { held, entries: BTreeMap::new(), refused: Vec::new(), replaced: 0 };
    if trial.options.held != Held::Clear {
        let held = trial.before.iter();
        model.entries.extend(held.map(|(number, name)| (name.to_lowercase(), (*number, None))));
    }
    model.load(&trial.file);
    let (report, mut refused) = run(&store, &trial);
    let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    refused.sort();
    model.refused.sort();
    assert_eq!(refused, model.refused, "seed {seed}");
    let loaded = model.entries.values().filter(|(_, brought)| brought.is_some()).count() as u64;
    assert_eq!((report.entries, report.replaced), (loaded, model.replaced), "seed {seed}");
    if trial.options.is_check {
        assert_eq!(contents(&store), was, "seed {seed}");
    } else {
        let entries = model.entries.iter();
        let want: BTreeMap<String, String> = entries
            .map(|(name, (number, _))| (name.clone(), format!("version {number}")))
            .collect();
        assert_eq!(contents(&store), want, "seed {seed}");
    }
    is_sound(&store, seed);
    let directory = store.data_directory().path();
    assert!(!directory.join("import").exists(), "seed {seed}");
    goes_on(&store, seed);
}

fn is_sound(store: &TestStore, seed: u64) {
    let report = store.check(&mut |_, _, _| {}).unwrap();
    assert_eq!(report.findings, [], "seed {seed}");
}

/// It takes changes as before, and another load.
fn goes_on(store: &TestStore, seed: u64) {
    let context = "dc=example,dc=com";
    if contents(store).contains_key(context) {
        add_each(store, &[entry_of(&format!("cn=after,{context}"), 1)]);
        let options = LoadOptions { held: Held::Keep, ..LoadOptions::default() };
        let mut loader = store.bulk_load(&options).unwrap();
        loader.load(&entry_of(&format!("cn=again,cn=after,{context}"), 2), 1).unwrap();
        assert_eq!(loader.commit().unwrap().entries, 1, "seed {seed}");
        is_sound(store, seed);
    }
}

#[test]
fn a_load_of_any_file_makes_what_the_model_says() {
    (0..40).for_each(check);
}
