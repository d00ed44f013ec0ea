//! The page of extended operations, made of the table.

use super::*;

/// Of each operation of the table, in its order: what it is called, what it needs, and what it
/// does here.
const TOLD: &[(&str, &str, &str, &str)] = &[
    (
        START_TLS,
        "StartTLS (RFC 4511)",
        "no other request in progress",
        "The connection continues under TLS. Listed if the server has a certificate; not on a \
         local socket. Clear text that was sent after the request is discarded.",
    ),
    (
        password_modify::value::OID,
        "Password modify (RFC 3062)",
        "for the own password, to be bound as the entry and not to act as it; for others the \
         privilege `password-reset` and [all privileges that they \
         have](access-control.md#privileges); `write` on `userPassword`; confidentiality, like \
         binds",
        "Sets a password, or generates one. The [password policy](../how-to/password-policy.md) \
         applies; a wrong old password counts as a failed bind. Takes the controls of updates.",
    ),
    (WHO_AM_I, "Who am I? (RFC 4532)", "–", "Returns the authorization identity of the session."),
    (
        cancel::OID,
        "Cancel (RFC 3909)",
        "a request of the same session",
        "The search, compare or update gets `canceled` and has no effect; the result is \
         `noSuchOperation` if it has ended, `tooLate` if an update is being carried out.",
    ),
    (
        transactions::START,
        "Start transaction (RFC 5805)",
        "–",
        "Returns an identifier; updates with the transaction specification control wait for the \
         end.",
    ),
    (
        transactions::END,
        "End transaction (RFC 5805)",
        "what its updates need",
        "Applies all updates of the transaction together, or none.",
    ),
    (
        policy_state::OID,
        "Password policy state (OpenDJ)",
        "the privilege `password-reset`; to change something, `write` on it and all privileges of \
         the account as well",
        "Used by `roster account` and OpenDJ's `manage-account` to read and set account state.",
    ),
    (policy_state::PING_OID, "Password policy state (PingDirectory)", "as above", "As above."),
    (
        why::OID,
        "Why",
        "the administrator, or `config-read` and `modify-acl`",
        "Used by `roster why`: which ACI decides, and which privileges are needed. Request and \
         response are JSON.",
    ),
    (
        change_members::OID,
        "Change members",
        "the privilege `config-write`",
        "Used by `roster cluster promote`, `demote`, `remove`, `replace` and `transfer`: changes \
         who takes part in the [cluster](../how-to/cluster.md). Whoever leads carries it out; the \
         answer comes when the change is in force, or after 30 s. Request and response are JSON.",
    ),
    (
        join::OID,
        "Join",
        "TLS, and a token of `roster cluster token`",
        "Used by `roster cluster join`: a machine gets a number, its certificate, and what all \
         members have in their data directories; later, that it is a voter. Request and response \
         are JSON.",
    ),
    (
        verify::OID,
        "Verify",
        "the privilege `config-write`",
        "Used by `roster cluster verify`: begins to compare what all members of the \
         [cluster](../how-to/cluster.md#compare-the-copies) have stored, tells how far it is, or \
         ends it. It goes on as long as it is asked after every 15 s. Request and response are \
         JSON.",
    ),
    (
        init_cluster::OID,
        "Init cluster",
        "the privilege `config-write`",
        "Used by `roster cluster init -H`: a server that is alone begins once more as the first \
         member of a [cluster](../how-to/cluster.md). The request is JSON.",
    ),
    (
        reload_settings::OID,
        "Reload settings",
        "the privilege `config-write`",
        "Used by `roster reload`: the server reads what its machine says of \
         [settings](../how-to/settings.md), as on SIGHUP, and tells what came of it. Request and \
         response are JSON.",
    ),
    (
        stop_server::OID,
        "Stop server",
        "the privilege `server-shutdown`; to begin anew, `server-restart`",
        "Used by `roster stop` and `roster restart`: the server answers, then \
         [stops](../how-to/administration.md) as on SIGTERM, or begins anew with the arguments \
         that it has. Request and response are JSON.",
    ),
    (
        lockdown::OID,
        "Lockdown",
        "the privilege `server-lockdown`; to begin it, `bypass-lockdown` and a connection from the \
         machine of the server",
        "Used by `roster lockdown`: while it is on, [only administrators on the server's \
         machine](../how-to/administration.md#lockdown) are served. Request and response are JSON.",
    ),
];

const HEAD: &str = "\
# Extended operations

The root DSE lists these operations in `supportedExtension`. An ACI with `extop` says who may call
one ([access control](access-control.md)); by default everybody may. Each also needs what this table
says. An unknown operation is `protocolError`.

`ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference` regenerates this page.

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
