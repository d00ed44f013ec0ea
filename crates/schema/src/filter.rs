//! Filters resolved against the schema, and their value for an entry.
