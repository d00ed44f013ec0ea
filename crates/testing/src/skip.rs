//! Known differences of a peer: `script.ldap: dialogue title  # reason`, one a line.
//!
//! Invariant: the list is exact. A dialogue that fails unlisted and a listed one that passes or
//! does not exist are both errors, so the list cannot rot. Only where the reason begins with `at
//! times: `, because the peer answers now so and now so, passing is no error. A dialogue under
//! which the peer died says nothing of its answers, and is no error.

use std::collections::BTreeMap;
use std::path::Path;

use crate::run::Outcome;

/// Dialogues that a peer answers otherwise.
#[derive(Clone, Debug, Default)]
pub struct SkipList {
    /// Script and title, and whether it fails at times only.
    entries: BTreeMap<(String, String), bool>,
}

impl SkipList {
    /// Reads a list; a file that does not exist is an empty list.
    pub fn read(path: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|error| format!("{}:{error}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Parses the text of a list; the error starts with the line number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = line.split_once("  # ").and_then(|(name, reason)| {
                let (script, title) = name.split_once(": ")?;
                let at_times = reason.starts_with(AT_TIMES);
                let reason = reason.strip_prefix(AT_TIMES).unwrap_or(reason);
                (!reason.trim().is_empty()).then_some((script.trim(), title.trim(), at_times))
            });
            let Some((script, title, at_times)) = fields else {
                return Err(format!("{number}: want 'script.ldap: title  # reason'"));
            };
            if entries.insert((script.to_owned(), title.to_owned()), at_times).is_some() {
                return Err(format!("{number}: listed twice: {script}: {title}"));
            }
        }
        Ok(Self { entries })
    }

    /// How many dialogues are listed.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no dialogue is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All ways in which the outcomes disagree with the list, for a person to read.
    pub fn compare(&self, outcomes: &[Outcome]) -> Vec<String> {
        let mut errors = Vec::new();
        let mut unused = self.entries.clone();
        for outcome in outcomes {
            let key = (outcome.script.clone(), outcome.title.clone());
            let listed = unused.remove(&key);
            match &outcome.failure {
                Some(failure) if listed.is_none() && failure.died.is_none() => {
                    errors.push(format!("{}: {failure}", outcome.title));
                }
                None if listed == Some(false) => {
                    errors.push(format!("listed, but passes: {}: {}", key.0, key.1));
                }
                _ => {}
            }
        }
        for (script, title) in unused.into_keys() {
            errors.push(format!("listed, but there is no such dialogue: {script}: {title}"));
        }
        errors
    }
}

/// How the reason begins when a dialogue fails at times only.
const AT_TIMES: &str = "at times: ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Failure;

    #[test]
    fn what_fails_at_times_may_pass() {
        let list = SkipList::parse("a.ldap: one  # at times: busy").unwrap();
        for fails in [false, true] {
            assert_eq!(list.compare(&[outcome("one", fails)]), Vec::<String>::new());
        }
        assert!(SkipList::parse("a.ldap: one  # at times: ").is_err());
    }

    fn outcome(title: &str, fails: bool) -> Outcome {
        let failure = fails.then(|| Failure {
            path: "a.ldap".into(),
            line: 3,
            reason: "why".to_owned(),
            died: None,
        });
        Outcome { script: "a.ldap".to_owned(), title: title.to_owned(), failure }
    }

    #[test]
    fn a_peer_that_died_has_not_answered_otherwise() {
        let mut died = outcome("one", true);
        if let Some(failure) = &mut died.failure {
            failure.died = Some("signal: 6".to_owned());
        }
        assert_eq!(SkipList::default().compare(&[died]), Vec::<String>::new());
    }

    #[test]
    fn the_list_must_be_exact() {
        let list = SkipList::parse("# peer\n\na.ldap: one  # because\n").unwrap();
        assert!(list.compare(&[outcome("one", true), outcome("two", false)]).is_empty());
        assert_eq!(list.compare(&[outcome("one", true), outcome("two", true)]).len(), 1);
        assert_eq!(list.compare(&[outcome("one", false)]).len(), 1);
        assert_eq!(list.compare(&[]).len(), 1);
    }

    #[test]
    fn every_line_has_a_reason() {
        for text in
            ["a.ldap: one", "a.ldap: one  # ", "one  # why", "a.ldap: x  # a\na.ldap: x  # b"]
        {
            assert!(SkipList::parse(text).is_err(), "{text}");
        }
    }
}
