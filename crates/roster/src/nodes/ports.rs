//! Where several servers on one machine listen.
//!
//! Invariant: no address is given twice, and each was free when it was chosen.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use super::data_directory;
use crate::cluster_setup::NewMember;
use crate::failure::Failure;

/// Plans `count` members below `base`. `asked` has addresses for LDAP, LDAPS and HTTP, if any: the
/// first server gets them, the others the free ports after them; with port 0, any free ones.
///
/// # Errors
/// When an address is not free, or there are no free ports.
pub(crate) fn plan(
    base: &Path,
    count: u64,
    asked: [Option<SocketAddr>; 3],
) -> Result<Vec<NewMember>, Failure> {
    let [ldap, ldaps, admin] = asked;
    let mut ports = Ports::default();
    let mut members = Vec::new();
    let any = ldap.is_some_and(|address| address.port() == 0);
    let or = |asked: Option<SocketAddr>, port: u16| {
        let port = if any { 0 } else { port };
        asked.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    };
    for id in 1..=count {
        // What was asked for is there or not; a default may be another.
        let must = |asked: Option<SocketAddr>| id == 1 && asked.is_some();
        let for_ldap = ports.next(or(ldap, LDAP_PORT), must(ldap))?;
        let for_ldaps = ports.next(or(ldaps, LDAPS_PORT), must(ldaps))?;
        let for_members = ports.next(or(None, MEMBERS_PORT), false)?;
        let mut listen =
            vec![format!("ldap = [\"{for_ldap}\"]"), format!("ldaps = [\"{for_ldaps}\"]")];
        let mut more = format!("\n[limits]\nconnections_max = {CONNECTIONS_MAX}\n");
        if let Some(admin) = admin {
            let admin = ports.next(admin, id == 1)?;
            more.push_str(&format!("\n[admin]\nlisten = [\"{admin}\"]\n"));
        }
        listen.push(format!("ldapi = \"{SOCKET}\""));
        members.push(NewMember {
            id,
            address: for_members.to_string(),
            url: format!("ldap://{for_ldap}"),
            data: data_directory(base, id),
            listen,
            more,
        });
    }
    Ok(members)
}

/// Addresses that are taken until this is dropped.
#[derive(Default)]
struct Ports {
    taken: Vec<(SocketAddr, TcpListener)>,
}

impl Ports {
    /// The first free address from this one on; just this one where it `must` be.
    fn next(&mut self, from: SocketAddr, must: bool) -> Result<SocketAddr, Failure> {
        let is_any = from.port() == 0;
        let first = if is_any { chance_port()? } else { from.port() };
        for port in (first..=u16::MAX).take(TRIES) {
            let address = SocketAddr::new(from.ip(), port);
            match TcpListener::bind(address) {
                Ok(listener) => {
                    self.taken.push((address, listener));
                    return Ok(address);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && (!must || is_any) => {}
                Err(error) => {
                    let reason = crate::failure::plain(&error);
                    return Err(Failure::local(format!("cannot listen on {address}: {reason}"))
                        .hint("choose another address with --ldap, --ldaps or --admin"));
                }
            }
        }
        Err(Failure::local(format!("none of the {TRIES} ports from {first} on is free"))
            .hint("choose others with --ldap and --ldaps"))
    }
}

/// A port below those that the system gives to connections, so that none of them takes it until
/// the server listens.
fn chance_port() -> Result<u16, Failure> {
    let mut octets = [0; 2];
    getrandom::fill(&mut octets).map_err(Failure::local)?;
    Ok(ANY_PORTS_FROM + u16::from_le_bytes(octets) % ANY_PORTS)
}

/// Its own Unix socket of each server, in its data directory.
pub(super) const SOCKET: &str = "ldapi";
/// The first ports that are tried.
const LDAP_PORT: u16 = 1389;
const LDAPS_PORT: u16 = 1636;
const MEMBERS_PORT: u16 = 7636;
/// How many ports are tried.
const TRIES: usize = 200;
const ANY_PORTS_FROM: u16 = 10_000;
const ANY_PORTS: u16 = 22_000;
/// Connections of a server at the same time.
const CONNECTIONS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_addresses_of_its_own() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let members = plan(Path::new("/d"), 3, [Some(any); 3]).unwrap();
        assert_eq!(members[1].data, Path::new("/d/node2"));
        let mut all: Vec<_> =
            members.iter().flat_map(|one| [&one.address, &one.listen[0]]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6, "{members:?}");
        assert!(members[2].more.contains("[admin]"), "{members:?}");
    }

    #[test]
    fn an_address_that_was_asked_for_and_is_taken_is_refused() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let failure = plan(Path::new("/d"), 3, [Some(address), None, None]).unwrap_err();
        assert!(failure.message.contains(&format!("cannot listen on {address}")), "{failure:?}");
        assert!(failure.hint.unwrap().contains("--ldap"));
        let mut ports = Ports::default();
        assert!(ports.next(address, false).unwrap().port() > address.port());
    }
}
