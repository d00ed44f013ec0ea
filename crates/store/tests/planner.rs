//! Plans over distributions that are hard on a planner: popular keys, empty keys, skew, huge
//! disjunctions, deep negations, small subtrees of a large tree. Every plan holds all that matches,
//! an exact one nothing else, and none costs more than a small factor of the best there is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "planner/mod.rs"]
mod planner;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use planner::scan::Scan;
use planner::{BY_FILTERED, POPULAR, World, filter_texts, resolve, world};
use proptest::prelude::*;
use schema::{DnKey, Entry, EntryId, ResolvedFilter, Schema, Truth};
use store::{
    Ask, CandidateSource, IndexConfig, IndexDefinition, LoadOptions, Operator, Resolved, Store,
    StoreError, StoreOptions, TermReport, View,
};

const SCOPES: [Scope; 4] = [Scope::Base, Scope::One, Scope::Subtree, Scope::Subordinate];

/// Every promise that a plan makes.
fn check(
    view: &View<'_>,
    scan: &Scan,
    text: &str,
    (base, scope): (EntryId, Scope),
    wanted: Option<u64>,
) {
    let filter = resolve(text);
    let want = scan.search(text, base, scope);
    let ask = Ask { wanted, ..Ask::new(&filter, base, scope) };
    let clock = || Duration::ZERO;
    let parsed = Filter::parse(text).unwrap();
    let explained = Ask { explain: Some(&clock), text: Some(&parsed), ..ask };
    let mut first: Option<BTreeSet<u64>> = None;
    let left = left_by_indexes(view, scan, &filter, (base, scope));
    for ask in [ask, explained] {
        let plan = view.plan(&ask).unwrap();
        let ids: Vec<u64> = plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{text}");
        let got: BTreeSet<u64> = ids.iter().copied().collect();
        assert!(want.is_subset(&got), "{text} {scope:?} of {base:?}: {want:?} in {got:?}");
        assert!(left.is_subset(&got), "{text} {scope:?} of {base:?}: {left:?} in {got:?}");
        if plan.exact {
            assert_eq!(want, got, "{text} {scope:?} of {base:?} is exact");
        }
        if plan.filter_exact {
            assert!(
                got.is_subset(&scan.matching(text)),
                "{text} {scope:?} of {base:?} proves the filter"
            );
        }
        if plan.scope_exact {
            let all = scan.in_scope(base, scope);
            assert!(got.is_subset(&all), "{text} {scope:?} of {base:?} proves the scope");
        }
        assert!(!plan.indexed || plan.estimate >= got.len() as u64, "{text}");
        let every = plan.ids(view, &|| false).unwrap();
        assert!(got.iter().all(|&id| every.contains(EntryId(id))));
        if let Some(&after) = ids.get(ids.len() / 2) {
            let rest = plan.candidates(view, EntryId(after)).map(|id| id.unwrap().0);
            assert!(rest.eq(ids.iter().copied().filter(|&id| id > after)), "{text}");
        }
        if let Some(told) = plan.explanation() {
            assert_eq!(told.root.filter, parsed.to_string());
            assert_eq!(told.exact, plan.exact);
            assert!(told.killed_by.is_none() || got.is_empty(), "{text}");
            check_report(scan, &told.root, text);
        }
        // One assertion takes a shorter way when nothing is told of it, to the same end.
        if let Some(first) = &first
            && !matches!(filter, ResolvedFilter::Equality(_))
        {
            assert!(first == &got, "{text} {scope:?} of {base:?}: an explanation changes nothing");
        }
        first = Some(got);
    }
}

/// The entries in scope that no index leaves out, whatever the indexes hold.
fn left_by_indexes(
    view: &View<'_>,
    scan: &Scan,
    filter: &ResolvedFilter,
    (base, scope): (EntryId, Scope),
) -> BTreeSet<u64> {
    let indexable = view.indexable(filter, &|_| true);
    assert!(indexable.narrows || !view.is_narrowed(filter), "{filter:?}");
    let left: BTreeSet<u64> = scan
        .in_scope(base, scope)
        .intersection(&scan.true_of(&indexable.filter))
        .copied()
        .collect();
    let matching = scan.true_of(filter);
    let mut all = matching.intersection(&left);
    assert!(all.by_ref().count() == matching.intersection(&scan.in_scope(base, scope)).count());
    left
}

/// What is told of each part holds for it.
fn check_report(scan: &Scan, report: &TermReport, whole: &str) {
    // Two bounds that are read together are told of one of them.
    let is_bound = report.filter.starts_with("(createTimestamp");
    // Of a filtered index the candidates are those that match its filter, too.
    let is_filtered =
        matches!(&report.source, CandidateSource::Index { name, .. } if name.contains("where"));
    if let Some(candidates) = report.candidates
        && report.operator == Operator::Item
        && report.exact
        && report.skipped.is_none()
        && !is_filtered
        && !is_bound
    {
        // At least as many: changes over the base are not looked at to count.
        let found = scan.matching(&report.filter).len() as u64;
        assert!(candidates >= found, "{} in {whole}: {candidates} for {found}", report.filter);
    }
    report.children.iter().for_each(|part| check_report(scan, part, whole));
}

fn with_view(world: &World, check: impl FnOnce(&View<'_>)) {
    let mut reader = world.store.reader();
    check(reader.view().unwrap());
}

#[test]
fn plans_hold_all_that_matches_in_every_scope() {
    let world = world(400);
    with_view(&world, |view| {
        let scan = Scan::of(view);
        for text in filter_texts(400) {
            for base in world.bases() {
                for scope in SCOPES {
                    check(view, &scan, &text, (base, scope), None);
                }
            }
        }
    });
}

/// Filters of any form from the texts of others.
fn filters() -> impl Strategy<Value = String> {
    let item = prop::sample::select(filter_texts(300));
    item.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..5)
                .prop_map(|all| format!("(&{})", all.concat())),
            prop::collection::vec(inner.clone(), 1..5)
                .prop_map(|any| format!("(|{})", any.concat())),
            inner.prop_map(|one| format!("(!{one})")),
        ]
    })
}

/// Conjunctions of what most entries match, alone or with something that they do not.
fn popular_filters() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(POPULAR.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(POPULAR.to_vec()).prop_map(|one| format!("(!{one})")),
        1 => prop::collection::vec(prop::sample::select(POPULAR.to_vec()), 1..4)
            .prop_map(|any| format!("(|{})", any.concat())),
        1 => prop::sample::select(filter_texts(300)),
    ];
    prop::collection::vec(part, 1..5).prop_map(|mut all| match all.len() {
        1 => all.remove(0),
        _ => format!("(&{})", all.concat()),
    })
}

/// Compares `cases` answers, each in some scope of some base.
fn compare(world: &World, cases: u32, wanted: Option<u64>, filters: impl Strategy<Value = String>) {
    let mut reader = world.store.reader();
    let view = reader.view().unwrap();
    let scan = Scan::of(view);
    let bases = world.bases();
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let case = (filters, 0..bases.len(), prop::sample::select(SCOPES.to_vec()));
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&case, |(text, base, scope)| {
        check(view, &scan, &text, (bases[base], scope), wanted);
        Ok(())
    });
    outcome.unwrap();
}

/// What has no candidates is known to match nothing, read with its other parts or without them.
#[test]
fn what_matches_nothing_is_known_in_an_explanation_too() {
    let never = "(&(cn~=smith anna)(!(|(nosuch=1)(&(l=town 1)(employeeNumber=7)))))";
    let world = world(300);
    with_view(&world, |view| {
        let text = format!("(|{never}(|(objectClass=person)))");
        for base in world.bases() {
            for scope in SCOPES {
                check(view, &Scan::of(view), &text, (base, scope), None);
            }
        }
    });
}

#[test]
fn plans_of_any_form_hold_all_that_matches() {
    compare(&world(300), CASES, None, filters());
}

#[test]
fn streams_of_any_form_hold_all_that_matches() {
    compare(&world(1700), POPULAR_CASES, Some(3), popular_filters());
}

/// Random filters in one run.
const CASES: u32 = 300;
/// Each of them reads long lists, and nearly all entries.
const POPULAR_CASES: u32 = 90;

/// All selections of some of `count` parts, in every order.
fn selections(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    let mut from = 0;
    while from < all.len() {
        let known: Vec<usize> = all[from].clone();
        for part in (0..count).filter(|part| !known.contains(part)) {
            let mut more = known.clone();
            more.push(part);
            all.push(more);
        }
        from += 1;
    }
    all
}

/// No plan costs more than this many times the best of its alternatives,
const FACTOR: u64 = 2;
/// and this, in nanoseconds: what a few look-ups cost.
const SLACK_NS: u64 = 10_000;

#[test]
fn no_plan_costs_much_more_than_the_best() {
    let count = 4000;
    let world = world(count);
    with_view(&world, |view| {
        let mut worst = (0.0, String::new());
        for text in filter_texts(count) {
            let filter = resolve(&text);
            let parts = match &filter {
                ResolvedFilter::And(parts) => parts.len(),
                _ => 1,
            };
            if parts > 4 {
                continue;
            }
            for base in world.bases() {
                for scope in [Scope::One, Scope::Subtree] {
                    let ask = Ask::new(&filter, base, scope);
                    let chosen = view.plan(&ask).unwrap().work().cost();
                    let best = selections(parts + 1).into_iter().map(|parts| {
                        let ask = Ask { parts: Some(&parts), ..ask };
                        (view.plan(&ask).unwrap().work().cost(), parts)
                    });
                    let (best, parts) = best.min().unwrap();
                    let ratio = chosen as f64 / (best + SLACK_NS) as f64;
                    if ratio > worst.0 {
                        worst = (ratio, format!("{text} {scope:?} of {base:?}"));
                    }
                    assert!(
                        chosen <= FACTOR * best + SLACK_NS,
                        "{text} {scope:?} of {base:?}: {chosen} ns, and {best} ns by {parts:?}"
                    );
                }
            }
        }
        assert!(worst.0 <= FACTOR as f64, "{worst:?}");
    });
}

#[test]
fn a_thousand_parts_are_read_once_each() {
    let world = world(2000);
    with_view(&world, |view| {
        let work = |terms: usize, times: usize| {
            let term = |number: usize| format!("(uid=user.{})", number % terms);
            let text = format!("(|{})", (0..terms * times).map(term).collect::<String>());
            let filter = resolve(&text);
            let ask = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
            let plan = view.plan(&ask).unwrap();
            assert!(plan.exact);
            assert!(plan.estimate <= terms as u64 && plan.estimate + 20 > terms as u64);
            plan.work()
        };
        let (some, many, again) = (work(100, 1), work(1000, 1), work(1000, 3));
        assert!(many.rows <= 10 * some.rows + 10, "{some:?} {many:?}");
        assert_eq!(many.rows, again.rows, "what was said before is not read again");
        assert_eq!(many.ids, again.ids);
    });
}

#[test]
fn one_assertion_takes_one_row() {
    let world = world(1000);
    with_view(&world, |view| {
        for (text, rows) in [
            ("(uid=user.77)", 1),
            ("(uid=none)", 1),
            ("(&(uid=user.77)(mail=*77*)(telephoneNumber=*123*))", 1),
            ("(&(objectClass=person)(uid=user.77))", 3),
        ] {
            let filter = resolve(text);
            let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree)).unwrap();
            assert!(plan.work().rows <= rows, "{text}: {:?}", plan.work());
        }
    });
}

#[test]
fn a_small_subtree_of_a_large_tree_costs_little() {
    let world = world(4000);
    let base = world.small;
    with_view(&world, |view| {
        for text in ["(objectClass=person)", "(description=*)", "(description=some*)"] {
            let filter = resolve(text);
            let plan = view.plan(&Ask::new(&filter, base, Scope::Subtree)).unwrap();
            assert!(plan.scope_exact, "{text}");
            assert_eq!(plan.indexed, plan.exact, "{text}: the scope alone is no index");
            assert!(plan.estimate <= 40, "{text}: {}", plan.estimate);
            assert!(plan.work().cost() < 100_000, "{text}: {:?}", plan.work());
        }
    });
}

fn explained(view: &View<'_>, text: &str, check: impl FnOnce(&store::Explanation)) {
    let filter = resolve(text);
    let parsed = Filter::parse(text).unwrap();
    let ticks = Cell::new(0);
    let clock = || {
        ticks.set(ticks.get() + 1);
        Duration::from_micros(ticks.get())
    };
    let ask = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
    let ask = Ask { explain: Some(&clock), text: Some(&parsed), ..ask };
    let plan = view.plan(&ask).unwrap();
    check(plan.explanation().unwrap());
}

#[test]
fn long_lists_are_walked_as_far_as_is_asked() {
    let world = world(4000);
    with_view(&world, |view| {
        let scan = Scan::of(view);
        for text in [
            "(objectClass=person)",
            "(employeeType=most)",
            "(employeeType;lang-de=most)",
            "(&(employeeType=most)(employeeType;lang-de=most))",
            "(&(employeeType=most)(|(objectClass;lang-de=person)(sn=name 1)))",
            "(&(employeeType=most)(!(employeeType;lang-de=most)))",
            // A range that is not counted yet, beside what is and holds most entries.
            "(&(gidNumber:1.2.840.113556.1.4.804:=7)(uidNumber;x-a>=0))",
            "(&(employeeType=most)(objectClass;lang-de=inetOrgPerson))",
            "(&(objectClass=person)(objectClass=inetOrgPerson))",
            "(&(objectClass=person)(!(l=town 0)))",
            "(&(objectClass=person)(!(l=town 96))(!(title=engineer 0)))",
            "(&(objectClass=person)(|(l=town 0)(l=town 1)(l=town 2)(sn=name 1)(sn=name 2)))",
            "(&(objectClass=person)(description=*1*))",
            "(&(l=*town*)(objectClass=person))",
            "(&(objectClass=person)(uidNumber<=9000))",
        ] {
            let filter = resolve(text);
            for base in world.bases() {
                for scope in [Scope::One, Scope::Subtree, Scope::Subordinate] {
                    let ask = Ask { wanted: Some(3), ..Ask::new(&filter, base, scope) };
                    let plan = view.plan(&ask).unwrap();
                    let want = scan.search(text, base, scope);
                    let after = |after: u64| {
                        let ids = plan.candidates(view, EntryId(after));
                        ids.map(|id| id.unwrap().0).collect::<Vec<u64>>()
                    };
                    let all = after(0);
                    assert!(all.is_sorted_by(|one, next| one < next), "{text}");
                    let got: BTreeSet<u64> = all.iter().copied().collect();
                    assert!(want.is_subset(&got), "{text} {scope:?} of {base:?}");
                    assert!(plan.estimate >= got.len() as u64);
                    if plan.exact {
                        assert_eq!(want, got, "{text} {scope:?} of {base:?}");
                    }
                    if plan.scope_exact {
                        assert!(got.is_subset(&scan.in_scope(base, scope)), "{text} {scope:?}");
                    }
                    for middle in [all.len() / 3, all.len() / 2] {
                        let Some(&id) = all.get(middle) else { continue };
                        assert_eq!(after(id), all[middle + 1..], "{text}");
                        assert!(plan.ids(view, &|| false).unwrap().contains(EntryId(id)));
                    }
                }
            }
        }
    });
}

#[test]
fn explanations_tell_what_was_done() {
    let world = world(1000);
    with_view(&world, |view| {
        let text = "(&(objectClass=person)(l=town 3)(!(l=town 4))(description=some*))";
        explained(view, text, |told| {
            let [class, town, not, description] = &*told.root.children else { panic!("{told:?}") };
            assert_eq!(told.root.operator, Operator::And);
            assert_eq!(town.order, Some(1));
            let name = "l.equality".to_owned();
            assert_eq!(town.source, CandidateSource::Index { name, keys: 1 });
            assert!(town.candidates >= told.final_candidates, "{told:?}");
            assert!(town.exact && town.time_us > 0);
            assert_eq!(class.candidates, Some(1000));
            assert_eq!((not.operator, not.children.len()), (Operator::Not, 1));
            assert_eq!(not.children[0].filter, "(l=town 4)");
            assert_eq!(description.source, CandidateSource::Scan);
            assert_eq!(description.would_help.as_deref(), Some("substring description"));
            assert_eq!(description.skipped, Some("no index helps"));
            assert!(!told.exact && told.killed_by.is_none());
        });
        explained(view, "(&(l=town 3)(uid=none))", |told| {
            assert_eq!(told.killed_by.as_deref(), Some("(uid=none)"));
            assert_eq!((told.final_candidates, told.exact), (Some(0), true));
        });
        let scan = Scan::of(view);
        let pairs = (0..97).flat_map(|town| (0..13).map(move |name| (town, name)));
        let text = |(town, name)| format!("(&(l=town {town})(sn=name {name}))");
        let is_alone = |text: &String| {
            let found = |text: &str| scan.matching(text);
            let town = found(&text[2..text.find(")(").unwrap() + 1]);
            town.len() > 8 && found(text).is_empty()
        };
        let text = pairs.map(text).find(is_alone).unwrap();
        explained(view, &text, |told| {
            let last = told.root.children.iter().max_by_key(|part| part.order).unwrap();
            assert_eq!(told.killed_by.as_ref(), Some(&last.filter), "the last that was read");
            assert!(last.candidates > Some(0));
        });
        explained(view, "(nosuch=x)", |told| {
            assert_eq!(told.root.source, CandidateSource::Undefined);
            assert_eq!(told.killed_by.as_deref(), Some("(nosuch=x)"));
        });
        explained(view, "(description=some*)", |told| {
            assert_eq!((told.final_candidates, told.exact), (None, false));
        });
        explained(view, "(objectClass=*)", |told| {
            assert_eq!(told.root.source, CandidateSource::Everything);
            assert!(told.exact);
        });
    });
}

/// The names of the indexes that were asked.
fn asked(report: &TermReport) -> Vec<String> {
    let own = match &report.source {
        CandidateSource::Index { name, .. } => Some(name.clone()),
        _ => None,
    };
    own.into_iter().chain(report.children.iter().flat_map(asked)).collect()
}

#[test]
fn filtered_indexes_of_every_kind_are_used() {
    let world = world(1000);
    with_view(&world, |view| {
        let scan = Scan::of(view);
        for (text, line) in BY_FILTERED {
            let index = IndexDefinition::parse(line).unwrap();
            let name = index.canonical(&Schema::builtin()).unwrap().name();
            explained(view, text, |told| {
                let names = asked(&told.root);
                assert!(names.contains(&name), "{text}: {name} is not among {names:?}");
            });
            for scope in SCOPES {
                check(view, &scan, text, (EntryId::ROOT, scope), None);
                check(view, &scan, text, (world.bases()[1], scope), None);
            }
            assert!(!scan.matching(text).is_empty() || text.contains(";lang"), "{text}");
        }
    });
}

/// What is told of a filter to who may not know what indexes hold: which entries they leave out, by
/// what they are of, and whether they leave out most.
#[test]
fn what_indexes_answer_of_a_filter_depends_on_what_they_are_of() {
    let world = world(300);
    with_view(&world, |view| {
        for (text, left, is_all, narrows) in [
            ("(l=town 0)", "(l=town 0)", true, true),
            ("(!(l=town 0))", "(!(l=town 0))", true, false),
            ("(title=*)", "(title=*)", true, false),
            ("(!(title=*))", "(!(title=*))", true, false),
            ("(objectClass=*)", "(objectClass=*)", true, false),
            ("(objectClass=person)", "(objectClass=person)", true, false),
            ("(description=x)", "(&)", false, false),
            ("(!(description=x))", "(!(|))", false, false),
            ("(&(title=*)(description=x))", "(&(title=*)(&))", false, false),
            ("(&(objectClass=person)(description=x))", "(&(objectClass=person)(&))", false, false),
            ("(&(l=town 0)(description=x))", "(&(l=town 0)(&))", false, true),
            ("(|(l=town 0)(title=*))", "(|(l=town 0)(title=*))", true, false),
            ("(|(l=town 0)(description=x))", "(|(l=town 0)(&))", false, false),
            // An index of some entries leaves out all others.
            ("(employeeNumber=7)", "(&)", false, false),
            (
                "(&(l=town 1)(employeeNumber=7))",
                "(&(l=town 1)(&(l=town 1)(employeeNumber=7)))",
                true,
                true,
            ),
            ("(&(l=town 1)(!(employeeNumber=7)))", "(&(l=town 1)(!(|)))", false, true),
        ] {
            let indexable = view.indexable(&resolve(text), &|_| true);
            assert_eq!(indexable.filter, resolve(left), "{text}");
            assert_eq!((indexable.is_all, indexable.narrows), (is_all, narrows), "{text}");
            assert_eq!(indexable.is_unindexed(), !is_all && !narrows, "{text}");
        }
    });
}

#[test]
fn planning_can_be_interrupted() {
    let world = world(500);
    with_view(&world, |view| {
        for text in ["(l=*3)", "(uidNumber>=1000)", "(|(l=town 1)(l=town 2))"] {
            let filter = resolve(text);
            let ask = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
            let ask = Ask { interrupt: &|| true, ..ask };
            let outcome = view.plan(&ask);
            assert!(matches!(outcome, Err(StoreError::Interrupted)), "{text}: {outcome:?}");
        }
    });
}

/// Two lists of several windows each that have nothing in common.
fn disjoint() -> (Arc<Store>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let schema = Schema::builtin();
    let context = Dn::parse("dc=example,dc=com").unwrap();
    let indexes = ["equality l", "equality uidNumber"]
        .iter()
        .fold(IndexConfig::none(), |all, one| all.and(IndexDefinition::parse(one).unwrap()));
    let path = directory.path().join("data");
    let options = StoreOptions::default();
    let store = Store::create(&path, &options, Arc::clone(&schema), indexes, &[context]).unwrap();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    let mut add = |dn: &str, pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        let entry = Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &schema).unwrap();
        loader.load(&entry, 0).unwrap();
    };
    add("dc=example,dc=com", &[("objectClass", "domain")]);
    add("ou=some,dc=example,dc=com", &[("objectClass", "organizationalUnit")]);
    for number in 0..30_000 {
        let town = if number % 2 == 0 { "even" } else { "odd" };
        let below = if number % 5 < 2 { "ou=some,dc=example,dc=com" } else { "dc=example,dc=com" };
        let pairs = [("l", town), ("uidNumber", &*number.to_string())];
        add(&format!("cn={number},{below}"), &pairs);
    }
    loader.commit().unwrap();
    (Arc::new(store), directory)
}

#[test]
fn reading_what_leaves_nothing_can_be_interrupted() {
    let (store, _directory) = disjoint();
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let filter = resolve("(&(l=even)(l=odd))");
    let ask = Ask { wanted: Some(1), ..Ask::new(&filter, EntryId::ROOT, Scope::Subtree) };
    let plan = view.plan(&ask).unwrap();
    assert!(plan.exact && plan.estimate == 15_000, "{plan:?}");
    let asked = Cell::new(0_u32);
    for most in [1, 2, u32::MAX] {
        asked.set(0);
        let interrupt = || {
            asked.set(asked.get() + 1);
            asked.get() >= most
        };
        let mut walk = plan.candidates_until(view, EntryId::ROOT, &interrupt);
        let first = walk.next();
        match most {
            u32::MAX => assert!(first.is_none() && asked.get() >= 2, "{first:?} {asked:?}"),
            _ => assert!(matches!(first, Some(Err(StoreError::Interrupted))), "{first:?}"),
        }
        assert!(walk.next().is_none(), "nothing comes after the end");
        asked.set(0);
        let all = plan.ids(view, &interrupt);
        match most {
            u32::MAX => assert!(all.unwrap().is_empty()),
            _ => assert!(matches!(all, Err(StoreError::Interrupted)), "{all:?}"),
        }
        asked.set(0);
        let mut entries = plan.entries_until(view, EntryId::ROOT, &interrupt);
        assert_eq!(entries.next().is_none(), most == u32::MAX);
    }
}

#[test]
fn a_range_that_is_too_long_tells_nothing() {
    let (store, _directory) = disjoint();
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let key = DnKey::from_text(&Schema::builtin(), "ou=some,dc=example,dc=com").unwrap();
    let Resolved::Found(some) = view.resolve(&key).unwrap() else { panic!("it is there") };
    let clock = || Duration::ZERO;
    for (text, is_indexed) in [
        ("(uidNumber>=5)", false),
        ("(!(uidNumber>=5))", false),
        ("(|(uidNumber>=5)(l=nowhere))", false),
        ("(&(l=even)(uidNumber>=5))", true),
        ("(uidNumber>=29000)", true),
    ] {
        let filter = resolve(text);
        let ask = Ask::new(&filter, some, Scope::One);
        let plan = view.plan(&Ask { explain: Some(&clock), ..ask }).unwrap();
        assert_eq!(plan.indexed, is_indexed, "{text}: {:?}", plan.explanation());
        assert!(plan.scope_exact && plan.filter_exact == (text == "(uidNumber>=29000)"), "{text}");
        let ids: Vec<_> = plan.candidates(view, EntryId::ROOT).map(Result::unwrap).collect();
        let found = ids.iter().map(|&id| view.entry(id).unwrap().unwrap());
        let schema = Schema::builtin();
        let found = found.filter(|entry| filter.matches(&schema, entry) == Truth::True).count();
        let want = match text {
            "(uidNumber>=5)" | "(|(uidNumber>=5)(l=nowhere))" => 11_998,
            "(!(uidNumber>=5))" => 2,
            "(uidNumber>=29000)" => 400,
            _ => 5_999,
        };
        assert_eq!(found, want, "{text}");
    }
}
