//! What settings say and may say otherwise while the directory is open.
//!
//! Invariant: whoever asks twice may get two answers: what must agree is asked for once.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// One of them, replaced as a whole.
#[derive(Debug)]
pub struct Live<T>(ArcSwap<T>);

impl<T> Live<T> {
    /// This holds at first.
    pub fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee(value))
    }

    /// What holds now.
    pub fn get(&self) -> Guard<Arc<T>> {
        self.0.load()
    }

    /// Has another one hold from now on.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}
