//! The names of draft-behera-ldap-password-policy, and those that OpenLDAP and Sun put beside them.

use super::row::{Product, Row};
use super::takes::Takes;

pub(super) const ROWS: &[Row] = &[
    draft(
        "pwdAttribute",
        Takes::Nothing,
        "The attribute with the password; it is always userPassword.",
    ),
    draft(
        "pwdMinAge",
        Takes::Seconds(|s, n| s.policy.min_age = n),
        "How long a password has to be used before its owner may change it.",
    ),
    draft("pwdMaxAge", Takes::Seconds(|s, n| s.policy.max_age = n), "How long a password is good."),
    draft(
        "pwdInHistory",
        Takes::History(|s, n| s.policy.in_history = n),
        "How many used passwords must not be used again.",
    ),
    draft(
        "pwdCheckQuality",
        Takes::Check(|s, check| s.switches.quality_of_draft = Some(check)),
        "0: passwords are not looked at. 1: those in clear text are; hashed ones are \
         accepted. 2: hashed ones are refused.",
    ),
    draft("pwdMinLength", Takes::Number(|s, n| s.policy.min_length = n), "Least characters."),
    draft("pwdMaxLength", Takes::Number(|s, n| s.policy.max_length = n), "Most characters."),
    draft(
        "pwdExpireWarning",
        Takes::Seconds(|s, n| s.policy.expire_warning = n),
        "How long before it expires binds are told so.",
    ),
    draft(
        "pwdGraceAuthNLimit",
        Takes::Number(|s, n| s.policy.grace_logins = n),
        "For how many binds an expired password is good.",
    ),
    draft(
        "pwdGraceExpiry",
        Takes::Seconds(|s, n| s.policy.grace_expiry = n),
        "For how long after it expired.",
    ),
    draft(
        "pwdLockout",
        Takes::Switch(|s, on| s.policy.lockout = on),
        "Whether failed binds lock the account.",
    ),
    draft(
        "pwdLockoutDuration",
        Takes::Seconds(|s, n| s.policy.lockout_duration = n),
        "For how long; 0: until somebody unlocks it.",
    ),
    draft(
        "pwdMaxFailure",
        Takes::Number(|s, n| s.policy.max_failures = n),
        "After how many failures.",
    ),
    draft(
        "pwdFailureCountInterval",
        Takes::Seconds(|s, n| s.policy.failure_interval = n),
        "For how long a failure counts; 0: until a bind succeeds.",
    ),
    draft(
        "pwdMaxRecordedFailure",
        Takes::Number(|s, n| s.policy.max_recorded_failures = n),
        "How many failures are noted.",
    ),
    draft(
        "pwdMustChange",
        Takes::Switch(|s, on| (s.policy.must_change, s.policy.must_change_new) = (on, on)),
        "Whether a password that somebody else set has to be changed first.",
    ),
    draft(
        "pwdAllowUserChange",
        Takes::Switch(|s, on| s.policy.allow_user_change = on),
        "Whether people may change their own password.",
    ),
    draft(
        "pwdSafeModify",
        Takes::Switch(|s, on| s.policy.safe_modify = on),
        "Whether the old password has to be sent with the new one.",
    ),
    draft(
        "pwdMinDelay",
        Takes::Seconds(|s, n| s.policy.min_delay = n),
        "How long binds wait after the first failure.",
    ),
    draft(
        "pwdMaxDelay",
        Takes::Seconds(|s, n| s.policy.max_delay = n),
        "Up to what that doubles with each failure.",
    ),
    draft(
        "pwdMaxIdle",
        Takes::Seconds(|s, n| s.policy.max_idle = n),
        "After how long without a bind the account is locked.",
    ),
    draft(
        "pwdKeepLastAuthTime",
        Takes::Switch(|s, on| s.policy.records_login = on),
        "Whether pwdLastSuccess is kept although no rule needs it (Sun's name).",
    ),
    draft(
        "pwdDefaultHash",
        Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)),
        "How passwords are stored, instead of `[password] scheme` (OpenLDAP's name).",
    ),
    draft("pwdUseCheckModule", Takes::Nothing, "Not needed: quality is part of the policy."),
];

const fn draft(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row::of(Product::Draft, attribute, takes, does)
}
