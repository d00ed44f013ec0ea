//! Limits that groups give their members.

use ldap::message::ModifyOperation::{self, Add, Delete, Replace};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Asked, Client, SUFFIX, Served};

const CLASS: &str = "roster-limits-of-members";

fn dn(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

#[track_caller]
fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(&dn(name), attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

#[track_caller]
fn change(root: &mut Client, name: &str, how: ModifyOperation, what: (&str, &str)) {
    let answer = root.try_modify(&dn(name), &[(how, what.0, &[what.1])]);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

/// Eight devices, of which a search returns three; Anna, and groups of each kind that she is in.
fn served() -> Served {
    let served = Served::with(|options| options.limits.size_limit_entries = 3);
    add_devices(&served, 8, "x");
    let mut root = served.root();
    let person = &["inetOrgPerson"][..];
    let secret = ("userPassword", &["secret"][..]);
    add(&mut root, "anna", &[("objectClass", person), ("sn", &["Archer"]), secret]);
    let (anna, staff) = (dn("anna"), dn("staff"));
    let of = |more: &'static [&'static str]| ("objectClass", more);
    add(&mut root, "staff", &[of(&["groupOfNames"]), ("member", &[&anna])]);
    add(&mut root, "nested", &[of(&["groupOfNames"]), ("member", &[&staff])]);
    let url = format!("ldap:///{SUFFIX}??sub?(sn=archer)");
    add(&mut root, "dynamic", &[of(&["groupOfURLs"]), ("memberURL", &[&url])]);
    let shown = &["groupOfEntries", "ds-virtual-static-group"];
    add(&mut root, "shown", &[of(shown), ("ds-target-group-dn", &[&staff])]);
    let role = &["ldapSubentry", "nsFilteredRoleDefinition"];
    add(&mut root, "role", &[of(role), ("nsRoleFilter", &["(sn=archer)"])]);
    add(&mut root, "others", &[of(&["groupOfNames"]), ("member", &[&dn("nobody")])]);
    // Whatever it names, this is no group.
    let classes = of(&["device", "extensibleObject"]);
    add(&mut root, "thing", &[classes, ("member", &[&anna])]);
    served
}

fn signed_in(served: &Served) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(&dn("anna"), "secret"), ResultCode::Success);
    client
}

/// How many devices a client finds.
fn finds(client: &mut Client) -> usize {
    let filter = "(objectClass=device)";
    let filter = Asked { filter, attributes: &["1.1"], ..Asked::default() };
    client.search(&filter).entries.iter().filter(|one| one.dn.contains("device ")).count()
}

#[test]
fn groups_of_each_kind_give_their_limits() {
    let served = served();
    let mut root = served.root();
    for (name, gives) in [
        ("staff", true),
        ("nested", true),
        ("dynamic", true),
        ("shown", true),
        ("role", true),
        ("others", false),
        ("thing", false),
    ] {
        change(&mut root, name, Add, ("ds-rlim-size-limit", "5"));
        // Without the class the attribute is that of the group alone.
        assert_eq!(finds(&mut signed_in(&served)), 3, "{name}");
        change(&mut root, name, Add, ("objectClass", CLASS));
        let want = if gives { 5 } else { 3 };
        assert_eq!(finds(&mut signed_in(&served)), want, "{name}");
        change(&mut root, name, Delete, ("objectClass", CLASS));
    }
}

#[test]
fn the_own_limit_comes_first_and_the_widest_of_groups_next() {
    let served = served();
    let mut root = served.root();
    for (name, limit) in [("staff", "1"), ("nested", "6"), ("role", "5"), ("others", "0")] {
        change(&mut root, name, Add, ("objectClass", CLASS));
        change(&mut root, name, Add, ("ds-rlim-size-limit", limit));
    }
    assert_eq!(finds(&mut signed_in(&served)), 6);
    change(&mut root, "role", Replace, ("ds-rlim-size-limit", "0"));
    assert_eq!(finds(&mut signed_in(&served)), 8);
    change(&mut root, "anna", Add, ("nsSizeLimit", "2"));
    assert_eq!(finds(&mut signed_in(&served)), 2);
    change(&mut root, "anna", Replace, ("nsSizeLimit", "-1"));
    change(&mut root, "role", Replace, ("ds-rlim-size-limit", "7"));
    assert_eq!(finds(&mut signed_in(&served)), 8);
    // One that is smaller than the setting holds, too.
    change(&mut root, "anna", Delete, ("nsSizeLimit", "-1"));
    for name in ["nested", "role"] {
        change(&mut root, name, Delete, ("objectClass", CLASS));
    }
    assert_eq!(finds(&mut signed_in(&served)), 1);
}

#[test]
fn a_session_has_the_limits_of_the_groups_of_now() {
    let served = served();
    let mut root = served.root();
    let mut anna = signed_in(&served);
    assert_eq!(finds(&mut anna), 3);
    let mut looked_at = |want: usize| {
        let connection = &mut anna.connection;
        assert_eq!(connection.worker.recheck(&mut connection.session), Ok(()));
        assert_eq!(finds(&mut anna), want);
    };
    change(&mut root, "staff", Add, ("objectClass", CLASS));
    change(&mut root, "staff", Add, ("ds-rlim-size-limit", "5"));
    looked_at(5);
    change(&mut root, "staff", Replace, ("ds-rlim-size-limit", "4"));
    looked_at(4);
    change(&mut root, "staff", Replace, ("member", &dn("nobody")));
    looked_at(3);
}

#[test]
fn groups_limit_connections_and_give_no_privileges() {
    let served = served();
    let mut root = served.root();
    change(&mut root, "nested", Add, ("objectClass", CLASS));
    change(&mut root, "nested", Add, ("ds-rlim-connection-limit", "2"));
    change(&mut root, "nested", Add, ("ds-privilege-name", "bypass-acl"));
    let first = signed_in(&served);
    let mut second = signed_in(&served);
    assert_eq!(served.client().bind(&dn("anna"), "secret"), ResultCode::Busy);
    drop(first);
    signed_in(&served);
    let change = second.modify(&dn("staff"), &[(Add, "description", &["x"])]);
    assert_eq!(change, ResultCode::InsufficientAccessRights);
}

#[test]
fn who_acts_as_somebody_has_their_limits() {
    let served = served();
    let mut root = served.root();
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["device", "simpleSecurityObject"]),
        ("userPassword", &["secret"]),
        ("ds-privilege-name", &["proxied-auth"]),
    ];
    add(&mut root, "gate", attributes);
    let rule = format!(
        "(targetattr=\"*\")(version 3.0; acl \"p\"; allow (proxy) userdn=\"ldap:///{}\";)",
        dn("gate")
    );
    change(&mut root, "anna", Add, ("aci", &rule));
    change(&mut root, "staff", Add, ("objectClass", CLASS));
    change(&mut root, "staff", Add, ("ds-rlim-size-limit", "5"));
    let mut gate = served.client();
    assert_eq!(gate.bind(&dn("gate"), "secret"), ResultCode::Success);
    assert_eq!(finds(&mut gate), 3);
    let value = format!("dn:{}", dn("anna"));
    let controls: &[_] = &[("2.16.840.1.113730.3.4.18", true, Some(value.as_bytes()))];
    let asked = Asked { filter: "(objectClass=device)", controls, ..Asked::default() };
    let answer = gate.search(&asked);
    assert_eq!(answer.entries.len(), 5, "{}", answer.diagnostic);
}
