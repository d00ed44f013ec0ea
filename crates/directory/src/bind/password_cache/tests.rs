//! What is found against what was put in, in every order.

use std::collections::HashMap;

use environment::SeededChance;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const AGE: Duration = Duration::from_secs(10);

/// What may be asked of a cache; numbers stand for names, lists of stored values and passwords.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Find(u64, usize, usize, usize),
    Put(u64, usize, usize, usize),
    Forget(u64),
    Wait(u64),
    Sweep,
}

fn asked() -> impl Strategy<Value = Asked> {
    let of = || (1_u64..4, 0_usize..2, 0_usize..LISTS.len(), 0_usize..CLEAR.len());
    prop_oneof![
        4 => of().prop_map(|(id, key, list, clear)| Asked::Find(id, key, list, clear)),
        3 => of().prop_map(|(id, key, list, clear)| Asked::Put(id, key, list, clear)),
        1 => (1_u64..4).prop_map(Asked::Forget),
        2 => (1_u64..8).prop_map(Asked::Wait),
        1 => Just(Asked::Sweep),
    ]
}

/// Some have the same octets, divided otherwise.
const LISTS: [&[&str]; 5] = [&["a"], &["ab"], &["a", "b"], &["b", "a"], &["a", "b", "c"]];
const CLEAR: [&str; 4] = ["x", "xy", "bx", ""];

fn list(number: usize) -> Vec<Vec<u8>> {
    LISTS[number].iter().map(|value| value.as_bytes().to_vec()).collect()
}

fn cache(passwords_max: usize) -> PasswordCache {
    let options = PasswordCacheOptions { age_max: AGE, passwords_max };
    PasswordCache::new(options, &mut SeededChance(7)).unwrap()
}

/// The place that a password is put at: of the model, too.
fn place(clear: usize, stored: usize) -> usize {
    clear % LISTS[stored].len()
}

proptest! {
    #[test]
    fn what_is_found_was_put_in_and_is_not_too_old(
        turns in vec(asked(), 1..60),
        small in any::<bool>(),
    ) {
        let passwords_max = if small { 2 } else { 1_000 };
        let cache = cache(passwords_max);
        let keys = [DnKey::from_bytes(b"one".to_vec()), DnKey::from_bytes(b"two".to_vec())];
        // By account and place: what was put there last, and when.
        let mut model: HashMap<Owner, (usize, usize, usize, Duration)> = HashMap::new();
        let mut now = Duration::ZERO;
        for turn in turns {
            match turn {
                Asked::Find(id, key, stored, clear) => {
                    let account = Account { id: EntryId(id), key: &keys[key] };
                    let octets = (CLEAR[clear].as_bytes(), &*list(stored));
                    let is_one = |key, list| {
                        let values = (id, key, list);
                        model.iter().any(|(owner, put)| {
                            (owner.0.0, put.0, put.1) == values && now - put.3 < AGE
                        })
                    };
                    let holds = is_one(key, stored);
                    let found = cache.find(account, octets.0, octets.1, now);
                    let is_another = matches!(found, Remembered::Another(_));
                    let found = matches!(found, Remembered::This(_));
                    // It says that there is another one where there is.
                    prop_assert!(holds || !is_another);
                    prop_assert!(small || found || is_another == holds);
                    let at = place(clear, stored);
                    let is_there = model.get(&(EntryId(id), at)).is_some_and(|put| {
                        (put.0, put.1, put.2) == (key, stored, clear) && now - put.3 < AGE
                    });
                    prop_assert!(is_there || !found);
                    prop_assert!(small || found == is_there);
                }
                Asked::Put(id, key, stored, clear) => {
                    let account = Account { id: EntryId(id), key: &keys[key] };
                    let octets = (CLEAR[clear].as_bytes(), &*list(stored));
                    let at = place(clear, stored);
                    cache.put(account, octets.0, octets.1, at, now);
                    model.insert((EntryId(id), at), (key, stored, clear, now));
                    let found = cache.find(account, octets.0, octets.1, now);
                    prop_assert!(matches!(found, Remembered::This(_)));
                }
                Asked::Forget(id) => {
                    cache.forget(EntryId(id));
                    model.retain(|owner, _| owner.0 != EntryId(id));
                }
                Asked::Wait(seconds) => now += Duration::from_secs(seconds),
                Asked::Sweep => {
                    cache.sweep(now);
                    model.retain(|_, put| now - put.3 < AGE);
                    prop_assert!(small || cache.counts().held == model.len() as u64);
                }
            }
            prop_assert!(cache.counts().held <= passwords_max as u64);
            for shard in &cache.shards {
                let shard = shard.lock().unwrap();
                prop_assert_eq!(shard.slots.len(), shard.index.len());
                let is_right = |(owner, at): (&Owner, &usize)| shard.slots[*at].owner == *owner;
                prop_assert!(shard.index.iter().all(is_right));
            }
        }
    }
}

#[test]
fn what_is_too_old_is_swept_and_the_rest_stays() {
    let cache = cache(1_000);
    let key = DnKey::from_bytes(b"one".to_vec());
    let stored = list(0);
    for id in 1..100 {
        let account = Account { id: EntryId(id), key: &key };
        cache.put(account, b"x", &stored, 0, Duration::from_secs(id % 20));
    }
    cache.sweep(Duration::from_secs(20));
    let held = (1..100).filter(|id| id % 20 > 10).count();
    assert_eq!(cache.counts().held, held as u64);
}

#[test]
fn the_limit_holds_over_all_parts() {
    for passwords_max in [1, 63, 64, 130, 1_000, 5_000] {
        let cache = cache(passwords_max);
        let key = DnKey::default();
        for id in 1..10_000 {
            let account = Account { id: EntryId(id), key: &key };
            cache.put(account, b"x", &list(0), 0, Duration::ZERO);
        }
        let held = cache.counts().held;
        let least = passwords_max - passwords_max.min(SHARDS_MAX - 1);
        assert!(held <= passwords_max as u64 && held >= least as u64, "{held} of {passwords_max}");
    }
}

#[test]
fn another_process_has_another_key() {
    let key = DnKey::default();
    let account = Account { id: EntryId(1), key: &key };
    let digest = |seed| Secret::new(&mut SeededChance(seed)).digest(account, b"x", &list(0));
    assert_eq!(*digest(1), *digest(1));
    assert_ne!(*digest(1), *digest(2));
}
