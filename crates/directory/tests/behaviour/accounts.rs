//! The policy state operation and the account usability control: what they tell and change, and to
//! whom.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use environment::ManualClock;
use ldap::control_value::policy_state::{OID, PING_OID, PolicyState, StateOperation, operation};
use ldap::control_value::usability::{self, Unusable, Usability};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, Found, Served, manual_clock};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const BERT: &str = "uid=bert,dc=example,dc=org";
const DESK: &str = "uid=desk,dc=example,dc=org";

/// A directory with Anna, Bert, and a help desk that may reset passwords.
fn served() -> (Served, Arc<ManualClock>, Client) {
    let clock = manual_clock();
    let served = Served::new().under(Arc::clone(&clock) as _);
    let mut root = served.root();
    add_people(&mut root);
    (served, clock, root)
}

fn add_people(root: &mut Client) {
    for name in [ANNA, BERT, DESK] {
        let classes: &[&str] = &["inetOrgPerson"];
        let mut attributes: Vec<(&str, &[&str])> = vec![
            ("objectClass", classes),
            ("cn", &["x"]),
            ("sn", &["x"]),
            ("userPassword", &["secret"]),
        ];
        if name == DESK {
            attributes.push(("ds-privilege-name", &["password-reset"]));
        }
        assert_eq!(root.add(name, &attributes), ResultCode::Success);
    }
}

fn with<'v>(number: u32, values: &[&'v str]) -> StateOperation<'v> {
    StateOperation { number, values: values.iter().map(|&value| value.into()).collect() }
}

fn ask(client: &mut Client, oid: &str, name: &str, operations: &[StateOperation<'_>]) -> Answer {
    let value = PolicyState { target: name.into(), operations: operations.to_vec() }.encode();
    client.extended(oid, Some(&value))
}

/// What is answered: numbers and values.
#[track_caller]
fn told(answer: &Answer) -> Vec<(u32, Vec<String>)> {
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let value = PolicyState::decode(answer.value.as_deref().unwrap()).unwrap();
    let operations = value.operations.iter();
    let values =
        |one: &StateOperation<'_>| one.values.iter().map(ToString::to_string).collect::<Vec<_>>();
    operations.map(|one| (one.number, values(one))).collect()
}

fn entry(client: &mut Client, name: &str) -> Found {
    let all = Asked { base: name, scope: Scope::Base, attributes: &["*", "+"], ..Asked::default() };
    client.search(&all).entries.remove(0)
}

#[test]
fn an_account_is_disabled_and_enabled_by_the_names_of_all_servers() {
    let (_served, _, mut root) = served();
    let disabled = |state: &str| vec![(operation::DISABLED, vec![state.to_owned()])];
    let set = with(operation::SET_DISABLED, &["true"]);
    assert_eq!(told(&ask(&mut root, OID, ANNA, &[set])), disabled("true"));
    assert_eq!(entry(&mut root, ANNA).texts("nsAccountLock"), ["true"]);
    let clear = with(operation::CLEAR_DISABLED, &[]);
    assert_eq!(told(&ask(&mut root, OID, ANNA, &[clear])), disabled("false"));
    assert_eq!(entry(&mut root, ANNA).texts("nsAccountLock"), [""; 0]);
    // As programs that were made for other servers write it.
    for name in ["ds-pwp-account-disabled", "nsAccountLock"] {
        let lock = [(ModifyOperation::Add, name, &["TRUE"][..])];
        assert_eq!(root.modify(ANNA, &lock), ResultCode::Success);
        let asks = with(operation::DISABLED, &[]);
        assert_eq!(told(&ask(&mut root, OID, ANNA, &[asks])), disabled("true"), "{name}");
    }
    let set = with(operation::SET_DISABLED, &["FALSE"]);
    assert_eq!(told(&ask(&mut root, OID, ANNA, &[set])), disabled("false"));
    assert!(!entry(&mut root, ANNA).attributes.contains_key("ds-pwp-account-disabled"));
}

#[test]
fn locks_times_and_failures_are_set_and_told() {
    let (_served, clock, mut root) = served();
    let answer = ask(&mut root, OID, ANNA, &[with(operation::SET_LOCKED, &["true"])]);
    assert_eq!(told(&answer), [(operation::LOCKED, vec!["true".to_owned()])]);
    assert_eq!(entry(&mut root, ANNA).texts("pwdAccountLockedTime"), ["000001010000Z"]);
    let asks = [with(operation::USABLE, &[]), with(operation::ERRORS, &[])];
    let errors = "code=4\tname=account-permanently-locked-due-to-bind-failures\t\
                  message=the account is locked by an administrator, until somebody unlocks it";
    let want =
        [(operation::ERRORS, vec![errors.to_owned()]), (operation::USABLE, vec!["false".into()])];
    assert_eq!(told(&ask(&mut root, OID, ANNA, &asks)), want);
    let two = ["20260101000000Z", "20260102000000Z"];
    let set = with(operation::SET_FAILURES, &two);
    assert_eq!(told(&ask(&mut root, OID, ANNA, &[set]))[0].1, two);
    assert_eq!(entry(&mut root, ANNA).texts("pwdFailureTime").len(), 2);
    let clear = with(operation::CLEAR_FAILURES, &[]);
    assert_eq!(told(&ask(&mut root, OID, ANNA, &[clear])), [(operation::FAILURES, Vec::new())]);
    let found = entry(&mut root, ANNA);
    assert_eq!(found.texts("pwdAccountLockedTime").len() + found.texts("pwdFailureTime").len(), 0);
    // A time that is not sent is now.
    clock.advance(Duration::from_secs(60));
    let expire = [with(operation::SET_EXPIRATION, &[]), with(operation::EXPIRED, &[])];
    let answer = told(&ask(&mut root, OID, ANNA, &expire));
    assert_eq!(answer[1], (operation::EXPIRED, vec!["true".to_owned()]));
    assert_eq!(entry(&mut root, ANNA).texts("pwdEndTime").len(), 1);
    let never = with(operation::CLEAR_EXPIRATION, &[]);
    assert_eq!(told(&ask(&mut root, OID, ANNA, &[never])), [(operation::EXPIRATION, Vec::new())]);
    // Nothing changes: nothing is stamped.
    let before = entry(&mut root, ANNA);
    clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&mut root, OID, ANNA, &[with(operation::CLEAR_EXPIRATION, &[])]).code(), {
        ResultCode::Success
    });
    assert_eq!(entry(&mut root, ANNA), before);
}

#[test]
fn everything_is_told_to_who_asks_for_nothing_in_particular() {
    let (_served, _, mut root) = served();
    let numbers = |answer: &Answer| told(answer).iter().map(|one| one.0).collect::<Vec<_>>();
    let opendj = numbers(&ask(&mut root, OID, ANNA, &[]));
    let want =
        [0, 1, 4, 7, 8, 11, 14, 15, 16, 20, 21, 22, 25, 26, 29, 30, 34, 35, 38, 39].as_slice();
    assert_eq!(opendj, want, "OpenDJ's own, and no others: its clients fail on them");
    let ping = numbers(&ask(&mut root, PING_OID, ANNA, &[]));
    assert!(ping.starts_with(want) && ping.contains(&operation::ERRORS), "{ping:?}");
}

#[test]
fn no_password_is_told_in_any_form() {
    let (_served, _, mut root) = served();
    let answer = ask(&mut root, PING_OID, ANNA, &[]);
    let text = String::from_utf8_lossy(answer.value.as_deref().unwrap()).into_owned();
    assert!(!text.contains("{SSHA") && !text.contains("secret"), "{text}");
}

#[test]
fn only_who_may_reset_passwords_is_told_and_changes_within_the_rights() {
    let (served, _, mut root) = served();
    let mut client = served.client();
    let asks = with(operation::DISABLED, &[]);
    for (name, want) in [
        ("", ResultCode::InsufficientAccessRights),
        (ANNA, ResultCode::InsufficientAccessRights),
        (DESK, ResultCode::Success),
    ] {
        let password = if name.is_empty() { "" } else { "secret" };
        assert_eq!(client.bind(name, password), ResultCode::Success);
        let answer = ask(&mut client, OID, ANNA, from_ref(&asks));
        assert_eq!(answer.code(), want, "{name}");
        assert_eq!(answer.value.is_some(), want == ResultCode::Success);
        let nobody = ask(&mut client, OID, "uid=nobody,dc=example,dc=org", from_ref(&asks));
        let is_desk = want == ResultCode::Success;
        let missing = if is_desk { ResultCode::NoSuchObject } else { want };
        assert_eq!(nobody.code(), missing, "{name}");
    }
    // What only the server sets needs no right; what a modification could write needs it.
    let unfail = with(operation::CLEAR_LAST_LOGIN, &[]);
    assert_eq!(ask(&mut client, OID, ANNA, &[unfail]).code(), ResultCode::Success);
    let disable = with(operation::SET_DISABLED, &["true"]);
    let refused = ask(&mut client, OID, ANNA, from_ref(&disable));
    assert_eq!(refused.code(), ResultCode::InsufficientAccessRights);
    let aci = format!(
        "(targetattr=\"nsAccountLock\")(version 3.0; acl \"desk\"; allow (write) \
         userdn=\"ldap:///{DESK}\";)"
    );
    let allow = [(ModifyOperation::Add, "aci", &[aci.as_str()][..])];
    assert_eq!(root.modify("dc=example,dc=org", &allow), ResultCode::Success);
    assert_eq!(ask(&mut client, OID, ANNA, &[disable]).code(), ResultCode::Success);
    let modifier = entry(&mut root, ANNA).texts("modifiersName");
    assert_eq!(modifier, [DESK]);
}

/// Failures that were in memory only were cleared before any right was asked for.
#[test]
fn clearing_failures_takes_the_right_to_unlock_wherever_they_are() {
    let served = Served::with(|options| {
        options.password_policy.state_delay = Duration::from_secs(3_600);
    });
    let mut root = served.root();
    add_people(&mut root);
    let rules: [(&str, &[&str]); 5] = [
        ("objectClass", &["subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdLockout", &["TRUE"]),
        ("pwdMaxFailure", &["3"]),
    ];
    assert_eq!(root.add("cn=policy,dc=example,dc=org", &rules), ResultCode::Success);
    let (mut client, mut desk) = (served.client(), served.client());
    assert_eq!(desk.bind(DESK, "secret"), ResultCode::Success);
    let failures = |desk: &mut Client| {
        let answer = ask(desk, OID, ANNA, &[StateOperation::of(operation::FAILURES)]);
        told(&answer)[0].1.len()
    };
    for _ in 0..2 {
        assert_eq!(client.bind(ANNA, "wrong"), ResultCode::InvalidCredentials);
    }
    let clear = with(operation::CLEAR_FAILURES, &[]);
    let answer = ask(&mut desk, OID, ANNA, from_ref(&clear));
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    // What changes nothing clears nothing either.
    let never = with(operation::CLEAR_EXPIRATION, &[]);
    assert_eq!(ask(&mut desk, OID, ANNA, &[never]).code(), ResultCode::Success);
    assert_eq!(failures(&mut desk), 2);
    assert_eq!(client.bind(BERT, "wrong"), ResultCode::InvalidCredentials);
    let aci = format!(
        "(targetattr=\"pwdAccountLockedTime || nsAccountLock\")(version 3.0; acl \"desk\"; \
         allow (write) userdn=\"ldap:///{DESK}\";)"
    );
    let allow = [(ModifyOperation::Add, "aci", &[aci.as_str()][..])];
    assert_eq!(root.modify("dc=example,dc=org", &allow), ResultCode::Success);
    // What is refused as a whole clears nothing; beside another change they are cleared, too.
    let mut told_of_bert = |also: StateOperation<'static>| {
        let answer = ask(&mut desk, OID, BERT, &[also, clear.clone()]);
        let found = ask(&mut desk, OID, BERT, &[StateOperation::of(operation::FAILURES)]);
        (answer.code(), told(&found)[0].1.len())
    };
    let refused = told_of_bert(with(operation::SET_EXPIRATION, &[]));
    assert_eq!(refused, (ResultCode::InsufficientAccessRights, 1));
    let cleared = told_of_bert(with(operation::SET_DISABLED, &["true"]));
    assert_eq!(cleared, (ResultCode::Success, 0));
}

#[test]
fn what_cannot_be_done_says_why() {
    let (_served, _, mut root) = served();
    for (operation, code, why) in [
        (with(99, &[]), ResultCode::ConstraintViolation, "operation 99"),
        (with(operation::SET_DISABLED, &["yes"]), ResultCode::ConstraintViolation, "true or false"),
        (with(operation::SET_DISABLED, &[]), ResultCode::ConstraintViolation, "true or false"),
        (with(operation::SET_EXPIRATION, &["soon"]), ResultCode::ConstraintViolation, "'soon'"),
        (with(operation::SET_WARNED, &[]), ResultCode::UnwillingToPerform, "keeps no such time"),
    ] {
        let answer = ask(&mut root, OID, ANNA, &[operation]);
        assert_eq!(answer.code(), code);
        assert!(answer.diagnostic.contains(why), "{}", answer.diagnostic);
    }
    for (value, code) in [
        (None, ResultCode::ProtocolError),
        (Some(b"\x30\x00".as_slice()), ResultCode::ProtocolError),
        (Some(b"\x30\x03\x04\x01x"), ResultCode::InvalidDnSyntax),
    ] {
        assert_eq!(root.extended(OID, value).code(), code);
    }
    let answer = ask(&mut root, OID, "cn=Directory Manager", &[]);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
}

#[test]
fn which_policy_governs_and_when_the_password_expires_are_computed_where_asked_for() {
    let (served, _, mut root) = served();
    let classes: &[&str] = &["top", "subentry", "pwdPolicy"];
    let policy = "cn=policy,dc=example,dc=org";
    let rules: [(&str, &[&str]); 6] = [
        ("objectClass", classes),
        ("cn", &["policy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdMaxAge", &["86400"]),
        ("pwdGraceAuthNLimit", &["3"]),
    ];
    assert_eq!(root.add(policy, &rules), ResultCode::Success);
    let changed = with(operation::SET_CHANGED, &["20200101000000Z"]);
    assert_eq!(ask(&mut root, OID, ANNA, &[changed]).code(), ResultCode::Success);
    let found = |client: &mut Client, name: &str, attributes: &[&str]| {
        let search = Asked { base: name, scope: Scope::Base, attributes, ..Asked::default() };
        client.search(&search).entries.remove(0)
    };
    let both = ["pwdPolicySubentry", "pwdExpirationTime"];
    for attributes in [&both[..], &["*", "+"], &["+"]] {
        let anna = found(&mut root, ANNA, attributes);
        assert_eq!(anna.texts(both[0]), [policy], "{attributes:?}");
        assert_eq!(anna.texts(both[1]), ["20200102000000Z"], "{attributes:?}");
    }
    for attributes in [&["*"][..], &["uid", "createTimestamp"]] {
        let anna = found(&mut root, ANNA, attributes);
        assert!(!both.iter().any(|name| anna.attributes.contains_key(*name)), "{attributes:?}");
    }
    // What a policy does not govern has none, and who may not read it is told none.
    assert!(found(&mut root, "dc=example,dc=org", &["+"]).texts(both[0]).is_empty());
    let aci = "(targetattr=\"pwdExpirationTime\")(version 3.0; acl \"hide\"; deny (read) \
               userdn=\"ldap:///anyone\";)";
    let deny = [(ModifyOperation::Add, "aci", &[aci][..])];
    assert_eq!(root.modify("dc=example,dc=org", &deny), ResultCode::Success);
    let mut client = served.client();
    let anna = found(&mut client, ANNA, &both);
    assert_eq!(anna.texts(both[0]), [policy]);
    assert!(anna.texts(both[1]).is_empty());
    // The operation and the control tell of the same.
    let asks = [operation::POLICY_DN, operation::REMAINING_GRACE, operation::PASSWORD_EXPIRED];
    let answer = told(&ask(&mut root, OID, ANNA, &asks.map(StateOperation::of)));
    let values = answer.into_iter().flat_map(|(_, values)| values).collect::<Vec<_>>();
    assert_eq!(values, [policy, "3", "true"]);
    let expired = Unusable { expired: true, grace: Some(3), ..Unusable::default() };
    assert_eq!(usable(&mut root, ANNA), [(ANNA.to_owned(), Usability::Unusable(expired))]);
}

/// It told strangers the name of a policy that they may not see, and who has a password.
#[test]
fn which_policy_governs_is_told_to_those_it_concerns() {
    let (served, _, mut root) = served();
    let policy = "cn=policy,dc=example,dc=org";
    let hidden = "(targetattr=\"* || +\")(version 3.0; acl \"hide\"; deny (all) \
                  userdn=\"ldap:///anyone\";)";
    let rules: [(&str, &[&str]); 4] = [
        ("objectClass", &["subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("aci", &[hidden]),
    ];
    assert_eq!(root.add(policy, &rules), ResultCode::Success);
    let name = "pwdPolicySubentry";
    let of_anna = |client: &mut Client| {
        let search =
            Asked { base: ANNA, scope: Scope::Base, attributes: &["+"], ..Asked::default() };
        client.search(&search).entries.remove(0).texts(name)
    };
    let mut client = served.client();
    assert_eq!(of_anna(&mut client), [""; 0], "anonymous");
    for (who, told) in [(BERT, &[][..]), (ANNA, &[policy]), (DESK, &[policy])] {
        assert_eq!(client.bind(who, "secret"), ResultCode::Success);
        assert_eq!(of_anna(&mut client), told, "{who}");
    }
    let show = [(ModifyOperation::Delete, "aci", &[][..])];
    assert_eq!(root.modify(policy, &show), ResultCode::Success);
    assert_eq!(client.bind(BERT, "secret"), ResultCode::Success);
    assert_eq!(of_anna(&mut client), [policy]);
}

/// The control of each entry that is found, by its name.
fn usable(client: &mut Client, base: &str) -> Vec<(String, Usability)> {
    let search = Asked {
        base,
        filter: "(uid=*)",
        attributes: &["1.1"],
        controls: &[(usability::OID, true, None)],
        ..Asked::default()
    };
    let answer = client.search(&search);
    assert_eq!(answer.code(), ResultCode::Success);
    let value = |(oid, value): &(String, Vec<u8>)| {
        assert_eq!(oid, usability::OID);
        Usability::decode(value).unwrap()
    };
    // Controls come in the order of the entries; here all of them have one or none has.
    let names = answer.names().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let values = answer.controls.iter().map(value).collect::<Vec<_>>();
    assert!(values.is_empty() || values.len() == names.len(), "{names:?} {values:?}");
    names.into_iter().zip(values).collect()
}

#[test]
fn whether_accounts_can_be_used_is_told_beside_their_entries() {
    let (served, _, mut root) = served();
    let off = with(operation::SET_DISABLED, &["true"]);
    assert_eq!(ask(&mut root, OID, ANNA, &[off]).code(), ResultCode::Success);
    let lock = with(operation::SET_LOCKED, &["true"]);
    assert_eq!(ask(&mut root, OID, BERT, &[lock]).code(), ResultCode::Success);
    let unusable = Usability::Unusable;
    let want = [
        (ANNA, unusable(Unusable { inactive: true, ..Unusable::default() })),
        (BERT, unusable(Unusable { unlock_s: Some(-1), ..Unusable::default() })),
        (DESK, Usability::Usable { expires_s: None }),
    ];
    let want = want.map(|(name, usability)| (name.to_owned(), usability));
    assert_eq!(usable(&mut root, "dc=example,dc=org"), want);
    // An entry without a password is no account.
    let classes: &[&str] = &["inetOrgPerson"];
    let nobody = "uid=none,dc=example,dc=org";
    let bare: [(&str, &[&str]); 3] = [("objectClass", classes), ("cn", &["x"]), ("sn", &["x"])];
    assert_eq!(root.add(nobody, &bare), ResultCode::Success);
    assert_eq!(usable(&mut root, nobody), []);
    // To others it is told of themselves, unless they may read the state of accounts.
    let mut client = served.client();
    assert_eq!(usable(&mut client, BERT), [], "anonymous");
    let unlock = with(operation::SET_LOCKED, &["false"]);
    assert_eq!(ask(&mut root, OID, BERT, &[unlock]).code(), ResultCode::Success);
    assert_eq!(client.bind(BERT, "secret"), ResultCode::Success);
    assert_eq!(usable(&mut client, ANNA), []);
    assert_eq!(usable(&mut client, BERT).len(), 1);
    let aci = format!(
        "(targetattr=\"pwdAccountLockedTime\")(version 3.0; acl \"proxy\"; allow (read) \
         userdn=\"ldap:///{BERT}\";)"
    );
    let allow = [(ModifyOperation::Add, "aci", &[aci.as_str()][..])];
    assert_eq!(root.modify("dc=example,dc=org", &allow), ResultCode::Success);
    assert_eq!(usable(&mut client, ANNA).len(), 1);
}
