//! `roster cluster init`: making a cluster out of a data directory, or out of a running server.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use directory::{FirstMember, INIT_CLUSTER};
use environment::{Clock as _, SystemClock};
use ldap::result::ResultCode;

use crate::cluster_setup::{self, NewMember, listen_address};
use crate::cluster_status::ClusterView;
use crate::connect::{ADMINISTRATOR_HINT, Login, OnlineOptions};
use crate::failure::{Exit, Failure};
use crate::{interrupt, output, progress};

/// Make a data directory that of the first member of a cluster, or of several.
///
/// With -H a running server becomes the first member: it begins once more, which takes about a
/// second, and clients connect again. With --data no server may be using the data directory; start
/// it afterwards with 'roster serve'. Either way it gets a certificate and, in roster.toml, a
/// section [cluster]; have others join with 'roster cluster token'.
///
/// With --out each member gets a directory OUT/nodeN: a copy of the data, its certificate, and a
/// roster.toml. Copy it to its machine and start it there. Do not serve the original data directory
/// afterwards: it would go its own way under the same name. Each member has the key that makes
/// further members, cluster/ca.key.
#[derive(Args, Debug)]
pub(super) struct Init {
    /// The data directory to begin with; no server may be using it
    #[arg(
        short,
        long,
        value_name = "DIR",
        required_unless_present = "uri",
        conflicts_with = "uri"
    )]
    data: Option<PathBuf>,

    /// A directory to make, with copies for all members in it
    #[arg(short, long, value_name = "DIR", requires = "data")]
    out: Option<PathBuf>,

    /// A member: its number, its address for the other members, its URL for clients
    #[arg(short, long = "member", value_name = "'N HOST:PORT URL'", required = true)]
    members: Vec<String>,

    #[command(flatten)]
    server: OnlineOptions,
}

pub(super) fn init(options: &Init) -> Result<Exit, Failure> {
    if let Some(login) = options.server.login()? {
        return init_running(options, &login);
    }
    let Some(data) = &options.data else {
        return Err(Failure::local("name the data directory with --data, or a server with -H"));
    };
    match &options.out {
        Some(out) => init_copies(options, data, out),
        None => init_in_place(options, data),
    }
}

/// Makes copies of the data directory for all members.
fn init_copies(options: &Init, data: &Path, out: &Path) -> Result<Exit, Failure> {
    let texts = options.members.iter();
    let members = texts.map(|text| member(text, out)).collect::<Result<Vec<_>, _>>()?;
    check(&members)?;
    if out.read_dir().is_ok_and(|mut files| files.next().is_some()) {
        let what = format!("{} is not empty", out.display());
        return Err(Failure::local(what).hint("choose a directory that does not exist yet"));
    }
    let interrupted = interrupt::flag()?;
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let made = cluster_setup::make(data, &members, &is_interrupted);
    if let Err(failure) = made {
        // It was empty: what is half made would pass for a cluster.
        let _ = std::fs::remove_dir_all(out);
        return Err(failure);
    }
    for member in &members {
        let NewMember { id, data, url, .. } = member;
        output::line(format_args!("member {id}  {}, for {url}", data.display()))?;
    }
    output::line(format_args!(
        "\nCopy each to its machine, look at its roster.toml, and start it with:\n  \
         roster serve --data DIR\nDo not serve {} itself any more.",
        data.display()
    ))?;
    Ok(Exit::Done)
}

/// Makes the data directory that of the only member.
fn init_in_place(options: &Init, data: &Path) -> Result<Exit, Failure> {
    let member = NewMember { data: data.to_owned(), ..only_member(options, data)? };
    cluster_setup::make(data, std::slice::from_ref(&member), &|| false)?;
    let (id, data) = (member.id, data.display());
    output::line(format_args!("member {id}  {data}, for {}", member.url))?;
    output::line(format_args!(
        "\nStart it, and make a token for each machine that is to join:\n  \
         roster serve --data {data}\n  roster cluster token -H {} -Z -W",
        member.url
    ))?;
    Ok(Exit::Done)
}

fn only_member(options: &Init, data: &Path) -> Result<NewMember, Failure> {
    match &options.members[..] {
        [text] => member(text, data),
        _ => Err(Failure::local("several members take several directories")
            .hint("name a directory for them with --out, or let the others join later")),
    }
}

/// Has a running server become the only member.
fn init_running(options: &Init, login: &Login) -> Result<Exit, Failure> {
    let NewMember { id: member, address, url, .. } = only_member(options, Path::new(""))?;
    let asked = FirstMember { member, address, url };
    if options.out.is_some() {
        return Err(Failure::local("copies are made of a data directory: --out takes --data"));
    }
    if login.servers() > 1 {
        return Err(Failure::local("one server becomes the first member: name one with -H"));
    }
    let interrupted = interrupt::flag()?;
    ask(login, &asked)?;
    let bar = progress::bar(None, "");
    bar.enable_steady_tick(TICK);
    bar.set_message("the server begins once more");
    let begun = wait(login, member, &interrupted);
    bar.finish_and_clear();
    begun?;
    output::line(format_args!("member {member}  {}, a cluster of one", asked.url))?;
    output::line(format_args!(
        "\nMake a token for each machine that is to join:\n  roster cluster token -H {} -Z -W",
        asked.url
    ))?;
    Ok(Exit::Done)
}

fn ask(login: &Login, asked: &FirstMember) -> Result<(), Failure> {
    let value = serde_json::to_vec(asked)
        .map_err(|error| Failure::local(format!("the member cannot be encoded: {error}")))?;
    let (outcome, _) = login.connect()?.extended(INIT_CLUSTER, Some(&value))?;
    if outcome.is_success() {
        return Ok(());
    }
    let (code, diagnostic) = (outcome.code, outcome.diagnostic.clone());
    let failure = match outcome.into_result("new cluster") {
        Err(error) => Failure::from(error),
        Ok(()) => Failure::refused(""),
    };
    Err(match code {
        ResultCode::UnwillingToPerform => Failure::refused(diagnostic),
        ResultCode::InsufficientAccessRights => failure.hint(ADMINISTRATOR_HINT),
        ResultCode::ProtocolError if diagnostic.contains("is not known") => {
            failure.hint("does the server run an earlier release? Upgrade it first")
        }
        _ => failure,
    })
}

/// Waits until the server says that it leads.
fn wait(login: &Login, member: u64, interrupted: &AtomicBool) -> Result<(), Failure> {
    let clock = SystemClock::new();
    let (begin, mut is_alone) = (clock.elapsed(), 0);
    loop {
        thread::park_timeout(LOOK_EVERY);
        if interrupted.load(Ordering::Relaxed) {
            return Err(Failure::interrupted("interrupted: the server goes on with it"));
        }
        let connection = login.connect();
        let is_there = connection.is_ok();
        let view = connection.and_then(|mut connection| ClusterView::read(&mut connection));
        is_alone = if is_there && view.is_err() { is_alone + 1 } else { 0 };
        let is_over = clock.elapsed() - begin >= WAIT_MAX || is_alone >= ALONE_LOOKS;
        match view {
            Ok(view) if view.told_by == member && view.leader() == Some(member) => return Ok(()),
            _ if !is_over => {}
            Ok(_) => return Err(Failure::refused("the server is a member, and does not lead")),
            Err(failure) => {
                let what = format!("the server is no member: {}", failure.message);
                return Err(Failure { message: what, ..failure }.hint("its log says why"));
            }
        }
    }
}

/// Reads `N HOST:PORT URL`.
pub(super) fn member(text: &str, out: &Path) -> Result<NewMember, Failure> {
    let wrong = || {
        Failure::local(format!("'{text}' is no member"))
            .hint("write it like '1 192.0.2.1:7636 ldap://192.0.2.1:389'")
    };
    let mut parts = text.split_ascii_whitespace();
    let id: u64 = parts.next().and_then(|id| id.parse().ok()).ok_or_else(wrong)?;
    let (address, url) = parts.next().zip(parts.next()).ok_or_else(wrong)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let is_known = (1..=MEMBER_MAX).contains(&id)
        && !host.is_empty()
        && !host.contains(['"', '\\'])
        && port.parse::<u16>().is_ok_and(|port| port > 0)
        && parts.next().is_none();
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let default_port = match scheme {
        "ldap" => 389,
        "ldaps" => 636,
        _ => return Err(wrong()),
    };
    let host = rest.trim_end_matches('/');
    if !is_known || host.is_empty() || host.contains(['/', '"', '\\']) {
        return Err(wrong());
    }
    // An address of IPv6 is in brackets, and has colons of its own.
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let with_port = if has_port { host.to_owned() } else { format!("{host}:{default_port}") };
    let listen = format!("{scheme} = [\"{}\"]", listen_address(&with_port));
    Ok(NewMember {
        id,
        address: address.to_owned(),
        url: url.to_owned(),
        data: out.join(format!("node{id}")),
        listen: vec![listen],
        more: String::new(),
    })
}

/// What no member can see alone.
fn check(members: &[NewMember]) -> Result<(), Failure> {
    let mut ids: Vec<u64> = members.iter().map(|member| member.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut addresses: Vec<&str> = members.iter().map(|member| &*member.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if ids.len() < members.len() || addresses.len() < members.len() {
        return Err(Failure::local("two members have the same number or address"));
    }
    if members.len() > cluster::VOTERS_MAX {
        let what = format!("a cluster has {} members at the most", cluster::VOTERS_MAX);
        return Err(Failure::local(what).hint("three or five are usual"));
    }
    if members.len().is_multiple_of(2) {
        output::note(format_args!(
            "roster: note: with {} members no more may fail than with {}",
            members.len(),
            members.len() - 1
        ));
    }
    Ok(())
}

/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(200);
/// Time between two looks at a server that begins once more.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// One that stops answers nobody new: so often it is seen to be alone before it counts.
const ALONE_LOOKS: u32 = 20;
/// How long that may take: what was not written yet is.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The largest number of a member.
const MEMBER_MAX: u64 = cluster::CHOSEN_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_listen(text: &str, want: &str) {
        let member = member(text, Path::new("out")).unwrap();
        assert_eq!(member.listen, [want]);
    }

    #[test]
    fn a_member_listens_where_its_url_is() {
        check_listen("1 192.0.2.1:7636 ldap://192.0.2.1", "ldap = [\"192.0.2.1:389\"]");
        check_listen("2 192.0.2.1:7636 ldap://192.0.2.1:1389/", "ldap = [\"192.0.2.1:1389\"]");
        check_listen("3 a.example.com:7636 ldaps://a.example.com", "ldaps = [\"0.0.0.0:636\"]");
        check_listen("4 [::1]:7636 ldap://[2001:db8::1]:389", "ldap = [\"[2001:db8::1]:389\"]");
        check_listen("5 [::1]:7636 ldap://[2001:db8::1]", "ldap = [\"[2001:db8::1]:389\"]");
    }

    #[test]
    fn what_is_no_member_is_refused_with_an_example() {
        for text in [
            "",
            "1",
            "1 192.0.2.1:7636",
            "0 192.0.2.1:7636 ldap://192.0.2.1",
            "1 192.0.2.1 ldap://192.0.2.1",
            "1 :7636 ldap://192.0.2.1",
            "1 192.0.2.1:7636 http://192.0.2.1",
            "1 192.0.2.1:7636 ldap:///",
            "1 192.0.2.1:7636 ldap://192.0.2.1 more",
            "1 192.0.2.1:7636 ldap://a\"b",
        ] {
            let failure = member(text, Path::new("out")).unwrap_err();
            assert!(failure.hint.unwrap().contains("192.0.2.1:7636"), "{text}");
        }
    }

    #[test]
    fn members_are_told_apart() {
        let of = |texts: &[&str]| {
            let all = texts.iter().map(|text| member(text, Path::new("out")).unwrap());
            check(&all.collect::<Vec<_>>()).is_ok()
        };
        assert!(of(&["1 a:1 ldap://a", "2 b:1 ldap://b", "3 c:1 ldap://c"]));
        assert!(!of(&["1 a:1 ldap://a", "1 b:1 ldap://b", "3 c:1 ldap://c"]));
        assert!(!of(&["1 a:1 ldap://a", "2 a:1 ldap://b", "3 c:1 ldap://c"]));
    }
}
