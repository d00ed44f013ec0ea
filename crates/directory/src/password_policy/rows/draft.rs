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
        "Minimum age before the owner may change the password.",
    ),
    draft(
        "pwdMaxAge",
        Takes::Seconds(|s, n| s.policy.max_age = n),
        "Time until a password expires.",
    ),
    draft(
        "pwdInHistory",
        Takes::History(|s, n| s.policy.in_history = n),
        "Number of former passwords that cannot be reused.",
    ),
    draft(
        "pwdCheckQuality",
        Takes::Check(|s, check| s.switches.quality_of_draft = Some(check)),
        "0: passwords are not checked. 1: clear-text ones are checked; hashed ones are \
         accepted. 2: hashed ones are refused.",
    ),
    draft(
        "pwdMinLength",
        Takes::Number(|s, n| s.policy.min_length = n),
        "Minimum number of characters.",
    ),
    draft(
        "pwdMaxLength",
        Takes::Number(|s, n| s.policy.max_length = n),
        "Maximum number of characters.",
    ),
    draft(
        "pwdExpireWarning",
        Takes::Seconds(|s, n| s.policy.expire_warning = n),
        "Time before expiry from which binds get a warning.",
    ),
    draft(
        "pwdGraceAuthNLimit",
        Takes::Number(|s, n| s.policy.grace_logins = n),
        "Number of binds that an expired password allows.",
    ),
    draft(
        "pwdGraceExpiry",
        Takes::Seconds(|s, n| s.policy.grace_expiry = n),
        "Time after expiry during which it allows them.",
    ),
    draft(
        "pwdLockout",
        Takes::Switch(|s, on| s.policy.lockout = on),
        "Whether failed binds lock the account.",
    ),
    draft(
        "pwdLockoutDuration",
        Takes::Seconds(|s, n| s.policy.lockout_duration = n),
        "Duration of the lock; 0: until an administrator unlocks the account.",
    ),
    draft(
        "pwdMaxFailure",
        Takes::Number(|s, n| s.policy.max_failures = n),
        "Number of failures that lock the account.",
    ),
    draft(
        "pwdFailureCountInterval",
        Takes::Seconds(|s, n| s.policy.failure_interval = n),
        "Time for which a failure counts; 0: until a bind succeeds.",
    ),
    draft(
        "pwdMaxRecordedFailure",
        Takes::Number(|s, n| s.policy.max_recorded_failures = n),
        "Number of failures that are recorded.",
    ),
    draft(
        "pwdMustChange",
        Takes::Switch(|s, on| (s.policy.must_change, s.policy.must_change_new) = (on, on)),
        "Whether a password that somebody else set must be changed first.",
    ),
    draft(
        "pwdAllowUserChange",
        Takes::Switch(|s, on| s.policy.allow_user_change = on),
        "Whether users may change their own password.",
    ),
    draft(
        "pwdSafeModify",
        Takes::Switch(|s, on| s.policy.safe_modify = on),
        "Whether the old password must be sent with the new one.",
    ),
    draft(
        "pwdMinDelay",
        Takes::Seconds(|s, n| s.policy.min_delay = n),
        "Delay of binds after the first failure.",
    ),
    draft(
        "pwdMaxDelay",
        Takes::Seconds(|s, n| s.policy.max_delay = n),
        "Maximum of that delay, which doubles with each failure.",
    ),
    draft(
        "pwdMaxIdle",
        Takes::Seconds(|s, n| s.policy.max_idle = n),
        "Time without a bind after which the account is locked.",
    ),
    draft(
        "pwdKeepLastAuthTime",
        Takes::Switch(|s, on| s.policy.records_login = on),
        "Whether pwdLastSuccess is kept even if no rule needs it (Sun's name).",
    ),
    draft(
        "pwdDefaultHash",
        Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)),
        "Storage scheme, overrides `[password] scheme` (OpenLDAP's name).",
    ),
    draft("pwdUseCheckModule", Takes::Nothing, "Not needed: quality is part of the policy."),
];

const fn draft(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row::of(Product::Draft, attribute, takes, does)
}
