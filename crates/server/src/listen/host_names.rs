//! The names of clients' hosts, for access rules that ask for them (`dns`).
//!
//! Invariant: a name counts only when looking it up leads back to the address: whoever manages the
//! reverse zone of an address can write any name there. A name that does not come in time is none,
//! for this connection: rules give no access for it and lift no deny.
//! Invariant: nothing here is waited for on a thread that serves others: look-ups have threads of
//! their own, at most [`LOOK_UPS_MAX`] at a time.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use directory::Seldom;
use environment::{Clock, SystemClock};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// What is asked about names and addresses.
pub(crate) trait Resolver: Send + Sync {
    /// The name that the reverse zone has for an address.
    fn name(&self, address: IpAddr) -> io::Result<String>;
    /// The addresses of a host.
    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's own: `/etc/hosts`, DNS, and what else it is configured to ask.
struct SystemResolver;

impl Resolver for SystemResolver {
    fn name(&self, address: IpAddr) -> io::Result<String> {
        dns_lookup::lookup_addr(&address).map_err(io::Error::from)
    }

    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|socket| socket.ip()).collect())
    }
}

/// Finds the names of clients' hosts.
#[derive(Clone)]
pub(crate) struct HostNames {
    resolver: Arc<dyn Resolver>,
    known: Arc<Mutex<HashMap<IpAddr, Known>>>,
    permits: Arc<Semaphore>,
    /// Names that are not confirmed are logged.
    unconfirmed: Arc<Seldom>,
    wait: Duration,
}

/// What was found, and until when it holds.
struct Known {
    name: Option<Arc<str>>,
    until: Instant,
}

impl HostNames {
    /// Asks the machine's resolver; a new connection waits so long for its answer.
    pub(crate) fn of_system(wait: Duration) -> Self {
        Self::new(Arc::new(SystemResolver), wait)
    }

    fn new(resolver: Arc<dyn Resolver>, wait: Duration) -> Self {
        let permits = Arc::new(Semaphore::new(LOOK_UPS_MAX));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let unconfirmed = Arc::new(Seldom::new(&clock));
        Self { resolver, known: Arc::default(), permits, unconfirmed, wait }
    }

    /// The name of the host at an address; none when it has none, it is not confirmed, or it does
    /// not come in time.
    pub(crate) async fn of(&self, address: IpAddr) -> Option<Arc<str>> {
        let address = address.to_canonical();
        if let Some(name) = self.cached(address) {
            return name;
        }
        // What takes longer than this connection waits is there for the next one.
        timeout(self.wait, self.look_up(address)).await.ok().flatten()
    }

    fn cached(&self, address: IpAddr) -> Option<Option<Arc<str>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&address).filter(|found| found.until > Instant::now())?;
        Some(found.name.clone())
    }

    async fn look_up(&self, address: IpAddr) -> Option<Arc<str>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        // Another connection from there may have asked meanwhile.
        if let Some(name) = self.cached(address) {
            return name;
        }
        let own = self.clone();
        let found = tokio::task::spawn_blocking(move || {
            let name = confirmed(&*own.resolver, address, &own.unconfirmed);
            own.remember(address, name.clone());
            drop(permit);
            name
        });
        found.await.ok().flatten()
    }

    fn remember(&self, address: IpAddr, name: Option<Arc<str>>) {
        let holds = if name.is_some() { KNOWN_FOR } else { UNKNOWN_FOR };
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.retain(|_, one| one.until > now);
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(address, Known { name, until: now + holds });
    }
}

impl fmt::Debug for HostNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostNames").field("wait", &self.wait).finish_non_exhaustive()
    }
}

/// The name of an address, if the name has the address.
fn confirmed(resolver: &dyn Resolver, address: IpAddr, unconfirmed: &Seldom) -> Option<Arc<str>> {
    let failed =
        |what: &'static str| move |error: &io::Error| tracing::debug!(%address, %error, "{what}");
    let name = resolver.name(address).inspect_err(failed("the address has no name")).ok()?;
    let name = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
    // Some resolvers write the address where there is no name.
    if name.is_empty() || name.len() > NAME_MAX_BYTES || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let addresses = resolver.addresses(&name);
    let addresses = addresses.inspect_err(failed("the name of the address has no address")).ok()?;
    if !addresses.iter().any(|one| one.to_canonical() == address) {
        unconfirmed.line(|left_out| {
            tracing::warn!(
                %address,
                name,
                left_out,
                "the name of an address does not resolve back to it"
            );
        });
        return None;
    }
    Some(name.into())
}

/// Look-ups under way, each with a thread.
const LOOK_UPS_MAX: usize = 16;
/// Addresses whose names are cached.
const KNOWN_MAX: usize = 10_000;
/// How long a name is.
const KNOWN_FOR: Duration = Duration::from_secs(300);
/// How long it is that there is none.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);
/// The longest name of a host (RFC 1035 §2.3.4).
const NAME_MAX_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Knows some addresses and names; with a gate it waits before each answer.
    #[derive(Default)]
    struct Zones {
        names: Vec<(&'static str, &'static str)>,
        addresses: Vec<(&'static str, &'static str)>,
        queries: AtomicU32,
        gate: Option<Mutex<Receiver<()>>>,
    }

    impl Resolver for Zones {
        fn name(&self, address: IpAddr) -> io::Result<String> {
            self.queries.fetch_add(1, Ordering::Relaxed);
            if let Some(gate) = &self.gate {
                let _ = gate.lock().unwrap().recv();
            }
            let found = self.names.iter().find(|(of, _)| *of == address.to_string());
            found.map(|(_, name)| (*name).to_owned()).ok_or(io::ErrorKind::NotFound.into())
        }

        fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let all = self.addresses.iter().filter(|(of, _)| *of == name);
            Ok(all.map(|(_, address)| address.parse().unwrap()).collect())
        }
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
    }

    #[test]
    fn a_name_counts_that_leads_back_to_its_address() {
        let zones = Arc::new(Zones {
            names: vec![
                ("192.0.2.1", "Mail.Example.org."),
                ("192.0.2.2", "www.example.org"),
                ("192.0.2.3", "192.0.2.3"),
                ("2001:db8::1", "six.example.org"),
            ],
            addresses: vec![
                ("mail.example.org", "192.0.2.9"),
                ("mail.example.org", "192.0.2.1"),
                ("www.example.org", "192.0.2.7"),
                ("192.0.2.3", "192.0.2.3"),
                ("six.example.org", "2001:db8::1"),
            ],
            ..Zones::default()
        });
        let names = HostNames::new(Arc::<Zones>::clone(&zones), Duration::from_secs(60));
        run(async {
            for (address, want) in [
                ("192.0.2.1", Some("mail.example.org")),
                ("::ffff:192.0.2.1", Some("mail.example.org")),
                ("2001:db8::1", Some("six.example.org")),
                // The name is of another address; it is a number; there is none.
                ("192.0.2.2", None),
                ("192.0.2.3", None),
                ("192.0.2.4", None),
            ] {
                let found = names.of(address.parse().unwrap()).await;
                assert_eq!(found.as_deref(), want, "{address}");
            }
            let queries = zones.queries.load(Ordering::Relaxed);
            for address in ["192.0.2.1", "192.0.2.2", "192.0.2.4"] {
                let _ = names.of(address.parse().unwrap()).await;
            }
            assert_eq!(zones.queries.load(Ordering::Relaxed), queries, "all are remembered");
        });
    }

    #[test]
    fn a_name_that_comes_late_is_there_for_the_next_connection() {
        let (open, gate) = channel();
        let zones = Arc::new(Zones {
            names: vec![("192.0.2.1", "slow.example.org")],
            addresses: vec![("slow.example.org", "192.0.2.1")],
            gate: Some(Mutex::new(gate)),
            ..Zones::default()
        });
        let names = HostNames::new(Arc::<Zones>::clone(&zones), Duration::from_millis(1));
        run(async {
            let address: IpAddr = "192.0.2.1".parse().unwrap();
            assert_eq!(names.of(address).await, None);
            open.send(()).unwrap();
            while names.cached(address).is_none() {
                tokio::task::yield_now().await;
            }
            assert_eq!(names.of(address).await.as_deref(), Some("slow.example.org"));
        });
    }

    #[test]
    fn addresses_are_forgotten_before_they_are_too_many() {
        let names = HostNames::new(Arc::new(Zones::default()), Duration::from_millis(1));
        run(async {
            for number in 0..KNOWN_MAX + 10 {
                let number = u32::try_from(number).unwrap();
                names.remember(IpAddr::from(number.to_be_bytes()), None);
            }
            assert!(names.known.lock().unwrap().len() <= KNOWN_MAX);
        });
    }
}
