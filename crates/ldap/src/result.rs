//! Result codes (RFC 4511 Appendix A).
