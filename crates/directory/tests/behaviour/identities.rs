//! Whoever asks is who they are now: names change hands, and power ends with its reason.

use auth::password::Scheme;
use ldap::control_value::policy_state::{self, PolicyState, StateOperation, operation};
use ldap::message::{
    Authentication, BindRequest, Control, Controls, ControlsBuf, ExtendedRequest, ModifyDnRequest,
    ModifyOperation, ModifyRequest, Request,
};
use ldap::result::ResultCode;

use crate::support::{Answer, Client, SUFFIX, Served, modifications};

const START: &str = "1.3.6.1.1.21.1";
const END: &str = "1.3.6.1.1.21.3";
const SPECIFICATION: &str = "1.3.6.1.1.21.2";
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";
const PROXIED: &str = "2.16.840.1.113730.3.4.18";

fn person(uid: &str) -> String {
    format!("uid={uid},{SUFFIX}")
}

/// Mallory may rename whomever; Vip may do everything; Gate may act as others.
fn served() -> Served {
    let served = Served::with(|options| {
        options.passwords.storage = Scheme::Ssha512.into();
        options.passwords.check_own = false;
    });
    let mut root = served.root();
    for uid in ["mallory", "vip", "gate", "target"] {
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &[uid]),
            ("sn", &[uid]),
            ("userPassword", &["secret"]),
        ];
        assert_eq!(root.add(&person(uid), attributes), ResultCode::Success);
    }
    for (uid, privileges) in
        [("vip", &["bypass-acl", "password-reset"][..]), ("gate", &["proxied-auth"])]
    {
        let give = [(ModifyOperation::Add, "ds-privilege-name", privileges)];
        assert_eq!(root.modify(&person(uid), &give), ResultCode::Success);
    }
    let rules = [
        format!(
            "(targetattr=\"uid\")(version 3.0; acl \"names\"; allow (write) \
             userdn=\"ldap:///{} || ldap:///{}\";)",
            person("mallory"),
            person("mallory2")
        ),
        gate_may_act(),
    ];
    let allow = [(ModifyOperation::Add, "aci", &[&*rules[0], &*rules[1]][..])];
    assert_eq!(root.modify(SUFFIX, &allow), ResultCode::Success);
    served
}

fn gate_may_act() -> String {
    let gate = person("gate");
    format!("(version 3.0; acl \"gate\"; allow (proxy) userdn=\"ldap:///{gate}\";)")
}

fn signed_in(served: &Served, uid: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(&person(uid), "secret"), ResultCode::Success);
    client
}

fn rename(client: &mut Client, from: &str, to: &str, controls: Controls<'_>) -> Answer {
    let rename = ModifyDnRequest {
        name: &person(from),
        new_rdn: &format!("uid={to}"),
        delete_old_rdn: true,
        new_superior: None,
    };
    client.request(Request::ModifyDn(rename), controls)
}

fn set_password(client: &mut Client, uid: &str, controls: Controls<'_>) -> Answer {
    let changes =
        modifications(&[(ModifyOperation::Replace, "userPassword", &["stolen goods"][..])]);
    let request = ModifyRequest { name: &person(uid), changes: changes.as_ref() };
    client.request(Request::Modify(request), controls)
}

/// Starts a transaction; returns its identifier.
fn start(client: &mut Client) -> Vec<u8> {
    let answer = client.extended(START, None);
    assert_eq!(answer.code(), ResultCode::Success);
    answer.value.unwrap()
}

fn within<'c>(identifier: &'c [u8], proxied: Option<&'c [u8]>) -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    let value = Some(identifier);
    controls.push(Control { oid: SPECIFICATION, critical: true, value });
    if proxied.is_some() {
        controls.push(Control { oid: PROXIED, critical: true, value: proxied });
    }
    controls
}

fn commit(client: &mut Client, identifier: &[u8]) -> ResultCode {
    let mut value = vec![0x30, identifier.len() as u8 + 2, 0x04, identifier.len() as u8];
    value.extend_from_slice(identifier);
    let end = ExtendedRequest { oid: END, value: Some(&value) };
    client.request(Request::Extended(end), Controls::EMPTY).code()
}

#[test]
fn nobody_becomes_another_by_giving_the_other_the_own_name() {
    let served = served();
    let mut mallory = signed_in(&served, "mallory");
    let identifier = start(&mut mallory);
    let controls = within(&identifier, None);
    let controls = controls.as_ref();
    assert_eq!(rename(&mut mallory, "mallory", "mallory2", controls).code(), ResultCode::Success);
    assert_eq!(rename(&mut mallory, "vip", "mallory", controls).code(), ResultCode::Success);
    assert_eq!(set_password(&mut mallory, "mallory", controls).code(), ResultCode::Success);
    assert_ne!(commit(&mut mallory, &identifier), ResultCode::Success);
    assert_eq!(served.client().bind(&person("vip"), "secret"), ResultCode::Success);

    // One after the other, before anybody looks at the session: the own name is gone at once.
    let none = Controls::EMPTY;
    let mut mallory = signed_in(&served, "mallory");
    assert_eq!(rename(&mut mallory, "mallory", "mallory2", none).code(), ResultCode::Success);
    let answer = rename(&mut mallory, "vip", "mallory", none);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
    let mut root = served.root();
    assert_eq!(rename(&mut root, "vip", "mallory", none).code(), ResultCode::Success);
    let answer = set_password(&mut mallory, "mallory", none);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
    let own = mallory.extended(PASSWORD_MODIFY, Some(b"\x30\x06\x82\x04qqqq"));
    assert_eq!(own.code(), ResultCode::InsufficientAccessRights, "{}", own.diagnostic);
    assert_eq!(served.client().bind(&person("mallory"), "secret"), ResultCode::Success);
}

#[test]
fn a_transaction_has_no_power_that_was_taken_meanwhile() {
    let privileges = (ModifyOperation::Replace, "ds-privilege-name", &[][..]);
    let lock = (ModifyOperation::Add, "pwdAccountLockedTime", &["000001010000Z"][..]);
    let right = gate_may_act();
    let right = &[right.as_str()];
    for (whose, change) in [
        ("the right", Some((ModifyOperation::Delete, "aci", &right[..]))),
        ("vip", Some(privileges)),
        ("vip", Some(lock)),
        ("vip", None),
        ("gate", Some(privileges)),
        ("gate", Some(lock)),
        ("gate", None),
    ] {
        let served = served();
        let mut gate = signed_in(&served, "gate");
        let identifier = start(&mut gate);
        let vip = format!("dn:{}", person("vip"));
        let controls = within(&identifier, Some(vip.as_bytes()));
        let queued = set_password(&mut gate, "target", controls.as_ref());
        assert_eq!(queued.code(), ResultCode::Success, "{}", queued.diagnostic);
        let mut root = served.root();
        let done = match change {
            Some(change) if change.1 == "aci" => root.modify(SUFFIX, &[change]),
            Some(change) => root.modify(&person(whose), &[change]),
            None => root.delete(&person(whose)),
        };
        assert_eq!(done, ResultCode::Success);
        assert_ne!(commit(&mut gate, &identifier), ResultCode::Success, "{whose} {change:?}");
        assert_eq!(served.client().bind(&person("target"), "secret"), ResultCode::Success);
    }
}

#[test]
fn a_session_that_acts_as_another_ends_with_whoever_proved_it() {
    for change in ["privilege", "right", "lock", "delete"] {
        let served = served();
        let mut client = served.client();
        let credentials = format!("dn:{}\0dn:{}\0secret", person("vip"), person("gate"));
        let credentials = Some(credentials.as_bytes());
        let authentication = Authentication::Sasl { mechanism: "PLAIN", credentials };
        let bind = BindRequest { version: 3, name: "", authentication };
        let bound = client.request(Request::Bind(bind), Controls::EMPTY);
        assert_eq!(bound.code(), ResultCode::Success, "{}", bound.diagnostic);
        let connection = &mut client.connection;
        assert_eq!(connection.worker.recheck(&mut connection.session), Ok(()));
        let mut root = served.root();
        let gate = person("gate");
        let done = match change {
            "privilege" => {
                root.modify(&gate, &[(ModifyOperation::Replace, "ds-privilege-name", &[][..])])
            }
            "right" => {
                let right = gate_may_act();
                root.modify(SUFFIX, &[(ModifyOperation::Delete, "aci", &[right.as_str()][..])])
            }
            "lock" => {
                let locked = &["000001010000Z"][..];
                root.modify(&gate, &[(ModifyOperation::Add, "pwdAccountLockedTime", locked)])
            }
            _ => root.delete(&gate),
        };
        assert_eq!(done, ResultCode::Success);
        let connection = &mut client.connection;
        assert!(connection.worker.recheck(&mut connection.session).is_err(), "{change}");
        let answer = set_password(&mut client, "target", Controls::EMPTY);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{change}");
    }
}

#[test]
fn another_spelling_of_the_name_takes_nothing() {
    let served = served();
    let mut vip = signed_in(&served, "vip");
    start(&mut vip);
    let none = Controls::EMPTY;
    assert_eq!(rename(&mut served.root(), "vip", "VIP", none).code(), ResultCode::Success);
    let connection = &mut vip.connection;
    assert_eq!(connection.worker.recheck(&mut connection.session), Ok(()));
}

#[test]
fn strangers_have_nothing_hashed_and_a_request_makes_one_guess() {
    let served = Served::with(|options| options.passwords.check_own = false);
    let mut root = served.root();
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["anna"]),
        ("userPassword", &["secret"]),
    ];
    let anna = person("anna");
    assert_eq!(root.add(&anna, attributes), ResultCode::Success);
    let mut stranger = served.client();
    for operation in [ModifyOperation::Delete, ModifyOperation::Replace, ModifyOperation::Add] {
        let change = [(operation, "userPassword", &["guess"][..])];
        assert_eq!(stranger.modify(&anna, &change), ResultCode::InsufficientAccessRights);
        assert_eq!(stranger.connection.hashes, 0);
    }
    let mut owner = served.client();
    assert_eq!(owner.bind(&anna, "secret"), ResultCode::Success);
    let hashes = owner.connection.hashes;
    let many = [(ModifyOperation::Delete, "userPassword", &["one", "two"][..])];
    assert_eq!(owner.modify(&anna, &many), ResultCode::UnwillingToPerform);
    let apart = [
        (ModifyOperation::Delete, "userPassword", &["one"][..]),
        (ModifyOperation::Delete, "userPassword", &["two"]),
    ];
    assert_eq!(owner.modify(&anna, &apart), ResultCode::UnwillingToPerform);
    let texts = (0..11).map(|number| format!("password {number}")).collect::<Vec<_>>();
    let texts = texts.iter().map(String::as_str).collect::<Vec<_>>();
    let new = [(ModifyOperation::Replace, "userPassword", &*texts)];
    assert_eq!(owner.modify(&anna, &new), ResultCode::AdminLimitExceeded);
    assert_eq!(owner.connection.hashes, hashes);
    let mut all = attributes.to_vec();
    all[3].1 = &texts;
    assert_eq!(stranger.add(&person("otto"), &all), ResultCode::AdminLimitExceeded);
    assert_eq!(stranger.connection.hashes, 0);
}

#[test]
fn who_may_not_set_a_password_has_none_hashed() {
    // Whoever had no right to add entries was refused after the server had hashed ten passwords.
    let served = Served::with(|options| {
        options.passwords.storage = Scheme::Pbkdf2Sha256.into();
        options.passwords.check_own = false;
    });
    let mut root = served.root();
    let attributes: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["anna"]),
        ("userPassword", &["secret"]),
    ];
    for uid in ["anna", "help"] {
        assert_eq!(root.add(&person(uid), attributes), ResultCode::Success);
    }
    let reset = [(ModifyOperation::Add, "ds-privilege-name", &["password-reset"][..])];
    assert_eq!(root.modify(&person("help"), &reset), ResultCode::Success);
    let deny = "(targetattr=\"userPassword\")(version 3.0; acl \"no\"; deny (write) \
                userdn=\"ldap:///all\";)";
    let allow = "(targetattr=\"*\")(version 3.0; acl \"all\"; allow (all) \
                 userdn=\"ldap:///all\";)";
    let change = |root: &mut Client, acis: &[&str]| {
        root.modify(SUFFIX, &[(ModifyOperation::Replace, "aci", acis)])
    };
    assert_eq!(change(&mut root, &[deny]), ResultCode::Success);
    let denied = ResultCode::InsufficientAccessRights;
    let sign_in = |uid: &str| {
        let mut client = served.client();
        assert_eq!(client.bind(&person(uid), "secret"), ResultCode::Success);
        client
    };
    for mut client in [served.client(), sign_in("anna"), sign_in("help")] {
        let hashes = client.connection.hashes;
        assert_eq!(client.add(&person("otto"), attributes), denied);
        for operation in [ModifyOperation::Delete, ModifyOperation::Replace, ModifyOperation::Add] {
            let change = [(operation, "userPassword", &["secret"][..])];
            assert_eq!(client.modify(&person("anna"), &change), denied);
        }
        let anna = person("anna").into_bytes();
        let new = [&[0x80, u8::try_from(anna.len()).unwrap()][..], &anna, &[0x82, 1, b'x']];
        let new = new.concat();
        let old = [&[0x81, 6][..], b"secret"].concat();
        for fields in [new.clone(), [&new[..2 + anna.len()], &old, &[0x82, 1, b'x']].concat()] {
            let value = [&[0x30, u8::try_from(fields.len()).unwrap()][..], &fields].concat();
            assert_eq!(client.extended(PASSWORD_MODIFY, Some(&value)).code(), denied);
        }
        assert_eq!(client.connection.hashes, hashes);
    }
    // Who may is served as before.
    assert_eq!(change(&mut root, &[allow]), ResultCode::Success);
    let mut help = sign_in("help");
    assert_eq!(help.add(&person("otto"), attributes), ResultCode::Success);
    let set = [(ModifyOperation::Replace, "userPassword", &["another"][..])];
    assert_eq!(help.modify(&person("anna"), &set), ResultCode::Success);
}

/// Pam may write whatever is below the suffix; Help resets passwords besides. Vip has privileges
/// that neither has.
fn with_delegates() -> Served {
    let served = served();
    let mut root = served.root();
    for uid in ["pam", "help"] {
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &[uid]),
            ("sn", &[uid]),
            ("userPassword", &["secret"]),
        ];
        assert_eq!(root.add(&person(uid), attributes), ResultCode::Success);
    }
    let reset = [(ModifyOperation::Add, "ds-privilege-name", &["password-reset"][..])];
    assert_eq!(root.modify(&person("help"), &reset), ResultCode::Success);
    let rule = format!(
        "(targetattr=\"* || +\")(version 3.0; acl \"all\"; allow (all, import, export) \
         userdn=\"ldap:///{} || ldap:///{}\";)",
        person("pam"),
        person("help")
    );
    let allow = [(ModifyOperation::Add, "aci", &[&*rule][..])];
    assert_eq!(root.modify(SUFFIX, &allow), ResultCode::Success);
    for unit in ["a", "b"] {
        let name = format!("ou={unit},{SUFFIX}");
        let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
        assert_eq!(root.add(&name, unit), ResultCode::Success);
    }
    served
}

fn moved(client: &mut Client, name: &str, new_rdn: &str, below: Option<&str>) -> Answer {
    let rename = ModifyDnRequest { name, new_rdn, delete_old_rdn: false, new_superior: below };
    client.request(Request::ModifyDn(rename), Controls::EMPTY)
}

#[track_caller]
fn refused_by_rank(answer: &Answer) {
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{}", answer.diagnostic);
    assert!(answer.diagnostic.contains("has privileges that you lack"), "{}", answer.diagnostic);
}

#[test]
fn who_writes_names_gives_none_to_an_entry_with_more_privileges() {
    let served = with_delegates();
    let below = format!("ou=a,{SUFFIX}");
    let add_uid = [(ModifyOperation::Add, "uid", &["pam"][..])];
    for uid in ["pam", "help"] {
        let mut client = signed_in(&served, uid);
        for vip in ["vip", "gate"] {
            refused_by_rank(&rename(&mut client, vip, "another", Controls::EMPTY));
            refused_by_rank(&moved(&mut client, &person(vip), "cn=pam", None));
            refused_by_rank(&moved(&mut client, &person(vip), &format!("uid={vip}"), Some(&below)));
            let code = client.modify(&person(vip), &add_uid);
            assert_eq!(code, ResultCode::InsufficientAccessRights);
        }
        // What is no name of anybody, and whoever has nothing that the asker lacks.
        let title = [(ModifyOperation::Replace, "title", &["x"][..])];
        assert_eq!(client.modify(&person("vip"), &title), ResultCode::Success);
        assert_eq!(client.modify(&person("target"), &add_uid), ResultCode::Success);
        let remove = [(ModifyOperation::Delete, "uid", &["pam"][..])];
        assert_eq!(client.modify(&person("target"), &remove), ResultCode::Success);
    }
    let mut vip = signed_in(&served, "vip");
    let answer = rename(&mut vip, "vip", "vip2", Controls::EMPTY);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let mut root = served.root();
    let answer = rename(&mut root, "vip2", "vip", Controls::EMPTY);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

#[test]
fn who_renames_a_superior_moves_no_entry_with_more_privileges() {
    let served = with_delegates();
    let (a, b) = (format!("ou=a,{SUFFIX}"), format!("ou=b,{SUFFIX}"));
    let mut root = served.root();
    let gone = moved(&mut root, &person("vip"), "uid=vip", Some(&a));
    assert_eq!(gone.code(), ResultCode::Success, "{}", gone.diagnostic);
    let mut pam = signed_in(&served, "pam");
    refused_by_rank(&moved(&mut pam, &a, "ou=c", None));
    refused_by_rank(&moved(&mut pam, &a, "ou=a", Some(&b)));
    let other = moved(&mut pam, &b, "ou=c", None);
    assert_eq!(other.code(), ResultCode::Success, "{}", other.diagnostic);
    let by_root = moved(&mut root, &a, "ou=d", None);
    assert_eq!(by_root.code(), ResultCode::Success, "{}", by_root.diagnostic);
}

#[test]
fn who_resets_passwords_resets_none_of_an_entry_with_more_privileges() {
    let served = with_delegates();
    let mut help = signed_in(&served, "help");
    refused_by_rank(&set_password(&mut help, "vip", Controls::EMPTY));
    refused_by_rank(&set_password(&mut help, "gate", Controls::EMPTY));
    let reset = |uid: &str| {
        let name = person(uid);
        let mut value = vec![0x80, name.len() as u8];
        value.extend_from_slice(name.as_bytes());
        value.extend_from_slice(b"\x82\x0cstolen goods");
        let mut whole = vec![0x30, value.len() as u8];
        whole.extend_from_slice(&value);
        whole
    };
    refused_by_rank(&help.extended(PASSWORD_MODIFY, Some(&reset("vip"))));
    // Nor is its account switched off.
    let disable = |uid: &str| {
        let values = vec!["true".into()];
        let operations = vec![StateOperation { number: operation::SET_DISABLED, values }];
        PolicyState { target: person(uid).into(), operations }.encode()
    };
    refused_by_rank(&help.extended(policy_state::OID, Some(&disable("vip"))));
    let done = help.extended(policy_state::OID, Some(&disable("target")));
    assert_eq!(done.code(), ResultCode::Success, "{}", done.diagnostic);
    assert_eq!(served.client().bind(&person("vip"), "secret"), ResultCode::Success);
    // Whoever has no more than Help has.
    assert_eq!(set_password(&mut help, "pam", Controls::EMPTY).code(), ResultCode::Success);
    let done = help.extended(PASSWORD_MODIFY, Some(&reset("mallory")));
    assert_eq!(done.code(), ResultCode::Success, "{}", done.diagnostic);
    // One's own, and the administrator's word.
    let mut vip = signed_in(&served, "vip");
    assert_eq!(set_password(&mut vip, "vip", Controls::EMPTY).code(), ResultCode::Success);
    assert_eq!(
        set_password(&mut served.root(), "gate", Controls::EMPTY).code(),
        ResultCode::Success
    );
}

#[test]
fn who_acts_as_an_entry_with_privileges_gives_it_no_other_name() {
    let served = served();
    let mut gate = signed_in(&served, "gate");
    let vip = format!("dn:{}", person("vip"));
    let mut controls = ControlsBuf::new();
    let value = Some(vip.as_bytes());
    controls.push(Control { oid: PROXIED, critical: true, value });
    let controls = controls.as_ref();
    refused_by_rank(&rename(&mut gate, "vip", "gate2", controls));
    let changes = modifications(&[(ModifyOperation::Add, "uid", &["gate2"])]);
    let request = ModifyRequest { name: &person("vip"), changes: changes.as_ref() };
    refused_by_rank(&gate.request(Request::Modify(request), controls));
    let answer = rename(&mut gate, "target", "other", controls);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}
