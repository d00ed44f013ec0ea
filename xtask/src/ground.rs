//! What measurements have in common: their options, the program, a folder, the people, and what is
//! told of the machine.
//!
//! Invariant: what is measured runs on loopback and ends with the run; a folder that was not asked
//! for is removed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testing::crash::server::{now, scratch};

use crate::Error;
use crate::load::{Figures, Load};
use crate::options::Value;
use crate::servers::guard::Guard;
use crate::shell::{command, output, root, roster};

/// How many people have their passwords in one scheme, where there are several.
pub(crate) const OF_SCHEME: u64 = 1_000;

/// What every measurement can be told.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) entries: u64,
    /// Length of a load, and turns; 0 where the verb has no such option.
    pub(crate) seconds: u64,
    pub(crate) turns: u64,
    /// Another build of the server and of the load generator than the present one.
    roster: Option<PathBuf>,
    /// It is left as it is, and what is in it is used.
    pub(crate) folder: Option<PathBuf>,
    /// A command that each load is run with, such as `nice`.
    pub(crate) with: Vec<String>,
}

/// A measurement under way.
#[derive(Clone, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Setup {
    /// Unless the command line says otherwise.
    pub(crate) fn new(entries: u64, seconds: u64, turns: u64) -> Self {
        Self { entries, seconds, turns, roster: None, folder: None, with: Vec::new() }
    }

    /// The same with loads of another length.
    pub(crate) fn lasting(&self, seconds: u64) -> Self {
        Self { seconds, ..self.clone() }
    }

    /// Takes an option, if it is one of these.
    pub(crate) fn take(&mut self, name: &str, value: &mut Value<'_>) -> Result<bool, Error> {
        match name {
            "--entries" => self.entries = value.number()?,
            "--seconds" if self.seconds > 0 => self.seconds = value.number()?,
            "--turns" if self.turns > 0 => self.turns = value.number()?,
            "--roster" => self.roster = Some(value.path()?),
            "--folder" => self.folder = Some(value.path()?),
            "--with" => self.with = value.words()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Builds what is to be measured, does the work, prints what came of it and how long it took.
    pub(crate) fn measure(
        &self,
        verb: &str,
        work: impl FnOnce(&Ground<'_>) -> Result<String, String>,
    ) -> Result<String, Error> {
        let program = self.roster.clone().map_or_else(roster, Ok)?;
        let begin = now();
        let folder = self.folder.clone().unwrap_or_else(|| scratch(verb));
        let guard = self.folder.is_none().then(|| Guard::folder(&folder));
        let made = std::fs::create_dir_all(&folder);
        let made = made.map_err(|error| format!("{}: {error}", folder.display()));
        let ground = Ground { setup: self, program, folder };
        let result = made.and_then(|()| work(&ground));
        if self.folder.is_none() {
            let _ = std::fs::remove_dir_all(&ground.folder);
        }
        drop(guard);
        let text = result.map_err(Error::Wrong)?;
        println!("\n{text}\nxtask: {verb}: {} s", begin.elapsed().as_secs());
        Ok(text)
    }
}

impl Ground<'_> {
    /// Runs a load to its end.
    pub(crate) fn run(&self, load: Load<'_>) -> Result<Figures, String> {
        load.run(&self.program, &self.setup.with)
    }

    /// The LDIF file of so many people as are asked for, whose passwords are as the template has
    /// them, or hashed: a thousand in each scheme, the rest in the first. A scheme may name the
    /// module of slapd that knows it: `{SSHA512} pw-sha2`.
    pub(crate) fn people(&self, schemes: &[&str]) -> Result<PathBuf, String> {
        let entries = self.setup.entries;
        let file = self.folder.join(format!("people-{entries}-{}.ldif", schemes.len()));
        if file.exists() {
            return Ok(file);
        }
        let begin = now();
        // Under another name first: what an interrupted run left is not the whole.
        let half = self.folder.join("people.new");
        let mut generate = Command::new(&self.program);
        generate.arg("generate").arg(root().join("examples/people.template"));
        generate.args(["--entries", &entries.to_string(), "-o"]).arg(&half);
        match generate.status() {
            Ok(status) if status.success() => {}
            other => return Err(format!("roster generate: {other:?}")),
        }
        note(&format!("made the people in {:.1} s", begin.elapsed().as_secs_f64()));
        if !schemes.is_empty() {
            let hashes: Result<Vec<_>, _> = schemes.iter().map(|scheme| hash(scheme)).collect();
            put_passwords(&half, &hashes?)?;
        }
        std::fs::rename(&half, &file).map_err(|error| error.to_string())?;
        Ok(file)
    }
}

/// "password" as slapd's own program hashes it.
fn hash(scheme: &str) -> Result<String, String> {
    let (scheme, module) = scheme.split_once(' ').unwrap_or((scheme, ""));
    let mut command = Command::new("slappasswd");
    if !module.is_empty() {
        command.args(["-o", &format!("module-load={module}")]);
    }
    let output = command.args(["-n", "-h", scheme, "-s", "password"]).output();
    let output = output.map_err(|error| format!("slappasswd: {error} (Debian package slapd)"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("slappasswd: {why}(Debian package slapd-contrib)"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn put_passwords(people: &Path, hashes: &[String]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", people.display());
    let first = hashes.first().ok_or("there are schemes")?;
    let mut text = String::new();
    let mut number = 0;
    for line in std::fs::read_to_string(people).map_err(failed)?.lines() {
        if line.starts_with("userPassword:") {
            let hash = hashes.get(number / OF_SCHEME as usize).unwrap_or(first);
            let _ = writeln!(text, "userPassword: {hash}");
            number += 1;
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    std::fs::write(people, text).map_err(failed)
}

/// The day, and what it was measured on.
pub(crate) fn machine() -> String {
    let day = output(command("date", &["-u", "+%F"])).unwrap_or_default();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models = || info.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = models().next().unwrap_or_default().trim_start_matches(['\t', ' ', ':']);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, {} cores of {model}, Linux {}", day.trim(), models().count(), kernel.trim())
}

/// What else the machine does.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average: {}", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

pub(crate) fn note(text: &str) {
    println!("xtask: {text}");
}
