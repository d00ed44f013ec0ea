//! Result codes (RFC 4511 Appendix A and the RFCs that added to it), as one table.
//!
//! Invariant: a code this table names is never [`ResultCode::Unknown`] after decoding.

use std::fmt;

macro_rules! result_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        /// The outcome of an operation (RFC 4511 §4.1.9).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ResultCode {
            $($(#[$doc])* $variant,)*
            /// A number that is not in the table; only a peer sends one.
            Unknown(u32),
        }

        impl ResultCode {
            /// Every code of the table, in numeric order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code with this number, if the table has it.
            #[must_use]
            pub const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its number on the wire.
            #[must_use]
            pub const fn code(self) -> u32 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Unknown(code) => code,
                }
            }

            /// Its name in the RFC, as in `noSuchObject`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Unknown(_) => "unknown",
                }
            }
        }
    };
}

result_codes! {
    /// Done (not an error).
    Success = 0, "success";
    /// The operation is out of order, as StartTLS with operations outstanding.
    OperationsError = 1, "operationsError";
    /// The request is malformed, or its version or extended operation unknown.
    ProtocolError = 2, "protocolError";
    /// The time limit was reached before the operation was done.
    TimeLimitExceeded = 3, "timeLimitExceeded";
    /// More entries than the size limit.
    SizeLimitExceeded = 4, "sizeLimitExceeded";
    /// The assertion is false or Undefined (not an error).
    CompareFalse = 5, "compareFalse";
    /// The assertion is true (not an error).
    CompareTrue = 6, "compareTrue";
    /// The way to authenticate is not supported.
    AuthMethodNotSupported = 7, "authMethodNotSupported";
    /// The server wants stronger authentication.
    StrongerAuthRequired = 8, "strongerAuthRequired";
    /// Another server is to be asked.
    Referral = 10, "referral";
    /// A limit of the administrator was reached.
    AdminLimitExceeded = 11, "adminLimitExceeded";
    /// A critical control is not supported here.
    UnavailableCriticalExtension = 12, "unavailableCriticalExtension";
    /// The server wants an encrypted connection.
    ConfidentialityRequired = 13, "confidentialityRequired";
    /// The client is to send the next step of SASL (not an error).
    SaslBindInProgress = 14, "saslBindInProgress";
    /// The entry does not have the attribute or the value.
    NoSuchAttribute = 16, "noSuchAttribute";
    /// The schema does not have the attribute type.
    UndefinedAttributeType = 17, "undefinedAttributeType";
    /// The matching rule does not apply to the attribute type.
    InappropriateMatching = 18, "inappropriateMatching";
    /// A value breaks a rule of the data.
    ConstraintViolation = 19, "constraintViolation";
    /// The attribute or the value is there already.
    AttributeOrValueExists = 20, "attributeOrValueExists";
    /// A value breaks its syntax.
    InvalidAttributeSyntax = 21, "invalidAttributeSyntax";
    /// There is no such entry.
    NoSuchObject = 32, "noSuchObject";
    /// An alias names no entry.
    AliasProblem = 33, "aliasProblem";
    /// A name breaks the syntax of DNs.
    InvalidDnSyntax = 34, "invalidDNSyntax";
    /// An alias could not be followed.
    AliasDereferencingProblem = 36, "aliasDereferencingProblem";
    /// The identity cannot authenticate in this way.
    InappropriateAuthentication = 48, "inappropriateAuthentication";
    /// Wrong name or password.
    InvalidCredentials = 49, "invalidCredentials";
    /// The subject may not do this.
    InsufficientAccessRights = 50, "insufficientAccessRights";
    /// The server is too busy.
    Busy = 51, "busy";
    /// The server is shutting down or cannot reach its data.
    Unavailable = 52, "unavailable";
    /// The server will not do this.
    UnwillingToPerform = 53, "unwillingToPerform";
    /// Aliases or referrals lead in a circle.
    LoopDetect = 54, "loopDetect";
    /// A virtual list view needs a sort control (draft-ietf-ldapext-ldapv3-vlv-09 §6.2).
    SortControlMissing = 60, "sortControlMissing";
    /// The offset is not in the list (draft-ietf-ldapext-ldapv3-vlv-09 §6.2).
    OffsetRangeError = 61, "offsetRangeError";
    /// The name breaks the rules for names of such an entry.
    NamingViolation = 64, "namingViolation";
    /// The entry would break its object classes.
    ObjectClassViolation = 65, "objectClassViolation";
    /// Only an entry without subordinates allows this.
    NotAllowedOnNonLeaf = 66, "notAllowedOnNonLeaf";
    /// The value is part of the entry's name.
    NotAllowedOnRdn = 67, "notAllowedOnRDN";
    /// There is such an entry already.
    EntryAlreadyExists = 68, "entryAlreadyExists";
    /// The structural object class may not change.
    ObjectClassModsProhibited = 69, "objectClassModsProhibited";
    /// More than one server would be affected.
    AffectsMultipleDsas = 71, "affectsMultipleDSAs";
    /// The virtual list view failed (draft-ietf-ldapext-ldapv3-vlv-09 §6.2.1).
    VirtualListViewError = 76, "virtualListViewError";
    /// None of the others.
    Other = 80, "other";
    /// The operation was cancelled (RFC 3909 §2.3).
    Canceled = 118, "canceled";
    /// There is no such operation to cancel (RFC 3909 §2.3).
    NoSuchOperation = 119, "noSuchOperation";
    /// It is too late to cancel (RFC 3909 §2.3).
    TooLate = 120, "tooLate";
    /// Such an operation cannot be cancelled (RFC 3909 §2.3).
    CannotCancel = 121, "cannotCancel";
    /// The filter of the assertion control does not hold (RFC 4528 §4).
    AssertionFailed = 122, "assertionFailed";
    /// The subject may not act as that identity (RFC 4370 §4).
    AuthorizationDenied = 123, "authorizationDenied";
    /// The consumer has to begin with all entries again (RFC 4533 §2.6).
    SyncRefreshRequired = 4096, "syncRefreshRequired";
    /// The request would have been carried out, had it not asked for no effect
    /// (draft-zeilenga-ldap-noop; the number is the one OpenLDAP took).
    NoOperation = 16654, "noOperation";
}

impl ResultCode {
    /// The code for a number received: [`Self::Unknown`] when the table does not have it.
    #[must_use]
    pub const fn from_wire(code: u32) -> Self {
        match Self::from_code(code) {
            Some(known) => known,
            None => Self::Unknown(code),
        }
    }
}

/// Writes `noSuchObject (32)`.
impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::ResultCode;

    #[test]
    fn the_table_is_in_numeric_order_and_its_numbers_lead_back() {
        assert!(ResultCode::ALL.is_sorted_by_key(|code| code.code()));
        for &code in ResultCode::ALL {
            assert_eq!(ResultCode::from_code(code.code()), Some(code));
            assert_eq!(ResultCode::from_wire(code.code()), code);
        }
    }

    #[test]
    fn names_are_the_variants_in_lower_camel_case() {
        for &code in ResultCode::ALL {
            assert_eq!(code.name().to_lowercase(), format!("{code:?}").to_lowercase());
        }
    }

    #[test]
    fn gaps_in_the_numbers_are_unknown() {
        for code in [9, 15, 22, 31, 35, 37, 47, 55, 63, 70, 79, 81, 117, 124, 4095, u32::MAX] {
            assert_eq!(ResultCode::from_code(code), None);
            assert_eq!(ResultCode::from_wire(code), ResultCode::Unknown(code));
            assert_eq!(ResultCode::from_wire(code).code(), code);
        }
    }
}
