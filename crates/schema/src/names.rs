//! Case-insensitive lookup of names and OIDs without allocation.
