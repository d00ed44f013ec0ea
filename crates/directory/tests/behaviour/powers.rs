//! Power comes from who may give it: not from a derived type, a class, a name or a new entry.

use directory::Next;
use ldap::message::{ControlsBuf, ModifyDnRequest, ModifyOperation, ModifyRequest, Request};
use ldap::result::ResultCode;

use crate::access::ACCESS_CONFIG;
use crate::support::{Answer, Asked, Client, SUFFIX, Served, modifications};

const SCHEMA: &str = "cn=schema";

/// Attributes with their values.
type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];

fn unit(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

fn person(uid: &str) -> String {
    format!("uid={uid},{}", unit("people"))
}

fn aci(targets: &str, says: &str) -> String {
    format!("{targets}(version 3.0; acl \"x\"; {says};)")
}

fn for_pam(targets: &str, rights: &str) -> String {
    aci(targets, &format!("{rights} userdn=\"ldap:///{}\"", person("pam")))
}

#[track_caller]
fn add(client: &mut Client, name: &str, class: &[&str], more: &[(&str, &[&str])]) {
    let answer = try_add(client, name, class, more);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn try_add(client: &mut Client, name: &str, class: &[&str], more: &[(&str, &[&str])]) -> Answer {
    let mut all = vec![("objectClass", class)];
    all.extend_from_slice(more);
    client.try_add(name, &all)
}

fn try_add_person(client: &mut Client, uid: &str, more: &[(&str, &[&str])]) -> Answer {
    let own = [uid];
    let mut all: Vec<(&str, &[&str])> =
        vec![("cn", &own), ("sn", &own), ("userPassword", &["secret"])];
    all.extend_from_slice(more);
    try_add(client, &person(uid), &["inetOrgPerson", "extensibleObject"], &all)
}

#[track_caller]
fn put(root: &mut Client, holder: &str, aci: &str) {
    let attribute = if holder == ACCESS_CONFIG { "ds-cfg-global-aci" } else { "aci" };
    let answer = root.try_modify(holder, &[(ModifyOperation::Add, attribute, &[aci])]);
    assert_eq!(answer.code(), ResultCode::Success, "{aci}: {}", answer.diagnostic);
}

/// Pam administers the people: all but operational attributes.
fn served() -> Served {
    let served = Served::new();
    let mut root = served.root();
    add(&mut root, &unit("people"), &["organizationalUnit"], &[]);
    for uid in ["pam", "chief"] {
        let answer = try_add_person(&mut root, uid, &[]);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    }
    put(&mut root, &unit("people"), &for_pam("(targetattr=\"*\")", "allow (all)"));
    served
}

fn signed_in(served: &Served, uid: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(&person(uid), "secret"), ResultCode::Success);
    client
}

fn define(client: &mut Client, number: usize, superior: &str, more: &str) -> Answer {
    let definition =
        format!("( 1.3.6.1.4.1.99999.{number} NAME 'my{number}' SUP {superior} {more} )");
    client.try_modify(SCHEMA, &[(ModifyOperation::Add, "attributeTypes", &[&definition])])
}

#[test]
fn what_the_server_acts_on_has_no_derived_types() {
    let served = served();
    let mut root = served.root();
    let operational = "USAGE directoryOperation";
    let of_server = [
        ("ds-privilege-name", operational),
        ("aci", operational),
        ("nsAccountLock", operational),
        ("pwdPolicySubentry", operational),
        ("pwdChangedTime", operational),
        ("ds-rlim-size-limit", operational),
        ("nsRoleDN", operational),
        ("subtreeSpecification", operational),
        ("objectClass", ""),
        ("ds-certificate-fingerprint", ""),
        ("ds-cfg-global-aci", ""),
    ];
    for (number, (superior, more)) in of_server.into_iter().enumerate() {
        let answer = define(&mut root, number, superior, more);
        assert_eq!(answer.code(), ResultCode::ConstraintViolation, "{superior}");
        let why = format!("the server acts on '{superior}'");
        assert!(answer.diagnostic.contains(&why), "{}", answer.diagnostic);
    }
    for (number, superior) in ["cn", "userPassword", "member"].into_iter().enumerate() {
        let answer = define(&mut root, 100 + number, superior, "");
        assert_eq!(answer.code(), ResultCode::Success, "{superior}: {}", answer.diagnostic);
    }
}

#[test]
fn what_only_the_server_changes_stays_so_by_another_definition() {
    let served = served();
    let mut root = served.root();
    let redefined = "( 1.3.6.1.4.1.42.2.27.8.1.17 NAME 'pwdAccountLockedTime' \
         EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch \
         SYNTAX 1.3.6.1.4.1.1466.115.121.1.24 SINGLE-VALUE )";
    let change = [(ModifyOperation::Add, "attributeTypes", &[redefined][..])];
    let answer = root.try_modify(SCHEMA, &change);
    assert_ne!(answer.code(), ResultCode::Success);
}

#[test]
fn an_account_is_no_group_whatever_it_holds() {
    let served = served();
    let mut root = served.root();
    add(&mut root, &unit("groups"), &["organizationalUnit"], &[]);
    let super_users = format!("cn=super,{}", unit("groups"));
    let by_group = format!("allow (write) groupdn=\"ldap:///{super_users}\"");
    put(&mut root, &unit("groups"), &aci("(targetattr=\"description\")", &by_group));
    add(&mut root, &super_users, &["groupOfNames"], &[("member", &[&person("chief")])]);
    let mut pam = signed_in(&served, "pam");
    let describe = [(ModifyOperation::Replace, "description", &["x"][..])];
    let check = |client: &mut Client, want: ResultCode, why: &str| {
        assert_eq!(client.modify(&super_users, &describe), want, "{why}");
    };
    check(&mut pam, ResultCode::InsufficientAccessRights, "no member");
    let own = person("pam");
    let all = format!("ldap:///{SUFFIX}??sub");
    for (attribute, value) in [("member", &*own), ("uniqueMember", &own), ("memberURL", &all)] {
        let change = [(ModifyOperation::Add, attribute, &[value][..])];
        assert_eq!(pam.modify(&person("chief"), &change), ResultCode::Success);
        check(&mut pam, ResultCode::InsufficientAccessRights, attribute);
    }
    let class = [(ModifyOperation::Add, "objectClass", &["groupOfNames"][..])];
    assert_ne!(pam.modify(&person("chief"), &class), ResultCode::Success);
    check(&mut signed_in(&served, "chief"), ResultCode::Success, "a member");

    // An account that an ACI names as a group is none, either.
    let by_account = format!("allow (write) groupdn=\"ldap:///{}\"", person("chief"));
    put(&mut root, &unit("groups"), &aci("(targetattr=\"description\")", &by_account));
    check(&mut pam, ResultCode::InsufficientAccessRights, "an account as group");
}

#[test]
fn groups_of_every_structural_class_with_members_count() {
    let served = served();
    let mut root = served.root();
    let team = "( 1.3.6.1.4.1.99999.50 NAME 'ourTeam' SUP top STRUCTURAL MUST cn MAY member )";
    let change = [(ModifyOperation::Add, "objectClasses", &[team][..])];
    assert_eq!(root.modify(SCHEMA, &change), ResultCode::Success);
    let (pam, base) = (person("pam"), SUFFIX);
    let mut client = signed_in(&served, "pam");
    let groups: &[(&[&str], Attributes<'_>)] = &[
        (&["groupOfNames"], &[("member", &[&pam])]),
        (&["groupOfUniqueNames"], &[("uniqueMember", &[&pam])]),
        (&["groupOfEntries"], &[("member", &[&pam])]),
        (&["groupOfURLs"], &[("memberURL", &[&format!("ldap:///{base}??sub?(uid=pam)")])]),
        (&["ourTeam"], &[("member", &[&pam])]),
    ];
    let target = unit("target");
    add(&mut root, &target, &["organizationalUnit"], &[]);
    for (number, (classes, more)) in groups.iter().enumerate() {
        let (inner, outer) = (format!("cn=g{number},{base}"), format!("cn=o{number},{base}"));
        add(&mut root, &inner, classes, more);
        add(&mut root, &outer, &["groupOfNames"], &[("member", &[&inner])]);
        for group in [&inner, &outer] {
            let rule = format!("allow (write) groupdn=\"ldap:///{group}\"");
            let rule = aci("(targetattr=\"description\")", &rule);
            put(&mut root, &target, &rule);
            let describe = [(ModifyOperation::Replace, "description", &[&**group][..])];
            assert_eq!(client.modify(&target, &describe), ResultCode::Success, "{group}");
            let take = [(ModifyOperation::Delete, "aci", &[&*rule][..])];
            assert_eq!(root.modify(&target, &take), ResultCode::Success);
        }
    }
}

/// The title of the one whose title is a secret, as far as it is told.
fn titles(client: &mut Client) -> usize {
    let asked = Asked { filter: "(title=salary)", attributes: &["title"], ..Asked::default() };
    client.search(&asked).entries.len()
}

fn rename(client: &mut Client, name: &str, new_rdn: &str, above: Option<&str>) -> Answer {
    let new_superior = above;
    let rename = ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior };
    client.request(Request::ModifyDn(rename), ControlsBuf::new().as_ref())
}

/// Below `ou=people`: `ou=hr,ou=team` with a person whose title is a secret.
fn add_team(root: &mut Client, of_people: &str, of_hr: Option<&str>) -> (String, String) {
    let team = format!("ou=team,{}", unit("people"));
    let hr = format!("ou=hr,{team}");
    add(root, &team, &["organizationalUnit"], &[]);
    let held = of_hr.map(|aci| [aci]);
    let held: Vec<(&str, &[&str])> = held.iter().map(|acis| ("aci", &acis[..])).collect();
    add(root, &hr, &["organizationalUnit"], &held);
    let sal: &[(&str, &[&str])] = &[("cn", &["sal"]), ("sn", &["sal"]), ("title", &["salary"])];
    add(root, &format!("uid=sal,{hr}"), &["inetOrgPerson"], sal);
    if !of_people.is_empty() {
        put(root, &unit("people"), of_people);
    }
    (team, hr)
}

#[test]
fn a_rename_lifts_no_aci_that_names_its_target() {
    let target = |more: &str| {
        let people = unit("people");
        for_pam(
            &format!("(target=\"ldap:///{more},{people}\")(targetattr=\"* || +\")"),
            "deny (read,search,compare)",
        )
    };
    let hr = target("ou=hr,ou=team");
    for (of_people, of_hr) in [
        ("", Some(&*hr)),
        (&*hr, None),
        (&target("uid=*,ou=hr,ou=team"), None),
        (&target("uid=sal,ou=h*,*"), None),
    ] {
        let served = served();
        let mut root = served.root();
        let (team, hr) = add_team(&mut root, of_people, of_hr);
        let mut pam = signed_in(&served, "pam");
        assert_eq!(titles(&mut pam), 0);
        let name = if of_people.contains("ou=h*") { &hr } else { &team };
        let answer = rename(&mut pam, name, "ou=other", None);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{of_people}");
        assert!(answer.diagnostic.contains("modify-acl"), "{}", answer.diagnostic);
        assert_eq!(titles(&mut pam), 0);
        // What is not named changes its name as before, in another spelling, too.
        let other = rename(&mut pam, &person("chief"), "uid=chef", None);
        assert_eq!(other.code(), ResultCode::Success, "{}", other.diagnostic);
        let spelled = rename(&mut pam, name, if *name == team { "ou=TEAM" } else { "ou=HR" }, None);
        assert_eq!(spelled.code(), ResultCode::Success, "{}", spelled.diagnostic);
        // Who may change ACIs renames it; what an entry holds then denies all of it.
        let give = [(ModifyOperation::Add, "ds-privilege-name", &["modify-acl"][..])];
        assert_eq!(root.modify(&person("pam"), &give), ResultCode::Success);
        let mut pam = signed_in(&served, "pam");
        let answer = rename(&mut pam, name, "ou=other", None);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        assert_eq!(titles(&mut pam), usize::from(of_hr.is_none()), "{of_people}");
    }
}

#[test]
fn a_rename_takes_no_place_that_an_aci_names() {
    let served = served();
    let mut root = served.root();
    let people = unit("people");
    let deny = for_pam("(targetattr=\"title\")", "deny (all)");
    let (team, _) = add_team(&mut root, "", Some(&deny));
    let open = format!("(target=\"ldap:///ou=open,{people}\")(targetattr=\"description\")");
    put(&mut root, &people, &aci(&open, "allow (write) userdn=\"ldap:///all\""));
    let mut pam = signed_in(&served, "pam");
    let answer = rename(&mut pam, &team, "ou=open", None);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    // Below it, the rights on both superiors decide.
    add(&mut root, &format!("ou=open,{people}"), &["organizationalUnit"], &[]);
    put(&mut root, &people, &for_pam("", "allow (export,import)"));
    let answer = rename(&mut pam, &team, "ou=team", Some(&format!("ou=open,{people}")));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

#[test]
fn a_new_entry_has_no_role_and_no_limit_that_its_author_could_not_give() {
    let served = served();
    let mut root = served.root();
    let people = unit("people");
    let role = format!("cn=boss,{people}");
    add(&mut root, &role, &["nsManagedRoleDefinition"], &[]);
    let rule = format!("allow (write) roledn=\"ldap:///{role}\"");
    put(&mut root, SUFFIX, &aci("(targetattr=\"description\")", &rule));
    let mut pam = signed_in(&served, "pam");
    let given: &[(&str, &str)] = &[
        ("nsRoleDN", &role),
        ("ds-rlim-size-limit", "0"),
        ("nsLookThroughLimit", "-1"),
        ("subtreeSpecification", "{}"),
    ];
    for (attribute, value) in given {
        let change = [(ModifyOperation::Add, *attribute, &[*value][..])];
        let refused = ResultCode::InsufficientAccessRights;
        assert_eq!(pam.modify(&person("pam"), &change), refused, "{attribute}");
        let answer = try_add_person(&mut pam, "puppet", &[(*attribute, &[*value])]);
        assert_eq!(answer.code(), refused, "{attribute}");
    }
    let answer = try_add_person(&mut pam, "plain", &[]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    put(&mut root, &people, &for_pam("(targetattr=\"nsRoleDN\")", "allow (write)"));
    let answer = try_add_person(&mut pam, "puppet", &[("nsRoleDN", &[&role])]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    // A privilege decides on what needs one, and on nothing else.
    let give = [(ModifyOperation::Add, "ds-privilege-name", &["password-reset"][..])];
    assert_eq!(root.modify(&person("pam"), &give), ResultCode::Success);
    let mut pam = signed_in(&served, "pam");
    let locked = try_add_person(&mut pam, "locked", &[("ds-pwp-account-disabled", &["TRUE"])]);
    assert_eq!(locked.code(), ResultCode::Success, "{}", locked.diagnostic);
    let answer = try_add_person(&mut pam, "large", &[("ds-rlim-size-limit", &["0"])]);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
}

/// Lets Pam change the schema, and says so in the global ACIs.
fn let_define(root: &mut Client) {
    let give = [(ModifyOperation::Add, "ds-privilege-name", &["update-schema"][..])];
    assert_eq!(root.modify(&person("pam"), &give), ResultCode::Success);
    let targets = "(target=\"ldap:///cn=schema\")(targetattr=\"attributeTypes || objectClasses\")";
    put(root, ACCESS_CONFIG, &for_pam(targets, "allow (write)"));
}

#[test]
fn who_changes_the_schema_gives_no_power_by_it() {
    let served = served();
    let mut root = served.root();
    let_define(&mut root);
    let text = "EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15";
    let pin = format!("( 1.3.6.1.4.1.99999.60 NAME ( 'pin' 'doorPin' ) {text}");
    let marked = format!("{pin} X-SECRET 'TRUE' )");
    let mut pam = signed_in(&served, "pam");
    let mut change = |operation: ModifyOperation, attribute: &str, text: &str| {
        pam.try_modify(SCHEMA, &[(operation, attribute, &[text])])
    };
    let answer = change(ModifyOperation::Add, "attributeTypes", &marked);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let known = |attribute: &str, name: &str| {
        let search = Asked { base: SCHEMA, attributes: &[attribute], ..Asked::default() };
        let all = served.root().search(&Asked { scope: ldap::message::Scope::Base, ..search });
        let named = format!("'{name}'");
        all.entries[0].texts(attribute).into_iter().find(|one| one.contains(&named)).unwrap()
    };
    let person = known("objectClasses", "inetOrgPerson");
    let policy = known("objectClasses", "pwdPolicy");
    let lock = known("attributeTypes", "pwdAccountLockedTime");
    let number = known("attributeTypes", "employeeNumber");
    let operational = number.replace(" )", " USAGE directoryOperation )");
    let add = ModifyOperation::Add;
    for (operation, attribute, text, want) in [
        (add, "objectClasses", person.replace("MAY ( ", "MAY ( member $ "), "would become groups"),
        (add, "attributeTypes", format!("{pin} )"), "is secret no more"),
        (add, "attributeTypes", marked.replace(" 'doorPin'", ""), "loses a name"),
        (add, "attributeTypes", operational, "operational"),
        (add, "objectClasses", policy.replace("'pwdPolicy'", "'xyzPolicy'"), "loses a name"),
        (ModifyOperation::Delete, "attributeTypes", lock, "the server acts on"),
        (ModifyOperation::Delete, "objectClasses", policy.clone(), "came with the server"),
    ] {
        let answer = change(operation, attribute, &text);
        assert_ne!(answer.code(), ResultCode::Success, "{text}");
        assert!(answer.diagnostic.contains(want), "{want}: {}", answer.diagnostic);
    }
    let more = person.replace("MAY ( ", "MAY ( pin $ ");
    assert_eq!(change(add, "objectClasses", &more).code(), ResultCode::Success);
}

#[test]
fn who_writes_member_urls_learns_no_secret() {
    let served = served();
    let mut root = served.root();
    let group = format!("cn=dynamic,{SUFFIX}");
    add(&mut root, &group, &["groupOfURLs"], &[]);
    put(&mut root, SUFFIX, &for_pam("(targetattr=\"memberURL\")", "allow (write)"));
    let target = unit("target");
    add(&mut root, &target, &["organizationalUnit"], &[]);
    let by_group = format!("allow (write) groupdn=\"ldap:///{group}\"");
    put(&mut root, &target, &aci("(targetattr=\"description\")", &by_group));
    let describe = [(ModifyOperation::Replace, "description", &["x"][..])];
    let mut pam = signed_in(&served, "pam");
    let mut check = |filter: &str, want: ResultCode| {
        let url = format!("ldap:///{}??base?{filter}", person("pam"));
        let change = [(ModifyOperation::Replace, "memberURL", &[&*url][..])];
        assert_eq!(pam.modify(&group, &change), ResultCode::Success);
        assert_eq!(pam.modify(&target, &describe), want, "{filter}");
    };
    check("(uid=pam)", ResultCode::Success);
    for secret in ["(userPassword=*)", "(!(userPassword=x))", "(&(uid=pam)(userPassword>=a))"] {
        check(secret, ResultCode::InsufficientAccessRights);
    }
}

#[test]
fn the_account_of_one_with_more_privileges_stays_as_it_is() {
    let served = served();
    let mut root = served.root();
    let give = |root: &mut Client, uid: &str, privileges: &[&str]| {
        let change = [(ModifyOperation::Add, "ds-privilege-name", privileges)];
        assert_eq!(root.modify(&person(uid), &change), ResultCode::Success);
    };
    give(&mut root, "pam", &["password-reset"]);
    give(&mut root, "chief", &["config-write"]);
    put(&mut root, &unit("people"), &for_pam("(targetattr=\"+\")", "allow (all)"));
    assert_eq!(try_add_person(&mut root, "other", &[]).code(), ResultCode::Success);
    let mut pam = signed_in(&served, "pam");
    for (name, value) in [
        ("nsAccountLock", "true"),
        ("pwdAccountLockedTime", "000001010000Z"),
        ("pwdEndTime", "20200101000000Z"),
        ("pwdReset", "TRUE"),
        ("pwdPolicySubentry", "cn=weak,dc=example,dc=org"),
        ("ds-pwp-password-policy-dn", "cn=weak,dc=example,dc=org"),
    ] {
        let set = [(ModifyOperation::Replace, name, &[value][..])];
        for (uid, want) in [
            ("other", ResultCode::Success),
            // The own one is bound by the rules as well.
            ("pam", ResultCode::InsufficientAccessRights),
            ("chief", ResultCode::InsufficientAccessRights),
        ] {
            assert_eq!(pam.modify(&person(uid), &set), want, "{name} of {uid}");
        }
        assert_eq!(root.modify(&person("chief"), &set), ResultCode::Success, "{name}");
        let clear = [(ModifyOperation::Replace, name, &[][..])];
        let denied = ResultCode::InsufficientAccessRights;
        assert_eq!(pam.modify(&person("chief"), &clear), denied, "{name} is taken away");
    }
}

#[test]
fn people_do_not_choose_which_policy_governs_them() {
    let served = served();
    let mut root = served.root();
    let area = "{ base \"ou=people\", specificationFilter \"(employeeType=staff)\" }";
    let policy: Attributes<'_> = &[
        ("subtreeSpecification", &[area]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdMinLength", &["14"]),
    ];
    add(&mut root, &format!("cn=p,{SUFFIX}"), &["subentry", "pwdPolicy"], policy);
    let staff: Attributes<'_> = &[("employeeType", &["staff"])];
    assert_eq!(try_add_person(&mut root, "anna", staff).code(), ResultCode::Success);
    let own = "allow (write) userdn=\"ldap:///self\"";
    put(&mut root, &unit("people"), &aci("(targetattr=\"*\")", own));
    let (mut pam, mut anna) = (signed_in(&served, "pam"), signed_in(&served, "anna"));
    let set = |value| [(ModifyOperation::Replace, "employeeType", vec![value])];
    let change = |client: &mut Client, value: &'static str| {
        let [(operation, name, values)] = set(value);
        client.try_modify(&person("anna"), &[(operation, name, &values)])
    };
    let refused = change(&mut anna, "guest");
    assert_eq!(refused.code(), ResultCode::InsufficientAccessRights);
    assert!(refused.diagnostic.contains("another password policy"), "{}", refused.diagnostic);
    let other = [(ModifyOperation::Replace, "description", &["x"][..])];
    assert_eq!(anna.modify(&person("anna"), &other), ResultCode::Success);
    // Whoever may write what others hold decides by it; see the how-to.
    assert_eq!(change(&mut pam, "guest").code(), ResultCode::Success);
    assert_eq!(change(&mut anna, "staff").code(), ResultCode::InsufficientAccessRights);

    // Nor does a rename take the subtree away.
    let answer = rename(&mut pam, &unit("people"), "ou=persons", None);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    assert!(answer.diagnostic.contains("password-reset"), "{}", answer.diagnostic);
    let answer = rename(&mut root, &unit("people"), "ou=persons", None);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

#[test]
fn an_update_means_what_its_names_meant_when_it_was_read() {
    let served = served();
    let mut root = served.root();
    let own = "( 1.3.6.1.4.1.99999.70 NAME 'pal' SUP distinguishedName )";
    let schema = |root: &mut Client, operation, text: &str| {
        let answer = root.try_modify(SCHEMA, &[(operation, "attributeTypes", &[text])]);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    };
    schema(&mut root, ModifyOperation::Add, own);
    let name = person("chief");
    let list = modifications(&[(ModifyOperation::Add, "pal", &[&*person("pam")])]);
    let request = Request::Modify(ModifyRequest { name: &name, changes: list.as_ref() });
    let mut pam = signed_in(&served, "pam");
    let message = pam.encode(request, ldap::message::Controls::EMPTY);
    let connection = &mut pam.connection;
    let mut out = Vec::new();
    let next = connection.worker.handle(&mut connection.session, &message, &mut out);
    let Next::Write(pending) = next else { panic!("the change goes to the writer") };
    // Meanwhile the name means something else.
    schema(&mut root, ModifyOperation::Delete, own);
    let other = "( 1.3.6.1.4.1.99999.71 NAME 'pal' SUP manager )";
    schema(&mut root, ModifyOperation::Add, other);
    let (sender, receiver) = std::sync::mpsc::channel();
    pending.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    let mut answer = Answer::default();
    answer.take(&receiver.recv().unwrap());
    assert_eq!(answer.code(), ResultCode::Busy, "{}", answer.diagnostic);
    let again = pam.modify(&name, &[(ModifyOperation::Add, "pal", &[&*person("pam")])]);
    assert_eq!(again, ResultCode::Success);
}

#[test]
fn a_rename_makes_no_entry_one_of_another_kind() {
    let served = served();
    let mut root = served.root();
    let class =
        "( 1.3.6.1.4.1.99999.80 NAME 'teamAccount' SUP inetOrgPerson STRUCTURAL MAY member )";
    let change = [(ModifyOperation::Add, "objectClasses", &[class][..])];
    assert_eq!(root.modify(SCHEMA, &change), ResultCode::Success);
    let mut pam = signed_in(&served, "pam");
    for rdn in ["uid=chief+objectClass=teamAccount", "2.5.4.0=teamAccount"] {
        let answer = rename(&mut pam, &person("chief"), rdn, None);
        assert_eq!(answer.code(), ResultCode::NamingViolation, "{}", answer.diagnostic);
    }
    let name = format!("objectClass=device,{SUFFIX}");
    let answer = try_add(&mut root, &name, &["device"], &[("cn", &["x"])]);
    assert_eq!(answer.code(), ResultCode::NamingViolation);
}

#[test]
fn who_may_join_a_list_does_not_rename_it() {
    let served = served();
    let mut root = served.root();
    let list = format!("cn=list,{SUFFIX}");
    add(&mut root, &list, &["groupOfNames"], &[("member", &[&person("chief")])]);
    put(&mut root, SUFFIX, &for_pam("(targetattr=\"member\")", "allow (selfwrite)"));
    let mut pam = signed_in(&served, "pam");
    let own = format!("member={}", person("pam").replace(',', "\\,"));
    let answer = rename(&mut pam, &list, &own, None);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
    let own = person("pam");
    let join = [(ModifyOperation::Add, "member", &[&*own][..])];
    assert_eq!(pam.modify(&list, &join), ResultCode::Success);
}

/// An ACI on an entry whose name had become too long to be read was one of the root after a start.
#[test]
fn an_entry_whose_name_became_long_keeps_its_acis_for_itself() {
    let served = served();
    let mut root = served.root();
    let (below, long) = (unit("below"), format!("ou={},{SUFFIX}", "x".repeat(14_000)));
    for name in [&below, &long] {
        add(&mut root, name, &["organizationalUnit"], &[]);
    }
    for step in 0..6 {
        // Each rename is of a short name, and makes that of the leaf longer.
        let leaf = format!("cn={step}{},{below}", "y".repeat(12_000));
        let all = for_pam("(targetattr=\"*\")", "allow (all)");
        add(&mut root, &leaf, &["device"], &[("aci", &[&all])]);
    }
    let answer = rename(&mut root, &below, "ou=below", Some(&long));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let moved = format!("ou=below,{long}");
    let answer = rename(&mut root, &moved, &format!("ou={}", "z".repeat(5_000)), None);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "no request could name it");
    drop(root);
    let served = served.killed();
    let describe = [(ModifyOperation::Replace, "description", &["x"][..])];
    let mut pam = signed_in(&served, "pam");
    assert_eq!(pam.modify(SUFFIX, &describe), ResultCode::InsufficientAccessRights);
    let mut root = served.root();
    let found = root.search(&Asked { base: SUFFIX, filter: "(cn=*y*)", ..Asked::default() });
    assert_eq!(found.entries.len(), 6);
    let answer = rename(&mut root, &moved, "ou=below", Some(SUFFIX));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    assert_eq!(root.delete(&format!("cn=0{},{below}", "y".repeat(12_000))), ResultCode::Success);
}
