//! Changes: the effect of a write on entries, decided already.
