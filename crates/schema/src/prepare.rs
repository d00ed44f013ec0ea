//! String preparation (RFC 4518): the bytes that equality, ordering and indexes compare.
