//! One immutable version of the schema: every definition by name and OID.
