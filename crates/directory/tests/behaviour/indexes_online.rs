//! Indexes come, go and are built anew over LDAP.

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use store::FlushOptions;

use crate::support::{Asked, Client, Found, SUFFIX, Served};

const CONFIG: &str = "cn=Index,cn=config";
const DESCRIPTION: &str = "ds-cfg-attribute=description,cn=Index,cn=config";
const MONITOR: &str = "cn=index,cn=monitor";

/// Builds as fast as it can.
fn served() -> Served {
    Served::with(|options| {
        options.flush = FlushOptions { index_build_percent: 100, ..FlushOptions::default() };
    })
}

fn read(root: &mut Client, base: &str, attributes: &[&str]) -> Option<Found> {
    let asked = Asked { base, scope: Scope::Base, attributes, ..Asked::default() };
    root.search(&asked).entries.into_iter().next()
}

fn definitions(root: &mut Client, base: &str) -> Vec<String> {
    let entry = read(root, base, &["*"]);
    entry.map(|entry| entry.texts("roster-index-definition")).unwrap_or_default()
}

/// Name and state of each index.
fn states(root: &mut Client) -> Vec<(String, String)> {
    let asked = Asked { base: MONITOR, scope: Scope::One, attributes: &["*"], ..Asked::default() };
    let entries = root.search(&asked).entries;
    let text = |entry: &Found, name: &str| entry.texts(name).concat();
    let state =
        |entry: &Found| (text(entry, "roster-index-name"), text(entry, "roster-index-state"));
    entries.iter().map(state).collect()
}

fn wait_until_built(root: &mut Client) {
    while states(root).iter().any(|(_, state)| state != "valid") {
        std::thread::yield_now();
    }
}

fn modify(root: &mut Client, changes: &[(ModifyOperation, &str, &[&str])]) -> ResultCode {
    root.modify(DESCRIPTION, changes)
}

#[test]
fn an_index_is_added_used_and_deleted() {
    let served = served();
    crate::add_devices(&served, 200, "somewhere in the house");
    let mut root = served.root();
    assert!(definitions(&mut root, DESCRIPTION).is_empty());
    let constraint = [(ModifyOperation::Add, "roster-constraint", &["a: ascii description"][..])];
    assert_eq!(root.modify("cn=Constraints,cn=config", &constraint), ResultCode::Success);
    // The settings of the directory stay what they are, whatever becomes of indexes.
    let settings = |root: &mut Client| {
        let rules = ("cn=Access Control Handler,cn=config", "ds-cfg-global-aci");
        let constraints = ("cn=Constraints,cn=config", "roster-constraint");
        [rules, constraints].map(|(base, name)| read(root, base, &["*"]).unwrap().texts(name))
    };
    let before = settings(&mut root);
    assert!(before.iter().all(|values| !values.is_empty()));
    let index: &[(&str, &[&str])] = &[
        ("objectClass", &["top", "ds-cfg-backend-index"]),
        ("ds-cfg-attribute", &["description"]),
        ("ds-cfg-index-type", &["equality", "substring"]),
        ("ds-cfg-index-entry-limit", &["4000"]),
    ];
    assert_eq!(root.add(DESCRIPTION, index), ResultCode::Success);
    assert_eq!(root.add(DESCRIPTION, index), ResultCode::EntryAlreadyExists);
    let both = ["equality description", "substring description"];
    assert_eq!(definitions(&mut root, DESCRIPTION), both);
    assert_eq!(settings(&mut root), before);
    wait_until_built(&mut root);
    assert_eq!(settings(&mut root), before);
    let device = format!("cn=device 0,{SUFFIX}");
    let other = [(ModifyOperation::Replace, "description", &["ö"][..])];
    assert_eq!(root.modify(&device, &other), ResultCode::ConstraintViolation);
    let base = "cn=description.substring,cn=index,cn=monitor";
    let attributes = &["*", "roster-index-verify"];
    let status = read(&mut root, base, attributes).unwrap();
    assert_eq!(status.texts("roster-index-state"), ["valid"]);
    assert_eq!(status.texts("roster-index-progress"), ["201/201"]);
    assert_eq!(status.texts("roster-index-verify"), ["ok"]);
    assert_eq!(status.texts("roster-index-is-estimate"), ["FALSE"]);
    assert!(status.texts("roster-index-popular").iter().all(|line| line.starts_with("200 ")));
    let without = read(&mut root, base, &["*"]).unwrap();
    assert!(without.texts("roster-index-verify").is_empty(), "it costs much");
    let found = Asked { filter: "(description=*the house*)", ..Asked::default() };
    assert_eq!(root.search(&found).entries.len(), 200);
    assert_eq!(root.delete(DESCRIPTION), ResultCode::Success);
    assert_eq!(root.delete(DESCRIPTION), ResultCode::NoSuchObject);
    assert_eq!(root.search(&found).entries.len(), 200);
    wait_until_built(&mut root);
    assert!(!states(&mut root).iter().any(|(name, _)| name.starts_with("description")));
    assert_eq!(settings(&mut root), before);
}

#[test]
fn an_entry_of_indexes_is_modified_value_by_value() {
    use ModifyOperation::{Add, Delete, Replace};
    let served = served();
    let mut root = served.root();
    let index: &[(&str, &[&str])] = &[("roster-index-definition", &["presence description"])];
    assert_eq!(root.add(DESCRIPTION, index), ResultCode::Success);
    let types = "ds-cfg-index-type";
    assert_eq!(modify(&mut root, &[(Add, types, &["equality"])]), ResultCode::Success);
    let twice = modify(&mut root, &[(Add, types, &["equality"])]);
    assert_eq!(twice, ResultCode::AttributeOrValueExists);
    let missing = modify(&mut root, &[(Delete, types, &["substring"])]);
    assert_eq!(missing, ResultCode::NoSuchAttribute);
    let rule: &[(ModifyOperation, &str, &[&str])] = &[
        (Add, types, &["extensible"]),
        (Add, "ds-cfg-index-extensible-matching-rule", &["caseExactMatch"]),
        (Add, "roster-index-definition", &["equality description where (cn=*)"]),
    ];
    assert_eq!(modify(&mut root, rule), ResultCode::Success);
    let entry = read(&mut root, DESCRIPTION, &["*"]).unwrap();
    assert_eq!(entry.texts(types), ["presence", "equality", "extensible"]);
    assert_eq!(entry.texts("ds-cfg-index-extensible-matching-rule"), ["2.5.13.5"]);
    assert_eq!(entry.texts("roster-index-definition").len(), 4);
    assert_eq!(modify(&mut root, &[(Replace, types, &["substring"])]), ResultCode::Success);
    let left = [
        "equality description where (cn=*)",
        "substring description",
        "extensible description 2.5.13.5",
    ];
    assert_eq!(definitions(&mut root, DESCRIPTION), left);
    assert_eq!(modify(&mut root, &[(Delete, types, &["extensible"])]), ResultCode::Success);
    assert_eq!(definitions(&mut root, DESCRIPTION), left[..2]);
    let all: &[(ModifyOperation, &str, &[&str])] = &[(Delete, "roster-index-definition", &[])];
    assert_eq!(modify(&mut root, all), ResultCode::Success);
    assert_eq!(modify(&mut root, all), ResultCode::NoSuchObject, "it went with its last index");
}

#[test]
fn an_index_is_built_anew() {
    use ModifyOperation::{Add, Delete};
    let served = served();
    crate::add_devices(&served, 50, "here");
    let mut root = served.root();
    let uid = "ds-cfg-attribute=cn,cn=Index,cn=config";
    let rebuild = |root: &mut Client, which: &str| {
        root.modify(uid, &[(Add, "roster-index-rebuild", &[which])])
    };
    let before = definitions(&mut root, uid);
    assert_eq!(rebuild(&mut root, "equality"), ResultCode::Success);
    let during = states(&mut root);
    assert!(during.contains(&("cn.equality".to_owned(), "valid".to_owned())), "{during:?}");
    assert_eq!(rebuild(&mut root, "substring cn"), ResultCode::Success);
    assert_eq!(rebuild(&mut root, "approximate"), ResultCode::NoSuchAttribute);
    assert_eq!(rebuild(&mut root, "fuzzy"), ResultCode::InvalidAttributeSyntax);
    let back = root.modify(uid, &[(Delete, "roster-index-rebuild", &["equality"])]);
    assert_eq!(back, ResultCode::UnwillingToPerform);
    wait_until_built(&mut root);
    assert_eq!(definitions(&mut root, uid), before);
    let found = Asked { filter: "(cn=device 17)", ..Asked::default() };
    assert_eq!(root.search(&found).entries.len(), 1);
}

#[test]
fn what_no_index_can_be_made_of_is_refused() {
    let served = served();
    let mut root = served.root();
    let kinds: &[(&str, &[&str])] = &[("ds-cfg-index-type", &["substring"])];
    let fuzzy: &[(&str, &[&str])] = &[("ds-cfg-index-type", &["fuzzy"])];
    let other: &[(&str, &[&str])] = &[("roster-index-definition", &["equality cn"])];
    let nothing: &[(&str, &[&str])] = &[("ds-cfg-attribute", &["description"])];
    let name = |attribute: &str| format!("ds-cfg-attribute={attribute},{CONFIG}");
    for (name, attributes, code) in [
        (name("nosuch"), kinds, ResultCode::ConstraintViolation),
        (name("jpegPhoto"), kinds, ResultCode::ConstraintViolation),
        (name("description"), fuzzy, ResultCode::InvalidAttributeSyntax),
        (name("description"), other, ResultCode::ConstraintViolation),
        (name("description"), nothing, ResultCode::ObjectClassViolation),
        (format!("cn=description,{CONFIG}"), kinds, ResultCode::UnwillingToPerform),
        (format!("ds-cfg-attribute=a,{}", name("cn")), kinds, ResultCode::UnwillingToPerform),
    ] {
        let answer = root.try_add(&name, attributes);
        assert_eq!(answer.code(), code, "{name}: {}", answer.diagnostic);
    }
    let mut anybody = served.client();
    assert_eq!(anybody.add(DESCRIPTION, kinds), ResultCode::InsufficientAccessRights);
    assert!(definitions(&mut root, DESCRIPTION).is_empty());
}

#[test]
fn a_change_of_indexes_survives_a_kill() {
    let served = Served::with(|options| {
        // Nothing is flushed but for the index.
        let hour = std::time::Duration::from_secs(3600);
        options.flush =
            FlushOptions { flush_after: hour, index_build_percent: 100, ..FlushOptions::default() };
    });
    crate::add_devices(&served, 100, "here");
    let mut root = served.root();
    let index: &[(&str, &[&str])] = &[("ds-cfg-index-type", &["equality"])];
    assert_eq!(root.add(DESCRIPTION, index), ResultCode::Success);
    crate::add_device(&mut root, &format!("cn=later,{SUFFIX}"), "here");
    drop(root);
    let served = served.killed();
    let mut root = served.root();
    assert_eq!(definitions(&mut root, DESCRIPTION), ["equality description"]);
    wait_until_built(&mut root);
    let base = "cn=description.equality,cn=index,cn=monitor";
    let status = read(&mut root, base, &["*", "roster-index-verify"]).unwrap();
    assert_eq!(status.texts("roster-index-verify"), ["ok"]);
    // The last entry may be in memory alone.
    let popular = status.texts("roster-index-popular").concat();
    assert!(matches!(popular.as_str(), "100 here" | "101 here"), "{popular}");
    let found = Asked { filter: "(description=here)", ..Asked::default() };
    assert_eq!(root.search(&found).entries.len(), 101);
}

#[test]
fn the_schema_keeps_what_an_index_is_made_of() {
    let served = served();
    let mut root = served.root();
    let hat = "( 1.3.6.1.4.1.55555.1 NAME 'hat' EQUALITY caseIgnoreMatch \
               SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    let add: &[(ModifyOperation, &str, &[&str])] =
        &[(ModifyOperation::Add, "attributeTypes", &[hat])];
    assert_eq!(root.modify("cn=schema", add), ResultCode::Success);
    let index: &[(&str, &[&str])] =
        &[("roster-index-definition", &["equality description where (hat=*)"])];
    assert_eq!(root.add(DESCRIPTION, index), ResultCode::Success);
    let remove: &[(ModifyOperation, &str, &[&str])] =
        &[(ModifyOperation::Delete, "attributeTypes", &[hat])];
    assert_eq!(root.modify("cn=schema", remove), ResultCode::UnwillingToPerform);
    let exact = hat.replace("caseIgnoreMatch", "caseExactMatch");
    let another: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Delete, "attributeTypes", &[hat]),
        (ModifyOperation::Add, "attributeTypes", &[&exact]),
    ];
    let hats: &[(&str, &[&str])] = &[("ds-cfg-index-type", &["equality"])];
    assert_eq!(root.add("ds-cfg-attribute=hat,cn=Index,cn=config", hats), ResultCode::Success);
    assert_ne!(root.modify("cn=schema", another), ResultCode::Success);
    assert_eq!(root.delete(DESCRIPTION), ResultCode::Success);
    assert_eq!(root.delete("ds-cfg-attribute=hat,cn=Index,cn=config"), ResultCode::Success);
    wait_until_built(&mut root);
    assert_eq!(root.modify("cn=schema", remove), ResultCode::Success);
}
