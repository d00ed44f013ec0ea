//! Records are written, read again, and refused.

use super::*;

/// A record with everything in it.
pub(crate) fn full() -> BenchRecord {
    BenchRecord {
        format: FORMAT.to_owned(),
        name: "search".to_owned(),
        label: "roster 0.1".to_owned(),
        started: "2026-11-22T18:00:00Z".to_owned(),
        replay: Some(ReplayedLog {
            lines: 9,
            requests: 3,
            shapes: 2,
            length_s: 86_400.0,
            speed: 2.0,
            left_out: BTreeMap::from([("renames".to_owned(), 1)]),
            bad_lines: 1,
            first_bad: vec!["log, line 4: it is not UTF-8".to_owned()],
            ..ReplayedLog::default()
        }),
        steps: vec![Step {
            name: NULL.to_owned(),
            seconds: 30.0,
            spent: Some(Spent { source: "monitor".to_owned(), cores: 0.01, ..Spent::default() }),
            ..Step::default()
        }],
        servers: vec![ServerShare {
            server: MeasuredServer {
                uri: "ldap://127.0.0.1:1389".to_owned(),
                settings: BTreeMap::from([("role".to_owned(), "leader".to_owned())]),
                ..MeasuredServer::default()
            },
            connections: 25,
            operations: 2,
            operations_per_s: 1.0,
            errors: 1,
            latency: Latency { p50: 10.0, ..Latency::default() },
            spent: Some(Spent { source: "pid".to_owned(), cores: 0.5, ..Spent::default() }),
            lost_connections: 1,
            lost: Some("the server closed a connection".to_owned()),
            ..ServerShare::default()
        }],
        command: ["roster", "bench", "search", "-w", "***"].map(str::to_owned).to_vec(),
        server: MeasuredServer {
            uri: "ldap://127.0.0.1:1389".to_owned(),
            vendor: Some("roster 0.1".to_owned()),
            pid: Some(7),
            settings: BTreeMap::from([("aci".to_owned(), "on".to_owned())]),
        },
        machine: Machine {
            cpu: "a CPU".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6".to_owned(),
            client_on_same_machine: true,
            stalls: Some(Latency { p50: 60.0, max: 900.0, ..Latency::default() }),
        },
        load: Load {
            connections: 50,
            outstanding: 1,
            rate: Some(1000.5),
            threads: 1,
            agents: 1,
            warmup_s: 1.0,
            duration_s: 2.0,
            measured_s: 2.0,
            cut_short: true,
            tls: "none".to_owned(),
            entries: Some(100_000),
        },
        streams: vec![Stream {
            name: "search".to_owned(),
            operations: 3,
            entries: 3,
            compared: Some(Compared { requests: 2, answers: 1, forgotten: 0 }),
            operations_per_s: 1.5,
            result_codes: BTreeMap::from([(0, 3)]),
            latency: Latency { mean: 20.0, p50: 10.0, max: 40.0, ..Latency::default() },
            histogram: vec![(10.0, 2), (40.0, 1)],
            ..Stream::default()
        }],
        seconds: vec![
            Second { at_s: 1.0, operations: 2, p50_us: Some(10.0), ..Second::default() },
            Second { at_s: 2.0, operations: 1, server_cpu_us: Some(30), ..Second::default() },
        ],
        cost: Cost {
            server: Some(Spent {
                source: "pid".to_owned(),
                user_us: 20,
                system_us: 10,
                cpu_us_per_operation: 10.0,
                cores: 0.5,
                ..Spent::default()
            }),
            client_cpu_us_per_operation: 3.0,
        },
    }
}

#[test]
fn a_record_that_was_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    full().write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(BenchRecord::parse(text.as_bytes()).unwrap(), full());
    assert_eq!(text.lines().count(), 1);
    assert!(text.starts_with(r#"{"format":"roster-bench 1","name":"search""#), "{text}");
}

#[test]
fn what_may_be_missing_may_and_what_is_unknown_is_passed_over() {
    let text = r#"{"format": "roster-bench 1", "name": "search", "from the future": [[1], {}],
        "server": {"uri": "ldap://h"}, "machine": {"cores": 4}, "load": {},
        "streams": [{"name": "search", "operations": 5, "operations_per_s": 2.5}]}"#;
    let record = BenchRecord::parse(text.as_bytes()).unwrap();
    assert_eq!(record.machine.cores, 4);
    assert_eq!(record.cost.server, None);
    assert_eq!(record.operations(), 5);
}

#[test]
fn what_is_no_record_is_refused_with_a_reason() {
    let with = |change: &dyn Fn(&mut BenchRecord)| {
        let mut record = full();
        change(&mut record);
        BenchRecord::parse(record.to_json().as_bytes()).unwrap_err().to_string()
    };
    let other = with(&|record| record.format = "roster-bench 2\u{1b}".to_owned());
    assert_eq!(other, r"its format is 'roster-bench 2\u{1b}', not 'roster-bench 1'");
    let long = with(&|record| record.label = "x".repeat(5_000));
    assert_eq!(long, "it has 5000 bytes of one text, more than 4096");
    let many = with(&|record| record.streams = vec![Stream::default(); 33]);
    assert_eq!(many, "it has 33 streams, more than 32");
    let negative = with(&|record| record.load.measured_s = -1.0);
    assert_eq!(negative, "a number of its load is out of range");
    let order = with(&|record| record.streams[0].histogram = vec![(2.0, 1), (2.0, 1)]);
    assert_eq!(order, "its histogram is out of order");
    let order = with(&|record| record.seconds[1].at_s = 1.0);
    assert_eq!(order, "its seconds are out of order");
    let sum = with(&|record| record.streams[0].histogram = vec![(1.0, u64::MAX), (2.0, 1)]);
    assert_eq!(sum, "its histogram counts more than there can be");

    let reason = |text: &str| BenchRecord::parse(text.as_bytes()).unwrap_err().to_string();
    assert!(reason("").starts_with("it is not a record of a run: EOF"));
    assert!(reason(&"[".repeat(100_000)).starts_with("it is not a record of a run: "));
    let deep = format!("{{\"format\": \"roster-bench 1\", \"x\": {}", "[".repeat(100_000));
    assert!(reason(&deep).contains("EOF while parsing a list"), "{}", reason(&deep));
    let infinite = full().to_json().replace("1.5", "1e999");
    assert!(reason(&infinite).contains("number out of range"), "{}", reason(&infinite));
    let whole = "it is not a complete record of a run: ";
    assert!(reason(r#"{"format": "roster-bench 1"}"#).starts_with(whole));
}

#[test]
fn passwords_are_left_out_of_the_command() {
    let command = "roster bench bind -D cn=x -w s1 --bind-password s2 --bind-password=s3 -ws4 \
                   -w=s5 --password s6 --password=s7 --rate 5 -w";
    let shown = command_without_passwords(command.split_whitespace().map(str::to_owned)).join(" ");
    assert_eq!(
        shown,
        "roster bench bind -D cn=x -w *** --bind-password *** --bind-password=*** -w*** -w*** \
         --password *** --password=*** --rate 5 -w"
    );
}

#[test]
fn a_histogram_keeps_two_digits_and_all_counts() {
    let mut latencies_ns = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    for ns in [1_000, 1_001, 100_000, 123_456_789] {
        latencies_ns.record(ns).unwrap();
    }
    let rows = sparse(&latencies_ns);
    assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), 4);
    for (row, us) in rows.iter().zip([1.0, 100.0, 123_456.789]) {
        assert!((us..us * 1.02).contains(&row.0), "{rows:?}");
    }
    assert_eq!(Latency::of(&latencies_ns).max.round(), 123_470.0, "the end of its bucket");
    assert_eq!(sparse(&Histogram::<u64>::new(2).unwrap()), []);
}

#[test]
fn the_seconds_are_csv() {
    let want = "at_s,operations,errors,p50_us,p99_us,p99_9_us,max_us,server_cpu_us,\
                server_anonymous_bytes\n1,2,0,10.0,,,,,\n2,1,0,,,,,30,\n";
    assert_eq!(full().csv(), want);
}

#[test]
fn cycles_hold_the_operations_they_are_made_of() {
    let stream =
        |name: &str, operations| Stream { name: name.to_owned(), operations, ..Stream::default() };
    let mut record = full();
    record.streams = vec![stream("search", 5), stream("bind", 4)];
    assert_eq!(record.operations(), 9);
    record.streams.push(stream(CYCLE, 4));
    assert_eq!(record.operations(), 4);
}

#[test]
fn this_machine_is_described() {
    let here = Machine::here(true);
    assert!(here.cores > 0 && here.memory_bytes > 1 << 20, "{here:?}");
    assert!(here.kernel.len() > "Linux ".len() && !here.cpu.is_empty(), "{here:?}");
}
