//! A command that runs to its end and is looked at meanwhile.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testing::crash::server::{now, pause};

use crate::servers::disk_bytes;

/// How often memory is looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How many looks are between those at the disk.
const DISK_LOOKS: u64 = 10;
/// Ticks of a processor a second, as the system counts them everywhere.
const TICKS_PER_S: f64 = 100.0;

/// What a command took.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) seconds: f64,
    /// Of all its threads.
    pub(super) cpu_seconds: f64,
    /// The most memory that is not backed by files.
    pub(super) anonymous_bytes: u64,
    /// The most that the folder took on the disk.
    pub(super) disk_bytes: u64,
    output: String,
}

impl Ended {
    /// A number that the lines of JSON tell which it printed: the last one of this name.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let lines = self.output.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.filter_map(|value: Value| value.get(name).and_then(Value::as_u64)).next_back()
    }

    /// The phases in the lines of JSON that it printed, and the second each began to be told.
    pub(super) fn phases(&self) -> String {
        let mut phases: Vec<(String, f64)> = Vec::new();
        for line in self.output.lines().filter(|line| line.starts_with('{')) {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let name = value.get("phase").and_then(Value::as_str);
            let seconds = value.get("seconds").and_then(Value::as_f64);
            if let (Some(name), Some(seconds)) = (name, seconds)
                && phases.last().is_none_or(|(last, _)| last != name)
            {
                phases.push((name.to_owned(), seconds));
            }
        }
        let texts: Vec<String> =
            phases.iter().map(|(name, seconds)| format!("{name} from {seconds:.1} s")).collect();
        texts.join(", ")
    }
}

/// Runs a command whose files are in `folder`; failing is an error.
pub(super) fn watch(command: &mut Command, folder: &Path) -> Result<Ended, String> {
    let path = folder.join("output");
    let file = || File::create(&path).map_err(|error| format!("{}: {error}", path.display()));
    let out = file()?;
    let err = out.try_clone().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let begin = now();
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut ended = Ended::default();
    let mut looks = 0;
    while !look(&child, &mut ended) {
        if u64::is_multiple_of(looks, DISK_LOOKS) {
            ended.disk_bytes = ended.disk_bytes.max(disk_bytes(folder));
        }
        looks += 1;
        pause(LOOK_PAUSE);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    ended.seconds = begin.elapsed().as_secs_f64();
    ended.disk_bytes = ended.disk_bytes.max(disk_bytes(folder));
    ended.output = fs::read_to_string(&path).unwrap_or_default();
    match status.success() {
        true => Ok(ended),
        false => Err(format!("{command:?}: {status}\n{}", ended.output)),
    }
}

/// Looks at a process; whether it has ended. One that nobody has waited for still tells its times.
fn look(child: &Child, ended: &mut Ended) -> bool {
    let folder = format!("/proc/{}", child.id());
    let stat = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything.
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    if let (Some(user), Some(system)) = (ticks(11), ticks(12)) {
        ended.cpu_seconds = (user + system) / TICKS_PER_S;
    }
    let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    ended.anonymous_bytes = ended.anonymous_bytes.max(kib.unwrap_or_default() * 1024);
    fields.first().is_none_or(|state| matches!(*state, "Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_read() {
        let output = r#"{"phase":"load","seconds":0.5}
{"phase":"load","seconds":1}
{"phase":"indexes","seconds":2.25}
{"phase":"done","seconds":3,"record_bytes":1234}"#;
        let ended = Ended { output: output.to_owned(), ..Ended::default() };
        assert_eq!(ended.phases(), "load from 0.5 s, indexes from 2.2 s, done from 3.0 s");
        assert_eq!(ended.number("record_bytes"), Some(1234));
        assert_eq!(ended.number("nothing"), None);
    }

    #[test]
    fn a_command_is_watched_to_its_end() {
        let folder = testing::crash::server::scratch("watch");
        fs::create_dir_all(&folder).unwrap();
        let ended = watch(Command::new("sh").args(["-c", "echo '{\"a\":5}'"]), &folder).unwrap();
        assert_eq!(ended.number("a"), Some(5));
        assert!(ended.disk_bytes > 0);
        assert!(watch(Command::new("sh").args(["-c", "exit 3"]), &folder).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
