//! Receivers of webhooks: an HTTPS server of Python's, which checks signatures by its own means,
//! and one that misbehaves.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::directory::until;

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// Reads it, and never answers.
    Silent,
    /// Closes the connection in the middle.
    Reset,
    /// Answers with this status.
    Answers(u16),
    /// Answers 204 after so many milliseconds.
    Slow(u64),
    /// Answers 200 with 10 MB.
    Long,
    /// Begins an answer that never ends its head.
    Endless,
}

/// One that misbehaves.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    behaviour: Arc<Mutex<Behaviour>>,
    count: Arc<AtomicU64>,
}

impl Receiver {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let behaviour = Arc::new(Mutex::new(behaviour));
        let count = Arc::new(AtomicU64::new(0));
        let (shown, counted) = (Arc::clone(&behaviour), Arc::clone(&count));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shown, counted) = (Arc::clone(&shown), Arc::clone(&counted));
                thread::spawn(move || serve(stream, &shown, &counted));
            }
        });
        Self { port, behaviour, count }
    }

    pub(crate) fn becomes(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// Requests that were read.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, shown: &Mutex<Behaviour>, counted: &AtomicU64) -> Option<()> {
    let mut out = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).ok()?;
        counted.fetch_add(1, Ordering::SeqCst);
        let behaviour = *shown.lock().unwrap();
        match behaviour {
            Behaviour::Silent => thread::sleep(Duration::from_secs(300)),
            Behaviour::Reset => return None,
            Behaviour::Slow(millis) => {
                thread::sleep(Duration::from_millis(millis));
                out.write_all(b"HTTP/1.1 204 Fine\r\n\r\n").ok()?;
            }
            Behaviour::Answers(204) => out.write_all(b"HTTP/1.1 204 Fine\r\n\r\n").ok()?,
            Behaviour::Answers(status) => {
                let text = format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n");
                out.write_all(text.as_bytes()).ok()?;
            }
            Behaviour::Long => {
                let length = 10 << 20;
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                out.write_all(head.as_bytes()).ok()?;
                out.write_all(&vec![b'x'; length]).ok()?;
            }
            Behaviour::Endless => {
                out.write_all(b"HTTP/1.1 200 OK\r\n").ok()?;
                loop {
                    out.write_all(b"X: y\r\n").ok()?;
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

/// Python's server with TLS.
pub(crate) struct Https {
    scratch: tempfile::TempDir,
    pub(crate) port: u16,
    child: Child,
}

impl Https {
    pub(crate) fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let [address] = testing::ports::free_addresses().unwrap();
        let path = |name: &str| scratch.path().join(name);
        certificates(scratch.path());
        fs::write(path("server.py"), PROGRAM).unwrap();
        let port = address.port();
        let child = Command::new("/usr/bin/python3")
            .arg(path("server.py"))
            .arg(port.to_string())
            .current_dir(scratch.path())
            .stderr(Stdio::null())
            .spawn();
        let https = Self { scratch, port, child: child.unwrap() };
        until("python serves", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        https
    }

    pub(crate) fn certificate(&self) -> String {
        fs::read_to_string(self.scratch.path().join("ca.pem")).unwrap()
    }

    /// What it received: an object a line.
    pub(crate) fn received(&self) -> String {
        fs::read_to_string(self.scratch.path().join("received")).unwrap_or_default()
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts `ca.pem` there, and `cert.pem` and `key.pem` of `localhost`.
pub(crate) fn certificates(folder: &Path) {
    let made = Command::new("sh").args(["-ec", CERTIFICATES]).current_dir(folder).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// An authority, and a certificate of it.
const CERTIFICATES: &str = "\
    ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
    openssl req -x509 $ec -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
    openssl req $ec -subj /CN=localhost -keyout key.pem -out request
    echo 'subjectAltName=DNS:localhost' > names
    openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
        -extfile names -out cert.pem";

const PROGRAM: &str = r#"
import base64, hashlib, hmac, http.server, json, ssl, sys, time

KEY = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        head = self.headers["webhook-id"] + "." + self.headers["webhook-timestamp"] + "."
        mac = hmac.new(KEY, head.encode() + body, hashlib.sha256).digest()
        told = json.loads(body)
        told["path"] = self.path
        told["signed"] = (
            self.headers["webhook-signature"] == "v1," + base64.b64encode(mac).decode()
            and abs(time.time() - int(self.headers["webhook-timestamp"])) < 60
            and told["id"] == self.headers["webhook-id"]
        )
        with open("received", "a") as out:
            out.write(json.dumps(told) + "\n")
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;
