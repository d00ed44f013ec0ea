//! Naming contexts are added, renamed and dropped while the directory is served.

use history::record::CONTEXTS_LEVEL;
use ldap::message::ModifyOperation::{self, Add, Delete, Replace};
use ldap::message::Scope;
use ldap::result::ResultCode;
use ldap::result::ResultCode::Success;

use crate::support::cluster::Cluster;
use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const CONFIG: &str = "cn=Naming Contexts,cn=config";
const ATTRIBUTE: &str = "roster-naming-context";

fn change(root: &mut Client, operation: ModifyOperation, names: &[&str]) -> Answer {
    root.try_modify(CONFIG, &[(operation, ATTRIBUTE, names)])
}

#[track_caller]
fn changes(root: &mut Client, operation: ModifyOperation, names: &[&str]) {
    let answer = change(root, operation, names);
    assert_eq!(answer.code(), Success, "{names:?}: {}", answer.diagnostic);
}

#[track_caller]
fn refuses(answer: &Answer, code: ResultCode, why: &str) {
    assert_eq!(answer.code(), code, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains(why), "'{}' lacks '{why}'", answer.diagnostic);
}

#[track_caller]
fn add(root: &mut Client, name: &str, class: &str) {
    let answer = match class {
        "inetOrgPerson" => {
            root.try_add(name, &[("objectClass", &[class]), ("sn", &["x"]), ("cn", &["x"])])
        }
        _ => root.try_add(name, &[("objectClass", &[class])]),
    };
    assert_eq!(answer.code(), Success, "{name}: {}", answer.diagnostic);
}

fn values(client: &mut Client, base: &str, attribute: &str) -> Vec<String> {
    let attributes = &[attribute][..];
    let asked = Asked { base, scope: Scope::Base, attributes, ..Asked::default() };
    let answer = client.search(&asked);
    assert_eq!(answer.code(), Success, "{base}: {}", answer.diagnostic);
    answer.entries[0].texts(attribute)
}

/// Both places that tell of them.
#[track_caller]
fn are(client: &mut Client, want: &[&str]) {
    assert_eq!(values(client, CONFIG, ATTRIBUTE), want);
    assert_eq!(values(client, "", "namingContexts"), want);
}

fn below(client: &mut Client, base: &str) -> (ResultCode, Vec<String>) {
    let asked = Asked { base, scope: Scope::Subtree, attributes: &["1.1"], ..Asked::default() };
    let answer = client.search(&asked);
    (answer.code(), answer.names().into_iter().map(str::to_owned).collect())
}

#[test]
fn one_is_added_filled_and_dropped() {
    let served = Served::new();
    let mut root = served.root();
    are(&mut root, &[SUFFIX]);
    let new = [("objectClass", &["organization"][..])];
    assert_eq!(root.add("o=New", &new), ResultCode::NoSuchObject);
    changes(&mut root, Add, &["o=New"]);
    are(&mut root, &[SUFFIX, "o=New"]);
    assert_eq!(below(&mut root, "o=new").0, ResultCode::NoSuchObject, "it has no entry yet");
    add(&mut root, "o=New", "organization");
    add(&mut root, "ou=people,o=New", "organizationalUnit");
    assert_eq!(below(&mut root, "o=new").1, ["o=New", "ou=people,o=New"]);
    // An index serves both, and a base of one finds nothing of the other.
    let all = Asked { base: "o=new", filter: "(objectClass=*)", ..Asked::default() };
    assert!(root.search(&all).names().iter().all(|name| name.ends_with("o=New")));
    refuses(&change(&mut root, Delete, &["O=new"]), ResultCode::NotAllowedOnNonLeaf, "has entries");
    refuses(&change(&mut root, Replace, &[SUFFIX]), ResultCode::NotAllowedOnNonLeaf, "has entries");
    drop(root);
    let served = served.killed();
    let mut root = served.root();
    are(&mut root, &[SUFFIX, "o=New"]);
    assert_eq!(below(&mut root, "o=new").1.len(), 2);
    assert_eq!(root.delete("ou=people,o=New"), Success);
    assert_eq!(root.delete("o=New"), Success);
    changes(&mut root, Delete, &["O=new"]);
    are(&mut root, &[SUFFIX]);
    assert_eq!(root.add("o=New", &new), ResultCode::NoSuchObject);
    // The last may go, too.
    assert_eq!(root.delete(SUFFIX), Success);
    changes(&mut root, Delete, &[]);
    are(&mut root, &[]);
    assert_eq!(below(&mut root, SUFFIX).0, ResultCode::NoSuchObject);
    served.directory.store().flush().unwrap();
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    are(&mut root, &[]);
    changes(&mut root, Add, &[SUFFIX, "o=New"]);
    add(&mut root, "o=New", "organization");
    assert_eq!(served.directory.store().check(&mut |_, _, _| ()).unwrap().findings, []);
}

#[test]
fn what_can_be_none_is_refused() {
    let served = Served::new();
    let mut root = served.root();
    changes(&mut root, Add, &["ou=b,o=a"]);
    let unwilling = ResultCode::UnwillingToPerform;
    for (name, code, why) in [
        ("ou=x,dc=example,dc=org", unwilling, "lies within the naming context 'dc=example,dc=org'"),
        ("dc=org", unwilling, "lies above the naming context 'dc=example,dc=org'"),
        ("o=A", unwilling, "lies above"),
        ("OU=B, o=a", ResultCode::AttributeOrValueExists, "there already"),
        ("", unwilling, "root DSE"),
        ("cn=config", unwilling, "server's own"),
        ("cn=x,cn=monitor", unwilling, "server's own"),
        ("cn=changelog", unwilling, "server's own"),
        ("cn=schema", unwilling, "server's own"),
        ("cn=x,cn=schema", unwilling, "server's own"),
        ("no name", ResultCode::InvalidDnSyntax, ""),
        ("cn=Directory Manager", unwilling, "administrator"),
        ("unheardOf=x", unwilling, "do not come with the server"),
    ] {
        refuses(&change(&mut root, Add, &[name]), code, why);
    }
    let none = change(&mut root, Delete, &["o=other"]);
    refuses(&none, ResultCode::NoSuchAttribute, "no such naming context");
    let many: Vec<String> = (0..1000).map(|at| format!("o={at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    refuses(&change(&mut root, Add, &many), ResultCode::AdminLimitExceeded, "at most 1000");
    are(&mut root, &[SUFFIX, "ou=b,o=a"]);
    // Whoever may only read the configuration changes none.
    add(&mut root, &format!("uid=anna,{SUFFIX}"), "inetOrgPerson");
    let privilege = [(Add, "ds-privilege-name", &["config-read"][..])];
    assert_eq!(root.modify(&format!("uid=anna,{SUFFIX}"), &privilege), Success);
    let password = [(Add, "userPassword", &["Some-secret-1"][..])];
    assert_eq!(root.modify(&format!("uid=anna,{SUFFIX}"), &password), Success);
    let mut anna = served.client();
    assert_eq!(anna.bind(&format!("uid=anna,{SUFFIX}"), "Some-secret-1"), Success);
    let answer = change(&mut anna, Add, &["o=hers"]);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    let all =
        "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (all) userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[all])]), Success);
    let answer = anna.try_rename(SUFFIX, "dc=hers", true, None);
    refuses(&answer, ResultCode::InsufficientAccessRights, "config-write");
}

#[test]
fn one_is_renamed_with_all_that_names_what_is_below() {
    let served = Served::new();
    let mut root = served.root();
    let anna = format!("uid=anna,ou=people,{SUFFIX}");
    add(&mut root, &format!("ou=people,{SUFFIX}"), "organizationalUnit");
    add(&mut root, &anna, "inetOrgPerson");
    changes(&mut root, Add, &["o=Other"]);
    add(&mut root, "o=Other", "organization");
    let group = [("objectClass", &["groupOfNames"][..]), ("member", &[&anna, "cn=far,o=Other"])];
    assert_eq!(root.add("cn=all,o=Other", &group), Success);
    let aci = format!(
        "(targetattr=\"*\")(version 3.0; acl \"own\"; allow (read,search) \
         userdn=\"ldap:///{anna}\";)"
    );
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[&aci])]), Success);
    let ids = values(&mut root, &anna, "entryUUID");
    let last = || served.directory.store().published().lsn.0;
    let before = last();
    let answer = root.try_rename(SUFFIX, "o=New", true, Some(""));
    refuses(&answer, ResultCode::ObjectClassViolation, "requires attribute 'dc'");
    let answer = root.try_rename(SUFFIX, "o=New", false, Some(""));
    assert_eq!(answer.code(), Success, "{}", answer.diagnostic);
    assert_eq!(last(), before + 1, "it is one record");
    are(&mut root, &["o=New", "o=Other"]);
    assert_eq!(below(&mut root, SUFFIX).0, ResultCode::NoSuchObject);
    let names = ["o=New", "ou=people,o=New", "uid=anna,ou=people,o=New"];
    assert_eq!(below(&mut root, "o=new").1, names);
    assert_eq!(values(&mut root, names[2], "entryUUID"), ids);
    assert_eq!(values(&mut root, "o=New", "dc"), ["example"]);
    assert_eq!(values(&mut root, "o=New", "o"), ["example", "New"]);
    let members = values(&mut root, "cn=all,o=Other", "member");
    assert_eq!(members, ["cn=far,o=Other", "uid=anna,ou=people,o=New"]);
    // Filters by names find it, too.
    let filter = "(member=uid=anna,ou=people,o=new)";
    let found = root.search(&Asked { base: "o=other", filter, ..Asked::default() });
    assert_eq!(found.names(), ["cn=all,o=Other"]);
    // Another new RDN keeps what is above; only the spelling may change.
    assert_eq!(root.rename("o=New", "o=NEW", true, None), Success);
    are(&mut root, &["o=NEW", "o=Other"]);
    drop(root);
    let served = served.killed();
    let mut root = served.root();
    are(&mut root, &["o=NEW", "o=Other"]);
    assert_eq!(below(&mut root, "o=new").1.len(), 3);
    served.directory.store().flush().unwrap();
    assert_eq!(served.directory.store().check(&mut |_, _, _| ()).unwrap().findings, []);
    let unwilling = ResultCode::UnwillingToPerform;
    refuses(&root.try_rename("o=NEW", "o=other", true, None), ResultCode::EntryAlreadyExists, "");
    changes(&mut root, Add, &["ou=empty,o=Far"]);
    let above = root.try_rename("o=NEW", "o=Far", true, None);
    refuses(&above, unwilling, "lies above the naming context 'ou=empty,o=Far'");
    let own = root.try_rename("o=NEW", "ou=x", true, Some("o=New"));
    refuses(&own, unwilling, "below its own");
    let within = root.try_rename("o=NEW", "ou=x", true, Some("o=Other"));
    refuses(&within, unwilling, "lies within the naming context 'o=Other'");
    let config = root.try_rename("o=NEW", "cn=x", true, Some("cn=config"));
    assert_ne!(config.code(), Success);
    // To the name of one that has no entry, it would be two.
    refuses(&root.try_rename("o=NEW", "ou=empty", true, Some("o=Far")), unwilling, "lies within");
    are(&mut root, &["o=NEW", "o=Other", "ou=empty,o=Far"]);
}

#[test]
fn a_suffix_of_several_steps_becomes_another() {
    let served = Served::new();
    let mut root = served.root();
    add(&mut root, &format!("ou=people,{SUFFIX}"), "organizationalUnit");
    assert_eq!(root.rename(SUFFIX, "dc=other", true, Some("dc=a,dc=b")), Success);
    are(&mut root, &["dc=other,dc=a,dc=b"]);
    let names = ["dc=other,dc=a,dc=b", "ou=people,dc=other,dc=a,dc=b"];
    assert_eq!(below(&mut root, names[0]).1, names);
    assert_eq!(values(&mut root, names[0], "dc"), ["other"]);
    // By a new RDN alone.
    let answer = root.try_rename(names[0], "dc=third", true, None);
    assert_eq!(answer.code(), Success, "{}", answer.diagnostic);
    are(&mut root, &["dc=third,dc=a,dc=b"]);
}

/// Members of a cluster have them when they have applied the record.
#[test]
fn members_follow() {
    let cluster = Cluster::with(2, |options| options.record_level_first = CONTEXTS_LEVEL);
    let mut root = cluster.leader().root();
    changes(&mut root, Add, &["o=New"]);
    add(&mut root, "o=New", "organization");
    assert_eq!(root.rename(SUFFIX, "o=Old", false, Some("")), Success);
    let mut other = cluster.follower().root();
    are(&mut other, &["o=Old", "o=New"]);
    assert_eq!(below(&mut other, "o=new").1, ["o=New"]);
    assert_eq!(below(&mut other, SUFFIX).0, ResultCode::NoSuchObject);
    // Asked of a member that decides nothing.
    changes(&mut other, Add, &["o=Third"]);
    are(&mut root, &["o=Old", "o=New", "o=Third"]);
}

/// Members that would look for entries elsewhere get no such record.
#[test]
fn a_cluster_waits_until_all_members_know_of_it() {
    let cluster = Cluster::new();
    let mut root = cluster.leader().root();
    let answer = change(&mut root, Add, &["o=New"]);
    refuses(&answer, ResultCode::UnwillingToPerform, "change records of level 7");
    let answer = root.try_rename(SUFFIX, "o=Old", false, Some(""));
    refuses(&answer, ResultCode::UnwillingToPerform, "change records of level 7");
    are(&mut root, &[SUFFIX]);
}

/// What has been before is told, and a server alone says what its data take to be read.
#[test]
fn the_change_log_tells_of_it() {
    let served = Served::new();
    let level = || served.directory.store().reader().view().unwrap().record_level().unwrap();
    let mut root = served.root();
    assert_eq!(level(), None);
    changes(&mut root, Add, &["o=New"]);
    assert_eq!(level(), Some(CONTEXTS_LEVEL));
    let asked = Asked {
        base: "cn=changelog",
        filter: "(targetDN=cn=Naming Contexts,cn=config)",
        attributes: &["changes"],
        ..Asked::default()
    };
    let told = root.search(&asked);
    assert_eq!(told.code(), Success, "{}", told.diagnostic);
    let [entry] = &told.entries[..] else { panic!("{:?}", told.names()) };
    let text = entry.texts("changes").concat();
    assert!(text.contains("add: roster-naming-context\nroster-naming-context: o=New\n"), "{text}");
    assert!(!text.contains(SUFFIX), "{text}");
}
