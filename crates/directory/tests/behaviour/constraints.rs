//! Constraints: what values must be like beyond the schema, and that no two entries have the same.

use std::sync::{Arc, Barrier};
use std::thread;

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const CONFIG: &str = "cn=Constraints,cn=config";
const MONITOR: &str = "cn=Constraints,cn=monitor";

/// Has the constraint hold from now on.
#[track_caller]
fn put(root: &mut Client, text: &str) {
    let answer = root.try_modify(CONFIG, &[(ModifyOperation::Add, "roster-constraint", &[text])]);
    assert_eq!(answer.code(), ResultCode::Success, "{text}: {}", answer.diagnostic);
}

fn refused_put(root: &mut Client, text: &str) -> (ResultCode, String) {
    let answer = root.try_modify(CONFIG, &[(ModifyOperation::Add, "roster-constraint", &[text])]);
    (answer.code(), answer.diagnostic)
}

fn name(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

fn person(root: &mut Client, name: &str, more: &[(&str, &[&str])]) -> Answer {
    let of_all: [(&str, &[&str]); 3] =
        [("objectClass", &["inetOrgPerson"]), ("cn", &["Anna"]), ("sn", &["Ekström"])];
    root.try_add(name, &[&of_all[..], more].concat())
}

/// People and guests below the suffix.
fn served() -> (Served, Client) {
    let served = Served::new();
    let mut root = served.root();
    for unit in ["people", "guests"] {
        let unit = format!("ou={unit},{SUFFIX}");
        assert_eq!(root.add(&unit, &[("objectClass", &["organizationalUnit"])]), OK);
    }
    (served, root)
}

const OK: ResultCode = ResultCode::Success;
const REFUSED: ResultCode = ResultCode::ConstraintViolation;

#[track_caller]
fn refuses(answer: &Answer, why: &str) {
    assert_eq!(answer.code(), REFUSED, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains(why), "'{}' lacks '{why}'", answer.diagnostic);
}

#[test]
fn values_are_as_their_constraints_say() {
    let (_served, mut root) = served();
    put(&mut root, r"phone: pattern telephoneNumber /\+[0-9 ]{6,20}/");
    put(&mut root, "kinds: values employeeType (Staff|Contractor)");
    put(&mut root, "names: length givenName 2..8");
    put(&mut root, "mails: count mail 1..2 where (employeeType=staff)");
    put(&mut root, "plain: ascii uid,title below ou=people,dc=example,dc=org");
    for (attribute, value, why) in [
        (
            "telephoneNumber",
            "12345678",
            r"a value of 'telephoneNumber' does not match /\+[0-9 ]{6,20}/",
        ),
        ("telephoneNumber", "+1234567 x", "constraint 'phone': "),
        ("employeeType", "guest", "is none of: Staff, Contractor"),
        ("givenName", "A", "must have 2 to 8 characters, not 1"),
        ("givenName", "Ææææææææææ", "must have 2 to 8 characters, not 10"),
        ("title", "Köchin", "a value of 'title' has other characters than ASCII has"),
        ("employeeType", "STAFF", "'mail' must have 1 to 2 values, not 0"),
    ] {
        refuses(&person(&mut root, &name("a"), &[(attribute, &[value])]), why);
    }
    let fine: &[(&str, &[&str])] = &[
        ("telephoneNumber", &["+49 30 1234567"]),
        ("employeeType", &[" staff"]),
        ("givenName", &["Ææææææææ"]),
        ("mail", &["a@example.org"]),
    ];
    let answer = person(&mut root, &name("a"), fine);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    let mut change = |operation, attribute: &str, values: &[&str]| {
        root.try_modify(&name("a"), &[(operation, attribute, values)])
    };
    refuses(&change(ModifyOperation::Delete, "mail", &[]), "not 0");
    refuses(&change(ModifyOperation::Add, "mail", &["b@x", "c@x"]), "not 3");
    refuses(&change(ModifyOperation::Add, "title", &["Köchin"]), "'plain'");
    refuses(&change(ModifyOperation::Replace, "telephoneNumber", &["1"]), "'phone'");
    assert_eq!(change(ModifyOperation::Delete, "employeeType", &[]).code(), OK);
    assert_eq!(change(ModifyOperation::Delete, "mail", &[]).code(), OK);
    // A filter that becomes true is asked about what is there already.
    refuses(&change(ModifyOperation::Add, "employeeType", &["staff"]), "'mail' must have");
    // What was there before the constraint stays, and does not hinder other changes.
    assert_eq!(change(ModifyOperation::Add, "title", &["cook"]).code(), OK);
    put(&mut root, "short: length title ..2");
    let mut change = |operation, attribute: &str, values: &[&str]| {
        root.try_modify(&name("a"), &[(operation, attribute, values)])
    };
    assert_eq!(change(ModifyOperation::Add, "title", &["ed"]).code(), OK);
    refuses(&change(ModifyOperation::Add, "title", &["editor"]), "at most 2 characters");
    // Elsewhere it does not hold; whoever moves there is asked.
    let guest = format!("uid=g,ou=guests,{SUFFIX}");
    assert_eq!(person(&mut root, &guest, &[("title", &["Ö"])]).code(), OK);
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.rename(&guest, "uid=g", true, Some(&people)), REFUSED);
}

#[test]
fn no_two_entries_have_the_same() {
    let (_served, mut root) = served();
    put(&mut root, "mails: unique mail below ou=people,dc=example,dc=org where (sn=*)");
    let add = |root: &mut Client, name: &str, mail: &str| person(root, name, &[("mail", &[mail])]);
    assert_eq!(add(&mut root, &name("a"), "a@example.org").code(), OK);
    let why = format!("constraint 'mails': {} has this value of 'mail' already", name("a"));
    refuses(&add(&mut root, &name("b"), "A@example.org"), &why);
    assert_eq!(add(&mut root, &name("b"), "b@example.org").code(), OK);
    let take = |root: &mut Client, operation| {
        root.try_modify(&name("b"), &[(operation, "mail", &["c@example.org", "a@example.org"])])
    };
    refuses(&take(&mut root, ModifyOperation::Add), &why);
    refuses(&take(&mut root, ModifyOperation::Replace), &why);
    // One's own is not another's.
    let own = &[(ModifyOperation::Replace, "mail", &["A@Example.org"][..])];
    assert_eq!(root.modify(&name("a"), own), OK);
    // Elsewhere there may be another one, that cannot come here; not by its superior either.
    let guest = format!("uid=g,ou=guests,{SUFFIX}");
    assert_eq!(add(&mut root, &guest, "a@example.org").code(), OK);
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.rename(&guest, "uid=g", true, Some(&people)), REFUSED);
    assert_eq!(
        root.rename(&format!("ou=guests,{SUFFIX}"), "ou=guests", true, Some(&people)),
        REFUSED
    );
    assert_eq!(root.delete(&name("a")), OK);
    // Two that come together.
    assert_eq!(add(&mut root, &format!("uid=h,ou=guests,{SUFFIX}"), "a@example.org").code(), OK);
    assert_eq!(
        root.rename(&format!("ou=guests,{SUFFIX}"), "ou=guests", true, Some(&people)),
        REFUSED
    );
    assert_eq!(root.delete(&guest), OK);
    assert_eq!(root.rename(&format!("ou=guests,{SUFFIX}"), "ou=guests", true, Some(&people)), OK);
    refuses(&add(&mut root, &name("a"), "a@example.org"), "uid=h,ou=guests,ou=people");
}

#[test]
fn values_are_unique_across_attributes_and_in_combination() {
    let (_served, mut root) = served();
    put(&mut root, "any: unique across mail,uid");
    put(&mut root, "both: unique combination givenName,sn");
    put(&mut root, "each: unique cn,telephoneNumber where (title=unique)");
    let a = person(&mut root, &name("a"), &[("mail", &["x"]), ("givenName", &["Eva", "Ida"])]);
    assert_eq!(a.code(), OK, "{}", a.diagnostic);
    refuses(&person(&mut root, &name("X"), &[]), "has this value of 'uid' already");
    refuses(&person(&mut root, &name("b"), &[("mail", &["A"])]), "value of 'mail'");
    refuses(&person(&mut root, &name("b"), &[("givenName", &["ida"])]), "'givenName' and 'sn'");
    assert_eq!(person(&mut root, &name("b"), &[("givenName", &["Ada"])]).code(), OK);
    let taken = root.try_modify(&name("b"), &[(ModifyOperation::Add, "givenName", &["Eva"])]);
    refuses(&taken, "'both'");
    // The other part of it may be what changes.
    assert_eq!(root.modify(&name("b"), &[(ModifyOperation::Replace, "sn", &["Berg"])]), OK);
    assert_eq!(root.modify(&name("b"), &[(ModifyOperation::Add, "givenName", &["Eva"])]), OK);
    let back = root.try_modify(&name("b"), &[(ModifyOperation::Replace, "sn", &["Ekström"])]);
    refuses(&back, "'both'");
    // A rename gives values, too.
    assert_eq!(root.rename(&name("b"), "uid=x", true, None), REFUSED);
    let title = [(ModifyOperation::Add, "title", &["unique"][..])];
    assert_eq!(root.modify(&name("a"), &title), OK);
    refuses(&root.try_modify(&name("b"), &title), "value of 'cn'");
}

#[test]
fn one_of_many_gets_a_value() {
    let (served, mut root) = served();
    put(&mut root, "mails: unique mail");
    let served = Arc::new(served);
    let all = 8;
    let begin = Arc::new(Barrier::new(all));
    let threads: Vec<_> = (0..all)
        .map(|number| {
            let (served, begin) = (Arc::clone(&served), Arc::clone(&begin));
            thread::spawn(move || {
                let mut root = served.root();
                let mut count = 0;
                for round in 0..20 {
                    begin.wait();
                    let mail = format!("{round}@example.org");
                    let added = person(
                        &mut root,
                        &name(&format!("r{round}n{number}")),
                        &[("mail", &[&mail])],
                    );
                    count += usize::from(added.code() == OK);
                }
                count
            })
        })
        .collect();
    let added: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(added, 20);
}

#[test]
fn constraints_are_checked_themselves() {
    let (_served, mut root) = served();
    for (text, code, why) in [
        ("a: unique", ResultCode::InvalidAttributeSyntax, "is no attribute"),
        ("a: unique userPassword", ResultCode::InvalidAttributeSyntax, "is secret"),
        (
            "a: unique description",
            ResultCode::UnwillingToPerform,
            "roster index add 'equality description'",
        ),
        ("a: unique mail,description", ResultCode::UnwillingToPerform, "'description' has no"),
        ("a: unique combination street,description", ResultCode::UnwillingToPerform, "has no"),
    ] {
        let (found, diagnostic) = refused_put(&mut root, text);
        assert_eq!(found, code, "{text}: {diagnostic}");
        assert!(diagnostic.contains(why), "{text}: {diagnostic}");
    }
    put(&mut root, "a: unique combination mail,description");
    let (code, why) = refused_put(&mut root, "A: ascii mail");
    assert_eq!(code, ResultCode::AttributeOrValueExists, "{why}");
    // Its index stays as long as it does.
    let index = "ds-cfg-attribute=mail,cn=Index,cn=config";
    let drop = root.request(
        ldap::message::Request::Delete(ldap::message::DeleteRequest { name: index }),
        ldap::message::Controls::EMPTY,
    );
    assert_eq!(drop.code(), ResultCode::UnwillingToPerform);
    assert!(drop.diagnostic.contains("constraint 'a' looks values up"), "{}", drop.diagnostic);
    assert_eq!(root.modify(CONFIG, &[(ModifyOperation::Replace, "roster-constraint", &[])]), OK);
    assert_eq!(root.delete(index), OK);
}

#[test]
fn who_breaks_them_already_is_listed() {
    let (_served, mut root) = served();
    for (uid, mail) in [("a", "x@example.org"), ("b", "X@example.org"), ("c", "c@example.org")] {
        assert_eq!(person(&mut root, &name(uid), &[("mail", &[mail])]).code(), OK);
    }
    put(&mut root, "mails: unique mail below ou=people,dc=example,dc=org");
    put(&mut root, "names: length cn 5..");
    let attributes = &[
        "roster-constraint-looked-at",
        "roster-constraint-violations",
        "roster-constraint-violation",
    ];
    let asked = Asked { base: MONITOR, scope: Scope::One, attributes, ..Asked::default() };
    // Nobody looks at all entries because a monitor asks for everything.
    let all = root.search(&Asked { attributes: &["*", "+"], ..asked });
    assert!(all.entries.iter().all(|one| one.texts("roster-constraint-looked-at").is_empty()));
    let found = root.search(&asked);
    assert_eq!(found.names(), [format!("cn=mails,{MONITOR}"), format!("cn=names,{MONITOR}")]);
    let texts =
        |at: usize, name: &str| found.entries[at].texts(&format!("roster-constraint-{name}"));
    assert_eq!(texts(0, "looked-at"), ["4"]);
    assert_eq!(texts(0, "violations"), ["2"]);
    let line = |one: &str, other: &str| {
        format!("{}: its value of 'mail' is also that of {}", name(one), name(other))
    };
    assert_eq!(texts(0, "violation"), [line("a", "b"), line("b", "a")]);
    assert_eq!(texts(1, "violations"), ["3"]);
    assert!(texts(1, "violation")[0].ends_with("must have at least 5 characters, not 4"));
    // They may be changed still, and mended.
    assert_eq!(root.modify(&name("b"), &[(ModifyOperation::Replace, "title", &["x"])]), OK);
    assert_eq!(root.modify(&name("b"), &[(ModifyOperation::Delete, "mail", &[])]), OK);
    let found = root.search(&asked);
    assert_eq!(found.entries[0].texts("roster-constraint-violations"), ["0"]);
}

#[test]
fn who_may_not_see_an_entry_is_not_told_which_one_has_a_value() {
    let (served, mut root) = served();
    put(&mut root, "mails: unique mail");
    let none = &[(ModifyOperation::Replace, "ds-cfg-global-aci", &[][..])];
    assert_eq!(root.modify("cn=Access Control Handler,cn=config", none), OK);
    let aci = "(targetattr=\"mail\")(version 3.0;acl \"own\";allow(write,read,search) \
               userdn=\"ldap:///self\";)";
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.modify(&people, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    for (uid, mail) in [("a", "a@example.org"), ("b", "b@example.org")] {
        let more: &[(&str, &[&str])] = &[("mail", &[mail]), ("userPassword", &["secret"])];
        assert_eq!(person(&mut root, &name(uid), more).code(), OK);
    }
    let mut anna = served.client();
    assert_eq!(anna.bind(&name("a"), "secret"), OK);
    let replace = |who: &mut Client, of: &str| {
        who.try_modify(&name(of), &[(ModifyOperation::Replace, "mail", &["b@example.org"])])
    };
    let answer = replace(&mut anna, "a");
    refuses(&answer, "constraint 'mails': another entry has this value of 'mail' already");
    // Without the right nothing is told at all.
    let other = root.try_modify(&name("b"), &[(ModifyOperation::Replace, "mail", &["c@x"])]);
    assert_eq!(other.code(), OK);
    for value in ["a@example.org", "nobody@example.org"] {
        let answer = anna.try_modify(&name("b"), &[(ModifyOperation::Replace, "mail", &[value])]);
        assert_ne!(answer.code(), REFUSED, "{}", answer.diagnostic);
        assert_ne!(answer.code(), OK);
        let added = person(&mut anna, &name("n"), &[("mail", &[value])]);
        assert_ne!(added.code(), REFUSED, "{}", added.diagnostic);
        assert_ne!(added.code(), OK);
    }
    // Nor may others read or change the constraints.
    let asked = Asked { base: CONFIG, scope: Scope::Base, ..Asked::default() };
    assert_eq!(anna.search(&asked).code(), ResultCode::NoSuchObject);
    assert_ne!(refused_put(&mut anna, "x: ascii mail").0, OK);
}

#[test]
fn superior_classes_and_all_values_of_a_large_entry_count() {
    let (_served, mut root) = served();
    put(&mut root, "people: length title ..3 where (objectClass=person)");
    // Only inetOrgPerson was sent.
    refuses(&person(&mut root, &name("a"), &[("title", &["editor"])]), "'people'");
    put(&mut root, "many: count description ..3000");
    put(&mut root, "marked: count l 1.. where (description=value 7 *)");
    let long = "x".repeat(60);
    let values: Vec<String> = (0..3000).map(|at| format!("value {at} {long}")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let more: &[(&str, &[&str])] = &[("description", &values), ("l", &["Paris"])];
    assert_eq!(person(&mut root, &name("b"), more).code(), OK);
    let add = [(ModifyOperation::Add, "description", &["one more"][..])];
    refuses(&root.try_modify(&name("b"), &add), "not 3001");
    let delete = [(ModifyOperation::Delete, "l", &[][..])];
    refuses(&root.try_modify(&name("b"), &delete), "'marked'");
    let less = [
        (ModifyOperation::Delete, "description", &values[..10]),
        (ModifyOperation::Delete, "l", &[][..]),
        (ModifyOperation::Add, "description", &["one more"][..]),
    ];
    let answer = root.try_modify(&name("b"), &less);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
}

#[test]
fn what_comes_together_with_its_superior_is_checked() {
    let (_served, mut root) = served();
    let people = format!("ou=people,{SUFFIX}");
    put(&mut root, "mails: unique mail below ou=people,dc=example,dc=org");
    // The topmost and one below it.
    let (top, kid) =
        (format!("uid=t,ou=guests,{SUFFIX}"), format!("uid=k,uid=t,ou=guests,{SUFFIX}"));
    for name in [&top, &kid] {
        assert_eq!(person(&mut root, name, &[("mail", &["t@x"])]).code(), OK);
    }
    assert_eq!(root.rename(&top, "uid=t", true, Some(&people)), REFUSED);
    // The value that comes with the new name counts.
    put(&mut root, "names: unique cn below ou=people,dc=example,dc=org");
    let cn = [(ModifyOperation::Replace, "cn", &["Kid"][..])];
    assert_eq!(root.modify(&kid, &cn), OK);
    assert_eq!(root.modify(&kid, &[(ModifyOperation::Delete, "mail", &[])]), OK);
    assert_eq!(root.rename(&top, "cn=kid", false, Some(&people)), REFUSED);
    assert_eq!(root.rename(&top, "uid=t", true, Some(&people)), OK);
    // A place where a constraint holds may come to be by a rename above it.
    put(&mut root, "short: length mail ..3 below ou=in,ou=new,dc=example,dc=org");
    for unit in ["ou=old", "ou=in,ou=old", "ou=out,ou=old"] {
        let unit = format!("{unit},{SUFFIX}");
        assert_eq!(root.add(&unit, &[("objectClass", &["organizationalUnit"])]), OK);
    }
    let old = format!("ou=old,{SUFFIX}");
    let long = format!("uid=l,ou=out,{old}");
    assert_eq!(person(&mut root, &long, &[("mail", &["long@x"])]).code(), OK);
    assert_eq!(root.rename(&old, "ou=new", true, None), OK);
    assert_eq!(root.rename(&format!("ou=new,{SUFFIX}"), "ou=old", true, None), OK);
    let long = format!("uid=l,ou=in,{old}");
    assert_eq!(person(&mut root, &long, &[("mail", &["long@x"])]).code(), OK);
    assert_eq!(root.rename(&old, "ou=new", true, None), REFUSED);
}

#[test]
fn what_is_hidden_of_an_entry_is_not_told_when_it_breaks_a_constraint() {
    let (served, mut root) = served();
    put(&mut root, "phones: count telephoneNumber ..1 where (title=trap)");
    let none = &[(ModifyOperation::Replace, "ds-cfg-global-aci", &[][..])];
    assert_eq!(root.modify("cn=Access Control Handler,cn=config", none), OK);
    let aci = "(targetattr=\"title\")(version 3.0;acl \"own\";allow(write,read,search) \
               userdn=\"ldap:///self\";)";
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.modify(&people, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    let more: &[(&str, &[&str])] =
        &[("telephoneNumber", &["1", "2", "3"]), ("userPassword", &["secret"])];
    assert_eq!(person(&mut root, &name("a"), more).code(), OK);
    let mut anna = served.client();
    assert_eq!(anna.bind(&name("a"), "secret"), OK);
    let trap = [(ModifyOperation::Replace, "title", &["trap"][..])];
    let answer = anna.try_modify(&name("a"), &trap);
    refuses(&answer, "constraint 'phones': an entry would break it by values that are hidden");
    refuses(&root.try_modify(&name("a"), &trap), "at most 1 value, not 3");
}

#[test]
fn one_change_looks_at_a_limited_number_of_entries() {
    let (_served, mut root) = served();
    // All of them have the first value, and the second has no index.
    put(&mut root, "both: unique combination cn,description");
    for at in 0..60 {
        let more: &[(&str, &[&str])] = &[("description", &[&at.to_string()])];
        assert_eq!(person(&mut root, &name(&at.to_string()), more).code(), OK);
    }
    let values: Vec<String> = (100..300).map(|at| at.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let add = [(ModifyOperation::Add, "description", &values[..])];
    let answer = root.try_modify(&name("0"), &add);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("more than 10000 entries"), "{}", answer.diagnostic);
    let few = [(ModifyOperation::Add, "description", &values[..50])];
    assert_eq!(root.modify(&name("0"), &few), OK);
}

#[test]
fn a_rename_does_not_take_a_constraint_its_place() {
    let (served, mut root) = served();
    put(&mut root, "mails: unique mail below ou=people,dc=example,dc=org");
    let aci = "(targetattr=\"*\")(version 3.0;acl \"all\";allow(all,import,export) \
               userdn=\"ldap:///all\";)";
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    assert_eq!(person(&mut root, &name("a"), &[("userPassword", &["secret"])]).code(), OK);
    let mut anna = served.client();
    assert_eq!(anna.bind(&name("a"), "secret"), OK);
    let (people, guests) = (format!("ou=people,{SUFFIX}"), format!("ou=guests,{SUFFIX}"));
    assert_eq!(anna.rename(&guests, "ou=visitors", true, None), OK);
    assert_eq!(
        anna.rename(&people, "ou=persons", true, None),
        ResultCode::InsufficientAccessRights
    );
    assert_eq!(root.rename(&people, "ou=persons", true, None), OK);
}

#[test]
fn values_name_entries_that_are_there() {
    let (_served, mut root) = served();
    assert_eq!(person(&mut root, &name("a"), &[("manager", &[&name("nobody")])]).code(), OK);
    put(&mut root, "real: exists manager,owner");
    let text = "real2: exists description";
    let answer = root.try_modify(CONFIG, &[(ModifyOperation::Add, "roster-constraint", &[text])]);
    assert!(answer.diagnostic.contains("no names of entries"), "{}", answer.diagnostic);
    let mut change = |operation, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|one| name(one)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        root.try_modify(&name("a"), &[(operation, "manager", &values)])
    };
    refuses(&change(ModifyOperation::Add, &["none"]), "a value of 'manager' names no entry");
    assert_eq!(change(ModifyOperation::Add, &["a"]).code(), OK);
    // What was there before stays until it changes.
    assert_eq!(change(ModifyOperation::Delete, &["nobody"]).code(), OK);
    // An entry may name itself from the beginning; whoever is deleted is named no more.
    let answer = person(&mut root, &name("b"), &[("manager", &[&name("a"), &name("b")])]);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    refuses(&person(&mut root, &name("c"), &[("manager", &[&name("none")])]), "'real'");
    assert_eq!(root.delete(&name("a")), OK);
    let answer = root.try_modify(&name("b"), &[(ModifyOperation::Add, "manager", &[&name("c")])]);
    refuses(&answer, "names no entry");
}
