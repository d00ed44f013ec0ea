//! What each privilege allows here, or why it is not granted: the table of the reference, and of
//! what a change of `ds-privilege-name` is checked against.

use crate::privilege::Privilege;

/// What granting a privilege does here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meaning {
    /// It allows this.
    Allows(&'static str),
    /// It would have no effect, and is not granted, because of this.
    Refused(&'static str),
}

impl Privilege {
    /// What it allows here, or why it is not granted.
    pub const fn meaning(self) -> Meaning {
        use Meaning::{Allows, Refused};
        match self {
            Self::BypassAcl => Allows("access without regard to ACIs"),
            Self::BypassLockdown => Allows(
                "using a server that is [locked down](../how-to/administration.md#lockdown), from \
                 its own machine",
            ),
            Self::ModifyAcl => Allows(
                "changing `aci`, and with `config-write` the global ones; renaming what the \
                 `target` of an ACI names; adding, changing, renaming and deleting [collective \
                 attributes and Classes of \
                 Service](../how-to/virtual-attributes.md#class-of-service)",
            ),
            Self::ConfigRead => Allows("reading `cn=config` and `cn=monitor`"),
            Self::ConfigWrite => Allows(
                "changing `cn=config`, indexes and the members of a cluster; having settings read \
                 again",
            ),
            Self::JmxRead | Self::JmxWrite | Self::JmxNotify => {
                Refused("there is no JMX here: grant config-read for cn=monitor")
            }
            Self::LdifImport => {
                Allows("tasks that load LDIF; a client that adds entries needs none")
            }
            Self::LdifExport => Allows("tasks that write LDIF; a client that searches needs none"),
            Self::BackendBackup => Allows("tasks that take backups"),
            Self::BackendRestore => Allows("tasks that restore backups"),
            Self::ServerLockdown => {
                Allows("[locking the server down](../how-to/administration.md#lockdown)")
            }
            Self::ServerShutdown => Allows("[stopping the server](../how-to/administration.md)"),
            Self::ServerRestart => {
                Allows("[having the server begin anew](../how-to/administration.md)")
            }
            Self::ProxiedAuth => Allows(
                "acting as another user, with the right `proxy` on that entry; but not changing \
                 that user's password",
            ),
            Self::DisconnectClient => Allows(
                "closing other sessions ([how to](../how-to/monitoring.md#who-is-connected))",
            ),
            Self::CancelRequest => Refused(
                "a session cancels its own requests, which needs none: grant disconnect-client to \
                 end those of others",
            ),
            Self::PasswordReset => Allows(
                "changing the password of another entry, and password policies ([who \
                 may](../how-to/password-policy.md))",
            ),
            Self::DataSync => Refused("members of a cluster know each other by their certificates"),
            Self::UpdateSchema => Allows(
                "changing `cn=schema`; but not defining a subtype of a type that the server acts \
                 on (operational ones, `objectClass`, `nsRoleFilter`, `ds-certificate-*`, \
                 `ds-cfg-*`), nor letting clients change a type that only the server changes",
            ),
            Self::PrivilegeChange => Allows("changing `ds-privilege-name`"),
            Self::UnindexedSearch => Allows("unindexed searches"),
            Self::SubentryWrite => Refused(
                "subentries are written by ACIs: grant modify-acl or password-reset for what they \
                 set",
            ),
            Self::ChangelogRead => Allows("reading `cn=changelog`"),
        }
    }
}

/// Why a value of `ds-privilege-name` is not to be written; none: it may be. One that takes a
/// privilege away does no harm where that has no effect.
pub fn why_not_granted(value: &[u8]) -> Option<String> {
    let shown = String::from_utf8_lossy(value);
    let (name, takes) = match value.strip_prefix(b"-") {
        Some(name) => (name, true),
        None => (value, false),
    };
    match Privilege::from_name(name).map(Privilege::meaning) {
        Some(Meaning::Refused(why)) if !takes => {
            Some(format!("'{shown}' would have no effect: {why}"))
        }
        Some(_) => None,
        None if name.eq_ignore_ascii_case(WITH_CONTROL) => None,
        None => {
            Some(format!("'{shown}' is no privilege; docs/reference/access-control.md lists them"))
        }
    }
}

/// What grants unindexed searches to who asks for them by a control.
const WITH_CONTROL: &[u8] = b"unindexed-search-with-control";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Where the table stands in the page.
    const BEGIN: &str = "| privilege | allows |\n|---|---|\n";

    /// The rows of the reference: `ROSTER_WRITE_REFERENCE=1` rewrites them.
    #[test]
    fn the_reference_has_each_privilege() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/access-control.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (table, after) = rest.split_once("\n\n").unwrap();
        let rows = Privilege::ALL.map(|one| match one.meaning() {
            Meaning::Allows(what) => format!("| `{}` | {what} |", one.name()),
            Meaning::Refused(why) => format!("| `{}` | is not granted: {why} |", one.name()),
        });
        let rows = rows.join("\n");
        if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{rows}\n\n{after}")).unwrap();
            return;
        }
        assert_eq!(table, rows, "ROSTER_WRITE_REFERENCE=1 cargo test --workspace --lib reference");
    }

    #[test]
    fn what_has_no_effect_is_taken_but_not_granted() {
        let refused =
            ["jmx-read", "JMX-Write", "data-sync", "subentry-write", "", "-", "--jmx-read"];
        for value in refused.into_iter().chain(["cancel-request", "everything", "-everything"]) {
            assert!(why_not_granted(value.as_bytes()).is_some(), "{value}");
        }
        for value in ["-jmx-read", "Config-Write", "-bypass-acl", "unindexed-search-with-control"] {
            assert_eq!(why_not_granted(value.as_bytes()), None, "{value}");
        }
    }
}
