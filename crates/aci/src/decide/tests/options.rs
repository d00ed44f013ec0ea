//! Names with options and derived types, at places below the one asked about: every pair of what an
//! ACI names and what is asked for, and random sets of such ACIs.
//!
//! What is said of a part of the tree must hold for each entry of it, and where it is said of all
//! that asking for an attribute gets, for each of those too: the index of a search proves by it.

use proptest::prelude::*;

use super::*;

/// A type, two derived from it, and one that has nothing to do with them.
const TYPES: [&str; 4] = ["name", "cn", "sn", "uid"];
const OPTIONS: [&str; 6] = ["", ";lang-de", ";x-y", ";lang-de;x-y", ";lang-", ";lang-fr"];
const PLACES: [&str; 4] =
    ["dc=x", "ou=people,dc=x", "uid=anna,ou=people,dc=x", "cn=dora,uid=anna,ou=people,dc=x"];

fn names() -> Vec<String> {
    let of_type = |kind: &&str| OPTIONS.map(|options| format!("{kind}{options}"));
    TYPES.iter().flat_map(of_type).collect()
}

fn aci(word: &str, targets: &str) -> String {
    aci_of(word, "search,write", targets)
}

fn aci_of(word: &str, rights: &str, targets: &str) -> String {
    let by_all = "userdn=\"ldap:///anyone\"";
    format!("{targets}(version 3.0; acl \"x\"; {word} ({rights}) {by_all};)")
}

/// Checks what is said of each part of the tree, and of each attribute, against each entry.
#[track_caller]
fn check(acis: &[(&str, &str)]) {
    let (case, schema) = (case(acis), Schema::builtin());
    let names: Vec<_> = names().iter().map(|name| schema.describe(name).unwrap()).collect();
    case.asked("bert", |asker| {
        let below = |name: &DnKey| PLACES.iter().any(|place| key(place) == *name);
        let entries: Vec<_> = case.world.entries.iter().filter(|(name, _)| below(name)).collect();
        // For each entry, what may be searched for there.
        let may: Vec<Vec<bool>> = entries
            .iter()
            .map(|(_, entry)| {
                let naive = Naive { holders: &case.holders, asker, schema: &schema, entry };
                let may = |name| naive.decide(&Question::Attribute(Right::Search, name));
                names.iter().map(|name| may(name)).collect()
            })
            .collect();
        let rules = Rules::new(&case.set, 0);
        for base in PLACES {
            let reach = rules.below(asker, &key(base));
            for (asked, of_asked) in names.iter().enumerate().map(|(place, name)| (name, place)) {
                let told = |what: &str| format!("{what} {} below {base}: {acis:?}", asked.text());
                let always = reach.always(Right::Search, asked);
                let always_all = reach.always_all(Right::Search, asked);
                for ((name, entry), may) in entries.iter().zip(&may) {
                    if !name.is_within(&key(base)) {
                        continue;
                    }
                    let rights = reach.of(entry);
                    if base == PLACES[0] {
                        check_writes(&case, asker, &rights, entry, asked, acis);
                    }
                    assert_eq!(rights.may(Right::Search, asked), may[of_asked], "{}", told("may"));
                    assert!(always.is_none_or(|all| all == may[of_asked]), "{}", told("always"));
                    let may_all = rights.may_all(Right::Search, asked);
                    let got = names.iter().zip(may).filter(|(name, _)| asked.covers(name));
                    for (name, may) in got {
                        assert!(*may || !may_all, "{} {}", told("may_all"), name.text());
                        assert!(*may || !always_all, "{} {}", told("always_all"), name.text());
                    }
                }
            }
        }
    });
}

/// Checks whether values may be added and deleted.
#[track_caller]
fn check_writes(
    case: &Case,
    asker: &AccessSubject<'_>,
    rights: &EntryRights<'_>,
    entry: &Entry,
    asked: &AttributeDescription,
    acis: &[(&str, &str)],
) {
    let schema = Schema::builtin();
    let naive = Naive { holders: &case.holders, asker, schema: &schema, entry };
    for change in [ValueChange::Add, ValueChange::Delete] {
        for value in [b"a", b"b"] {
            let question = Question::Value(change, asked, value);
            let (may, told) = (rights.decide(&question), entry.dn());
            assert_eq!(may, naive.decide(&question), "{question:?} of {told}: {acis:?}");
        }
    }
}

/// A deny of `name;lang-de` below the base was not heard where `cn` was asked about: neither covers
/// the other, but both mean `cn;lang-de`. A search for `(cn=…)` found entries by such a value.
#[test]
fn whatever_a_rule_below_the_base_names_is_heard_by_what_overlaps_with_it() {
    let everything = aci("allow", "(targetattr=\"*\")");
    for name in names() {
        for place in PLACES {
            for (word, operator) in [("deny", "="), ("deny", "!="), ("allow", "!=")] {
                let one = aci(word, &format!("(targetattr{operator}\"{name}\")"));
                check(&[("dc=x", &everything), (place, &one)]);
                check(&[("dc=x", &one), (place, &one)]);
            }
            let some = aci("allow", &format!("(targetattr=\"{name}\")"));
            check(&[("dc=x", &some), (place, &aci("deny", "(targetattr=\"cn;x-y\")"))]);
        }
    }
}

/// Where all that is derived is named alike, what one of them is denied with an option counts.
#[test]
fn a_type_is_not_even_where_an_option_of_a_derived_one_is_named() {
    let everything = aci("allow", "(targetattr=\"*\")");
    for other in [
        aci_of("deny", "write", "(targetattr=\"name\")"),
        aci_of("allow", "write", "(targetattr!=\"name\")"),
    ] {
        let one = aci("deny", "(targetattr=\"cn;lang-de\")");
        for place in PLACES {
            check(&[("dc=x", &everything), ("dc=x", &other), (place, &one)]);
        }
    }
}

/// An allow of values of `name` was one of values of `cn`, and a second filter about an attribute
/// lifted a deny by the first.
#[test]
fn value_filters_mean_derived_types_only_where_that_leaves_less_access() {
    let anna = "uid=anna,ou=people,dc=x";
    let by = |word: &str, filters: &str| {
        aci_of(word, "write", &format!("(targattrfilters=\"{filters}\")"))
    };
    case(&[("dc=x", &by("allow", "add=name:(name=*)"))])
        .check("bert", "+name=a", anna, true)
        .check("bert", "+cn=a", anna, false);
    case(&[("dc=x", &by("allow", "add=name:(name=a) && cn:(cn=*)"))])
        .check("bert", "+cn=a", anna, true)
        .check("bert", "+cn=b", anna, false);
    let everything = aci("allow", "(targetattr=\"*\")");
    case(&[("dc=x", &everything), ("dc=x", &by("deny", "add=name:(name=a) && cn:(cn=b)"))])
        .check("bert", "+cn=a", anna, false)
        .check("bert", "+cn=b", anna, false)
        .check("bert", "+sn=a", anna, false)
        .check("bert", "+cn=c", anna, true);
}

fn any_aci() -> impl Strategy<Value = (&'static str, String)> {
    let list = prop::collection::vec(prop::sample::select(names()), 1..3);
    let operator = prop::sample::select(vec!["=", "=", "!="]);
    let rest = prop::sample::select(vec![
        "",
        "",
        "",
        "(targetscope=\"base\")",
        "(targetscope=\"onelevel\")",
        "(targetscope=\"subordinate\")",
        "(targetfilter=\"(l=rome)\")",
        "(targattrfilters=\"add=name;lang-de:(name=a)\")",
        "(targattrfilters=\"add=cn:(cn;x-y=a) && uid:(uid=*),del=name;lang-:(name=b)\")",
        "(targattrfilters=\"add=name:(name=a) && cn:(cn=b),del=name;x-y:(name=a) && sn:(sn=*)\")",
    ]);
    let word = prop::sample::select(vec!["allow", "deny"]);
    let rights = prop::sample::select(vec!["search,write", "search", "write"]);
    let attributes = (list, operator)
        .prop_map(|(list, operator)| format!("(targetattr{operator}\"{}\")", list.join(" || ")));
    (prop::sample::select(PLACES.to_vec()), word, rights, attributes, rest).prop_map(
        |(place, word, rights, attributes, rest)| {
            (place, aci_of(word, rights, &format!("{attributes}{rest}")))
        },
    )
}

proptest! {
    #[test]
    fn what_is_said_of_all_below_holds_for_each_entry_and_all_that_is_got(
        mut acis in prop::collection::vec(any_aci(), 1..5),
        given in prop::sample::select(vec!["*", "*", "*", "name || cn", "cn"]),
    ) {
        acis.push(("dc=x", aci("allow", &format!("(targetattr=\"{given}\")"))));
        let acis: Vec<(&str, &str)> =
            acis.iter().map(|(holder, text)| (*holder, text.as_str())).collect();
        check(&acis);
    }
}
