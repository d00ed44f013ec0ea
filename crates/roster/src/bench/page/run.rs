//! Runs that are shown beside each other.

use crate::bench::record::{BenchRecord, Stream};

/// Runs of the same job, to be compared with each other.
pub(super) struct Group<'r> {
    pub(super) name: &'r str,
    pub(super) runs: Vec<Run<'r>>,
    /// The same job against a server that does nothing but answer.
    pub(super) floor: Option<&'r BenchRecord>,
}

/// A run and how it is shown.
pub(super) struct Run<'r> {
    pub(super) record: &'r BenchRecord,
    /// What the server is called; no two runs of a group have the same.
    pub(super) label: String,
    /// Which colour and dashes; the same for all runs of a server.
    pub(super) series: usize,
}

impl Run<'_> {
    /// The operations that count.
    pub(super) fn units(&self) -> impl Iterator<Item = &Stream> {
        self.record.streams.iter().filter(|stream| self.record.is_counted(stream))
    }

    /// The operations of this name.
    pub(super) fn stream(&self, name: &str) -> Option<&Stream> {
        self.record.streams.iter().find(|stream| stream.name == name)
    }

    pub(super) fn operations_per_s(&self) -> f64 {
        self.units().map(|stream| stream.operations_per_s).sum()
    }

    /// Server CPU time per operation, in µs.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        let spent = self.record.cost.server.as_ref()?;
        Some(spent.cpu_us_per_operation).filter(|us| *us > 0.0)
    }
}

impl<'r> Group<'r> {
    /// The run that ratios are to: the first.
    pub(super) fn first(&self) -> Option<&Run<'r>> {
        self.runs.first()
    }

    /// The heads of a table with a column for each run, and one for what its rows are called.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        std::iter::once("").chain(self.runs.iter().map(|run| run.label.as_str()))
    }

    /// Names of streams, in the order of their first appearance.
    pub(super) fn streams(&self) -> Vec<&'r str> {
        let mut names: Vec<&str> = Vec::new();
        for stream in self.runs.iter().flat_map(|run| &run.record.streams) {
            if !names.contains(&stream.name.as_str()) {
                names.push(&stream.name);
            }
        }
        names
    }
}
