//! Pages of made-up records: what is on them, and what never is.

use std::collections::BTreeMap;

use super::*;
use crate::bench::record::{
    CYCLE, Compared, Cost, FORMAT, Latency, Load, Machine, MeasuredServer, NULL, Second,
    ServerShare, Spent, Step, Stream,
};

/// A run of ten seconds.
fn run(name: &str, label: &str, cpu_us: f64) -> BenchRecord {
    let second = |at: u32| Second {
        at_s: f64::from(at),
        operations: 20_000 + u64::from(at * 37 % 11) * 100,
        p50_us: Some(cpu_us * 4.0),
        p99_us: Some(cpu_us * 9.0),
        p99_9_us: Some(cpu_us * 30.0),
        max_us: Some(cpu_us * 50.0 + f64::from(at)),
        server_cpu_us: Some((cpu_us * 20_000.0) as u64),
        server_anonymous_bytes: Some(200 << 20),
        ..Second::default()
    };
    let histogram = [(1.0, 10_000), (4.0, 90_000), (9.0, 99_000), (30.0, 990), (55.0, 10)];
    BenchRecord {
        format: FORMAT.to_owned(),
        name: name.to_owned(),
        label: label.to_owned(),
        started: "2026-11-22T18:00:00.000000Z".to_owned(),
        command: ["roster", "bench", name, "-f", "(uid=user.[1-9])"].map(str::to_owned).to_vec(),
        server: MeasuredServer {
            uri: "ldap://127.0.0.1:1389".to_owned(),
            ..MeasuredServer::default()
        },
        machine: Machine {
            cpu: "AMD EPYC".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6".to_owned(),
            client_on_same_machine: true,
            stalls: None,
        },
        load: Load {
            connections: 50,
            outstanding: 1,
            threads: 1,
            agents: 1,
            duration_s: 10.0,
            measured_s: 10.0,
            tls: "none".to_owned(),
            entries: Some(100_000),
            ..Load::default()
        },
        streams: vec![Stream {
            name: name.to_owned(),
            operations: 200_000,
            operations_per_s: 20_123.0,
            latency: Latency { mean: 5.0, p50: cpu_us * 4.0, max: 99.0, ..Latency::default() },
            histogram: histogram.map(|(times, count)| (cpu_us * times, count)).to_vec(),
            result_codes: BTreeMap::from([(0, 200_000)]),
            ..Stream::default()
        }],
        seconds: (1..=10).map(second).collect(),
        cost: Cost {
            server: Some(Spent {
                source: "pid".to_owned(),
                user_us: 40,
                system_us: 60,
                cpu_us_per_operation: cpu_us,
                cores: 0.5,
                voluntary_switches: Some(400_000),
                ..Spent::default()
            }),
            client_cpu_us_per_operation: 3.0,
        },
        ..BenchRecord::default()
    }
}

/// Every tag of a page is closed by its own end, in order; the names of all tags.
fn tags(page: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut names = Vec::new();
    for part in page.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or(tag);
        // Text holds no quotes that end an attribute, and no '>' of its own.
        assert!(name == "style" || !rest.contains(['>', '"']), "{part}");
        if let Some(end) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(end), "near {part}");
        } else if !tag.ends_with('/') && !["meta", "!DOCTYPE"].contains(&name) {
            open.push(name);
        }
        names.push(name.to_owned());
    }
    assert_eq!(open, [] as [&str; 0]);
    names
}

/// The text of a page, without tags.
fn text(page: &str) -> String {
    page.split('<')
        .filter_map(|part| part.split_once('>'))
        .map(|(_, text)| text.trim())
        .fold(String::new(), |all, text| if text.is_empty() { all } else { all + text + "|" })
}

#[test]
fn a_page_of_one_run_has_its_figures() {
    let page = page(&[run("search", "roster 0.1", 11.3)], None);
    tags(&page);
    let text = text(&page);
    for expected in [
        "Benchmark of roster 0.1|",
        "1 run of search, 2026-11-22|",
        "search: roster 0.1 takes 11.3 µs of CPU time for an operation.|",
        "20,123|operations/s|",
        "Server CPU, µs per operation|11.3|",
        "Waits of server threads per operation|2.00|",
        "Throughput over time, operations/s|",
        "Latency by percentile|",
        "Memory of the server not backed by files, MiB|",
        "until, s|search|",
        "roster bench search -f '(uid=user.[1-9])'|",
    ] {
        let expected = expected.replace("until, s|search|", "until, s|roster 0.1|");
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing is loaded");
}

#[test]
fn servers_are_compared_with_the_first_and_with_the_floor() {
    let records = [
        run("search", "roster", 11.0),
        run("search", "slapd", 44.0),
        run("search", "echo floor", 8.8),
        run("bind", "roster", 14.0),
        run("search", "roster", 11.5),
    ];
    let page = page(&records, Some("A title"));
    tags(&page);
    let text = text(&page);
    for expected in [
        "A title|4 runs of search, bind, 2026-11-22|",
        "11.0 µs of CPU time for an operation, 1.25 times the cost of receiving and sending that",
        "search: slapd takes 44.0 µs, 4.00 times what roster takes.|",
        "Server CPU, µs per operation|11.0|44.0|4.00 ×|11.5|1.05 ×|",
        "CPU, ratio to the floor|1.25|5.00|4.00 ×|",
        "|roster (2)|",
        "echo floor|8.80 µs|",
        "11.0 µs · 1.25 × the floor|",
        "All jobs; × is the ratio to the first server of the job|",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_spoiled_run_is_compared_with_nothing() {
    let mut spoiled = run("search", "slapd", 44.0);
    if let Some(stream) = spoiled.streams.first_mut() {
        stream.errors = 49;
    }
    let with_bind = run("bind", "roster", 14.0);
    for records in [
        [run("search", "roster", 11.0), spoiled.clone(), with_bind.clone()],
        [spoiled.clone(), run("search", "roster", 11.0), with_bind.clone()],
    ] {
        let page = page(&records, None);
        tags(&page);
        let text = text(&page);
        for expected in [
            "search: the run of slapd is invalid.|",
            "slapd|invalid: responses were wrong or missing|",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        for never in ["slapd takes", "than slapd", "what slapd"] {
            assert!(!text.contains(never), "{never}: {text}");
        }
    }
}

#[test]
fn what_was_cut_short_or_stalled_is_told() {
    let whole = run("search", "roster", 12.0);
    let before = text(&page(std::slice::from_ref(&whole), None));
    let mut cut = whole;
    cut.load.cut_short = true;
    cut.load.measured_s = 6.25;
    cut.streams[0].latency.p99_9 = 900.0;
    cut.machine.stalls = Some(Latency { p99_9: 500.0, max: 700.0, ..Latency::default() });
    let after = text(&page(&[cut], None));
    for want in ["Cut short, by Ctrl-C", "6.3 s of 10 s", "own stalls are more than half"] {
        assert!(after.contains(want) && !before.contains(want), "{want}: {after}");
    }
}

#[test]
fn answers_that_were_not_compared_are_told() {
    let mut record = run("oud-mail", "roster", 12.0);
    let mut shown = |compared| {
        record.streams[0].compared = compared;
        text(&page(std::slice::from_ref(&record), None))
    };
    let row = "Responses compared with the first to the same request|";
    let caution = "More different searches than can be remembered; responses not compared: \
                   oud-mail of roster (77).";
    assert!(!shown(None).contains(row));
    let all = shown(Some(Compared { requests: 9, answers: 191, forgotten: 0 }));
    assert!(all.contains(&format!("{row}191|")) && !all.contains(caution), "{all}");
    let some = shown(Some(Compared { requests: 9, answers: 0, forgotten: 77 }));
    assert!(some.contains(&format!("{row}0|")) && some.contains(caution), "{some}");
}

#[test]
fn settings_that_differ_are_marked() {
    let mut other = run("search", "slapd", 50.0);
    other.load.connections = 10;
    other.server.settings.insert("hash".to_owned(), "{SSHA}".to_owned());
    let page = page(&[run("search", "roster", 11.0), other], None);
    let text = text(&page);
    for expected in [
        "≠ connections|50|10|",
        "≠ note: hash|not told|{SSHA}|",
        "Runs of the same job differ: search in connections, hash.|",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn published_figures_stand_beside_runs_that_repeat_them() {
    let mut record = run("oid-search", "roster", 12.5);
    record.server.settings.insert("aci".to_owned(), "on".to_owned());
    let text = text(&page(&[record], None));
    for expected in [
        "|1,177,947|36,811|roster|20,123|80,000|2.17 ×|",
        "entries: 50,000,000 → 100,000 · ",
        "cores: 32 → 2, shared with the load generator · ",
        "length: 1 h → 10 s · ",
        "26 published figures without a run here|".replace("26", "27").as_str(),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("ACIs: on"), "what is the same is not told: {text}");
}

#[test]
fn parts_of_a_cycle_have_their_own_rows_and_pictures() {
    let mut record = run("auth", "roster", 22.0);
    let mut stream = |name: &str, per_s| {
        let mut stream = record.streams[0].clone();
        stream.name = name.to_owned();
        stream.operations_per_s = per_s;
        record.streams.push(stream);
    };
    stream("bind", 21_000.0);
    stream(CYCLE, 10_500.0);
    let text = text(&page(&[record], None));
    for expected in [
        "|Throughput, operations/s|10,500|",
        "|bind|Operations/s|21,000|",
        "|Latency by percentile: cycle|",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn text_of_a_record_never_becomes_markup() {
    let hostile =
        "</style><script>alert(1)</script><img src=x onerror=alert(1)>\" onload='x' {{7*7}}";
    let mut record = run("search", "x", 11.0);
    for field in [
        &mut record.name,
        &mut record.label,
        &mut record.started,
        &mut record.server.uri,
        &mut record.machine.cpu,
        &mut record.machine.kernel,
        &mut record.load.tls,
    ] {
        *field = hostile.to_owned();
    }
    record.server.vendor = Some(hostile.to_owned());
    record.command = vec![hostile.to_owned(); 3];
    record.server.settings.insert(hostile.to_owned(), hostile.to_owned());
    record.streams[0].name = hostile.to_owned();
    if let Some(spent) = &mut record.cost.server {
        spent.source = hostile.to_owned();
    }
    let plain = tags(&page(&[run("search", "x", 11.0), run("search", "y", 11.0)], None));
    let page = page(&[record.clone(), record], Some(hostile));
    let found = tags(&page);
    assert!(found.iter().all(|tag| plain.contains(tag) || tag == "small"), "{found:?}");
    assert!(!found.iter().any(|tag| tag == "script" || tag == "img"));
    assert!(!page.contains("<script") && !page.contains("\" onload='"));
    assert_eq!(page.matches("<style").count(), 1);
}

#[test]
fn any_numbers_make_a_page() {
    let empty = BenchRecord { format: FORMAT.to_owned(), ..BenchRecord::default() };
    let mut large = run("search", "large", 1e18);
    large.load.measured_s = 1e18;
    large.streams[0].operations = u64::MAX;
    large.streams[0].histogram = vec![(0.0, 1), (1e-9, 1), (1e18, u64::MAX - 2)];
    large.seconds = vec![Second { at_s: 0.0, max_us: Some(0.0), ..Second::default() }; 1];
    large.seconds.push(Second {
        at_s: 1e18,
        operations: u64::MAX,
        max_us: Some(1e18),
        p50_us: Some(1e-9),
        server_cpu_us: Some(u64::MAX),
        ..Second::default()
    });
    for records in [vec![], vec![empty.clone()], vec![large.clone(), empty], vec![large]] {
        let page = page(&records, None);
        tags(&page);
        for word in ["NaN", "inf"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}

#[test]
fn a_long_run_makes_a_page_of_bounded_size() {
    let mut record = run("search", "roster", 11.0);
    let second = record.seconds[0];
    record.seconds = (1..=86_400).map(|at| Second { at_s: f64::from(at), ..second }).collect();
    let page = page(&[record], None);
    assert!(page.len() < 300_000, "{} octets", page.len());
    assert!(page.contains("Each point is the highest of 432 seconds."));
}

#[test]
fn a_damaged_record_is_refused_or_makes_a_page() {
    let mut record = run("search", "roster", 11.0);
    record.seconds.truncate(2);
    let whole = record.to_json().into_bytes();
    let mut chance = 7_u64;
    let mut draw = |below: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (chance >> 33) as usize % below
    };
    let mut read = 0;
    for _ in 0..2_000 {
        let mut octets = whole.clone();
        for _ in 0..=draw(3) {
            let place = draw(octets.len());
            match draw(3) {
                0 => octets[place] = b"<>&\"'{}[],:0123456789e-.\\ux\xff"[draw(28)],
                1 => octets.truncate(octets.len() - draw(3)),
                _ => octets.insert(place, b"9<\"0e-,"[draw(7)]),
            }
        }
        if let Ok(record) = BenchRecord::parse(&octets) {
            read += 1;
            tags(&page(&[record], None));
        }
    }
    assert!(read > 100, "{read} of them could be read");
}

#[test]
fn several_jobs_have_one_answer_at_the_top() {
    let runs = [
        run("search", "roster", 10.0),
        run("search", "other", 25.0),
        run("search", "echo", 5.0),
        run("bind", "roster", 12.0),
        run("bind", "other", 18.0),
    ];
    let text = text(&page(&runs, None));
    let want = "At a glance|other takes 1.50 to 2.50 times the CPU time of roster, in both jobs.|";
    assert!(text.contains(want), "{text}");
    // How the floor was measured is told as well.
    assert!(text.contains("search, echo|roster bench search"), "{text}");
    // Of one job the sentences of the job say it.
    let text = self::text(&page(&runs[..2], None));
    assert!(!text.contains("in both"), "{text}");
}

#[test]
fn nothing_on_a_page_is_invisible() {
    let page = page(&[run("search", "a\u{0}b\u{202e}c\u{200b}d\ne", 11.0)], None);
    assert!(page.contains("a\u{fffd}b\u{fffd}c\u{fffd}d\ne"));
    assert!(!page.contains(['\u{0}', '\u{202e}', '\u{200b}']));
}

#[test]
fn several_servers_have_a_line_each() {
    let share = |uri: &str, operations| ServerShare {
        server: MeasuredServer { uri: uri.to_owned(), ..MeasuredServer::default() },
        connections: 25,
        operations,
        ..ServerShare::default()
    };
    let lost = Some("the server closed a connection".to_owned());
    let other = ServerShare { lost_connections: 3, lost, errors: 3, ..share("ldap://b", 70_002) };
    let record =
        BenchRecord { servers: vec![share("ldap://a", 130_001), other], ..run("search", "x", 9.0) };
    let page = page(&[record], None);
    for want in [
        "Servers of x",
        "<th scope=\"row\">ldap://a</th>",
        "<td>130,001</td>",
        "<td>70,002</td>",
        "<td>3 connections: the server closed a connection</td>",
    ] {
        assert!(page.contains(want), "{want}");
    }
    tags(&page);
}

#[test]
fn steps_are_there_beside_what_was_measured() {
    let step = |name: &str, seconds, operations| Step {
        name: name.to_owned(),
        seconds,
        operations,
        ..Step::default()
    };
    let steps = vec![step("prime", 60.0, 120_007), step(NULL, 30.0, 0)];
    let page = page(&[BenchRecord { steps, ..run("search", "x", 9.0) }], None);
    for want in [
        "Steps of x",
        "<th scope=\"row\">prime</th><td>1 min</td><td>120,007</td>",
        "<th scope=\"row\">null</th><td>30 s</td><td>0</td><td>–</td>",
    ] {
        assert!(page.contains(want), "{want}\n{page}");
    }
    tags(&page);
}
