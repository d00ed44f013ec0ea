//! A directory as a whole: what is opened once and shared by all threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use environment::{Chance, Clock, MakeChance, Timestamp};
use history::archive::ArchiveStatus;
use history::changes::Changes;
use history::log::CommitLog;
use journal::Journal;
use ldap::message::DecodeLimits;
use schema::{DnKey, Entry, Schema, SchemaRule};
use store::{Lsn, Store};

use crate::access::grants::GrantTypes;
use crate::bind::credentials::Credentials;
use crate::bind::hashing::HashRules;
use crate::bind::password_cache::PasswordCacheCounts;
use crate::changelog::ChangeCookieKey;
use crate::config::monitor_sources::{
    CertificateTeller, ClusterInit, ClusterState, ClusterTeller, Figures, LogState, LogStates,
    MonitorSources, ServerStopper, SessionTeller, SettingsReloader,
};
use crate::config::schema_times::SchemaTimes;
use crate::config::setting_rows::ServerSettings;
use crate::live::Live;
use crate::password_policy::SwitchTypes;
use crate::password_policy::pending::Accounts;
use crate::quarantine::Quarantine;
use crate::read::fresh::reads::FreshReads;
use crate::read::search_counters::SearchCounts;
use crate::read::streams::Streams;
use crate::read::subentry::Subentries;
use crate::read::subschema;
use crate::read::virtual_tree::names::VirtualTrees;
use crate::request::asker_bytes::AskerHeld;
use crate::request::budgets::Budgets;
use crate::request::controls::position::PositionKey;
use crate::request::controls::response::ResponseControl;
use crate::request::cookie::CookieKey;
use crate::request::limits::Limits;
use crate::request::seldom::SeldomLines;
use crate::rules::RulesInForce;
use crate::storage::{JournalHold, Storage};
use crate::tasks::TaskTeller;
use crate::write::queue::WriteQueue;

/// With so much of its memory taken, in hundredths, and a change in it for [`OVERLAY_OLD`], the
/// overlay does not get rid of what comes.
const OVERLAY_FULL_PERCENT: u64 = 90;
/// Flushes are far more frequent.
const OVERLAY_OLD: Duration = Duration::from_secs(30);

/// An open directory: its parts, each of which is handed to whoever needs it alone.
pub struct Directory {
    pub(crate) storage: Storage,
    pub(crate) state: Arc<ArcSwap<State>>,
    pub(crate) rules: RulesInForce,
    pub(crate) credentials: Credentials,
    /// What binds have left in accounts and is not written yet.
    pub(crate) accounts: Arc<Accounts>,
    /// See [`Self::limits`].
    pub(crate) limits: Live<Limits>,
    pub(crate) decode_limits: DecodeLimits,
    pub(crate) budgets: Budgets,
    pub(crate) queue: Arc<WriteQueue>,
    pub(crate) monitors: MonitorSources,
    /// The server's settings that the directory has.
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) seldom: Arc<SeldomLines>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) make_chance: MakeChance,
    pub(crate) cookie_key: CookieKey,
    pub(crate) position_key: PositionKey,
    /// See [`crate::request::cookie::SYNC`].
    pub(crate) sync_key: CookieKey,
    /// What searches share that go on with what changes.
    pub(crate) streams: Arc<Streams>,
    /// Writes and reads the cookies of the external change log.
    pub(crate) change_cookies: ChangeCookieKey,
    /// Reads that must be fresh; none in a server that is alone.
    pub(crate) fresh_reads: Option<FreshReads>,
    /// See [`DirectoryOptions::record_level_first`].
    pub(crate) record_level_first: u16,
    pub(crate) offers_tls: bool,
    pub(crate) quarantine: Arc<Quarantine>,
}

/// What changes with the schema, replaced as a whole.
pub(crate) struct State {
    pub(crate) schema: Arc<Schema>,
    pub(crate) schema_times: SchemaTimes,
    /// The subschema subentry, made once per version because it is large.
    pub(crate) subschema: Arc<Entry>,
    pub(crate) subschema_key: DnKey,
    pub(crate) virtual_trees: VirtualTrees,
    pub(crate) subentries: Subentries,
    pub(crate) grants: GrantTypes,
    pub(crate) switches: SwitchTypes,
}

impl State {
    pub(crate) fn new(schema: Arc<Schema>, schema_times: SchemaTimes) -> Self {
        let (subschema, subschema_key) = subschema::entry(&schema, &schema_times);
        let virtual_trees = VirtualTrees::new(&schema);
        let (subentries, grants) = (Subentries::new(&schema), GrantTypes::new(&schema));
        let switches = SwitchTypes::new(&schema);
        let subschema = Arc::new(subschema);
        Self {
            schema,
            schema_times,
            subschema,
            subschema_key,
            virtual_trees,
            subentries,
            grants,
            switches,
        }
    }
}

impl State {
    /// Has another schema in force, since `changed`.
    pub(crate) fn replace(state: &ArcSwap<Self>, schema: Arc<Schema>, changed: Timestamp) {
        let times = state.load().schema_times.after(&schema, changed);
        state.store(Arc::new(Self::new(schema, times)));
    }
}

impl Directory {
    /// What one request may cost now.
    pub(crate) fn limits(&self) -> Guard<Arc<Limits>> {
        self.limits.get()
    }

    /// How passwords are hashed here.
    pub(crate) fn hash_rules(&self) -> HashRules<'_> {
        HashRules {
            options: self.credentials.passwords(),
            chance: self.make_chance,
            seldom: &self.seldom,
        }
    }

    /// A source of unpredictable octets, for whoever has no worker's.
    pub(crate) fn chance(&self) -> Box<dyn Chance> {
        (self.make_chance)()
    }

    /// The response control that tells a position.
    pub(crate) fn position(&self, lsn: Lsn, chance: &mut dyn Chance) -> ResponseControl {
        self.position_key.response(lsn, chance)
    }

    /// How many reads wait for fresh data, and how many may; none in a server that is alone.
    pub fn waiting_reads(&self) -> Option<(usize, usize)> {
        self.fresh_reads.as_ref().map(FreshReads::depth)
    }

    /// How many searches go on with what changes, and how many may.
    pub fn streams(&self) -> (usize, usize) {
        (self.budgets.streams(), self.limits().streams_max)
    }

    /// How many change records were decoded for those searches since the start.
    pub fn stream_records_decoded(&self) -> u64 {
        self.streams.decoded()
    }

    /// The store, for export and check while the directory is open.
    pub fn store(&self) -> &Arc<Store> {
        &self.storage.store
    }

    /// The schema in force.
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.state.load().schema)
    }

    /// The log of committed changes, for those who follow it.
    pub fn log(&self) -> &Arc<dyn CommitLog> {
        &self.storage.log
    }

    /// Why nothing is served, if so: the data are not those of the cluster.
    pub fn quarantine(&self) -> Option<&str> {
        self.quarantine.reason()
    }

    /// The number of the store, which is that of its cluster.
    pub fn store_id(&self) -> [u8; 16] {
        self.storage.store.id()
    }

    /// What tells the time here.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What keeps the journal from being purged, if anything does.
    pub fn journal_hold(&self) -> Option<&JournalHold> {
        self.storage.journal_hold.as_ref()
    }

    /// All change records that are kept, and those to come.
    pub fn changes(&self) -> Changes {
        self.storage.changes()
    }

    /// What the archive of change records has, if there is one.
    pub fn archive_status(&self) -> Option<ArchiveStatus> {
        self.storage.archive().map(|archive| archive.status())
    }

    /// Has `cn=logs,cn=monitor` show what `states` tells; once in the life of a directory.
    pub fn show_logs(&self, states: LogStates) {
        let _ = self.monitors.logs.set(states);
    }

    /// What was counted of searches since the start.
    pub fn search_counts(&self) -> SearchCounts {
        self.monitors.search_counters.read()
    }

    /// The rules of the schema that may be broken, and how many changes broke each since the start.
    pub fn broken_rules(&self) -> [(&'static str, u64); SchemaRule::ALL.len()] {
        self.monitors.broken_rules.counts()
    }

    /// What was counted of slow passwords, and how many are held.
    pub fn password_cache_counts(&self) -> PasswordCacheCounts {
        self.credentials.password_cache_counts()
    }

    /// Whether updates are handed on between this node and others.
    pub fn takes_forwarded(&self) -> bool {
        self.queue.forwarding().is_some()
    }

    /// How many writes wait for the writer, and how many may.
    pub fn write_queue_depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Octets that large requests take while they wait for the writer.
    pub fn write_queue_bytes(&self) -> usize {
        self.queue.held_bytes()
    }

    /// Octets that the updates of open transactions take.
    pub fn transaction_bytes(&self) -> usize {
        self.budgets.transaction_bytes()
    }

    /// Bytes that may still be written where the data directory is; none when nobody knows.
    pub fn disk_free_bytes(&self) -> Option<u64> {
        self.storage.space.free_bytes().ok()
    }

    /// Why this server should not be the one that decides, as far as its directory knows. It asks
    /// the file system, which may take a while.
    pub fn lead_impediment(&self) -> Option<String> {
        let low_bytes = self.storage.space_limits.low_bytes;
        if let Some(free_bytes) = self.disk_free_bytes().filter(|free| *free < low_bytes) {
            let (free, low) = (free_bytes >> 20, low_bytes >> 20);
            return Some(format!("its disk has {free} MiB left, and {low} MiB are needed"));
        }
        let overlay = self.storage.store.overlay();
        let is_full = overlay.bytes >= overlay.bytes_max / 100 * OVERLAY_FULL_PERCENT;
        (is_full && overlay.oldest_change > OVERLAY_OLD).then(|| {
            let (bytes, bytes_max) = (overlay.bytes >> 20, overlay.bytes_max >> 20);
            format!("changes not in its database take {bytes} MiB of {bytes_max} MiB")
        })
    }

    /// How many access rules are in force.
    pub fn aci_count(&self) -> usize {
        self.rules.of_views.newest().acis.len()
    }

    /// How the logs of requests and changes are, if there are any.
    pub fn log_states(&self) -> Vec<LogState> {
        self.monitors.logs()
    }

    /// Has `cn=monitor` show what `figures` tells; once in the life of a directory.
    pub fn show_figures(&self, figures: Figures) {
        let _ = self.monitors.figures.set(figures);
    }

    /// The journal, for backups and for those who watch it.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.storage.journal
    }

    /// This server is about to end: another member of its cluster is to decide. Waits for nothing
    /// but a glance at changes that is under way for searches that wait.
    pub fn retire(&self) {
        self.close_reads();
        self.storage.log.retire();
    }

    fn close_reads(&self) {
        self.streams.close();
        AskerHeld::close(&self.budgets.large_entries);
        if let Some(fresh) = &self.fresh_reads {
            fresh.close();
        }
    }

    /// Writes what binds have left and what is queued, and ends the writer; later writes are
    /// answered `unavailable`. Then
    /// brings all changes into the database, so that the next start has nothing to recover, and
    /// closes the journal. Reading goes on.
    pub fn shutdown(&self) {
        self.retire();
        self.accounts.finish();
        self.queue.shutdown();
        self.storage.shutdown(self.limits().shutdown_flush_max);
    }

    /// Makes `cn=tls,cn=monitor` show what this tells.
    pub fn show_certificate(&self, teller: CertificateTeller) {
        let _ = self.monitors.certificate.set(teller);
    }

    /// Makes `cn=cluster,cn=monitor` show what this tells.
    pub fn show_cluster(&self, teller: ClusterTeller) {
        let _ = self.monitors.cluster.set(teller);
    }

    /// Has this server, which is alone, begin once more as a member when it is asked to.
    pub fn show_cluster_init(&self, init: ClusterInit) {
        let _ = self.monitors.cluster_init.set(init);
    }

    /// Has this server's own settings read again when it is asked to.
    pub fn offer_reload(&self, reload: SettingsReloader) {
        let _ = self.monitors.settings_reload.set(reload);
    }

    /// Has the server stop or begin anew when it is asked to.
    pub fn offer_stop(&self, stop: ServerStopper) {
        let _ = self.monitors.stop.set(stop);
    }

    /// Whether only administrators on this machine are served.
    pub fn is_locked_down(&self) -> bool {
        self.monitors.is_locked_down.load(Ordering::Relaxed)
    }

    /// This server as a member of a cluster, if it is one.
    pub fn cluster_state(&self) -> Option<ClusterState> {
        self.monitors.cluster.get().and_then(|teller| (teller.own)())
    }

    /// Makes `cn=Sessions,cn=monitor` show the connections this tells of, and close them.
    pub fn show_sessions(&self, teller: SessionTeller) {
        let _ = self.monitors.sessions.set(teller);
    }

    /// Has tasks taken, shown and ended by whoever does them. Once; later calls have no effect.
    pub fn show_tasks(&self, teller: TaskTeller) {
        let _ = self.monitors.tasks.set(teller);
    }

    /// Sets the keys that bearer tokens are verified with, a JSON Web Key Set (RFC 7517). The ones
    /// before stay when it cannot be used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set_token_keys(&self, text: &str) -> Result<(), String> {
        self.credentials.set_token_keys(text)
    }
}

/// A directory that is dropped answers what is queued and ends its threads; changes that are not in
/// the database stay in the journal, for the next start to recover.
impl Drop for Directory {
    fn drop(&mut self) {
        self.close_reads();
        self.queue.shutdown();
        self.storage.close();
    }
}
