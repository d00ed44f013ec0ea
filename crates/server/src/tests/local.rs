//! The Unix socket.

use super::*;

use ldap::message::BindRequest;

#[test]
fn external_over_the_unix_socket_is_the_administrator() {
    let running = Running::start();
    let path = running.addresses.ldapi.clone().unwrap();
    assert_eq!(path, running.data.path().join("data/ldapi"));
    let mut client = Client::unix(&path);
    client.send(&extended(1, WHO_AM_I));
    assert_eq!(client.receive(), "1 extended success");
    let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials: None };
    let external = BindRequest { version: 3, name: "", authentication };
    client.send(&request(2, Request::Bind(external)));
    assert_eq!(client.receive(), "2 bind success");
    client.send(&extended(3, WHO_AM_I));
    assert_eq!(client.receive(), "3 extended success dn:cn=Directory Manager");
    // Over TCP nobody vouches for the client.
    let mut client = running.connect();
    client.send(&request(2, Request::Bind(external)));
    assert_eq!(client.receive(), "2 bind inappropriateAuthentication");
}

#[test]
fn without_a_path_there_is_no_unix_socket() {
    let running = Running::with(|settings| settings.listen.ldapi = "".into());
    assert_eq!(running.addresses.ldapi, None);
    running.check_alive();
}
