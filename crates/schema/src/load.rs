//! Reads schema files: LDIF-like text holding definitions.
