//! Tests of sets: places, chains, changes.
