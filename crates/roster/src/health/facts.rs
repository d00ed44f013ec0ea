//! What is known of a server: from itself, over LDAP, and from its data directory, where that is on
//! this machine. Everything is asked once; nothing is changed.
//!
//! Invariant: a look costs the server little: no more than some thousand entries are read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use client::{Connection, SearchAnswer, SearchFor};
use environment::Timestamp;
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use offline::backup::Manifest;

use super::aci_names::{self, DeadName};
use super::machine::Machine;
use crate::account::moment;
use crate::cluster_status::ClusterView;
use crate::connect::Login;
use crate::failure::Failure;
use crate::top::reading::Reading;

/// What is known.
pub(crate) struct Facts {
    /// The server that was asked, and why it did not answer, if it did not.
    pub(crate) url: String,
    pub(crate) server: Result<ServerFacts, Failure>,
    /// Of the data directory, where it is on this machine.
    pub(crate) machine: Option<Machine>,
    /// Of the backup, if one was named.
    pub(crate) backup: Option<BackupFacts>,
    /// By the clock of this machine.
    pub(crate) now: Timestamp,
}

/// What the server says.
pub(crate) struct ServerFacts {
    pub(crate) naming_contexts: Vec<String>,
    /// What cn=monitor says, or why it does not.
    pub(crate) monitor: Result<Reading, Failure>,
    /// When the server was asked for it, by the clock of this machine.
    pub(crate) asked_at: Timestamp,
    pub(crate) cluster: Option<ClusterView>,
    /// Operations a second, and over how long.
    pub(crate) operations_per_s: Option<f64>,
    /// More, for who looks for faults.
    pub(crate) more: Option<More>,
}

/// What only the doctor asks for.
#[derive(Default)]
pub(crate) struct More {
    pub(crate) left_out: Vec<String>,
    pub(crate) advice: Vec<String>,
    /// ACIs that name entries or attributes that there are not.
    pub(crate) dead_names: Vec<DeadName>,
    /// Schemes of stored passwords, with how many there are among so many accounts.
    pub(crate) schemes: BTreeMap<String, u64>,
    pub(crate) accounts_seen: u64,
    /// Entries that a client without a name is shown, of the first few, and their attributes.
    pub(crate) anonymous_entries: u64,
    pub(crate) anonymous_attributes: Vec<String>,
    /// What was asked in vain, and why.
    pub(crate) refused: Vec<String>,
}

/// What is known of a backup.
pub(crate) struct BackupFacts {
    pub(crate) path: PathBuf,
    /// Until when it is complete; none where there is no backup.
    pub(crate) complete_until: Result<Option<Timestamp>, String>,
}

impl BackupFacts {
    fn read(path: PathBuf) -> Self {
        let complete_until = Manifest::read(&path)
            .map(|manifest| manifest.map(|one| Timestamp(one.complete_until.micros())))
            .map_err(|error| error.to_string());
        Self { path, complete_until }
    }
}

/// What is to be looked at.
pub(crate) struct Look<'l> {
    pub(crate) login: &'l Login,
    pub(crate) machine: Option<Machine>,
    pub(crate) backup: Option<PathBuf>,
    /// Also what only the doctor asks for.
    pub(crate) is_thorough: bool,
}

impl Facts {
    /// Asks.
    pub(crate) fn gather(look: Look<'_>) -> Self {
        let Look { login, machine, backup, is_thorough } = look;
        let server = login
            .connect()
            .and_then(|mut connection| ServerFacts::ask(&mut connection, login, is_thorough));
        Self {
            url: login.uri().to_owned(),
            server,
            machine,
            backup: backup.map(BackupFacts::read),
            now: moment::now(),
        }
    }

    /// What the server says, if it says it to whoever asks.
    pub(crate) fn monitor(&self) -> Option<&Reading> {
        self.server.as_ref().ok()?.monitor.as_ref().ok()
    }

    /// What only the doctor asks for.
    pub(crate) fn more(&self) -> Option<&More> {
        self.server.as_ref().ok()?.more.as_ref()
    }
}

impl ServerFacts {
    fn ask(connection: &mut Connection, login: &Login, is_thorough: bool) -> Result<Self, Failure> {
        let root = SearchFor {
            scope: Scope::Base,
            attributes: &["namingContexts"],
            ..SearchFor::below("", Filter::Present("objectClass"))
        };
        let found = connection.search(&root)?;
        found.outcome.into_result("search")?;
        let entry = found.entries.first();
        let naming_contexts: Vec<String> = entry
            .map(|entry| entry.texts("namingContexts").map(str::to_owned).collect())
            .unwrap_or_default();
        let asked_at = moment::now();
        let monitor = Reading::take(connection);
        let cluster = ClusterView::read(connection).ok();
        let is_told = monitor.is_ok();
        let more = (is_thorough && is_told).then(|| More::ask(connection, login));
        let more = more.transpose()?;
        Ok(Self { naming_contexts, monitor, asked_at, cluster, operations_per_s: None, more })
    }
}

impl More {
    fn ask(connection: &mut Connection, login: &Login) -> Result<Self, Failure> {
        let mut more = Self {
            left_out: values(connection, "cn=Settings,cn=config", "roster-setting-left-out")?,
            advice: values(connection, "cn=filters,cn=monitor", "roster-index-advice")?,
            ..Self::default()
        };
        match aci_names::dead(connection) {
            Ok(dead) => more.dead_names = dead,
            Err(failure) => more.refused.push(format!("ACIs: {}", failure.message)),
        }
        more.passwords(connection)?;
        if let Err(failure) = more.reach(login) {
            more.refused.push(format!("what anybody can read: {}", failure.message));
        }
        Ok(more)
    }

    /// The schemes of the first stored passwords.
    fn passwords(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let asked = SearchFor {
            attributes: &[PASSWORD],
            size_limit_entries: ACCOUNTS_MAX,
            ..SearchFor::below("", Filter::Present(PASSWORD))
        };
        let mut each = |answer: SearchAnswer<'_>| {
            let SearchAnswer::Entry { attributes, .. } = answer else { return Ok(()) };
            self.accounts_seen += 1;
            for attribute in attributes.iter() {
                for value in attribute.values.iter() {
                    *self.schemes.entry(scheme(value)).or_default() += 1;
                }
            }
            Ok::<_, Failure>(())
        };
        let page = connection.search_page(&asked, ACCOUNTS_MAX, &[], &mut each)?;
        match page.outcome.code {
            ResultCode::Success | ResultCode::SizeLimitExceeded => {}
            _ => self.refused.push(format!("stored passwords: {}", page.outcome)),
        }
        Ok(())
    }

    /// What a client is shown that does not say who it is.
    fn reach(&mut self, login: &Login) -> Result<(), Failure> {
        let mut connection = login.connect_unbound()?;
        let asked = SearchFor {
            attributes: &["*", PASSWORD],
            size_limit_entries: REACH_ENTRIES,
            ..SearchFor::below("", Filter::Present("objectClass"))
        };
        let found = connection.search(&asked)?;
        for entry in &found.entries {
            // The root DSE is for everybody (RFC 4512 §5.1).
            if entry.dn.is_empty() {
                continue;
            }
            self.anonymous_entries += 1;
            self.anonymous_attributes.extend(entry.attributes.iter().map(|(name, _)| name.clone()));
        }
        self.anonymous_attributes.sort();
        self.anonymous_attributes.dedup();
        Ok(())
    }
}

/// The values of an attribute of one entry; of one that is not shown none.
pub(super) fn values(
    connection: &mut Connection,
    base: &str,
    name: &str,
) -> Result<Vec<String>, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &[name],
        ..SearchFor::below(base, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let entry = found.entries.first();
    Ok(entry.map(|entry| entry.texts(name).map(str::to_owned).collect()).unwrap_or_default())
}

/// The scheme of a stored password, as `SSHA`; nothing of one in the clear.
fn scheme(stored: &[u8]) -> String {
    let text = String::from_utf8_lossy(stored.get(..SCHEME_MAX.min(stored.len())).unwrap_or(&[]));
    let scheme = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    scheme.map_or(String::new(), |(name, _)| name.to_ascii_uppercase())
}

const PASSWORD: &str = "userPassword";
/// Accounts whose passwords are looked at.
const ACCOUNTS_MAX: u32 = 10_000;
/// Entries that are asked for without a name.
const REACH_ENTRIES: u32 = 20;
/// Letters of the longest scheme.
const SCHEME_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_what_stands_in_braces() {
        for (stored, want) in [
            (&b"{SSHA512}abc"[..], "SSHA512"),
            (b"{ssha}abc", "SSHA"),
            (b"secret", ""),
            (b"{open", ""),
            (b"\xff\xfe", ""),
            (b"", ""),
        ] {
            assert_eq!(scheme(stored), want);
        }
    }
}
