//! Random rules about random trees, asked for in every way there is: whatever a short cut takes,
//! the answer is the one of the plain evaluator.

use std::collections::BTreeMap;
use testing::chance::attack_turns;

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use proptest::prelude::*;

use super::ACCESS_CONFIG;
use super::plainly::{ADMINS, Aci, Attributes, Filter, Plainly, Rule, UNIT, URL, Who, above};
use super::plainly::{is_in_scope, is_within};
use super::ways::{effective, read, read_beside, searched, why};
use crate::support::{Asked, Client, SUFFIX, Served};

const ANNA: &str = "uid=anna,ou=a,dc=example,dc=org";
const BERT: &str = "uid=bert,ou=a,dc=example,dc=org";
const CARL: &str = "uid=carl,ou=b,dc=example,dc=org";
/// Entries that are there or not, superiors first.
const OPTIONAL: [&str; 6] = [
    ADMINS,
    "cn=x,uid=anna,ou=a,dc=example,dc=org",
    "cn=y,uid=anna,ou=a,dc=example,dc=org",
    "ou=c,ou=b,dc=example,dc=org",
    "cn=z,ou=b,dc=example,dc=org",
    "cn=x,uid=bert,ou=a,dc=example,dc=org",
];
const ALWAYS: [&str; 5] = [UNIT, "ou=b,dc=example,dc=org", ANNA, BERT, CARL];

/// What sets an entry apart.
#[derive(Clone, Debug)]
struct Content {
    is_there: bool,
    sn: &'static str,
    l: Option<&'static str>,
    description: Option<&'static str>,
    manager: Option<&'static str>,
    url: Option<&'static str>,
}

/// What happens before everything is asked anew.
#[derive(Clone, Debug)]
enum Step {
    Rules(Vec<Draft>),
    /// Whether Bert is in the group.
    Member(bool),
}

/// An ACI whose holder and target are places in the list of all names.
#[derive(Clone, Debug)]
struct Draft {
    holder: usize,
    target: Option<usize>,
    aci: Aci,
}

fn pick<T: Clone + std::fmt::Debug + 'static>(items: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(items.to_vec())
}

fn any_content() -> impl Strategy<Value = Content> {
    (
        prop::bool::weighted(0.7),
        pick(&["Tal", "See", "tau"]),
        pick(&[None, Some("Rome"), Some("Oslo")]),
        pick(&[None, Some("x"), Some("y")]),
        pick(&[None, Some(ANNA), Some(BERT)]),
        pick(&[None, None, Some(URL), Some("no url")]),
    )
        .prop_map(|(is_there, sn, l, description, manager, url)| Content {
            is_there,
            sn,
            l,
            description,
            manager,
            url,
        })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let who = pick(&[
        Who::Anyone,
        Who::Anyone,
        Who::Anyone,
        Who::All,
        Who::Oneself,
        Who::Parent,
        Who::User(BERT),
        Who::Admins,
        Who::Lost,
        Who::Manager,
        Who::Found,
        Who::Unprotected,
    ]);
    let leaf = (prop::bool::weighted(0.7), who).prop_map(|(is, who)| Rule::Is(is, who));
    leaf.prop_recursive(2, 5, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|rule| Rule::Not(Box::new(rule))),
            prop::collection::vec(inner.clone(), 2).prop_map(Rule::All),
            prop::collection::vec(inner, 2).prop_map(Rule::Any),
        ]
    })
}

fn any_aci() -> impl Strategy<Value = Draft> {
    let attributes = pick(&[
        Attributes::Whole,
        Attributes::Whole,
        Attributes::User,
        Attributes::User,
        Attributes::Every,
        Attributes::Every,
        Attributes::These(vec!["cn", "description"]),
        Attributes::These(vec!["objectClass", "sn", "numSubordinates"]),
        Attributes::Others(vec!["description"]),
        Attributes::Others(vec!["sn", "objectClass", "createTimestamp"]),
    ]);
    let rights = pick(&[
        vec!["all"],
        vec!["read"],
        vec!["read", "search"],
        vec!["read", "search", "compare"],
        vec!["search"],
        vec!["write"],
    ]);
    let place = pick(&[None, None, None, Some((true, "Rome")), Some((false, "Rome"))]);
    let scope = pick(&["subtree", "subtree", "subtree", "base", "onelevel", "subordinate"]);
    let what = (attributes, place, scope, prop::option::weighted(0.2, 0_usize..12));
    (0_usize..14, what, prop::bool::weighted(0.6), rights, any_rule()).prop_map(
        |(holder, (attributes, place, scope, target), allows, rights, rule)| {
            let (holder_name, target_name) = (String::new(), None);
            let aci = Aci {
                holder: holder_name,
                target: target_name,
                scope,
                attributes,
                place,
                allows,
                rights,
                rule,
            };
            Draft { holder, target, aci }
        },
    )
}

/// Rules of which most begin with what everybody gets, so that much is known of all entries.
fn any_rules() -> impl Strategy<Value = Vec<Draft>> {
    let open = |attributes: Attributes, rights: &[&'static str]| Draft {
        holder: 12,
        target: None,
        aci: Aci {
            holder: String::new(),
            target: None,
            scope: "subtree",
            attributes,
            place: None,
            allows: true,
            rights: rights.to_vec(),
            rule: Rule::Is(true, Who::Anyone),
        },
    };
    let all = vec!["read", "search", "compare"];
    let opens = pick(&[
        None,
        Some(open(Attributes::Every, &all)),
        Some(open(Attributes::Every, &all)),
        Some(open(Attributes::User, &["all"])),
    ]);
    (opens, prop::collection::vec(any_aci(), 0..4))
        .prop_map(|(open, acis)| open.into_iter().chain(acis).collect())
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => any_rules().prop_map(Step::Rules),
        1 => any::<bool>().prop_map(Step::Member),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let leaf = pick(&[
        Filter::Present("objectClass"),
        Filter::Present("objectClass"),
        Filter::Present("l"),
        Filter::Equal("sn", "tal"),
        Filter::Equal("cn", "anna"),
        Filter::Equal("description", "x"),
        Filter::Begins("sn", "ta"),
        Filter::HasSubordinates,
    ]);
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Filter::Not(Box::new(part))),
            prop::collection::vec(inner.clone(), 2).prop_map(Filter::All),
            prop::collection::vec(inner, 2).prop_map(Filter::Any),
        ]
    })
}

/// A base, by its place in the list of names, a scope and a filter.
type Search = (usize, (Scope, &'static str), Filter);

fn any_search() -> impl Strategy<Value = Search> {
    let scope = pick(&[
        (Scope::Subtree, "subtree"),
        (Scope::Subtree, "subtree"),
        (Scope::One, "onelevel"),
        (Scope::Base, "base"),
        (Scope::Subordinate, "subordinate"),
    ]);
    (pick(&[0, 0, 1, 1, 2, 3, 4, 6, 7, 9]), scope, any_filter())
}

/// A directory, and the same as data.
struct World {
    served: Served,
    plainly: Plainly,
    names: Vec<String>,
    clients: BTreeMap<&'static str, Client>,
}

impl World {
    fn new(contents: &[Content]) -> Self {
        let served = Served::new();
        let mut root = served.root();
        let mut plainly = Plainly::default();
        // What the suffix has stands as it was made.
        let suffix = read(&mut root, SUFFIX, &["*"]).unwrap();
        let suffix_entry = [("objectClass", suffix["objectClass"].clone())];
        plainly.entries.insert(SUFFIX.to_owned(), suffix_entry.into());
        let names =
            ALWAYS.iter().map(|name| (name, true)).chain(OPTIONAL.iter().map(|n| (n, false)));
        for ((name, is_always), content) in names.zip(contents) {
            if !is_always && !content.is_there {
                continue;
            }
            let rdn = name.split([',', '=']).nth(1).unwrap();
            let mut entry = BTreeMap::from([("sn", vec![content.sn.to_owned()])]);
            let mut put = |name: &'static str, value: Option<&str>| {
                if let Some(value) = value {
                    entry.insert(name, vec![value.to_owned()]);
                }
            };
            put("l", content.l);
            put("description", content.description);
            put("manager", content.manager);
            put("labeledURI", content.url);
            put("cn", Some(rdn));
            match name.split_once('=').unwrap().0 {
                "ou" => put("ou", Some(rdn)),
                "uid" => put("uid", Some(rdn)),
                _ => {}
            }
            let class = match *name {
                ADMINS => "groupOfNames",
                name if name.starts_with("ou=") => "organizationalUnit",
                name if name.starts_with("uid=") => "inetOrgPerson",
                _ => "device",
            };
            let mut attributes: Vec<(&str, Vec<&str>)> =
                entry.iter().map(|(name, values)| (*name, vec![values[0].as_str()])).collect();
            attributes.push(("objectClass", vec![class, "extensibleObject"]));
            if class == "inetOrgPerson" {
                attributes.push(("userPassword", vec!["secret"]));
            }
            if class == "groupOfNames" {
                attributes.push(("member", vec![CARL]));
                plainly.admins.push(CARL.to_owned());
            }
            let attributes: Vec<(&str, &[&str])> =
                attributes.iter().map(|(name, values)| (*name, values.as_slice())).collect();
            let answer = root.try_add(name, &attributes);
            assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
            entry.insert("objectClass", vec![class.to_owned()]);
            plainly.entries.insert((*name).to_owned(), entry);
        }
        let mut clients = BTreeMap::from([("", served.client())]);
        for who in [ANNA, BERT, CARL] {
            let mut client = served.client();
            assert_eq!(client.bind(who, "secret"), ResultCode::Success);
            clients.insert(who, client);
        }
        let mut names = vec![SUFFIX.to_owned()];
        names.extend(ALWAYS.iter().map(|name| (*name).to_owned()));
        let optional = OPTIONAL.iter().filter(|name| plainly.entries.contains_key(**name));
        names.extend(optional.map(|name| (*name).to_owned()));
        Self { served, plainly, names, clients }
    }

    fn take(&mut self, step: &Step) {
        let mut root = self.served.root();
        match step {
            Step::Rules(drafts) => self.put(&mut root, drafts),
            Step::Member(is_one) => {
                if !self.plainly.entries.contains_key(ADMINS) {
                    return;
                }
                let mut members = vec![CARL];
                members.extend(is_one.then_some(BERT));
                let change = [(ModifyOperation::Replace, "member", members.as_slice())];
                assert_eq!(root.modify(ADMINS, &change), ResultCode::Success);
                self.plainly.admins = members.into_iter().map(str::to_owned).collect();
            }
        }
    }

    fn put(&mut self, root: &mut Client, drafts: &[Draft]) {
        let mut acis: Vec<Aci> = Vec::new();
        for Draft { holder, target, aci } in drafts {
            let mut aci = aci.clone();
            // The last numbers stand for the root, where global ACIs are.
            match self.names.get(*holder) {
                Some(name) => aci.holder.clone_from(name),
                None => (aci.scope, aci.holder) = ("subtree", String::new()),
            }
            let target = target.and_then(|target| self.names.get(target));
            aci.target = target.filter(|name| is_within(name, &aci.holder)).cloned();
            acis.push(aci);
        }
        for name in &self.names {
            let own: Vec<String> =
                acis.iter().filter(|aci| aci.holder == *name).map(Aci::to_string).collect();
            self.replace(root, (name, "aci"), own);
        }
        let mut global: Vec<String> =
            acis.iter().filter(|aci| aci.holder.is_empty()).map(Aci::to_string).collect();
        for kind in ["targetcontrol", "extop"] {
            global.push(format!(
                "({kind}=\"*\")(version 3.0; acl \"x\"; allow (read) userdn=\"ldap:///anyone\";)"
            ));
        }
        self.replace(root, (ACCESS_CONFIG, "ds-cfg-global-aci"), global);
        self.plainly.acis = acis;
    }

    fn replace(&self, root: &mut Client, (name, attribute): (&str, &str), mut values: Vec<String>) {
        values.sort_unstable();
        values.dedup();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let change = [(ModifyOperation::Replace, attribute, values.as_slice())];
        let answer = root.try_modify(name, &change);
        assert_eq!(answer.code(), ResultCode::Success, "{name}: {} {values:?}", answer.diagnostic);
    }

    /// Asks for all in every way, and compares with the plain evaluator.
    fn ask(&mut self, searches: &[Search]) {
        let mut root = self.served.root();
        let Self { plainly, names, clients, .. } = self;
        for (who, client) in clients {
            for (base, scope, filter) in searches {
                let base = &names[base % names.len()];
                check_search(plainly, (who, client), (base, *scope), filter);
            }
            for dn in names.iter() {
                check_entry(plainly, (who, client), dn);
                check_rights(plainly, (who, &mut root), dn);
            }
        }
    }
}

fn check_search(
    plainly: &Plainly,
    (who, client): (&str, &mut Client),
    (base, (scope, scope_name)): (&str, (Scope, &str)),
    filter: &Filter,
) {
    let want = plainly.found(who, (base, scope_name), filter);
    let is_known = plainly.is_known(who, base);
    let text = filter.to_string();
    let asked = Asked { base, scope, filter: &text, ..Asked::default() };
    for told in searched(client, &asked, ["cn", "description"]) {
        let what = format!("'{who}': {scope_name} {base} {text}, {}: {told:?}", told.way);
        let is_told = is_known || (told.names.is_some() && !want.is_empty());
        let is_ordered = |key: &str| {
            let mut within = plainly.entries.keys().filter(|dn| is_within(dn, base));
            within.any(|dn| plainly.may(who, dn, "search", key))
        };
        if let Some(key) = told.way.strip_prefix("a list by ")
            && told.code != ResultCode::Success
            && !is_ordered(key)
        {
            // A list by what may be searched nowhere is none, and tells of no hidden base.
            assert_eq!(told.code == ResultCode::NoSuchObject, !is_known, "{what}");
            assert!(told.names.is_some_and(|names| names.is_empty()), "{what}");
            continue;
        }
        let code = if is_told { ResultCode::Success } else { ResultCode::NoSuchObject };
        assert_eq!(told.code, code, "{what}");
        assert!(told.names.is_none_or(|names| names == want), "{what}, not {want:?}");
        assert!(told.count.is_none_or(|count| count == want.len() as u64), "{what}, not {want:?}");
        let most = told.most.filter(|_| is_told);
        let seen = || plainly.entries.keys().filter(|dn| plainly.is_seen(who, dn)).count() as u64;
        assert!(most.is_none_or(|most| most >= want.len() as u64 && most <= seen()), "{what}");
    }
}

fn check_entry(plainly: &Plainly, (who, client): (&str, &mut Client), dn: &str) {
    let (is_seen, is_known) = (plainly.is_seen(who, dn), plainly.is_known(who, dn));
    let entry = &plainly.entries[dn];
    let what = format!("'{who}': {dn}");
    let children = plainly.children(who, dn);
    let computed = read(client, dn, &["numSubordinates", "hasSubordinates"]);
    // Finding the entry takes a right to the attribute of the filter.
    let is_found = is_seen && plainly.may(who, dn, "search", "objectClass");
    assert_eq!(computed.is_some(), is_found, "{what}");
    for (name, value) in [
        ("numSubordinates", children.to_string()),
        ("hasSubordinates", if children > 0 { "TRUE" } else { "FALSE" }.to_owned()),
    ] {
        let found = computed.as_ref().and_then(|seen| seen.get(name));
        let want = plainly.may(who, dn, "read", name).then(|| vec![value]);
        assert_eq!(found.cloned(), want.filter(|_| is_found), "{what} {name}");
    }
    let readable: Vec<&str> =
        entry.keys().copied().filter(|name| plainly.may(who, dn, "read", name)).collect();
    let is_same = |seen: &super::ways::Seen, way: &str| {
        let named = |name: &&str| !["userPassword", "member", "dc", "o"].contains(name);
        let found: Vec<&str> = seen.keys().map(String::as_str).filter(named).collect();
        let want = if is_seen { readable.as_slice() } else { &[] };
        let mut want = want.to_vec();
        want.sort_unstable();
        assert_eq!(found, want, "{what} {way}");
        for name in want.iter().filter(|name| **name != "objectClass") {
            assert_eq!(seen[*name], entry[name], "{what} {way}");
        }
    };
    if let Some(seen) = read(client, dn, &["*"]) {
        is_same(&seen, "read");
    }
    for (attribute, value) in [("cn", "anna"), ("description", "x"), ("sn", "tal")] {
        let values = entry.get(attribute);
        let has = |all: &Vec<String>| all.iter().any(|one| one.eq_ignore_ascii_case(value));
        let want = if !is_known {
            ResultCode::NoSuchObject
        } else if !plainly.may(who, dn, "compare", attribute) {
            ResultCode::InsufficientAccessRights
        } else if values.is_none() {
            ResultCode::NoSuchAttribute
        } else if values.is_some_and(has) {
            ResultCode::CompareTrue
        } else {
            ResultCode::CompareFalse
        };
        assert_eq!(client.compare(dn, attribute, value), want, "{what} {attribute}");
    }
    if let Some(description) = entry.get("description") {
        let beside = read_beside(client, dn, ("description", &description[0]));
        assert_eq!(beside.is_some(), plainly.may(who, dn, "write", "description"), "{what}");
        for (seen, way) in beside.iter().flatten().zip(["before", "after"]) {
            is_same(seen, way);
        }
    }
}

fn check_rights(plainly: &Plainly, (who, root): (&str, &mut Client), dn: &str) {
    let bit = |right: &str, may: bool| format!("{right}:{}", u8::from(may));
    let told = effective(root, who, dn, "");
    let read = bit("read", plainly.is_seen(who, dn));
    assert!(told.split(',').any(|one| one == read), "'{who}': {dn}, {told}");
    let told = effective(root, who, dn, "description");
    for right in ["read", "search", "compare", "write"] {
        let of_attribute = plainly.may(who, dn, right, "description");
        let want = bit(right, of_attribute);
        assert!(told.split(',').any(|one| one == want), "'{who}': {dn}, {want}, {told}");
        let said = why(root, who, (dn, right), Some("description"));
        assert_eq!(said, of_attribute, "'{who}': {right} description of {dn}");
    }
    for right in ["read", "search", "compare"] {
        let said = why(root, who, (dn, right), None);
        assert_eq!(said, plainly.may_entry(who, dn, right), "'{who}': {right} {dn}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24 * attack_turns(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Short cuts (what holds for all entries in reach, what is kept between requests, counts and
    /// orders taken from an index) were each tested by themselves: one did not hear a deny.
    #[test]
    fn every_way_to_see_an_entry_tells_what_the_plain_evaluator_allows(
        contents in prop::collection::vec(any_content(), ALWAYS.len() + OPTIONAL.len()),
        steps in prop::collection::vec(any_step(), 1..5),
        searches in prop::collection::vec(any_search(), 3),
    ) {
        let mut world = World::new(&contents);
        for step in &steps {
            world.take(step);
            if !world.plainly.acis.is_empty() {
                world.ask(&searches);
            }
        }
    }
}

/// The parts of names that the test relies on.
#[test]
fn names_are_told_apart_by_their_superiors() {
    assert!(is_within(ANNA, UNIT) && !is_within(CARL, UNIT));
    assert!(is_in_scope(ANNA, UNIT, "onelevel") && !is_in_scope(UNIT, UNIT, "subordinate"));
    assert_eq!(above(UNIT), SUFFIX);
}
