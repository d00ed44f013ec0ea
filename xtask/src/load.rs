//! A load on a server: `roster bench` as a process, and the figures that it prints.
//!
//! Invariant: a run with a wrong answer gives no figures.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::servers::Server;

/// What `roster bench` is to do.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    server: &'a Server,
    /// Servers that are asked as well.
    others: Vec<(String, u32)>,
    words: Vec<String>,
    who: (&'a str, &'a str),
    seconds: u64,
    connections: u64,
}

/// A load under way.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    child: Child,
    server: &'a Server,
    what: String,
}

/// A load whose figures nobody wants; dropping it ends its process.
#[derive(Debug)]
pub(crate) struct Started(Child);

/// What came of a load: the record of `roster bench`.
#[derive(Clone, Debug)]
pub(crate) struct Figures(Value);

impl<'a> Load<'a> {
    /// The words are the job and what it takes; without more, the administrator asks.
    pub(crate) fn new(server: &'a Server, seconds: u64, words: &[impl AsRef<str>]) -> Self {
        let words = words.iter().map(|word| word.as_ref().to_owned()).collect();
        let (who, others) = ((server.dn, server.password), Vec::new());
        Self { server, others, words, who, seconds, connections: 50 }
    }

    /// Another one asks.
    pub(crate) fn by(self, who: (&'a str, &'a str)) -> Self {
        Self { who, ..self }
    }

    /// These are asked as well, each by a share of the connections.
    pub(crate) fn beside(self, others: &[Server]) -> Self {
        let both = |one: &Server| (format!("ldap://{}", one.address), one.id());
        let others = others.iter().map(both).collect();
        Self { others, ..self }
    }

    pub(crate) fn connections(self, connections: u64) -> Self {
        Self { connections, ..self }
    }

    /// Starts it, with a command before it such as `nice` or `taskset`.
    pub(crate) fn start(self, program: &Path, with: &[String]) -> Result<Running<'a>, String> {
        let what = self.words.first().cloned().unwrap_or_default();
        let mut command = with.iter().cloned().chain([program.display().to_string()]);
        let mut load = Command::new(command.next().unwrap_or_default());
        load.args(command).arg("bench").args(&self.words);
        let own = (format!("ldap://{}", self.server.address), self.server.id());
        let (urls, ids): (Vec<_>, Vec<_>) = [own].into_iter().chain(self.others).unzip();
        load.args(["--json", "-H", &urls.join(",")]);
        load.args(["-D", self.who.0, "-w", self.who.1, "-t", &self.seconds.to_string()]);
        load.args(["-c", &self.connections.to_string()]);
        for id in ids {
            load.args(["--server-pid", &id.to_string()]);
        }
        load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = load.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Running { child, server: self.server, what })
    }

    /// Runs it to its end.
    pub(crate) fn run(self, program: &Path, with: &[String]) -> Result<Figures, String> {
        self.start(program, with)?.end()
    }
}

impl Running<'_> {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Leaves it to itself: its server may end before it.
    pub(crate) fn alone(self) -> Started {
        Started(self.child)
    }

    /// Waits for its end.
    pub(crate) fn end(self) -> Result<Figures, String> {
        let (what, name) = (&self.what, self.server.name);
        let output = self.child.wait_with_output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        if !output.status.success() {
            let why = stderr.lines().last().unwrap_or(&stdout);
            return Err(format!("{what} on {name}: {why}\n{}", self.server.log_tail()));
        }
        Figures::parse(&stdout).map_err(|error| format!("{what} on {name}: {error}: {stdout}"))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Figures {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map(Self).map_err(|error| error.to_string())
    }

    pub(crate) fn number(&self, pointer: &str) -> Result<f64, String> {
        let found = self.0.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| format!("roster bench gives no {pointer}: {}", self.0))
    }

    /// CPU of the server for one operation.
    pub(crate) fn cpu_us(&self) -> Result<f64, String> {
        self.number("/cost/server/cpu_us_per_operation")
    }

    /// Of all streams together; of a cycle's operations it is the cycles that count.
    pub(crate) fn per_s(&self) -> f64 {
        let is_cycle = |stream: &&Value| stream.get("name").is_some_and(|name| name == "cycle");
        match self.streams().iter().find(is_cycle) {
            Some(cycle) => number_of(cycle, "operations_per_s"),
            None => self.sum("operations_per_s"),
        }
    }

    /// Requests made in all, the warm-up included.
    pub(crate) fn made(&self) -> u64 {
        self.sum("made") as u64
    }

    /// Percentiles of a stream, such as `p99_9`, in µs.
    pub(crate) fn latencies_us<const N: usize>(
        &self,
        stream: usize,
        names: [&str; N],
    ) -> Result<[f64; N], String> {
        let mut latencies = [0.0; N];
        for (latency, name) in latencies.iter_mut().zip(names) {
            *latency = self.number(&format!("/streams/{stream}/latency/{name}"))?;
        }
        Ok(latencies)
    }

    pub(crate) fn has_stream(&self, stream: usize) -> bool {
        stream < self.streams().len()
    }

    fn streams(&self) -> &[Value] {
        let streams = self.0.get("streams").and_then(Value::as_array);
        streams.map(Vec::as_slice).unwrap_or_default()
    }

    fn sum(&self, name: &str) -> f64 {
        self.streams().iter().map(|stream| number_of(stream, name)).sum()
    }
}

fn number_of(stream: &Value, name: &str) -> f64 {
    stream.get(name).and_then(Value::as_f64).unwrap_or_default()
}

/// The names of people with these numbers, as `roster bench` makes them: `1-100000`.
pub(crate) fn people(numbers: &str) -> String {
    format!("uid=user.[{numbers}],ou=people,{}", testing::crash::server::SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_counts_once() {
        let figures = |text: &str| Figures::parse(text).unwrap();
        let two = figures(
            r#"{"streams": [{"name": "search", "operations_per_s": 7.0, "made": 3},
            {"name": "bind", "operations_per_s": 5.0, "made": 4}],
            "cost": {"server": {"cpu_us_per_operation": 25.0}}}"#,
        );
        assert_eq!((two.per_s(), two.made(), two.cpu_us()), (12.0, 7, Ok(25.0)));
        assert!(two.latencies_us(0, ["p50"]).is_err());
        let cycle = figures(
            r#"{"streams": [{"operations_per_s": 7.0}, {"name": "cycle",
            "operations_per_s": 6.0, "latency": {"p50": 3.0}}]}"#,
        );
        assert_eq!((cycle.per_s(), cycle.latencies_us(1, ["p50"])), (6.0, Ok([3.0])));
    }
}
