//! Tells who wants to hear that a task has ended: by e-mail, or by a request with JSON.
//!
//! Invariant: nobody waits for whoever hears: each task that has ended is told by a thread of its
//! own, of which there are a few at the most, and each attempt has a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use directory::Live;
use directory::tasks::{Task, TaskState, TaskWork};
use environment::Timestamp;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use schema::Schema;
use serde_json::json;
use tokio::time::timeout;

use super::board::{TaskBoard, push};
use crate::settings::TaskSettings;
use crate::sinks::post_once;

/// Tells them.
pub(super) struct Notices {
    rules: Arc<Live<TaskSettings>>,
    board: Arc<TaskBoard>,
    under_way: Arc<AtomicUsize>,
}

impl Notices {
    pub(super) fn new(rules: Arc<Live<TaskSettings>>, board: Arc<TaskBoard>) -> Self {
        Self { rules, board, under_way: Arc::default() }
    }

    /// Tells of a task that has ended.
    pub(super) fn tell(&self, task: &Task, schema: &Schema) {
        let Ok(work) = TaskWork::parse(&task.work, schema) else { return };
        let is_fine = task.state == TaskState::CompletedSuccessfully;
        let of_errors = work.value("notify-error").filter(|_| !is_fine);
        let all = [work.value("notify"), of_errors].into_iter().flatten();
        let receivers: Vec<String> =
            all.flat_map(|list| list.split(',')).map(str::to_owned).collect();
        if receivers.is_empty() {
            return;
        }
        let place = NoticePlace::take(&self.under_way);
        if place.count > UNDER_WAY_MAX {
            let why = "nobody is told: of too many tasks somebody is being told";
            tracing::error!(task = task.id, "{why}");
            self.board.change(&task.id, |task| push(task, why));
            return;
        }
        let (task, rules, board) =
            (task.clone(), self.rules.get().clone(), Arc::clone(&self.board));
        let spawned = thread::Builder::new().name("task-notice".to_owned()).spawn(move || {
            // It is given back however the thread ends.
            let _place = place;
            for receiver in receivers {
                if let Err(why) = tell_one(&task, &receiver, &rules, ATTEMPT_MAX) {
                    let why = in_line(&why);
                    tracing::error!(task = task.id, receiver, why, "is not told of a task");
                    board.change(&task.id, |task| {
                        push(task, &format!("{receiver} is not told: {why}"));
                    });
                }
            }
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "nobody is told of a task");
        }
    }
}

/// A place among those that are told of tasks.
struct NoticePlace {
    all: Arc<AtomicUsize>,
    /// With this one.
    count: usize,
}

impl NoticePlace {
    fn take(all: &Arc<AtomicUsize>) -> Self {
        Self { count: all.fetch_add(1, Ordering::AcqRel) + 1, all: Arc::clone(all) }
    }
}

impl Drop for NoticePlace {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What somebody else has written, as part of a line.
fn in_line(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(TEXT_MAX).map(plain).collect()
}

fn tell_one(
    task: &Task,
    receiver: &str,
    rules: &TaskSettings,
    limit: Duration,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let told = match receiver.contains("://") {
        true => {
            let body = serde_json::to_vec(&told(task)).map_err(|error| error.to_string())?;
            runtime.block_on(post_once(receiver, body, limit))
        }
        false => {
            let sent =
                runtime.block_on(async { timeout(limit, mail(task, receiver, rules)).await });
            let late = || Err(format!("no answer within {} seconds", limit.as_secs()));
            sent.unwrap_or_else(|_| late())
        }
    };
    // A name that is still looked up is not waited for.
    runtime.shutdown_background();
    told
}

/// What a request says.
fn told(task: &Task) -> serde_json::Value {
    let time = |moment: Option<u64>| moment.map(|us| Timestamp(us).generalized_time());
    json!({
        "task": task.id,
        "work": task.work,
        "state": task.state.name(),
        "of": task.of,
        "by": task.by,
        "began": time(task.began_us),
        "ended": time(task.ended_us),
        "exitCode": task.exit_code,
        "log": task.log,
    })
}

async fn mail(task: &Task, receiver: &str, rules: &TaskSettings) -> Result<(), String> {
    let TaskSettings { mail_server, mail_from, .. } = rules;
    if mail_server.is_empty() || mail_from.is_empty() {
        return Err("tasks.mail_server and tasks.mail_from are not set".to_owned());
    }
    let state = task.state.name().replace('_', " ").to_lowercase();
    let mut text = format!("{}\n{}: {state}\n\n", task.work, task.id);
    for line in &task.log {
        text.extend([line.as_str(), "\n"]);
    }
    let address =
        |what: &str, text: &str| text.parse().map_err(|error| format!("{what} '{text}': {error}"));
    let message = Message::builder()
        .from(address("tasks.mail_from", mail_from)?)
        .to(address("the address", receiver)?)
        .subject(format!("roster: task {} {state}", task.id))
        .body(text)
        .map_err(|error| error.to_string())?;
    let (host, port) = mail_server.rsplit_once(':').unwrap_or((mail_server, "25"));
    let port = port.parse().map_err(|_| format!("tasks.mail_server '{mail_server}': no port"))?;
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host).port(port);
    // A server of this machine is not asked for a certificate; another one shows its own if it has.
    if !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
        let tls = TlsParameters::new(host.to_owned()).map_err(|error| error.to_string())?;
        transport = transport.tls(Tls::Opportunistic(tls));
    }
    let transport = transport.timeout(Some(ATTEMPT_MAX)).build();
    transport.send(message).await.map(drop).map_err(|error| error.to_string())
}

/// So much is kept of what a receiver answers, in letters.
const TEXT_MAX: usize = 300;
/// The most tasks of which somebody is being told.
const UNDER_WAY_MAX: usize = 8;
/// How long one attempt takes at most.
const ATTEMPT_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers without an end, a letter at a time.
    fn drip(mut stream: TcpStream) {
        while stream.write_all(b"2").is_ok() {
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    #[test]
    fn one_that_never_ends_its_answer_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || listener.incoming().flatten().for_each(drip));
        let rules = TaskSettings {
            mail_server: address.to_string(),
            mail_from: "roster@example.com".to_owned(),
            ..TaskSettings::default()
        };
        for receiver in ["ops@example.com", &format!("http://{address}/")] {
            let told = tell_one(&Task::default(), receiver, &rules, Duration::from_secs(1));
            assert!(told.is_err(), "{receiver}");
        }
    }
}
