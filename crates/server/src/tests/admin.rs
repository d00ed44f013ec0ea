//! The admin listener over real sockets.

use super::*;

/// A server with an admin listener.
fn watched(change: impl FnOnce(&mut Settings)) -> Running {
    Running::with(|settings| {
        settings.admin.listen = vec!["127.0.0.1:0".parse().unwrap()];
        change(settings);
    })
}

/// Everything that comes back until the connection is closed.
fn http(running: &Running, request: &str) -> String {
    let mut socket = TcpStream::connect(running.addresses.admin[0]).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn fetch(running: &Running, path: &str) -> String {
    http(running, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

#[test]
fn metrics_have_the_type_of_the_text_format() {
    let running = watched(|_| {});
    running.check_alive();
    let answer = fetch(&running, "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(body.contains("\nroster_operations_total{op=\"search\",result=\"success\"} 1\n"));
    assert!(body.ends_with('\n'));
    assert!(body.lines().all(|line| line.starts_with('#') || line.split(' ').count() == 2));
}

#[test]
fn a_server_is_live_and_ready() {
    let running = watched(|_| {});
    assert!(fetch(&running, "/livez").ends_with("\r\n\r\nok\n"));
    let ready = fetch(&running, "/readyz?verbose");
    assert!(ready.starts_with("HTTP/1.1 200 OK\r\n"), "{ready}");
    assert!(ready.contains("\"ready\":true"), "{ready}");
    assert!(fetch(&running, "/secret").starts_with("HTTP/1.1 404 "));
    let post = "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(http(&running, post).starts_with("HTTP/1.1 405 "));
}

#[test]
fn a_server_that_stops_is_not_ready_and_says_why() {
    let running = watched(|_| {});
    running.metrics.stopping();
    let ready = fetch(&running, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(ready.contains("\"reasons\":[\"the server is shutting down\"]"), "{ready}");
    assert!(fetch(&running, "/livez").contains("200 OK"), "it is alive all the same");
}

#[test]
fn large_heads_and_nonsense_are_refused() {
    let running = watched(|_| {});
    let large = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(9000));
    assert!(http(&running, &large).starts_with("HTTP/1.1 431 "));
    assert!(http(&running, "\u{30}\u{c}\u{2}\u{1}\u{1}\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(fetch(&running, "/livez").contains("200 OK"));
}

#[test]
fn silent_clients_of_it_delay_no_request() {
    let running = watched(|_| {});
    let address = running.addresses.admin[0];
    // More than there are slots, none of which says anything.
    let silent = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>();
    running.check_alive();
    drop(silent);
    assert!(fetch(&running, "/livez").contains("200 OK"), "their places are free again");
}

#[test]
fn without_the_setting_there_is_no_such_listener() {
    assert!(Running::start().addresses.admin.is_empty());
}

/// Prometheus' own tool finds nothing to complain about.
#[test]
fn promtool_accepts_the_text() {
    let Ok(mut promtool) = std::process::Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
    else {
        println!("skipped: promtool is not installed (Debian: prometheus)");
        return;
    };
    let running = watched(|_| {});
    running.check_alive();
    let answer = fetch(&running, "/metrics");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn half_open_requests_keep_nobody_out() {
    // 32 slots, and whoever held 65 half-open requests had them all: /livez timed out.
    let running = watched(|_| {});
    let half_open = (0..100).map(|_| {
        let mut socket = TcpStream::connect(running.addresses.admin[0]).unwrap();
        socket.write_all(b"GET /livez HTTP/1.1\r\nHost:").unwrap();
        socket
    });
    let half_open = half_open.collect::<Vec<_>>();
    let mut asking = TcpStream::connect(running.addresses.admin[0]).unwrap();
    // Well before the half-open ones run out of time.
    asking.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    asking.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
    drop(half_open);
}
