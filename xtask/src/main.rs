//! The project's own commands, `cargo xtask VERB`; each verb is one file.
//!
//! Exit codes: 0 done, 1 something the command checks is wrong, 2 wrong use or a tool is missing.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]

mod attack;
mod bench;
mod bench_access;
mod bench_cluster;
mod bench_import;
mod bench_stopping;
mod bench_writes;
mod check;
mod ci;
mod cluster;
mod conform;
mod crash;
mod figures;
mod fuzz;
mod gauge;
mod gauges;
mod ground;
mod kerberos;
mod latency;
mod libraries;
mod lines;
mod load;
mod options;
mod release_before;
mod scaling;
mod servers;
mod shell;
mod simulate;
mod test;
mod threads;
mod tidy;

use std::process::ExitCode;

use self::options::none as no_arguments;

/// A verb: its name, what it takes, what it does, and the function.
struct Verb {
    name: &'static str,
    arguments: &'static str,
    purpose: &'static str,
    run: fn(&[String]) -> Result<(), Error>,
}

/// Why a verb ends early.
#[derive(Debug)]
enum Error {
    /// What was checked is wrong; it has been printed.
    Wrong(String),
    /// The command was used wrongly, or cannot work here; with a hint what to do.
    Unable { reason: String, hint: String },
}

impl Error {
    fn usage(reason: impl Into<String>) -> Self {
        Self::Unable { reason: reason.into(), hint: "see 'cargo xtask help'".to_owned() }
    }
}

const VERBS: &[Verb] = &[
    Verb {
        name: "attack",
        arguments: "[--short]",
        purpose: "every promise of docs/security.md, and the tests that try to break it",
        run: attack::run,
    },
    Verb {
        name: "bench",
        arguments: "[--quick] [--entries N] [--servers LIST] [--only NAME]",
        purpose: "roster, slapd, 389 DS and OpenDJ in turns",
        run: bench::run,
    },
    Verb {
        name: "bench-import",
        arguments: "[--entries N] [--compress] [--slapd] [--folder F]",
        purpose: "what loading costs and takes, plain, compressed and slapadd",
        run: bench_import::run,
    },
    Verb {
        name: "bench-access",
        arguments: "[--entries N] [--turns N] [--seconds N] [--rows NAME] [--no-slapd]",
        purpose: "what access control, logs and password schemes cost, roster and slapd",
        run: bench_access::run,
    },
    Verb {
        name: "bench-cluster",
        arguments: "[--quick] [--only PART] [--nodes LIST] [--connections LIST]",
        purpose: "several nodes with one log: writes, reads, lag, and other servers' replicas",
        run: bench_cluster::run,
    },
    Verb {
        name: "bench-stopping",
        arguments: "[--entries N] [--tries N]",
        purpose: "how soon searches end that nobody waits for",
        run: bench_stopping::run,
    },
    Verb {
        name: "bench-writes",
        arguments: "[--entries N] [--soak 10m]",
        purpose: "searches beside writes, recovery, memory over time",
        run: bench_writes::run,
    },
    Verb {
        name: "check",
        arguments: "",
        purpose: "what is to be seen before a change is handed in, besides the tests",
        run: check::run,
    },
    Verb { name: "ci", arguments: "", purpose: "all that CI checks", run: ci::run },
    Verb {
        name: "circles",
        arguments: "[CRATE] [--edges FILE FILE]",
        purpose: "files of a crate that name each other, and what would part them",
        run: tidy::circles::run,
    },
    Verb {
        name: "cluster",
        arguments: "[--nodes N] \
                    [--faults kill,pause,partition,disk,clock,flip,power,eio,members,upgrade] \
                    [--rounds N] [--minutes N] [--verify] [--before [PROGRAM]] [--seed S] \
                    [--only TEXT] [--plant FAULT] [--release]",
        purpose: "have nodes, network, disks and clocks fail, see that all nodes hold the same",
        run: cluster::run,
    },
    Verb {
        name: "conform",
        arguments: "[--peer openldap] [SCRIPT...]",
        purpose: "the dialogue scripts against another server",
        run: conform::run,
    },
    Verb {
        name: "crash",
        arguments: "[--rounds N] [--seed S] [--fault KIND]",
        purpose: "kill a server under load, see that nothing acknowledged is lost",
        run: crash::run,
    },
    Verb {
        name: "fuzz",
        arguments: "NAME [--seconds N]",
        purpose: "search for inputs that break a parser",
        run: fuzz::run,
    },
    Verb {
        name: "gauge",
        arguments: "[--write]",
        purpose: "instructions of each operation against the baseline",
        run: gauge::run,
    },
    Verb { name: "gauges", arguments: "", purpose: "measures of the source", run: gauges::run },
    Verb {
        name: "kerberos",
        arguments: "",
        purpose: "roster with GSSAPI, and its test with a realm of its own",
        run: kerberos::run,
    },
    Verb {
        name: "latency",
        arguments: "[--shares 70,50,30] [--connections 50,8] [--apart]",
        purpose: "how late answers are below the capacity, and whose fault it is",
        run: latency::run,
    },
    Verb {
        name: "lines",
        arguments: "[FOLDER]",
        purpose: "lines of source without tests, crate by crate",
        run: lines::run,
    },
    Verb {
        name: "release-before",
        arguments: "",
        purpose: "build the server of the release before, from which upgrades are tried",
        run: release_before::run,
    },
    Verb {
        name: "scaling",
        arguments: "[--turns N]",
        purpose: "what a second worker costs, and what follows for more",
        run: scaling::run,
    },
    Verb {
        name: "simulate",
        arguments: "[--nodes N] [--changes] [--copies] [--seeds A..B] [--seed N --trace]",
        purpose: "clusters in one thread, with faults by chance, for many seeds",
        run: simulate::run,
    },
    Verb {
        name: "test",
        arguments: "",
        purpose: "install the test clients that are missing, run every test",
        run: test::run,
    },
    Verb { name: "tidy", arguments: "", purpose: "the rules clippy cannot hold", run: tidy::run },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        help();
        let asked = matches!(name.as_str(), "help" | "--help" | "-h");
        return ExitCode::from(if asked { 0 } else { 2 });
    };
    match (verb.run)(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Wrong(reason)) => {
            eprintln!("xtask: error: {reason}");
            ExitCode::FAILURE
        }
        Err(Error::Unable { reason, hint }) => {
            eprintln!("xtask: error: {reason}\nxtask: hint: {hint}");
            ExitCode::from(2)
        }
    }
}

fn help() {
    println!("usage: cargo xtask VERB");
    for verb in VERBS {
        println!("  {:<42} {}", format!("{} {}", verb.name, verb.arguments), verb.purpose);
    }
}
