//! The indexes of a data directory that no server uses.
//!
//! Invariant: there is no second way to change indexes. The directory is served for the time of the
//! command, on a Unix socket in a folder that only this user can enter, and asked like any server:
//! the change is in the journal, the work is done by the threads that always do it, and what is not
//! done when the command is interrupted goes on at the next start.

use std::path::Path;

use client::{ConnectOptions, Connection};
use server::{OwnSources, Server, generate_self_signed};

use crate::connect::PATIENCE;
use crate::diagnostics::{Log, start_log};
use crate::failure::Failure;
use crate::serving::{environment, start_following};
use crate::temporary::TemporaryFolder;

/// Lets `work` ask a server of its own for the data directory `data`.
pub(crate) fn with_server<T>(
    data: &Path,
    work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_server_as(None, data, work)
}

/// As [`with_server`], with the settings of a file besides those in the data directory.
pub(crate) fn with_server_as<T>(
    config: Option<&Path>,
    data: &Path,
    work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let folder = TemporaryFolder::new("index")?;
    let (server, _log) = serve(config, data, &folder)?;
    let stop = server.shutdown_handle();
    // It listens for Ctrl-C.
    let serving = std::thread::spawn(move || server.wait());
    let done = connect(&folder).and_then(|mut connection| work(&mut connection));
    let is_interrupted = serving.is_finished();
    stop.shutdown();
    let stopped = serving.join().map_err(|_| Failure::local("the server's thread failed"))?;
    match done {
        Err(_) if is_interrupted => {
            Err(Failure::interrupted("interrupted")
                .hint("unfinished work continues at the next start"))
        }
        Err(failure) => Err(failure),
        Ok(done) => {
            stopped?;
            Ok(done)
        }
    }
}

/// Serves the directory where nobody else can connect; nobody waits for it, so that building
/// indexes may take all the time.
fn serve(
    config: Option<&Path>,
    data: &Path,
    folder: &TemporaryFolder,
) -> Result<(Server, Log), Failure> {
    // Nobody uses the certificate, but a server has one, and the data directory stays as it is.
    generate_self_signed(folder.path(), &[])?;
    let inside = |name: &str| folder.path().join(name).display().to_string();
    let overrides = [
        ("server.data", data.display().to_string()),
        ("server.workers", "1".to_owned()),
        ("limits.connections_max", "1".to_owned()),
        // It serves nobody else, whatever the settings of the data directory are.
        ("cluster.id", "0".to_owned()),
        ("admin.listen", String::new()),
        ("listen.ldap", String::new()),
        ("listen.ldaps", String::new()),
        ("listen.ldapi", inside(SOCKET)),
        ("listen.ldapi_mode", "0600".to_owned()),
        ("tls.cert", inside("tls/cert.pem")),
        ("tls.key", inside("tls/key.pem")),
        // Nor do they keep this user out, who could not mend them otherwise.
        ("authentication.mechanisms", "EXTERNAL".to_owned()),
        ("limits.connections_per_address_max", "0".to_owned()),
        ("limits.bind_failures_max", "0".to_owned()),
        ("limits.first_request_timeout_s", "0".to_owned()),
        ("limits.idle_timeout_s", "0".to_owned()),
        ("limits.message_size_max_bytes", MESSAGE_SIZE_MAX_BYTES.to_string()),
        ("limits.size_limit_entries", "0".to_owned()),
        ("limits.time_limit_s", "0".to_owned()),
        ("store.index_build_percent", "100".to_owned()),
        ("log.level", "warn".to_owned()),
    ];
    let file = config.map(Path::to_owned);
    let read = move || OwnSources::read(file.as_deref(), environment(), &overrides, None);
    let sources = read()?;
    let log = start_log(&sources.load(&[])?.settings);
    start_following(sources, Box::new(read), &log).map(|(server, _)| (server, log))
}

/// The user of this process is the administrator of what it serves.
fn connect(folder: &TemporaryFolder) -> Result<Connection, Failure> {
    let uri = client::ldapi_url(&folder.path().join(SOCKET));
    let options = ConnectOptions { answer_timeout: PATIENCE, ..ConnectOptions::new(&uri) };
    let mut connection = Connection::open(options)?;
    connection.bind_external()?;
    Ok(connection)
}

const SOCKET: &str = "ldapi";
/// Room for what a file of the configuration says.
const MESSAGE_SIZE_MAX_BYTES: u32 = 16 << 20;
