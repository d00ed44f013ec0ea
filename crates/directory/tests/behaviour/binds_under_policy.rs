//! Binds under a password policy: what is refused, what is told, and what is noted without anybody
//! waiting for it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use auth::password::Scheme;
use directory::DirectoryOptions;
use directory::password_policy::{PolicyError, PolicyWarning, netscape, response_value};
use ldap::message::{
    Authentication, BindRequest, Control, ControlsBuf, DeleteRequest, ModifyOperation,
    ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::passwords::cheap;
use crate::support::disk::FaultyDisk;
use crate::support::{Answer, Asked, Client, SUFFIX, Served, modifications};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const POLICY: &str = "cn=policy,dc=example,dc=org";
const CONTROL: &str = "1.3.6.1.4.1.42.2.27.8.5.1";
const RELAX: &str = "1.3.6.1.4.1.4203.666.5.12";
const DAY: Duration = Duration::from_secs(86_400);
const LONG: Duration = Duration::from_secs(3_600);

fn add_person(root: &mut Client, name: &str) {
    let classes: &[&str] = &["inetOrgPerson"];
    let attributes: [(&str, &[&str]); 4] =
        [("objectClass", classes), ("cn", &["x"]), ("sn", &["x"]), ("userPassword", &["right"])];
    let answer = root.try_add(name, &attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

fn try_add_policy(root: &mut Client, name: &str, rules: &[(&str, &str)]) -> Answer {
    let mut attributes: Vec<(&str, &[&str])> = vec![
        ("objectClass", &["top", "subentry", "pwdPolicy"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
    ];
    attributes.extend(rules.iter().map(|(name, value)| (*name, std::slice::from_ref(value))));
    root.try_add(name, &attributes)
}

/// Anna, and a policy for all entries.
fn with(rules: &[(&str, &str)], adjust: impl FnOnce(&mut DirectoryOptions)) -> (Served, Client) {
    let served = Served::with(|options| {
        options.password_policy.state_delay = Duration::from_millis(5);
        adjust(options);
    });
    let mut root = served.root();
    add_person(&mut root, ANNA);
    let answer = try_add_policy(&mut root, POLICY, rules);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    (served, root)
}

/// Likewise; what binds leave stays in memory.
fn unwritten(rules: &[(&str, &str)]) -> (Served, Client) {
    with(rules, |options| options.password_policy.state_delay = LONG)
}

const LOCKOUT: &[(&str, &str)] = &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "3")];

/// A bind that asks what the policy says.
fn ask(client: &mut Client, name: &str, password: &str) -> Answer {
    let authentication = Authentication::Simple(password.as_bytes());
    let bind = BindRequest { version: 3, name, authentication };
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: CONTROL, critical: true, value: None });
    client.request(Request::Bind(bind), controls.as_ref())
}

/// What the answer to a bind says.
#[track_caller]
fn check(
    answer: &Answer,
    code: ResultCode,
    warning: Option<PolicyWarning>,
    error: Option<PolicyError>,
) {
    assert_eq!((answer.code(), answer.diagnostic.as_str()), (code, ""));
    let mut told = answer.controls.iter().filter(|(oid, _)| oid == CONTROL);
    let want = response_value(warning, error);
    assert_eq!(told.next().map(|(_, value)| value.clone()), Some(want));
}

fn unasked(answer: &Answer) -> Vec<(&str, &str)> {
    let controls = answer.controls.iter().filter(|(oid, _)| oid != CONTROL);
    let text = |value| std::str::from_utf8(value).unwrap();
    controls.map(|(oid, value)| (oid.as_str(), text(value))).collect()
}

fn values(root: &mut Client, name: &str, attribute: &str) -> Vec<String> {
    let attributes = [attribute];
    let search =
        Asked { base: name, scope: Scope::Base, attributes: &attributes, ..Asked::default() };
    root.search(&search).entries[0].texts(attribute)
}

/// Waits until an attribute has so many values.
#[track_caller]
fn wait_for(root: &mut Client, name: &str, attribute: &str, count: usize) -> Vec<String> {
    for _ in 0..2_000_000 {
        let found = values(root, name, attribute);
        if found.len() == count {
            return found;
        }
        thread::yield_now();
    }
    panic!("{attribute} of {name} never had {count} values: {:?}", values(root, name, attribute));
}

fn replace(root: &mut Client, name: &str, attribute: &str, values: &[&str]) {
    let changes = modifications(&[(ModifyOperation::Replace, attribute, values)]);
    let modify = ModifyRequest { name, changes: changes.as_ref() };
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: RELAX, critical: true, value: None });
    let answer = root.request(Request::Modify(modify), controls.as_ref());
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;
const LOCKED: Option<PolicyError> = Some(PolicyError::AccountLocked);

#[test]
fn failures_lock_an_account_and_its_time_or_an_administrator_unlocks_it() {
    let rules = [LOCKOUT, &[("pwdLockoutDuration", "600")]].concat();
    let (served, mut root) = with(&rules, |_| {});
    let mut client = served.client();
    for told in [None, None, LOCKED] {
        check(&ask(&mut client, ANNA, "wrong"), NO, None, told);
    }
    // It is told in the control alone, whatever the password.
    check(&ask(&mut client, ANNA, "right"), NO, None, LOCKED);
    check(&ask(&mut client, ANNA, "wrong"), NO, None, LOCKED);
    assert_eq!(client.bind(ANNA, "right"), NO);
    wait_for(&mut root, ANNA, "pwdAccountLockedTime", 1);
    wait_for(&mut root, ANNA, "pwdFailureTime", 3);
    assert_eq!(values(&mut root, ANNA, "modifiersName"), values(&mut root, ANNA, "creatorsName"));
    served.clock.advance(Duration::from_secs(601));
    check(&ask(&mut client, ANNA, "right"), OK, None, None);
    wait_for(&mut root, ANNA, "pwdFailureTime", 0);
    wait_for(&mut root, ANNA, "pwdAccountLockedTime", 0);
    for _ in 0..3 {
        assert_eq!(client.bind(ANNA, "wrong"), NO);
    }
    assert_eq!(client.bind(ANNA, "right"), NO);
    wait_for(&mut root, ANNA, "pwdAccountLockedTime", 1);
    replace(&mut root, ANNA, "pwdAccountLockedTime", &[]);
    replace(&mut root, ANNA, "pwdFailureTime", &[]);
    assert_eq!(client.bind(ANNA, "right"), OK);
}

#[test]
fn what_is_not_written_yet_counts_as_well_and_no_bind_writes_or_waits() {
    let mut faults = None;
    let (served, mut root) = with(LOCKOUT, |options| {
        let (disk, switches) = FaultyDisk::of(&options.data);
        options.disk = Some(disk);
        options.password_policy.state_delay = LONG;
        options.password_policy.last_login = true;
        faults = Some(switches);
    });
    let faults = faults.unwrap();
    let (syncs, lsn) =
        (faults.syncs.load(Ordering::SeqCst), served.directory.store().published().lsn);
    // Whoever waited for the disk would wait for ever.
    faults.hold();
    let mut client = served.client();
    for _ in 0..50 {
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        check(&ask(&mut client, ANNA, "right"), OK, None, None);
    }
    assert_eq!(values(&mut root, ANNA, "pwdFailureTime"), [""; 0]);
    assert_eq!(faults.syncs.load(Ordering::SeqCst), syncs);
    assert_eq!(served.directory.store().published().lsn, lsn);
    faults.release();
    drop((client, root));
    // A shutdown writes what there is.
    let served = served.reopen();
    assert_eq!(values(&mut served.root(), ANNA, "pwdLastSuccess").len(), 1);
}

#[test]
fn a_shutdown_keeps_failures_and_a_crash_loses_those_not_written() {
    let (served, mut root) = unwritten(LOCKOUT);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    assert_eq!(values(&mut root, ANNA, "pwdFailureTime"), [""; 0]);
    drop((client, root));
    let served = served.reopen();
    let (mut root, mut client) = (served.root(), served.client());
    assert_eq!(values(&mut root, ANNA, "pwdFailureTime").len(), 2);
    assert_eq!(client.bind(ANNA, "right"), OK);
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    drop((client, root));
    let served = served.killed();
    assert_eq!(values(&mut served.root(), ANNA, "pwdFailureTime").len(), 2);
    // A lock is written at once, and is there after a crash.
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    check(&ask(&mut client, ANNA, "right"), NO, None, LOCKED);
    wait_for(&mut served.root(), ANNA, "pwdAccountLockedTime", 1);
    drop(client);
    let served = served.killed();
    check(&ask(&mut served.client(), ANNA, "right"), NO, None, LOCKED);
}

#[test]
fn what_somebody_does_meanwhile_is_not_undone_by_what_is_written_later() {
    let (served, mut root) = unwritten(LOCKOUT);
    let mut client = served.client();
    for unlock in ["userPassword", "pwdFailureTime"] {
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        // Something else does not unlock.
        replace(&mut root, ANNA, "description", &["x"]);
        match unlock {
            "userPassword" => replace(&mut root, ANNA, unlock, &["right"]),
            _ => {
                replace(&mut root, ANNA, unlock, &["20250101000000Z"]);
                replace(&mut root, ANNA, unlock, &[]);
            }
        }
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        check(&ask(&mut client, ANNA, "right"), OK, None, None);
    }
    // Another name is the same account.
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    assert_eq!(root.rename(ANNA, "uid=berta", true, None), OK);
    let berta = "uid=berta,dc=example,dc=org";
    assert_eq!(client.bind(berta, "wrong"), NO);
    check(&ask(&mut client, berta, "right"), NO, None, LOCKED);
}

#[test]
fn a_delete_that_is_refused_forgets_no_failure() {
    // A large tree goes in steps. Who had no room for what it keeps of its answer until the last
    // one had its failures forgotten, although nothing was deleted.
    let (served, mut root) = with(LOCKOUT, |options| {
        options.password_policy.state_delay = LONG;
        options.limits.transactions_max_bytes = 16;
    });
    // The subordinates go in the order of their names: the account is among the first.
    let (tree, carl) = ("ou=tree,dc=example,dc=org", "cn=carl,ou=tree,dc=example,dc=org");
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    assert_eq!(root.add(tree, &unit), OK);
    add_person(&mut root, carl);
    for number in 0..250 {
        assert_eq!(root.add(&format!("ou=u{number},{tree}"), &unit), OK);
    }
    // An update that waits takes all the room there is for the administrator.
    let begun = root.extended("1.3.6.1.1.21.1", None).value.unwrap();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.3.6.1.1.21.2", critical: true, value: Some(&begun) });
    let request = Request::Delete(DeleteRequest { name: ANNA });
    assert_eq!(root.request(request, controls.as_ref()).code(), OK);
    let mut client = served.client();
    assert_eq!(client.bind(carl, "wrong"), NO);
    assert_eq!(client.bind(carl, "wrong"), NO);
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    controls.push(Control { oid: "1.3.6.1.1.13.1", critical: true, value: Some(b"\x30\x00") });
    let request = Request::Delete(DeleteRequest { name: tree });
    assert_eq!(root.request(request, controls.as_ref()).code(), ResultCode::Busy);
    assert_eq!(client.bind(carl, "wrong"), NO);
    check(&ask(&mut client, carl, "right"), NO, None, LOCKED);
}

#[test]
fn of_many_guesses_at_once_no_more_count_than_the_policy_allows() {
    let (served, mut root) = with(&[("pwdLockout", "TRUE"), ("pwdMaxFailure", "8")], |_| {});
    let looked_at: usize = thread::scope(|scope| {
        let guess = || {
            let mut client = served.client();
            let is_counted = |answer: Answer| answer.controls[0].1 == response_value(None, None);
            (0..40).filter(|_| is_counted(ask(&mut client, ANNA, "wrong"))).count()
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(guess)).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    // The eighth is told that it locks the account.
    assert_eq!(looked_at, 7);
    wait_for(&mut root, ANNA, "pwdFailureTime", 8);
    assert_eq!(served.client().bind(ANNA, "right"), NO);
}

#[test]
fn a_full_table_refuses_to_guess_rather_than_to_count() {
    let (served, mut root) = with(LOCKOUT, |options| {
        options.password_policy.state_delay = LONG;
        options.password_policy.accounts_max = 2;
    });
    let names: Vec<String> = (0..4).map(|number| format!("uid={number},{SUFFIX}")).collect();
    names.iter().for_each(|name| add_person(&mut root, name));
    let mut client = served.client();
    assert_eq!(client.bind(&names[0], "wrong"), NO);
    assert_eq!(client.bind(&names[1], "wrong"), NO);
    for password in ["wrong", "right"] {
        assert_eq!(client.bind(&names[2], password), ResultCode::Busy, "{password}");
    }
    assert_eq!(client.bind(&names[0], "wrong"), NO);
    assert_eq!(client.bind(&names[0], "right"), OK);
    // A lock has everything written, and what is written makes room.
    for _ in 0..3 {
        assert_eq!(client.bind(&names[1], "wrong"), NO);
    }
    wait_for(&mut root, &names[1], "pwdAccountLockedTime", 1);
    drop((client, root));
    let served = served.reopen();
    assert_eq!(served.client().bind(&names[2], "right"), OK);
}

#[test]
fn a_password_expires_with_a_warning_and_grace() {
    let rules =
        [("pwdMaxAge", "864000"), ("pwdExpireWarning", "86400"), ("pwdGraceAuthNLimit", "2")];
    let (served, mut root) = with(&rules, |_| {});
    replace(&mut root, ANNA, "pwdChangedTime", &["20260101000000Z"]);
    let mut client = served.client();
    let answer = ask(&mut client, ANNA, "right");
    check(&answer, OK, None, None);
    assert_eq!(unasked(&answer), []);
    served.clock.advance(DAY * 9 + Duration::from_secs(100));
    let left = Duration::from_secs(86_300);
    let answer = ask(&mut client, ANNA, "right");
    check(&answer, OK, Some(PolicyWarning::BeforeExpiration(left)), None);
    assert_eq!(unasked(&answer), [(netscape::EXPIRING, "86300")]);
    served.clock.advance(DAY);
    for left in [1, 0] {
        let answer = ask(&mut client, ANNA, "right");
        check(&answer, OK, Some(PolicyWarning::GraceRemaining(left)), None);
        assert_eq!(unasked(&answer), [(netscape::EXPIRED, "0")]);
    }
    let answer = ask(&mut client, ANNA, "right");
    check(&answer, NO, None, Some(PolicyError::PasswordExpired));
    assert_eq!(unasked(&answer), [(netscape::EXPIRED, "0")]);
    // Whoever does not know the password is not told.
    let answer = ask(&mut client, ANNA, "wrong");
    check(&answer, NO, None, None);
    assert_eq!(unasked(&answer), []);
    wait_for(&mut root, ANNA, "pwdGraceUseTime", 2);
    let answer = ask(&mut client, ANNA, "right");
    check(&answer, NO, None, Some(PolicyError::PasswordExpired));
}

#[test]
fn a_remembered_password_expires_to_the_second_and_one_of_unknown_age_never() {
    let (served, mut root) = with(&[("pwdMaxAge", "1")], |options| {
        options.passwords.storage = cheap(Scheme::Argon2id);
    });
    // She was added before there was a policy: nobody knows when the password was set
    // (draft-behera-ldap-password-policy-10 §5.3.2).
    let mut client = served.client();
    assert_eq!(values(&mut root, ANNA, "pwdChangedTime"), [""; 0]);
    assert_eq!(client.bind(ANNA, "right"), OK);
    served.clock.advance(DAY);
    assert_eq!(client.bind(ANNA, "right"), OK);
    replace(&mut root, ANNA, "userPassword", &["other"]);
    assert_eq!(client.bind(ANNA, "other"), OK);
    served.clock.advance(Duration::from_millis(999));
    let hashes = client.connection.hashes;
    assert_eq!(client.bind(ANNA, "other"), OK);
    assert_eq!(client.connection.hashes, hashes, "it is remembered");
    served.clock.advance(Duration::from_millis(1));
    let expired = Some(PolicyError::PasswordExpired);
    check(&ask(&mut client, ANNA, "other"), NO, None, expired);
}

#[test]
fn a_password_that_was_reset_is_changed_before_anything_else() {
    let (served, mut root) = with(&[("pwdMustChange", "TRUE")], |_| {});
    replace(&mut root, ANNA, "pwdReset", &["TRUE"]);
    let mut client = served.client();
    let answer = ask(&mut client, ANNA, "right");
    check(&answer, OK, None, Some(PolicyError::ChangeAfterReset));
    assert_eq!(unasked(&answer), [(netscape::EXPIRED, "0")]);
    let controls: &[(&str, bool, Option<&[u8]>)] = &[(CONTROL, false, None)];
    let answer = client.search(&Asked { controls, ..Asked::default() });
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::InsufficientAccessRights, 0));
    let value = response_value(None, Some(PolicyError::ChangeAfterReset));
    assert_eq!(answer.controls, [(CONTROL.to_owned(), value)]);
    let no = ResultCode::InsufficientAccessRights;
    let change: (ModifyOperation, &str, &[&str]) =
        (ModifyOperation::Replace, "description", &["x"]);
    let password: (ModifyOperation, &str, &[&str]) =
        (ModifyOperation::Replace, "userPassword", &["another one"]);
    assert_eq!(client.modify(ANNA, &[change]), no);
    assert_eq!(client.modify(ANNA, &[password, change]), no);
    assert_eq!(client.modify(SUFFIX, &[password]), no);
    assert_eq!(client.compare(ANNA, "cn", "x"), no);
    assert_eq!(client.delete(ANNA), no);
    assert_eq!(client.add(&format!("ou=x,{SUFFIX}"), &[]), no);
    assert_eq!(client.extended("1.3.6.1.4.1.4203.1.11.3", None).code(), OK);
    let other = b"\x30\x0c\x80\x0adc=example";
    assert_eq!(client.extended("1.3.6.1.4.1.4203.1.11.1", Some(other)).code(), no);
    // What tells of the entry, or makes no change of it.
    let selection: &[u8] = b"\x30\x03\x04\x01*";
    let filter: &[u8] = b"\x87\x02cn";
    for (oid, value) in [
        ("1.3.6.1.1.13.1", Some(selection)),
        ("1.3.6.1.1.13.2", Some(selection)),
        ("1.3.6.1.1.12", Some(filter)),
        ("1.3.6.1.4.1.4203.1.10.2", None),
        ("1.3.6.1.4.1.4203.666.5.2", None),
    ] {
        let list = modifications(&[password]);
        let request = Request::Modify(ModifyRequest { name: ANNA, changes: list.as_ref() });
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid, critical: true, value });
        let answer = client.request(request, controls.as_ref());
        assert_eq!((answer.code(), answer.controls.len()), (no, 0), "{oid}");
    }
    assert_eq!(client.modify(ANNA, &[password]), OK);
    // What the entry says counts, not what the session remembers.
    replace(&mut root, ANNA, "pwdReset", &[]);
    assert_eq!(client.search(&Asked::default()).code(), OK);
}

/// The duty ended with a password that was deleted, and with the very one that was to be changed.
#[test]
fn a_password_that_was_reset_gives_way_to_another_one() {
    let several = ("ds-pwp-allow-multiple-password-values", "true");
    for duty in [("pwdMustChange", "TRUE"), ("ds-pwp-force-change-on-add", "true")] {
        let (served, mut root) = with(&[several], |_| {});
        let rules = [
            (ModifyOperation::Add, "objectClass", &["ds-pwp-password-policy"][..]),
            (ModifyOperation::Add, duty.0, &[duty.1]),
        ];
        assert_eq!(root.modify(POLICY, &rules), OK);
        replace(&mut root, ANNA, "pwdReset", &["TRUE"]);
        let mut client = served.client();
        check(&ask(&mut client, ANNA, "right"), OK, None, Some(PolicyError::ChangeAfterReset));
        let gone: (ModifyOperation, &str, &[&str]) = (ModifyOperation::Delete, "userPassword", &[]);
        let same: (ModifyOperation, &str, &[&str]) =
            (ModifyOperation::Replace, "userPassword", &["right"]);
        let beside: (ModifyOperation, &str, &[&str]) =
            (ModifyOperation::Add, "userPassword", &["another one"]);
        for changes in [&[gone][..], &[same], &[beside]] {
            assert_ne!(client.modify(ANNA, changes), OK, "{duty:?} {changes:?}");
            let answer = client.search(&Asked::default());
            assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{duty:?} {changes:?}");
            assert_eq!(served.client().bind(ANNA, "right"), OK, "{duty:?} {changes:?}");
        }
        // PasswdModifyRequestValue: the same one as the new password.
        let value = [&b"\x30\x07\x82\x05"[..], b"right"].concat();
        let answer = client.extended("1.3.6.1.4.1.4203.1.11.1", Some(&value));
        assert_eq!(answer.code(), ResultCode::ConstraintViolation, "{}", answer.diagnostic);
        assert_eq!(client.modify(ANNA, &[gone, beside]), OK);
        assert_eq!(client.search(&Asked::default()).code(), OK);
        assert!(values(&mut root, ANNA, "pwdReset").is_empty());
    }
}

/// What is allowed is about the password that was reset, not about that of whomever it serves.
#[test]
fn whoever_must_change_a_password_changes_none_of_those_they_act_as() {
    let ben = "uid=ben,dc=example,dc=org";
    let (served, mut root) = with(&[("pwdMustChange", "TRUE")], |_| {});
    add_person(&mut root, ben);
    let give = [(ModifyOperation::Add, "ds-privilege-name", &["proxied-auth"][..])];
    assert_eq!(root.modify(ANNA, &give), OK);
    let aci = format!(r#"(version 3.0; acl "x"; allow (proxy) userdn="ldap:///{ANNA}";)"#);
    assert_eq!(root.modify(ben, &[(ModifyOperation::Add, "aci", &[aci.as_str()])]), OK);
    // Both were added, so both have to change theirs.
    replace(&mut root, ben, "pwdReset", &[]);
    replace(&mut root, ANNA, "pwdReset", &["TRUE"]);
    let no = ResultCode::InsufficientAccessRights;
    let mut client = served.client();
    for other in [ben, "dn:"] {
        let message = format!("{other}\0{ANNA}\0right");
        let credentials = Some(message.as_bytes());
        let authentication = Authentication::Sasl { mechanism: "PLAIN", credentials };
        let bind = Request::Bind(BindRequest { version: 3, name: "", authentication });
        assert_eq!(client.request(bind, ControlsBuf::new().as_ref()).code(), OK);
        let password = (ModifyOperation::Replace, "userPassword", &["taken over"][..]);
        assert_eq!(client.modify(ben, &[password]), no, "{other}");
        assert_eq!(client.modify(ANNA, &[password]), no, "{other}");
        // PasswdModifyRequestValue: of whoever asks, and of somebody by name.
        let value = |user: Option<&str>| {
            let user = user.map(|user| [&[0x80, user.len() as u8], user.as_bytes()].concat());
            let new = [&b"\x82\x0a"[..], b"taken over"].concat();
            let parts = [user.unwrap_or_default(), new].concat();
            [&[0x30, parts.len() as u8][..], &parts].concat()
        };
        for user in [None, Some(ben), Some(ANNA)] {
            let answer = client.extended("1.3.6.1.4.1.4203.1.11.1", Some(&value(user)));
            assert_eq!(answer.code(), no, "{other}: {user:?}");
        }
        // It still may ask who it is, and bind again.
        assert_eq!(client.extended("1.3.6.1.4.1.4203.1.11.3", None).code(), OK);
    }
    check(&ask(&mut client, ben, "right"), OK, None, None);
    let answer = ask(&mut client, ANNA, "right");
    check(&answer, OK, None, Some(PolicyError::ChangeAfterReset));
    let password = (ModifyOperation::Replace, "userPassword", &["another one"][..]);
    assert_eq!(client.modify(ANNA, &[password]), OK);
}

#[test]
fn an_account_that_is_not_used_is_locked_and_binds_are_noted_seldom() {
    let (served, mut root) = with(&[("pwdMaxIdle", "864000")], |_| {});
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "right"), OK);
    let first = wait_for(&mut root, ANNA, "pwdLastSuccess", 1);
    served.clock.advance(Duration::from_secs(60));
    assert_eq!(client.bind(ANNA, "right"), OK);
    served.clock.advance(DAY * 9);
    assert_eq!(values(&mut root, ANNA, "pwdLastSuccess"), first);
    assert_eq!(client.bind(ANNA, "right"), OK);
    for _ in 0..2_000_000 {
        if values(&mut root, ANNA, "pwdLastSuccess") != first {
            break;
        }
        thread::yield_now();
    }
    served.clock.advance(DAY * 9);
    assert_eq!(client.bind(ANNA, "right"), OK);
    served.clock.advance(DAY * 10);
    check(&ask(&mut client, ANNA, "right"), NO, None, LOCKED);
}

#[test]
fn the_nearest_policy_is_in_force_as_soon_as_it_is_there() {
    let (served, mut root) = unwritten(&[]);
    let (branch, deep) = (format!("ou=a,{SUFFIX}"), format!("uid=b,ou=a,{SUFFIX}"));
    assert_eq!(root.add(&branch, &[("objectClass", &["organizationalUnit"])]), OK);
    add_person(&mut root, &deep);
    let mut client = served.client();
    let mut is_locked_after_one = |root: &mut Client, name: &str| {
        assert_eq!(client.bind(name, "wrong"), NO);
        let is_locked = client.bind(name, "right") != OK;
        replace(root, name, "userPassword", &["right"]);
        // It may have been written already.
        replace(root, name, "pwdAccountLockedTime", &[]);
        is_locked
    };
    assert!(!is_locked_after_one(&mut root, ANNA));
    let one: &[(&str, &str)] = &[("pwdLockout", "TRUE"), ("pwdMaxFailure", "1")];
    let near = format!("cn=near,{branch}");
    assert_eq!(try_add_policy(&mut root, &near, one).code(), OK);
    assert!(is_locked_after_one(&mut root, &deep));
    assert!(!is_locked_after_one(&mut root, ANNA));
    replace(&mut root, ANNA, "pwdPolicySubentry", &[&near]);
    assert!(is_locked_after_one(&mut root, ANNA));
    replace(&mut root, &near, "pwdMaxFailure", &["2"]);
    assert!(!is_locked_after_one(&mut root, &deep));
    replace(&mut root, &near, "pwdMaxFailure", &["1"]);
    assert_eq!(root.rename(&branch, "ou=c", true, None), OK);
    let deep = format!("uid=b,ou=c,{SUFFIX}");
    assert!(is_locked_after_one(&mut root, &deep));
    // The pointer names nothing any more: it is as if it were not there.
    assert!(!is_locked_after_one(&mut root, ANNA));
    assert_eq!(root.delete(&format!("cn=near,ou=c,{SUFFIX}")), OK);
    assert!(!is_locked_after_one(&mut root, &deep));
    let answer = try_add_policy(&mut root, &near, &[("pwdMaxFailure", "-1")]);
    assert_eq!(answer.code(), ResultCode::NoSuchObject);
    let answer = try_add_policy(&mut root, &format!("cn=x,{SUFFIX}"), &[("pwdMaxAge", "-1")]);
    assert_eq!(answer.code(), ResultCode::ConstraintViolation);
    assert!(answer.diagnostic.contains("'-1' of pwdMaxAge"), "{}", answer.diagnostic);
    let wrong: (ModifyOperation, &str, &[&str]) =
        (ModifyOperation::Replace, "pwdCheckQuality", &["7"]);
    assert_eq!(root.modify(POLICY, &[wrong]), ResultCode::ConstraintViolation);
}

#[test]
fn the_default_of_the_settings_is_for_those_that_have_no_other() {
    let served = Served::with(|options| {
        options.password_policy.default_dn = format!("CN=default, {SUFFIX}");
        options.password_policy.state_delay = LONG;
    });
    let mut root = served.root();
    add_person(&mut root, ANNA);
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    assert_eq!(client.bind(ANNA, "right"), OK);
    // It governs no subtree of its own.
    let rules: [(&str, &[&str]); 5] = [
        ("objectClass", &["device", "pwdPolicy"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdLockout", &["TRUE"]),
        ("pwdMaxFailure", &["1"]),
        ("cn", &["default"]),
    ];
    assert_eq!(root.add(&format!("cn=default,{SUFFIX}"), &rules), OK);
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    assert_eq!(client.bind(ANNA, "right"), NO);
    drop((client, root));
    let served = served.reopen();
    assert_eq!(served.client().bind(ANNA, "right"), NO);
}

#[test]
fn accounts_are_switched_off_with_and_without_a_policy() {
    let served = Served::new();
    let mut root = served.root();
    add_person(&mut root, ANNA);
    let mut client = served.client();
    for (attribute, value) in [
        ("nsAccountLock", "true"),
        ("ds-pwp-account-disabled", "TRUE"),
        ("ds-pwp-account-expiration-time", "20251231235959Z"),
        ("pwdAccountLockedTime", "000001010000Z"),
        ("pwdStartTime", "20270101000000Z"),
        ("pwdEndTime", "20251231235959Z"),
    ] {
        replace(&mut root, ANNA, attribute, &[value]);
        check(&ask(&mut client, ANNA, "right"), NO, None, LOCKED);
        check(&ask(&mut client, ANNA, "wrong"), NO, None, LOCKED);
        replace(&mut root, ANNA, attribute, &[]);
        assert_eq!(client.bind(ANNA, "right"), OK, "{attribute}");
    }
    assert_eq!(values(&mut root, ANNA, "pwdLastSuccess"), [""; 0]);
}

#[test]
fn binds_wait_after_failures_where_the_policy_says_so() {
    let (served, mut root) = with(&[("pwdMinDelay", "2"), ("pwdMaxDelay", "60")], |_| {});
    let mut client = served.client();
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    check(&ask(&mut client, ANNA, "right"), NO, None, LOCKED);
    served.clock.advance(Duration::from_secs(3));
    assert_eq!(client.bind(ANNA, "wrong"), NO);
    served.clock.advance(Duration::from_secs(3));
    check(&ask(&mut client, ANNA, "right"), NO, None, LOCKED);
    served.clock.advance(Duration::from_secs(2));
    wait_for(&mut root, ANNA, "pwdFailureTime", 2);
    assert_eq!(client.bind(ANNA, "right"), OK);
    wait_for(&mut root, ANNA, "pwdFailureTime", 0);
}

#[test]
fn binds_that_no_rule_counts_take_no_room_beside_those_that_one_would() {
    let counting: [&[(&str, &str)]; 2] = [
        &[("pwdMaxAge", "300"), ("pwdGraceAuthNLimit", "3")],
        &[("passwordTPRMaxUse", "3"), ("pwdMustChange", "FALSE")],
    ];
    for rules in counting {
        let rules = [LOCKOUT, rules].concat();
        let (served, mut root) = with(&rules, |options| {
            options.password_policy.state_delay = LONG;
            options.password_policy.last_login = true;
        });
        replace(&mut root, ANNA, "userPassword", &["right"]);
        let mut client = served.client();
        for _ in 0..300 {
            assert_eq!(client.bind(ANNA, "wrong"), NO);
            check(&ask(&mut client, ANNA, "right"), OK, None, None);
        }
    }
    // Those that one counts are kept, whatever comes between them.
    let (served, mut root) = unwritten(&[LOCKOUT, counting[0]].concat());
    replace(&mut root, ANNA, "userPassword", &["right"]);
    let mut client = served.client();
    served.clock.advance(Duration::from_secs(301));
    for left in [2, 1, 0] {
        assert_eq!(client.bind(ANNA, "wrong"), NO);
        let warning = Some(PolicyWarning::GraceRemaining(left));
        check(&ask(&mut client, ANNA, "right"), OK, warning, None);
    }
    check(&ask(&mut client, ANNA, "right"), NO, None, Some(PolicyError::PasswordExpired));
}
