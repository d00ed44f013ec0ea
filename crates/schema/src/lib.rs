//! What attributes, object classes, syntaxes and matching rules mean, and what follows from it:
//! names as keys, resolved filters, entries and their validation, changes.
//!
//! Invariant: knows no storage, no session and no access rule. A [`Schema`] is immutable; a schema
//! change makes a new one.

// Definitions: what the schema says.
mod attribute_type;
mod definition;
mod description;
mod error;
mod load;
mod names;
mod object_class;
mod online;
mod schema;
mod well_known;

// Values: what follows from it.
mod change;
mod dn_key;
mod entry;
mod filter;
mod matching_rule;
mod prepare;
mod selection;
mod syntax;
mod validate;
