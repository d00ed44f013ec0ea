//! The list of indexes: the columns that `list-index-status` of OpenDJ has, and more.

use std::collections::BTreeMap;

use client::{Connection, FoundEntry};
use ldap::message::Scope;
use serde::Serialize;

use super::{STATUS, read};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{Side, Table, number};

/// What the server tells of one index.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Status {
    pub(super) name: String,
    pub(super) definition: String,
    /// valid, building or dropping
    pub(super) state: String,
    keys: Option<u64>,
    ids: Option<u64>,
    bytes: Option<u64>,
    /// Keys, ids and bytes were estimated.
    is_estimate: bool,
    /// Entries in it so far, while it is built.
    pub(super) done: Option<u64>,
    pub(super) total: Option<u64>,
    /// How often it was asked since the server was started.
    lookups: Option<u64>,
    /// Keys that most entries have.
    popular: Vec<Popular>,
}

#[derive(Clone, Debug, Serialize)]
struct Popular {
    key: String,
    ids: u64,
}

impl Status {
    fn of(entry: &FoundEntry) -> Option<Self> {
        let count = |name: &str| entry.text(name).and_then(|text| text.parse().ok());
        let progress = entry.text("roster-index-progress").and_then(|text| text.split_once('/'));
        let popular = entry.texts("roster-index-popular").filter_map(|line| {
            let (ids, key) = line.split_once(' ')?;
            Some(Popular { key: key.to_owned(), ids: ids.parse().ok()? })
        });
        let is_estimate = entry.text("roster-index-is-estimate") == Some("TRUE");
        Some(Self {
            name: entry.text("roster-index-name")?.to_owned(),
            definition: entry.text("roster-index-definition").unwrap_or_default().to_owned(),
            state: entry.text("roster-index-state").unwrap_or("valid").to_owned(),
            keys: count("roster-index-keys"),
            ids: count("roster-index-ids"),
            bytes: count("roster-index-bytes"),
            is_estimate,
            done: progress.and_then(|(done, _)| done.parse().ok()),
            total: progress.and_then(|(_, total)| total.parse().ok()),
            lookups: count("roster-index-lookup-count"),
            popular: popular.collect(),
        })
    }

    pub(super) fn is_valid(&self) -> bool {
        self.state == "valid"
    }

    /// Whether the user means this index by `text`.
    pub(super) fn is_named(&self, text: &str) -> bool {
        self.name.eq_ignore_ascii_case(text) || self.definition.eq_ignore_ascii_case(text)
    }

    /// The name without its kind, and the kind.
    fn parts(&self) -> (&str, &str) {
        self.name.split_once('.').unwrap_or((&self.name, ""))
    }

    fn state_words(&self) -> String {
        match (self.done, self.total) {
            (Some(done), Some(total)) if !self.is_valid() && total > 0 => {
                format!("{} {} %", self.state, done.saturating_mul(100) / total)
            }
            _ => self.state.clone(),
        }
    }
}

/// All indexes, by name.
pub(super) fn list(connection: &mut Connection) -> Result<Vec<Status>, Failure> {
    look(connection).map(|(all, _)| all)
}

/// How often each index was asked since the server was started, by its definition in small letters.
pub(crate) fn lookups(connection: &mut Connection) -> Result<BTreeMap<String, u64>, Failure> {
    let told = |one: Status| one.lookups.map(|count| (one.definition.to_ascii_lowercase(), count));
    Ok(list(connection)?.into_iter().filter_map(told).collect())
}

/// All indexes, by name, and how many changes they do not count.
fn look(connection: &mut Connection) -> Result<(Vec<Status>, Option<u64>), Failure> {
    let entries = read(connection, STATUS, Scope::Subtree, &["*", "+"])?;
    let mut all: Vec<Status> = entries.iter().filter_map(Status::of).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let changes = entries.iter().find_map(|entry| entry.text("roster-index-changes-not-counted"));
    Ok((all, changes.and_then(|text| text.parse().ok())))
}

/// Those that are asked for; each must be there.
pub(super) fn only(all: Vec<Status>, asked: &[String]) -> Result<Vec<Status>, Failure> {
    if let Some(missing) = asked.iter().find(|name| !all.iter().any(|one| one.is_named(name))) {
        return Err(Failure::refused(format!("there is no index '{missing}'"))
            .hint("'roster index status' lists all"));
    }
    let is_asked = |one: &Status| asked.is_empty() || asked.iter().any(|name| one.is_named(name));
    Ok(all.into_iter().filter(is_asked).collect())
}

/// Prints the list.
pub(crate) fn run(
    connection: &mut Connection,
    asked: &[String],
    shows_popular: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let (all, not_counted) = look(connection)?;
    let all = only(all, asked)?;
    if json {
        output::json(&all)?;
    } else {
        output::line(format_args!("{}", text(&all, shows_popular, not_counted)))?;
    }
    Ok(Exit::Done)
}

fn text(all: &[Status], shows_popular: bool, not_counted: Option<u64>) -> String {
    let mut table = Table::new(&[
        ("index", Side::Left),
        ("type", Side::Left),
        ("valid", Side::Left),
        ("records", Side::Right),
        ("entries", Side::Right),
        ("size", Side::Right),
        ("look-ups", Side::Right),
        ("undefined", Side::Right),
        ("95 %", Side::Right),
        ("90 %", Side::Right),
        ("85 %", Side::Right),
    ]);
    for one in all {
        let mark = if one.is_estimate { "~" } else { "" };
        let count = |count: Option<u64>| {
            count.map_or_else(|| "–".to_owned(), |count| format!("{mark}{}", number(count)))
        };
        let size =
            one.bytes.map_or_else(|| "–".to_owned(), |size| format!("{mark}{}", bytes(size)));
        let (attribute, kind) = one.parts();
        let valid = if one.is_valid() { "yes".to_owned() } else { one.state_words() };
        let mut cells = vec![attribute.to_owned(), kind.to_owned(), valid];
        let lookups = one.lookups.map_or_else(|| "–".to_owned(), number);
        cells.extend([count(one.keys), count(one.ids), size, lookups]);
        cells.extend(std::iter::repeat_n("–".to_owned(), 4));
        table.row(cells);
        if shows_popular {
            for popular in &one.popular {
                let text = format!("  {}", popular.key);
                let mut cells = vec![text, String::new(), String::new(), String::new()];
                cells.push(number(popular.ids));
                table.row(cells);
            }
        }
    }
    let keys: u64 = all.iter().filter_map(|one| one.keys).sum();
    let size: u64 = all.iter().filter_map(|one| one.bytes).sum();
    let estimated = if all.iter().any(|one| one.is_estimate) { "\n~: estimated" } else { "" };
    let since = match not_counted {
        None | Some(0) => String::new(),
        Some(changes) => format!("; {} changes since are not counted", number(changes)),
    };
    format!(
        "{table}\n{} indexes, {} records, {}, as of the last flush{since}\nrecords: keys; entries: \
         ids over all keys; look-ups: since the server was started{estimated}\n–: not needed, keys \
         have no entry limit",
        all.len(),
        number(keys),
        bytes(size)
    )
}

/// A size with the unit that suits it.
#[allow(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn bytes(size: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = size as f64 / 1024.0;
    for unit in units {
        if value < 1000.0 || unit == "TiB" {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pairs: &[(&str, &[&str])]) -> FoundEntry {
        let attributes = pairs.iter().map(|(name, values)| {
            let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
            ((*name).to_owned(), values)
        });
        FoundEntry { dn: String::new(), attributes: attributes.collect() }
    }

    fn two() -> Vec<Status> {
        let valid = entry(&[
            ("roster-index-name", &["uid.equality"]),
            ("roster-index-definition", &["equality uid"]),
            ("roster-index-state", &["valid"]),
            ("roster-index-keys", &["100000"]),
            ("roster-index-ids", &["100000"]),
            ("roster-index-bytes", &["3355443"]),
            ("roster-index-lookup-count", &["1234"]),
            ("roster-index-popular", &["7 user.1", "bad"]),
        ]);
        let building = entry(&[
            ("roster-index-name", &["l+title.equality"]),
            ("roster-index-definition", &["equality l with title"]),
            ("roster-index-state", &["building"]),
            ("roster-index-keys", &["42"]),
            ("roster-index-bytes", &["2048"]),
            ("roster-index-is-estimate", &["TRUE"]),
            ("roster-index-progress", &["30000/100000"]),
        ]);
        [valid, building].iter().filter_map(Status::of).collect()
    }

    #[test]
    fn the_list_has_the_columns_of_list_index_status() {
        let want = "\
index    type      valid          records  entries     size  look-ups  undefined  95 %  90 %  85 %
uid      equality  yes            100,000  100,000  3.2 MiB     1,234          –     –     –     –
  user.1                                         7
l+title  equality  building 30 %      ~42        –  ~2.0 KiB        –         –     –     –     –
";
        let text = text(&two(), true, Some(1_812));
        assert_eq!(squeezed(text.split("\n\n").next().unwrap()), squeezed(want.trim_end()));
        let sum = "\n2 indexes, 100,042 records, 3.2 MiB, as of the last flush; 1,812 changes \
                   since are not counted\n";
        assert!(text.contains(sum), "{text}");
        assert!(text.ends_with("–: not needed, keys have no entry limit"), "{text}");
    }

    fn squeezed(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn an_index_is_named_either_way() {
        for name in ["uid.equality", "UID.equality", "equality uid"] {
            let found = only(two(), &[name.to_owned()]).unwrap();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].name, "uid.equality");
        }
        let failure = only(two(), &["sn.equality".to_owned()]).unwrap_err();
        assert_eq!(failure.message, "there is no index 'sn.equality'");
        assert_eq!(only(two(), &[]).unwrap().len(), 2);
    }
}
