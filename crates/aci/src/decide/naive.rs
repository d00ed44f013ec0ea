//! Decisions made the plain way.
