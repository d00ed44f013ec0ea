//! Whom `cn=monitor` asks: what was counted of searches here, and others for figures of the server,
//! its logs, its certificate, its cluster and its connections. Whoever has those says how to ask;
//! without anybody the entries are not there.
//!
//! Invariant: each source is set once, and the first who says it is asked.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use environment::Timestamp;
use history::log::{MemberChange, MembersDone, Verification};
use serde::{Deserialize, Serialize};

use crate::enforcement::broken::BrokenRules;
use crate::read::analyser::Analyser;
use crate::read::search_counters::SearchCounters;
use crate::tasks::TaskTeller;

/// Whom the entries of `cn=monitor` ask.
#[derive(Default)]
pub(crate) struct MonitorSources {
    /// Which filters are asked for.
    pub(crate) analyser: Analyser,
    /// Searches that no index helps.
    pub(crate) search_counters: SearchCounters,
    /// Changes that break the schema and may.
    pub(crate) broken_rules: BrokenRules,
    /// Operations, connections, queues, store, journal, the process.
    pub(crate) figures: OnceLock<Figures>,
    /// The logs of requests and changes.
    pub(crate) logs: OnceLock<LogStates>,
    /// The certificate that clients are shown.
    pub(crate) certificate: OnceLock<CertificateTeller>,
    /// The cluster that this server is a member of.
    pub(crate) cluster: OnceLock<ClusterTeller>,
    /// What makes this server, which is alone, the first member of one.
    pub(crate) cluster_init: OnceLock<ClusterInit>,
    /// What has this server's own settings read again.
    pub(crate) settings_reload: OnceLock<SettingsReloader>,
    /// What has the server stop or begin anew.
    pub(crate) stop: OnceLock<ServerStopper>,
    /// Whether only administrators on this machine are served.
    pub(crate) is_locked_down: AtomicBool,
    /// Whether a change of its members is waited for.
    pub(crate) is_changing: AtomicBool,
    /// The connections of clients.
    pub(crate) sessions: OnceLock<SessionTeller>,
    /// The tasks that this server does.
    pub(crate) tasks: OnceLock<TaskTeller>,
}

impl MonitorSources {
    /// How the logs are now.
    pub(crate) fn logs(&self) -> Vec<LogState> {
        self.logs.get().map(|states| states()).unwrap_or_default()
    }
}

/// An entry of `cn=monitor` as it is to be made.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FigureEntry {
    /// Its name, whole.
    pub name: String,
    /// Attribute types of the schema, each with a value; a type may be there several times.
    pub values: Vec<(String, String)>,
}

/// Tells the entries of the branch with this name, the topmost first.
pub type Figures = Box<dyn Fn(&str) -> Vec<FigureEntry> + Send + Sync>;

/// A reading of the settings of a machine, and what came of it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SettingsReload {
    /// Which one.
    pub number: u64,
    /// Whether it is over; what is below is of the last one that is.
    pub is_done: bool,
    /// Why the settings of before stay in force.
    pub error: Option<String>,
    /// Settings that have changed and are in force.
    pub changed: Vec<String>,
    /// Settings that have changed and take effect with the next start.
    pub waiting: Vec<String>,
}

/// Has a reading begun, or tells of the one with this number.
pub type SettingsReloader = Box<dyn Fn(Option<u64>) -> SettingsReload + Send + Sync>;

/// What is asked of a server.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StopKind {
    /// To end.
    Stop,
    /// To end, and to begin anew with the same arguments.
    Restart,
    /// Nothing but when it began.
    Tell,
}

/// A run of a server.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServerRun {
    /// When this run of the server began, in microseconds since 1970-01-01T00:00:00Z.
    pub began_us: u64,
}

/// Has the server stop or begin anew; the error says why it does not.
pub type ServerStopper = Box<dyn Fn(StopKind) -> Result<ServerRun, String> + Send + Sync>;

/// How one log is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogState {
    /// `access` or `audit`.
    pub name: &'static str,
    /// The file that is being written.
    pub file: String,
    /// Lines (changes, in the audit log) written since the start.
    pub lines: u64,
    /// Octets written since the start.
    pub bytes: u64,
    /// What could not be logged since the start.
    pub dropped: u64,
    /// The last change that is durable in the log, where changes are logged.
    pub lsn: Option<u64>,
    /// Why nothing can be written at the moment.
    pub error: Option<String>,
}

/// Tells how the logs are, whenever it is asked.
pub type LogStates = Box<dyn Fn() -> Vec<LogState> + Send + Sync>;

/// The certificate as it is now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CertificateState {
    /// Its subject, a DN.
    pub subject: String,
    /// Its last second, since 1970-01-01T00:00:00Z.
    pub expires_s: u64,
    /// The SHA-256 of it, in hexadecimal digits.
    pub sha256: String,
    /// Why files that have changed are not used; none when these are the files there are.
    pub error: Option<String>,
}

impl CertificateState {
    /// Whole days until it expires, from this second since 1970 on; negative when it has.
    #[must_use]
    pub fn days_left(&self, now_s: u64) -> i64 {
        let seconds = i64::try_from(self.expires_s).unwrap_or(i64::MAX);
        (seconds - i64::try_from(now_s).unwrap_or(i64::MAX)).div_euclid(SECONDS_PER_DAY)
    }
}

/// Tells how the certificate is, whenever it is asked.
pub type CertificateTeller = Box<dyn Fn() -> CertificateState + Send + Sync>;

/// A connection of a client as it is now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionState {
    /// As the access log has it, too; never used twice in a process.
    pub number: u64,
    /// Where the client is.
    pub address: String,
    /// Where it came in: `ldap`, `ldaps` or `ldapi`.
    pub listener: &'static str,
    /// The version of TLS that protects it, such as `TLSv1.3`.
    pub tls: Option<&'static str>,
    /// Who the client has proved to be; empty: nobody.
    pub bind_dn: String,
    /// How it proved that; empty when it did not.
    pub mechanism: String,
    /// When it began.
    pub since: Timestamp,
    /// When the client was last heard of, or answered.
    pub last_activity: Timestamp,
    /// Operations that were begun.
    pub operations: u64,
    /// Operations that are under way.
    pub outstanding: u64,
    /// Octets of answers that the client has not taken.
    pub waiting_bytes: u64,
}

/// Tells of connections, and closes them.
pub struct SessionTeller {
    /// How many there are.
    pub count: Box<dyn Fn() -> usize + Send + Sync>,
    /// All there are, by their numbers; from any thread.
    pub list: Box<dyn Fn() -> Vec<SessionState> + Send + Sync>,
    /// Closes one.
    pub close: Closer,
}

/// Has the session with this number closed, for this reason; says whether there is such a one. It
/// never waits.
pub type Closer = Box<dyn Fn(u64, &str) -> bool + Send + Sync>;

/// This server as a member of a cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterState {
    /// Its number.
    pub member: u64,
    /// `leader`, `follower`, `learner`, `failed`, `removed`, or `none` while nobody leads.
    pub role: &'static str,
    /// Who leads, where that is known.
    pub leader: Option<u64>,
    /// The term it is in.
    pub term: u64,
    /// The last change that is visible here.
    pub applied_lsn: u64,
    /// The last entry that is known to be committed.
    pub committed_index: u64,
    /// The last entry of its log.
    pub last_index: u64,
    /// Where this is the leader, how many entries each other member has not confirmed.
    pub unconfirmed: Vec<(u64, u64)>,
    /// Where this is the leader, how long ago a majority answered, in microseconds.
    pub quorum_age_us: Option<u64>,
    /// Whether it has had all that was acknowledged, at some moment since its start.
    pub has_caught_up: bool,
    /// Changes without effect since the start.
    pub voids: u64,
    /// The last change after which it was found to have the same data as other members.
    pub alike_lsn: Option<u64>,
    /// How the data of the members differ, if they do.
    pub difference: Option<String>,
    /// Why it should not lead; none if nothing speaks against it.
    pub unfit: Option<String>,
    /// Which members speak other versions of what members say to each other, what follows, and
    /// which to upgrade, in a sentence each.
    pub versions: Vec<String>,
    /// Which members list others than this one, and what is to be done, in a sentence each.
    pub listings: Vec<String>,
    /// Why its log has failed.
    pub error: Option<String>,
    /// The copy of the data that it is sent, because it lacks what the log no longer has.
    pub receives: Option<ClusterCopyState>,
    /// The members that it sends one.
    pub sends: Vec<ClusterCopyState>,
    /// Why copies do not get where they should, in a sentence for each other member.
    pub copy_hindrances: Vec<String>,
    /// The last comparison of the data that was begun here.
    pub verified: Option<ClusterVerified>,
}

/// The last comparison of what the members have stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClusterVerified {
    /// Whether it goes on.
    pub is_running: bool,
    /// So many entries were compared.
    pub entries: u64,
    /// So many entries and other rows differ.
    pub differing: u64,
    /// So many members were not compared, or not to the end.
    pub not_compared: u64,
    /// How long ago it was done, in microseconds; none if it is not, or was ended before its end.
    pub age_us: Option<u64>,
}

/// How far a copy of the data is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClusterCopyState {
    /// The other member.
    pub member: u64,
    /// So many octets are there.
    pub bytes: u64,
    /// Of so many.
    pub of_bytes: u64,
}

/// A member of the cluster, as this server sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterMemberState {
    /// Its number.
    pub member: u64,
    /// `leader`, `follower`, `learner`, `failed`, `unreachable`, or `none` while nobody leads.
    pub role: &'static str,
    /// Whether it counts towards a majority.
    pub is_voter: bool,
    /// Where the other members reach it.
    pub address: String,
    /// Where clients reach it.
    pub url: String,
    /// Which key it has joined with; empty for one with whom the cluster began.
    pub key: String,
    /// The term it is in; what follows is not known of a member that does not answer either.
    pub term: Option<u64>,
    /// The last change that is visible there.
    pub applied_lsn: Option<u64>,
    /// The last entry that it knows to be committed.
    pub committed_index: Option<u64>,
    /// The last entry of its log.
    pub last_index: Option<u64>,
    /// How many changes are visible on the leader and not there.
    pub lag: Option<u64>,
    /// For how long what the leader shows and it does not has been there, in microseconds.
    pub lag_us: Option<u64>,
    /// How long ago it was heard of last, in microseconds; none if it never was.
    pub heard_age_us: Option<u64>,
    /// Which release it runs; none while it does not say.
    pub release: Option<String>,
    /// Change records up to this level it can read; none while it does not say.
    pub record_level: Option<u16>,
    /// What its disk has left, in bytes.
    pub disk_free_bytes: Option<u64>,
    /// Whole days until its certificate ends; negative when it has.
    pub certificate_days: Option<i64>,
    /// Whether its log has failed.
    pub has_failed: bool,
    /// The first change after which its data are known not to be those of the cluster.
    pub diverged_lsn: Option<u64>,
    /// So many octets are there of the copy of the data that it is sent, of so many.
    pub copy: Option<(u64, u64)>,
}

/// Tells of a cluster.
pub struct ClusterTeller {
    /// What this server knows itself; none while it starts. It never waits.
    pub own: Box<dyn Fn() -> Option<ClusterState> + Send + Sync>,
    /// All members, by number. It may wait for a second, for those that do not answer.
    pub members: Box<dyn Fn() -> Vec<ClusterMemberState> + Send + Sync>,
    /// Has whoever leads change who takes part. It never waits.
    pub change: Box<dyn Fn(MemberChange, MembersDone) + Send + Sync>,
    /// Begins to compare the data of the members, tells how far that is, or ends it. It never
    /// waits.
    pub verify: Verifier,
    /// Whether this server can make a certificate for such a key, as [`Self::admit`] does; else why
    /// not, in a sentence.
    pub can_admit: AdmissionCheck,
    /// Makes what the member with this number and key gets (the SubjectPublicKeyInfo of RFC 5280,
    /// in DER); or says why not.
    pub admit: Admitter,
}

/// The member that a server is to become; the value of the operation is this as JSON.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FirstMember {
    /// Its number; 1 to 65535.
    pub member: u64,
    /// Where other members are to reach it: `HOST:PORT`.
    pub address: String,
    /// Where clients reach it, an LDAP URL.
    pub url: String,
}

/// Has a server that is alone begin once more as this member, as soon as what is in progress has
/// ended; or says why it cannot, in a sentence.
pub type ClusterInit = Box<dyn Fn(&FirstMember) -> Result<(), String> + Send + Sync>;

/// What is asked of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VerifyAsked {
    /// To begin one.
    Start,
    /// How far the one with this number is; whoever asks wants it to go on.
    Look(u64),
    /// To end the one with this number.
    Stop(u64),
}

/// Says how far a comparison is, see [`ClusterTeller::verify`]; none when there is none with that
/// number. Else why none can begin, in a sentence.
pub type Verifier = Box<dyn Fn(VerifyAsked) -> Result<Option<Verification>, String> + Send + Sync>;

/// Says whether a member can join, see [`ClusterTeller::can_admit`].
pub type AdmissionCheck = Box<dyn Fn(&[u8]) -> Result<(), String> + Send + Sync>;

/// Makes what a member gets that joins, see [`ClusterTeller::admit`].
pub type Admitter = Box<dyn Fn(u64, &[u8]) -> Result<Admitted, String> + Send + Sync>;

/// What a machine gets that joins the cluster.
#[derive(Clone, Default)]
pub struct Admitted {
    /// The number of the cluster.
    pub cluster: [u8; 16],
    /// Its certificate, PEM.
    pub certificate: String,
    /// That of the authority.
    pub authority: String,
    /// The private key of the authority.
    pub authority_key: String,
    /// Files of the data directory that all members have, by their names in it.
    pub files: BTreeMap<String, String>,
}

const SECONDS_PER_DAY: i64 = 86_400;
