//! `roster demo`: a directory full of made-up people, served at once.

use std::io::{self, BufRead, Read};
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
use crate::diagnostics::start_log;
use crate::failure::{Exit, Failure};
use crate::keytab;
use crate::output;
use crate::progress;
use crate::serving::{Listeners, start};
use crate::template::{Generator, PEOPLE, ParseOptions, ShippedWords, Template};
use crate::temporary::TemporaryFolder;

/// Fill a directory with generated people and serve it.
///
/// The people are below ou=people,dc=example,dc=com and are called user.1, user.2 and so on; the
/// password of each is 'password'. Anyone may read everything that is not secret, as after 'roster
/// init --public'. Ctrl-C stops the server and deletes the data, unless --data says where to keep
/// them.
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

    #[command(flatten)]
    listeners: Listeners,
}

const EXAMPLES: &str = "\
Examples:
  roster demo
  roster demo --entries 1000 --ldap 127.0.0.1:10389
  roster demo --data ./demo";

/// Runs the subcommand.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
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
    let settings = options.listeners.settings(None, Some(data), &quiet)?;
    let _log = start_log(&settings);
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
    let (server, _) = start(&settings)?;
    let addresses = server.addresses().clone();
    let mut more = vec![("suffix", SUFFIX.to_owned()), ("admin_dn", ADMINISTRATOR.to_owned())];
    more.extend(password.clone().map(|password| ("admin_password", password)));
    // Before anything is printed: who reads the output finds the file there.
    options.listeners.ready(&addresses, &more)?;
    explain(&addresses, password.as_deref(), temporary.is_some())?;
    server.wait()?;
    Ok(Exit::Done)
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

const SUFFIX: &str = "dc=example,dc=com";
/// The people of every demo are the same.
const SEED: u64 = 1;
/// Connections of a demo at the same time.
const CONNECTIONS_MAX: u32 = 10_000;
/// LDIF made at a time.
const CHUNK_BYTES: usize = 64 * 1024;
