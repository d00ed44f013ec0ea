//! What every job of `roster bench` can leave behind: the record of its run, and its seconds.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::{ConnectOptions, Connection, SearchFor};
use environment::{Clock as _, SystemClock};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::url::LdapUrl;
use offline::backup::Moment;

use crate::bench::record::{
    BenchRecord, FORMAT, Load, Machine, MeasuredServer, command_without_passwords,
};
use crate::failure::Failure;
use crate::whole_file::WholeFile;

/// Files of a run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Record")]
pub(super) struct RecordOptions {
    /// Write a record of the run, for 'roster bench report'
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the seconds of the run as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// The name of the server on the page; by default its vendorName and version, or its address
    #[arg(long, value_name = "NAME")]
    label: Option<String>,

    /// A note about the server or its machine, such as hash=SSHA512 or cores=32; may be repeated
    #[arg(long = "note", value_name = "NAME=VALUE", value_parser = note)]
    notes: Vec<(String, String)>,
}

impl RecordOptions {
    /// A record that says what is known before a run: the servers, the machine, the time.
    pub(super) fn begin(&self, name: &str, servers: &[MeasuredServer]) -> BenchRecord {
        let is_here = servers.iter().all(|server| server.pid.is_some() || is_local(&server.uri));
        let settings = self.notes.iter().cloned().collect::<BTreeMap<_, _>>();
        let entries = settings.get("entries").and_then(|count| count.parse().ok());
        let server = MeasuredServer { settings, ..together(servers) };
        let address = server.uri.split_once("://").map_or(&*server.uri, |(_, address)| address);
        let address = address.trim_end_matches('/').to_owned();
        let label = self.label.clone().or_else(|| server.vendor.clone());
        BenchRecord {
            format: FORMAT.to_owned(),
            name: name.to_owned(),
            label: label.unwrap_or(address),
            started: moment(),
            command: command_without_passwords(std::env::args()),
            server,
            machine: Machine::here(is_here),
            load: Load { entries, agents: 1, tls: "none".to_owned(), ..Load::default() },
            ..BenchRecord::default()
        }
    }

    /// Writes what was asked for.
    pub(super) fn keep(&self, record: &BenchRecord) -> Result<(), Failure> {
        if let Some(path) = &self.output {
            record.write(path)?;
        }
        if let Some(path) = &self.csv {
            let failed = |error| Failure::path("write", path, &error);
            let mut file = WholeFile::create(path).map_err(failed)?;
            file.write_all(record.csv().as_bytes()).map_err(failed)?;
            file.finish().map_err(failed)?;
        }
        Ok(())
    }
}

/// The time of day, as in RFC 3339.
pub(super) fn moment() -> String {
    Moment::from_micros(SystemClock::new().now().0).to_string()
}

/// Several servers as one.
fn together(servers: &[MeasuredServer]) -> MeasuredServer {
    if let [server] = servers {
        return server.clone();
    }
    let uris: Vec<&str> = servers.iter().map(|server| server.uri.as_str()).collect();
    let vendor = servers.first().and_then(|server| server.vendor.clone());
    let vendor =
        vendor.filter(|vendor| servers.iter().all(|server| server.vendor.as_ref() == Some(vendor)));
    MeasuredServer { uri: uris.join(" "), vendor, ..MeasuredServer::default() }
}

/// Whether a server with this address runs on this machine, as far as the address tells.
fn is_local(uri: &str) -> bool {
    let host = LdapUrl::parse(uri).ok().and_then(|url| url.host).unwrap_or_default();
    let is_loopback =
        |host: &str| host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.starts_with("ldapi:") || host.is_empty() || host == "localhost" || is_loopback(&host)
}

/// What the server calls itself; none when it does not say, or not without a bind.
pub(super) fn vendor(uri: &str) -> Option<String> {
    let options = ConnectOptions {
        connect_timeout: VENDOR_WAIT,
        answer_timeout: VENDOR_WAIT,
        ..ConnectOptions::new(uri)
    };
    let mut connection = Connection::open(options).ok()?;
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["vendorName", "vendorVersion"],
        ..SearchFor::below("", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked).ok()?;
    let root = found.entries.first()?;
    Some(full_name(root.text("vendorName"), root.text("vendorVersion")))
        .filter(|name| !name.is_empty())
}

/// Name and version; many a version holds the name already.
fn full_name(name: Option<&str>, version: Option<&str>) -> String {
    let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
    if version.to_lowercase().contains(&name.to_lowercase()) {
        version.to_owned()
    } else {
        format!("{name} {version}").trim_end().to_owned()
    }
}

/// `NAME=VALUE`.
fn note(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        Some(_) | None => Err("a note is NAME=VALUE, such as hash=SSHA512".to_owned()),
    }
}

/// A run is not kept waiting by a server that does not tell its name.
const VENDOR_WAIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_a_name() {
        assert_eq!(note("hash = x=y"), Ok(("hash".to_owned(), "x=y".to_owned())));
        assert!(note("hash").is_err() && note("=x").is_err());
    }

    #[test]
    fn a_name_is_told_once() {
        let name = |name, version| full_name(Some(name), Some(version));
        assert_eq!(name("roster", "roster 0.1.0"), "roster 0.1.0");
        assert_eq!(name("389 Project", "389-Directory/2.3.1"), "389 Project 389-Directory/2.3.1");
        assert_eq!((full_name(Some("x"), None), full_name(None, None)), ("x".into(), "".into()));
    }

    #[test]
    fn loopback_addresses_are_this_machine() {
        for uri in ["ldap://127.0.0.1", "ldap://[::1]", "ldapi://%2frun%2fldapi"] {
            assert!(is_local(uri), "{uri}");
        }
        assert!(!is_local("ldap://192.0.2.1"));
    }
}
