//! Online schema changes: definitions added and removed while the server runs.
