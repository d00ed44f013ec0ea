//! `roster cluster token` and `join`: a machine becomes a member of a cluster.
//!
//! Invariant: a machine joins with a key that it has made itself, and that never leaves it.
//! Invariant: each step can be interrupted, and done again: the same key is the same member.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};
use clap::Args;
use client::{CertificateCheck, ConnectOptions, Connection, SearchFor, TlsOptions};
use cluster::transport::NodeKey;
use directory::{
    JOIN, JOIN_TOKEN_ATTRIBUTE, JoinAnswer, JoinPart, JoinRequest, JoinToken, hex, octets_of_hex,
};
use environment::{Clock as _, SystemClock};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use offline::backup::MemberBackup;
use serde::{Deserialize, Serialize};
use server::Settings;
use sha2::{Digest as _, Sha256};

use crate::cluster_setup::{NewMember, listen_address, write_settings};
use crate::cluster_status::ClusterView;
use crate::commands::cluster_init::member;
use crate::connect::{ADMINISTRATOR_HINT, ServerOptions};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::joining;
use crate::location::{DATA_DEFAULT, DATA_VARIABLE};
use crate::output;
use crate::rejoining;
use crate::serving::write_durably;
use crate::settings_file;

/// Print a token with which one machine can join the cluster.
///
/// Whoever has it can make a machine a member that gets all data, passwords among them: hand it on
/// like a password. It is for one machine, and is over after a while. 'cn=Join Tokens,cn=config'
/// lists the tokens; delete one there to take it back.
#[derive(Args, Debug)]
pub(super) struct Token {
    /// How long it can be used, in minutes; a week at the most
    #[arg(long, value_name = "MINUTES", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=10_080))]
    valid: u64,

    /// The machine is to stay a learner: it gets all changes and answers reads, and does not count
    /// towards a majority
    #[arg(long)]
    learner: bool,

    /// The machine is to take the place of this voter, which may be dead and leaves for ever, as
    /// soon as it has caught up
    #[arg(long, value_name = "NUMBER", conflicts_with = "learner")]
    replaces: Option<u64>,

    /// The URL at which the machine is to ask for a place, if not that of -H
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerOptions,
}

/// Make this machine a member of a cluster.
///
/// It makes a key, asks the member that made the token for a number and a certificate, gets a copy
/// of the data, and catches up. Start it then with 'roster serve': it becomes a voter as soon as
/// the number of voters stays odd, the second of two machines together with the first. What was
/// interrupted is done again with the same command.
#[derive(Args, Debug)]
pub(super) struct Join {
    /// What 'roster cluster token' printed; '-' reads it from standard input
    #[arg(value_name = "TOKEN")]
    token: String,

    /// The data directory to make
    #[arg(short, long, value_name = "DIR", env = DATA_VARIABLE, default_value = DATA_DEFAULT,
        hide_env_values = true)]
    data: PathBuf,

    /// Where the other members are to reach this machine
    #[arg(short, long, value_name = "HOST:PORT")]
    address: String,

    /// Where clients are to reach it
    #[arg(short, long, value_name = "URL")]
    url: String,

    /// Begin with the base of this backup of a member, and get only what came after it
    #[arg(long, value_name = "BACKUP")]
    from_backup: Option<PathBuf>,
}

/// What a token says: of whom a place is asked for, and with what.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TokenText {
    /// The URL of a member.
    u: String,
    /// The SHA-256 of its certificate for clients, in hexadecimal digits.
    c: String,
    /// The name of the token.
    n: String,
    /// Its secret.
    s: String,
}

impl TokenText {
    fn encode(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{TOKEN_BEGIN}{}", URL_SAFE_NO_PAD.encode(json))
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::local("this is no token of a cluster")
                .hint("'roster cluster token' prints one; was it copied as a whole?")
        };
        let encoded = text.trim().strip_prefix(TOKEN_BEGIN).ok_or_else(wrong)?;
        if encoded.len() > TOKEN_MAX_BYTES {
            return Err(wrong());
        }
        let json = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| wrong())?;
        serde_json::from_slice(&json).map_err(|_| wrong())
    }
}

pub(super) fn token(options: &Token) -> Result<Exit, Failure> {
    let login = options.server.login()?;
    let mut connection = login.connect()?;
    // Of a server that is no member it says so.
    let view = ClusterView::read(&mut connection)?;
    if let Some(replaced) = options.replaces.filter(|id| !view.has_voter(*id)) {
        return Err(Failure::local(format!("no voter has the number {replaced}"))
            .hint("'roster cluster status' shows the members; of a learner there is no place"));
    }
    let own = own_url(options, login.uri())?;
    let part = match (options.replaces, options.learner) {
        (Some(member), _) => JoinPart::InPlaceOf(member),
        (None, true) => JoinPart::Learner,
        (None, false) => JoinPart::Voter,
    };
    let (text, ends_s) = make_token(&mut connection, own, part, options.valid * 60)?;
    let text = text.encode();
    if options.json {
        let part = part.to_string();
        let shown = serde_json::json!({ "token": text, "ends_s": ends_s, "part": part });
        output::json(&shown)?;
        return Ok(Exit::Done);
    }
    output::line(format_args!("{text}"))?;
    output::note(format_args!(
        "roster: for one machine, within {} minutes; on it, run:\n  roster cluster join TOKEN \
         --data DIR --address HOST:PORT --url ldap://HOST",
        options.valid
    ));
    Ok(Exit::Done)
}

/// Has the cluster of a member know a new token, with which a machine asks at `url`; returns also
/// when it ends, in seconds since 1970.
pub(crate) fn make_token(
    connection: &mut Connection,
    url: String,
    part: JoinPart,
    valid_s: u64,
) -> Result<(TokenText, u64), Failure> {
    let certificate = certificate(connection)?;
    let (mut name, mut secret) = ([0; 16], [0; 32]);
    for octets in [&mut name[..], &mut secret[..]] {
        getrandom::fill(octets)
            .map_err(|error| Failure::local(format!("cannot get random numbers: {error}")))?;
    }
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let ends_s = SystemClock::new().now().seconds() + valid_s;
    let digest = Sha256::digest(&secret).into();
    let token = JoinToken { name, secret: digest, ends_s, part, key: None };
    put(connection, &token.to_string())?;
    Ok((TokenText { u: url, c: certificate, n: hex(&name), s: secret }, ends_s))
}

/// Where the machine is to ask: over the network.
fn own_url(options: &Token, asked: &str) -> Result<String, Failure> {
    let url = options.url.as_deref().unwrap_or(asked);
    if url.starts_with("ldap://") || url.starts_with("ldaps://") {
        return Ok(url.to_owned());
    }
    Err(Failure::local(format!("no other machine reaches {url}"))
        .hint("say with --url where this member is reached, such as ldap://HOST"))
}

/// The SHA-256 of the certificate that the server shows to clients.
fn certificate(connection: &mut Connection) -> Result<String, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["roster-tls-sha256"],
        ..SearchFor::below("cn=tls,cn=monitor", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let sha256 = found.entries.first().and_then(|entry| entry.text("roster-tls-sha256"));
    sha256.map(str::to_owned).ok_or_else(|| {
        Failure::refused("the server does not tell which certificate it has")
            .hint(ADMINISTRATOR_HINT)
    })
}

/// Has the cluster know a token.
fn put(connection: &mut Connection, token: &str) -> Result<(), Failure> {
    let changes = [(ModifyOperation::Add, JOIN_TOKEN_ATTRIBUTE, &[token][..])];
    let outcome = connection.modify(TOKENS, &changes)?;
    let code = outcome.code;
    outcome.into_result("making a token").map_err(|error| {
        let failure = Failure::from(error);
        match code {
            ResultCode::InsufficientAccessRights => failure.hint(ADMINISTRATOR_HINT),
            _ => failure,
        }
    })
}

/// Make a machine a member anew that was one, under another number.
///
/// For a member whose disk was damaged or is an old image, that is in quarantine, or was removed:
/// it has forgotten what it has promised, and must not vote under its old number. What is in its
/// data directory is moved to DIR/old-N, but for its settings and its certificate for clients; then
/// it joins as any other machine. Make the token with --replaces and its old number, if that is a
/// voter still. What was interrupted is done again with the same command.
#[derive(Args, Debug)]
pub(super) struct Rejoin {
    #[command(flatten)]
    join: Join,
}

pub(super) fn rejoin(options: &Rejoin) -> Result<Exit, Failure> {
    let token = read_token(&options.join)?;
    let data = &options.join.data;
    if rejoining::has_rejoined(data, &token.n)? {
        let what = format!("{} has rejoined with this token already", data.display());
        return Err(Failure::local(what).hint("start it with 'roster serve'"));
    }
    // What can be known to fail leaves the directory as it is.
    rejoining::refuse_in_use(data)?;
    check_places(&options.join)?;
    check_listen(&options.join.address)?;
    settings_file::check(data)?;
    rejoining::put_aside(data)?;
    rejoining::note_rejoins(data, &token.n)?;
    join_with(&options.join, &token)?;
    if let Some(old) = rejoining::newest(&options.join.data)? {
        output::note(format_args!(
            "roster: what was there is in {}: delete it when you need it no more",
            old.display()
        ));
    }
    Ok(Exit::Done)
}

pub(super) fn join(options: &Join) -> Result<Exit, Failure> {
    let token = read_token(options)?;
    join_with(options, &token)
}

fn read_token(options: &Join) -> Result<TokenText, Failure> {
    let text = match options.token.as_str() {
        "-" => io::read_to_string(io::stdin().lock())?,
        text => text.to_owned(),
    };
    TokenText::decode(&text)
}

/// Reads where this machine is said to be.
fn check_places(options: &Join) -> Result<NewMember, Failure> {
    member(&format!("1 {} {}", options.address, options.url), Path::new("")).map_err(|_| {
        Failure::local("the address or the URL is not one")
            .hint("write them like --address 192.0.2.2:7636 --url ldap://192.0.2.2:389")
    })
}

/// Whether it can listen there: else it would be a member that nobody could reach.
fn check_listen(address: &str) -> Result<(), Failure> {
    let listen = listen_address(address);
    let bound = TcpListener::bind(listen).map_err(|error| {
        let reason = crate::failure::plain(&error);
        Failure::local(format!("this machine cannot listen on {listen}: {reason}"))
            .hint("--address is where the others reach this machine, with a free port")
    });
    bound.map(drop)
}

fn join_with(options: &Join, token: &TokenText) -> Result<Exit, Failure> {
    let new = NewMember { data: options.data.clone(), ..check_places(options)? };
    let place = Place::ask_for(token, &new, options.from_backup.as_deref())?;
    output::note(format_args!("roster: this machine is member {}", place.answer.member));
    let interrupted = interrupt::flag()?;
    place.fill(&|| interrupted.load(Ordering::Relaxed))?;
    tell(options, &place.answer)?;
    Ok(Exit::Done)
}

/// A place in a cluster, in which nobody serves yet.
pub(crate) struct Place<'m> {
    /// What joins; it has no number before it gets one.
    new: &'m NewMember,
    backup: Option<MemberBackup>,
    answer: JoinAnswer,
    _joining: joining::Joining,
}

impl<'m> Place<'m> {
    /// Asks for a place for the machine `new`, which is to begin with the backup at a path, if
    /// there is one.
    pub(crate) fn ask_for(
        token: &TokenText,
        new: &'m NewMember,
        from_backup: Option<&Path>,
    ) -> Result<Self, Failure> {
        joining::check_free(&new.data)?;
        let folder = new.data.join(Settings::default().cluster.certificates);
        let mut make = fs::DirBuilder::new();
        make.recursive(true).mode(0o700);
        make.create(&folder).map_err(|error| Failure::path("make", &folder, &error))?;
        let joining = joining::begin(&new.data)?;
        check_listen(&new.address)?;
        // What can be known to be of no use is known before there is a member.
        let backup = from_backup.map(joining::verified).transpose()?;
        let key = NodeKey::load_or_make(&folder)?;
        let request = JoinRequest {
            token: token.n.clone(),
            secret: token.s.clone(),
            key: BASE64.encode(key.public_der()),
            address: new.address.clone(),
            url: new.url.clone(),
        };
        let answer = ask(token, &request)?;
        Ok(Self { new, backup, answer, _joining: joining })
    }

    /// Writes what the machine was given, and gets the data.
    pub(crate) fn fill(&self, is_interrupted: &dyn Fn() -> bool) -> Result<(), Failure> {
        let Self { new, backup, answer, .. } = self;
        keep(new, answer)?;
        joining::copy(&new.data, answer, &new.address, backup.as_ref(), is_interrupted)
    }
}

/// Asks the member that made the token.
fn ask(token: &TokenText, request: &JoinRequest) -> Result<JoinAnswer, Failure> {
    let pinned = octets_of_hex(&token.c)
        .map_err(|_| Failure::local("the token names no certificate").hint("make another one"))?;
    let mut options = ConnectOptions::new(token.u.clone());
    options.tls = TlsOptions::new(CertificateCheck::Pinned(pinned), None);
    options.message_size_max_bytes = ANSWER_MAX_BYTES;
    options.answer_timeout = ANSWER_WAIT;
    let mut connection = Connection::open(options).map_err(not_that_server)?;
    if !connection.is_secure() {
        connection.start_tls().map_err(not_that_server)?;
    }
    let value = serde_json::to_vec(request)
        .map_err(|error| Failure::local(format!("the request cannot be encoded: {error}")))?;
    let (outcome, answer) = connection.extended(JOIN, Some(&value))?;
    if !outcome.is_success() {
        let failure = Failure::refused(outcome.diagnostic.clone());
        return Err(match outcome.code {
            ResultCode::ProtocolError => {
                failure.hint("does the member run an earlier release? Upgrade it first")
            }
            ResultCode::Unavailable | ResultCode::Busy | ResultCode::Other => failure.hint(
                "look at 'roster cluster status', and run the command again: nothing is done twice",
            ),
            _ => failure,
        });
    }
    serde_json::from_slice(&answer.unwrap_or_default())
        .map_err(|error| Failure::refused(format!("the server sent a malformed answer: {error}")))
}

fn not_that_server(error: client::ClientError) -> Failure {
    let is_certificate =
        matches!(&error, client::ClientError::Tls(reason) if reason.contains("ertificate"));
    let failure = Failure::from(error);
    if is_certificate {
        return failure.hint(
            "it is not the server that made the token, or its certificate was renewed since: make \
             another token",
        );
    }
    failure
}

/// Writes what the machine was given.
fn keep(new: &NewMember, answer: &JoinAnswer) -> Result<(), Failure> {
    let folder = new.data.join(Settings::default().cluster.certificates);
    let write = |path: PathBuf, text: &str| {
        write_durably(&path, text.as_bytes()).map_err(|error| Failure::path("write", &path, &error))
    };
    for (name, text) in &answer.files {
        let path = Path::new(name);
        let is_below =
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_below {
            return Err(Failure::refused(format!("the member sent a file with the name '{name}'")));
        }
        if let Some(parent) = path.parent() {
            let parent = new.data.join(parent);
            fs::create_dir_all(&parent).map_err(|error| Failure::path("make", &parent, &error))?;
        }
        write(new.data.join(path), text)?;
    }
    write(folder.join(cluster::transport::AUTHORITY_FILE), &answer.authority)?;
    write(folder.join(cluster::transport::AUTHORITY_KEY_FILE), &answer.authority_key)?;
    write(folder.join(cluster::transport::NODE_FILE), &answer.certificate)?;
    let own = NewMember { id: answer.member, ..new.clone() };
    // One of an earlier try, which may be that of another number.
    match fs::remove_file(new.data.join(Settings::DATA_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    if rejoining::take_over(&new.data)? {
        return settings_file::be_another_member(&new.data, &own);
    }
    write_settings(&own, "")
}

fn tell(options: &Join, answer: &JoinAnswer) -> Result<(), Failure> {
    let (member, data) = (answer.member, options.data.display());
    let part = match (answer.replaces, answer.is_for_voter) {
        (Some(old), _) => &*format!("which takes the place of member {old} in a moment"),
        (None, true) => {
            "a learner, which becomes a voter as soon as the number of voters stays odd"
        }
        (None, false) => "a learner",
    };
    output::line(format_args!("member {member}  {data}, {part}"))?;
    output::line(format_args!("\nStart it with:\n  roster serve --data {data}"))?;
    Ok(())
}

/// The entry with the tokens.
const TOKENS: &str = "cn=Join Tokens,cn=config";
/// What a token begins with.
const TOKEN_BEGIN: &str = "roster1.";
/// The longest token, in bytes.
const TOKEN_MAX_BYTES: usize = 4096;
/// The longest answer, in bytes: files of the schema are in it.
const ANSWER_MAX_BYTES: usize = 32 << 20;
/// How long an answer may take: the members are changed meanwhile.
const ANSWER_WAIT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_printed() {
        let token = TokenText {
            u: "ldap://192.0.2.1:389".to_owned(),
            c: "0".repeat(64),
            n: "1".repeat(32),
            s: "secret".to_owned(),
        };
        let text = token.encode();
        let read = TokenText::decode(&format!(" {text}\n")).unwrap();
        assert_eq!((read.u, read.c, read.n, read.s), (token.u, token.c, token.n, token.s));
        for wrong in ["", "roster1.", "roster1.?", "roster1.e30", &text[1..], &text[..50]] {
            assert!(TokenText::decode(wrong).is_err(), "{wrong}");
        }
        assert!(TokenText::decode(&format!("roster1.{}", "A".repeat(5000))).is_err());
    }
}
