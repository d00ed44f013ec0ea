//! Counts, places, parts of values, states before and after, references, aliases, transactions:
//! what controls tell beside entries, as several identities.

use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvResponse, VlvTarget};
use ldap::message::{
    Control, DeleteRequest, DerefAliases, ModifyDnRequest, ModifyOperation, ModifyRequest, Request,
    Scope,
};
use ldap::result::ResultCode;

use super::{
    EVERYBODY, PEOPLE, Right, SECRET, World, allows, is_known, is_visible, person, with_control,
};
use crate::counting::{Says, count};
use crate::support::{Answer, Asked, Client, SUFFIX, Served, modifications};

const SORT: &str = "1.2.840.113556.1.4.473";
const VLV: &str = "2.16.840.1.113730.3.4.9";
const VLV_RESPONSE: &str = "2.16.840.1.113730.3.4.10";
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";

/// Puts an ACI into an entry.
pub(super) fn put(root: &mut Client, holder: &str, aci: &str) {
    let answer = root.try_modify(holder, &[(ModifyOperation::Add, "aci", &[aci])]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

/// The one value of an attribute that a search of one entry returns.
fn value(client: &mut Client, base: &str, attribute: &str) -> Option<String> {
    let asked = Asked { base, scope: Scope::Base, attributes: &[attribute], ..Asked::default() };
    client.search(&asked).entries.first()?.texts(attribute).pop()
}

#[test]
fn subordinates_that_may_not_be_seen_are_not_counted() {
    let world = World::new();
    let mut root = world.served.root();
    let target = |name: &str| format!(r#"(target="ldap:///{name}")(targetscope="base")"#);
    let counts = r#"(targetattr="objectClass || numSubordinates || hasSubordinates")"#;
    let all = concat!(
        r#"(version 3.0; acl "counts"; allow (read,search,compare,write) "#,
        r#"userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SUFFIX, &format!("{}{counts}{all}", target(SUFFIX)));
    put(&mut root, PEOPLE, &format!("{counts}{all}"));
    // Below anna's entry there is what nobody else may see.
    let below = format!("cn=hidden,{}", person("anna"));
    assert_eq!(root.add(&below, &[("objectClass", &["device"])]), ResultCode::Success);
    let hide =
        r#"(targetattr="* || +")(version 3.0; acl "hide"; deny (all) userdn="ldap:///anyone";)"#;
    put(&mut root, &below, hide);
    for who in EVERYBODY {
        let mut client = world.client(who);
        let children = |of: &str| {
            let is_child = |dn: &&String| dn.split_once(',').is_some_and(|(_, above)| above == of);
            let seen = world.tree.keys().filter(is_child).filter(|dn| is_visible(who, dn));
            seen.count() + usize::from(who == "root" && of == person("anna"))
        };
        for dn in [SUFFIX, PEOPLE, &person("anna"), &person("bert")] {
            let (number, has) = (children(dn), if children(dn) > 0 { "TRUE" } else { "FALSE" });
            let what = format!("{who}: {dn}");
            let said = value(&mut client, dn, "numSubordinates");
            assert_eq!(said, Some(number.to_string()), "{what}");
            assert_eq!(value(&mut client, dn, "hasSubordinates").as_deref(), Some(has), "{what}");
            for (attribute, value, want) in [
                ("numSubordinates", number.to_string(), true),
                ("numSubordinates", (number + 1).to_string(), false),
                ("hasSubordinates", has.to_owned(), true),
                ("hasSubordinates", if number > 0 { "FALSE" } else { "TRUE" }.to_owned(), false),
            ] {
                let filter = format!("({attribute}={value})");
                let asked =
                    Asked { base: dn, scope: Scope::Base, filter: &filter, ..Asked::default() };
                assert_eq!(client.search(&asked).entries.len(), usize::from(want), "{what}");
                let code = client.compare(dn, attribute, &value);
                let said = if want { ResultCode::CompareTrue } else { ResultCode::CompareFalse };
                assert_eq!(code, said, "{what}: {filter}");
            }
        }
        // The same in an order, where the values are keys.
        let value =
            write_sort_keys(&[SortKey { attribute: "numSubordinates", rule: None, reverse: true }]);
        let controls = [(SORT, false, Some(value.as_slice()))];
        let asked = Asked {
            base: PEOPLE,
            scope: Scope::One,
            filter: "(uid=*)",
            controls: &controls,
            ..Asked::default()
        };
        let answer = client.search(&asked);
        let (first, others) = answer.entries.split_first().unwrap();
        assert_eq!(others.len(), 2, "{who}");
        if who == "root" {
            assert_eq!(first.dn, person("anna"));
        }
    }
}

#[test]
fn a_list_view_counts_and_places_what_may_be_seen() {
    let world = World::new();
    for who in EVERYBODY {
        let mut client = world.client(who);
        for (filter, filtered) in [("(objectClass=*)", "objectClass"), ("(sn=*)", "sn")] {
            for key in ["sn", "uid", "mail", "cn"] {
                let mut list: Vec<Option<String>> = Vec::new();
                for (dn, entry) in &world.tree {
                    let matches = allows(who, dn, filtered, Right::Search)
                        && (entry.contains_key(filtered) || filtered == "objectClass");
                    if matches && is_visible(who, dn) {
                        let value = entry.get(key).and_then(|all| all.first());
                        let value = value.filter(|_| allows(who, dn, key, Right::Search));
                        list.push(value.map(|value| value.to_lowercase()));
                    }
                }
                list.sort_by_key(|value| (value.is_none(), value.clone()));
                for asserted in ["a", "b", "berg", "c", "see", "zz"] {
                    let sort =
                        write_sort_keys(&[SortKey { attribute: key, rule: None, reverse: false }]);
                    let target = VlvTarget::Value(asserted.as_bytes());
                    let view = VlvRequest { before: 0, after: 0, target, context: None }.encode();
                    let controls =
                        [(SORT, true, Some(sort.as_slice())), (VLV, true, Some(view.as_slice()))];
                    let answer =
                        client.search(&Asked { filter, controls: &controls, ..Asked::default() });
                    let what = format!("{who}: {filter} by {key} at {asserted}");
                    let told = answer.controls.iter().find(|(oid, _)| oid == VLV_RESPONSE);
                    if answer.code() == ResultCode::NoSuchObject {
                        // The base is hidden, and so is what would tell of it: nothing is shown.
                        assert!(!is_known(who, SUFFIX) && told.is_none(), "{what}");
                        assert!(list.iter().flatten().all(|value| &**value < asserted), "{what}");
                        continue;
                    }
                    let told = VlvResponse::decode(&told.expect(&what).1).unwrap();
                    if answer.code() != ResultCode::Success {
                        // A key that may be searched nowhere orders nothing.
                        let may = world.tree.keys().any(|dn| allows(who, dn, key, Right::Search));
                        assert!(!may, "{what}: {}", answer.diagnostic);
                        assert_eq!((told.target_position, told.content_count), (0, 0), "{what}");
                        continue;
                    }
                    assert_eq!(told.content_count as usize, list.len(), "{what}");
                    let is_before =
                        |value: &&Option<String>| value.as_deref().is_some_and(|v| v < asserted);
                    let place = list.iter().take_while(is_before).count();
                    let place = if list.is_empty() { 0 } else { place + 1 };
                    assert_eq!(told.target_position as usize, place, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_count_without_a_look_is_for_whoever_sees_all() {
    let world = World::new();
    for who in EVERYBODY {
        let mut client = world.client(who);
        for filter in ["(objectClass=*)", "(uid=*)", "(mail=anna@example.org)"] {
            let says = Says { examine_max: 0, always_examine: false, even_unindexed: false };
            let (answer, told) = count(&mut client, SUFFIX, filter, says);
            if !is_known(who, SUFFIX) {
                assert_eq!(answer.code(), ResultCode::NoSuchObject, "{who}");
                continue;
            }
            assert_eq!(answer.code(), ResultCode::Success, "{who}");
            if who != "root" {
                assert!(told.starts_with("unknown"), "{who}: {filter}: {told}");
            }
        }
    }
}

#[test]
fn matched_values_are_those_that_may_be_read_and_searched() {
    let world = World::new();
    // (cn=*)(mail=*)(telephoneNumber=*)(sn=*)
    let mut items = Vec::new();
    for name in ["cn", "mail", "telephoneNumber", "sn"] {
        items.extend([0x87, name.len() as u8]);
        items.extend(name.as_bytes());
    }
    let mut value = vec![0x30, items.len() as u8];
    value.extend(items);
    let controls = [("1.2.826.0.1.3344810.2.3", true, Some(value.as_slice()))];
    for who in EVERYBODY {
        let mut client = world.client(who);
        for (dn, entry) in world.tree.iter().filter(|(dn, _)| is_known(who, dn)) {
            let asked = Asked {
                base: dn,
                scope: Scope::Base,
                attributes: &["*"],
                controls: &controls,
                ..Asked::default()
            };
            let answer = client.search(&asked);
            for found in &answer.entries {
                for attribute in super::ATTRIBUTES {
                    let is_asked = ["cn", "mail", "telephoneNumber", "sn"].contains(attribute);
                    let may = allows(who, dn, attribute, Right::Read)
                        && allows(who, dn, attribute, Right::Search);
                    let want = entry.get(*attribute).filter(|_| is_asked && may);
                    let said = found.texts(attribute);
                    assert_eq!(said, want.cloned().unwrap_or_default(), "{who}: {dn} {attribute}");
                }
            }
        }
    }
}

#[test]
fn what_was_before_and_is_after_is_told_as_far_as_it_may_be_read() {
    let world = World::new();
    // A list of one selector, for all user attributes.
    let selection = b"\x30\x03\x04\x01*".to_vec();
    for who in ["anna", "bert", "carla"] {
        let mut client = world.client(who);
        for oid in ["1.3.6.1.1.13.1", "1.3.6.1.1.13.2"] {
            let own = person(who);
            let list = modifications(&[(ModifyOperation::Replace, "description", &["new"])]);
            let modify = ModifyRequest { name: &own, changes: list.as_ref() };
            let control = Control { oid, critical: true, value: Some(&selection) };
            let answer = with_control(&mut client, Request::Modify(modify), Some(control));
            assert_eq!(answer.code(), ResultCode::Success, "{who}: {}", answer.diagnostic);
            let (_, value) = answer.controls.iter().find(|(one, _)| one == oid).unwrap();
            let text = String::from_utf8_lossy(value);
            for (attribute, values) in &world.tree[&own] {
                let may = allows(who, &own, attribute, Right::Read);
                let is_told = text.contains(attribute.as_str());
                assert_eq!(is_told, may, "{who}: {attribute}: {text}");
                let is_long = |value: &&String| value.len() > 3;
                let is_told = values.iter().filter(is_long).any(|value| text.contains(value));
                assert!(may || !is_told, "{who}: {attribute}: {text}");
            }
            assert!(!text.contains("@example.org"), "{who}: mail may be searched, not read");
            assert!(!text.contains("userPassword"), "{who}");
        }
    }
}

#[test]
fn references_are_for_those_who_may_read_them() {
    let world = World::new();
    let mut root = world.served.root();
    let (there, missing) = (format!("ou=there,{SECRET}"), format!("ou=none,{SECRET}"));
    let (classes, url): (&[&str], &[&str]) =
        (&["referral", "extensibleObject"], &["ldap://host.example.org/ou=there"]);
    assert_eq!(root.add(&there, &[("objectClass", classes), ("ref", url)]), ResultCode::Success);
    for who in EVERYBODY {
        let mut client = world.client(who);
        // What refers to others is an operational attribute, which nobody is given.
        let may = who == "root";
        for scope in [Scope::Subtree, Scope::Subordinate] {
            let answer = client.search(&Asked { scope, ..Asked::default() });
            assert_eq!(answer.references.len(), usize::from(may), "{who}: {scope:?}");
        }
        for (name, of_missing) in
            [(there.clone(), missing.clone()), (format!("cn=x,{there}"), format!("cn=x,{missing}"))]
        {
            let mut ask = |name: &str| super::answers(&mut client, name, None);
            let (about_one, about_other) = (ask(&name), ask(&of_missing));
            for (one, other) in about_one.iter().zip(&about_other) {
                if may {
                    let codes = [ResultCode::Referral, ResultCode::AffectsMultipleDsas];
                    let is_add = one.0.starts_with("add") && one.1.code() != ResultCode::Referral;
                    assert!(codes.contains(&one.1.code()) || is_add || one.0 == "move below");
                } else {
                    assert_eq!(one, other, "{who}: {name}: {}", one.0);
                }
            }
        }
        assert_eq!(root.search(&Asked::default()).references.len(), 1);
    }
}

#[test]
fn an_alias_does_not_tell_whether_what_it_names_is_there() {
    let world = World::new();
    let mut root = world.served.root();
    let classes: &[&str] = &["alias", "extensibleObject"];
    for (alias, target) in [("there", "cn=one"), ("gone", "cn=six")] {
        let name = format!("cn={alias},{PEOPLE}");
        let target = format!("{target},{SECRET}");
        let attributes = [("objectClass", classes), ("aliasedObjectName", &[&*target][..])];
        let answer = root.try_add(&name, &attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    }
    let see = concat!(
        r#"(targetattr="aliasedObjectName")(version 3.0; acl "aliases"; "#,
        r#"allow (read,search) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, PEOPLE, see);
    for who in ["anonymous", "bert", "carla"] {
        let mut client = world.client(who);
        for below in ["", "cn=x,"] {
            for scope in [Scope::Base, Scope::One, Scope::Subtree] {
                let mut ask = |alias: &str| -> Answer {
                    let base = format!("{below}cn={alias},{PEOPLE}");
                    let deref = DerefAliases::Always;
                    let mut answer =
                        client.search(&Asked { base: &base, scope, deref, ..Asked::default() });
                    answer.matched = answer.matched.replace(alias, "alias");
                    answer
                };
                assert_eq!(ask("there"), ask("gone"), "{who}: {below} {scope:?}");
            }
        }
        // In a search of what holds the aliases both are passed over.
        let deref = DerefAliases::Always;
        let answer = client.search(&Asked { base: PEOPLE, deref, ..Asked::default() });
        assert_eq!(answer.code(), ResultCode::Success, "{who}");
        assert!(!answer.names().iter().any(|name| name.contains("secret")), "{who}");
    }
}

#[test]
fn a_transaction_and_a_password_change_tell_nothing_of_what_is_hidden() {
    let world = World::new();
    let names = [format!("cn=one,{SECRET}"), format!("cn=six,{SECRET}")];
    for who in ["carla", "bert"] {
        let mut client = world.client(who);
        let mut answers = names.iter().map(|name| {
            let started = client.extended("1.3.6.1.1.21.1", None);
            let id = started.value.expect("an identifier");
            let control = Control { oid: "1.3.6.1.1.21.2", critical: true, value: Some(&id) };
            let delete = Request::Delete(DeleteRequest { name });
            let taken = with_control(&mut client, delete, Some(control));
            let mut value = vec![0x30, 5 + id.len() as u8, 1, 1, 0xff, 4, id.len() as u8];
            value.extend(&id);
            let mut ended = client.extended("1.3.6.1.1.21.3", Some(&value));
            // The number of the message that failed.
            ended.value = None;
            let mut value = vec![0x30, 2 + name.len() as u8, 0x80, name.len() as u8];
            value.extend(name.as_bytes());
            value.extend([0x82, 1, b'x']);
            value[1] += 3;
            let changed = client.extended("1.3.6.1.4.1.4203.1.11.1", Some(&value));
            assert_ne!(ended.code(), ResultCode::Success, "{who}");
            assert_ne!(changed.code(), ResultCode::Success, "{who}");
            (taken, ended, changed)
        });
        let (one, other) = (answers.next().unwrap(), answers.next().unwrap());
        assert_eq!(one, other, "{who}");
    }
}

#[test]
fn limits_tell_nothing_of_values_that_may_not_be_searched() {
    let world = World::on(Served::with(|options| options.limits.look_through_limit_entries = 2));
    let mut root = world.served.root();
    for number in 0..5 {
        let name = format!("cn=many {number},{PEOPLE}");
        let attributes: [(&str, &[&str]); 2] =
            [("objectClass", &["device", "extensibleObject"]), ("mail", &["x@example.org"])];
        assert_eq!(root.add(&name, &attributes), ResultCode::Success);
    }
    let mut anonymous = world.client("anonymous");
    for filter in ["(mail=x@example.org)", "(mail=x*)", "(!(mail=x@example.org))", "(mail=*)"] {
        for base in [SUFFIX, PEOPLE] {
            let answer = anonymous.search(&Asked { base, filter, ..Asked::default() });
            let other = filter.replace("mail=", "telephoneNumber=");
            let other = anonymous.search(&Asked { base, filter: &other, ..Asked::default() });
            assert_eq!(answer, other, "{base} {filter}");
        }
    }
}

#[test]
fn how_many_entries_there_are_is_not_told_by_a_refusal() {
    let world = World::on(Served::with(|options| options.limits.unindexed_entries = 1));
    let asked = Asked { filter: "(cn=*a*)", ..Asked::default() };
    for who in ["anonymous", "bert"] {
        let answer = world.client(who).search(&asked);
        if answer.code() == ResultCode::InsufficientAccessRights {
            assert!(answer.diagnostic.contains("all entries"), "{}", answer.diagnostic);
        }
    }
}

/// An index has values of all options; who may not search some of them finds nothing by them.
#[test]
fn an_index_finds_nothing_by_values_with_options_that_may_not_be_searched() {
    let world = World::new();
    let mut root = world.served.root();
    let change = [(ModifyOperation::Add, "cn;lang-de", &["Geheim"][..])];
    assert_eq!(root.modify(&person("anna"), &change), ResultCode::Success);
    let asked = Asked { base: PEOPLE, filter: "(cn=geheim)", ..Asked::default() };
    assert_eq!(world.client("bert").search(&asked).entries.len(), 1);
    let deny = concat!(
        r#"(targetattr="cn;lang-de")(version 3.0; acl "not these"; "#,
        r#"deny (search) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, PEOPLE, deny);
    for who in ["anonymous", "bert", "carla"] {
        let mut client = world.client(who);
        assert_eq!(client.search(&asked).entries.len(), 0, "{who}");
        let says = Says { examine_max: 100, always_examine: false, even_unindexed: true };
        let (_, told) = count(&mut client, PEOPLE, "(cn=geheim)", says);
        assert!(told.starts_with("examined 0"), "{who}: {told}");
    }
    assert_eq!(root.search(&asked).entries.len(), 1);
}

/// Who may move an entry is not told what is where it may not come to.
#[test]
fn a_move_tells_nothing_of_a_superior_that_is_hidden() {
    let world = World::new();
    let mut root = world.served.root();
    let move_own = concat!(
        r#"(targetattr="uid")(version 3.0; acl "own name"; allow (write,export) "#,
        r#"userdn="ldap:///self";)"#,
    );
    put(&mut root, PEOPLE, move_own);
    let mut bert = world.client("bert");
    let own = person("bert");
    let mut moved = |superior: &str| {
        let rename = ModifyDnRequest {
            name: &own,
            new_rdn: "uid=bert",
            delete_old_rdn: false,
            new_superior: Some(superior),
        };
        with_control(&mut bert, Request::ModifyDn(rename), None)
    };
    let hidden = moved(&format!("cn=one,{SECRET}"));
    assert_eq!(hidden.code(), ResultCode::NoSuchObject, "{}", hidden.diagnostic);
    assert_eq!(hidden, moved(&format!("cn=six,{SECRET}")));
    assert_eq!(moved(&person("anna")).code(), ResultCode::InsufficientAccessRights);
}

/// A compare of an attribute says nothing of values with options, or of derived types, that may not
/// be compared.
#[test]
fn a_compare_tells_nothing_of_values_that_may_not_be_compared() {
    let world = World::new();
    let mut root = world.served.root();
    let anna = person("anna");
    let change = [(ModifyOperation::Add, "cn;lang-de", &["Geheim"][..])];
    assert_eq!(root.modify(&anna, &change), ResultCode::Success);
    let mut bert = world.client("bert");
    assert_eq!(bert.compare(&anna, "cn", "geheim"), ResultCode::CompareTrue);
    let deny = concat!(
        r#"(targetattr="cn;lang-de")(version 3.0; acl "not these"; "#,
        r#"deny (compare) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, PEOPLE, deny);
    let allow = concat!(
        r#"(targetattr="name || userPassword")(version 3.0; acl "these"; "#,
        r#"allow (compare) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, PEOPLE, allow);
    for (attribute, value, want) in [
        ("cn", "anna", ResultCode::CompareTrue),
        ("cn", "geheim", ResultCode::CompareFalse),
        ("name", "geheim", ResultCode::CompareFalse),
        ("cn;lang-de", "geheim", ResultCode::InsufficientAccessRights),
        ("userPassword", "secret", ResultCode::CompareTrue),
    ] {
        assert_eq!(bert.compare(&anna, attribute, value), want, "{attribute}={value}");
    }
}

/// Likewise for types derived from the one that is asked for.
#[test]
fn an_index_finds_nothing_by_subtypes_that_may_not_be_searched() {
    let world = World::new();
    let mut root = world.served.root();
    let index = "ds-cfg-attribute=name,cn=Index,cn=config";
    let attributes: [(&str, &[&str]); 3] = [
        ("objectClass", &["ds-cfg-local-db-index"]),
        ("ds-cfg-attribute", &["name"]),
        ("ds-cfg-index-type", &["equality"]),
    ];
    let answer = root.try_add(index, &attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let allow = concat!(
        r#"(targetattr="name")(version 3.0; acl "bare names"; "#,
        r#"allow (search) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SECRET, allow);
    // What all may see there, so that nothing but the right to search decides.
    let see = concat!(
        r#"(targetattr="objectClass")(version 3.0; acl "seen"; "#,
        r#"allow (read,search) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SECRET, see);
    let asked = Asked { base: SECRET, filter: "(name=one)", ..Asked::default() };
    assert_eq!(root.search(&asked).entries.len(), 1);
    for who in ["anonymous", "bert"] {
        let mut client = world.client(who);
        let all = client.search(&Asked { base: SECRET, ..Asked::default() });
        assert_eq!(all.entries.len(), 3, "{who}");
        assert_eq!(client.search(&asked).entries.len(), 0, "{who}");
    }
}

#[test]
fn a_reader_of_a_large_level_is_told_no_number() {
    // Enough to stop looking at each.
    let world = World::new();
    let mut root = world.served.root();
    let counts = concat!(
        r#"(targetattr="numSubordinates || hasSubordinates")(version 3.0; acl "counts"; "#,
        r#"allow (read) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SECRET, counts);
    for number in 0..1_001 {
        let name = format!("cn=n{number},{SECRET}");
        assert_eq!(root.add(&name, &[("objectClass", &["device"])]), ResultCode::Success);
    }
    let hide = concat!(
        r#"(target="ldap:///cn=*,ou=secret,dc=example,dc=org")(targetattr="* || +")"#,
        r#"(version 3.0; acl "hide"; deny (all) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SECRET, hide);
    let mut bert = world.client("bert");
    assert_eq!(value(&mut bert, SECRET, "numSubordinates"), None);
    assert_eq!(value(&mut bert, SECRET, "hasSubordinates"), None);
    assert_eq!(value(&mut root, SECRET, "numSubordinates").as_deref(), Some("1003"));
}

#[test]
fn a_hidden_entry_may_be_managed_by_nobody_else() {
    // What is a referral to others is an entry to whoever manages it, and hidden all the same.
    let world = World::new();
    let mut bert = world.client("bert");
    let controls = [(MANAGE_DSA_IT, true, None)];
    let one = format!("cn=one,{SECRET}");
    let asked = Asked { base: &one, scope: Scope::Base, controls: &controls, ..Asked::default() };
    assert_eq!(bert.search(&asked).code(), ResultCode::NoSuchObject);
}

const PAGED: &str = "1.2.840.113556.1.4.319";
const PROXIED: &str = "2.16.840.1.113730.3.4.18";

/// Every search control, with a value that is well formed.
fn search_controls() -> Vec<(&'static str, Option<Vec<u8>>)> {
    let sort = write_sort_keys(&[SortKey { attribute: "uid", rule: None, reverse: true }]);
    // (cn=*), a list of it, (objectClass=*), and a page of two.
    let item = b"\x87\x02cn".to_vec();
    let items = b"\x30\x04\x87\x02cn".to_vec();
    let present = b"\x87\x0bobjectClass".to_vec();
    let page = vec![0x30, 0x05, 0x02, 0x01, 0x02, 0x04, 0x00];
    vec![
        (MANAGE_DSA_IT, None),
        (PAGED, Some(page)),
        (SORT, Some(sort)),
        ("1.3.6.1.4.1.4203.1.10.1", Some(vec![1, 1, 0xff])),
        ("1.3.6.1.4.1.4203.1.10.1", Some(vec![1, 1, 0])),
        ("1.2.826.0.1.3344810.2.3", Some(items)),
        ("1.3.6.1.4.1.30221.2.5.54", None),
        ("1.3.6.1.4.1.30221.2.5.55", None),
        ("1.3.6.1.1.12", Some(present)),
        ("1.3.6.1.1.12", Some(item)),
        ("1.3.6.1.4.1.42.2.27.9.5.2", None),
    ]
}

/// Whatever control comes with a search from wherever in the tree: what is returned may be read.
#[test]
fn no_control_returns_what_may_not_be_read() {
    let world = World::new();
    let controls = search_controls();
    for who in EVERYBODY.into_iter().filter(|who| *who != "root") {
        let mut client = world.client(who);
        for base in world.tree.keys() {
            for scope in [Scope::Base, Scope::One, Scope::Subtree, Scope::Subordinate] {
                let attributes: &[&str] = &["*", "+", "userPassword", "aclRightsInfo"];
                let plain = Asked { base, scope, attributes, ..Asked::default() };
                let without = client.search(&plain);
                for (oid, value) in &controls {
                    let sent = [(*oid, true, value.as_deref())];
                    let answer = client.search(&Asked { controls: &sent, ..plain.clone() });
                    let what = format!("{who}: {scope:?} {base}, {oid}");
                    for found in &answer.entries {
                        assert!(is_visible(who, &found.dn), "{what}: {}", found.dn);
                        assert!(without.names().contains(&found.dn.as_str()), "{what}");
                        for name in found.attributes.keys() {
                            // The tree has no password, and nothing operational.
                            let may = allows(who, &found.dn, name, Right::Read)
                                && world.tree[&found.dn].contains_key(name);
                            assert!(may, "{what}: {name} of {}", found.dn);
                        }
                    }
                    if answer.entries.is_empty() && !is_known(who, base) {
                        assert_eq!(answer.code(), ResultCode::NoSuchObject, "{what}");
                    }
                    let told = answer.controls.iter().find(|(one, _)| one == PAGED);
                    if let Some((_, value)) = told {
                        // SEQUENCE { size INTEGER 0, cookie }: how many there are is not told.
                        assert_eq!(value[2..5], [2, 1, 0], "{what}");
                    }
                }
            }
        }
    }
}

/// Who acts as somebody else gets the answers of that one.
#[test]
fn a_request_as_somebody_else_is_answered_as_to_them() {
    let world = World::new();
    for who in ["anna", "bert", "carla", "anonymous"] {
        let (mut client, mut root) = (world.client(who), world.served.root());
        let value = if who == "anonymous" { String::new() } else { format!("dn:{}", person(who)) };
        let sent = [(PROXIED, true, Some(value.as_bytes()))];
        for base in world.tree.keys() {
            for scope in [Scope::Base, Scope::One, Scope::Subtree] {
                for filter in ["(objectClass=*)", "(mail=*)", "(!(sn=see))", "(description=*)"] {
                    let asked =
                        Asked { base, scope, filter, attributes: &["*"], ..Asked::default() };
                    let own = client.search(&asked);
                    let as_them = root.search(&Asked { controls: &sent, ..asked.clone() });
                    assert_eq!(own, as_them, "{who}: {scope:?} {base} {filter}");
                }
            }
        }
    }
}

/// The privilege to reset passwords comes beside rights: who has it is told of no account that is
/// hidden.
#[test]
fn who_may_reset_passwords_is_told_of_no_hidden_account() {
    let world = World::new();
    let mut root = world.served.root();
    let hidden = format!("uid=spy,{SECRET}");
    let attributes: [(&str, &[&str]); 4] = [
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["spy"]),
        ("sn", &["spy"]),
        ("userPassword", &["secret"]),
    ];
    assert_eq!(root.add(&hidden, &attributes), ResultCode::Success);
    let give = [(ModifyOperation::Add, "ds-privilege-name", &["password-reset"][..])];
    assert_eq!(root.modify(&person("bert"), &give), ResultCode::Success);
    let mut bert = world.client("bert");
    let mut ask = |name: &str| {
        let field = |tag: u8| [&[tag, name.len() as u8], name.as_bytes()].concat();
        let sequence = |content: Vec<u8>| [&[0x30, content.len() as u8], &content[..]].concat();
        let state = bert.extended("1.3.6.1.4.1.26027.1.6.1", Some(&sequence(field(0x04))));
        let change = sequence([field(0x80), vec![0x82, 3, b'n', b'e', b'w']].concat());
        let changed = bert.extended("1.3.6.1.4.1.4203.1.11.1", Some(&change));
        (state, changed)
    };
    let (state, changed) = ask(&hidden);
    assert_ne!(state.code(), ResultCode::Success);
    assert_ne!(changed.code(), ResultCode::Success);
    assert_eq!((state, changed), ask(&format!("uid=spa,{SECRET}")));
}
