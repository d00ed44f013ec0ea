//! Entries in memory, and what others may ask of one.
