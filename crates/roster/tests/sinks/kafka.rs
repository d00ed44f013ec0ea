//! A broker of Kafka, and its own tools.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::directory::until;

/// A broker with a topic `changes`.
pub(crate) struct Kafka {
    scratch: tempfile::TempDir,
    port: u16,
    child: Child,
}

/// Where `cargo xtask test` puts its jars.
pub(crate) fn jars() -> PathBuf {
    PathBuf::from(format!("{}/../../target/clients/kafka/jars", env!("CARGO_MANIFEST_DIR")))
}

impl Kafka {
    /// Starts it, and makes the topic.
    pub(crate) fn start(partitions: u32) -> Self {
        let [broker, controller] = testing::ports::free_addresses().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let settings = scratch.path().join("server.properties");
        let data = scratch.path().join("data");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@{controller}\n\
             listeners=PLAINTEXT://{broker},CONTROLLER://{controller}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\n",
            data.display()
        );
        fs::write(&settings, text).unwrap();
        let id = "4L6g3nShT-eMCtK--X86sw";
        let mut format = java("kafka.tools.StorageTool");
        let formatted = format.args(["format", "-t", id, "-c"]).arg(&settings).output().unwrap();
        assert!(formatted.status.success(), "{formatted:?}");
        let mut child = java("kafka.Kafka");
        let child = child.arg(&settings).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let kafka = Self { scratch, port: broker.port(), child: child.unwrap() };
        until("the broker answers", || TcpStream::connect(broker).is_ok());
        let mut make = java("org.apache.kafka.tools.TopicCommand");
        make.args(["--bootstrap-server", &kafka.address(), "--create", "--topic", "changes"]);
        let made = make.args(["--partitions", &partitions.to_string()]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        kafka
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// So many records of a partition: their keys and objects, with a tab between.
    pub(crate) fn read(&self, partition: u32, count: usize) -> Vec<(String, serde_json::Value)> {
        let mut read = java("org.apache.kafka.tools.consumer.ConsoleConsumer");
        read.args(["--bootstrap-server", &self.address(), "--topic", "changes"])
            .args(["--partition", &partition.to_string(), "--offset", "earliest"])
            .args(["--max-messages", &count.to_string(), "--timeout-ms", "15000"])
            .args(["--property", "print.key=true"]);
        let output = read.output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(text.lines().count(), count, "{output:?}");
        let one = |line: &str| {
            let (key, value) = line.split_once('\t')?;
            Some((key.to_owned(), serde_json::from_str(value).unwrap()))
        };
        text.lines().filter_map(one).collect()
    }

    /// How many records each partition has.
    pub(crate) fn counts(&self) -> Vec<(u32, usize)> {
        let mut ask = java("org.apache.kafka.tools.GetOffsetShell");
        ask.args(["--bootstrap-server", &self.address(), "--topic", "changes"]);
        let output = ask.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let one = |line: &str| {
            let mut parts = line.trim().split(':').skip(1);
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        };
        text.lines().filter_map(one).collect()
    }
}

fn java(class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(format!("{}/*", jars().display())).arg(class);
    command
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.scratch.path();
    }
}
