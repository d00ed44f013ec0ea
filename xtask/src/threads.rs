//! What the threads of a process have spent, by their names; and on which core they are.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// CPU of threads at one moment, in µs, by process and thread.
#[derive(Debug)]
pub(crate) struct Snapshot(BTreeMap<(u32, u32), (String, f64)>);

/// CPU between two moments, in µs, by the threads' names without their numbers.
#[derive(Debug, PartialEq)]
pub(crate) struct Spent(pub(crate) BTreeMap<String, f64>);

impl Spent {
    /// Of all threads together.
    pub(crate) fn all_us(&self) -> f64 {
        self.0.values().sum()
    }
}

impl Snapshot {
    pub(crate) fn of(processes: &[u32]) -> Self {
        let mut threads = BTreeMap::new();
        for process in processes {
            for (thread, name) in list(*process) {
                let path = format!("/proc/{process}/task/{thread}/schedstat");
                let text = fs::read_to_string(path).unwrap_or_default();
                let spent_ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
                let us = spent_ns.unwrap_or_default() / 1000.0;
                threads.insert((*process, thread), (name, us));
            }
        }
        Self(threads)
    }

    pub(crate) fn since(&self, before: &Self) -> Spent {
        let mut spent: BTreeMap<String, f64> = BTreeMap::new();
        for (key, (name, us)) in &self.0 {
            let then = before.0.get(key).map_or(0.0, |(_, us)| *us);
            let name = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '-');
            *spent.entry(name.to_owned()).or_default() += us - then;
        }
        Spent(spent)
    }
}

impl Snapshot {
    /// What the thread has spent since that spent most, in µs, of those that are none of several
    /// with one task: these have a number.
    pub(crate) fn most_of_one_us(&self, before: &Self) -> f64 {
        let ones =
            self.0.iter().filter(|(_, (name, _))| !name.ends_with(|c: char| c.is_ascii_digit()));
        let spent = ones.map(|(key, (_, us))| us - before.0.get(key).map_or(0.0, |(_, us)| *us));
        spent.fold(0.0, f64::max)
    }
}

/// The threads of a process with this name.
pub(crate) fn named(process: u32, name: &str) -> Vec<u32> {
    let threads = list(process).into_iter().filter(|(_, one)| one == name);
    threads.map(|(thread, _)| thread).collect()
}

/// The threads of a process, the first one first, and their names.
pub(crate) fn list(process: u32) -> Vec<(u32, String)> {
    let folder = fs::read_dir(format!("/proc/{process}/task"));
    let mut threads = Vec::new();
    for entry in folder.into_iter().flatten().flatten() {
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
        threads.extend(number.map(|number| (number, name.trim().to_owned())));
    }
    threads
}

/// Keeps a thread, or a process with all its threads, on a core.
pub(crate) fn keep_on(id: u32, core: &str, with_all: bool) -> Result<(), String> {
    let mut taskset = Command::new("taskset");
    if with_all {
        taskset.arg("-a");
    }
    let output = taskset.args(["-p", "-c", core, &id.to_string()]).output();
    let output = output.map_err(|error| format!("taskset: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("taskset: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_summed_by_their_names() {
        let at = |first: f64, second: f64| {
            Snapshot(BTreeMap::from([
                ((1, 1), ("worker-0".to_owned(), first)),
                ((1, 2), ("worker-1".to_owned(), second)),
            ]))
        };
        let spent = at(5.0, 9.0).since(&at(1.0, 2.0));
        assert_eq!(spent, Spent(BTreeMap::from([("worker".to_owned(), 11.0)])));
    }
}
