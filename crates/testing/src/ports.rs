//! Ports for servers that are told where to listen before they start.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use crate::chance::Chance;

/// Ports from which nodes of a cluster under test draw theirs, as `roster demo` does: below those
/// that the system gives to connections and to who asks for any, which would be gone before the
/// server comes to listen.
const NODES: Range<u16> = 10_000..32_000;
/// Those of other servers, above: a node that is away for a moment is to find its port free.
const OTHERS: Range<u16> = 61_000..65_000;

/// How often one is drawn before none is said to be free.
const TRIES: u32 = 100;

/// A port of this machine's own network for a node of a cluster; taken until the listener goes.
///
/// # Errors
///
/// Tells why no port was free, as text.
pub fn free_port(chance: &mut Chance) -> Result<TcpListener, String> {
    free_among(NODES, chance)
}

fn free_among(ports: Range<u16>, chance: &mut Chance) -> Result<TcpListener, String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let port = ports.start + chance.below(ports.len() as u64) as u16;
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("no port is free: {last}"))
}

/// The marks of all ports that this process has drawn, each a local socket with a name of the
/// port: other tests, which are other processes, draw none of them while this one lives, however
/// late its servers come to listen.
static DRAWN: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Marks a port as drawn by this process; false when some process has drawn it before.
fn mark(port: u16) -> Result<bool, String> {
    let name = format!("roster-test-port-{port}");
    let name = LocalAddr::from_abstract_name(name).map_err(|error| error.to_string())?;
    let Ok(drawn) = UnixListener::bind_addr(&name) else { return Ok(false) };
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner).push(drawn);
    Ok(true)
}

/// Addresses of this machine's own network, `127.0.0.1:PORT`, no two alike, at which nobody
/// listens; no other process gets one of them here while this one lives.
///
/// # Errors
///
/// Tells why no port was free, as text.
pub fn free_addresses<const N: usize>() -> Result<[SocketAddr; N], String> {
    let mut chance = Chance::new(RandomState::new().build_hasher().finish(), 0);
    let mut taken = Vec::with_capacity(N);
    let mut tries = 0;
    while taken.len() < N {
        let listener = free_among(OTHERS, &mut chance)?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        if mark(port)? {
            // Taken until all are known: none is drawn twice.
            taken.push(listener);
        }
        tries += 1;
        if tries > TRIES {
            return Err("no port is free that nobody has drawn".to_owned());
        }
    }
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&taken) {
        *address = listener.local_addr().map_err(|error| error.to_string())?;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_drawn_once() {
        let [address] = free_addresses::<1>().unwrap();
        assert!(!mark(address.port()).unwrap());
    }

    #[test]
    fn addresses_differ_and_are_free() {
        let mut addresses = free_addresses::<8>().unwrap();
        let listeners = addresses.map(|address| TcpListener::bind(address).unwrap());
        assert_eq!(listeners.len(), 8);
        let is_own = |address: &SocketAddr| OTHERS.contains(&address.port());
        assert!(addresses.iter().all(is_own), "{addresses:?}");
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[0] != pair[1]), "{addresses:?}");
    }
}
