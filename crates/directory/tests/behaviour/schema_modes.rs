//! How strictly the schema is enforced: name forms and structure rules, and what may be broken.

use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::message::{AddRequest, Control, ControlsBuf, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served, add_attributes};

const CONFIG: &str = "cn=Schema,cn=config";
/// The No-Op control.
const NO_OP: &str = "1.3.6.1.4.1.4203.1.10.2";
const OK: ResultCode = ResultCode::Success;
const NAMING: ResultCode = ResultCode::NamingViolation;

const FORMS: [&str; 4] = [
    "( 1.3.6.1.4.1.55555.10 NAME 'domainForm' OC domain MUST dc )",
    "( 1.3.6.1.4.1.55555.11 NAME 'unitForm' OC organizationalUnit MUST ou )",
    "( 1.3.6.1.4.1.55555.12 NAME 'personForm' OC inetOrgPerson MUST uid MAY cn )",
    "( 1.3.6.1.4.1.55555.13 NAME 'roomForm' OC room MUST cn )",
];
const RULES: [&str; 3] = [
    "( 1 NAME 'top' FORM domainForm )",
    "( 2 NAME 'units' FORM unitForm SUP ( 1 2 ) )",
    "( 3 NAME 'people' FORM personForm SUP 2 )",
];

fn modify(root: &mut Client, values: &[&str]) -> Answer {
    root.try_modify(CONFIG, &[(Add, "roster-schema-mode", values)])
}

#[track_caller]
fn modes(root: &mut Client, values: &[&str]) {
    let answer = modify(root, values);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
}

#[track_caller]
fn define(root: &mut Client) {
    let forms = (Add, "nameForms", &FORMS[..]);
    let rules = (Add, "dITStructureRules", &RULES[..]);
    assert_eq!(root.modify("cn=schema", &[forms, rules]), OK);
}

/// A directory whose suffix is of the class `domain`, with rules that hold nowhere yet.
fn served() -> (Served, Client) {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(root.delete(SUFFIX), OK);
    assert_eq!(root.add(SUFFIX, &[("objectClass", &["domain"])]), OK);
    define(&mut root);
    (served, root)
}

fn unit(root: &mut Client, name: &str) -> Answer {
    let classes: &[&str] = &["organizationalUnit"];
    root.try_add(&format!("{name},{SUFFIX}"), &[("objectClass", classes), ("ou", &["unit"])])
}

fn person(root: &mut Client, name: &str) -> Answer {
    let classes: &[&str] = &["inetOrgPerson"];
    let name = format!("{name},{SUFFIX}");
    root.try_add(&name, &[("objectClass", classes), ("cn", &["Anna"]), ("sn", &["Berg"])])
}

#[track_caller]
fn refuses(answer: &Answer, code: ResultCode, why: &[&str]) {
    assert_eq!(answer.code(), code, "{}", answer.diagnostic);
    for why in why {
        assert!(answer.diagnostic.contains(why), "'{}' lacks '{why}'", answer.diagnostic);
    }
}

#[track_caller]
fn accepts(answer: &Answer) {
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
}

/// The rule that governs an entry.
fn governing(root: &mut Client, name: &str) -> Vec<String> {
    let search = Asked {
        base: name,
        scope: Scope::Base,
        attributes: &["governingStructureRule"],
        ..Asked::default()
    };
    root.search(&search).entries[0].texts("governingStructureRule")
}

/// How many changes broke a rule.
fn counted(served: &Served, rule: &str) -> u64 {
    let all = served.directory.broken_rules();
    all.into_iter().find(|(name, _)| *name == rule).unwrap().1
}

#[test]
fn name_forms_hold_where_the_setting_says_so() {
    let (served, mut root) = served();
    accepts(&unit(&mut root, "ou=a"));
    // By default nobody looks.
    accepts(&unit(&mut root, "ou=b+l=Bergen"));
    accepts(&person(&mut root, "cn=Anna,ou=a"));
    assert_eq!(counted(&served, "name-form"), 0);
    modes(&mut root, &["name-form: reject"]);
    let why = "the RDN of an entry of class 'inetOrgPerson' is as name form 'personForm' says: \
               'uid' and, where wanted, 'cn'";
    refuses(&person(&mut root, "cn=Anna,ou=b+l=Bergen"), NAMING, &[why]);
    refuses(&person(&mut root, "uid=a+sn=Berg,ou=a"), NAMING, &["personForm"]);
    refuses(&unit(&mut root, "l=Oslo"), NAMING, &["unitForm", "'ou'"]);
    accepts(&person(&mut root, "uid=a,ou=a"));
    accepts(&person(&mut root, "uid=b+cn=Anna,ou=a"));
    // A class without a name form is named as it likes.
    let device: [(&str, &[&str]); 1] = [("objectClass", &["device"])];
    assert_eq!(root.add(&format!("cn=printer,{SUFFIX}"), &device), OK);
    // Renames and moves are asked as well; what was there before stays.
    let a = format!("uid=a,ou=a,{SUFFIX}");
    refuses(&root.try_rename(&a, "cn=Other", false, None), NAMING, &["personForm"]);
    assert_eq!(root.rename(&a, "uid=c", true, None), OK);
    let old = format!("ou=b+l=Bergen,{SUFFIX}");
    let change = &[(Add, "description", &["there"][..])];
    assert_eq!(root.modify(&old, change), OK);
    let class = &[(Add, "objectClass", &["labeledURIObject"][..])];
    assert_eq!(root.modify(&old, class), OK);
    refuses(&root.try_rename(&old, "ou=c+l=Bergen", false, None), NAMING, &["unitForm"]);
    modes(&mut root, &["name-form: accept"]);
    accepts(&unit(&mut root, "l=Oslo"));
    assert_eq!(counted(&served, "name-form"), 1);
}

#[test]
fn structure_rules_say_what_stands_below_what() {
    let (served, mut root) = served();
    accepts(&person(&mut root, "uid=early"));
    modes(&mut root, &["structure-rule: reject"]);
    accepts(&unit(&mut root, "ou=a"));
    accepts(&unit(&mut root, "ou=b,ou=a"));
    accepts(&person(&mut root, "uid=a,ou=b,ou=a"));
    let why = [
        "no structure rule lets this entry of class 'inetOrgPerson' stand below an entry that \
         structure rule 1 'top' governs",
        "structure rule 3 'people' is for entries below rule 2, named as name form 'personForm'",
    ];
    refuses(&person(&mut root, "uid=b"), NAMING, &why);
    let why = ["below an entry that structure rule 3 'people' governs"];
    refuses(&unit(&mut root, "ou=c,uid=a,ou=b,ou=a"), NAMING, &why);
    // A class that no rule is about stands below nothing that is governed.
    let device: [(&str, &[&str]); 1] = [("objectClass", &["device"])];
    let answer = root.try_add(&format!("cn=printer,ou=a,{SUFFIX}"), &device);
    refuses(&answer, NAMING, &["class 'device'", "its class has none"]);
    // A form without a rule: the RDN alone does not do.
    let room: [(&str, &[&str]); 1] = [("objectClass", &["room"])];
    refuses(&root.try_add(&format!("cn=attic,ou=a,{SUFFIX}"), &room), NAMING, &["'room'"]);
    // Below what is not governed, what has no rules stands as it likes.
    let below = format!("cn=bag,uid=early,{SUFFIX}");
    assert_eq!(root.add(&below, &device), OK);
    refuses(&unit(&mut root, "ou=x,uid=early"), NAMING, &["that no structure rule governs"]);
    // A move is asked where it goes.
    let a = format!("uid=a,ou=b,ou=a,{SUFFIX}");
    refuses(&root.try_rename(&a, "uid=a", false, Some(SUFFIX)), NAMING, &["rule 1 'top'"]);
    assert_eq!(root.rename(&a, "uid=a", false, Some(&format!("ou=a,{SUFFIX}"))), OK);
    let early = format!("uid=early,{SUFFIX}");
    assert_eq!(root.rename(&early, "uid=early", false, Some(&format!("ou=a,{SUFFIX}"))), OK);
    assert_eq!(governing(&mut root, &format!("uid=early,ou=a,{SUFFIX}")), ["3"]);
    assert_eq!(counted(&served, "structure-rule"), 0);
}

#[test]
fn what_stands_below_by_a_rule_keeps_it() {
    let (_served, mut root) = served();
    let other = "( 4 NAME 'places' FORM placeForm SUP 1 )";
    let form = "( 1.3.6.1.4.1.55555.14 NAME 'placeForm' OC organizationalUnit MUST ( ou $ l ) )";
    let more: &[(ModifyOperation, &str, &[&str])] =
        &[(Add, "nameForms", &[form]), (Add, "dITStructureRules", &[other])];
    assert_eq!(root.modify("cn=schema", more), OK);
    modes(&mut root, &["structure-rule: reject"]);
    accepts(&unit(&mut root, "ou=a"));
    accepts(&person(&mut root, "uid=a,ou=a"));
    let unit = format!("ou=a,{SUFFIX}");
    let answer = root.try_rename(&unit, "ou=a+l=Oslo", false, None);
    refuses(&answer, NAMING, &["structure rule 2 would govern the entry no more"]);
    assert_eq!(root.delete(&format!("uid=a,{unit}")), OK);
    assert_eq!(root.rename(&unit, "ou=a+l=Oslo", false, None), OK);
    assert_eq!(governing(&mut root, &format!("l=Oslo+ou=a,{SUFFIX}")), ["4"]);
}

#[test]
fn the_governing_rule_is_told_to_whoever_asks() {
    let (_served, mut root) = served();
    // Computed by the rules there are, enforced or not.
    accepts(&unit(&mut root, "ou=a"));
    accepts(&person(&mut root, "uid=a,ou=a"));
    accepts(&person(&mut root, "uid=b"));
    let names = [SUFFIX.to_owned(), format!("ou=a,{SUFFIX}"), format!("uid=a,ou=a,{SUFFIX}")];
    for (name, rule) in names.iter().zip(["1", "2", "3"]) {
        assert_eq!(governing(&mut root, name), [rule], "{name}");
    }
    assert!(governing(&mut root, &format!("uid=b,{SUFFIX}")).is_empty());
    let filter = Asked { filter: "(governingStructureRule=3)", ..Asked::default() };
    assert_eq!(root.search(&filter).names(), [&names[2]]);
    let shown = |root: &mut Client, attributes: &[&str]| {
        let search = Asked { base: SUFFIX, scope: Scope::Base, attributes, ..Asked::default() };
        root.search(&search).entries[0].texts("governingStructureRule")
    };
    assert_eq!(shown(&mut root, &["+"]), ["1"]);
    assert!(shown(&mut root, &["*"]).is_empty());
    assert!(shown(&mut root, &["entryDN"]).is_empty());
    let set = &[(Add, "governingStructureRule", &["7"][..])];
    assert_eq!(root.modify(SUFFIX, set), ResultCode::ConstraintViolation);
    // Without rules there is none.
    let gone = &[(Delete, "dITStructureRules", &RULES[..])];
    assert_eq!(root.modify("cn=schema", gone), OK);
    assert!(shown(&mut root, &["+"]).is_empty());
}

type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];

/// An entry that breaks a rule, and what refuses it.
const BROKEN: [(&str, &str, Attributes<'_>, ResultCode, &str); 6] = [
    (
        "required",
        "cn=a",
        &[("objectClass", &["person"])],
        CLASS,
        "object class 'person' requires attribute 'sn'",
    ),
    (
        "allowed",
        "cn=b",
        &[("objectClass", &["person"]), ("sn", &["a"]), ("mail", &["a@x"])],
        CLASS,
        "attribute 'mail' is not allowed",
    ),
    (
        "syntax",
        "cn=c",
        &[("objectClass", &["inetOrgPerson"]), ("sn", &["a"]), ("mail", &["käthe@x"])],
        ResultCode::InvalidAttributeSyntax,
        "value 1 of attribute 'mail'",
    ),
    (
        "single-value",
        "cn=d",
        &[("objectClass", &["inetOrgPerson"]), ("sn", &["a"]), ("employeeNumber", &["1", "2"])],
        ResultCode::ConstraintViolation,
        "attribute 'employeeNumber' takes one value, not 2",
    ),
    (
        "structural-class",
        "cn=e",
        &[("objectClass", &["person", "device"]), ("sn", &["a"])],
        CLASS,
        "'person' and 'device' are both structural",
    ),
    (
        "structural-class",
        "dc=f",
        &[("objectClass", &["dcObject"])],
        CLASS,
        "entry has no structural object class",
    ),
];
const CLASS: ResultCode = ResultCode::ObjectClassViolation;

#[test]
fn each_rule_has_its_mode() {
    let served = Served::new();
    let mut root = served.root();
    for (rule, name, entry, code, why) in BROKEN {
        let name = format!("{name},{SUFFIX}");
        refuses(&root.try_add(&name, entry), code, &[why]);
        // The mode of another rule does nothing.
        let (other, ..) = BROKEN.iter().find(|(other, ..)| *other != rule).unwrap();
        modes(&mut root, &[&format!("{other}: accept")]);
        refuses(&root.try_add(&name, entry), code, &[why]);
        modes(&mut root, &[&format!("{other}: reject"), &format!("{rule}: warn")]);
        // Trying it is not doing it.
        let before = counted(&served, rule);
        let list = add_attributes(entry);
        let add = AddRequest { name: &name, attributes: list.as_ref() };
        let mut no_op = ControlsBuf::new();
        no_op.push(Control { oid: NO_OP, critical: true, value: None });
        let answer = root.request(Request::Add(add), no_op.as_ref());
        assert_eq!(answer.code(), ResultCode::NoOperation, "{rule}");
        assert_eq!(counted(&served, rule), before, "{rule}");
        accepts(&root.try_add(&name, entry));
        assert_eq!(counted(&served, rule), before + 1, "{rule}");
        // It can be changed as long as the mode holds.
        let change = &[(Replace, "objectClass", entry[0].1)];
        assert_eq!(root.modify(&name, change), OK, "{rule}");
        modes(&mut root, &[&format!("{rule}: reject")]);
        // What is wrong with values hinders no change of others; what is wrong with classes does.
        let of_values = ["syntax", "single-value"].contains(&rule);
        let answer = root.try_modify(&name, change);
        assert_eq!(answer.code(), if of_values { OK } else { code }, "{rule}");
        assert_eq!(root.delete(&name), OK);
    }
}

/// Attributes, and how an entry with them is refused.
type Case<'c> = (&'c [(&'c str, &'c [&'c str])], ResultCode, &'c str);

#[test]
fn what_the_server_relies_on_is_refused_in_every_mode() {
    let served = Served::new();
    let mut root = served.root();
    for rule in ["required", "allowed", "syntax", "single-value", "structural-class"] {
        modes(&mut root, &[&format!("{rule}: accept")]);
    }
    let person = [("objectClass", &["inetOrgPerson"][..]), ("sn", &["a"])];
    let cases: [Case<'_>; 9] = [
        (&[("objectClass", &["nobodyKnows"])], CLASS, "is not defined"),
        (&[("nobodyKnows", &["a"])], ResultCode::UndefinedAttributeType, "nobodyKnows"),
        (&[("manager", &["no name"])], ResultCode::InvalidAttributeSyntax, "'manager'"),
        (&[("objectClass", &["groupOfNames"]), ("member", &["x"])], SYNTAX, "'member'"),
        (&[("objectClass", &["alias"])], CLASS, "requires attribute 'aliasedObjectName'"),
        (&[("objectClass", &["referral", "person"])], CLASS, "referral"),
        (&[("objectClass", &["device"]), ("userPassword", &["secret-1"])], CLASS, "userPassword"),
        (&[("ds-rlim-size-limit", &["many"])], SYNTAX, "ds-rlim-size-limit"),
        (&[("objectClass", &["device"]), ("nsRoleFilter", &["(cn=*)"])], CLASS, "nsRoleFilter"),
    ];
    for (more, code, why) in cases {
        let has_class = more.iter().any(|(name, _)| *name == "objectClass");
        let entry = [if has_class { &person[1..] } else { &person[..] }, more].concat();
        refuses(&root.try_add(&format!("cn=a,{SUFFIX}"), &entry), code, &[why]);
    }
    assert!(served.directory.broken_rules().iter().all(|(_, count)| *count == 0));
}
const SYNTAX: ResultCode = ResultCode::InvalidAttributeSyntax;

/// Whoever may write an account could else get into all groups that it is in.
#[test]
fn an_account_becomes_no_group_in_any_mode() {
    let served = Served::new();
    let mut root = served.root();
    modes(&mut root, &["structural-class: accept"]);
    let name = format!("cn=a,{SUFFIX}");
    assert_eq!(
        root.add(&name, &[("objectClass", &["person"]), ("sn", &["a"])]),
        ResultCode::Success
    );
    for class in ["groupOfNames", "groupOfURLs", "alias", "referral", "ldapSubentry"] {
        let classes = &["person", class][..];
        let answer = root.try_modify(&name, &[(Replace, "objectClass", classes)]);
        assert_ne!(answer.code(), ResultCode::Success, "{class}");
    }
    // By a step in between neither.
    let device = &["person", "device"][..];
    let answer = root.try_modify(&name, &[(Replace, "objectClass", device)]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    modes(&mut root, &["structural-class: reject"]);
    let group = &["groupOfNames"][..];
    let member = &[name.as_str()][..];
    let answer = root.try_modify(
        &name,
        &[(Replace, "objectClass", group), (Add, "member", member), (Delete, "sn", &[])],
    );
    let want = ResultCode::ObjectClassModsProhibited;
    assert_eq!(answer.code(), want, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("'groupOfNames' later"), "{}", answer.diagnostic);
}

#[test]
fn values_without_their_syntax_are_found_and_changed_by_what_they_are() {
    let served = Served::new();
    let mut root = served.root();
    modes(&mut root, &["syntax: accept"]);
    let name = format!("cn=a,{SUFFIX}");
    let numbers: &[&str] = &["12", "twelve", "0x0c"];
    let entry: [(&str, &[&str]); 4] = [
        ("objectClass", &["inetOrgPerson", "posixAccount"]),
        ("sn", &["a"]),
        ("uid", &["a"]),
        ("homeDirectory", &["/a"]),
    ];
    modes(&mut root, &["single-value: accept"]);
    let entry = [&entry[..], &[("uidNumber", numbers), ("gidNumber", &["none"])]].concat();
    accepts(&root.try_add(&name, &entry));
    let found = |root: &mut Client, filter: &str| {
        root.search(&Asked { filter, ..Asked::default() }).entries.len()
    };
    assert_eq!(found(&mut root, "(uidNumber=12)"), 1);
    assert_eq!(found(&mut root, "(uidNumber=twelve)"), 0);
    assert_eq!(found(&mut root, "(uidNumber=*)"), 1);
    assert_eq!(found(&mut root, "(gidNumber>=1)"), 0);
    assert_eq!(found(&mut root, "(&(cn=a)(!(gidNumber=1)))"), 1);
    // Twice the same is refused, and one of them can be taken.
    let twice = &[(Add, "uidNumber", &["twelve"][..])];
    assert_eq!(root.modify(&name, twice), ResultCode::AttributeOrValueExists);
    let take = &[(Delete, "uidNumber", &["twelve", "12"][..])];
    assert_eq!(root.modify(&name, take), OK);
    let search = Asked { filter: "(cn=a)", attributes: &["uidNumber"], ..Asked::default() };
    assert_eq!(root.search(&search).entries[0].texts("uidNumber"), ["0x0c"]);
    let served = {
        drop(root);
        served.reopen()
    };
    let mut root = served.root();
    assert_eq!(root.search(&search).entries[0].texts("uidNumber"), ["0x0c"]);
    let increment = &[(ModifyOperation::Increment, "gidNumber", &["1"][..])];
    assert_eq!(root.modify(&name, increment), SYNTAX);
}

#[test]
fn modes_are_changed_online_by_those_who_may() {
    let served = Served::new();
    let mut root = served.root();
    for (text, why) in [
        ("syntax", "it is a rule and its mode"),
        ("colour: warn", "'colour' is no rule"),
        ("syntax: maybe", "'maybe' is no mode"),
    ] {
        refuses(&modify(&mut root, &[text]), SYNTAX, &[why]);
    }
    modes(&mut root, &["syntax: warn", "required: accept"]);
    // A rule has one mode.
    modes(&mut root, &["syntax: accept"]);
    let read = |client: &mut Client| {
        let attributes = &["roster-schema-mode"];
        let search = Asked { base: CONFIG, scope: Scope::Base, attributes, ..Asked::default() };
        let answer = client.search(&search);
        answer.entries.first().map(|entry| entry.texts("roster-schema-mode"))
    };
    assert_eq!(read(&mut root).unwrap(), ["required: accept", "syntax: accept"]);
    // Who may change other settings may not change the schema.
    let user = format!("cn=u,{SUFFIX}");
    let add = |root: &mut Client, name: &str, privileges: &[&str]| {
        let entry: [(&str, &[&str]); 4] = [
            ("objectClass", &["person"]),
            ("sn", &["u"]),
            ("userPassword", &["secret-1"]),
            ("ds-privilege-name", privileges),
        ];
        assert_eq!(root.add(name, &entry), OK);
    };
    add(&mut root, &user, &["config-read", "config-write"]);
    let mut client = served.client();
    assert_eq!(client.bind(&user, "secret-1"), OK);
    let answer = modify(&mut client, &["syntax: reject"]);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    drop(client);
    let other = format!("cn=v,{SUFFIX}");
    add(&mut root, &other, &["config-read", "config-write", "update-schema"]);
    let mut client = served.client();
    assert_eq!(client.bind(&other, "secret-1"), OK);
    accepts(&modify(&mut client, &["syntax: reject"]));
    // They are there after a restart.
    drop((root, client));
    let served = served.reopen();
    assert_eq!(read(&mut served.root()).unwrap(), ["required: accept", "syntax: reject"]);
}

#[test]
fn who_may_not_make_a_change_learns_no_rule() {
    let (served, mut root) = served();
    modes(&mut root, &["name-form: reject", "structure-rule: reject"]);
    accepts(&unit(&mut root, "ou=a"));
    let user = format!("uid=u,ou=a,{SUFFIX}");
    accepts(&person(&mut root, "uid=u,ou=a"));
    let password = &[(Add, "userPassword", &["secret-1"][..])];
    assert_eq!(root.modify(&user, password), OK);
    let mut client = served.client();
    assert_eq!(client.bind(&user, "secret-1"), OK);
    for name in ["cn=b,ou=a", "uid=b"] {
        let answer = person(&mut client, name);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
    }
    let answer = client.try_rename(&user, "cn=b", false, None);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
}
