//! Which groups entries are in: `isMemberOf`, `memberOf`, `isDirectMemberOf` and `nsRole`, read,
//! compared and searched for.

use std::collections::{BTreeMap, BTreeSet};

use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::result::ResultCode;

use crate::support::{Asked, Client, SUFFIX, Served};

fn dn(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

/// The names, without what is the same in all.
fn short<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeSet<String> {
    let short =
        |name: &str| name.strip_suffix(SUFFIX).map(|name| name[3..name.len() - 1].to_owned());
    names.into_iter().map(|name| short(name).unwrap_or_else(|| name.to_owned())).collect()
}

fn read(client: &mut Client, name: &str, attribute: &str) -> BTreeSet<String> {
    let (base, filter) = (dn(name), "(objectClass=*)");
    let scope = ldap::message::Scope::Base;
    let attributes = &[attribute];
    let answer =
        client.search(&Asked { base: &base, scope, filter, attributes, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    short(answer.entries[0].texts(attribute).iter().map(String::as_str))
}

fn found(client: &mut Client, filter: &str) -> BTreeSet<String> {
    let answer = client.search(&Asked { filter, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Success, "{filter}: {}", answer.diagnostic);
    short(answer.names())
}

#[track_caller]
fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(&dn(name), attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn add_person(root: &mut Client, name: &str, sn: &str) {
    add(root, name, &[("objectClass", &["inetOrgPerson"]), ("sn", &[sn])]);
}

fn add_group(root: &mut Client, name: &str, members: &[&str]) {
    let members: Vec<String> = members.iter().map(|member| dn(member)).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    match members.is_empty() {
        true => add(root, name, &[("objectClass", &["groupOfEntries"])]),
        false => add(root, name, &[("objectClass", &["groupOfEntries"]), ("member", &members)]),
    }
}

#[track_caller]
fn check(client: &mut Client, name: &str, attribute: &str, want: &[&str]) {
    let want = want.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(read(client, name, attribute), want, "{attribute} of {name}");
}

/// Groups of each kind; Anna is in most of them.
fn filled() -> Served {
    let served = Served::new();
    let mut root = served.root();
    add_person(&mut root, "anna", "Archer");
    add_person(&mut root, "bob", "Baker");
    add_group(&mut root, "staff", &["anna", "nobody"]);
    add_group(&mut root, "all", &["staff", "bob"]);
    add_group(&mut root, "round", &["all", "ring"]);
    add_group(&mut root, "ring", &["round"]);
    let bob = dn("bob");
    let classes = ("objectClass", &["groupOfUniqueNames"][..]);
    add(&mut root, "unique", &[classes, ("uniqueMember", &[&bob])]);
    let url = format!("ldap:///{SUFFIX}??sub?(sn=archer)");
    let classes = ("objectClass", &["groupOfURLs"][..]);
    add(&mut root, "described", &[classes, ("memberURL", &[&url])]);
    let staff = dn("staff");
    let classes = ("objectClass", &["groupOfEntries", "ds-virtual-static-group"][..]);
    add(&mut root, "shown", &[classes, ("ds-target-group-dn", &[&staff])]);
    let thing = dn("thing");
    let classes = ("objectClass", &["groupOfEntries", "ds-virtual-static-group"][..]);
    add(&mut root, "wrong", &[classes, ("ds-target-group-dn", &[&thing])]);
    let classes = ("objectClass", &["groupOfEntries", "extensibleObject"][..]);
    add(&mut root, "classless", &[classes, ("ds-target-group-dn", &[&staff])]);
    // Whatever it names, this is no group.
    let classes = ("objectClass", &["device", "extensibleObject"][..]);
    add(&mut root, "thing", &[classes, ("member", &[&dn("anna")])]);
    served
}

#[test]
fn an_entry_tells_the_groups_that_it_is_in() {
    let served = filled();
    let mut root = served.root();
    let all = &["staff", "all", "round", "ring", "described", "shown"];
    check(&mut root, "anna", "isMemberOf", all);
    check(&mut root, "anna", "memberOf", all);
    check(&mut root, "anna", "isDirectMemberOf", &["staff"]);
    check(&mut root, "bob", "isMemberOf", &["all", "round", "ring", "unique"]);
    check(&mut root, "bob", "isDirectMemberOf", &["all", "unique"]);
    check(&mut root, "ring", "isMemberOf", &["round", "ring"]);
    check(&mut root, "thing", "isMemberOf", &[]);
    // In the moment after a change.
    assert_eq!(
        root.modify(&dn("staff"), &[(Replace, "member", &[&dn("bob")])]),
        ResultCode::Success
    );
    check(&mut root, "anna", "isMemberOf", &["described"]);
    check(&mut root, "bob", "isDirectMemberOf", &["all", "staff", "unique"]);
    let renamed = root.rename(&dn("all"), "cn=everybody", true, None);
    assert_eq!(renamed, ResultCode::Success);
    check(&mut root, "bob", "isDirectMemberOf", &["everybody", "staff", "unique"]);
    assert_eq!(root.delete(&dn("unique")), ResultCode::Success);
    check(&mut root, "bob", "isDirectMemberOf", &["everybody", "staff"]);
}

#[test]
fn groups_are_told_when_they_are_asked_for() {
    let served = filled();
    let mut root = served.root();
    let mut attributes = |asked: &[&str]| {
        let answer =
            root.search(&Asked { filter: "(cn=anna)", attributes: asked, ..Asked::default() });
        let of_groups = ["isMemberOf", "memberOf", "isDirectMemberOf", "nsRole"];
        let there = answer.entries[0].attributes.keys();
        there.filter(|one| of_groups.contains(&one.as_str())).cloned().collect::<Vec<_>>()
    };
    assert_eq!(attributes(&["*"]), [""; 0]);
    assert_eq!(attributes(&["+"]), ["isMemberOf"]);
    assert_eq!(attributes(&["memberof", "entryDN"]), ["memberOf"]);
    assert_eq!(attributes(&["entryDN"]), [""; 0]);
    // Nobody writes them.
    let answer = root.modify(&dn("anna"), &[(Add, "memberOf", &[&dn("unique")])]);
    assert_eq!(answer, ResultCode::ConstraintViolation);
}

#[test]
fn what_member_of_means_is_a_setting() {
    let served = filled();
    let mut root = served.root();
    let mut set = |value: &str| {
        let answer = root.try_modify(CONFIG, &[(Replace, "roster-member-of", &[value])]);
        (answer.code(), answer.diagnostic)
    };
    assert_eq!(set("some").0, ResultCode::InvalidAttributeSyntax);
    assert_eq!(set("direct").0, ResultCode::Success);
    check(&mut root, "anna", "memberOf", &["staff"]);
    check(&mut root, "bob", "memberOf", &["all", "unique"]);
    check(&mut root, "ring", "isMemberOf", &["round", "ring"]);
    let filter = format!("(memberOf={})", dn("round"));
    assert_eq!(found(&mut root, &filter), short(["all", "ring"]));
    assert_eq!(root.compare(&dn("anna"), "memberOf", &dn("all")), ResultCode::CompareFalse);
    let answer = root.try_modify(CONFIG, &[(Replace, "roster-member-of", &["all"])]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    check(&mut root, "anna", "memberOf", &["staff", "all", "round", "ring", "described", "shown"]);
}

#[test]
fn groups_are_compared_and_searched_for() {
    let served = filled();
    let mut root = served.root();
    let compares = |root: &mut Client, attribute: &str, group: &str| {
        root.compare(&dn("anna"), attribute, &group.replace("SUFFIX", SUFFIX))
    };
    assert_eq!(compares(&mut root, "isMemberOf", "CN=Round, SUFFIX"), ResultCode::CompareTrue);
    assert_eq!(compares(&mut root, "isMemberOf", "cn=unique,SUFFIX"), ResultCode::CompareFalse);
    assert_eq!(compares(&mut root, "isDirectMemberOf", "cn=all,SUFFIX"), ResultCode::CompareFalse);
    let filter = |text: &str| text.replace("SUFFIX", SUFFIX);
    for (text, want) in [
        ("(isMemberOf=cn=all,SUFFIX)", &["anna", "bob", "staff"][..]),
        ("(memberOf=cn=round,SUFFIX)", &["anna", "bob", "staff", "all", "ring", "round"]),
        ("(isDirectMemberOf=cn=all,SUFFIX)", &["bob", "staff"]),
        ("(memberOf=cn=described,SUFFIX)", &["anna"]),
        ("(memberOf=cn=shown,SUFFIX)", &["anna"]),
        ("(memberOf=cn=thing,SUFFIX)", &[]),
        // It shows what is no group, and another one has not the class to show any.
        ("(memberOf=cn=wrong,SUFFIX)", &[]),
        ("(memberOf=cn=classless,SUFFIX)", &[]),
        ("(memberOf=cn=nowhere,SUFFIX)", &[]),
        ("(&(memberOf=cn=all,SUFFIX)(sn=Baker))", &["bob"]),
        ("(&(objectClass=person)(!(memberOf=cn=staff,SUFFIX)))", &["bob"]),
        ("(|(memberOf=cn=staff,SUFFIX)(cn=thing))", &["anna", "thing"]),
        ("(&(objectClass=inetOrgPerson)(memberOf=*))", &["anna", "bob"]),
    ] {
        let want: BTreeSet<String> = want.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found(&mut root, &filter(text)), want, "{text}");
    }
}

/// Roles are for entries below the superior of their definitions.
#[test]
fn an_entry_tells_its_roles() {
    let served = filled();
    let mut root = served.root();
    let role = |kind: &str| ["ldapSubentry".to_owned(), format!("ns{kind}RoleDefinition")];
    let mut define = |name: &str, kind: &str, more: &[(&str, &[&str])]| {
        let classes = role(kind);
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        let mut attributes = vec![("objectClass", classes.as_slice())];
        attributes.extend_from_slice(more);
        add(&mut root, name, &attributes);
    };
    define("manager", "Managed", &[]);
    define("archers", "Filtered", &[("nsRoleFilter", &["(sn=archer)"])]);
    define("either", "Nested", &[("nsRoleDN", &[&dn("manager"), &dn("archers")])]);
    assert_eq!(
        root.modify(&dn("bob"), &[(Add, "nsRoleDN", &[&dn("manager"), &dn("archers")])]),
        ResultCode::Success
    );
    check(&mut root, "anna", "nsRole", &["archers", "either"]);
    check(&mut root, "bob", "nsRole", &["manager", "either"]);
    let filter = format!("(&(objectClass=person)(nsRole={}))", dn("manager"));
    assert_eq!(found(&mut root, &filter), short(["bob"]));
    assert_eq!(root.compare(&dn("bob"), "nsRole", &dn("either")), ResultCode::CompareTrue);
}

/// Who may not see a group learns of nobody that he is in it.
#[test]
fn hidden_groups_are_not_told() {
    let served = filled();
    let mut root = served.root();
    let hide = format!(
        "(target=\"ldap:///cn=all,{SUFFIX}\")(version 3.0; acl \"hide\"; \
         deny (all) userdn=\"ldap:///anyone\";)"
    );
    let keep = "(targetattr=\"isDirectMemberOf\")(version 3.0; acl \"keep\"; \
                deny (all) userdn=\"ldap:///anyone\";)";
    let change = root.try_modify(SUFFIX, &[(Add, "aci", &[&hide, keep])]);
    assert_eq!(change.code(), ResultCode::Success, "{}", change.diagnostic);
    let mut client = served.client();
    let seen = &["staff", "round", "ring", "described", "shown"];
    check(&mut client, "anna", "isMemberOf", seen);
    let filter = format!("(memberOf={})", dn("all"));
    assert_eq!(found(&mut client, &filter), short([]));
    assert_eq!(found(&mut root, &filter), short(["anna", "bob", "staff"]));
    let by_another = format!("(&(sn=baker)(memberOf={}))", dn("all"));
    assert_eq!(found(&mut client, &by_another), short([]));
    assert_eq!(client.compare(&dn("anna"), "memberOf", &dn("all")), ResultCode::CompareFalse);
    assert_eq!(client.compare(&dn("anna"), "memberOf", &dn("round")), ResultCode::CompareTrue);
    // Without the right to the attribute nothing is told.
    check(&mut client, "anna", "isDirectMemberOf", &[]);
    assert_eq!(found(&mut client, &format!("(isDirectMemberOf={})", dn("staff"))), short([]));
}

/// Few groups that are in each other on very many ways: the work has an end, and then nothing is
/// told rather than a part.
#[test]
fn groups_that_are_reached_on_too_many_ways_are_not_told() {
    let served = filled();
    let mut root = served.root();
    let names = |letter: &str| (0..160).map(|one| format!("{letter}{one}")).collect::<Vec<_>>();
    let (below, above) = (names("below"), names("above"));
    for group in &below {
        add_group(&mut root, group, &["anna"]);
    }
    let members: Vec<&str> = below.iter().map(String::as_str).collect();
    for group in above.get(..100).unwrap() {
        add_group(&mut root, group, &members);
    }
    assert_eq!(read(&mut root, "anna", "isMemberOf").len(), 266);
    for group in above.get(100..).unwrap() {
        add_group(&mut root, group, &members);
    }
    check(&mut root, "anna", "isMemberOf", &[]);
    assert_eq!(read(&mut root, "anna", "isDirectMemberOf").len(), 161);
    // Nobody can say whether she is.
    for group in ["above7", "unique"] {
        let filter = format!("(&(sn=archer)(isMemberOf={}))", dn(group));
        assert_eq!(found(&mut root, &filter), short([]));
        let filter = format!("(&(sn=archer)(!(isMemberOf={})))", dn(group));
        assert_eq!(found(&mut root, &filter), short([]));
    }
    check(&mut root, "bob", "isMemberOf", &["all", "round", "ring", "unique"]);
}

/// What is stored does not tell: neither a term about groups nor its opposite matches, so a deny
/// holds and an allow gives nothing.
#[test]
fn access_rules_that_ask_for_groups_by_a_filter_give_nothing() {
    let served = filled();
    let mut root = served.root();
    for (filter, rule, sees) in [
        ("(isMemberOf=cn=staff,SUFFIX)", "deny", false),
        ("(!(memberOf=cn=staff,SUFFIX))", "deny", false),
    ] {
        let aci = format!(
            "(targetattr=\"sn\")(targetfilter=\"{}\")(version 3.0; acl \"x\"; \
             {rule} (all) userdn=\"ldap:///anyone\";)",
            filter.replace("SUFFIX", SUFFIX)
        );
        let change = root.try_modify(SUFFIX, &[(Replace, "aci", &[&aci])]);
        assert_eq!(change.code(), ResultCode::Success, "{}", change.diagnostic);
        let seen = !read(&mut served.client(), "anna", "sn").is_empty();
        assert_eq!(seen, sees, "{aci}");
    }
    let url = format!("ldap:///{SUFFIX}??sub?(!(isMemberOf={}))", dn("staff"));
    let classes = ("objectClass", &["groupOfURLs"][..]);
    add(&mut root, "outside", &[classes, ("memberURL", &[&url])]);
    assert!(!read(&mut root, "bob", "isMemberOf").contains("outside"));
}

const CONFIG: &str = "cn=Groups,cn=config";
const BASE: &str = "roster-member-uid-base";

fn add_account(root: &mut Client, name: &str, sn: &str, uid: &str) {
    add(
        root,
        name,
        &[
            ("objectClass", &["inetOrgPerson", "posixAccount"]),
            ("sn", &[sn]),
            ("uid", &[uid]),
            ("uidNumber", &["1"]),
            ("gidNumber", &["1"]),
            ("homeDirectory", &["/"]),
            ("userPassword", &["secret"]),
        ],
    );
}

fn add_unix_group(root: &mut Client, name: &str, members: &[&str], user_names: &[&str]) {
    let members: Vec<String> = members.iter().map(|member| dn(member)).collect();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let classes = &["groupOfEntries", "posixGroup"][..];
    let all = [("objectClass", classes), ("gidNumber", &["1"])];
    let more = [("member", members.as_slice()), ("memberUid", user_names)];
    let more = more.into_iter().filter(|(_, values)| !values.is_empty());
    add(root, name, &all.into_iter().chain(more).collect::<Vec<_>>());
}

/// Accounts are members by their user names where a setting says so.
#[test]
fn accounts_are_members_by_user_name_below_the_bases() {
    let served = Served::new();
    let mut root = served.root();
    add_account(&mut root, "anna", "Archer", "anna");
    add_account(&mut root, "bob", "Baker", "Bob");
    let person = ("objectClass", &["inetOrgPerson"][..]);
    add(&mut root, "carl", &[person, ("sn", &["C"]), ("uid", &["carl"])]);
    add_unix_group(&mut root, "unix", &["carl"], &["anna", "bob", "carl", "nobody"]);
    add_group(&mut root, "all", &["unix"]);
    let filter = format!("(isMemberOf={})", dn("all"));
    check(&mut root, "anna", "isMemberOf", &[]);
    assert_eq!(found(&mut root, &filter), short(["carl", "unix"]));
    assert_eq!(root.modify(CONFIG, &[(Add, BASE, &[SUFFIX])]), ResultCode::Success);
    check(&mut root, "anna", "isMemberOf", &["unix", "all"]);
    check(&mut root, "anna", "memberOf", &["unix", "all"]);
    check(&mut root, "anna", "isDirectMemberOf", &["unix"]);
    // Unix tells capital letters from others, and one without the class is no account of it.
    check(&mut root, "bob", "isMemberOf", &[]);
    check(&mut root, "carl", "isMemberOf", &["unix", "all"]);
    assert_eq!(found(&mut root, &filter), short(["anna", "carl", "unix"]));
    let direct = format!("(isDirectMemberOf={})", dn("unix"));
    assert_eq!(found(&mut root, &direct), short(["anna", "carl"]));
    let compared = root.compare(&dn("anna"), "isMemberOf", &dn("unix"));
    assert_eq!(compared, ResultCode::CompareTrue);
    // A group is no account, and one that has left the bases is none that counts.
    assert_eq!(root.modify(CONFIG, &[(Replace, BASE, &[&dn("bob")])]), ResultCode::Success);
    check(&mut root, "anna", "isMemberOf", &[]);
    assert_eq!(root.modify(&dn("bob"), &[(Replace, "uid", &["anna"])]), ResultCode::Success);
    check(&mut root, "bob", "isMemberOf", &["unix", "all"]);
    assert_eq!(root.modify(CONFIG, &[(Replace, BASE, &[])]), ResultCode::Success);
    check(&mut root, "bob", "isMemberOf", &[]);
}

/// Where the class is auxiliary it stands for the structural one of groups that have no other.
#[test]
fn a_posix_group_alone_is_a_group() {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(root.modify(CONFIG, &[(Add, BASE, &[SUFFIX])]), ResultCode::Success);
    add_account(&mut root, "anna", "Archer", "anna");
    let class = &["posixGroup"][..];
    let group = [("objectClass", class), ("gidNumber", &["2"]), ("memberUid", &["anna"])];
    add(&mut root, "plain", &group);
    add_group(&mut root, "all", &["plain"]);
    check(&mut root, "anna", "isMemberOf", &["plain", "all"]);
    let filter = format!("(isMemberOf={})", dn("all"));
    assert_eq!(found(&mut root, &filter), short(["anna", "plain"]));
    // An account becomes none by the class.
    let answer =
        root.try_modify(&dn("anna"), &[(Add, "objectClass", class), (Add, "gidNumber", &["3"])]);
    if answer.code() == ResultCode::Success {
        add_group(&mut root, "more", &["anna"]);
        let memberless = format!("(isMemberOf={})", dn("anna"));
        assert_eq!(found(&mut root, &memberless), short([]));
    }
}

/// Who takes the user name of somebody else has not the rights of that one's groups.
#[test]
fn a_user_name_that_two_accounts_have_makes_neither_a_member() {
    let served = Served::new();
    let mut root = served.root();
    add_account(&mut root, "anna", "Archer", "anna");
    add_account(&mut root, "mallory", "M", "mallory");
    add_unix_group(&mut root, "unix", &[], &["anna"]);
    add_group(&mut root, "all", &["unix"]);
    assert_eq!(root.modify(CONFIG, &[(Add, BASE, &[SUFFIX])]), ResultCode::Success);
    let rule = format!(
        "(targetattr=\"*\")(version 3.0; acl \"u\"; allow (write) groupdn=\"ldap:///{}\";)",
        dn("all")
    );
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[&rule])]), ResultCode::Success);
    let writes = |name: &str| {
        let mut client = served.client();
        assert_eq!(client.bind(&dn(name), "secret"), ResultCode::Success);
        client.modify(&dn("unix"), &[(Replace, "description", &["x"])])
    };
    assert_eq!(writes("anna"), ResultCode::Success);
    assert_eq!(writes("mallory"), ResultCode::InsufficientAccessRights);
    let more = &[(Add, "uid", &["anna"][..])];
    assert_eq!(root.modify(&dn("mallory"), more), ResultCode::Success);
    for name in ["anna", "mallory"] {
        assert_eq!(writes(name), ResultCode::InsufficientAccessRights, "{name}");
        check(&mut root, name, "isMemberOf", &[]);
    }
    assert_eq!(found(&mut root, &format!("(isMemberOf={})", dn("unix"))), short([]));
    // Nor does anybody get rid of a deny so, and one of another group denies nothing.
    add_unix_group(&mut root, "other", &[], &["nobody"]);
    for (group, is_denied) in [("unix", true), ("all", true), ("other", false)] {
        let allow = "(targetattr=\"*\")(version 3.0; acl \"a\"; \
                     allow (write) userdn=\"ldap:///all\";)";
        let deny = format!(
            "(targetattr=\"*\")(version 3.0; acl \"d\"; deny (write) groupdn=\"ldap:///{}\";)",
            dn(group)
        );
        let rules = [(Replace, "aci", &[allow, &deny][..])];
        assert_eq!(root.modify(SUFFIX, &rules), ResultCode::Success);
        for name in ["anna", "mallory"] {
            let is_refused = writes(name) == ResultCode::InsufficientAccessRights;
            assert_eq!(is_refused, is_denied, "{group} {name}");
        }
    }
    assert_eq!(root.modify(SUFFIX, &[(Replace, "aci", &[&rule])]), ResultCode::Success);
    // One that is none of the bases takes nothing.
    assert_eq!(root.modify(CONFIG, &[(Replace, BASE, &[&dn("anna")])]), ResultCode::Success);
    assert_eq!(writes("anna"), ResultCode::Success);
    assert_eq!(writes("mallory"), ResultCode::InsufficientAccessRights);
}

#[test]
fn members_by_user_name_need_indexes_and_the_privilege_for_rules() {
    let index = "ds-cfg-attribute=memberUid,cn=Index,cn=config";
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(root.modify(CONFIG, &[(Add, BASE, &["x"])]), ResultCode::InvalidAttributeSyntax);
    assert_eq!(root.modify(CONFIG, &[(Add, BASE, &[SUFFIX])]), ResultCode::Success);
    let drop = [(Delete, "ds-cfg-index-type", &["equality"][..])];
    let answer = root.try_modify(index, &drop);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert!(answer.diagnostic.contains(BASE), "{}", answer.diagnostic);
    let both = [(Replace, BASE, &[][..]), (Replace, "roster-member-of", &["direct"][..])];
    assert_eq!(root.modify(CONFIG, &both), ResultCode::UnwillingToPerform);
    assert_eq!(root.modify(CONFIG, &[(Delete, BASE, &[])]), ResultCode::Success);
    assert_eq!(root.modify(index, &drop), ResultCode::Success);
    let answer = root.try_modify(CONFIG, &[(Add, BASE, &[SUFFIX])]);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert!(answer.diagnostic.contains("equality memberUid"), "{}", answer.diagnostic);
    add_account(&mut root, "anna", "Archer", "anna");
    let privileges = &["config-read", "config-write"][..];
    let given = root.modify(&dn("anna"), &[(Add, "ds-privilege-name", privileges)]);
    assert_eq!(given, ResultCode::Success);
    let mut anna = served.client();
    assert_eq!(anna.bind(&dn("anna"), "secret"), ResultCode::Success);
    let change = anna.modify(CONFIG, &[(Replace, "roster-member-of", &["direct"])]);
    assert_eq!(change, ResultCode::Success);
    let change = anna.modify(CONFIG, &[(Add, BASE, &[SUFFIX])]);
    assert_eq!(change, ResultCode::InsufficientAccessRights);
}

/// What the groups are after any changes, as one finds out who knows them all.
struct Model {
    members: BTreeMap<String, BTreeSet<String>>,
    /// The user names that groups have, and those of accounts that count.
    by_user_name: BTreeMap<String, BTreeSet<String>>,
    user_names: BTreeMap<String, String>,
}

impl Model {
    fn names(&self, group: &str, who: &str) -> bool {
        let by_name = self.members.get(group).is_some_and(|members| members.contains(who));
        let is_only =
            |uid: &&String| self.user_names.values().filter(|one| one == uid).count() == 1;
        let uid = self.user_names.get(who).filter(is_only);
        let of_group = self.by_user_name.get(group);
        by_name || uid.is_some_and(|uid| of_group.is_some_and(|all| all.contains(uid)))
    }

    fn is_in(&self, group: &str, who: &str) -> bool {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![group.to_owned()]);
        while let Some(next) = todo.pop() {
            let Some(members) = self.members.get(&next).filter(|_| seen.insert(next.clone()))
            else {
                continue;
            };
            if self.names(&next, who) {
                return true;
            }
            todo.extend(members.iter().cloned());
        }
        false
    }
}

#[test]
fn memberships_are_those_of_whoever_knows_all_groups() {
    let served = Served::with(|options| options.limits.unindexed_entries = 2);
    let mut root = served.root();
    let people: Vec<String> = (0..6).map(|number| format!("p{number}")).collect();
    let groups: Vec<String> = (0..6).map(|number| format!("g{number}")).collect();
    let uids = ["u0", "u1", "u2", "U0"];
    let mut model = Model {
        members: BTreeMap::new(),
        by_user_name: BTreeMap::new(),
        user_names: BTreeMap::new(),
    };
    // Of the last the user name counts for nothing.
    let bases: Vec<String> = people.iter().take(5).map(|person| dn(person)).collect();
    let bases: Vec<&str> = bases.iter().map(String::as_str).collect();
    assert_eq!(root.modify(CONFIG, &[(Add, BASE, &bases)]), ResultCode::Success);
    for (number, person) in people.iter().enumerate() {
        let uid = uids[number % uids.len()];
        add_account(&mut root, person, ["odd", "even"][(number + 1) % 2], uid);
        if number < bases.len() {
            model.user_names.insert(person.clone(), uid.to_owned());
        }
    }
    let everybody: Vec<&String> = people.iter().chain(&groups).collect();
    // A sequence that is the same each time.
    let mut state = 2_463_534_242_u32;
    let mut below = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % limit
    };
    let open = "(targetattr=\"*||+\")(version 3.0; acl \"all\"; \
                allow (read, search, compare) userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[open])]), ResultCode::Success);
    let mut client = served.client();
    for _ in 0..120 {
        let group = &groups[below(groups.len())];
        let many = below(4);
        let members: BTreeSet<String> =
            (0..many).map(|_| everybody[below(everybody.len())].clone()).collect();
        let names: Vec<&str> = members.iter().map(String::as_str).collect();
        let user_names: BTreeSet<String> =
            (0..below(3)).map(|_| uids[below(uids.len())].to_owned()).collect();
        let of_group: Vec<&str> = user_names.iter().map(String::as_str).collect();
        if model.members.remove(group).is_none() {
            add_unix_group(&mut root, group, &names, &of_group);
            model.members.insert(group.clone(), members);
            model.by_user_name.insert(group.clone(), user_names);
        } else if below(4) == 0 {
            assert_eq!(root.delete(&dn(group)), ResultCode::Success);
            model.by_user_name.remove(group);
            // What named it does not any more.
            for members in model.members.values_mut() {
                members.remove(group);
            }
        } else {
            let names: Vec<String> = names.iter().map(|name| dn(name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let change = [(Replace, "member", &names[..]), (Replace, "memberUid", &of_group[..])];
            assert_eq!(root.modify(&dn(group), &change), ResultCode::Success);
            model.members.insert(group.clone(), members);
            model.by_user_name.insert(group.clone(), user_names);
        }
        let (person, uid) = (&people[below(people.len())], uids[below(uids.len())]);
        let change = root.modify(&dn(person), &[(Replace, "uid", &[uid])]);
        assert_eq!(change, ResultCode::Success);
        model.user_names.entry(person.clone()).and_modify(|one| *one = uid.to_owned());
        let there = |name: &&String| people.contains(name) || model.members.contains_key(*name);
        let who = everybody.iter().filter(|name| there(name)).nth(below(people.len())).unwrap();
        let want: Vec<&str> =
            groups.iter().filter(|one| model.is_in(one, who)).map(|it| it.as_str()).collect();
        check(&mut client, who, "isMemberOf", &want);
        let direct: Vec<&str> =
            groups.iter().filter(|one| model.names(one, who)).map(|it| it.as_str()).collect();
        check(&mut client, who, "isDirectMemberOf", &direct);
        let group = &groups[below(groups.len())];
        let want: BTreeSet<String> = everybody
            .iter()
            .filter(|name| there(name) && model.is_in(group, name))
            .map(|name| (*name).clone())
            .collect();
        assert_eq!(found(&mut client, &format!("(isMemberOf={})", dn(group))), want, "{group}");
        let even = found(&mut client, &format!("(&(isMemberOf={})(sn=even))", dn(group)));
        let is_even = |name: &&String| people.iter().step_by(2).any(|person| person == *name);
        assert_eq!(even, want.iter().filter(is_even).cloned().collect());
    }
}
