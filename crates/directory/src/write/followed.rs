//! Branches that follow another server: `NAME: from URL [refer] session SESSION at POSITION below
//! DN`, in `cn=Following,cn=config`. Who follows writes down there how far it is.
//!
//! Invariant: requests change what is in such a branch only if they come from its session, which
//! names itself in a control. Beside them, the server changes it where it notes logins, and where
//! values of it name entries elsewhere that are renamed or deleted (referential integrity,
//! assignments).
//! Invariant: a session that lost its branch, to another one or to the end of following, changes
//! nothing any more.

use ldap::result::ResultCode;
use schema::{DnKey, Schema};

use crate::lines::Line;
use crate::lines::scanner::{Parsed, Scanner, wrong};
use crate::request::refusal::Refusal;
use crate::write::request::WriteOp;

/// The setting with the branches.
pub(crate) const FOLLOWED: &str = "following";

/// A branch that follows another server.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The server.
    source: String,
    /// Clients are sent there with what they want to change.
    refers: bool,
    /// Who follows.
    session: String,
    /// The entry at the top, and its name as it is written.
    pub(crate) below: DnKey,
}

impl Line for Followed {
    const SETTING: &'static str = FOLLOWED;

    fn read(text: &str, schema: &Schema) -> Parsed<Self> {
        Self::parse(text, schema)
    }
}

impl Followed {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, schema: &Schema) -> Parsed<Self> {
        let (_, mut scanner) = Scanner::begin(text, "followed branch", EXAMPLE)?;
        let source = after(&mut scanner, "from")?.to_owned();
        if !["ldap://", "ldaps://", "ldapi://"].iter().any(|it| source.starts_with(it)) {
            return wrong(format!("'{source}' is no URL of a server"));
        }
        let refers = scanner.takes("refer");
        let session = after(&mut scanner, "session")?.to_owned();
        // Where it is means something to who follows alone.
        after(&mut scanner, "at")?;
        let place = scanner.place(schema)?;
        match (place.below, place.filter) {
            (Some(below), None) if !session.is_empty() => {
                Ok(Self { source, refers, session, below })
            }
            _ => wrong(format!("it ends with 'below DN', as in 'a-name: {EXAMPLE}'")),
        }
    }

    fn refusal(&self) -> Refusal {
        if self.refers {
            let why = "the branch follows another server, which takes the changes";
            let refusal = Refusal::new(ResultCode::Referral, why);
            return Refusal { referrals: vec![self.source.clone()], ..refusal };
        }
        Refusal::new(
            ResultCode::UnwillingToPerform,
            format!(
                "the branch follows {}: make the change there, until 'roster follow --cut-over' \
                 has ended that",
                self.source
            ),
        )
    }
}

/// The word behind this one.
fn after<'t>(scanner: &mut Scanner<'t>, word: &str) -> Parsed<&'t str> {
    match scanner.takes(word) {
        true => Ok(scanner.word()),
        false => wrong(format!("'{word}' is expected, as in 'a-name: {EXAMPLE}'")),
    }
}

/// Refuses what would change a branch that follows another server, unless its session asks for it;
/// and what a session asks for that is not all within a branch of its own.
pub(crate) fn check(
    all: &[Followed],
    session: Option<&str>,
    op: &WriteOp,
    schema: &Schema,
) -> Result<(), Refusal> {
    if session.is_none() && all.is_empty() {
        return Ok(());
    }
    let (key, new) = match op {
        WriteOp::Add(op) => (&op.key, None),
        WriteOp::ModifyDn(op) => (&op.key, Some(op.new_key(schema)?)),
        other => match other.target() {
            Some((_, key)) => (key, None),
            None => return Ok(()),
        },
    };
    let takes_all_below = matches!(op, WriteOp::ModifyDn(_) | WriteOp::SubtreeDelete(_));
    let Some(name) = session else {
        // What comes to a place above a branch may bring something into the place of the branch.
        let touches = |one: &&Followed| {
            key.is_within(&one.below)
                || (takes_all_below && one.below.is_within(key))
                || new
                    .as_ref()
                    .is_some_and(|new| new.is_within(&one.below) || one.below.is_within(new))
        };
        return all.iter().find(touches).map_or(Ok(()), |one| Err(one.refusal()));
    };
    let mut own = all.iter().filter(|one| one.session == name).peekable();
    if own.peek().is_none() {
        return Err(lost());
    }
    // So the top keeps its name, and nothing above it changes.
    let holds = |one: &Followed| {
        key.is_within(&one.below) && new.as_ref().is_none_or(|new| new.is_within(&one.below))
    };
    match own.any(holds) {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the session follows in another branch",
        )),
    }
}

fn lost() -> Refusal {
    let why = "the session does not follow here any more: another one does, or following has ended";
    Refusal::new(ResultCode::UnwillingToPerform, why)
}

/// A line, without its name.
const EXAMPLE: &str = "from ldap://old.example.com session 1f0c at - below dc=example,dc=com";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_server_session_and_branch() {
        let schema = Schema::builtin();
        let read = Followed::parse(&format!("old: {EXAMPLE}"), &schema).unwrap();
        assert_eq!((&*read.source, &*read.session), ("ldap://old.example.com", "1f0c"));
        assert_eq!(read.refusal().code, ResultCode::UnwillingToPerform);
        let text = "old: from ldaps://h refer session s at cmlkPTAwMA== below ou=a b,dc=x";
        let read = Followed::parse(text, &schema).unwrap();
        assert_eq!(read.below, DnKey::from_text(&schema, "ou=a b,dc=x").unwrap());
        assert_eq!(read.refusal().referrals, ["ldaps://h"]);
    }

    #[test]
    fn what_is_no_followed_branch_is_refused_with_the_reason() {
        let schema = Schema::builtin();
        for (text, why) in [
            ("from ldap://h", "its name is up to 64"),
            ("a: ldap://h session s at - below dc=x", "'from' is expected"),
            ("a: from http://h session s at - below dc=x", "'http://h' is no URL"),
            ("a: from ldap://h at - below dc=x", "'session' is expected"),
            ("a: from ldap://h session s below dc=x", "'at' is expected"),
            ("a: from ldap://h session s at - below dc", "'dc'"),
            ("a: from ldap://h session s at - where (cn=a)", "it ends with 'below DN'"),
            ("a: from ldap://h session s at - below dc=x where (cn=a)", "it ends with 'below DN'"),
        ] {
            let error = Followed::parse(text, &schema).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
