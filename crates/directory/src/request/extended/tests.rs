//! The page of extended operations, made of the table.

use super::*;

/// Of each operation of the table, in its order: what it is called, what it needs, and what it
/// does here.
const TOLD: &[(&str, &str, &str, &str)] = &[
    (
        START_TLS,
        "StartTLS (RFC 4511)",
        "no other request under way",
        "The connection goes on under TLS. Announced where there is a certificate; on a local \
         socket there is none of it. What was sent behind the request in clear text is thrown \
         away.",
    ),
    (
        password_modify::OID,
        "Password modify (RFC 3062)",
        "to be the entry, and not to act as it; for others the privilege `password-reset` and \
         [all privileges that they have](access-control.md#privileges); \
         `write` on `userPassword`; protection, as binds do",
        "Sets a password, or makes one up. The [password policy](../how-to/password-policy.md) \
         holds; a wrong old password counts as a failed bind. Takes the controls of updates.",
    ),
    (WHO_AM_I, "Who am I? (RFC 4532)", "–", "The authorization identity of the session."),
    (
        cancel::OID,
        "Cancel (RFC 3909)",
        "the request to be of the same session",
        "The search, compare or update named is answered `canceled`, and nothing of it happens; \
         `noSuchOperation` when it is over, `tooLate` when an update is being carried out.",
    ),
    (
        transaction::START,
        "Start transaction (RFC 5805)",
        "–",
        "Gives an identifier; updates with the transaction specification control wait for the end.",
    ),
    (
        transaction::END,
        "End transaction (RFC 5805)",
        "what its updates need",
        "Carries out all its updates as one, or none of them.",
    ),
    (
        policy_state::OID,
        "Password policy state (OpenDJ)",
        "the privilege `password-reset`; to change something, `write` on it and all privileges of \
         the account as well",
        "What `roster account` and OpenDJ's `manage-account` ask and set.",
    ),
    (policy_state::PING_OID, "Password policy state (PingDirectory)", "likewise", "Likewise."),
    (
        why::OID,
        "Why",
        "the administrator, or `config-read` and `modify-acl`",
        "What `roster why` asks: which ACI decides, and which privileges it takes. Request and \
         answer are JSON.",
    ),
];

const HEAD: &str = "\
# Extended operations

Those that are listed in `supportedExtension` of the root DSE. An ACI with `extop` says who may call
one ([access control](access-control.md)); by default everybody may, and each needs what is said
here besides. One that is not known is answered with `protocolError`.

`ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` writes this page again.

| operation | OID | needs | what it does here |
|---|---|---|---|
";

fn reference_page() -> String {
    let mut page = HEAD.to_owned();
    for (oid, name, needs, does) in TOLD {
        page.push_str(&format!("| {name} | {oid} | {needs} | {does} |\n"));
    }
    page
}

#[test]
fn every_operation_is_told_of() {
    let told: Vec<&str> = TOLD.iter().map(|(oid, ..)| *oid).collect();
    assert_eq!(told, supported(true).collect::<Vec<_>>());
}

/// `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` writes it again.
#[test]
fn the_reference_page_of_operations_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/extended-operations.md");
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference_page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), reference_page());
}
