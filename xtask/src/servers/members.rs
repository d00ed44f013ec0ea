//! roster as a cluster on this machine: one directory, copied for each member, and a process each.
//!
//! Invariant: all members begin with the same data, in a folder each below one folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testing::client::{Client, Search};
use testing::crash::server::{Place, now, pause};

use super::{Server, free_address, started};

/// How long members may take until one of them leads, and until all have applied what it has.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether they have.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// What a member says of itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct View {
    pub(crate) is_leader: bool,
    /// The number of the last change that is visible.
    pub(crate) applied: u64,
}

/// Loads one directory, makes so many members of it, unless they are there, and starts them.
pub(crate) fn start(
    program: &Path,
    folder: &Path,
    people: &Path,
    count: usize,
) -> Result<Vec<Server>, String> {
    let place = |folder: PathBuf| {
        let (roster, environment) = (program.to_owned(), Vec::new());
        Place { roster, folder, environment }
    };
    let (all, made) = (1..=count, folder.join("made"));
    if !made.exists() {
        // What an interrupted run left is not the whole.
        let _ = fs::remove_dir_all(folder);
        let first = place(folder.join("first"));
        first.init()?;
        first.offline(&["import", &people.display().to_string()])?;
        make(&first, folder, count)?;
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::remove_dir_all(&first.folder).map_err(failed)?;
        fs::write(&made, "").map_err(failed)?;
    }
    all.map(|id| started(place(folder.join(format!("member{id}"))), &[])).collect()
}

/// Makes the members' data directories out of the first one.
fn make(first: &Place, folder: &Path, count: usize) -> Result<(), String> {
    let nodes = folder.join("nodes");
    let mut words = vec!["cluster".to_owned(), "init".to_owned()];
    words.extend(["--out".to_owned(), nodes.display().to_string()]);
    for id in 1..=count {
        let (members, clients) = (free_address()?, free_address()?);
        words.extend(["--member".to_owned(), format!("{id} {members} ldap://{clients}")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    first.offline(&words)?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for id in 1..=count {
        let member = folder.join(format!("member{id}"));
        fs::create_dir_all(&member).map_err(failed)?;
        fs::rename(nodes.join(format!("node{id}")), member.join("data")).map_err(failed)?;
    }
    Ok(())
}

/// What the member behind a connection says of itself.
pub(crate) fn view(client: &mut Client) -> Result<View, String> {
    let search = Search {
        base: "cn=cluster,cn=monitor".to_owned(),
        scope: 0,
        filter: "(objectClass=*)".to_owned(),
        attributes: [ROLE, APPLIED].map(str::to_owned).to_vec(),
    };
    let found = client.search(&search).map_err(|error| error.to_string())?;
    let entry = found.entries.first().map(|(_, attributes)| attributes);
    let text = |name: &str| entry?.get(name)?.first().cloned();
    let applied = text(APPLIED).and_then(|applied| applied.parse().ok());
    let missing = || format!("{} says nothing: {} {}", search.base, found.code, found.diagnostic);
    Ok(View {
        is_leader: text(ROLE).as_deref() == Some("leader"),
        applied: applied.ok_or_else(missing)?,
    })
}

/// A connection to each, as its administrator.
pub(crate) fn clients(servers: &[Server]) -> Result<Vec<Client>, String> {
    servers.iter().map(Server::enter).collect()
}

/// Waits until one of them leads; its place.
pub(crate) fn leader(servers: &[Server]) -> Result<usize, String> {
    let begin = now();
    while begin.elapsed() < PATIENCE {
        let mut clients = clients(servers)?;
        let views: Result<Vec<View>, String> = clients.iter_mut().map(view).collect();
        if let Some(place) = views?.iter().position(|view| view.is_leader) {
            return Ok(place);
        }
        pause(LOOK_PAUSE);
    }
    Err(format!("no member leads after {} s", PATIENCE.as_secs()))
}

/// Waits until all have applied what the leader has; how long that took.
pub(crate) fn settle(servers: &[Server]) -> Result<Duration, String> {
    let mut clients = clients(servers)?;
    let begin = now();
    while begin.elapsed() < PATIENCE {
        let views: Result<Vec<View>, String> = clients.iter_mut().map(view).collect();
        let views = views?;
        let leader = views.iter().find(|view| view.is_leader);
        // The leader may have been asked before another; then it is asked again.
        if leader.is_some_and(|leader| views.iter().all(|one| one.applied == leader.applied)) {
            return Ok(begin.elapsed());
        }
        pause(LOOK_PAUSE);
    }
    Err(format!("the members differ after {} s", PATIENCE.as_secs()))
}

const ROLE: &str = "roster-cluster-role";
const APPLIED: &str = "roster-cluster-applied-lsn";
