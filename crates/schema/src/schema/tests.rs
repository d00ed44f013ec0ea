//! What a schema is and what it refuses to become.
