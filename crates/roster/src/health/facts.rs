//! What is known of a server: from itself, over LDAP, and from its data directory, where that is on
//! this machine. Everything is asked once; nothing is changed.
//!
//! Invariant: a look costs the server little: no more than some ten thousand entries are read.

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
    /// Of the data directory, where it is on this machine; or why it cannot be looked at, where
    /// somebody says that it is.
    pub(crate) machine: Option<Result<Machine, String>>,
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
    /// When the server was asked for it, and when all was told, by the clock of this machine.
    pub(crate) asked_at: Timestamp,
    pub(crate) told_at: Timestamp,
    /// None where there is none, or where nothing is shown to whoever asks.
    pub(crate) cluster: Option<ClusterView>,
    /// What was asked in vain, and why.
    pub(crate) refused: Vec<String>,
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
    /// There was no time for more accounts.
    pub(crate) is_cut: bool,
    /// Entries that a client without a name is shown, of the first few, and their attributes.
    pub(crate) anonymous_entries: u64,
    pub(crate) anonymous_attributes: Vec<String>,
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
    pub(crate) machine: Option<Result<Machine, String>>,
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

    /// The data directory, where it can be looked at.
    pub(crate) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()?.as_ref().ok()
    }

    /// What was asked in vain, and why.
    pub(crate) fn refused(&self) -> &[String] {
        self.server.as_ref().map(|server| server.refused.as_slice()).unwrap_or_default()
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
        let told_at = moment::now();
        let mut refused = Vec::new();
        let cluster = match (ClusterView::read(connection), &monitor) {
            (Ok(view), _) => Some(view),
            // A server that is alone has no such entries.
            (Err(failure), Ok(monitor)) if !monitor.below("cn=cluster").is_empty() => {
                refused.push(format!("the cluster: {}", failure.message));
                None
            }
            (Err(_), _) => None,
        };
        let is_asked = is_thorough && monitor.is_ok();
        let more = is_asked.then(|| More::ask(connection, login, &mut refused));
        let operations_per_s = None;
        Ok(Self {
            naming_contexts,
            monitor,
            asked_at,
            told_at,
            cluster,
            refused,
            operations_per_s,
            more,
        })
    }
}

impl More {
    /// Asks for each; what is refused is no reason not to ask for the rest.
    fn ask(connection: &mut Connection, login: &Login, refused: &mut Vec<String>) -> Self {
        let mut more = Self::default();
        let mut tell = |what: &str, failure: Failure| {
            refused.push(format!("{what}: {}", failure.message));
        };
        match values(connection, "cn=Settings,cn=config", "roster-setting-left-out") {
            Ok(left_out) => more.left_out = left_out,
            Err(failure) => tell("settings that are left out", failure),
        }
        match values(connection, "cn=filters,cn=monitor", "roster-index-advice") {
            Ok(advice) => more.advice = advice,
            Err(failure) => tell("advice on indexes", failure),
        }
        match aci_names::dead(connection) {
            Ok(dead) => more.dead_names = dead,
            Err(failure) => tell("ACIs", failure),
        }
        if let Err(failure) = more.passwords(connection) {
            tell("stored passwords", failure);
        }
        if let Err(failure) = more.reach(login) {
            tell("what anybody can read", failure);
        }
        more
    }

    /// The schemes of the stored passwords of the first accounts. By their classes, which have an
    /// index: who looks for faults is not to have the server read all entries.
    fn passwords(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let asked = SearchFor {
            attributes: &[PASSWORD],
            size_limit_entries: ACCOUNTS_MAX,
            time_limit_s: ACCOUNTS_S_MAX,
            ..SearchFor::below("", Filter::parse(ACCOUNTS).map_err(Failure::local)?)
        };
        let mut each = |answer: SearchAnswer<'_>| {
            let SearchAnswer::Entry { attributes, .. } = answer else { return Ok(()) };
            self.accounts_seen += u64::from(attributes.iter().next().is_some());
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
            ResultCode::TimeLimitExceeded => self.is_cut = true,
            _ => return Err(Failure::refused(page.outcome)),
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
        let is_answered = match found.outcome.code {
            ResultCode::Success | ResultCode::SizeLimitExceeded => true,
            code => SHUT.contains(&code),
        };
        if !is_answered {
            return Err(Failure::refused(found.outcome));
        }
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

/// The values of an attribute of one entry; of one that does not exist none.
///
/// # Errors
/// When the entry is not shown to whoever asks.
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
    // Of what is hidden, the server does not even show what is above it.
    if found.outcome.code == ResultCode::NoSuchObject && !found.outcome.matched.is_empty() {
        return Ok(Vec::new());
    }
    found.outcome.into_result("search")?;
    let Some(entry) = found.entries.first() else {
        return Err(Failure::refused(format!("'{base}' is not shown")));
    };
    Ok(entry.texts(name).map(str::to_owned).collect())
}

/// The scheme of a stored password, as `SSHA`; nothing of one in the clear.
fn scheme(stored: &[u8]) -> String {
    let text = String::from_utf8_lossy(stored.get(..SCHEME_MAX.min(stored.len())).unwrap_or(&[]));
    let scheme = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    scheme.map_or(String::new(), |(name, _)| name.to_ascii_uppercase())
}

const PASSWORD: &str = "userPassword";
/// Entries that may have a password.
const ACCOUNTS: &str = "(|(objectClass=person)(objectClass=account)\
                        (objectClass=simpleSecurityObject)(objectClass=posixAccount))";
/// Accounts whose passwords are looked at, and how long the server may take for them.
const ACCOUNTS_MAX: u32 = 10_000;
const ACCOUNTS_S_MAX: u32 = 10;
/// Answers to a client without a name that mean that it is shown nothing.
const SHUT: &[ResultCode] = &[
    ResultCode::NoSuchObject,
    ResultCode::InsufficientAccessRights,
    ResultCode::InappropriateAuthentication,
    ResultCode::StrongerAuthRequired,
    ResultCode::ConfidentialityRequired,
    ResultCode::UnwillingToPerform,
];
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
