//! The settings in force: what the directory says, under what this machine says, read again
//! whenever one of them changes.
//!
//! Invariant: settings hold all together or not at all: what cannot be used leaves those in force
//! that were.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use directory::{Directory, DirectoryError, SettingsTeller};

use crate::limits::budget::BudgetLimits;
use crate::limits::client_addresses::AddressLimits;
use crate::limits::open_files::{fit_connections, raise_file_limit};
use crate::server::connection_slots_max;
use crate::settings::{LimitSettings, Loaded, Settings, SettingsError, of_directory};
use crate::worker::Shared;

/// Reads the settings again, with these lines for what the directory says.
pub type LoadSettings = Box<dyn Fn(&[String]) -> Result<Loaded, SettingsError> + Send + Sync>;

/// Hears of settings that are now in force.
pub type HearSettings = Box<dyn Fn(&Settings) + Send + Sync>;

/// The settings of a server that is running.
pub(crate) struct SettingsInForce {
    load: LoadSettings,
    hear: HearSettings,
    directory: Arc<Directory>,
    /// It goes with the workers.
    shared: Weak<Shared>,
    now: Mutex<Now>,
}

struct Now {
    loaded: Loaded,
    /// What the directory says.
    lines: Vec<String>,
}

impl SettingsInForce {
    /// They are in force already.
    pub(crate) fn new(
        directory: &Arc<Directory>,
        shared: &Weak<Shared>,
        load: LoadSettings,
        hear: HearSettings,
    ) -> Result<Arc<Self>, SettingsError> {
        let lines = directory.setting_lines();
        let now = Mutex::new(Now { loaded: load(&lines)?, lines });
        let (directory, shared) = (Arc::clone(directory), Weak::clone(shared));
        Ok(Arc::new(Self { load, hear, directory, shared, now }))
    }

    /// Has the directory tell of its settings, and of their changes.
    pub(crate) fn follow(self: &Arc<Self>) {
        let [checking, beginning, telling] = [(); 3].map(|()| Arc::downgrade(self));
        self.directory.show_settings(SettingsTeller {
            rows: of_directory::rows(),
            check: Box::new(move |lines| {
                of_directory::check(lines)?;
                let Some(own) = checking.upgrade() else { return Ok(()) };
                own.check(lines)
            }),
            begin: Box::new(move |tell| {
                if let Some(own) = beginning.upgrade() {
                    let mut now = own.lock();
                    let lines = tell();
                    own.read_again(&mut now, lines);
                }
            }),
            overridden: Box::new(move || {
                let Some(own) = telling.upgrade() else { return Vec::new() };
                let given = own.lock().loaded.given.clone();
                let line = |name: String| Some(format!("{name}={}", given.get(&name)?));
                of_directory::rows().iter().filter_map(|row| line(row.name())).collect()
            }),
        });
    }

    /// Reads what this machine says again.
    pub(crate) fn reload(&self) {
        let mut now = self.lock();
        let lines = now.lines.clone();
        self.read_again(&mut now, lines);
    }

    /// Whether these could hold, alone and together with what this machine says.
    fn check(&self, lines: &[String]) -> Result<(), String> {
        let mut alone = Settings::default();
        of_directory::begin_with(&mut alone, lines);
        let together = (self.load)(lines).map_err(|error| error.to_string())?.settings;
        for settings in [alone, together] {
            let options = settings.live_options(self.directory.live());
            self.directory.check_live(&options).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn read_again(&self, now: &mut Now, lines: Vec<String>) {
        let loaded = match (self.load)(&lines) {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!(%error, "settings cannot be used; those of before stay in force");
                return;
            }
        };
        if let Err(error) = self.begin(&loaded.settings) {
            tracing::error!(%error, "settings cannot be used; those of before stay in force");
            return;
        }
        tell(&now.loaded.given, &loaded.given);
        *now = Now { loaded, lines };
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
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Logs which settings of this machine have changed, and which of them need a restart.
fn tell(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) {
    let changed: Vec<&str> = before
        .keys()
        .chain(after.keys())
        .filter(|name| before.get(*name) != after.get(*name))
        .map(String::as_str)
        .collect();
    let (late, at_once): (Vec<&str>, Vec<&str>) =
        changed.into_iter().partition(|name| of_directory::needs_restart(name));
    for (names, what) in
        [(at_once, "settings have changed"), (late, "settings take effect with the next start")]
    {
        if !names.is_empty() {
            tracing::info!(settings = names.join(" "), "{what}");
        }
    }
}
