//! A nats-server of Debian, and what it has stored, asked for in its own protocol.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use super::directory::until;

pub(crate) const PROGRAM: &str = "/usr/sbin/nats-server";

/// A server with a stream `CHANGES` of the subject `directory.changes`.
pub(crate) struct Nats {
    scratch: tempfile::TempDir,
    pub(crate) port: u16,
    child: Option<Child>,
    more: String,
}

impl Nats {
    /// Starts it; `more` are lines of its configuration.
    pub(crate) fn start(more: &str) -> Self {
        let [address] = testing::ports::free_addresses().unwrap();
        let (scratch, port) = (tempfile::tempdir().unwrap(), address.port());
        let mut nats = Self { scratch, port, child: None, more: more.to_owned() };
        nats.again();
        nats
    }

    /// Starts it again, on what it has stored.
    pub(crate) fn again(&mut self) {
        let folder = self.scratch.path();
        let text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: \"{}\" }}\n{}\n",
            self.port,
            folder.join("store").display(),
            self.more
        );
        let settings: PathBuf = folder.join("nats.conf");
        fs::write(&settings, text).unwrap();
        let child = Command::new(PROGRAM).arg("-c").arg(&settings).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
        until("nats answers", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Makes the stream.
    pub(crate) fn make_stream(&self) {
        let stream = json!({
            "name": "CHANGES", "subjects": ["directory.changes"], "retention": "limits",
            "storage": "file", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1,
            "max_age": 0, "num_replicas": 1, "duplicate_window": 120_000_000_000_u64,
        });
        let made = self.ask("$JS.API.STREAM.CREATE.CHANGES", &stream);
        assert!(made.get("error").is_none(), "{made}");
    }

    /// How many messages the stream has.
    pub(crate) fn count(&self) -> u64 {
        let info = self.ask("$JS.API.STREAM.INFO.CHANGES", &json!({}));
        info["state"]["messages"].as_u64().unwrap_or(0)
    }

    /// All that it has, in order.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let read = |number| {
            let found = self.ask("$JS.API.STREAM.MSG.GET.CHANGES", &json!({ "seq": number }));
            let data = found["message"]["data"].as_str().unwrap_or_else(|| panic!("{found}"));
            let octets = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
            serde_json::from_slice(&octets).unwrap()
        };
        (1..=self.count()).map(read).collect()
    }

    /// The ids that came with them.
    pub(crate) fn ids(&self) -> Vec<String> {
        let read = |number| {
            let found = self.ask("$JS.API.STREAM.MSG.GET.CHANGES", &json!({ "seq": number }));
            let headers = found["message"]["hdrs"].as_str().unwrap().to_owned();
            let octets = base64::engine::general_purpose::STANDARD.decode(headers).unwrap();
            let text = String::from_utf8(octets).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("Nats-Msg-Id: "));
            line.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        (1..=self.count()).map(read).collect()
    }

    fn ask(&self, subject: &str, request: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let (text, user) = (request.to_string(), "\"user\":\"roster\",\"pass\":\"secret-of-nats\"");
        let wanted = format!(
            "CONNECT {{\"verbose\":false,{user}}}\r\nSUB reply 1\r\nPUB {subject} reply {}\r\n\
             {text}\r\n",
            text.len()
        );
        stream.write_all(wanted.as_bytes()).unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "nats closed the connection");
            if line.starts_with("MSG ") {
                break;
            }
            if line.starts_with("PING") {
                stream.write_all(b"PONG\r\n").unwrap();
            }
            assert!(!line.starts_with("-ERR"), "{line}");
        }
        let bytes: usize = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        let mut octets = vec![0; bytes];
        lines.read_exact(&mut octets).unwrap();
        serde_json::from_slice(&octets).unwrap()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
