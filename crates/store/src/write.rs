//! Writing: a batch applies changes, each of which becomes rows of the open layer.

pub(crate) mod apply;
pub(crate) mod batch;
pub(crate) mod digest;
