//! Distinguished names as keys: normalised, comparable, injective.
