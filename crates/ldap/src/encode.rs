//! The server's fast path: answers written straight into an output buffer.
