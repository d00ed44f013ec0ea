//! Tests of sets: places, chains, changes.

use super::*;

fn key(name: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), name).unwrap()
}

fn aci(name: &str, targets: &str) -> Arc<Aci> {
    let text = format!(
        "{targets}(version 3.0; acl \"{name}\"; allow (read) userdn = \"ldap:///anyone\";)"
    );
    Arc::new(Aci::parse(&text, &Schema::builtin()).unwrap())
}

/// The names of what applies to an entry, and of what applies to those below it.
fn check(set: &AciSet, entry: &str, at: &str, below: &str) {
    let names = |chain: &Chain| {
        let mut names: Vec<&str> = chain.links.iter().map(|link| link.placed.aci.name()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let entry = key(entry);
    let spot = set.spot(&entry);
    assert_eq!(names(spot.at), at, "at {entry:?}");
    assert_eq!(names(spot.below), below, "below {entry:?}");
}

fn sample() -> AciSet {
    AciSet::new(Schema::builtin()).with_holders([
        (
            DnKey::root(),
            vec![aci("global", ""), aci("dse", "(target=\"ldap:///\")(targetscope=\"base\")")],
        ),
        (
            key("dc=a"),
            vec![
                aci("a", ""),
                aci("people", "(target=\"ldap:///ou=people,dc=a\")"),
                aci("one", "(targetscope=\"onelevel\")"),
                aci("under", "(target=\"ldap:///ou=people,dc=a\")(targetscope=\"subordinate\")"),
                aci("star", "(target=\"ldap:///uid=*,dc=a\")(targetscope=\"base\")"),
                aci("elsewhere", "(target=\"ldap:///dc=b\")"),
            ],
        ),
        (key("uid=x,ou=people,dc=a"), vec![aci("x", "")]),
    ])
}

#[test]
fn an_aci_applies_from_its_place_on() {
    let set = sample();
    check(&set, "", "dse global", "global");
    check(&set, "dc=b", "global", "global");
    check(&set, "dc=a", "a global star", "a global one star");
    check(&set, "ou=groups,dc=a", "a global one star", "a global one star");
    check(&set, "ou=people,dc=a", "a global one people star", "a global one people star under");
    let below = "a global one people star under";
    check(&set, "uid=w,ou=people,dc=a", below, below);
    check(
        &set,
        "uid=x,ou=people,dc=a",
        "a global one people star under x",
        "a global one people star under x",
    );
    check(&set, "uid=y,ou=people,dc=a", below, below);
    let count = |name: &str| set.spot(&key(name)).places.len();
    assert_eq!(["", "dc=a", "ou=people,dc=a"].map(count), [3, 2, 1]);
    assert_eq!(["ou=groups,dc=a", "dc=b", "uid=x,ou=people,dc=a"].map(count), [0; 3]);
    assert_eq!(set.len(), 9);
}

#[test]
fn a_change_of_one_holder_leaves_the_others() {
    let set = sample();
    let untouched = Arc::clone(set.spot(&key("dc=b")).at);
    let moved = set.at(&key("uid=x,ou=people,dc=a")).to_vec();
    let changed = set.with_holders([
        (key("uid=x,ou=people,dc=a"), Vec::new()),
        (key("uid=z,ou=people,dc=a"), moved),
    ]);
    assert!(Arc::ptr_eq(&untouched, changed.spot(&key("dc=b")).at));
    let below = "a global one people star under";
    check(&changed, "uid=x,ou=people,dc=a", below, below);
    let own = "a global one people star under x";
    check(&changed, "uid=z,ou=people,dc=a", own, own);
    check(&set, "uid=z,ou=people,dc=a", below, below);
    let emptied = changed.with_holders([(key("dc=a"), Vec::new()), (DnKey::root(), Vec::new())]);
    check(&emptied, "uid=z,ou=people,dc=a", "x", "x");
    check(&emptied, "ou=people,dc=a", "", "");
    check(&emptied, "", "", "");
    assert_eq!(emptied.len(), 1);
    let within: Vec<_> =
        changed.within(&key("dc=a")).map(|(holder, acis)| (holder.clone(), acis.len())).collect();
    assert_eq!(within, [(key("dc=a"), 6), (key("uid=z,ou=people,dc=a"), 1)]);
}

#[test]
fn a_set_of_the_same_acis_is_the_same_however_it_was_made() {
    let once = sample();
    let mut grown = AciSet::new(Schema::builtin());
    for (holder, acis) in once.within(&DnKey::root()) {
        for count in 1..=acis.len() {
            grown = grown.with_holders([(holder.clone(), acis[..count].to_vec())]);
            grown.spot(&key("uid=x,ou=people,dc=a"));
            grown.spot(&key("dc=a"));
        }
    }
    let again = once.resolved_against(Schema::builtin());
    for name in ["", "dc=a", "dc=b", "ou=people,dc=a", "uid=x,ou=people,dc=a", "ou=g,dc=a"] {
        let names = |set: &AciSet| {
            let links = set.spot(&key(name)).at.links.iter();
            let mut names: Vec<String> =
                links.map(|link| link.placed.aci.name().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&once), names(&grown), "{name}");
        assert_eq!(names(&once), names(&again), "{name}");
    }
}

#[test]
fn a_set_knows_what_its_rules_need() {
    let set = |rule: &str| {
        let text = format!("(version 3.0; acl \"x\"; allow (read) {rule};)");
        let aci = Aci::parse(&text, &Schema::builtin()).unwrap();
        let set =
            AciSet::new(Schema::builtin()).with_holders([(DnKey::root(), vec![Arc::new(aci)])]);
        (set.depends_on_store(), set.depends_on_time())
    };
    assert_eq!(set("userdn = \"ldap:///self\""), (false, false));
    assert_eq!(set("userattr = \"manager#GROUPDN\""), (false, false));
    assert_eq!(set("not (ssf > \"1\" and groupdn = \"ldap:///cn=a\")"), (true, false));
    assert_eq!(set("userdn = \"ldap:///dc=a??sub?(cn=x)\""), (true, false));
    assert_eq!(set("timeofday > \"0800\""), (false, true));
    assert_eq!(set("dayofweek = \"sun\""), (false, true));
}

#[test]
fn the_default_acis_are_read() {
    for text in [GlobalAcis::Closed, GlobalAcis::SignedIn, GlobalAcis::Public]
        .map(|one| one.texts())
        .concat()
    {
        let aci = Aci::parse(text, &Schema::builtin()).unwrap();
        assert_eq!(aci.unknown_names(), [""; 0]);
        assert_eq!(aci.to_string(), text);
        assert_eq!(aci.check_holder(&DnKey::root()), Ok(()));
    }
}
