//! What a dialogue script says, once parsed: dialogues, steps, requests and expectations.
//!
//! Invariant: a [`Script`] is complete: every step that gets an answer says which, every dialogue
//! has a title of its own and a fixture.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::parse;
pub use crate::template::Template;

/// One file of dialogues.
#[derive(Clone, Debug)]
pub struct Script {
    /// Where it was read from.
    pub path: PathBuf,
    /// The rule it shows: the first sentence of its leading comment.
    pub headline: String,
    /// In file order, never empty.
    pub dialogues: Vec<Dialogue>,
}

/// A titled sequence of steps that starts with a fresh directory.
#[derive(Clone, Debug)]
pub struct Dialogue {
    /// Unique in its script; skip lists use it.
    pub title: String,
    /// Line of the title, counted from 1.
    pub line: usize,
    /// The LDIF file the directory is filled from, a name in `data/` beside the scripts.
    pub fixture: String,
    /// In order; each is sent when the one before it was answered.
    pub steps: Vec<Step>,
}

/// One request and what must come back.
#[derive(Clone, Debug)]
pub struct Step {
    /// Line of the request, counted from 1.
    pub line: usize,
    /// The connection it is sent on; it is opened when first used.
    pub connection: String,
    /// Controls sent with the request.
    pub controls: Vec<ControlSpec>,
    /// What is sent.
    pub request: RequestSpec,
    /// What must come back; entries and references may come in any order.
    pub expected: Vec<Expected>,
}

/// A request control.
#[derive(Clone, Debug)]
pub enum ControlSpec {
    /// Any control, its value opaque.
    Plain {
        /// Its object identifier.
        oid: String,
        /// Whether the server must refuse what it does not know.
        critical: bool,
        /// Its value.
        value: Option<Template>,
    },
    /// Simple paged results (RFC 2696).
    Paged {
        /// Entries a page.
        size: u32,
        /// From the page before, empty for the first.
        cookie: Template,
    },
    /// Server-side sorting (RFC 2891).
    Sort {
        /// Whether unsorted entries are not wanted.
        critical: bool,
        /// `cn`, `-cn` in reverse, `cn:RULE` by a rule.
        keys: Vec<String>,
    },
    /// Virtual list view (draft-ietf-ldapext-ldapv3-vlv-09), critical.
    Vlv {
        /// Entries before the target.
        before: i64,
        /// Entries after the target.
        after: i64,
        /// Which entry.
        target: VlvSpec,
        /// From the view before.
        context: Option<Template>,
    },
    /// Assertion (RFC 4528), critical.
    Assertion(Template),
    /// Matched values (RFC 3876), critical: its simple filters.
    MatchedValues(Vec<Template>),
    /// Subentries (RFC 3672), critical: only they, or none of them.
    Subentries(bool),
    /// Pre-read or post-read (RFC 4527), critical.
    ReadEntry {
        /// Which of the two.
        when: ReadWhen,
        /// Attribute selection.
        attributes: Vec<String>,
    },
    /// The update belongs to this transaction (RFC 5805), critical.
    Transaction(Template),
}

/// The target of a virtual list view.
#[derive(Clone, Debug)]
pub enum VlvSpec {
    /// By its place, in a list of so many entries.
    Offset(i64, i64),
    /// By a value.
    Value(Template),
}

/// The two controls of RFC 4527.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadWhen {
    /// Pre-read: the entry before the update.
    Before,
    /// Post-read: the entry after it.
    After,
}

/// The requests of RFC 4511 §4, and raw octets.
#[derive(Clone, Debug)]
pub enum RequestSpec {
    /// Simple bind.
    Bind {
        /// Protocol version, 3 unless the script is about that.
        version: i64,
        /// Who binds.
        name: Template,
        /// The password.
        password: Template,
    },
    /// SASL bind.
    Sasl {
        /// The mechanism's name.
        mechanism: String,
        /// Initial response.
        credentials: Option<Template>,
    },
    /// Unbind: no answer but the end of the connection.
    Unbind,
    /// Search.
    Search(SearchSpec),
    /// Add; consecutive lines of one attribute are one attribute with several values.
    Add {
        /// The new entry's DN.
        name: Template,
        /// Descriptions with their values.
        attributes: Vec<(String, Vec<Template>)>,
    },
    /// Delete.
    Delete {
        /// The entry's DN.
        name: Template,
    },
    /// Modify.
    Modify {
        /// The entry's DN.
        name: Template,
        /// In order.
        changes: Vec<ChangeSpec>,
    },
    /// Modify DN.
    ModifyDn {
        /// The entry's DN.
        name: Template,
        /// Its new RDN.
        new_rdn: Template,
        /// Whether values of the old RDN go.
        delete_old_rdn: bool,
        /// The new parent, if it moves.
        new_superior: Option<Template>,
    },
    /// Compare.
    Compare {
        /// The entry's DN.
        name: Template,
        /// Attribute description.
        description: String,
        /// Assertion value.
        value: Template,
    },
    /// Any extended operation.
    Extended {
        /// Its object identifier.
        oid: String,
        /// Its value.
        value: Option<Template>,
    },
    /// Password modify (RFC 3062).
    PasswordModify {
        /// Whose password.
        user: Option<Template>,
        /// The password until now.
        old: Option<Template>,
        /// The password from now on.
        new: Option<Template>,
    },
    /// End of a transaction (RFC 5805).
    EndTransaction {
        /// Whether its updates are to be carried out.
        commit: bool,
        /// Which transaction.
        identifier: Template,
    },
    /// Abandon the operation of that message id: no answer.
    Abandon(i64),
    /// Octets as they are.
    Raw(Vec<u8>),
}

/// A search request.
#[derive(Clone, Debug)]
pub struct SearchSpec {
    /// 0 base, 1 one level, 2 subtree, 3 subordinate.
    pub scope: i64,
    /// Base DN.
    pub base: Template,
    /// Filter text (RFC 4515).
    pub filter: Template,
    /// Attribute selection.
    pub attributes: Vec<String>,
    /// Size limit in entries, 0 for none.
    pub size_limit_entries: i64,
    /// Time limit in seconds, 0 for none.
    pub time_limit_s: i64,
    /// Attribute descriptions without values.
    pub types_only: bool,
    /// 0 never, 1 in searching, 2 finding the base, 3 always.
    pub deref: i64,
}

/// One modification of a modify request.
#[derive(Clone, Debug)]
pub struct ChangeSpec {
    /// 0 add, 1 delete, 2 replace, 3 increment.
    pub operation: i64,
    /// Attribute description.
    pub description: String,
    /// None means the whole attribute.
    pub values: Vec<Template>,
}

/// One line `=> …` with the lines indented below it.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Counted from 1.
    pub line: usize,
    /// What must come.
    pub kind: ExpectedKind,
}

/// The forms of expectations.
#[derive(Clone, Debug)]
pub enum ExpectedKind {
    /// A search result entry.
    Entry {
        /// Its DN.
        dn: Template,
        /// Other attributes than the listed ones may be there.
        open: bool,
        /// Its attributes.
        attributes: Vec<ExpectedAttribute>,
    },
    /// This many entries, whichever.
    Entries(usize),
    /// A search result reference.
    Reference(Vec<Template>),
    /// The result that ends the operation.
    Result {
        /// Result code by number.
        code: i64,
        /// The matched DN.
        matched: Template,
        /// Must occur in the diagnostic message, whatever its case.
        diagnostic: Option<String>,
        /// Referral URLs.
        referrals: Vec<Template>,
    },
    /// Response name of an extended response.
    Name(Template),
    /// Response value of an extended response, or server credentials of a bind.
    Value(Template),
    /// The password the server made up (RFC 3062).
    Generated(Template),
    /// A control of the final response.
    Control {
        /// Its object identifier.
        oid: String,
        /// Its value, unless any will do.
        value: Option<Template>,
    },
    /// The paged results control of the final response: the cookie for the next page.
    Paged(Template),
    /// The sort control of the final response.
    Sort {
        /// Result code by number.
        code: i64,
        /// The attribute at fault.
        attribute: Option<String>,
    },
    /// The virtual list view control of the final response.
    Vlv {
        /// The target's place.
        target: i64,
        /// How long the list is.
        count: i64,
        /// Result code by number.
        code: i64,
        /// For the next view, unless any will do.
        context: Option<Template>,
    },
    /// A pre-read or post-read control of the final response.
    ReadEntry {
        /// Which of the two.
        when: ReadWhen,
        /// The update of the transaction that ended whose control it is.
        update: Option<i64>,
        /// The entry's DN.
        dn: Template,
        /// Other attributes than the listed ones may be there.
        open: bool,
        /// Its attributes.
        attributes: Vec<ExpectedAttribute>,
    },
    /// The update that made its transaction fail, by message id (RFC 5805).
    Failed(i64),
    /// A notification the server sends of its own accord (RFC 4511 §4.4).
    Notice {
        /// Its name.
        oid: String,
        /// Its value, unless any will do.
        value: Option<Template>,
    },
    /// Notice of disconnection (RFC 4511 §4.4.1).
    Disconnect {
        /// Result code by number.
        code: i64,
    },
    /// The server closes the connection.
    Closed,
}

/// What an entry must say about one attribute.
#[derive(Clone, Debug)]
pub struct ExpectedAttribute {
    /// Attribute description; compared without regard to case.
    pub description: String,
    /// Its values in any order.
    pub values: Vec<Template>,
    /// More values may be there.
    pub open: bool,
    /// It must not be there at all.
    pub absent: bool,
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ScriptError {
    /// The file.
    pub path: PathBuf,
    /// Counted from 1; 0 when the file could not be read.
    pub line: usize,
    /// Lower case, no full stop.
    pub reason: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads a script file.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path).map_err(|error| ScriptError {
            path: path.to_owned(),
            line: 0,
            reason: error.to_string(),
        })?;
        Self::parse(path, &text)
    }

    /// Parses the text of a script; `path` is for errors and names.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        parse::script(path, text).map_err(|(line, reason)| ScriptError {
            path: path.to_owned(),
            line,
            reason,
        })
    }

    /// The file name, as skip lists use it.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}
