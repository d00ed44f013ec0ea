//! What attributes, object classes, syntaxes and matching rules mean, and what follows from it:
//! names as keys, resolved filters, entries and their validation, changes.
//!
//! Invariant: knows no storage, no session and no access rule. A [`Schema`] is immutable; a schema
//! change makes a new one.

// Definitions: what the schema says.
mod acted_on;
mod attribute_type;
mod definition;
mod description;
mod error;
mod file;
mod names;
mod object_class;
mod rules;
mod schema;
mod secret;
mod shipped;
mod well_known;

pub use attribute_type::{AttributeType, Families};
pub use definition::{AttributeTypeBody, Body, ClassKind, Definition, DefinitionError};
pub use definition::{DEFINITION_COUNT_MAX, DEFINITION_LENGTH_MAX_BYTES, SUPERIOR_DEPTH_MAX};
pub use definition::{DefinitionFault, DefinitionKind, Extension, Usage};
pub use description::{AttributeDescription, DescriptionError};
pub use description::{DESCRIPTION_LENGTH_MAX_BYTES, OPTION_COUNT_MAX};
pub use error::{DefinitionLocation, SchemaError, SchemaFault};
pub use file::SchemaFile;
pub use names::NAME_LENGTH_MAX_BYTES;
pub use object_class::ObjectClass;
pub use rules::{Check, Compare, MatchingRule, Prepare, PreparePiece, RuleKind, Syntax};
pub use schema::{ContentRule, ONLINE_FILE, Schema, builtin_files};
pub use secret::{KNOWN_SECRETS, KnownSecret, WithoutSecrets};
pub use shipped::{SHIPPED, ShippedSchema};
pub use well_known::WellKnown;

// Values: what follows from it.
mod change;
mod dn_key;
mod entry;
mod filter;
mod held_bytes;
mod maker;
mod matching_rule;
mod prepare;
mod selection;
mod structure;
mod syntax;
mod validate;
mod validator;
mod violation;

pub use change::{AddChange, AttributeDelta, Change, DeleteChange, EntryId, ModifyChange};
pub use change::{GatherChange, IndexChange, RenameChange, SchemaChange, SettingChange};
pub use dn_key::{DnKey, InvalidDn, RdnKey};
pub use entry::{ATTRIBUTE_COUNT_MAX, Attribute, Entry, EntryError, EntryRead, ValueKey};
pub use filter::{Assertion, AssertionError, ExtensibleAssertion, ResolvedFilter};
pub use filter::{Meter, SubstringAssertion, Truth, steps_of_name};
pub use held_bytes::values_held_bytes;
pub use maker::EntryMaker;
pub use matching_rule::{APPROXIMATE_RULE, IN_CHAIN_RULE, INTEGER_DIGITS_MAX, MATCHING_RULES};
pub use prepare::{Invalid, Position};
pub use selection::{RANGE_VALUES_MAX, SELECTION_NAMES_MAX, Selection, ValueRange};
pub use structure::{Above, NameForm, RdnTypes, SchemaElement, StructureRule, StructureRules};
pub use syntax::SYNTAXES;
pub use validate::check_modifiable;
pub use validate::{Mode, SchemaRule, Structure, Tolerance, ToleratedViolations};
pub use validate::{check_name, validate, validate_tolerant, validate_touched};
pub use validator::{Classes, Validator};
pub use violation::Violation;
