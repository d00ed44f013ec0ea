//! Who reads what in a directory that nobody has given ACIs: strangers, the signed-in, and what is
//! secret to both.

use directory::GlobalAcis;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use tempfile::TempDir;

use crate::support::{Asked, Client, SUFFIX, Served, init_with};

const ANNA: &str = "uid=anna,dc=example,dc=org";
const BERT: &str = "uid=bert,dc=example,dc=org";

/// As `roster init` makes it, with two people; bert has all that is secret or the administrators'.
fn served(acis: GlobalAcis) -> Served {
    let data = TempDir::new().unwrap();
    init_with(&data.path().join("data"), acis);
    let served = Served::open_existing(data);
    let mut root = served.root();
    for definition in [
        "( 1.3.6.1.4.1.7165.2.1.25 NAME 'sambaNTPassword' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 \
         EQUALITY caseIgnoreIA5Match )",
        "( 1.3.6.1.4.1.7165.2.1.24 NAME 'renamed' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 \
         EQUALITY caseIgnoreIA5Match )",
        "( 1.3.6.1.4.1.55555.7 NAME 'pin' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 \
         EQUALITY caseIgnoreIA5Match X-SECRET 'TRUE' )",
        "( 1.3.6.1.4.1.55555.8 NAME 'doorPin' SUP pin )",
    ] {
        schema(&mut root, "attributeTypes", definition);
    }
    let class = "( 1.3.6.1.4.1.55555.9 NAME 'keeper' SUP top AUXILIARY MAY ( sambaNTPassword $ \
                 renamed $ pin $ doorPin ) )";
    schema(&mut root, "objectClasses", class);
    let secrets: Vec<(&str, &[&str])> =
        SECRETS.iter().map(|(name, value)| (*name, std::slice::from_ref(value))).collect();
    for (name, uid, more) in [(ANNA, ["anna"], &[][..]), (BERT, ["bert"], &secrets[..])] {
        let mut all: Vec<(&str, &[&str])> = vec![
            ("objectClass", &["inetOrgPerson", "keeper"]),
            ("uid", &uid),
            ("cn", &uid),
            ("sn", &["Berg"]),
            ("telephoneNumber", &["+49 1"]),
            ("userPassword", &["secret"]),
        ];
        all.extend_from_slice(more);
        assert_eq!(root.add(name, &all), ResultCode::Success, "{name}");
    }
    served
}

/// What nobody but administrators may see of bert.
const SECRETS: &[(&str, &str)] = &[
    ("sambaNTPassword", "0123456789ABCDEF0123456789ABCDEF"),
    ("renamed", "0123456789ABCDEF0123456789ABCDEF"),
    ("pin", "1234"),
    ("doorPin", "5678"),
    ("ds-privilege-name", "bypass-lockdown"),
    ("ds-rlim-size-limit", "77"),
    ("nsTimeLimit", "66"),
    ("aci", "(targetattr=\"l\")(version 3.0; acl \"l\"; deny (write) userdn=\"ldap:///anyone\";)"),
];

#[track_caller]
fn schema(root: &mut Client, attribute: &str, definition: &str) {
    let added = root.modify("cn=schema", &[(ModifyOperation::Add, attribute, &[definition])]);
    assert_eq!(added, ResultCode::Success, "{definition}");
}

fn bound(served: &Served, name: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(name, "secret"), ResultCode::Success);
    client
}

const EVERYTHING: &[&str] = &["*", "+"];

fn base(name: &str) -> Asked<'_> {
    Asked { base: name, scope: Scope::Base, attributes: EVERYTHING, ..Asked::default() }
}

/// What the root DSE and the schema tell is for everybody: clients cannot do without.
#[track_caller]
fn reads_what_clients_need(client: &mut Client) {
    let root_dse = client.search(&base(""));
    assert_eq!(root_dse.entries[0].texts("namingContexts"), [SUFFIX]);
    assert!(!root_dse.entries[0].texts("supportedExtension").is_empty());
    let schema = client.search(&base("cn=schema"));
    assert!(schema.entries[0].texts("attributeTypes").len() > 100);
    assert!(schema.entries[0].texts("objectClasses").len() > 20);
}

/// Nothing of the entries is there, in any of the ways to ask for it.
#[track_caller]
fn finds_nothing(client: &mut Client) {
    for scope in [Scope::Base, Scope::One, Scope::Subtree, Scope::Subordinate] {
        for name in [SUFFIX, BERT, "uid=nobody,dc=example,dc=org"] {
            let found = client.search(&Asked { scope, ..base(name) });
            assert_eq!(found.names(), [""; 0], "{name} {scope:?}");
            assert_eq!(found.code(), ResultCode::NoSuchObject, "{name} {scope:?}");
        }
    }
    let all = client.search(&Asked { base: "", scope: Scope::Subtree, ..base("") });
    assert_eq!(all.names(), [""; 0]);
    assert_eq!(client.compare(BERT, "sn", "Berg"), ResultCode::NoSuchObject);
    for name in ["cn=config", "cn=monitor", "cn=Access Control Handler,cn=config"] {
        assert_eq!(client.search(&base(name)).names(), [""; 0], "{name}");
    }
}

/// Bert's entry, without anything that is secret: neither read, nor found by, nor compared.
#[track_caller]
fn reads_no_secret(client: &mut Client) {
    let found = client.search(&base(BERT));
    assert_eq!(found.names(), [BERT]);
    assert_eq!(found.entries[0].texts("telephoneNumber"), ["+49 1"]);
    for (name, value) in SECRETS {
        assert_eq!(found.entries[0].texts(name), [""; 0], "{name}");
        let attributes = &[*name];
        let asked = client.search(&Asked { attributes, ..base(BERT) });
        assert_eq!(asked.entries[0].texts(name), [""; 0], "{name}");
        for filter in [format!("({name}=*)"), format!("(!({name}=nothing))")] {
            let by = client.search(&Asked { filter: &filter, ..Asked::default() });
            assert_eq!(by.names(), [""; 0], "{filter}");
        }
        let compared = client.compare(BERT, name, value);
        assert_eq!(compared, ResultCode::InsufficientAccessRights, "{name}");
    }
    for name in ["userPassword", "pwdChangedTime"] {
        assert_eq!(found.entries[0].texts(name), [""; 0], "{name}");
    }
}

#[test]
fn strangers_read_the_root_dse_and_the_schema_the_signed_in_what_is_not_secret() {
    let served = served(GlobalAcis::default());
    let mut stranger = served.client();
    reads_what_clients_need(&mut stranger);
    finds_nothing(&mut stranger);
    let mut anna = bound(&served, ANNA);
    reads_what_clients_need(&mut anna);
    reads_no_secret(&mut anna);
    // Not even of oneself.
    reads_no_secret(&mut bound(&served, BERT));
    let own = &[(ModifyOperation::Replace, "userPassword", &["another one"][..])];
    assert_eq!(anna.modify(ANNA, own), ResultCode::Success);
    assert_eq!(anna.modify(BERT, own), ResultCode::InsufficientAccessRights);
    // An administrator sees all of it.
    let seen = served.root().search(&base(BERT));
    for (name, value) in SECRETS {
        assert_eq!(seen.entries[0].texts(name), [*value], "{name}");
    }
}

#[test]
fn a_public_directory_keeps_its_secrets_too() {
    let served = served(GlobalAcis::Public);
    reads_what_clients_need(&mut served.client());
    reads_no_secret(&mut served.client());
    // Closed again, the root DSE and the schema stay open: they have rules of their own.
    let mut root = served.root();
    let handler = "cn=Access Control Handler,cn=config";
    let acis = root.search(&base(handler)).entries[0].texts("ds-cfg-global-aci");
    let reading = acis.iter().find(|aci| aci.contains("reads what is not secret")).unwrap();
    let taken = &[(ModifyOperation::Delete, "ds-cfg-global-aci", &[reading.as_str()][..])];
    assert_eq!(root.modify(handler, taken), ResultCode::Success);
    reads_what_clients_need(&mut served.client());
    finds_nothing(&mut served.client());
}

#[test]
fn in_a_closed_directory_the_acis_of_the_entries_say_all() {
    let served = served(GlobalAcis::Closed);
    reads_what_clients_need(&mut served.client());
    finds_nothing(&mut served.client());
    let mut anna = bound(&served, ANNA);
    reads_what_clients_need(&mut anna);
    finds_nothing(&mut anna);
    let own = &[(ModifyOperation::Replace, "userPassword", &["another one"][..])];
    assert_ne!(anna.modify(ANNA, own), ResultCode::Success);
    let aci = "(targetattr=\"cn || uid\")(version 3.0; acl \"cn\"; allow (read,search) \
               userdn=\"ldap:///all\";)";
    let put = &[(ModifyOperation::Add, "aci", &[aci][..])];
    assert_eq!(served.root().modify(SUFFIX, put), ResultCode::Success);
    let found = anna.search(&Asked { filter: "(uid=bert)", ..Asked::default() });
    assert_eq!((found.names(), found.entries[0].texts("sn").len()), (vec![BERT], 0));
    finds_nothing(&mut served.client());
}

/// What is in force is checked when it is written, under whatever name.
#[test]
fn an_aci_has_no_options_and_is_checked_under_any_type() {
    let served = served(GlobalAcis::default());
    let mut root = served.root();
    let open =
        "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (write) userdn=\"ldap:///anyone\";)";
    for name in ["aci;x-a", "aci;lang-de", "2.16.840.1.113730.3.1.55;x-a"] {
        for value in [open, "garbage"] {
            for operation in [ModifyOperation::Add, ModifyOperation::Replace] {
                let put = &[(operation, name, &[value][..])];
                assert_eq!(root.modify(ANNA, put), ResultCode::ConstraintViolation, "{name}");
            }
            let entry: &[(&str, &[&str])] =
                &[("objectClass", &["organizationalUnit"]), ("ou", &["x"]), (name, &[value])];
            let added = root.add("ou=x,dc=example,dc=org", entry);
            assert_eq!(added, ResultCode::ConstraintViolation, "{name}");
        }
    }
    let taken = &[(ModifyOperation::Replace, "aci;x-a", &[][..])];
    assert_eq!(root.modify(ANNA, taken), ResultCode::Success);
    // There is no other type that holds ACIs.
    let derived = &[(ModifyOperation::Add, "attributeTypes", &[DERIVED][..])];
    assert_eq!(root.modify("cn=schema", derived), ResultCode::ConstraintViolation);
    let put = |value| [(ModifyOperation::Add, "2.16.840.1.113730.3.1.55", [value])];
    for (value, code) in
        [("garbage", ResultCode::InvalidAttributeSyntax), (open, ResultCode::Success)]
    {
        let [(operation, name, values)] = put(value);
        assert_eq!(root.modify(ANNA, &[(operation, name, &values)]), code, "{value}");
    }
    // In force at once.
    let own = &[(ModifyOperation::Replace, "telephoneNumber", &["+49 2"][..])];
    assert_eq!(bound(&served, BERT).modify(ANNA, own), ResultCode::Success);
    assert_eq!(bound(&served, ANNA).modify(BERT, own), ResultCode::InsufficientAccessRights);
}

const DERIVED: &str = "( 1.3.6.1.4.1.55555.22 NAME 'ownAci' SUP aci USAGE directoryOperation )";

/// A type that becomes secret while the server runs is so for the next request.
#[test]
fn a_definition_makes_a_type_secret_at_once() {
    let served = served(GlobalAcis::default());
    let (mut root, mut anna) = (served.root(), bound(&served, ANNA));
    let of = |mark: &str| {
        format!(
            "( 1.3.6.1.4.1.55555.20 NAME 'badge' SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 \
             EQUALITY caseIgnoreIA5Match{mark} )"
        )
    };
    schema(&mut root, "attributeTypes", &of(""));
    let class = "( 1.3.6.1.4.1.55555.21 NAME 'badged' SUP top AUXILIARY MAY badge )";
    schema(&mut root, "objectClasses", class);
    let badge: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Add, "objectClass", &["badged"]),
        (ModifyOperation::Add, "badge", &["7"]),
    ];
    assert_eq!(root.modify(BERT, badge), ResultCode::Success);
    let badges = |client: &mut Client| client.search(&base(BERT)).entries[0].texts("badge").len();
    assert_eq!(badges(&mut anna), 1);
    let marked = of(" X-SECRET 'TRUE'");
    let change: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Delete, "attributeTypes", &[&of("")]),
        (ModifyOperation::Add, "attributeTypes", &[&marked]),
    ];
    assert_eq!(root.modify("cn=schema", change), ResultCode::Success);
    assert_eq!((badges(&mut anna), badges(&mut root)), (0, 1));
}
