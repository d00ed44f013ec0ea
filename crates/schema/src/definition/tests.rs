//! Which texts are definitions, and that they print as they parse.
