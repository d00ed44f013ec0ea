//! Reading: a reader takes views, a view plans searches and finds entries.

pub(crate) mod computed;
pub(crate) mod held;
pub(crate) mod interrupt;
pub(crate) mod listed_rows;
pub(crate) mod plan;
pub(crate) mod reader;
pub(crate) mod row_cache;
pub(crate) mod uses;
pub(crate) mod view;
