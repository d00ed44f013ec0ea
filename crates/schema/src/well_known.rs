//! The attribute descriptions and object classes the code itself names.
