//! Definitions as text (RFC 4512 §4.1): one parser and one printer for all eight kinds.
//!
//! Invariant: what [`Definition::parse`] accepts, `Display` writes as RFC 4512 has it, and that
//! parses to the same again. Names and OIDs are checked for form here; whether they are defined
//! is for the schema to say.

mod parse;
mod print;
#[cfg(test)]
mod tests;

use std::fmt;

/// The longest text of one definition, in octets.
pub const DEFINITION_LENGTH_MAX_BYTES: usize = 64 * 1024;

/// The most definitions one schema may hold.
pub const DEFINITION_COUNT_MAX: usize = 20_000;

/// The longest chain of superior types or classes.
pub const SUPERIOR_DEPTH_MAX: u32 = 32;

/// One element of a schema as its definition has it: names and OIDs not yet looked up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Definition {
    /// The dotted OID; for a DIT structure rule its number. Private ones may be `name-oid`.
    pub oid: String,
    /// Short names, the primary one first. Syntaxes have none.
    pub names: Vec<String>,
    /// What it is for, in words. Never empty.
    pub description: Option<String>,
    /// Not to be used for new data. Never set for syntaxes.
    pub obsolete: bool,
    /// What is particular to its kind.
    pub body: Body,
    /// `X-` items, in the order written.
    pub extensions: Vec<Extension>,
}

/// An `X-` item of a definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Extension {
    /// Starts with `X-`, as written.
    pub name: String,
    /// One value or more.
    pub values: Vec<String>,
}

/// The fields particular to each kind of definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// RFC 4512 §4.1.5.
    Syntax,
    /// RFC 4512 §4.1.3.
    MatchingRule {
        /// OID of the assertion syntax.
        syntax: String,
    },
    /// RFC 4512 §4.1.4.
    MatchingRuleUse {
        /// Attribute types the rule suits.
        applies: Vec<String>,
    },
    /// RFC 4512 §4.1.2.
    AttributeType(AttributeTypeBody),
    /// RFC 4512 §4.1.1.
    ObjectClass {
        /// Direct superiors.
        superiors: Vec<String>,
        /// How entries may use it.
        kind: ClassKind,
        /// Attributes it requires.
        must: Vec<String>,
        /// Attributes it allows.
        may: Vec<String>,
    },
    /// RFC 4512 §4.1.6; the OID is that of the structural class.
    ContentRule {
        /// Auxiliary classes entries may have.
        auxiliary: Vec<String>,
        /// Attributes entries must hold.
        must: Vec<String>,
        /// Attributes entries may hold.
        may: Vec<String>,
        /// Attributes entries may not hold.
        not: Vec<String>,
    },
    /// RFC 4512 §4.1.7.1; the OID is the rule's number.
    StructureRule {
        /// The name form it is about.
        form: String,
        /// Numbers of superior rules.
        superiors: Vec<String>,
    },
    /// RFC 4512 §4.1.7.2.
    NameForm {
        /// The structural class it names.
        class: String,
        /// Attributes the RDN must have.
        must: Vec<String>,
        /// Attributes the RDN may have.
        may: Vec<String>,
    },
}

/// The fields of an attribute type (RFC 4512 §4.1.2) as written, nothing inherited.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AttributeTypeBody {
    /// The type it is derived from.
    pub superior: Option<String>,
    /// Equality rule.
    pub equality: Option<String>,
    /// Ordering rule.
    pub ordering: Option<String>,
    /// Substrings rule.
    pub substring: Option<String>,
    /// Syntax OID.
    pub syntax: Option<String>,
    /// The suggested longest value, written in braces after the syntax.
    pub length_max: Option<u32>,
    /// At most one value.
    pub single_value: bool,
    /// Shared by the entries of a subtree.
    pub collective: bool,
    /// Only the server changes it.
    pub no_user_modification: bool,
    /// What it is for.
    pub usage: Usage,
}

/// What an attribute is for (RFC 4512 §2.5.1).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Usage {
    /// Data of users and applications.
    #[default]
    UserApplications,
    /// Part of the directory's own information.
    DirectoryOperation,
    /// Shared among servers.
    DistributedOperation,
    /// Of this server alone.
    DsaOperation,
}

impl Usage {
    /// Every usage, as spelled in a definition.
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::UserApplications, "userApplications"),
        (Self::DirectoryOperation, "directoryOperation"),
        (Self::DistributedOperation, "distributedOperation"),
        (Self::DsaOperation, "dSAOperation"),
    ];

    /// Whether it is any of the server's own usages.
    pub fn is_operational(self) -> bool {
        self != Self::UserApplications
    }
}

/// How entries may use an object class (RFC 4512 §2.4).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ClassKind {
    /// Only as a superior of other classes.
    Abstract,
    /// As what the entry is; exactly one chain of them.
    #[default]
    Structural,
    /// In addition to the structural class.
    Auxiliary,
}

impl ClassKind {
    /// The keyword of a definition.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Abstract => "ABSTRACT",
            Self::Structural => "STRUCTURAL",
            Self::Auxiliary => "AUXILIARY",
        }
    }

    /// Whether a class of this kind may be derived from one of kind `superior`.
    pub(crate) fn may_derive_from(self, superior: Self) -> bool {
        match (self, superior) {
            (_, Self::Abstract)
            | (Self::Structural, Self::Structural)
            | (Self::Auxiliary, Self::Auxiliary) => true,
            (Self::Abstract | Self::Auxiliary, Self::Structural)
            | (Self::Abstract | Self::Structural, Self::Auxiliary) => false,
        }
    }
}

impl Definition {
    /// Reads one definition of the given kind: RFC 4512 §4.1, with these liberties: white space
    /// of any kind, fields in any order, keywords in any case, `name-oid` for a missing OID,
    /// quoted OIDs, and empty descriptions.
    pub fn parse(kind: DefinitionKind, text: &str) -> Result<Self, DefinitionError> {
        parse::definition(kind, text)
    }

    /// Reads `attributeTypes: ( … )`, as definitions are written in logs.
    pub fn parse_line(line: &str) -> Result<Self, DefinitionError> {
        let (attribute, text) = line.split_once(':').unwrap_or((line, ""));
        match DefinitionKind::from_attribute(attribute.trim()) {
            Some(kind) => Self::parse(kind, text),
            None => Err(DefinitionError { offset: 0, fault: DefinitionFault::NoKind }),
        }
    }

    /// Writes `attributeTypes: ( … )`, which [`Self::parse_line`] reads.
    pub fn line(&self) -> String {
        format!("{}: {self}", self.kind().attribute())
    }

    /// Which kind of element it defines.
    pub fn kind(&self) -> DefinitionKind {
        match self.body {
            Body::Syntax => DefinitionKind::Syntax,
            Body::MatchingRule { .. } => DefinitionKind::MatchingRule,
            Body::MatchingRuleUse { .. } => DefinitionKind::MatchingRuleUse,
            Body::AttributeType(_) => DefinitionKind::AttributeType,
            Body::ObjectClass { .. } => DefinitionKind::ObjectClass,
            Body::ContentRule { .. } => DefinitionKind::ContentRule,
            Body::StructureRule { .. } => DefinitionKind::StructureRule,
            Body::NameForm { .. } => DefinitionKind::NameForm,
        }
    }

    /// The primary name, or the OID where there is none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// Whether `name` is one of the names or the OID, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        self.oid.eq_ignore_ascii_case(name)
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether both define the same element of the same kind.
    pub fn is_same_element(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.oid.eq_ignore_ascii_case(&other.oid)
    }

    /// Whether both say the same but for descriptions and extensions.
    pub fn means_the_same(&self, other: &Self) -> bool {
        self.is_same_element(other)
            && self.names == other.names
            && self.obsolete == other.obsolete
            && self.body == other.body
    }

    /// The values of an extension.
    pub fn extension(&self, name: &str) -> Option<&[String]> {
        let found = self.extensions.iter().find(|extension| extension.name == name)?;
        Some(&found.values)
    }

    /// Sets an extension to one value.
    pub fn set_extension(&mut self, name: &str, value: &str) {
        let values = vec![value.to_owned()];
        match self.extensions.iter_mut().find(|extension| extension.name == name) {
            Some(extension) => extension.values = values,
            None => self.extensions.push(Extension { name: name.to_owned(), values }),
        }
    }
}

/// The eight kinds of definitions.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DefinitionKind {
    /// `ldapSyntaxes`.
    Syntax,
    /// `matchingRules`.
    MatchingRule,
    /// `matchingRuleUse`.
    MatchingRuleUse,
    /// `attributeTypes`.
    AttributeType,
    /// `objectClasses`.
    ObjectClass,
    /// `dITContentRules`.
    ContentRule,
    /// `dITStructureRules`.
    StructureRule,
    /// `nameForms`.
    NameForm,
}

impl DefinitionKind {
    /// Every kind, in the order of the subschema entry.
    pub const ALL: [Self; 8] = [
        Self::Syntax,
        Self::MatchingRule,
        Self::MatchingRuleUse,
        Self::AttributeType,
        Self::ObjectClass,
        Self::NameForm,
        Self::ContentRule,
        Self::StructureRule,
    ];

    /// The attribute of the subschema entry that holds such definitions (RFC 4512 §4.2).
    pub fn attribute(self) -> &'static str {
        match self {
            Self::Syntax => "ldapSyntaxes",
            Self::MatchingRule => "matchingRules",
            Self::MatchingRuleUse => "matchingRuleUse",
            Self::AttributeType => "attributeTypes",
            Self::ObjectClass => "objectClasses",
            Self::ContentRule => "dITContentRules",
            Self::StructureRule => "dITStructureRules",
            Self::NameForm => "nameForms",
        }
    }

    /// The kind held by an attribute of the subschema entry, named in any case.
    pub fn from_attribute(attribute: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.attribute().eq_ignore_ascii_case(attribute))
    }

    /// What such an element is called in a message.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::MatchingRule => "matching rule",
            Self::MatchingRuleUse => "matching rule use",
            Self::AttributeType => "attribute type",
            Self::ObjectClass => "object class",
            Self::ContentRule => "DIT content rule",
            Self::StructureRule => "DIT structure rule",
            Self::NameForm => "name form",
        }
    }
}

/// Why a text is no definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DefinitionError {
    /// Octets before the place where reading stopped.
    pub offset: usize,
    /// What is wrong there.
    pub fault: DefinitionFault,
}

/// What is wrong with the text of a definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DefinitionFault {
    /// Longer than [`DEFINITION_LENGTH_MAX_BYTES`].
    TooLong,
    /// A line that starts with no attribute of the subschema entry.
    NoKind,
    /// Something else was needed; says what.
    Expected(&'static str),
    /// Text after the closing parenthesis.
    TextAfterEnd,
    /// A quoted string without its end.
    OpenQuote,
    /// A backslash not followed by `27` or `5C`.
    BadEscape,
    /// A keyword this kind of definition does not have.
    UnknownKeyword(String),
    /// A keyword given twice.
    Twice(String),
    /// A keyword that must be there.
    Missing(&'static str),
    /// An identifier such as `myOids:7`, which only OpenLDAP's tools can resolve.
    Macro(String),
    /// A name where the definition's own OID belongs.
    NameForOid(String),
    /// Neither an OID nor a name.
    BadOid(String),
    /// Not a short name: a letter, then letters, digits and hyphens.
    BadName(String),
    /// A number out of range.
    BadNumber(String),
    /// Not one of the four usages.
    BadUsage(String),
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at character {}", self.fault, self.offset + 1)
    }
}

impl fmt::Display for DefinitionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => {
                write!(f, "the definition is longer than {DEFINITION_LENGTH_MAX_BYTES} octets")
            }
            Self::NoKind => f.write_str("expected a name such as 'attributeTypes' and a colon"),
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::TextAfterEnd => f.write_str("text after the closing parenthesis"),
            Self::OpenQuote => {
                f.write_str("a quoted string does not end; write a quote inside one as \\27")
            }
            Self::BadEscape => {
                f.write_str("bad escape; write a quote as \\27 and a backslash as \\5C")
            }
            Self::UnknownKeyword(word) => {
                write!(f, "unknown keyword '{word}'; keywords of your own start with X-")
            }
            Self::Twice(word) => write!(f, "'{word}' is given twice"),
            Self::Missing(what) => write!(f, "{what} is missing"),
            Self::Macro(word) => {
                write!(f, "'{word}' uses an OpenLDAP macro; write the dotted OID it stands for")
            }
            Self::NameForOid(word) => write!(
                f,
                "a definition starts with its OID, not with a name; \
                 if it has none write '{word}-oid'"
            ),
            Self::BadOid(word) => write!(f, "'{word}' is neither a dotted OID nor a name"),
            Self::BadName(word) => write!(
                f,
                "'{word}' is not a name: a letter, then letters, digits and hyphens, \
                 at most {} in all",
                crate::NAME_LENGTH_MAX_BYTES
            ),
            Self::BadNumber(word) => write!(f, "'{word}' is not a number in range"),
            Self::BadUsage(word) => write!(
                f,
                "'{word}' is no usage; write userApplications, directoryOperation, \
                 distributedOperation or dSAOperation"
            ),
        }
    }
}

impl std::error::Error for DefinitionError {}
