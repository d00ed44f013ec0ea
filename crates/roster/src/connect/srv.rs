//! Servers that are found by the name of a directory: `ldap:///dc=example,dc=com` stands for those
//! that the DNS names for `_ldap._tcp.example.com` (RFC 2782), as in OpenLDAP's tools.
//!
//! Invariant: such a URI never means this machine.

use std::fmt::Write as _;
use std::time::Duration;

use domain::base::Name;
use domain::resolv::StubResolver;
use domain::resolv::stub::conf::ResolvConf;
use ldap::dn::Dn;
use ldap::url::{LdapUrl, UrlScheme};

use super::uris::SERVERS_MAX;
use crate::failure::Failure;

/// The URIs, with the servers that the DNS names in the place of those that name a directory.
pub(super) fn located(uris: Vec<String>) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = Vec::new();
    for uri in uris {
        let found = match Directory::of(&uri) {
            None => vec![uri],
            Some(directory) => directory?.servers(ResolvConf::default())?,
        };
        for uri in found {
            if !all.contains(&uri) && all.len() < SERVERS_MAX {
                all.push(uri);
            }
        }
    }
    Ok(all)
}

/// A directory whose servers are looked for.
#[derive(Debug)]
struct Directory {
    scheme: UrlScheme,
    /// `example.com`.
    domain: String,
}

impl Directory {
    /// Of a URI without a host, and with the name of an entry; nothing of others.
    fn of(uri: &str) -> Option<Result<Self, Failure>> {
        let url = LdapUrl::parse(uri).ok()?;
        if url.host.is_some() || url.dn.is_root() || url.scheme == UrlScheme::Ldapi {
            return None;
        }
        let domain = domain_of(&url.dn).ok_or_else(|| {
            Failure::local(format!("'{uri}' names no server, and no domain to look for servers"))
                .hint(
                    "name a host, as in ldap://host, or a domain, as in ldap:///dc=example,dc=com",
                )
        });
        Some(domain.map(|domain| Self { scheme: url.scheme, domain }))
    }

    /// Asks the DNS.
    fn servers(&self, conf: ResolvConf) -> Result<Vec<String>, Failure> {
        let service = format!("_{}._tcp", self.scheme.name());
        let failed = |reason: &dyn std::fmt::Display| {
            let name = format!("{service}.{}", self.domain);
            let failure =
                Failure::local(format!("the DNS does not tell servers of {name}: {reason}"));
            Failure { is_passing: true, ..failure }
                .hint("name a server instead, as in -H ldap://host")
        };
        let name = |text: &str| text.parse::<Name<Vec<u8>>>().map_err(|error| failed(&error));
        let domain = name(&self.domain)?;
        let full = name(&format!("{service}.{}", self.domain))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let found = runtime.block_on(async {
            let resolver = StubResolver::from_conf(conf);
            let service = service.parse::<domain::base::RelativeName<Vec<u8>>>();
            let service = service.map_err(|error| failed(&error))?;
            // A port of 0 is the answer where there are no records.
            let asked = resolver.lookup_srv(service, &domain, 0);
            match tokio::time::timeout(DNS_TIMEOUT, asked).await {
                Ok(found) => found.map_err(|error| failed(&error)),
                Err(_) => Err(failed(&format!("no answer within {} s", DNS_TIMEOUT.as_secs()))),
            }
        })?;
        let records = found.map(|found| found.into_srvs()).into_iter().flatten();
        let records = records.filter(|record| record.port() > 0);
        let uri = |record: domain::rdata::Srv<_>| {
            format!("{}://{}:{}", self.scheme.name(), record.target(), record.port())
        };
        let uris: Vec<String> = records.map(uri).take(SERVERS_MAX).collect();
        match uris.is_empty() {
            true => Err(failed(&format!("it has no record {full}"))),
            false => Ok(uris),
        }
    }
}

/// `example.com` of `dc=example,dc=com`; nothing if the name has anything else in it.
fn domain_of(name: &Dn) -> Option<String> {
    let mut domain = String::new();
    for rdn in name.rdns() {
        let [ava] = rdn.avas() else { return None };
        let label = std::str::from_utf8(&ava.value).ok()?;
        let is_label = (1..=63).contains(&label.len())
            && label.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-_".contains(&octet));
        if !ava.attribute.eq_ignore_ascii_case("dc") || !is_label {
            return None;
        }
        let between = if domain.is_empty() { "" } else { "." };
        // Writing to a text does not fail.
        let _ = write!(domain, "{between}{label}");
    }
    Some(domain)
}

/// The longest wait for the DNS.
const DNS_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use domain::base::iana::Rcode;
    use domain::base::{Message, MessageBuilder};
    use domain::rdata::Srv;
    use domain::resolv::stub::conf::{ServerConf, Transport};

    use super::*;

    /// A name server that has these records: priority, weight, port and target.
    fn name_server(records: &'static [(u16, u16, u16, &str)]) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut octets = [0; 1500];
            while let Ok((read, client)) = socket.recv_from(&mut octets) {
                let asked = Message::from_octets(octets[..read].to_vec()).unwrap();
                let question = asked.first_question().unwrap();
                let is_known = question.qname().to_string() == "_ldap._tcp.example.com";
                let code = if is_known { Rcode::NOERROR } else { Rcode::NXDOMAIN };
                let answer = MessageBuilder::new_vec().start_answer(&asked, code).unwrap();
                let mut answer = answer;
                for (priority, weight, port, target) in records.iter().filter(|_| is_known) {
                    let target: Name<Vec<u8>> = target.parse().unwrap();
                    let record = Srv::new(*priority, *weight, *port, target);
                    answer.push((question.qname(), 60, record)).unwrap();
                }
                socket.send_to(&answer.finish(), client).unwrap();
            }
        });
        address
    }

    fn servers(
        uri: &str,
        records: &'static [(u16, u16, u16, &str)],
    ) -> Result<Vec<String>, String> {
        let mut conf = ResolvConf::new();
        conf.servers.push(ServerConf::new(name_server(records), Transport::UdpTcp));
        conf.finalize();
        let directory = Directory::of(uri).unwrap().map_err(|failure| failure.message)?;
        directory.servers(conf).map_err(|failure| failure.message)
    }

    #[test]
    fn servers_come_by_priority() {
        let found = servers(
            "ldap:///dc=example,dc=com",
            &[(20, 1, 389, "c.example.com"), (10, 1, 1389, "a.example.com"), (15, 0, 9, "b.org")],
        );
        let want = ["ldap://a.example.com:1389", "ldap://b.org:9", "ldap://c.example.com:389"];
        assert_eq!(found.unwrap(), want);
        let escaped = servers("ldap:///dc%3Dexample%2Cdc%3Dcom", &[(1, 1, 389, "a.example.com")]);
        assert_eq!(escaped.unwrap(), ["ldap://a.example.com:389"]);
    }

    #[test]
    fn a_domain_without_servers_means_no_server() {
        for (uri, name) in [
            ("ldap:///dc=example,dc=org", "_ldap._tcp.example.org"),
            ("ldaps:///dc=example,dc=com", "_ldaps._tcp.example.com"),
        ] {
            let error = servers(uri, &[(1, 1, 389, "a.example.com")]).unwrap_err();
            assert!(error.ends_with(&format!("{name}: it has no record {name}")), "{error}");
        }
        // The root as target says that there is no such service.
        assert!(servers("ldap:///dc=example,dc=com", &[(0, 0, 0, ".")]).is_err());
        for uri in ["ldap:///o=x", "ldap:///dc=a.b,dc=com", "ldap:///cn=x,dc=com"] {
            assert!(servers(uri, &[]).unwrap_err().contains("names no server"), "{uri}");
        }
    }

    #[test]
    fn other_uris_stay_as_they_are() {
        for uri in ["ldap://h", "ldap://h/dc=example,dc=com", "ldap://", "ldap:///", "ldapi://%2Fx"]
        {
            assert!(Directory::of(uri).is_none(), "{uri}");
            assert_eq!(located(vec![uri.to_owned()]).unwrap(), [uri]);
        }
    }
}
