//! An explained search as text: what was asked, the plan as a tree, and what to do about it.
//!
//! Invariant: nothing but what the server said is told; numbers have their unit.

use std::fmt;

use directory::explanation::{Aliases, Order, Report, Term, Tested};

use crate::table::{Side, Table, dash, number, shortened};

/// An explanation as text.
pub(crate) struct Text<'r>(pub(crate) &'r Report);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = if self.0.base.is_empty() { "the root" } else { &self.0.base };
        writeln!(f, "search      {base}, {}", scope_words(&self.0.scope))?;
        writeln!(f, "filter      {}", self.0.filter)?;
        if let Some(aliases) = &self.0.aliases {
            writeln!(f, "aliases     {}", aliases_words(aliases))?;
        }
        if let Some(only) = self.0.subentries {
            let words = if only { "no other entries are shown" } else { "none are shown" };
            writeln!(f, "subentries  {words}")?;
        }
        if let Some(order) = &self.0.order {
            writeln!(f, "order       {}", order_words(order))?;
        }
        writeln!(f, "candidates  {}", self.candidates_words())?;
        writeln!(f, "matching    {}", self.matching_words())?;
        let (planned, tested) = (time(self.0.time_us), time(self.0.tested.time_us));
        writeln!(f, "time        {planned} to plan, {tested} to read and test candidates\n")?;
        self.tree().fmt(f)?;
        for line in self.conclusions() {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

impl Text<'_> {
    fn candidates_words(&self) -> String {
        let entries = number(self.0.entries);
        let by = match (&self.0.plan.source[..], self.0.indexed) {
            _ if self.0.exact => "and none needs a test",
            ("undefined", _) => "as the schema has no answer",
            (_, true) => "each is tested",
            (_, false) => "no index helps, each is tested",
        };
        match self.0.candidates {
            Some(count) => format!("{} of {entries} entries, {by}", number(count)),
            None => format!("all {entries} entries: {by}"),
        }
    }

    fn matching_words(&self) -> String {
        let Tested { entries, matching, complete, .. } = &self.0.tested;
        let matching = number(*matching);
        if *complete {
            return matching;
        }
        format!("{matching} among the first {} candidates", number(*entries))
    }

    fn tree(&self) -> Table {
        let shows_tests =
            !self.0.exact && self.0.tested.entries > 0 && !self.0.tested.terms.is_empty();
        let mut table = Table::new(&[
            ("part of the filter", Side::Left),
            ("index", Side::Left),
            ("keys", Side::Right),
            ("candidates", Side::Right),
            ("exact", Side::Left),
            ("read", Side::Right),
            ("time", Side::Right),
        ]);
        if shows_tests {
            table.column("match", Side::Right);
        }
        self.row(&mut table, &self.0.plan, "", "", shows_tests);
        let scope = &self.0.scope_plan;
        let used = if scope.used { "tree" } else { "–" };
        let count = scope.entries.map_or_else(dash, number);
        let text = format!("scope {}", scope.scope);
        table.row(vec![text, used.to_owned(), dash(), count, dash(), dash(), dash()]);
        table
    }

    /// Recurses as deep as the filter is, which the server's decoding limits.
    fn row(&self, table: &mut Table, term: &Term, first: &str, rest: &str, shows_tests: bool) {
        let text = if term.children.is_empty() {
            shortened(&term.filter, FILTER_WIDTH_MAX)
        } else {
            match term.operator.as_str() {
                "and" => "and, all of".to_owned(),
                "or" => "or, any of".to_owned(),
                "not" => "not".to_owned(),
                other => other.to_owned(),
            }
        };
        let source = match (&term.index, term.source.as_str()) {
            (Some(index), _) => index.clone(),
            (None, "none") => "none".to_owned(),
            (None, "undefined") => "undefined".to_owned(),
            (None, "everything") => "every entry".to_owned(),
            (None, _) => dash(),
        };
        let exact = if term.exact { "yes" } else { "no" };
        let mut cells = vec![
            format!("{first}{text}"),
            source,
            term.keys.filter(|_| term.skipped.is_none()).map_or_else(dash, number),
            term.candidates.map_or_else(dash, number),
            if term.candidates.is_some() { exact.to_owned() } else { dash() },
            term.order.map_or_else(dash, |order| order.to_string()),
            if term.order.is_some() || term.time_us > 0 { time(term.time_us) } else { dash() },
        ];
        if shows_tests {
            let tested = self.0.tested.terms.iter().find(|tested| tested.filter == term.filter);
            let count = tested.map(|tested| tested.matching);
            let is_root = std::ptr::eq(term, &self.0.plan);
            let count = count.or(is_root.then_some(self.0.tested.matching));
            cells.push(count.map_or_else(dash, number));
        }
        if let Some(why) = &term.skipped {
            cells.push(format!("not read: {why}"));
        }
        table.row(cells);
        let last = term.children.len().saturating_sub(1);
        for (at, child) in term.children.iter().enumerate() {
            let (branch, below) =
                if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (first, rest) = (format!("{rest}{branch}"), format!("{rest}{below}"));
            self.row(table, child, &first, &rest, shows_tests);
        }
    }

    /// What it comes to, one line each.
    fn conclusions(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Tested { entries, matching, complete, .. } = self.0.tested;
        let is_empty = self.0.candidates == Some(0) || (complete && matching == 0);
        if is_empty {
            lines.push(match &self.0.killed_by {
                Some(term) => {
                    format!("Nothing matches because of {}.", shortened(term, FILTER_WIDTH_MAX))
                }
                None => "Nothing matches; no part of the filter alone is why.".to_owned(),
            });
        }
        if !self.0.indexed && entries > FEW_ENTRIES {
            let all = number(self.0.entries);
            lines.push(format!(
                "Slow: no index narrows this search, so all {all} entries are read."
            ));
        } else if let Some(candidates) = self.0.candidates
            && complete
            && candidates > FEW_ENTRIES
            && candidates / 10 > matching
        {
            let (candidates, matching) = (number(candidates), number(matching));
            lines.push(format!("{candidates} candidates are read to find {matching}."));
        }
        let mut helps = Vec::new();
        would_help(&self.0.plan, &mut helps);
        for (definition, filter) in helps {
            let filter = shortened(filter, FILTER_WIDTH_MAX);
            lines.push(format!("An index would help {filter}:  roster index add '{definition}'"));
        }
        if let Some(Order { keys, would_help: Some(definition), .. }) = &self.0.order {
            lines.push(format!(
                "An index would help the order by {keys}:  roster index add '{definition}'"
            ));
        }
        lines
    }
}

fn order_words(Order { keys, by, index, reason, .. }: &Order) -> String {
    let way = match (index, by.as_str()) {
        (Some(index), _) => format!("by {keys}: {index} is walked in its order"),
        (None, "memory") => format!("by {keys}: sorted in memory"),
        (None, _) => "none".to_owned(),
    };
    match reason {
        Some(reason) => format!("{way}; {reason}"),
        None => way,
    }
}

fn aliases_words(aliases: &Aliases) -> String {
    let when = match aliases.followed.as_str() {
        "find" => "followed to find the base",
        "search" => "followed in the scope",
        _ => "followed to find the base and in the scope",
    };
    match aliases.regions {
        Some(1) => format!("{when}; the scope has 1 part"),
        Some(count) => format!("{when}; the scope has {} parts", number(count)),
        None => when.to_owned(),
    }
}

/// The indexes that would help, each once.
fn would_help<'r>(term: &'r Term, found: &mut Vec<(&'r str, &'r str)>) {
    if let Some(definition) = &term.would_help
        && !found.iter().any(|(known, _)| known == definition)
    {
        found.push((definition, &term.filter));
    }
    for child in &term.children {
        would_help(child, found);
    }
}

/// A time with the unit that suits it.
#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

fn scope_words(scope: &str) -> &str {
    match scope {
        "base" => "that entry only",
        "one" => "one level below",
        "sub" => "with all below",
        "subordinate" => "all below",
        other => other,
    }
}

/// Characters of a part of a filter shown in the tree; `--json` has all.
const FILTER_WIDTH_MAX: usize = 48;
/// So many entries are read in no time.
const FEW_ENTRIES: u64 = 100;

#[cfg(test)]
mod tests;
