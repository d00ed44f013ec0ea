//! `cargo xtask gauge`: the instructions of each operation, compared with those committed before.
//!
//! `crates/directory/examples/gauge.rs` does the operations; valgrind counts. What else the machine
//! does makes no difference, and every machine with the same kind of processor, compiler and C
//! library counts the same, but for what threads wait for each other in writes (below 1 %).
//!
//! Invariant: an operation that takes more than [`ALLOWED_PERCENT`] more instructions than before
//! fails, with the functions that grew; `--write` makes the present counts the baseline.

mod counts;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use testing::crash::server::scratch;

use self::counts::{Baseline, Counts, Operation};
use crate::shell::{cargo, command, output, root, step, succeeds, target};
use crate::test::{Package, install_missing};
use crate::{Error, shell};

/// How much worse an operation may be.
const ALLOWED_PERCENT: f64 = 3.0;
/// Functions that are named when an operation grew.
const NAMED: usize = 8;
/// What would fail is counted so often at the most, and what is to be the baseline just so often;
/// the least is taken. A flush that falls into the counted time, as it does on a busy machine, and
/// threads that wait for each other only add to what an operation takes.
const TURNS: usize = 5;
const BASELINE: &str = "xtask/gauge-baseline.txt";
/// The function whose instructions count.
const MEASURED: &str = "gauge::measured";
/// Our own crates: optimised, each as one unit, so that what is inlined does not depend on how the
/// compiler cut it.
const CRATES: [&str; 9] =
    ["ldap", "environment", "schema", "aci", "auth", "store", "journal", "history", "directory"];

const VALGRIND: &[Package] =
    &[Package { name: "valgrind", is_present: || succeeds(command("valgrind", &["--version"])) }];

/// Counts, and compares or writes.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let write = match arguments {
        [] => false,
        [word] if word == "--write" => true,
        [other, ..] => return Err(Error::usage(format!("unexpected argument: {other}"))),
    };
    install_missing(VALGRIND)?;
    let path = root().join(BASELINE);
    let baseline = match write {
        true => Baseline::default(),
        false => read(&path)?,
    };
    step("the gauge's program", build())?;
    let program = target().join("debug/examples/gauge");
    let mut counted = Counts::default();
    shell::timed("the regression gauge", || {
        let folder = scratch("gauge");
        let result = count(&program, &folder, &baseline);
        let _ = std::fs::remove_dir_all(&folder);
        counted = result.map_err(Error::Wrong)?;
        Ok(())
    })?;
    if !write {
        return judge(&baseline, &counted);
    }
    let failed = |error: std::io::Error| Error::Wrong(format!("{BASELINE}: {error}"));
    std::fs::write(&path, counted.baseline(&tools())).map_err(failed)?;
    println!("xtask: {BASELINE} is written");
    Ok(())
}

fn read(path: &Path) -> Result<Baseline, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{BASELINE}: {error}"));
    text.and_then(|text| Baseline::parse(&text)).map_err(Error::Wrong)
}

/// By how much an operation takes more than before.
fn percent(operation: &Operation, before: &Operation) -> f64 {
    (operation.total / before.total - 1.0) * 100.0
}

fn judge(baseline: &Baseline, counted: &Counts) -> Result<(), Error> {
    let mut worse = Vec::new();
    println!("xtask: instructions of one operation");
    for operation in &counted.operations {
        let Some(before) = baseline.counts.operation(&operation.name) else {
            worse.push(format!("{} is not in the baseline", operation.name));
            continue;
        };
        let percent = percent(operation, before);
        let line = format!("{:<8} {:>9.0} {percent:+6.1} %", operation.name, operation.total);
        println!("  {line}");
        if percent > ALLOWED_PERCENT {
            let mut told = line;
            for (name, before, now) in operation.grown(before).into_iter().take(NAMED) {
                let more = now - before;
                let _ = write!(told, "\n    {more:+9.0}, from {before:.0} to {now:.0}: {name}");
            }
            worse.push(told);
        } else if percent < -ALLOWED_PERCENT {
            println!("  {}: better; 'cargo xtask gauge --write' keeps it so", operation.name);
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    let mut reason = format!("more instructions than {ALLOWED_PERCENT} % above the baseline:\n  ");
    reason.push_str(&worse.join("\n  "));
    if baseline.tools != tools() {
        let (then, now) = (&baseline.tools, tools());
        let _ = write!(reason, "\n  the baseline was counted with {then}; here is {now}");
    }
    reason.push_str("\n  where it is meant: 'cargo xtask gauge --write', and the commit says why");
    Err(Error::Wrong(reason))
}

/// The program that is counted.
fn build() -> Command {
    let mut build = cargo(&["build", "--quiet", "--package", "directory", "--example", "gauge"]);
    for name in CRATES {
        for setting in ["opt-level=2", "codegen-units=1"] {
            build.arg("--config").arg(format!("profile.dev.package.{name}.{setting}"));
        }
    }
    build.env("CARGO_INCREMENTAL", "0");
    build
}

fn count(program: &Path, folder: &Path, baseline: &Baseline) -> Result<Counts, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let made = folder.join("made");
    let mut make = Command::new(program);
    make.arg("--make").arg(&made);
    let kinds = output(make).ok_or("the gauge's program cannot make its data")?;
    let least = |line: &str| least(program, &made, line, folder, baseline);
    // What else the machine does makes no difference: so they run beside each other.
    let (next, counted) = (Mutex::new(kinds.lines().enumerate()), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((number, line)) = locked(&next).next() else { break };
                    let counts = least(line);
                    locked(&counted).insert(number, counts);
                }
            });
        }
    });
    let counted = counted.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Counts { operations: counted.into_values().collect::<Result<_, _>>()? })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The least that one kind of operation took, which `line` names with how many there are.
fn least(
    program: &Path,
    made: &Path,
    line: &str,
    folder: &Path,
    baseline: &Baseline,
) -> Result<Operation, String> {
    let (name, operations) = line.split_once(' ').ok_or("it prints a name and a number")?;
    let operations = operations.parse().map_err(|_| format!("no number: {line}"))?;
    let file = folder.join(name);
    let before = baseline.counts.operation(name);
    let is_fine =
        |now: &Operation| before.is_some_and(|before| percent(now, before) <= ALLOWED_PERCENT);
    let mut least = one(program, made, name, operations, &file)?;
    for _ in 1..TURNS {
        if is_fine(&least) {
            break;
        }
        let next = one(program, made, name, operations, &file)?;
        if next.total < least.total {
            least = next;
        }
    }
    Ok(least)
}

/// Counts one kind of operation.
fn one(
    program: &Path,
    made: &Path,
    name: &str,
    operations: u32,
    file: &Path,
) -> Result<Operation, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-line=no"])
        .arg(format!("--zero-before={MEASURED}"))
        .arg(format!("--dump-after={MEASURED}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .arg(made)
        .arg(name)
        // Variables lie on the stack, and where it begins is no part of an operation.
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    // The first part is what the function's return wrote.
    let mut part = file.as_os_str().to_owned();
    part.push(".1");
    let text = std::fs::read(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    Operation::read(name, operations, &String::from_utf8_lossy(&text))
}

/// What the counts depend on beside the source.
fn tools() -> String {
    let first = |text: Option<String>| {
        let text = text.unwrap_or_default();
        text.lines().next().unwrap_or("?").to_owned()
    };
    let rustc = first(output(command("rustc", &["--version"])));
    let valgrind = first(output(command("valgrind", &["--version"])));
    let library = first(output(command("getconf", &["GNU_LIBC_VERSION"])));
    format!("{rustc}, {valgrind}, {library}")
}
