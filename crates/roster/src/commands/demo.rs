//! `roster demo`: a directory full of made-up people, served at once.

use std::io::{self, BufRead, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use directory::GlobalAcis;
use environment::{Clock as _, SystemClock};
use indicatif::ProgressBar;
use ldap::dn::Dn;
use offline::Source;
use server::Addresses;

use super::init::{ADMINISTRATOR, generate_password, make};
use crate::cluster_setup::{self, NewMember};
use crate::diagnostics::start_log;
use crate::failure::{Exit, Failure};
use crate::interrupt::Ending;
use crate::keytab;
use crate::nodes::{self, Nodes};
use crate::output;
use crate::progress;
use crate::serving::{Listeners, start_following};
use crate::template::{Generator, PEOPLE, ParseOptions, ShippedWords, Template};
use crate::temporary::TemporaryFolder;

/// Fill a directory with generated people and serve it.
///
/// The people are below ou=people,dc=example,dc=com and are called user.1, user.2 and so on; the
/// password of each is 'password'. Anyone may read everything that is not secret, as after 'roster
/// init --public'. Ctrl-C stops the server and deletes the data, unless --data says where to keep
/// them.
///
/// With --nodes 3, or 5, it starts as many servers that are one cluster, a process each: end one
/// with kill -9, and the others go on.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// How many people
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    entries: u64,

    /// Keep the data here; the data of an earlier demo are served unchanged
    #[arg(short, long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// How many servers: 1, or 3 or 5 that are a cluster; each gets the next free ports
    #[arg(long, value_name = "N", value_parser = count)]
    nodes: Option<u64>,

    #[command(flatten)]
    listeners: Listeners,
}

const EXAMPLES: &str = "\
Examples:
  roster demo
  roster demo --entries 1000 --ldap 127.0.0.1:10389
  roster demo --data ./demo
  roster demo --nodes 3";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let earlier = options.data.as_deref().map(nodes::data_directories).unwrap_or_default();
    match (options.nodes, earlier.len() as u64) {
        (None | Some(1), 0) => run_alone(options),
        (Some(count), 0) => run_several(options, count),
        (None, count) => run_several(options, count),
        (Some(asked), count) if asked == count => run_several(options, count),
        (Some(_), count) => {
            Err(Failure::local(format!("an earlier demo left {count} nodes there"))
                .hint(format!("serve them with --nodes {count}, or choose another --data")))
        }
    }
}

/// How many servers there may be.
fn count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| NODES.contains(count));
    count.ok_or_else(|| "it is 1, 3 or 5".to_owned())
}

/// One server, in this process.
fn run_alone(options: &Options) -> Result<Exit, Failure> {
    // A demo says what is wrong, not what goes well, and asks for no more files than usual.
    let quiet =
        [("log.level", "warn".to_owned()), ("limits.connections_max", CONNECTIONS_MAX.to_string())];
    // Before there is anything that the program would leave behind when it begins once more.
    keytab::prepare(&options.listeners.settings(None, options.data.as_deref(), &quiet)?)?;
    let temporary = match &options.data {
        Some(_) => None,
        None => Some(TemporaryFolder::new("demo")?),
    };
    let data = options.data.as_deref().or(temporary.as_ref().map(TemporaryFolder::path));
    let data = data.unwrap_or(Path::new(""));
    let sources = options.listeners.sources(None, Some(data), &quiet, None)?;
    let log = start_log(&sources.load(&[])?.settings);
    let password = if has_data(data) {
        None
    } else {
        let password = generate_password()?;
        if let Err(failure) = fill(data, options.entries, &password) {
            // Nothing was here before: what is half made would pass for an earlier demo.
            let _ = std::fs::remove_dir_all(data);
            return Err(failure);
        }
        Some(password)
    };
    let again = options.listeners.read_again(None, Some(data), &quiet);
    let (server, _) = start_following(sources, again, &log)?;
    let addresses = server.addresses();
    let mut more = vec![("suffix", SUFFIX.to_owned()), ("admin_dn", ADMINISTRATOR.to_owned())];
    more.extend(password.clone().map(|password| ("admin_password", password)));
    // Before anything is printed: who reads the output finds the file there.
    options.listeners.ready(&addresses, &more)?;
    explain(&addresses, password.as_deref(), temporary.is_some())?;
    server.wait()?;
    Ok(Exit::Done)
}

/// Several servers that are a cluster, a process each.
fn run_several(options: &Options, count: u64) -> Result<Exit, Failure> {
    let asked = options.listeners.of_several()?;
    let temporary = match &options.data {
        Some(_) => None,
        None => Some(TemporaryFolder::new("demo")?),
    };
    let base = options.data.as_deref().or(temporary.as_ref().map(TemporaryFolder::path));
    // Whoever starts a node again may do so from elsewhere.
    let base = &std::path::absolute(base.unwrap_or(Path::new("")))
        .map_err(|error| Failure::path("find", base.unwrap_or(Path::new("")), &error))?;
    let ending = Ending::by_signals()?;
    ending.heed(true);
    let (mut nodes, password) = match nodes::data_directories(base).is_empty() {
        true => make_several(base, count, options.entries, asked, &ending)?,
        false => (Nodes::start(base, &ending)?, None),
    };
    tell_several(&nodes, options, password.as_deref(), temporary.is_some())?;
    nodes.watch(&ending)?;
    if !nodes.stop()
        && let Some(folder) = temporary
    {
        // Whoever has not ended uses the data still.
        folder.keep();
    }
    Ok(Exit::Done)
}

/// Makes a cluster: one server, which the others join; and the administrator's password.
fn make_several(
    base: &Path,
    count: u64,
    entries: u64,
    asked: [Option<SocketAddr>; 3],
    ending: &Ending,
) -> Result<(Nodes, Option<String>), Failure> {
    if has_data(base) {
        let what = format!("{} is not empty, and no demo with nodes left it", base.display());
        return Err(Failure::local(what).hint("choose a directory that does not exist yet"));
    }
    let members = nodes::plan(base, count, asked)?;
    let password = generate_password()?;
    let made = fill_and_join(base, &members, entries, &password, ending);
    if made.is_err() {
        // Nothing was here before: what is half made would pass for an earlier demo.
        let _ = std::fs::remove_dir_all(base);
    }
    Ok((made?, Some(password)))
}

fn fill_and_join(
    base: &Path,
    members: &[NewMember],
    entries: u64,
    password: &str,
    ending: &Ending,
) -> Result<Nodes, Failure> {
    let (first, others) = members.split_at(1);
    let data = nodes::data_directory(base, 1);
    fill(&data, entries, password)?;
    cluster_setup::make(&data, first, &|| ending.is_asked())?;
    let mut nodes = Nodes::start(base, ending)?;
    nodes.grow(others, ending)?;
    Ok(nodes)
}

/// Writes the ready file, and prints where the nodes are and what to try.
fn tell_several(
    nodes: &Nodes,
    options: &Options,
    password: Option<&str>,
    ends: bool,
) -> Result<(), Failure> {
    let Some((first, last)) = nodes.first().zip(nodes.last()) else { return Ok(()) };
    let (table, lines) = nodes.table();
    let mut ready = vec![("ldap", first.ldap().to_string())];
    ready.extend(lines);
    ready.extend([("suffix", SUFFIX.to_owned()), ("admin_dn", ADMINISTRATOR.to_owned())]);
    ready.extend(password.map(|password| ("admin_password", password.to_owned())));
    // Before anything is printed: who reads the output finds the file there.
    options.listeners.ready_with(&ready)?;
    output::line(format_args!("\n{}\n", table.to_string().trim_end()))?;
    output::line(format_args!("administrator  {ADMINISTRATOR}"))?;
    let shown = password.unwrap_or("as printed at the first start");
    output::line(format_args!("password       {shown}"))?;
    let password = password.unwrap_or("PASSWORD");
    let (one, two) = (first.ldap(), last.ldap());
    let (pid, data) = (first.pid(), output::in_shell(first.data()));
    let end =
        if ends { "Ctrl-C ends them all and deletes the data" } else { "Ctrl-C ends them all" };
    Ok(output::line(format_args!(
        "\nAny node takes any request. Try:\n  \
         ldapsearch -x -H ldap://{two} -b {SUFFIX} '(uid=user.42)'\n  \
         ldappasswd -x -H ldap://{two} -D '{ADMINISTRATOR}' -w {password} -s secret \
         uid=user.42,ou=people,{SUFFIX}\n\
         Watch:\n  \
         roster cluster status -H ldap://{one} -H ldap://{two} -w {password}\n  \
         roster top -H ldap://{two} -w {password}\n\
         End node 1 as a power cut would, and start it again:\n  \
         kill -9 {pid}\n  \
         roster serve --data {data}\n\n{end}."
    ))?)
}

/// Whether an earlier demo left its data here.
fn has_data(data: &Path) -> bool {
    std::fs::read_dir(data).is_ok_and(|mut files| files.next().is_some())
}

/// Makes the data directory and its people.
fn fill(data: &Path, entries: u64, password: &str) -> Result<(), Failure> {
    let clock = SystemClock::new();
    let begin = clock.elapsed();
    let suffix = Dn::parse(SUFFIX).map_err(Failure::local)?;
    make(data, &[suffix], password.as_bytes(), GlobalAcis::Public)?;
    let options = ParseOptions { entries: Some(entries), constants: Vec::new() };
    let template = Template::parse("people.template", PEOPLE, &ShippedWords, &options)?;
    let bar = progress::bar(Some(template.entries()), "entries");
    bar.set_message("filling");
    let interrupted = watch_interrupt()?;
    let people = GeneratedLdif::new(Arc::new(template), bar.clone(), Arc::clone(&interrupted));
    let loaded = super::import::load(data, Source::new("people.template", people));
    bar.finish_and_clear();
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::interrupted("interrupted; nothing is kept"));
    }
    loaded?;
    let seconds = (clock.elapsed() - begin).as_secs_f64();
    output::line(format_args!("{entries} people below {SUFFIX} in {seconds:.1} s"))?;
    Ok(())
}

/// A flag that Ctrl-C sets while the directory is filled; later the server listens for it.
fn watch_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::local)?;
    std::thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
    });
    Ok(interrupted)
}

/// Prints where the directory is and what to try.
fn explain(addresses: &Addresses, password: Option<&str>, ends: bool) -> Result<(), Failure> {
    output::line(format_args!(""))?;
    for address in &addresses.ldap {
        output::line(format_args!("LDAP           ldap://{address}"))?;
    }
    for address in &addresses.ldaps {
        output::line(format_args!("LDAPS          ldaps://{address} (self-signed certificate)"))?;
    }
    if let Some(path) = &addresses.ldapi {
        let path = path.display().to_string().replace('/', "%2F");
        output::line(format_args!("Unix socket    ldapi://{path}"))?;
    }
    output::line(format_args!("administrator  {ADMINISTRATOR}"))?;
    match password {
        Some(password) => output::line(format_args!("password       {password}"))?,
        None => output::line(format_args!("password       as printed at the first start"))?,
    }
    output::line(format_args!("reading        anyone, without signing in (--public)"))?;
    if let Some(address) = addresses.ldap.first() {
        let shell = |text: &str| text.replace('\'', "'\\''");
        let password = shell(password.unwrap_or("PASSWORD"));
        let with = format!("-x -H ldap://{address}");
        output::line(format_args!(
            "\nTry:\n  \
             ldapsearch {with} -b {SUFFIX} '(uid=user.42)'\n  \
             ldapsearch {with} -b {SUFFIX} '(&(l=North*)(title=*Engineer))' cn mail title\n  \
             ldapwhoami {with} -D uid=user.42,ou=people,{SUFFIX} -w password\n  \
             ldapsearch {with} -b {SUFFIX} -D '{ADMINISTRATOR}' -w {password} \
             '(uid=user.7)' '*' '+'\n  \
             roster explain -H ldap://{address} -w {password} -b {SUFFIX} \
             '(&(l=North*)(title=*Engineer))'"
        ))?;
    }
    let end = if ends { "Ctrl-C ends it and deletes the data" } else { "Ctrl-C ends it" };
    output::line(format_args!("\n{end}."))?;
    Ok(())
}

/// The entries of a template, read as LDIF while they are made.
struct GeneratedLdif {
    template: Arc<Template>,
    generator: Generator,
    next: u64,
    buffer: Vec<u8>,
    used: usize,
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
}

impl GeneratedLdif {
    fn new(template: Arc<Template>, bar: ProgressBar, interrupted: Arc<AtomicBool>) -> Self {
        let generator = template.generator(SEED);
        Self { template, generator, next: 0, buffer: Vec::new(), used: 0, bar, interrupted }
    }
}

impl BufRead for GeneratedLdif {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used >= self.buffer.len() {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            self.used = 0;
            self.buffer.clear();
            while self.next < self.template.entries() && self.buffer.len() < CHUNK_BYTES {
                let entry = self.generator.generate(self.next).map_err(io::Error::other)?;
                entry.write_ldif(&mut self.buffer);
                self.next += 1;
            }
            self.bar.set_position(self.next);
        }
        Ok(self.buffer.get(self.used..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.used += amount;
    }
}

impl Read for GeneratedLdif {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

/// How many servers a demo may have.
const NODES: [u64; 3] = [1, 3, 5];
const SUFFIX: &str = "dc=example,dc=com";
/// The people of every demo are the same.
const SEED: u64 = 1;
/// Connections of a demo at the same time.
const CONNECTIONS_MAX: u32 = 10_000;
/// LDIF made at a time.
const CHUNK_BYTES: usize = 64 * 1024;
