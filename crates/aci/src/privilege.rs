//! Privileges: what an identity may do to the server as a whole, beside and before any ACI.
//!
//! Invariant: a privilege alone lets nobody see or change an entry, but for `bypass-acl`.

use std::fmt;

/// One privilege. The names are those of OpenDJ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Privilege {
    /// Access control does not apply.
    BypassAcl,
    /// Use a server that is locked down.
    BypassLockdown,
    /// Change ACIs, in entries and in the configuration.
    ModifyAcl,
    /// See the configuration and what the server tells of itself.
    ConfigRead,
    /// Change the configuration.
    ConfigWrite,
    /// No meaning here.
    JmxRead,
    /// No meaning here.
    JmxWrite,
    /// No meaning here.
    JmxNotify,
    /// Load LDIF.
    LdifImport,
    /// Write LDIF.
    LdifExport,
    /// Take backups.
    BackendBackup,
    /// Restore backups.
    BackendRestore,
    /// Lock the server down.
    ServerLockdown,
    /// Stop the server.
    ServerShutdown,
    /// Start the server anew.
    ServerRestart,
    /// Act as somebody else, where an ACI gives the right `proxy`.
    ProxiedAuth,
    /// End connections of others.
    DisconnectClient,
    /// Give up requests of others.
    CancelRequest,
    /// Set the password of another entry.
    PasswordReset,
    /// Synchronise data.
    DataSync,
    /// Change the schema.
    UpdateSchema,
    /// Change privileges.
    PrivilegeChange,
    /// Search where no index helps.
    UnindexedSearch,
    /// Write subentries.
    SubentryWrite,
    /// Read the change log.
    ChangelogRead,
}

impl Privilege {
    /// Every privilege.
    pub const ALL: [Self; 25] = [
        Self::BypassAcl,
        Self::BypassLockdown,
        Self::ModifyAcl,
        Self::ConfigRead,
        Self::ConfigWrite,
        Self::JmxRead,
        Self::JmxWrite,
        Self::JmxNotify,
        Self::LdifImport,
        Self::LdifExport,
        Self::BackendBackup,
        Self::BackendRestore,
        Self::ServerLockdown,
        Self::ServerShutdown,
        Self::ServerRestart,
        Self::ProxiedAuth,
        Self::DisconnectClient,
        Self::CancelRequest,
        Self::PasswordReset,
        Self::DataSync,
        Self::UpdateSchema,
        Self::PrivilegeChange,
        Self::UnindexedSearch,
        Self::SubentryWrite,
        Self::ChangelogRead,
    ];

    /// Its name, as a value of `ds-privilege-name`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BypassAcl => "bypass-acl",
            Self::BypassLockdown => "bypass-lockdown",
            Self::ModifyAcl => "modify-acl",
            Self::ConfigRead => "config-read",
            Self::ConfigWrite => "config-write",
            Self::JmxRead => "jmx-read",
            Self::JmxWrite => "jmx-write",
            Self::JmxNotify => "jmx-notify",
            Self::LdifImport => "ldif-import",
            Self::LdifExport => "ldif-export",
            Self::BackendBackup => "backend-backup",
            Self::BackendRestore => "backend-restore",
            Self::ServerLockdown => "server-lockdown",
            Self::ServerShutdown => "server-shutdown",
            Self::ServerRestart => "server-restart",
            Self::ProxiedAuth => "proxied-auth",
            Self::DisconnectClient => "disconnect-client",
            Self::CancelRequest => "cancel-request",
            Self::PasswordReset => "password-reset",
            Self::DataSync => "data-sync",
            Self::UpdateSchema => "update-schema",
            Self::PrivilegeChange => "privilege-change",
            Self::UnindexedSearch => "unindexed-search",
            Self::SubentryWrite => "subentry-write",
            Self::ChangelogRead => "changelog-read",
        }
    }

    /// The privilege of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|one| name.eq_ignore_ascii_case(one.name().as_bytes()))
    }
}

/// A set of privileges.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Privileges(u32);

impl Privileges {
    /// No privilege.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self((1 << Privilege::ALL.len()) - 1);

    /// Whether it has one of them.
    pub const fn has(self, privilege: Privilege) -> bool {
        self.0 & (1 << privilege as u32) != 0
    }

    /// Whether all of `others` are among these.
    pub const fn include(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// These, and what the values of `ds-privilege-name` say: a name gives, one behind `-` takes.
    /// What is no privilege is skipped.
    #[must_use]
    pub fn changed_by<'v>(self, values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        let (mut given, mut taken) = (0, 0);
        for value in values {
            let (name, bits) = match value.strip_prefix(b"-") {
                Some(name) => (name, &mut taken),
                None => (value, &mut given),
            };
            if let Some(privilege) = Privilege::from_name(name) {
                *bits |= 1 << privilege as u32;
            }
        }
        Self((self.0 | given) & !taken)
    }
}

impl fmt::Debug for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = Privilege::ALL.into_iter().filter(|one| self.has(*one));
        f.debug_list().entries(held.map(Privilege::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_and_a_minus_takes_whatever_their_order() {
        let check = |base: Privileges, values: &[&str], has: &[Privilege], not: &[Privilege]| {
            let after = base.changed_by(values.iter().map(|value| value.as_bytes()));
            assert!(has.iter().all(|one| after.has(*one)), "{values:?}: {after:?}");
            assert!(!not.iter().any(|one| after.has(*one)), "{values:?}: {after:?}");
        };
        use Privilege::{BypassAcl, ChangelogRead, ModifyAcl, UnindexedSearch};
        check(Privileges::NONE, &[], &[], &Privilege::ALL);
        check(Privileges::ALL, &[], &Privilege::ALL, &[]);
        check(Privileges::NONE, &["Modify-ACL", "nonsense"], &[ModifyAcl], &[BypassAcl]);
        check(Privileges::ALL, &["-bypass-acl"], &[ModifyAcl, ChangelogRead], &[BypassAcl]);
        let both = ["-unindexed-search", "unindexed-search"];
        check(Privileges::NONE, &both, &[], &[UnindexedSearch]);
    }

    #[test]
    fn every_privilege_has_a_name_of_its_own() {
        for one in Privilege::ALL {
            assert_eq!(Privilege::from_name(one.name().as_bytes()), Some(one));
        }
    }
}
