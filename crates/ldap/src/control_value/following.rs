//! Following: the control by which changes of who follows another server are told from those of
//! everybody else. Its value is the name of the session that follows, in UTF-8.

/// The OID of the control.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.4.6";
