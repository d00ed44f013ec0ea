//! Arbitrary schemas, trees, entries and filters from a seed, and an evaluator that knows nothing
//! of indexes. The store and the directory are proved against it.
//!
//! Invariant: the same seed gives the same case, on every machine.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(missing_docs, unreachable_pub, reason = "a module of tests")]

pub mod dice;
pub mod filters;
pub mod naive;
pub mod tree;
pub mod values;
pub mod vocabulary;
