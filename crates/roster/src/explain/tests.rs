//! Explanations as text, to the letter.

use super::*;

const CONJUNCTION: &str = r#"{
  "base": "dc=example,dc=com", "scope": "sub",
  "filter": "(&(l=North*)(description=*x*)(uid=user.1*))",
  "indexed": true, "candidates": 1111, "exact": false, "killed_by": null, "time_us": 142,
  "entries": 100002, "new": "things are passed over",
  "plan": {"filter": "(&(l=North*)(description=*x*)(uid=user.1*))", "operator": "and",
    "source": "parts", "index": null, "keys": null, "candidates": 1111, "exact": false,
    "order": null, "skipped": null, "time_us": 142, "would_help": null, "children": [
    {"filter": "(l=North*)", "operator": "item", "source": "index", "index": "l.substring",
     "keys": 3, "candidates": 20411, "exact": true, "order": null,
     "skipped": "few", "time_us": 0, "would_help": null},
    {"filter": "(description=*x*)", "operator": "item", "source": "none", "index": null,
     "keys": null, "candidates": null, "exact": false, "order": null, "skipped": null,
     "time_us": 0, "would_help": "substring description"},
    {"filter": "(uid=user.1*)", "operator": "item", "source": "index", "index": "uid.substring",
     "keys": 4, "candidates": 1111, "exact": true, "order": 1, "skipped": null,
     "time_us": 38, "would_help": null}]},
  "scope_plan": {"scope": "sub", "entries": null, "used": false},
  "tested": {"entries": 1111, "matching": 12, "complete": true, "time_us": 2310, "terms": [
    {"filter": "(l=North*)", "matching": 230}, {"filter": "(description=*x*)", "matching": 57},
    {"filter": "(uid=user.1*)", "matching": 1111}]}
}"#;

#[track_caller]
fn check(json: &str, want: &str) {
    let report: Report = serde_json::from_str(json).unwrap();
    let text = Text(&report).to_string();
    assert_eq!(text, want, "\n{text}\n");
}

#[test]
fn a_conjunction_is_a_tree_with_counts_order_time_and_advice() {
    check(
        CONJUNCTION,
        "\
search      dc=example,dc=com, with all below
filter      (&(l=North*)(description=*x*)(uid=user.1*))
candidates  1,111 of 100,002 entries, each is tested
matching    12
time        142 µs to plan, 2.3 ms to read and test candidates

part of the filter    index          keys  candidates  exact  read    time  match
and, all of           –                 –       1,111  no        –  142 µs     12
├─ (l=North*)         l.substring       –      20,411  yes       –       –    230  not read: few
├─ (description=*x*)  none              –           –  –         –       –     57
└─ (uid=user.1*)      uid.substring     4       1,111  yes       1   38 µs  1,111
scope sub             –                 –           –  –         –       –

1,111 candidates are read to find 12.
An index would help (description=*x*):  roster index add 'substring description'",
    );
}

fn single(source: &str, count: &str, indexed: bool, tested: &str, killed_by: &str) -> String {
    let index = if source == "index" { r#""title.equality""# } else { "null" };
    let keys = if source == "index" { "1" } else { "null" };
    format!(
        r#"{{"base": "", "scope": "one", "filter": "(title=x)", "indexed": {indexed},
        "candidates": {count}, "exact": {indexed}, "killed_by": {killed_by}, "time_us": 9,
        "entries": 2000000, "plan": {{"filter": "(title=x)", "operator": "item",
        "source": "{source}", "index": {index}, "keys": {keys}, "candidates": {count},
        "exact": {indexed}, "order": 1, "skipped": null, "time_us": 9, "would_help": null}},
        "scope_plan": {{"scope": "one", "entries": 12, "used": true}}, "tested": {tested}}}"#
    )
}

#[test]
fn an_empty_answer_says_why() {
    let tested = r#"{"entries": 0, "matching": 0, "complete": true, "time_us": 0, "terms": []}"#;
    check(
        &single("index", "0", true, tested, r#""(title=x)""#),
        "\
search      the root, one level below
filter      (title=x)
candidates  0 of 2,000,000 entries, and none needs a test
matching    0
time        9 µs to plan, 0 µs to read and test candidates

part of the filter  index           keys  candidates  exact  read  time
(title=x)           title.equality     1           0  yes       1  9 µs
scope one           tree               –          12  –         –     –

Nothing matches because of (title=x).",
    );
}

#[test]
fn a_search_without_an_index_is_called_slow() {
    let tested =
        r#"{"entries": 20000, "matching": 3, "complete": false, "time_us": 1200345, "terms": []}"#;
    check(
        &single("none", "null", false, tested, "null"),
        "\
search      the root, one level below
filter      (title=x)
candidates  all 2,000,000 entries: no index helps, each is tested
matching    3 among the first 20,000 candidates
time        9 µs to plan, 1.2 s to read and test candidates

part of the filter  index  keys  candidates  exact  read  time
(title=x)           none      –           –  –         1  9 µs
scope one           tree      –          12  –         –     –

Slow: no index narrows this search, so all 2,000,000 entries are read.",
    );
}

#[test]
fn numbers_have_commas_and_times_units() {
    for (value, want) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
        assert_eq!(number(value), want);
    }
    for (us, want) in [(7, "7 µs"), (1500, "1.5 ms"), (2_000_000, "2.0 s")] {
        assert_eq!(time(us), want);
    }
    let long = format!("(cn={})", "x".repeat(100));
    assert_eq!(shortened(&long, FILTER_WIDTH_MAX).chars().count(), FILTER_WIDTH_MAX);
}
