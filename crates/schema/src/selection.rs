//! Resolved attribute lists: which attributes a search returns.
