//! Rights on one entry that are asked for one after the other, and on parts of the tree that have
//! more places than are looked at.

use super::*;

const ANNA: &str = "uid=anna,ou=people,dc=x";
const ALLOW_ALL: &str =
    "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (all) userdn=\"ldap:///anyone\";)";

#[test]
fn what_gives_a_right_to_write_gives_none_to_add_that_is_asked_for_next() {
    let own =
        "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (all) userattr=\"manager#USERDN\";)";
    let case = case(&[("dc=x", own)]);
    let cn = Schema::builtin().describe("cn").unwrap();
    case.asked("bert", |asker| {
        let rules = Rules::new(&case.set, 0);
        let (name, reach) = (key(ANNA), rules.below(asker, &key("dc=x")));
        let rights = reach.of(case.world.find(&name).unwrap());
        for _ in 0..2 {
            assert!(rights.may(Right::Write, &cn));
            assert!(!rights.may_entry(Right::Add));
            assert!(rights.may_entry(Right::Delete));
        }
    });
}

#[test]
fn an_entry_that_a_rule_about_it_takes_away_is_not_seen_by_its_attributes() {
    let hide = "(version 3.0; acl \"x\"; deny (read) userdn=\"ldap:///self\";)";
    case(&[("dc=x", ALLOW_ALL), ("dc=x", hide)])
        .check("anna", "read cn", ANNA, true)
        .check("anna", "read", ANNA, false)
        .check("bert", "read", ANNA, true);
    let give = "(version 3.0; acl \"y\"; allow (read) userdn=\"ldap:///self\";)";
    case(&[("dc=x", ALLOW_ALL), ("dc=x", give), ("dc=x", hide)])
        .check("anna", "read", ANNA, false)
        .check("bert", "read", ANNA, true);
}

#[test]
fn the_right_to_add_the_own_name_gives_none_to_be_called_so() {
    let bert = "uid=bert,ou=people,dc=x";
    let member = Schema::builtin().describe("member").unwrap();
    let may = |acis: &[(&str, &str)]| {
        let case = case(acis);
        case.asked("bert", |asker| {
            let rules = Rules::new(&case.set, 0);
            let (name, reach) = (key(ANNA), rules.below(asker, &key("dc=x")));
            let rights = reach.of(case.world.find(&name).unwrap());
            let (add, value) = (ValueChange::Add, bert.as_bytes());
            (rights.may_value(add, &member, value), rights.may_name(add, &member, value))
        })
    };
    let by = |word: &str| {
        let (targets, rule) = ("(targetattr=\"member\")", "userdn=\"ldap:///all\"");
        format!("{targets}(version 3.0; acl \"x\"; {word} (selfwrite) {rule};)")
    };
    assert_eq!(may(&[("dc=x", &by("allow"))]), (true, false));
    assert_eq!(may(&[("dc=x", ALLOW_ALL)]), (true, true));
    assert_eq!(may(&[("dc=x", ALLOW_ALL), ("dc=x", &by("deny"))]), (false, false));
}

#[test]
fn where_too_many_places_are_to_be_asked_nothing_is_said_of_all() {
    let deny = "(targetattr=\"cn\")(version 3.0; acl \"x\"; deny (search) userdn=\"ldap:///all\";)";
    let names: Vec<String> =
        (0..=PLACES_ASKED_MAX).map(|number| format!("uid={number},ou=people,dc=x")).collect();
    let mut acis = vec![("dc=x", ALLOW_ALL)];
    acis.extend(names.iter().map(|name| (name.as_str(), deny)));
    let cn = Schema::builtin().describe("cn").unwrap();
    for count in [2, acis.len() - 1, acis.len()] {
        let case = case(&acis[..count]);
        case.asked("bert", |asker| {
            let rules = Rules::new(&case.set, 0);
            let reach = rules.below(asker, &key("dc=x"));
            assert_eq!(reach.always(Right::Search, &cn), None, "{count}");
            assert!(!reach.always_all(Right::Search, &cn), "{count}");
        });
    }
}
