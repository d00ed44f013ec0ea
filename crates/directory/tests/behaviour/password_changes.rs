//! New passwords under a policy: what is refused and why, and what becomes of the account.

use std::time::Duration;

use auth::password::{Argon2Cost, HashCosts, PasswordStorage, Scheme};
use directory::Next;
use environment::SystemClock;
use ldap::message::{
    AddRequest, Control, ControlsBuf, ExtendedRequest, ModifyOperation, ModifyRequest, Request,
    Scope,
};
use ldap::result::ResultCode;
use offline::{ImportOptions, Source, import};

use crate::support::{Answer, Asked, Client, Served, add_attributes, modifications};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const BERT: &str = "uid=bert,dc=example,dc=org";
const POLICY: &str = "cn=policy,dc=example,dc=org";
const CONTROL: &str = "1.3.6.1.4.1.42.2.27.8.5.1";
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";
const FIRST: &str = "first of all";

/// PolicyError by its number in the control.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Why {
    NotAllowed = 3,
    OldMissing = 4,
    Quality = 5,
    Short = 6,
    Young = 7,
    History = 8,
    Long = 9,
}

type Outcome = (ResultCode, Option<u8>);

const DONE: Outcome = (ResultCode::Success, None);

fn refused(why: Why) -> Outcome {
    let code = match why {
        Why::NotAllowed | Why::OldMissing => ResultCode::InsufficientAccessRights,
        _ => ResultCode::ConstraintViolation,
    };
    (code, Some(why as u8))
}

/// A directory with a policy for all of it, Anna, who has a password, and Bert, who may set those
/// of others.
fn served(rules: &[(&str, &str)]) -> Served {
    served_with(rules, Scheme::Ssha512.into())
}

fn served_with(rules: &[(&str, &str)], storage: PasswordStorage) -> Served {
    let served = Served::with(|options| {
        options.passwords.storage = storage;
        options.passwords.check_own = true;
    });
    let mut root = served.root();
    if !rules.is_empty() {
        add_policy(&mut root, rules);
    }
    add_person(&mut root, ANNA, "Anna", &[FIRST]);
    add_person(&mut root, BERT, "Bert", &[FIRST]);
    let give = [(ModifyOperation::Add, "ds-privilege-name", &["password-reset"][..])];
    assert_eq!(root.modify(BERT, &give), ResultCode::Success);
    let rule = "(targetattr = \"*\")(version 3.0; acl \"Bert\"; allow (all) \
                userdn = \"ldap:///uid=bert,dc=example,dc=org\";)";
    let allow = [(ModifyOperation::Add, "aci", &[rule][..])];
    assert_eq!(root.modify("dc=example,dc=org", &allow), ResultCode::Success);
    served
}

fn add_policy(root: &mut Client, rules: &[(&str, &str)]) {
    let fixed = [
        ("objectClass", "subentry"),
        ("objectClass", "pwdPolicy"),
        ("cn", "policy"),
        ("subtreeSpecification", "{}"),
        ("pwdAttribute", "userPassword"),
    ];
    let mut attributes: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in fixed.iter().chain(rules) {
        match attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(value),
            None => attributes.push((name, vec![value])),
        }
    }
    let attributes = attributes.iter().map(|(name, values)| (*name, &values[..]));
    let answer = root.try_add(POLICY, &attributes.collect::<Vec<_>>());
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

fn add_person(root: &mut Client, dn: &str, name: &str, passwords: &[&str]) {
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &[name]),
        ("sn", &["Berg"]),
        ("userPassword", passwords),
    ];
    let answer = root.try_add(dn, attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

fn signed_in(served: &Served, dn: &str, password: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(dn, password), ResultCode::Success);
    client
}

/// Code, and the error in the control, which is asked for.
fn outcome(client: &mut Client, request: Request<'_>) -> Outcome {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: CONTROL, critical: true, value: None });
    let answer = client.request(request, controls.as_ref());
    (answer.code(), error(&answer))
}

fn error(answer: &Answer) -> Option<u8> {
    let (_, value) = answer.controls.iter().find(|(oid, _)| oid == CONTROL)?;
    if value[..] == [0x30, 0] {
        return None;
    }
    // SEQUENCE { [1] ENUMERATED }
    assert_eq!(value[..4], [0x30, 0x03, 0x81, 0x01], "{value:02x?}");
    Some(value[4])
}

fn modify(client: &mut Client, dn: &str, changes: &[(ModifyOperation, &str, &[&str])]) -> Outcome {
    let list = modifications(changes);
    outcome(client, Request::Modify(ModifyRequest { name: dn, changes: list.as_ref() }))
}

fn replace(client: &mut Client, dn: &str, password: &str) -> Outcome {
    modify(client, dn, &[(ModifyOperation::Replace, "userPassword", &[password])])
}

fn exchange(client: &mut Client, dn: &str, old: &str, new: &str) -> Outcome {
    let changes = [
        (ModifyOperation::Delete, "userPassword", &[old][..]),
        (ModifyOperation::Add, "userPassword", &[new]),
    ];
    modify(client, dn, &changes)
}

fn request_value(user: &str, old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    let mut value = Vec::new();
    for (tag, text) in [(0x80, Some(user)), (0x81, old), (0x82, new)] {
        let Some(text) = text else { continue };
        value.extend([tag, u8::try_from(text.len()).unwrap()]);
        value.extend_from_slice(text.as_bytes());
    }
    value.splice(0..0, [0x30, u8::try_from(value.len()).unwrap()]);
    value
}

fn password_modify(client: &mut Client, dn: &str, old: Option<&str>, new: &str) -> Outcome {
    let value = request_value(dn, old, Some(new));
    let request = ExtendedRequest { oid: PASSWORD_MODIFY, value: Some(&value) };
    outcome(client, Request::Extended(request))
}

fn values(served: &Served, dn: &str, attribute: &str) -> Vec<String> {
    let attributes: &[&str] = &[attribute];
    let search = Asked { base: dn, scope: Scope::Base, attributes, ..Asked::default() };
    served.root().search(&search).entries[0].texts(attribute)
}

fn cheap(scheme: Scheme) -> PasswordStorage {
    let argon2 = Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 };
    PasswordStorage { scheme, costs: HashCosts { argon2, ..HashCosts::default() } }
}

#[test]
fn quality_holds_wherever_a_password_is_set() {
    let served = served(&[
        ("pwdCheckQuality", "1"),
        ("pwdMinLength", "8"),
        ("pwdMaxLength", "30"),
        ("passwordMinDigits", "1"),
        ("passwordMaxRepeats", "2"),
        ("passwordMaxSequence", "3"),
        ("passwordPalindrome", "on"),
        ("passwordBadWords", "acme"),
        ("ds-pwp-similarity-based-min-password-difference", "3"),
    ]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    let mut bert = signed_in(&served, BERT, FIRST);
    for (password, why) in [
        ("sixsix6", Why::Short),
        (&"x1".repeat(16), Why::Long),
        ("no number in it", Why::Quality),
        ("kooo kooo 1", Why::Quality),
        ("kabcd fgh 1", Why::Quality),
        ("1lagerregal1", Why::Quality),
        ("my ACME key 1", Why::Quality),
        ("password1", Why::Quality),
        ("P4ssw0rd2026!", Why::Quality),
        ("anna is it 1", Why::Quality),
    ] {
        assert_eq!(replace(&mut anna, ANNA, password), refused(why), "{password}");
        assert_eq!(password_modify(&mut anna, ANNA, None, password), refused(why), "{password}");
        assert_eq!(replace(&mut bert, ANNA, password), refused(why), "{password}");
        let list = add_attributes(&[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["Anna"]),
            ("sn", &["C"]),
            ("userPassword", &[password]),
        ]);
        let name = "uid=carla,dc=example,dc=org";
        let add = Request::Add(AddRequest { name, attributes: list.as_ref() });
        assert_eq!(outcome(&mut bert, add), refused(why), "{password}");
    }
    // The old one is known: it has to be another.
    let similar = password_modify(&mut anna, ANNA, Some(FIRST), "first of a11");
    assert_eq!(similar, refused(Why::Quality));
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "first of a11"), refused(Why::Quality));
    assert_eq!(
        password_modify(&mut anna, ANNA, Some("wrong"), "x").0,
        ResultCode::InvalidCredentials
    );
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "quite other 1"), DONE);
    assert_eq!(served.client().bind(ANNA, "quite other 1"), ResultCode::Success);
    // Without the control nothing but the code and the reason.
    let change = [(ModifyOperation::Replace, "userPassword", &["sixsix6"][..])];
    let answer = anna.try_modify(ANNA, &change);
    assert_eq!((answer.code(), error(&answer)), (ResultCode::ConstraintViolation, None));
    assert_eq!(answer.diagnostic, "a password has at least 8 characters");
    // There are no rules for the root identity.
    assert_eq!(replace(&mut served.root(), ANNA, "x"), DONE);
}

/// Such an add was once told that a value came twice: both were the same word for a refused one.
#[test]
fn two_refused_passwords_are_refused_for_what_they_are() {
    let served = served(&[("pwdCheckQuality", "1"), ("pwdMinLength", "8")]);
    let mut bert = signed_in(&served, BERT, FIRST);
    let both: &[&str] = &["short", "brief"];
    let list = add_attributes(&[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["Carla"]),
        ("sn", &["C"]),
        ("userPassword", both),
    ]);
    let name = "uid=carla,dc=example,dc=org";
    let add = Request::Add(AddRequest { name, attributes: list.as_ref() });
    assert_eq!(outcome(&mut bert, add), refused(Why::Short));
    let change = [(ModifyOperation::Add, "userPassword", both)];
    assert_eq!(modify(&mut bert, ANNA, &change), refused(Why::Short));
    let change = [(ModifyOperation::Replace, "userPassword", both)];
    assert_eq!(modify(&mut bert, ANNA, &change), refused(Why::Short));
    assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::Success);
}

#[test]
fn nothing_is_told_to_those_who_may_not_write_it() {
    let served = served(&[("pwdCheckQuality", "1"), ("pwdMinLength", "8"), ("pwdInHistory", "3")]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    let mut nobody = served.client();
    for password in ["x", FIRST, "a good one indeed"] {
        for client in [&mut anna, &mut nobody] {
            let denied = (ResultCode::InsufficientAccessRights, None);
            assert_eq!(replace(client, BERT, password), denied);
            assert_eq!(password_modify(client, BERT, None, password), denied);
        }
    }
}

/// A rule that lets somebody add entries without passwords was not asked about one that the policy
/// refuses: the policy's word was told instead.
#[test]
fn a_refused_password_in_a_new_entry_is_one_to_the_rules() {
    let served = served(&[("pwdCheckQuality", "1"), ("pwdMinLength", "8")]);
    let aci = format!(
        "(targattrfilters=\"add=userPassword:(!(userPassword=*))\")(version 3.0; acl \"x\"; \
         allow (add) userdn=\"ldap:///{ANNA}\";)"
    );
    let given = [(ModifyOperation::Add, "aci", &[aci.as_str()][..])];
    assert_eq!(served.root().modify("dc=example,dc=org", &given), ResultCode::Success);
    let mut anna = signed_in(&served, ANNA, FIRST);
    let mut add = |password: &[&str]| {
        let mut attributes: Vec<(&str, &[&str])> =
            vec![("objectClass", &["inetOrgPerson"]), ("cn", &["Carla"]), ("sn", &["C"])];
        if !password.is_empty() {
            attributes.push(("userPassword", password));
        }
        let list = add_attributes(&attributes);
        let name = "uid=carla,dc=example,dc=org";
        outcome(&mut anna, Request::Add(AddRequest { name, attributes: list.as_ref() }))
    };
    let good = add(&["a good one indeed"]);
    assert_ne!(good.0, ResultCode::Success);
    assert_eq!(add(&["short"]), good);
    assert_eq!(add(&[]), (ResultCode::Success, None));
}

#[test]
fn a_young_password_stays_and_its_owner_sends_the_old_one() {
    let served = served(&[("pwdMinAge", "60"), ("pwdSafeModify", "TRUE")]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "second"), refused(Why::OldMissing));
    assert_eq!(password_modify(&mut anna, ANNA, None, "second"), refused(Why::OldMissing));
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "second"), refused(Why::Young));
    served.clock.advance(Duration::from_secs(59));
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "second"), refused(Why::Young));
    served.clock.advance(Duration::from_secs(1));
    assert_eq!(exchange(&mut anna, ANNA, "wrong", "second").0, ResultCode::NoSuchAttribute);
    // A permissive modify minds no value that is missing: that proves nothing.
    let changes = modifications(&[
        (ModifyOperation::Delete, "userPassword", &["wrong"][..]),
        (ModifyOperation::Replace, "userPassword", &["second"]),
    ]);
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.1413", critical: true, value: None });
    let request = Request::Modify(ModifyRequest { name: ANNA, changes: changes.as_ref() });
    let answer = anna.request(request, controls.as_ref());
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "second"), DONE);
    // Who may set those of others is asked neither.
    let mut bert = signed_in(&served, BERT, FIRST);
    assert_eq!(replace(&mut bert, ANNA, "third"), DONE);
    assert_eq!(served.client().bind(ANNA, "third"), ResultCode::Success);
}

#[test]
fn people_change_their_own_only_where_they_may() {
    let served = served(&[("pwdAllowUserChange", "FALSE")]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "second"), refused(Why::NotAllowed));
    assert_eq!(password_modify(&mut anna, ANNA, Some(FIRST), "two"), refused(Why::NotAllowed));
    let delete = [(ModifyOperation::Delete, "userPassword", &[][..])];
    assert_eq!(modify(&mut anna, ANNA, &delete), refused(Why::NotAllowed));
    assert_eq!(replace(&mut signed_in(&served, BERT, FIRST), ANNA, "second"), DONE);
}

#[test]
fn used_passwords_are_compared_in_the_hash_pool() {
    for (scheme, hashes) in [(Scheme::Argon2id, 1), (Scheme::Ssha512, 0)] {
        let served = served_with(&[("pwdInHistory", "2")], cheap(scheme));
        let mut anna = signed_in(&served, ANNA, FIRST);
        let before = anna.connection.hashes;
        assert_eq!(replace(&mut anna, ANNA, FIRST), refused(Why::History), "the same as now");
        for (count, password) in ["second", "third", "fourth"].into_iter().enumerate() {
            served.clock.advance(Duration::from_secs(1));
            assert_eq!(password_modify(&mut anna, ANNA, None, password), DONE);
            assert_eq!(anna.connection.hashes - before, hashes * (2 * count + 2));
            let old = replace(&mut anna, ANNA, if count == 0 { FIRST } else { "second" });
            assert_eq!(old, refused(Why::History), "{password}");
        }
        let history = values(&served, ANNA, "pwdHistory");
        assert_eq!(history.len(), 2);
        assert!(history.iter().all(|one| one.contains("#1.3.6.1.4.1.1466.115.121.1.40#")));
        let mut bert = signed_in(&served, BERT, FIRST);
        assert_eq!(replace(&mut bert, ANNA, "third"), refused(Why::History));
        served.clock.advance(Duration::from_secs(1));
        assert_eq!(replace(&mut anna, ANNA, FIRST), DONE, "forgotten by now");
    }
}

#[test]
fn the_history_is_no_way_to_guess() {
    for storage in [Scheme::Ssha512.into(), cheap(Scheme::Argon2id)] {
        let rules = [("pwdInHistory", "3"), ("pwdSafeModify", "TRUE"), ("pwdMinAge", "60")];
        let served = served_with(&rules, storage);
        served.clock.advance(Duration::from_secs(61));
        let mut anna = signed_in(&served, ANNA, FIRST);
        for guess in [FIRST, "a wrong guess"] {
            let missing = refused(Why::OldMissing);
            assert_eq!(replace(&mut anna, ANNA, guess), missing, "{guess}");
            assert_eq!(password_modify(&mut anna, ANNA, None, guess), missing, "{guess}");
        }
        assert_eq!(exchange(&mut anna, ANNA, FIRST, FIRST), refused(Why::History));
        assert_eq!(exchange(&mut anna, ANNA, FIRST, "second"), DONE);
        for guess in [FIRST, "second", "a wrong guess"] {
            assert_eq!(exchange(&mut anna, ANNA, "second", guess), refused(Why::Young), "{guess}");
        }
    }
}

/// Without pwdSafeModify too: who guesses wrong has changed the password.
#[test]
fn whether_a_password_was_used_is_told_last() {
    let served = served(&[("pwdInHistory", "3")]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    for guess in [FIRST, "a wrong guess"] {
        let changes = [
            (ModifyOperation::Replace, "userPassword", &[guess][..]),
            (ModifyOperation::Delete, "userPassword", &["not there"]),
        ];
        let told = modify(&mut anna, ANNA, &changes);
        assert_eq!(told, (ResultCode::NoSuchAttribute, None), "{guess}");
        let list = modifications(&changes[..1]);
        let request = Request::Modify(ModifyRequest { name: ANNA, changes: list.as_ref() });
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.3.6.1.4.1.4203.1.10.2", critical: true, value: None });
        let answer = anna.request(request, controls.as_ref());
        assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{guess}");
    }
    assert_eq!(replace(&mut anna, ANNA, FIRST), refused(Why::History));
    assert_eq!(replace(&mut anna, ANNA, "a wrong guess"), DONE);
}

#[test]
fn the_own_password_is_held_to_the_rules_by_who_sets_those_of_others() {
    let served = served(&[("pwdInHistory", "3"), ("pwdMinLength", "8"), ("pwdCheckQuality", "1")]);
    let mut bert = signed_in(&served, BERT, FIRST);
    let hashed = "{SHA}EfatjsUqKYQj8oihU9ypm0RN0fA=";
    assert_eq!(replace(&mut bert, ANNA, hashed), DONE);
    assert_eq!(replace(&mut bert, BERT, hashed), refused(Why::Quality));
    assert_ne!(served.client().bind(BERT, "x"), ResultCode::Success);
}

/// Who has read a hash does not know the password.
#[test]
fn a_hash_is_no_proof_of_the_old_password() {
    for storage in [Scheme::Ssha512.into(), cheap(Scheme::Argon2id)] {
        let served = served_with(&[("pwdSafeModify", "TRUE")], storage);
        let hash = values(&served, ANNA, "userPassword").remove(0);
        let mut anna = signed_in(&served, ANNA, FIRST);
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.2.840.113556.1.4.1413", critical: true, value: None });
        let mut change = |old: &[&str]| {
            let list = modifications(&[
                (ModifyOperation::Delete, "userPassword", old),
                (ModifyOperation::Add, "userPassword", &["another one"]),
            ]);
            let request = Request::Modify(ModifyRequest { name: ANNA, changes: list.as_ref() });
            anna.request(request, controls.as_ref()).code()
        };
        assert_eq!(change(&[&hash]), ResultCode::InsufficientAccessRights);
        let both = [&*hash, "a wrong one"];
        assert_ne!(change(&both), ResultCode::Success);
        assert_eq!(values(&served, ANNA, "userPassword"), [hash], "it stayed");
        assert_eq!(change(&[FIRST]), ResultCode::Success);
    }
}

#[test]
fn a_used_password_is_forbidden_for_a_time() {
    let served = served(&[("ds-pwp-password-history-duration", "10 days")]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    for password in ["second", "third", "fourth"] {
        served.clock.advance(Duration::from_secs(86_400));
        assert_eq!(replace(&mut anna, ANNA, password), DONE);
    }
    assert_eq!(replace(&mut anna, ANNA, FIRST), refused(Why::History));
    served.clock.advance(Duration::from_secs(8 * 86_400));
    assert_eq!(replace(&mut anna, ANNA, "second"), refused(Why::History));
    assert_eq!(replace(&mut anna, ANNA, FIRST), DONE);
    assert_eq!(values(&served, ANNA, "pwdHistory").len(), 3);
}

#[test]
fn a_password_that_was_changed_meanwhile_is_no_way_around_the_history() {
    let served = served_with(&[("pwdInHistory", "3")], cheap(Scheme::Argon2id));
    let mut anna = signed_in(&served, ANNA, FIRST);
    let value = request_value(ANNA, None, Some("second"));
    let request = ExtendedRequest { oid: PASSWORD_MODIFY, value: Some(&value) };
    let message = anna.encode(Request::Extended(request), ldap::message::Controls::EMPTY);
    let connection = &mut anna.connection;
    let mut out = Vec::new();
    let next = connection.worker.handle(&mut connection.session, &message, &mut out);
    let Next::Hash(job) = next else { panic!("slow hashes go to the pool") };
    let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
    let Next::Write(pending) = next else { panic!("the change goes to the writer") };
    // The same one, set by another connection between the look and the decision.
    assert_eq!(replace(&mut signed_in(&served, ANNA, FIRST), ANNA, "second"), DONE);
    let (sender, receiver) = std::sync::mpsc::channel();
    pending.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
    let mut answer = Answer::default();
    answer.take(&receiver.recv().unwrap());
    assert_eq!(answer.code(), ResultCode::Busy, "{}", answer.diagnostic);
}

#[test]
fn a_reset_is_noted_and_the_owner_ends_it() {
    let served = served(&[
        ("pwdMustChange", "TRUE"),
        ("pwdMinAge", "3600"),
        ("passwordTPRMaxUse", "5"),
        ("passwordTPRDelayValidFrom", "10"),
        ("passwordTPRDelayExpireAt", "600"),
    ]);
    assert_eq!(values(&served, ANNA, "pwdReset"), ["TRUE"], "whoever added it");
    served.clock.advance(Duration::from_secs(20));
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "second"), DONE, "however young it is");
    let state = ["pwdReset", "pwdTPRUseCount", "pwdTPRValidFrom", "pwdTPRExpireAt"];
    for name in state {
        assert!(values(&served, ANNA, name).is_empty(), "{name}");
    }
    assert_eq!(values(&served, ANNA, "pwdChangedTime"), ["20260101000020.000000Z"]);
    assert_eq!(replace(&mut anna, ANNA, "third"), refused(Why::Young));
    assert_eq!(replace(&mut served.root(), ANNA, "fourth"), DONE);
    assert_eq!(values(&served, ANNA, "pwdReset"), ["TRUE"]);
    assert_eq!(values(&served, ANNA, "pwdTPRValidFrom"), ["20260101000030.000000Z"]);
    assert_eq!(values(&served, ANNA, "pwdTPRExpireAt"), ["20260101001020.000000Z"]);
    // What the administrator says in the same request stays.
    let changes = [
        (ModifyOperation::Replace, "userPassword", &["fifth"][..]),
        (ModifyOperation::Replace, "pwdReset", &["FALSE"]),
    ];
    assert_eq!(modify(&mut served.root(), ANNA, &changes), DONE);
    assert_eq!(values(&served, ANNA, "pwdReset"), ["FALSE"]);
}

#[test]
fn a_temporary_password_has_its_time() {
    let served = served(&[
        ("pwdMustChange", "TRUE"),
        ("passwordTPRDelayValidFrom", "10"),
        ("passwordTPRDelayExpireAt", "600"),
    ]);
    assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::InvalidCredentials, "not yet");
    served.clock.advance(Duration::from_secs(10));
    assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::Success);
    served.clock.advance(Duration::from_secs(590));
    assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::InvalidCredentials, "over");
}

#[test]
fn a_temporary_password_is_used_up() {
    let served = served(&[("pwdMustChange", "TRUE"), ("passwordTPRMaxUse", "2")]);
    assert_eq!(served.client().bind(ANNA, "wrong"), ResultCode::InvalidCredentials);
    assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::Success);
    assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::InvalidCredentials);
    assert_eq!(replace(&mut served.root(), ANNA, "second"), DONE);
    let mut anna = signed_in(&served, ANNA, "second");
    assert_eq!(replace(&mut anna, ANNA, "third"), DONE);
    for _ in 0..5 {
        assert_eq!(served.client().bind(ANNA, "third"), ResultCode::Success);
    }
}

#[test]
fn hashed_and_several_passwords_need_to_be_allowed() {
    let hashed = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    let keys = "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA";
    let quality = (ResultCode::ConstraintViolation, Some(Why::Quality as u8));
    let several = (ResultCode::ConstraintViolation, None);
    for (rules, by_bert, two) in [
        (&[("pwdCheckQuality", "1")][..], DONE, several),
        (&[("pwdCheckQuality", "2")], quality, several),
        (&[("ds-pwp-allow-pre-encoded-passwords", "false")], quality, several),
        (&[("ds-pwp-allow-multiple-password-values", "true")], DONE, DONE),
    ] {
        let served = served(rules);
        let mut anna = signed_in(&served, ANNA, FIRST);
        let mut bert = signed_in(&served, BERT, FIRST);
        // From Anna it would be clear text.
        assert_eq!(replace(&mut anna, ANNA, hashed), quality, "{rules:?}");
        assert_eq!(served.client().bind(ANNA, "secret"), ResultCode::InvalidCredentials);
        let auth = [
            (ModifyOperation::Add, "objectClass", &["authPasswordObject"][..]),
            (ModifyOperation::Add, "authPassword", &[keys]),
        ];
        assert_ne!(modify(&mut anna, ANNA, &auth).0, ResultCode::Success, "{rules:?}");
        assert_eq!(replace(&mut bert, ANNA, hashed), by_bert, "{rules:?}");
        let add = [(ModifyOperation::Add, "userPassword", &["one more"][..])];
        assert_eq!(modify(&mut anna, ANNA, &add), two, "{rules:?}");
        assert_eq!(modify(&mut served.root(), ANNA, &add), DONE);
        assert_eq!(replace(&mut served.root(), ANNA, hashed), DONE);
        assert_eq!(served.client().bind(ANNA, "secret"), ResultCode::Success);
    }
    let served = served(&[("ds-pwp-allow-pre-encoded-passwords", "true")]);
    assert_eq!(replace(&mut signed_in(&served, ANNA, FIRST), ANNA, hashed), DONE);
    assert_eq!(served.client().bind(ANNA, "secret"), ResultCode::Success);
}

#[test]
fn the_server_makes_up_what_the_policy_accepts() {
    let served = served(&[
        ("pwdCheckQuality", "2"),
        ("pwdMinLength", "20"),
        ("passwordMinUppers", "3"),
        ("passwordMinSpecials", "2"),
        ("passwordMinDigits", "2"),
        ("pwdInHistory", "2"),
    ]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    let value = request_value(ANNA, None, None);
    let answer = anna.extended(PASSWORD_MODIFY, Some(&value));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let told = String::from_utf8(answer.value.unwrap()[4..].to_vec()).unwrap();
    assert_eq!(told.len(), 20);
    assert_eq!(served.client().bind(ANNA, &told), ResultCode::Success);
    assert_eq!(replace(&mut anna, ANNA, &told), refused(Why::History));
}

#[test]
fn a_policy_has_its_scheme() {
    let served = served_with(&[("pwdDefaultHash", "{SSHA256}")], cheap(Scheme::Argon2id));
    assert!(values(&served, ANNA, "userPassword")[0].starts_with("{SSHA256}"));
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(anna.connection.hashes, 0);
    assert_eq!(replace(&mut anna, ANNA, "second"), DONE);
    assert!(values(&served, ANNA, "userPassword")[0].starts_with("{SSHA256}"));
    assert_eq!(served.client().bind(ANNA, "second"), ResultCode::Success);
    served.directory.shutdown();
    assert!(values(&served, ANNA, "userPassword")[0].starts_with("{SSHA256}"));
}

#[test]
fn a_policy_for_some_of_a_subtree_holds_for_new_entries() {
    let served = served(&[]);
    let mut root = served.root();
    let rules: &[(&str, &[&str])] = &[
        ("objectClass", &["subentry", "pwdPolicy"]),
        ("cn", &["policy"]),
        ("subtreeSpecification", &["{ specificationFilter item:person }"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdInHistory", &["1"]),
    ];
    let answer = root.try_add(POLICY, rules);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    add_person(&mut root, "uid=carla,dc=example,dc=org", "Carla", &["one"]);
    assert_eq!(values(&served, "uid=carla,dc=example,dc=org", "pwdChangedTime").len(), 1);
}

/// Entries as 389 and OpenDJ have them, with the pointers of each.
#[test]
fn policies_of_other_products_hold() {
    let served = served(&[]);
    let mut root = served.root();
    let ds389: &[(&str, &[&str])] = &[
        ("objectClass", &["ldapSubentry", "passwordPolicy"]),
        ("cn", &["389"]),
        ("passwordCheckSyntax", &["on"]),
        ("passwordMinLength", &["10"]),
        ("passwordHistory", &["on"]),
        ("passwordInHistory", &["1"]),
        ("passwordMustChange", &["on"]),
    ];
    let opendj: &[(&str, &[&str])] = &[
        ("objectClass", &["subentry", "ds-pwp-password-policy", "ds-pwp-length-based-validator"]),
        ("cn", &["opendj"]),
        ("subtreeSpecification", &["{ base \"ou=none\" }"]),
        ("ds-pwp-password-attribute", &["userPassword"]),
        ("ds-pwp-default-password-storage-scheme", &["Salted SHA-256"]),
        ("ds-pwp-length-based-min-password-length", &["12"]),
        ("ds-pwp-password-change-requires-current-password", &["true"]),
    ];
    for (name, attributes) in [("cn=389", ds389), ("cn=opendj", opendj)] {
        let answer = root.try_add(&format!("{name},dc=example,dc=org"), attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{name} {}", answer.diagnostic);
    }
    let point = |root: &mut Client, pointer: &str, name: &str| {
        let dn = format!("{name},dc=example,dc=org");
        let change = [(ModifyOperation::Replace, pointer, &[dn.as_str()][..])];
        assert_eq!(modify(root, ANNA, &change), DONE, "{pointer}");
    };
    point(&mut root, "pwdPolicySubentry", "cn=389");
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "Nine chr9"), refused(Why::Short));
    assert_eq!(replace(&mut anna, ANNA, "of two kinds"), refused(Why::Quality));
    assert_eq!(replace(&mut anna, ANNA, "of Three kinds"), DONE);
    assert_eq!(replace(&mut anna, ANNA, "of Three kinds"), refused(Why::History));
    assert_eq!(replace(&mut root, ANNA, FIRST), DONE);
    assert_eq!(values(&served, ANNA, "pwdReset"), ["TRUE"]);
    let none = [
        (ModifyOperation::Replace, "pwdPolicySubentry", &[][..]),
        (ModifyOperation::Replace, "pwdReset", &[]),
    ];
    assert_eq!(modify(&mut root, ANNA, &none), DONE);
    point(&mut root, "ds-pwp-password-policy-dn", "cn=opendj");
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "long enough it is"), refused(Why::OldMissing));
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "not so long"), refused(Why::Short));
    assert_eq!(exchange(&mut anna, ANNA, FIRST, "long enough it is"), DONE);
    assert!(values(&served, ANNA, "userPassword")[0].starts_with("{SSHA256}"));
    // One that is not understood is no policy at all.
    let wrong = [(ModifyOperation::Replace, "passwordMinLength", &["many"][..])];
    let answer = root.try_modify("cn=389,dc=example,dc=org", &wrong);
    assert_eq!(answer.code(), ResultCode::ConstraintViolation);
    assert!(answer.diagnostic.contains("'many' of passwordMinLength"), "{}", answer.diagnostic);
}

#[test]
fn a_wrong_old_password_is_a_guess_like_any_other() {
    let served = served_with(
        &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3"), ("pwdSafeModify", "TRUE")],
        cheap(Scheme::Argon2id),
    );
    let wrong = (ResultCode::InvalidCredentials, None);
    let mut anna = signed_in(&served, ANNA, FIRST);
    for guess in ["guess 1", "guess 2"] {
        assert_eq!(password_modify(&mut anna, ANNA, Some(guess), "quite another"), wrong);
    }
    // A change that is refused for another reason takes nothing back; one that is done does.
    let mut other = served.client();
    assert_eq!(other.bind(ANNA, "guess 3"), ResultCode::InvalidCredentials);
    assert_eq!(other.bind(ANNA, FIRST), ResultCode::InvalidCredentials, "it is locked");
    // The right one is not looked at any more, so that no guess is told.
    assert_eq!(password_modify(&mut anna, ANNA, Some(FIRST), "quite another"), wrong);
    let mut bert = signed_in(&served, BERT, FIRST);
    assert_eq!(password_modify(&mut bert, ANNA, None, "given by Bert"), DONE);
    let mut anna = signed_in(&served, ANNA, "given by Bert");
    for guess in ["guess 1", "guess 2"] {
        assert_eq!(password_modify(&mut anna, ANNA, Some(guess), "quite another"), wrong);
    }
    let right = Some("given by Bert");
    assert_eq!(password_modify(&mut anna, ANNA, right, "quite another"), DONE);
    assert_eq!(password_modify(&mut anna, ANNA, Some("guess 3"), "one more"), wrong);
    assert_eq!(served.client().bind(ANNA, "quite another"), ResultCode::Success);
}

#[test]
fn keys_of_a_password_go_with_it() {
    let keys = "SCRAM-SHA-256$4096:c2l4dGVlbiBvY3RldHMuLg==$\
                47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\
                47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let served = served(&[]);
    let mut root = served.root();
    let give = [
        (ModifyOperation::Add, "objectClass", &["authPasswordObject"][..]),
        (ModifyOperation::Replace, "authPassword", &[keys]),
    ];
    let has_keys = || !values(&served, ANNA, "authPassword").is_empty();
    assert_eq!(modify(&mut root, ANNA, &give), DONE);
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(password_modify(&mut anna, ANNA, Some(FIRST), "second to none"), DONE);
    assert!(!has_keys(), "password modify by the owner, who may not write the keys");

    assert_eq!(modify(&mut root, ANNA, &give[1..]), DONE);
    assert_eq!(replace(&mut root, ANNA, "third from here"), DONE);
    assert!(!has_keys(), "modify");

    let beside = [(ModifyOperation::Add, "userPassword", &["one more beside"][..])];
    assert_eq!(modify(&mut root, ANNA, &give[1..]), DONE);
    assert_eq!(modify(&mut root, ANNA, &beside), DONE);
    assert!(has_keys(), "the password that was there still is");

    let both = [(ModifyOperation::Replace, "userPassword", &["fourth in line"][..]), give[1]];
    assert_eq!(modify(&mut root, ANNA, &both), DONE);
    assert!(has_keys(), "the request sets them itself");

    let gone = [(ModifyOperation::Delete, "userPassword", &[][..])];
    assert_eq!(modify(&mut root, ANNA, &gone), DONE);
    assert!(!has_keys(), "no password, no keys");
}

#[test]
fn without_a_policy_people_choose_no_password_that_everybody_guesses() {
    let served = served(&[]);
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "seven77"), refused(Why::Short));
    assert_eq!(replace(&mut anna, ANNA, "Password1!"), refused(Why::Quality));
    assert_eq!(replace(&mut anna, ANNA, FIRST), DONE, "nothing is remembered");
    let more = [(ModifyOperation::Add, "userPassword", &["another one"][..])];
    assert_eq!(modify(&mut anna, ANNA, &more), DONE);
    assert_eq!(replace(&mut signed_in(&served, BERT, FIRST), ANNA, "x"), DONE);
    for name in ["pwdChangedTime", "pwdHistory", "pwdReset"] {
        assert!(values(&served, ANNA, name).is_empty(), "nothing is recorded: {name}");
    }
}

#[test]
fn state_is_written_by_those_who_may_reset_passwords() {
    let served = served(&[("pwdMustChange", "TRUE")]);
    let rule = "(targetattr = \"+ || *\")(version 3.0; acl \"Anna\"; allow (all) \
                userdn = \"ldap:///uid=anna,dc=example,dc=org\";)";
    let allow = [(ModifyOperation::Add, "aci", &[rule][..])];
    assert_eq!(served.root().modify(BERT, &allow), ResultCode::Success);
    let mut bert = signed_in(&served, BERT, FIRST);
    assert_eq!(replace(&mut bert, BERT, "second"), DONE);
    let mut anna = signed_in(&served, ANNA, FIRST);
    assert_eq!(replace(&mut anna, ANNA, "second"), DONE);
    for (name, value) in [
        ("pwdAccountLockedTime", "000001010000Z"),
        ("pwdReset", "TRUE"),
        ("pwdPolicySubentry", POLICY),
        ("pwdStartTime", "20250101000000Z"),
        ("pwdEndTime", "20300101000000Z"),
        ("nsAccountLock", "false"),
    ] {
        let change = [(ModifyOperation::Replace, name, &[value][..])];
        let denied = (ResultCode::InsufficientAccessRights, None);
        assert_eq!(modify(&mut anna, BERT, &change), denied, "{name}");
        assert_eq!(modify(&mut served.root(), BERT, &change), DONE, "{name}");
    }
    for name in ["pwdChangedTime", "pwdHistory", "pwdFailureTime", "pwdTPRUseCount"] {
        let change = [(ModifyOperation::Replace, name, &[][..])];
        let answer = modify(&mut served.root(), BERT, &change);
        assert_eq!(answer.0, ResultCode::ConstraintViolation, "{name}");
    }
}

#[test]
fn guesses_of_the_old_password_in_a_modify_count_as_failures() {
    // Under pwdSafeModify the old password could be guessed by delete and add, as often as one
    // liked, and of a locked account too.
    for storage in [Scheme::Ssha512.into(), cheap(Scheme::Argon2id)] {
        let served = served_with(
            &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3"), ("pwdSafeModify", "TRUE")],
            storage,
        );
        let mut anna = signed_in(&served, ANNA, FIRST);
        for guess in ["guess 1", "guess 2", "guess 3"] {
            let told = exchange(&mut anna, ANNA, guess, "quite another");
            assert_eq!(told, (ResultCode::NoSuchAttribute, None));
        }
        let locked = (ResultCode::UnwillingToPerform, Some(1));
        for guess in ["guess 4", FIRST] {
            assert_eq!(exchange(&mut anna, ANNA, guess, "quite another"), locked);
        }
        assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::InvalidCredentials);
        // Who resets it need not know the old one, and locks nobody by a value that is not there.
        let mut bert = signed_in(&served, BERT, FIRST);
        assert_eq!(password_modify(&mut bert, ANNA, None, "given by Bert"), DONE);
        for _ in 0..4 {
            let told = exchange(&mut bert, ANNA, "not there", "quite another");
            assert_eq!(told, (ResultCode::NoSuchAttribute, None));
        }
        signed_in(&served, ANNA, "given by Bert");
    }
}

#[test]
fn guesses_by_compare_count_as_failures() {
    // Who may compare passwords guessed as often as they liked, and while the account was locked.
    let storages = [Scheme::Ssha512.into(), cheap(Scheme::Argon2id)];
    for storage in storages {
        let served = served_with(&[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")], storage);
        let mut bert = signed_in(&served, BERT, FIRST);
        let mut compare = |value: &str| bert.compare(ANNA, "userPassword", value);
        assert_eq!(compare(FIRST), ResultCode::CompareTrue);
        for guess in ["guess 1", "guess 2"] {
            assert_eq!(compare(guess), ResultCode::CompareFalse);
        }
        assert_eq!(compare(FIRST), ResultCode::CompareTrue);
        assert_eq!(compare("guess 3"), ResultCode::CompareFalse);
        assert_eq!(compare(FIRST), ResultCode::CompareFalse, "it is locked");
        assert_eq!(compare("guess 4"), ResultCode::CompareFalse);
        assert_eq!(served.client().bind(ANNA, FIRST), ResultCode::InvalidCredentials);
        // Of other attributes it counts nothing, nor where they may not be compared.
        let mut anna = served.client();
        for guess in ["guess 1", "guess 2", "guess 3", "guess 4"] {
            assert_eq!(bert.compare(BERT, "sn", guess), ResultCode::CompareFalse);
            let refused = ResultCode::InsufficientAccessRights;
            assert_eq!(anna.compare(BERT, "userPassword", guess), refused);
        }
        signed_in(&served, BERT, FIRST);
    }
}

#[test]
fn what_an_import_brought_under_an_option_signs_nobody_in_and_goes_with_the_password() {
    // A bind took userPassword;x-b, which every reset left there; changing it renewed an expired
    // password.
    let served = served(&[("pwdMaxAge", "600"), ("pwdExpireWarning", "0")]);
    let (options, data) = served.pulled();
    let name = "uid=odd,dc=example,dc=org";
    let ldif = format!(
        "dn: {name}\nobjectClass: inetOrgPerson\nobjectClass: authPasswordObject\n\
         cn: Odd\nsn: Odd\nuserPassword: first of all\n\
         userPassword;x-b: the other\nauthPassword;x-b: SCRAM-SHA-256$4096:AAAA$AAAA:AAAA\n"
    );
    let sources = vec![Source::new("odd", ldif.as_bytes())];
    let path = data.path().join("data");
    import(&path, sources, &ImportOptions::default(), &SystemClock::new(), &mut ()).unwrap();
    let served = Served::opened(options, data);
    assert_eq!(served.client().bind(name, "the other"), ResultCode::InvalidCredentials);
    let mut odd = signed_in(&served, name, FIRST);
    let more = [(ModifyOperation::Replace, "userPassword;x-b", &["third"][..])];
    assert_eq!(modify(&mut odd, name, &more).0, ResultCode::ConstraintViolation);
    assert_eq!(values(&served, name, "userPassword;x-b").len(), 1);
    assert_eq!(password_modify(&mut odd, name, None, "quite another"), DONE);
    for dropped in ["userPassword;x-b", "authPassword;x-b"] {
        assert!(values(&served, name, dropped).is_empty());
    }
    assert_eq!(served.client().bind(name, "the other"), ResultCode::InvalidCredentials);
}
