//! What a running server counts, as Prometheus and as a client of `cn=monitor` see it.

use std::collections::BTreeMap;

use super::*;

type Attributes = BTreeMap<String, Vec<String>>;

impl Running {
    /// The lines of a metric, without its name, and their values.
    pub(super) fn metric(&self, name: &str) -> BTreeMap<String, String> {
        let text = crate::metrics::exposition(&self.metrics.scrape().unwrap());
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let split = samples.filter_map(|line| line.rsplit_once(' '));
        let named = split.filter_map(|(name_of, value)| {
            let rest = name_of.strip_prefix(name)?;
            (rest.is_empty() || rest.starts_with('{')).then(|| (rest.to_owned(), value.to_owned()))
        });
        named.collect()
    }

    #[track_caller]
    fn check_metric(&self, name: &str, labels: &str, want: &str) {
        let found = self.metric(name);
        assert_eq!(found.get(labels).map(String::as_str), Some(want), "{name}: {found:?}");
    }
}

impl Client {
    fn message(&mut self) -> Vec<u8> {
        loop {
            if let Frame::Complete(length) = frame(&self.received, usize::MAX).unwrap() {
                return self.received.drain(..length).collect();
            }
            let mut buffer = [0; 16 * 1024];
            let count = self.transport.read(&mut buffer).unwrap();
            assert!(count > 0, "closed");
            self.received.extend_from_slice(&buffer[..count]);
        }
    }

    /// The entries at and below a name, each by its name.
    fn subtree(&mut self, base: &str) -> BTreeMap<String, Attributes> {
        self.send(&search(900, base, Scope::Subtree));
        let mut found = BTreeMap::new();
        loop {
            let message = self.message();
            let decoded =
                Message::<Response<'_>>::decode(&message, &DecodeLimits::default()).unwrap();
            match decoded.op {
                Response::SearchEntry { dn, attributes } => {
                    let mut all = Attributes::new();
                    for attribute in attributes.iter() {
                        let text = |value| String::from_utf8_lossy(value).into_owned();
                        let values = attribute.values.iter().map(text).collect();
                        all.insert(attribute.description.to_owned(), values);
                    }
                    found.insert(dn.to_owned(), all);
                }
                Response::SearchDone(result) => {
                    assert_eq!(result.code.name(), "success", "{base}");
                    return found;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Some requests of each outcome, on two connections.
fn ask(running: &Running) -> (Client, Client) {
    let mut wrong = running.connect();
    wrong.send(&bind(1, ROOT, "wrong"));
    assert_eq!(wrong.receive(), "1 bind invalidCredentials");
    let mut client = running.connect_root();
    for (id, base, answers) in [
        (2, "dc=example,dc=org", 2),
        (3, "dc=example,dc=org", 2),
        (4, "ou=no,dc=example,dc=org", 1),
    ] {
        client.send(&search(id, base, Scope::Base));
        (0..answers).for_each(|_| drop(client.receive()));
    }
    client.send(&add(5, "one", 0));
    assert_eq!(client.receive(), "5 add success");
    (client, wrong)
}

fn check_counts(running: &Running) {
    let _clients = ask(running);
    let total = "roster_operations_total";
    running.check_metric(total, r#"{op="bind",result="success"}"#, "1");
    running.check_metric(total, r#"{op="bind",result="invalidCredentials"}"#, "1");
    running.check_metric(total, r#"{op="search",result="success"}"#, "2");
    running.check_metric(total, r#"{op="search",result="noSuchObject"}"#, "1");
    running.check_metric(total, r#"{op="add",result="success"}"#, "1");
    running.check_metric(total, r#"{op="delete",result="success"}"#, "0");
    running.check_metric("roster_bind_failures_total", r#"{result="invalidCredentials"}"#, "1");
    running.check_metric("roster_search_entries_total", "", "2");
    let duration = "roster_operation_duration_seconds";
    running.check_metric(&format!("{duration}_count"), r#"{op="search"}"#, "3");
    running.check_metric(&format!("{duration}_bucket"), r#"{op="search",le="+Inf"}"#, "3");
    running.check_metric(&format!("{duration}_bucket"), r#"{op="search",le="67.108864"}"#, "3");
    running.check_metric(&format!("{duration}_count"), r#"{op="compare"}"#, "0");
    running.check_metric("roster_connections", r#"{listener="ldap"}"#, "2");
    running.check_metric("roster_connections_total", r#"{listener="ldaps"}"#, "0");
    running.check_metric("roster_entries", "", "2");
    // A flush may have come meanwhile.
    assert_eq!(running.metric("roster_overlay_layers").len(), 1);
    running.check_metric("roster_journal_failed", "", "0");
    assert_ne!(running.metric("roster_journal_syncs_total")[""], "0");
    assert_ne!(running.metric("roster_journal_sync_seconds_total")[""], "0");
    let expires = &running.metric("roster_certificate_expiry_timestamp_seconds")[""];
    assert!(expires.parse::<u64>().unwrap() > 1_800_000_000, "{expires}");
}

#[test]
fn requests_are_counted_by_operation_and_result() {
    check_counts(&Running::start());
}

#[test]
fn they_are_counted_without_an_access_log_too() {
    check_counts(&Running::with(|settings| settings.access_log.format = "off"));
}

#[test]
fn who_leaves_and_who_is_refused_is_counted() {
    let running = Running::with(|settings| settings.limits.connections_max = 1);
    let mut client = running.connect_root();
    let mut refused = running.connect();
    assert_eq!(refused.receive(), "0 notice busy too many connections");
    running.check_metric("roster_connections_refused_total", r#"{listener="ldap"}"#, "1");
    client.send(&request(9, Request::Unbind));
    assert_eq!(client.receive(), "closed");
    running.check_metric("roster_operations_total", r#"{op="unbind",result="none"}"#, "1");
}

#[test]
fn the_same_figures_are_in_cn_monitor() {
    let running = Running::start();
    let (mut client, _wrong) = ask(&running);
    let found = client.subtree("cn=operations,cn=monitor");
    let searches = &found["cn=search,cn=operations,cn=monitor"];
    assert_eq!(searches["roster-operation-results"], ["success 2", "noSuchObject 1"]);
    assert_eq!(searches["roster-operation-count"], ["3"]);
    assert_eq!(searches["roster-operation-answered"], ["3"]);
    for number in ["time-us", "p50-us", "p99-us"] {
        assert!(searches[&format!("roster-operation-{number}")][0].parse::<u64>().is_ok());
    }
    let of_bucket = |text: &String| text.split_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(searches["roster-operation-times"].iter().map(of_bucket).sum::<u64>(), 3);
    let top = &found["cn=operations,cn=monitor"];
    assert_eq!(top["roster-operation-count"], ["6"]);
    assert_eq!(top["roster-bind-failures"], ["invalidCredentials 1"]);
    assert_eq!(top["roster-search-entries"], ["2"]);
    // Every branch, from the tree's top.
    let all = client.subtree("cn=monitor");
    let number = |name: &str, attribute: &str| all[name][attribute][0].parse::<i64>().unwrap();
    assert_eq!(number("cn=connections,cn=monitor", "roster-connections-open"), 2);
    assert_eq!(number("cn=ldap,cn=connections,cn=monitor", "roster-connections-open"), 2);
    assert!(number("cn=write,cn=work,cn=monitor", "roster-queue-limit") > 0);
    assert!(!all.contains_key("cn=read,cn=work,cn=monitor"), "alone no read waits");
    assert!(number("cn=store,cn=monitor", "roster-database-map-bytes") > 1 << 30);
    assert_eq!(number("cn=store,cn=monitor", "roster-store-entries"), 2);
    assert!(number("cn=journal,cn=monitor", "roster-journal-written-bytes") > 0);
    assert!(number("cn=process,cn=monitor", "roster-process-cpu-us") > 0);
    assert!(number("cn=process,cn=monitor", "roster-process-resident-bytes") > 0);
    assert!(number("cn=tls,cn=monitor", "roster-tls-days") > 300);
    assert_eq!(number("cn=access,cn=logs,cn=monitor", "roster-log-failed"), 0);
    // What the page says is there.
    let attributes = all.values().flat_map(BTreeMap::keys).collect::<Vec<_>>();
    for name in crate::metrics::attributes().filter(|name| !name.ends_with("-bind-failures")) {
        // It is no member of one, archives nothing, and has no sinks.
        if ["roster-cluster-", "roster-archive-", "roster-sink-"]
            .iter()
            .any(|part| name.starts_with(part))
        {
            continue;
        }
        assert!(attributes.contains(&&name), "{name}");
    }
    // Nobody else sees them.
    let mut anonymous = running.connect();
    anonymous.send(&search(7, "cn=operations,cn=monitor", Scope::Base));
    assert_eq!(anonymous.receive(), "7 done noSuchObject");
}

#[test]
fn how_often_an_index_was_asked_is_told() {
    let running = Running::start();
    let mut client = running.connect_root();
    let lookups = |running: &Running, index: &str| {
        let found = running.metric("roster_index_lookups_total");
        found.get(&format!("{{index=\"{index}\"}}")).map(|count| count.parse::<u64>().unwrap())
    };
    let before = lookups(&running, "uid.equality").unwrap();
    for id in 2..5 {
        client.send(&search_by(id, "dc=example,dc=org", Scope::Subtree, "(uid=nobody)"));
        assert_eq!(client.receive(), format!("{id} done success"));
    }
    assert_eq!(lookups(&running, "uid.equality"), Some(before + 3));
    assert_eq!(lookups(&running, "displayName.substring"), Some(0), "nobody uses it");
    let found = client.subtree("cn=uid.equality,cn=index,cn=monitor");
    let index = &found["cn=uid.equality,cn=index,cn=monitor"];
    assert_eq!(index["roster-index-lookup-count"], [(before + 3).to_string()]);
    let found = client.subtree("cn=store,cn=monitor");
    let texts = &found["cn=store,cn=monitor"]["roster-index-lookups"];
    assert!(texts.contains(&format!("uid.equality {}", before + 3)), "{texts:?}");
}
