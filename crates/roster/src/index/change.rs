//! Adding, dropping and rebuilding indexes: each is a modification of the entry of the attribute
//! below `cn=Index,cn=config`.

use std::time::Duration;

use client::{Connection, Outcome};
use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

use super::status::{self, Status};
use super::verify::escaped;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress;

/// What to do with an index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    Add,
    /// As `Add`, but one that is there is no reason to stop.
    AddMissing,
    Drop,
    Rebuild,
}

/// An index as the user wrote it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Definition {
    attribute: String,
    /// The text of its definition, such as `substring description`.
    text: String,
}

impl Definition {
    /// From a definition (`equality l with title`) or a name (`l+title.equality`); the server
    /// decides whether it makes sense.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let bad = || {
            Failure::local(format!("'{text}' is not an index"))
                .hint("write 'substring description' or description.substring")
        };
        let (head, condition) = match text.split_once(" where ") {
            Some((head, condition)) => (head.trim(), format!(" where {}", condition.trim())),
            None => (text.trim(), String::new()),
        };
        let mut words = head.split_whitespace();
        let (first, second) = (words.next().ok_or_else(bad)?, words.next());
        if let Some(attribute) = second {
            if !KINDS.contains(&first.to_ascii_lowercase().as_str()) {
                return Err(bad().hint(format!("the first word is one of {}", KINDS.join(", "))));
            }
            return Ok(Self { attribute: attribute.to_owned(), text: text.trim().to_owned() });
        }
        let (attributes, kind) = first.split_once('.').ok_or_else(bad)?;
        let (kind, rule) = kind.split_once('.').map_or((kind, ""), |(kind, rule)| (kind, rule));
        if attributes.is_empty() || !KINDS.contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(bad());
        }
        let (attribute, with) = attributes.split_once('+').unwrap_or((attributes, ""));
        let mut text = format!("{kind} {attribute}");
        if !rule.is_empty() {
            text.push(' ');
            text.push_str(rule);
        }
        if !with.is_empty() {
            text.push_str(" with ");
            text.push_str(with);
        }
        text.push_str(&condition);
        Ok(Self { attribute: attribute.to_owned(), text })
    }

    /// What an index of all values by equality comes with: a list of the entries that have one
    /// takes next to nothing, and programs that enumerate ask for it.
    fn presence(&self) -> Option<Self> {
        let (kind, attribute) = self.text.split_once(' ')?;
        let is_plain = kind.eq_ignore_ascii_case("equality") && attribute.trim() == self.attribute;
        let text = format!("presence {}", self.attribute);
        is_plain.then(|| Self { attribute: self.attribute.clone(), text })
    }

    fn entry(&self) -> String {
        format!("ds-cfg-attribute={},{CONFIG}", escaped(&self.attribute))
    }
}

/// Makes the changes one by one.
pub(crate) fn run(
    connection: &mut Connection,
    what: What,
    definitions: &[Definition],
    waits: bool,
) -> Result<Exit, Failure> {
    let mut changed = definitions.to_vec();
    for definition in definitions {
        let outcome = match what {
            What::Add | What::AddMissing => add(connection, definition)?,
            What::Drop => drop_index(connection, definition)?,
            What::Rebuild => modify(connection, definition, ModifyOperation::Add, REBUILD)?,
        };
        let text = &definition.text;
        if what == What::AddMissing && outcome.code == ResultCode::AttributeOrValueExists {
            output::line(format_args!("there already  {text}"))?;
            continue;
        }
        explain(outcome, what, definition)?;
        match what {
            What::Add | What::AddMissing => output::line(format_args!("building  {text}"))?,
            What::Drop => output::line(format_args!("dropping  {text}"))?,
            What::Rebuild => output::line(format_args!("rebuilding  {text}"))?,
        }
        if matches!(what, What::Add | What::AddMissing)
            && let Some(presence) = definition.presence()
            && add_if_missing(connection, &presence)?
        {
            output::line(format_args!("building  {} (comes with it)", presence.text))?;
            changed.push(presence);
        }
    }
    if waits {
        wait(connection, &changed)
    } else {
        output::note(format_args!("roster: note: 'roster index status' shows the progress"));
        Ok(Exit::Done)
    }
}

/// Adds indexes where they are missing, each with that of presence that comes with it, and waits
/// for them; tells of each whether it was missing, or why it was refused.
pub(crate) fn ensure<'t>(
    connection: &mut Connection,
    texts: impl Iterator<Item = &'t str>,
) -> Result<Vec<Result<bool, String>>, Failure> {
    let (mut outcomes, mut added) = (Vec::new(), Vec::new());
    for text in texts {
        let definition = Definition::parse(text)?;
        let outcome = add(connection, &definition)?;
        outcomes.push(match outcome.code {
            ResultCode::Success => Ok(true),
            ResultCode::AttributeOrValueExists => Ok(false),
            _ => Err(outcome.to_string()),
        });
        if outcome.is_success() {
            let presence = definition.presence();
            added.push(definition);
            if let Some(presence) = presence
                && add_if_missing(connection, &presence)?
            {
                added.push(presence);
            }
        }
    }
    if !added.is_empty() {
        wait(connection, &added)?;
    }
    Ok(outcomes)
}

fn modify(
    connection: &mut Connection,
    definition: &Definition,
    operation: ModifyOperation,
    attribute: &str,
) -> Result<Outcome, Failure> {
    let values: &[&str] = &[&definition.text];
    Ok(connection.modify(&definition.entry(), &[(operation, attribute, values)])?)
}

/// Into the entry of the attribute; where there is none yet, with a new one.
fn add(connection: &mut Connection, definition: &Definition) -> Result<Outcome, Failure> {
    let outcome = modify(connection, definition, ModifyOperation::Add, DEFINITION)?;
    if outcome.code != ResultCode::NoSuchObject {
        return Ok(outcome);
    }
    let classes: &[&str] = &["top", "ds-cfg-backend-index"];
    Ok(connection.add(
        &definition.entry(),
        &[
            ("objectClass", classes),
            ("ds-cfg-attribute", &[&definition.attribute]),
            (DEFINITION, &[&definition.text]),
        ],
    )?)
}

/// Says whether it was not there.
fn add_if_missing(connection: &mut Connection, definition: &Definition) -> Result<bool, Failure> {
    let outcome = add(connection, definition)?;
    if outcome.code == ResultCode::AttributeOrValueExists {
        return Ok(false);
    }
    explain(outcome, What::Add, definition).map(|()| true)
}

/// Out of the entry of the attribute; the entry goes with its last index.
fn drop_index(connection: &mut Connection, definition: &Definition) -> Result<Outcome, Failure> {
    let outcome = modify(connection, definition, ModifyOperation::Delete, DEFINITION)?;
    if outcome.code == ResultCode::ObjectClassViolation {
        return Ok(connection.delete(&definition.entry())?);
    }
    Ok(outcome)
}

/// A refusal in the words of indexes.
fn explain(outcome: Outcome, what: What, definition: &Definition) -> Result<(), Failure> {
    let text = &definition.text;
    let failure = match (outcome.code, what) {
        (ResultCode::Success, _) => return Ok(()),
        (ResultCode::AttributeOrValueExists, What::Add) => {
            Failure::refused(format!("the index '{text}' already exists"))
                .hint("'roster index rebuild' rebuilds it")
        }
        (ResultCode::NoSuchObject | ResultCode::NoSuchAttribute, What::Drop | What::Rebuild) => {
            Failure::refused(format!("there is no index '{text}'"))
                .hint("'roster index status' lists all")
        }
        _ => {
            let operation = match what {
                What::Add | What::AddMissing => "new index",
                What::Drop => "dropping of the index",
                What::Rebuild => "rebuilding of the index",
            };
            match outcome.into_result(operation) {
                Ok(()) => return Ok(()),
                Err(error) => error.into(),
            }
        }
    };
    Err(failure)
}

/// Waits until none of the indexes with these definitions is under way.
pub(crate) fn wait_for(connection: &mut Connection, texts: &[String]) -> Result<(), Failure> {
    let all = texts.iter().map(|text| Definition::parse(text)).collect::<Result<Vec<_>, _>>()?;
    wait(connection, &all).map(drop)
}

/// Until none of them is under way.
fn wait(connection: &mut Connection, definitions: &[Definition]) -> Result<Exit, Failure> {
    let bar = progress::bar(Some(0), "entries");
    loop {
        let all = status::list(connection)?;
        let is_meant = |one: &&Status| {
            !one.is_valid() && definitions.iter().any(|asked| one.is_named(&asked.text))
        };
        let Some(open) = all.iter().find(is_meant) else { break };
        bar.set_message(open.state.clone());
        bar.set_length(open.total.unwrap_or(0));
        bar.set_position(open.done.unwrap_or(0));
        pause();
    }
    bar.finish_and_clear();
    Ok(Exit::Done)
}

/// A server can only be asked how far it is.
#[allow(clippy::disallowed_methods, reason = "waits for another process, which tells nothing")]
fn pause() {
    std::thread::sleep(ASK_EVERY);
}

/// Where entries change the indexes.
const CONFIG: &str = "cn=Index,cn=config";
/// The definitions in such an entry.
const DEFINITION: &str = "roster-index-definition";
/// A definition here is built anew.
const REBUILD: &str = "roster-index-rebuild";
/// How often the server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// The first words of definitions.
const KINDS: &[&str] =
    &["presence", "equality", "ordering", "substring", "approximate", "extensible"];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, attribute: &str, definition: &str) {
        let want = Definition { attribute: attribute.to_owned(), text: definition.to_owned() };
        assert_eq!(Definition::parse(text).unwrap(), want);
    }

    #[test]
    fn an_index_of_all_values_comes_with_that_of_presence() {
        let presence = |text| Definition::parse(text).unwrap().presence().map(|one| one.text);
        assert_eq!(presence("equality uid").as_deref(), Some("presence uid"));
        assert_eq!(presence("uid.equality").as_deref(), Some("presence uid"));
        for text in ["substring uid", "equality l with title", "equality uid where (l=x)"] {
            assert_eq!(presence(text), None, "{text}");
        }
    }

    #[test]
    fn an_index_is_written_as_a_definition_or_as_a_name() {
        check("substring description", "description", "substring description");
        check("description.substring", "description", "substring description");
        check("l+title.equality", "l", "equality l with title");
        check("equality l with title", "l", "equality l with title");
        check("cn.extensible.2.5.13.5", "cn", "extensible cn 2.5.13.5");
        check(
            "uid.equality where (objectClass=person)",
            "uid",
            "equality uid where (objectClass=person)",
        );
        check(
            "equality uid where (objectClass=person)",
            "uid",
            "equality uid where (objectClass=person)",
        );
        for bad in ["", "uid", "uid.", ".equality", "uid.equal", "equal uid"] {
            let failure = Definition::parse(bad).unwrap_err();
            assert!(failure.hint.is_some(), "{bad}: {failure:?}");
        }
    }
}
