//! Rules that ask for the name of the client's host, asked of the machine's own resolver: what it
//! knows of the loopback address decides what the test expects.

use super::*;
use crate::listen::host_names::HostNames;

/// The name that this machine has for itself, if it has one that leads back.
fn own_name() -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let names = HostNames::of_system(TIMEOUT);
    let found = runtime.block_on(names.of(std::net::IpAddr::from([127, 0, 0, 1])));
    found.map(|name| name.to_string())
}

/// What a client without a name of its own gets for adding an entry below one that lets clients on
/// this host do so.
fn added(host_names: bool, name: &str) -> String {
    let running = Running::with(|settings| {
        settings.access_control.host_names = host_names;
        settings.access_control.host_name_wait = TIMEOUT;
    });
    let aci = format!("(version 3.0; acl \"ours\"; allow (add) dns=\"{name}\";)");
    let mut root = running.connect_root();
    let attributes = [("objectClass", "organizationalUnit"), ("aci", &*aci)];
    root.send(&add_entry(2, "ou=open,dc=example,dc=org", &attributes));
    assert_eq!(root.receive(), "2 add success");
    let mut client = running.connect();
    let name = "ou=new,ou=open,dc=example,dc=org";
    client.send(&add_entry(1, name, &[("objectClass", "organizationalUnit")]));
    client.receive()
}

#[test]
fn a_rule_by_name_holds_where_names_are_looked_up() {
    let name = own_name();
    let asked = name.as_deref().unwrap_or("localhost");
    let want = if name.is_some() { "success" } else { "insufficientAccessRights" };
    assert_eq!(added(true, asked), format!("1 add {want}"));
    assert_eq!(added(true, "elsewhere.example.org"), "1 add insufficientAccessRights");
    assert_eq!(added(false, asked), "1 add insufficientAccessRights");
}
