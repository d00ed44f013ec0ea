//! The join control: with an entry come others that have to do with it.

use ldap::ber::{Reader, Tag};
use ldap::control_value::join::{EntryJoin, JoinAssertion, JoinBase, JoinRule, OID};
use ldap::filter::Filter;
use ldap::message::{DerefAliases, ModifyOperation, Scope, StringsBuf};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;

fn dn(name: &str) -> String {
    format!("{name},{SUFFIX}")
}

fn equality(source: &'static str, target: &'static str, match_all: bool) -> JoinRule<'static> {
    JoinRule::Equality(JoinAssertion { source, target, match_all })
}

/// Joins with anything below the suffix, and wants no attributes.
fn join<'a>(rule: JoinRule<'a>, base: &'a str, none: &'a StringsBuf) -> EntryJoin<'a> {
    EntryJoin {
        rule,
        base: JoinBase::Custom(base),
        scope: Some(Scope::Subtree),
        deref: None,
        size_limit: None,
        filter: None,
        attributes: Some(none.as_ref()),
        require_match: false,
        nested: None,
    }
}

fn no_attributes() -> StringsBuf {
    let mut none = StringsBuf::new();
    none.push("1.1");
    none
}

fn entries(mut list: Reader<'_>) -> String {
    let mut all = Vec::new();
    while !list.is_empty() {
        let mut entry = list.sequence(Tag::SEQUENCE).unwrap();
        let name = entry.string(Tag::OCTET_STRING).unwrap();
        let mut text = name.trim_end_matches(&format!(",{SUFFIX}")).to_owned();
        let mut attributes = entry.sequence(Tag::SEQUENCE).unwrap();
        while !attributes.is_empty() {
            let mut attribute = attributes.sequence(Tag::SEQUENCE).unwrap();
            text += &format!(" {}", attribute.string(Tag::OCTET_STRING).unwrap());
            let mut values = attribute.sequence(Tag::SET).unwrap();
            while !values.is_empty() {
                text += &format!("={}", values.string(Tag::OCTET_STRING).unwrap());
            }
        }
        if !entry.is_empty() {
            text += &format!(" ({})", entries(entry.sequence(Tag::SEQUENCE).unwrap()));
        }
        entry.end().unwrap();
        all.push(text);
    }
    all.sort();
    all.join(", ")
}

/// How a join ended, and the entries.
fn told(value: &[u8]) -> (ResultCode, String) {
    let mut reader = Reader::new(value);
    let mut fields = reader.sequence(Tag::SEQUENCE).unwrap();
    reader.end().unwrap();
    let code = fields.enumerated(Tag::ENUMERATED).unwrap();
    assert_eq!(fields.octets(Tag::OCTET_STRING), Ok(&b""[..]));
    fields.string(Tag::OCTET_STRING).unwrap();
    let list = fields.sequence(Tag::context(4, true)).unwrap();
    fields.end().unwrap();
    (ResultCode::from_wire(code), entries(list))
}

fn search(client: &mut Client, base: &str, filter: &str, asked: &EntryJoin<'_>) -> Answer {
    let value = asked.encode();
    let controls = &[(OID, true, Some(&*value))][..];
    let scope = if filter == "(objectClass=*)" { Scope::Base } else { Scope::Subtree };
    let asked = Asked { base, scope, filter, attributes: &["1.1"], controls, ..Asked::default() };
    client.search(&asked)
}

/// What comes with one entry.
#[track_caller]
fn joined(client: &mut Client, name: &str, asked: &EntryJoin<'_>) -> (ResultCode, String) {
    let answer = search(client, &dn(name), "(objectClass=*)", asked);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    assert_eq!((answer.entries.len(), answer.controls.len()), (1, 1));
    assert_eq!(answer.controls[0].0, OID);
    told(&answer.controls[0].1)
}

#[track_caller]
fn check(client: &mut Client, name: &str, asked: &EntryJoin<'_>, want: &str) {
    assert_eq!(joined(client, name, asked), (OK, want.to_owned()), "{:?}", asked.rule);
}

type Attribute<'a> = (&'a str, &'a [&'a str]);

fn person<'a>(name: &str, more: &[Attribute<'a>]) -> (String, Vec<Attribute<'a>>) {
    let all: [Attribute<'a>; 3] =
        [("objectClass", &["inetOrgPerson"]), ("sn", &["x"]), ("userPassword", &["secret phrase"])];
    (dn(&format!("cn={name}")), [&all[..], more].concat())
}

/// Anna, whose manager is Bob; Carl is in one of her departments, and Dora in both.
fn served() -> Served {
    let served = Served::new();
    let mut root = served.root();
    let bob = dn("cn=bob");
    for (name, attributes) in [
        person("bob", &[("departmentNumber", &["9"]), ("description", &["reads 12 books"])]),
        person(
            "anna",
            &[("manager", &[&bob]), ("departmentNumber", &["1", "2"]), ("title", &["12"])],
        ),
        person("carl", &[("manager", &[&bob]), ("departmentNumber", &["2"])]),
        person("dora", &[("departmentNumber", &["1", "2", "3"]), ("secretary", &[&bob])]),
    ] {
        assert_eq!(root.add(&name, &attributes), OK, "{name}");
    }
    served
}

#[test]
fn each_rule_joins() {
    let served = served();
    let mut root = served.root();
    let none = no_attributes();
    let mut check = |name: &str, rule: JoinRule<'_>, want: &str| {
        check(&mut root, name, &join(rule, SUFFIX, &none), want);
    };
    check("cn=anna", JoinRule::Dn("manager"), "cn=bob");
    check("cn=bob", JoinRule::Dn("manager"), "");
    check("cn=bob", JoinRule::ReverseDn("manager"), "cn=anna, cn=carl");
    let department = |all| equality("departmentNumber", "departmentNumber", all);
    check("cn=anna", department(false), "cn=anna, cn=carl, cn=dora");
    check("cn=anna", department(true), "cn=anna, cn=dora");
    check("cn=anna", equality("title", "departmentNumber", true), "");
    // Without values nothing is joined, with all of them either.
    check("cn=dora", equality("title", "title", true), "");
    let contains = JoinAssertion { source: "title", target: "description", match_all: false };
    check("cn=anna", JoinRule::Contains(contains), "cn=bob");
    let secretary = JoinRule::ReverseDn("secretary");
    let manager = JoinRule::ReverseDn("manager");
    check("cn=bob", JoinRule::Or(vec![secretary.clone(), manager]), "cn=anna, cn=carl, cn=dora");
    let both = JoinRule::And(vec![JoinRule::Dn("manager"), department(false)]);
    check("cn=carl", both, "");
    let own = JoinRule::Or(vec![
        JoinRule::And(vec![department(true), JoinRule::ReverseDn("secretary")]),
        JoinRule::And(vec![JoinRule::Or(vec![JoinRule::Dn("manager"), secretary])]),
    ]);
    check("cn=carl", own, "cn=bob");
}

#[test]
fn what_is_joined_is_as_the_request_says() {
    let served = served();
    let mut root = served.root();
    let none = no_attributes();
    let people = || join(JoinRule::ReverseDn("manager"), SUFFIX, &none);
    let filter = Some(Filter::parse("(departmentNumber=1)").unwrap());
    check(&mut root, "cn=bob", &EntryJoin { filter, ..people() }, "cn=anna");
    let mut names = StringsBuf::new();
    names.push("title");
    names.push("DEPARTMENTNUMBER");
    let wanted = EntryJoin { attributes: Some(names.as_ref()), ..people() };
    let want = "cn=anna departmentNumber=1=2 title=12, cn=carl departmentNumber=2";
    check(&mut root, "cn=bob", &wanted, want);
    let limited = EntryJoin { size_limit: Some(1), ..people() };
    let got = joined(&mut root, "cn=bob", &limited);
    assert_eq!(got, (ResultCode::SizeLimitExceeded, "cn=anna".to_owned()));
    let exact = EntryJoin { size_limit: Some(2), ..people() };
    check(&mut root, "cn=bob", &exact, "cn=anna, cn=carl");
    // Where they are looked for.
    for (base, scope, want) in [
        (JoinBase::Source, Scope::Subtree, ""),
        (JoinBase::Search, Scope::Subtree, ""),
        (JoinBase::Custom(SUFFIX), Scope::One, "cn=anna, cn=carl"),
        (JoinBase::Custom(SUFFIX), Scope::Base, ""),
        (JoinBase::Custom("cn=anna,dc=example,dc=org"), Scope::Base, "cn=anna"),
        (JoinBase::Custom("cn=anna,dc=example,dc=org"), Scope::Subordinate, ""),
        (JoinBase::Custom(""), Scope::Subordinate, "cn=anna, cn=carl"),
    ] {
        let asked = EntryJoin { base, scope: Some(scope), ..people() };
        check(&mut root, "cn=bob", &asked, want);
    }
    let nowhere = EntryJoin { base: JoinBase::Custom("cn=no,dc=example,dc=org"), ..people() };
    let got = joined(&mut root, "cn=bob", &nowhere);
    assert_eq!(got, (ResultCode::NoSuchObject, String::new()));
    // One in the other.
    let inner = join(equality("departmentNumber", "departmentNumber", false), SUFFIX, &none);
    let nested = EntryJoin { nested: Some(Box::new(inner.clone())), ..people() };
    let want = "cn=anna (cn=anna, cn=carl, cn=dora), cn=carl (cn=anna, cn=carl, cn=dora)";
    check(&mut root, "cn=bob", &nested, want);
    let title = join(equality("title", "title", false), SUFFIX, &none);
    let title = EntryJoin { require_match: true, ..title };
    let nested = EntryJoin { nested: Some(Box::new(title)), ..people() };
    check(&mut root, "cn=bob", &nested, "cn=anna (cn=anna)");
}

#[test]
fn an_entry_that_joins_none_may_be_unwanted() {
    let served = served();
    let mut root = served.root();
    let none = no_attributes();
    let asked = join(JoinRule::Dn("manager"), SUFFIX, &none);
    let all = search(&mut root, SUFFIX, "(cn=*)", &asked);
    assert_eq!((all.entries.len(), all.controls.len()), (4, 4));
    let asked = EntryJoin { require_match: true, ..asked };
    let some = search(&mut root, SUFFIX, "(cn=*)", &asked);
    assert_eq!(some.code(), OK);
    assert_eq!(some.names(), [dn("cn=anna"), dn("cn=carl")]);
    // The size limit of the search is about those that are sent.
    let value = asked.encode();
    let controls = &[(OID, true, Some(&*value))][..];
    for (size_limit, want) in [(2, OK), (1, ResultCode::SizeLimitExceeded)] {
        let asked = Asked {
            base: SUFFIX,
            filter: "(cn=*)",
            controls,
            size_limit_entries: size_limit,
            ..Asked::default()
        };
        let answer = root.search(&asked);
        assert_eq!(answer.code(), want, "{size_limit}");
        assert_eq!(answer.entries.len(), usize::try_from(size_limit).unwrap());
    }
}

#[test]
fn nothing_is_joined_that_a_search_would_not_find() {
    let served = served();
    let mut root = served.root();
    let none = no_attributes();
    let rules = [
        "(targetattr=\"*\")(version 3.0; acl \"a\"; allow (read, search) \
         userdn=\"ldap:///all\";)",
        "(targetattr=\"manager || description\")(version 3.0; acl \"b\"; deny (search) \
         userdn=\"ldap:///all\";)",
        "(targetattr=\"secretary || sn\")(version 3.0; acl \"d\"; deny (read) \
         userdn=\"ldap:///all\";)",
    ];
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &rules)]), OK);
    let hide = "(targetattr=\"* || +\")(version 3.0; acl \"c\"; deny (all) \
                userdn=\"ldap:///all\";)";
    assert_eq!(root.modify(&dn("cn=dora"), &[(ModifyOperation::Add, "aci", &[hide])]), OK);
    let mut anna = served.client();
    assert_eq!(anna.bind(&dn("cn=anna"), "secret phrase"), OK);
    let mut check = |name: &str, rule: JoinRule<'_>, want: &str| {
        check(&mut anna, name, &join(rule, SUFFIX, &none), want);
    };
    // Dora is hidden; so is who has a secretary, and what the secretary is.
    let department = equality("departmentNumber", "departmentNumber", false);
    check("cn=anna", department, "cn=anna, cn=carl");
    check("cn=anna", JoinRule::Dn("secretary"), "");
    check("cn=anna", JoinRule::Dn("manager"), "cn=bob");
    // What may be read and not searched is followed, and not found.
    check("cn=bob", JoinRule::ReverseDn("manager"), "");
    let contains = JoinAssertion { source: "title", target: "description", match_all: false };
    check("cn=anna", JoinRule::Contains(contains), "");
    let names = StringsBuf::new();
    let all = EntryJoin {
        attributes: Some(names.as_ref()),
        ..join(JoinRule::Dn("manager"), SUFFIX, &none)
    };
    let (code, found) = joined(&mut anna, "cn=anna", &all);
    assert_eq!(code, OK);
    assert!(found.contains("departmentNumber=9") && !found.contains("sn="), "{found}");
    let hidden = dn("cn=dora");
    let of_base = Asked { base: &hidden, scope: Scope::Base, ..Asked::default() };
    assert_eq!(anna.search(&of_base).code(), ResultCode::NoSuchObject);
    let below = join(JoinRule::Dn("manager"), &hidden, &none);
    assert_eq!(joined(&mut anna, "cn=anna", &below).0, ResultCode::NoSuchObject);
}

#[test]
fn what_no_join_can_be_is_refused() {
    let served = served();
    let mut root = served.root();
    let none = no_attributes();
    let mut refused =
        |asked: &EntryJoin<'_>| search(&mut root, &dn("cn=anna"), "(objectClass=*)", asked).code();
    let of = |rule| join(rule, SUFFIX, &none);
    assert_eq!(refused(&of(JoinRule::Dn("nonsense"))), ResultCode::UndefinedAttributeType);
    assert_eq!(refused(&of(JoinRule::Dn("title"))), ResultCode::InappropriateMatching);
    assert_eq!(refused(&of(JoinRule::ReverseDn("cn"))), ResultCode::InappropriateMatching);
    let by = || of(JoinRule::Dn("manager"));
    let deref = EntryJoin { deref: Some(DerefAliases::Always), ..by() };
    assert_eq!(refused(&deref), ResultCode::UnwillingToPerform);
    let never = EntryJoin { deref: Some(DerefAliases::Never), ..by() };
    assert_eq!(refused(&never), OK);
    let base = EntryJoin { base: JoinBase::Custom("no name"), ..by() };
    assert_eq!(refused(&base), ResultCode::InvalidDnSyntax);
    let chain = Filter::parse("(manager:1.2.840.113556.1.4.1941:=cn=bob)").unwrap();
    let chain = EntryJoin { filter: Some(chain), ..by() };
    assert_eq!(refused(&chain), ResultCode::UnwillingToPerform);
    let controls = &[(OID, true, Some(&b"\x30\x00"[..]))][..];
    let asked = Asked { base: SUFFIX, controls, ..Asked::default() };
    assert_eq!(root.search(&asked).code(), ResultCode::ProtocolError);
}

#[test]
fn a_join_that_no_index_helps_and_one_with_too_many_values_say_so() {
    let served = Served::with(|options| options.limits.unindexed_entries = 3);
    let mut root = served.root();
    let rule = "(targetattr=\"*\")(version 3.0; acl \"a\"; allow (read, search) \
                userdn=\"ldap:///all\";)";
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[rule])]), OK);
    let numbers: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    for (name, numbers) in [("cn=a", &numbers[..]), ("cn=b", &["1"]), ("cn=c", &["2"])] {
        let person: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("sn", &["x"]),
            ("description", &["x"]),
            ("departmentNumber", numbers),
            ("userPassword", &["secret phrase"]),
        ];
        assert_eq!(root.add(&dn(name), person), OK);
    }
    let none = no_attributes();
    let text = join(equality("description", "description", false), SUFFIX, &none);
    let mut user = served.client();
    assert_eq!(user.bind(&dn("cn=b"), "secret phrase"), OK);
    let got = joined(&mut user, "cn=b", &text);
    assert_eq!(got, (ResultCode::UnwillingToPerform, String::new()));
    check(&mut root, "cn=b", &text, "cn=a, cn=b, cn=c");
    let number = join(equality("departmentNumber", "departmentNumber", false), SUFFIX, &none);
    let got = joined(&mut root, "cn=a", &number);
    assert_eq!(got, (ResultCode::AdminLimitExceeded, String::new()));
    check(&mut root, "cn=b", &number, "cn=a, cn=b");
    // A base that is hidden is as one that is not there, however the join ends.
    let hide = "(targetattr=\"* || +\")(version 3.0; acl \"c\"; deny (all) \
                userdn=\"ldap:///all\";)";
    assert_eq!(root.modify(&dn("cn=c"), &[(ModifyOperation::Add, "aci", &[hide])]), OK);
    for base in [dn("cn=c"), dn("cn=no")] {
        for (name, asked) in [("cn=b", &text), ("cn=a", &number)] {
            let asked = EntryJoin { base: JoinBase::Custom(&base), ..asked.clone() };
            let got = joined(&mut user, name, &asked);
            assert_eq!(got, (ResultCode::NoSuchObject, String::new()), "{base} {name}");
        }
    }
}
