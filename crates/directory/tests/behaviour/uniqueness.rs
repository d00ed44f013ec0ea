//! The uniqueness control: an update is carried out only if no other entry has the same, and
//! whoever asks learns nothing by it that a search would not tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::{Clock, Timestamp};
use ldap::control_value::uniqueness::{
    RESPONSE_OID, SeveralAttributes, UniquenessRequest, UniquenessResponse, ValidationLevel,
};
use ldap::filter::Filter;
use ldap::message::{
    AddRequest, Control, ControlsBuf, DeleteRequest, ExtendedRequest, ModifyDnRequest,
    ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::support::cluster::Cluster;
use crate::support::{Answer, Asked, Client, START, SUFFIX, Served, add_attributes, modifications};

const UNIQUENESS: &str = "1.3.6.1.4.1.30221.2.5.52";
const OK: ResultCode = ResultCode::Success;
const TAKEN: ResultCode = ResultCode::AssertionFailed;

/// `{ [0] "u", [1] { mail } }`, octet by octet as the SDK of UnboundID sends it.
const MAIL: &[u8] = b"\x30\x0b\x80\x01u\xa1\x06\x04\x04mail";

fn name(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

fn controls(values: &[&[u8]]) -> ControlsBuf {
    let mut list = ControlsBuf::new();
    for value in values {
        list.push(Control { oid: UNIQUENESS, critical: true, value: Some(value) });
    }
    list
}

/// Adds a person under these controls.
fn add(client: &mut Client, uid: &str, more: &[(&str, &[&str])], values: &[&[u8]]) -> Answer {
    let of_all: [(&str, &[&str]); 3] =
        [("objectClass", &["inetOrgPerson"]), ("cn", &["Anna"]), ("sn", &["Ekström"])];
    let list = add_attributes(&[&of_all[..], more].concat());
    let add = AddRequest { name: &name(uid), attributes: list.as_ref() };
    client.request(Request::Add(add), controls(values).as_ref())
}

/// Adds values under these controls.
fn give(client: &mut Client, uid: &str, attribute: &str, given: &[&str], with: &[&[u8]]) -> Answer {
    let list = modifications(&[(ModifyOperation::Add, attribute, given)]);
    let modify = ModifyRequest { name: &name(uid), changes: list.as_ref() };
    client.request(Request::Modify(modify), controls(with).as_ref())
}

fn unique<'a>(attributes: &[&'a str], several: SeveralAttributes) -> UniquenessRequest<'a> {
    let attributes = attributes.to_vec();
    UniquenessRequest { attributes, several, ..UniquenessRequest::new(b"u") }
}

/// Two people below the suffix, with a mail address each.
fn served() -> (Served, Client) {
    let served = Served::new();
    let mut root = served.root();
    fill(&mut root);
    (served, root)
}

fn fill(root: &mut Client) {
    let unit = format!("ou=people,{SUFFIX}");
    assert_eq!(root.add(&unit, &[("objectClass", &["organizationalUnit"])]), OK);
    for uid in ["a", "b"] {
        let mail = format!("{uid}@example.org");
        let more: &[(&str, &[&str])] = &[("mail", &[&mail]), ("userPassword", &["secret"])];
        assert_eq!(add(root, uid, more, &[]).code(), OK);
    }
}

/// What the responses say: id, before, after, message.
fn told(answer: &Answer) -> Vec<(String, Option<bool>, Option<bool>, String)> {
    let all = answer.controls.iter().filter(|(oid, _)| oid == RESPONSE_OID);
    let all = all.map(|(_, value)| {
        let told = UniquenessResponse::decode(value).unwrap();
        let (id, message) = (String::from_utf8_lossy(told.id), told.message.unwrap_or_default());
        (id.into_owned(), told.before_passed, told.after_passed, message.to_owned())
    });
    all.collect()
}

#[track_caller]
fn is_taken(answer: &Answer, why: &str) {
    assert_eq!(answer.code(), TAKEN, "{}", answer.diagnostic);
    assert_eq!(answer.diagnostic, format!("the uniqueness control 'u': {why}"));
    assert_eq!(told(answer), [("u".to_owned(), Some(false), None, why.to_owned())]);
}

#[track_caller]
fn passes(answer: &Answer) {
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    assert_eq!(told(answer), [("u".to_owned(), Some(true), Some(true), String::new())]);
}

#[test]
fn no_other_entry_has_the_value() {
    let (_served, mut root) = served();
    let why = format!("{} has this value of 'mail' already", name("a"));
    let answer = add(&mut root, "c", &[("mail", &["c@x", "A@example.ORG"])], &[MAIL]);
    is_taken(&answer, &why);
    // The value octet by octet: id, not passed, the message.
    let length = why.len() as u8;
    let head = [0x30, length + 8, 0x80, 1, b'u', 0x81, 1, 0, 0x83, length];
    assert_eq!(answer.controls[0].1, [&head[..], why.as_bytes()].concat());
    let answer = add(&mut root, "c", &[("mail", &["c@x"])], &[MAIL]);
    passes(&answer);
    assert_eq!(answer.controls[0].1, b"\x30\x09\x80\x01u\x81\x01\xff\x82\x01\xff");
    // What comes is asked about, not what is there; and others, not oneself.
    is_taken(&give(&mut root, "c", "mail", &["a@example.org"], &[MAIL]), &why);
    passes(&give(&mut root, "c", "mail", &["d@x"], &[MAIL]));
    assert_eq!(give(&mut root, "c", "mail", &["a@example.org"], &[]).code(), OK);
    passes(&give(&mut root, "c", "title", &["cook"], &[MAIL]));
    let same = modifications(&[(ModifyOperation::Replace, "mail", &["a@example.org"])]);
    let modify = ModifyRequest { name: &name("c"), changes: same.as_ref() };
    passes(&root.request(Request::Modify(modify), controls(&[MAIL]).as_ref()));
    // A name is a value as well.
    let mut rename = |new_rdn: &str| {
        let (name, new_superior) = (&*name("c"), None);
        let rename = ModifyDnRequest { name, new_rdn, delete_old_rdn: true, new_superior };
        root.request(Request::ModifyDn(rename), controls(&[MAIL]).as_ref())
    };
    let b = format!("{} has this value of 'mail' already", name("b"));
    is_taken(&rename("mail=b@example.org"), &b);
    passes(&rename("mail=e@example.org"));
}

#[test]
fn several_attributes_are_unique_as_asked() {
    let (_served, mut root) = served();
    let both = &["mail", "title"];
    let ask = |several| unique(both, several).encode();
    use SeveralAttributes::{Across, AcrossOthers, Combination, Each};
    let titled = |root: &mut Client, title: &str, several| {
        give(root, "b", "title", &[title], &[&ask(several)])
    };
    passes(&titled(&mut root, "a@example.org", Each));
    let nothing = modifications(&[(ModifyOperation::Delete, "title", &[])]);
    let modify = ModifyRequest { name: &name("b"), changes: nothing.as_ref() };
    assert_eq!(root.request(Request::Modify(modify), controls(&[]).as_ref()).code(), OK);
    let of_a = format!("{} has this value of 'title' already", name("a"));
    for several in [Across, AcrossOthers] {
        is_taken(&titled(&mut root, "A@example.org", several), &of_a);
    }
    // In one's own entry only one of them minds.
    let own = "the entry has one value in 'title' and in 'mail'";
    is_taken(&titled(&mut root, "B@example.org", Across), own);
    passes(&titled(&mut root, "b@example.org", AcrossOthers));
    let new: &[(&str, &[&str])] = &[("mail", &["n@x"]), ("title", &["n@x"])];
    let own = "the entry has one value in 'title' and in 'mail'";
    is_taken(&add(&mut root, "n", new, &[&ask(Across)]), own);
    // A combination is one of all of them, and an entry that lacks one has none.
    passes(&titled(&mut root, "x", Combination));
    assert_eq!(give(&mut root, "a", "title", &["x"], &[]).code(), OK);
    passes(&add(&mut root, "c", &[("mail", &["a@example.org"])], &[&ask(Combination)]));
    let why = format!("{} has this value of 'mail' and 'title' already", name("a"));
    is_taken(&give(&mut root, "c", "title", &["X"], &[&ask(Combination)]), &why);
    passes(&give(&mut root, "c", "title", &["y"], &[&ask(Combination)]));
}

#[test]
fn a_filter_and_a_base_say_which_others_count() {
    let (_served, mut root) = served();
    let filter = |text: &'static str| Some(Filter::parse(text).unwrap());
    // The filter alone: octet by octet, its tag is explicit.
    let alone = b"\x30\x13\x80\x01u\xa4\x0e\xa3\x0c\x04\x03uid\x04\x05alone";
    passes(&add(&mut root, "alone", &[], &[alone]));
    let why = format!("{} matches its filter", name("alone"));
    is_taken(&add(&mut root, "second", &[], &[alone]), &why);
    passes(&give(&mut root, "alone", "title", &["x"], &[alone]));
    is_taken(&give(&mut root, "a", "title", &["x"], &[alone]), &why);
    // Also of a modify that changes nothing.
    let nothing = modifications(&[]);
    let modify = ModifyRequest { name: &name("a"), changes: nothing.as_ref() };
    is_taken(&root.request(Request::Modify(modify), controls(&[alone]).as_ref()), &why);
    // With attributes, others need both.
    let both = UniquenessRequest {
        filter: filter("(title=boss)"),
        ..unique(&["mail"], SeveralAttributes::Each)
    };
    let mail: &[(&str, &[&str])] = &[("mail", &["a@example.org"])];
    passes(&add(&mut root, "c", mail, &[&both.encode()]));
    assert_eq!(give(&mut root, "a", "title", &["Boss"], &[]).code(), OK);
    let why = format!("{} has this value of 'mail' already", name("a"));
    is_taken(&add(&mut root, "d", mail, &[&both.encode()]), &why);
    // Below a base.
    let elsewhere = format!("ou=elsewhere,{SUFFIX}");
    assert_eq!(root.add(&elsewhere, &[("objectClass", &["organizationalUnit"])]), OK);
    for base in [&*elsewhere, "ou=nowhere,dc=example,dc=org", "dc=other"] {
        let below = UniquenessRequest { base: Some(base), ..both.clone() };
        let answer = give(&mut root, "b", "mail", &["a@example.org"], &[&below.encode()]);
        passes(&answer);
        let list = modifications(&[(ModifyOperation::Delete, "mail", &["a@example.org"])]);
        let modify = ModifyRequest { name: &name("b"), changes: list.as_ref() };
        let undo = root.request(Request::Modify(modify), controls(&[]).as_ref());
        assert_eq!(undo.code(), OK);
    }
    let below = UniquenessRequest { base: Some(SUFFIX), ..both };
    is_taken(&give(&mut root, "b", "mail", &["a@example.org"], &[&below.encode()]), &why);
}

#[test]
fn each_control_has_its_answer() {
    let (_served, mut root) = served();
    let of = |id: &'static [u8], attribute, before, after| {
        let attributes = vec![attribute];
        UniquenessRequest { attributes, before, after, ..UniquenessRequest::new(id) }.encode()
    };
    use ValidationLevel::{BackendSets, None as Never, Servers, SubtreeViews};
    let mail = of(b"m", "mail", BackendSets, Servers);
    let uid = of(b"i", "uid", SubtreeViews, Never);
    let new: &[(&str, &[&str])] = &[("mail", &["b@example.org"])];
    let answer = add(&mut root, "c", new, &[&uid, &mail]);
    assert_eq!(answer.code(), TAKEN);
    let why = format!("{} has this value of 'mail' already", name("b"));
    let want = [
        ("i".to_owned(), Some(true), None, String::new()),
        ("m".to_owned(), Some(false), None, why.clone()),
    ];
    assert_eq!(told(&answer), want);
    // Who wants to be told afterwards gets the change.
    let (after, never) = (of(b"m", "mail", Never, Servers), of(b"n", "mail", Never, Never));
    let answer = add(&mut root, "c", new, &[&after, &never]);
    assert_eq!(answer.code(), OK);
    let want =
        [("m".to_owned(), None, Some(false), why), ("n".to_owned(), None, None, String::new())];
    assert_eq!(told(&answer), want);
    // One answer could be that of either.
    let answer = add(&mut root, "d", new, &[&mail, &mail]);
    assert_eq!(answer.code(), ResultCode::ProtocolError);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let (_served, mut root) = served();
    let each = |attributes: &[&'static str]| unique(attributes, SeveralAttributes::Each).encode();
    let filter = |text: &'static str| {
        let filter = Some(Filter::parse(text).unwrap());
        UniquenessRequest { filter, ..UniquenessRequest::new(b"u") }.encode()
    };
    let base =
        UniquenessRequest { base: Some("nonsense"), ..unique(&["mail"], SeveralAttributes::Each) };
    let many = format!("(|{})", "(cn=a)".repeat(100));
    let many = Filter::parse(&many).unwrap();
    let many = UniquenessRequest { filter: Some(many), ..UniquenessRequest::new(b"u") };
    let chain = "(member:1.2.840.113556.1.4.1941:=cn=a)";
    use ResultCode::{
        AdminLimitExceeded, InvalidDnSyntax, ProtocolError, UnavailableCriticalExtension,
        UnwillingToPerform,
    };
    for (value, code, why) in [
        (b"\x30\x03\x80\x01u".to_vec(), ProtocolError, "neither attribute nor filter"),
        (b"\x30\x00".to_vec(), ProtocolError, "malformed"),
        (each(&["nothing"]), UnwillingToPerform, "'nothing' is no attribute"),
        (each(&["mail", "Mail"]), UnwillingToPerform, "twice"),
        (each(&["userPassword"]), UnwillingToPerform, "secret"),
        (each(&["entryUUID"]), UnwillingToPerform, "by the server alone"),
        (each(&["jpegPhoto"]), UnwillingToPerform, "no equality rule"),
        (filter("(userPassword=x)"), UnwillingToPerform, "secret"),
        (filter("(hasSubordinates=TRUE)"), UnwillingToPerform, "computed"),
        (filter(chain), UnwillingToPerform, "in-chain"),
        (base.encode(), InvalidDnSyntax, "its base"),
        (many.encode(), AdminLimitExceeded, "100 terms"),
    ] {
        let answer = add(&mut root, "c", &[], &[&value]);
        assert_eq!((answer.code(), told(&answer)), (code, vec![]), "{}", answer.diagnostic);
        assert!(answer.diagnostic.contains(why), "'{}' lacks '{why}'", answer.diagnostic);
    }
    let values: Vec<Vec<u8>> = (0..17u8)
        .map(|number| {
            let id = [number];
            UniquenessRequest { attributes: vec!["mail"], ..UniquenessRequest::new(&id) }.encode()
        })
        .collect();
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    assert_eq!(add(&mut root, "c", &[], &values).code(), AdminLimitExceeded);
    assert_eq!(add(&mut root, "c", &[], &values[..16]).code(), OK);
    let delete = DeleteRequest { name: &name("c") };
    let answer = root.request(Request::Delete(delete), controls(&[MAIL]).as_ref());
    assert_eq!(answer.code(), UnavailableCriticalExtension);
    // The configuration has no such entries.
    for (config, attribute, value) in [
        ("cn=Constraints,cn=config", "roster-constraint", "a: ascii mail"),
        ("cn=schema", "description", "x"),
    ] {
        let list = modifications(&[(ModifyOperation::Add, attribute, &[value])]);
        let modify = ModifyRequest { name: config, changes: list.as_ref() };
        let answer = root.request(Request::Modify(modify), controls(&[MAIL]).as_ref());
        assert_ne!(answer.code(), OK, "{config}");
    }
    let attributes = &["supportedControl"];
    let asked = Asked { base: "", scope: Scope::Base, attributes, ..Asked::default() };
    let found = root.search(&asked);
    let listed = found.entries[0].texts("supportedControl");
    assert!(listed.iter().any(|oid| oid == UNIQUENESS) && !listed.contains(&RESPONSE_OID.into()));
}

#[test]
fn one_request_looks_at_a_limited_number_of_entries() {
    let (_served, mut root) = served();
    // All of them have the first value, and the second has no index.
    let both = unique(&["cn", "description"], SeveralAttributes::Combination).encode();
    for at in 0..60 {
        let more: &[(&str, &[&str])] = &[("description", &[&at.to_string()])];
        assert_eq!(add(&mut root, &at.to_string(), more, &[]).code(), OK);
    }
    let values: Vec<String> = (100..300).map(|at| at.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let answer = give(&mut root, "0", "description", &values, &[&both]);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("more than 10000 entries"), "{}", answer.diagnostic);
    passes(&give(&mut root, "0", "description", &values[..50], &[&both]));
}

/// A clock that goes on by a millisecond whenever it is looked at.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        START
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn one_request_takes_a_limited_time() {
    let (served, root) = served();
    drop(root);
    let served = served.under(Arc::new(Ticking(AtomicU64::new(0))));
    let mut root = served.root();
    let both = unique(&["cn", "description"], SeveralAttributes::Combination).encode();
    for at in 0..60 {
        let more: &[(&str, &[&str])] = &[("description", &[&at.to_string()])];
        assert_eq!(add(&mut root, &at.to_string(), more, &[]).code(), OK);
    }
    let answer = give(&mut root, "0", "description", &["x", "y", "z"], &[&both]);
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("takes too long"), "{}", answer.diagnostic);
    passes(&give(&mut root, "0", "mail", &["x@x"], &[MAIL]));
}

const WRITES_OWN: &str = concat!(
    r#"(targetattr="mail || title || description || street")"#,
    r#"(version 3.0; acl "own"; allow (write,read,search) userdn="ldap:///self";)"#,
);
const READS_TITLES: &str = concat!(
    r#"(targetattr="title")"#,
    r#"(version 3.0; acl "titles"; allow (read,search) userdn="ldap:///all";)"#,
);
const HIDES_OWN: &str = concat!(
    r#"(targetattr="description")"#,
    r#"(version 3.0; acl "hidden"; deny (read,search,compare) userdn="ldap:///all";)"#,
);

/// Whoever may write something could otherwise ask about everything.
#[test]
fn nothing_is_told_that_a_search_would_not_tell() {
    let (served, mut root) = served();
    let requests =
        r#"(targetcontrol="*")(version 3.0; acl "c"; allow (read) userdn="ldap:///all";)"#;
    let global = &[(ModifyOperation::Replace, "ds-cfg-global-aci", &[requests][..])];
    assert_eq!(root.modify("cn=Access Control Handler,cn=config", global), OK);
    let people = format!("ou=people,{SUFFIX}");
    let mut rule = |aci: &str| {
        assert_eq!(root.modify(&people, &[(ModifyOperation::Add, "aci", &[aci])]), OK);
    };
    rule(WRITES_OWN);
    let set = |root: &mut Client, uid: &str, attribute: &str, value: &str| {
        let change = [(ModifyOperation::Replace, attribute, &[value][..])];
        assert_eq!(root.modify(&name(uid), &change), OK);
    };
    let mut root = served.root();
    set(&mut root, "b", "title", "boss");
    set(&mut root, "a", "description", "hidden");
    let mut anna = served.client();
    assert_eq!(anna.bind(&name("a"), "secret"), OK);
    let filter = |text: &'static str| {
        let filter = Some(Filter::parse(text).unwrap());
        UniquenessRequest { filter, ..UniquenessRequest::new(b"u") }.encode()
    };
    // Entries that may not be seen are none, by a value or by a filter.
    let take = |anna: &mut Client| {
        let list = modifications(&[(ModifyOperation::Replace, "mail", &["b@example.org"])]);
        let modify = ModifyRequest { name: &name("a"), changes: list.as_ref() };
        anna.request(Request::Modify(modify), controls(&[MAIL]).as_ref())
    };
    passes(&take(&mut anna));
    for hidden in ["(title=boss)", "(!(title=cook))", "(objectClass=*)", "(|(sn=*)(cn=*))"] {
        passes(&give(&mut anna, "a", "mail", &[hidden], &[&filter(hidden)]));
    }
    // As soon as a search would find them, they are; for what may be searched.
    assert_eq!(root.modify(&people, &[(ModifyOperation::Add, "aci", &[READS_TITLES])]), OK);
    let why = format!("{} matches its filter", name("b"));
    is_taken(&give(&mut anna, "a", "mail", &["x@x"], &[&filter("(title=boss)")]), &why);
    passes(&give(&mut anna, "a", "mail", &["x@x"], &[&filter("(&(title=boss)(mail=b@*))")]));
    passes(&take(&mut anna));
    // What is hidden of the own entry is not compared with what others have, or with what is sent.
    set(&mut root, "b", "description", "hidden");
    let both = |several| unique(&["description", "title"], several).encode();
    let twin = both(SeveralAttributes::Combination);
    let across = both(SeveralAttributes::Across);
    let tells = |client: &mut Client, uid: &str| {
        let answer = give(client, uid, "title", &["boss"], &[&twin]).code();
        let own = give(client, uid, "title", &["hidden"], &[&across]).code();
        let list = modifications(&[(ModifyOperation::Replace, "title", &[])]);
        let modify = ModifyRequest { name: &name(uid), changes: list.as_ref() };
        let undone = client.request(Request::Modify(modify), controls(&[]).as_ref());
        assert_eq!(undone.code(), OK);
        (answer, own)
    };
    let all: &[(ModifyOperation, &str, &[&str])] = &[(ModifyOperation::Add, "aci", &[HIDES_OWN])];
    assert_eq!(tells(&mut root, "a"), (TAKEN, TAKEN));
    assert_eq!(root.modify(&people, all), OK);
    assert_eq!(tells(&mut anna, "a"), (OK, OK));
    is_hidden_by_an_option(&mut root, &mut anna);
    is_hidden_by_number(&mut root, &mut anna);
    // Without the right to make the change nothing is told at all.
    let answer = give(&mut anna, "b", "mail", &["a@example.org"], &[MAIL]);
    assert_eq!((answer.code(), told(&answer)), (ResultCode::InsufficientAccessRights, vec![]));
}

/// A negation says no more than what may be searched, although an index holds more.
#[track_caller]
fn is_hidden_by_an_option(root: &mut Client, anna: &mut Client) {
    let rules = [
        r#"(targetattr="cn")(version 3.0; acl "cn"; allow (read,search) userdn="ldap:///all";)"#,
        r#"(targetattr="cn;x-secret")(version 3.0; acl "x"; deny (all) userdn="ldap:///all";)"#,
    ];
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.modify(&people, &[(ModifyOperation::Add, "aci", &rules)]), OK);
    assert_eq!(give(root, "b", "cn;x-secret", &["hidden"], &[]).code(), OK);
    let others = Filter::parse("(&(cn=Anna)(!(cn=hidden)))").unwrap();
    let others = UniquenessRequest { filter: Some(others), ..UniquenessRequest::new(b"u") };
    let others = others.encode();
    passes(&give(root, "a", "mail", &["y@x"], &[&others]));
    let why = format!("{} matches its filter", name("b"));
    is_taken(&give(anna, "a", "mail", &["z@x"], &[&others]), &why);
}

/// What limits the entries that are looked at counts none that may not be seen.
#[track_caller]
fn is_hidden_by_number(root: &mut Client, anna: &mut Client) {
    let both = unique(&["mail", "street"], SeveralAttributes::Combination).encode();
    for at in 0..60 {
        let more: &[(&str, &[&str])] = &[("mail", &["many@x"]), ("street", &[&at.to_string()])];
        assert_eq!(add(root, &format!("m{at}"), more, &[]).code(), OK);
    }
    assert_eq!(give(anna, "a", "mail", &["many@x"], &[]).code(), OK);
    let values: Vec<String> = (100..300).map(|at| at.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let answer = give(root, "a", "street", &values, &[&both]);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{}", answer.diagnostic);
    passes(&give(anna, "a", "street", &values, &[&both]));
}

#[test]
fn in_a_transaction_and_on_trial_it_counts_what_came_before() {
    const START: &str = "1.3.6.1.1.21.1";
    const SPECIFICATION: &str = "1.3.6.1.1.21.2";
    const END: &str = "1.3.6.1.1.21.3";
    const NO_OP: &str = "1.3.6.1.4.1.4203.1.10.2";
    let (_served, mut root) = served();
    for (mail, code) in [("d@x", OK), ("c@x", TAKEN)] {
        let transaction = root.extended(START, None).value.unwrap();
        for uid in ["c", "d"] {
            let mut list = ControlsBuf::new();
            let value = Some(&transaction[..]);
            list.push(Control { oid: SPECIFICATION, critical: true, value });
            // Only the second one asks.
            if uid == "d" {
                list.push(Control { oid: UNIQUENESS, critical: true, value: Some(MAIL) });
            }
            let mail = if uid == "c" { "c@x" } else { mail };
            let attributes = add_attributes(&[
                ("objectClass", &["inetOrgPerson"]),
                ("cn", &["x"]),
                ("sn", &["x"]),
                ("mail", &[mail]),
            ]);
            let request = AddRequest { name: &name(uid), attributes: attributes.as_ref() };
            assert_eq!(root.request(Request::Add(request), list.as_ref()).code(), OK);
        }
        let length = transaction.len() as u8;
        let value = [&[0x30, length + 5, 1, 1, 0xff, 4, length], &transaction[..]].concat();
        let end = ExtendedRequest { oid: END, value: Some(&value) };
        let answer = root.request(Request::Extended(end), controls(&[]).as_ref());
        assert_eq!(answer.code(), code, "{}", answer.diagnostic);
        if code == OK {
            // The response of the update stands in that of the end.
            let value = answer.value.unwrap();
            let response = b"\x30\x09\x80\x01u\x81\x01\xff\x82\x01\xff";
            assert!(value.windows(response.len()).any(|part| part == response), "{value:?}");
            assert_eq!((root.delete(&name("c")), root.delete(&name("d"))), (OK, OK));
        }
    }
    let trial = |root: &mut Client, mail: &str| {
        let mut list = controls(&[MAIL]);
        list.push(Control { oid: NO_OP, critical: true, value: None });
        let changes = modifications(&[(ModifyOperation::Add, "mail", &[mail])]);
        let modify = ModifyRequest { name: &name("b"), changes: changes.as_ref() };
        root.request(Request::Modify(modify), list.as_ref())
    };
    assert_eq!(trial(&mut root, "a@example.org").code(), TAKEN);
    let answer = trial(&mut root, "z@x");
    assert_eq!(answer.code(), ResultCode::NoOperation);
    assert_eq!(told(&answer), [("u".to_owned(), Some(true), Some(true), String::new())]);
}

#[test]
fn whoever_decides_answers_through_any_node() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    fill(&mut client);
    let why = format!("{} has this value of 'mail' already", name("a"));
    is_taken(&give(&mut client, "b", "mail", &["a@example.org"], &[MAIL]), &why);
    passes(&give(&mut client, "b", "mail", &["c@x"], &[MAIL]));
}
