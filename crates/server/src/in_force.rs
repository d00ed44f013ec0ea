//! The settings in force: what the directory says, under what this machine says.
//!
//! Invariant: what this machine says is read at the start and when it is asked to read it again,
//! and never for what the directory says: nobody waits for a file, and nobody's edit that is not
//! done comes into force with another's change.
//! Invariant: what the directory says and cannot hold here is left out, by the setting, and told.
//! It keeps neither the server from starting nor other settings from holding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use directory::{Directory, DirectoryError, SettingsReload, SettingsTeller};
use tokio::sync::Notify;

use crate::limits::budget::BudgetLimits;
use crate::limits::client_addresses::AddressLimits;
use crate::limits::open_files::{fit_connections, raise_file_limit};
use crate::server::{Machine, connection_slots_max};
use crate::settings::{LimitSettings, Loaded, OwnSources, Settings, SettingsError, of_directory};
use crate::worker::Shared;

/// Reads again what this machine says.
pub type ReadSettings = Box<dyn Fn() -> Result<OwnSources, SettingsError> + Send + Sync>;

/// Hears of settings that are now in force.
pub type HearSettings = Box<dyn Fn(&Settings) + Send + Sync>;

/// What settings follow.
pub struct Following {
    /// What this machine said at the start.
    pub sources: OwnSources,
    /// Reads it again.
    pub read: ReadSettings,
    /// Hears of what is in force.
    pub hear: HearSettings,
}

/// The settings of a server that is running.
pub(crate) struct SettingsInForce {
    read: ReadSettings,
    hear: HearSettings,
    directory: Arc<Directory>,
    /// It goes with the workers.
    shared: Weak<Shared>,
    /// What this machine says.
    sources: ArcSwap<OwnSources>,
    now: ArcSwap<Now>,
    /// What it said at the start.
    started: Given,
    /// Held by whoever has others in force.
    changing: Mutex<()>,
    reloads: Reloads,
}

/// Readings of what this machine says.
#[derive(Default)]
struct Reloads {
    /// The number of the last one that was asked for.
    asked: AtomicU64,
    /// The last one that is over.
    last: Mutex<SettingsReload>,
    /// There is one to begin.
    wake: Notify,
}

impl Reloads {
    /// Asks for one, or tells of the one with this number.
    fn tell(&self, number: Option<u64>) -> SettingsReload {
        let number = number.unwrap_or_else(|| {
            let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
            self.wake.notify_one();
            number
        });
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        SettingsReload { is_done: last.number >= number, number, ..last }
    }
}

/// What holds now.
struct Now {
    loaded: Loaded,
    /// Settings of the directory that cannot hold here.
    left_out: Vec<String>,
}

/// The settings with what an open directory says, which hold for it from now on.
///
/// # Errors
/// What this machine says and cannot hold. Of what the directory says that is logged.
pub fn settings_with_directory(
    sources: &OwnSources,
    directory: &Directory,
) -> Result<Settings, String> {
    let lines = directory.setting_lines().map_err(|error| error.to_string())?;
    let Now { loaded, .. } = usable(sources, directory, &lines)?;
    let options = loaded.settings.live_options(directory.live());
    directory.set_live(options).map_err(|error| error.to_string())?;
    Ok(loaded.settings)
}

/// The settings with as much of what the directory says as can hold here.
fn usable(sources: &OwnSources, directory: &Directory, lines: &[String]) -> Result<Now, String> {
    let fit = |lines: &[String]| fitting(sources, directory, lines);
    if let Ok(loaded) = fit(lines) {
        return Ok(Now { loaded, left_out: Vec::new() });
    }
    let mut loaded = fit(&[])?;
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    let name = |line: &String| line.split('=').next().unwrap_or_default().to_owned();
    for setting in lines.iter().map(name).collect::<BTreeSet<_>>() {
        let before = kept.len();
        kept.extend(lines.iter().filter(|line| name(line) == setting).cloned());
        match fit(&kept) {
            Ok(with) => loaded = with,
            Err(reason) => {
                tracing::error!(setting, reason, "a setting of the directory cannot hold here");
                kept.truncate(before);
                left_out.push(setting);
            }
        }
    }
    Ok(Now { loaded, left_out })
}

/// The settings with these lines, if they can hold here.
fn fitting(
    sources: &OwnSources,
    directory: &Directory,
    lines: &[String],
) -> Result<Loaded, String> {
    let loaded = sources.load(lines).map_err(|error| error.to_string())?;
    let options = loaded.settings.live_options(directory.live());
    directory.check_live(&options).map_err(|error| error.to_string())?;
    Ok(loaded)
}

impl SettingsInForce {
    /// They are in force already.
    pub(crate) fn new(
        directory: &Arc<Directory>,
        shared: &Weak<Shared>,
        following: Following,
    ) -> Result<Arc<Self>, SettingsError> {
        let Following { sources, read, hear } = following;
        let loaded = sources.load(&[])?;
        let started = loaded.given.clone();
        let now = ArcSwap::from_pointee(Now { loaded, left_out: Vec::new() });
        let (directory, shared) = (Arc::clone(directory), Weak::clone(shared));
        let (sources, changing) = (ArcSwap::from_pointee(sources), Mutex::default());
        let reloads = Reloads::default();
        Ok(Arc::new(Self {
            read,
            hear,
            directory,
            shared,
            sources,
            now,
            started,
            changing,
            reloads,
        }))
    }

    /// Has the directory tell of its settings, and of their changes; those of now begin to hold.
    pub(crate) fn follow(self: &Arc<Self>) {
        let [checking, beginning, telling, leaving] = [(); 4].map(|()| Arc::downgrade(self));
        self.directory.show_settings(SettingsTeller {
            rows: of_directory::rows(),
            check: Box::new(move |lines| {
                of_directory::check(lines)?;
                let Some(own) = checking.upgrade() else { return Ok(()) };
                fitting(&own.sources.load(), &own.directory, lines).map(drop)
            }),
            begin: Box::new(move |tell| {
                if let Some(own) = beginning.upgrade() {
                    let changing = own.lock();
                    let sources = own.sources.load_full();
                    if let Some(lines) = tell() {
                        own.have(&changing, &sources, &lines);
                    }
                }
            }),
            overridden: Box::new(move || {
                let Some(own) = telling.upgrade() else { return Vec::new() };
                let now = own.now.load();
                let given = &now.loaded.given;
                let line = |name: String| Some(format!("{name}={}", given.get(&name)?));
                of_directory::rows().iter().filter_map(|row| line(row.name())).collect()
            }),
            left_out: Box::new(move || {
                leaving.upgrade().map(|own| own.now.load().left_out.clone()).unwrap_or_default()
            }),
        });
        let reloading = Arc::downgrade(self);
        self.directory.offer_reload(Box::new(move |number| {
            reloading.upgrade().map(|own| own.reloads.tell(number)).unwrap_or_default()
        }));
    }

    /// Waits until it is asked to read again what this machine says.
    pub(crate) async fn reload_asked(&self) {
        self.reloads.wake.notified().await;
    }

    /// Reads what this machine says again, and has it in force: all of it, or nothing.
    pub(crate) fn reload(&self, machine: &mut Machine) {
        let number = self.reloads.asked.load(Ordering::Acquire);
        let mut told = SettingsReload { number, is_done: true, ..SettingsReload::default() };
        match self.read_again(machine) {
            Ok(Changed { at_once, late }) => (told.changed, told.waiting) = (at_once, late),
            Err(error) => {
                tracing::error!(error, "{KEPT}");
                told.error = Some(error);
            }
        }
        *self.reloads.last.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    fn read_again(&self, machine: &mut Machine) -> Result<Changed, String> {
        let lines = || self.directory.setting_lines().map_err(|error| error.to_string());
        // Files are read, and addresses opened, before anybody has to wait: a change of the
        // directory's settings waits where changes are decided and applied.
        let sources = (self.read)().map_err(|error| error.to_string())?;
        let own = usable(&sources, &self.directory, &lines()?)?.loaded.settings;
        let other = machine.prepare(&own).map_err(|error| error.to_string())?;
        let changed = {
            let _changing = self.lock();
            let after = usable(&sources, &self.directory, &lines()?)?;
            self.begin(&after.loaded.settings).map_err(|error| error.to_string())?;
            self.sources.store(Arc::new(sources));
            self.now_holds(after)
        };
        // The directory has no say in what is of this machine.
        machine.begin(&own, other);
        Ok(changed)
    }

    /// Has what the directory says in force, if that can be.
    fn have(&self, _: &MutexGuard<'_, ()>, sources: &OwnSources, lines: &[String]) {
        let after = usable(sources, &self.directory, lines).and_then(|after| {
            self.begin(&after.loaded.settings).map_err(|error| error.to_string())?;
            Ok(after)
        });
        match after {
            Ok(after) => drop(self.now_holds(after)),
            Err(error) => tracing::error!(error, "{KEPT}"),
        }
    }

    fn now_holds(&self, after: Now) -> Changed {
        let given = &after.loaded.given;
        let changed = Changed::between(&self.started, &self.now.load().loaded.given, given);
        changed.tell();
        self.now.store(Arc::new(after));
        changed
    }

    /// Has settings in force.
    fn begin(&self, settings: &Settings) -> Result<(), DirectoryError> {
        self.directory.set_live(settings.live_options(self.directory.live()))?;
        (self.hear)(settings);
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let mut limits = settings.limits.clone();
        let files = raise_file_limit(&limits);
        if fit_connections(&mut limits, files).is_err() {
            // It serves with fewer already.
            limits.connections_max = shared.limits().connections_max;
        }
        shared.budget.set_limits(budget_limits(&limits));
        shared.connection_slots.set_max(connection_slots_max(&limits));
        shared.client_addresses.set(address_limits(&limits), limits.bind_gateways.clone());
        shared.limits.set(limits);
        shared.tasks.set(settings.tasks.clone());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What connections may hold.
pub(crate) fn budget_limits(limits: &LimitSettings) -> BudgetLimits {
    BudgetLimits {
        all_max_bytes: limits.undelivered_max_bytes,
        anonymous_max_bytes: limits.undelivered_anonymous_max_bytes,
        address_max_bytes: limits.undelivered_per_address_max_bytes,
    }
}

/// What an address may cost.
pub(crate) fn address_limits(limits: &LimitSettings) -> AddressLimits {
    AddressLimits {
        connections_max: limits.connections_per_address_max,
        bind_failures_max: limits.bind_failures_max,
        bind_delay_max: limits.bind_delay_max,
    }
}

/// What this machine says, by the names of the settings.
type Given = BTreeMap<String, String>;

/// The names of settings of this machine that have changed.
#[derive(Debug)]
struct Changed {
    /// They are in force.
    at_once: Vec<String>,
    /// They differ from those of the start, and need another one.
    late: Vec<String>,
}

impl Changed {
    /// Between what held and what holds, where the server was started with what is given first.
    fn between(started: &Given, before: &Given, after: &Given) -> Self {
        let differing = |before: &Given| {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let names = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
            names.cloned().collect::<Vec<_>>()
        };
        let (mut at_once, mut late) = (differing(before), differing(started));
        at_once.retain(|name| !of_directory::needs_restart(name));
        late.retain(|name| of_directory::needs_restart(name));
        Self { at_once, late }
    }

    /// Logs them.
    fn tell(&self) {
        for (names, what) in [
            (&self.at_once, "settings have changed"),
            (&self.late, "settings take effect with the next start"),
        ] {
            if !names.is_empty() {
                tracing::info!(settings = names.join(" "), "{what}");
            }
        }
    }
}

const KEPT: &str = "settings cannot be used; those of before stay in force";
