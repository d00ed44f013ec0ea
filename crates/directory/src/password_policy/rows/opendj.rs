//! The names of OpenDJ.

use super::row::{Product, Row};
use super::takes::Takes;
use crate::password_policy::rules::HashedFrom;

pub(super) const ROWS: &[Row] = &[
    opendj("ds-pwp-min-password-age", Takes::Seconds(|s, n| s.policy.min_age = n), "pwdMinAge."),
    opendj("ds-pwp-max-password-age", Takes::Seconds(|s, n| s.policy.max_age = n), "pwdMaxAge."),
    opendj(
        "ds-pwp-password-expiration-warning-interval",
        Takes::Seconds(|s, n| s.policy.expire_warning = n),
        "pwdExpireWarning.",
    ),
    opendj(
        "ds-pwp-grace-login-count",
        Takes::Number(|s, n| s.policy.grace_logins = n),
        "pwdGraceAuthNLimit.",
    ),
    opendj(
        "ds-pwp-password-history-count",
        Takes::History(|s, n| s.policy.in_history = n),
        "pwdInHistory.",
    ),
    opendj(
        "ds-pwp-password-history-duration",
        Takes::Seconds(|s, n| s.policy.history_duration = n),
        "Time for which a former password cannot be reused, in addition to those that are \
         counted.",
    ),
    opendj(
        "ds-pwp-lockout-failure-count",
        Takes::Number(|s, n| (s.policy.max_failures, s.policy.lockout) = (n, n > 0)),
        "pwdMaxFailure; more than 0 means pwdLockout.",
    ),
    opendj(
        "ds-pwp-lockout-duration",
        Takes::Seconds(|s, n| s.policy.lockout_duration = n),
        "pwdLockoutDuration.",
    ),
    opendj(
        "ds-pwp-lockout-failure-expiration-interval",
        Takes::Seconds(|s, n| s.policy.failure_interval = n),
        "pwdFailureCountInterval.",
    ),
    opendj(
        "ds-pwp-idle-lockout-interval",
        Takes::Seconds(|s, n| s.policy.max_idle = n),
        "pwdMaxIdle.",
    ),
    opendj(
        "ds-pwp-force-change-on-reset",
        Takes::Switch(|s, on| s.policy.must_change = on),
        "pwdMustChange for passwords that somebody else sets.",
    ),
    opendj(
        "ds-pwp-force-change-on-add",
        Takes::Switch(|s, on| s.policy.must_change_new = on),
        "The same for the password in a new entry.",
    ),
    opendj(
        "ds-pwp-max-password-reset-age",
        Takes::Seconds(|s, n| s.policy.temporary.expires_after = n),
        "passwordTPRDelayExpireAt.",
    ),
    opendj(
        "ds-pwp-allow-user-password-changes",
        Takes::Switch(|s, on| s.policy.allow_user_change = on),
        "pwdAllowUserChange.",
    ),
    opendj(
        "ds-pwp-password-change-requires-current-password",
        Takes::Switch(|s, on| s.policy.safe_modify = on),
        "pwdSafeModify.",
    ),
    opendj(
        "ds-pwp-skip-validation-for-administrators",
        Takes::Switch(|s, on| s.policy.skips_administrators = on),
        "Whether quality and history do not apply to users who set the passwords of others.",
    ),
    opendj(
        "ds-pwp-allow-pre-encoded-passwords",
        Takes::Switch(|s, on| {
            s.policy.hashed = if on { HashedFrom::Everybody } else { HashedFrom::Nobody }
        }),
        "Who may send hashed passwords: everybody, or only the administrator; default: users \
         with the privilege `password-reset`.",
    ),
    opendj(
        "ds-pwp-allow-multiple-password-values",
        Takes::Switch(|s, on| s.policy.allow_multiple = on),
        "Whether an entry may have several passwords.",
    ),
    opendj(
        "ds-pwp-default-password-storage-scheme",
        Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)),
        "Storage scheme, overrides `[password] scheme`.",
    ),
    opendj(
        "ds-pwp-deprecated-password-storage-scheme",
        Takes::Nothing,
        "Not needed: a bind rehashes passwords in any other scheme.",
    ),
    opendj(
        "ds-pwp-last-login-time-attribute",
        Takes::There(|s| s.policy.records_login = true),
        "Any value: pwdLastSuccess is kept even if no rule needs it.",
    ),
    opendj("ds-pwp-last-login-time-format", Takes::Nothing, "Not used: times are GeneralizedTime."),
    opendj("ds-pwp-previous-last-login-time-format", Takes::Nothing, "Not used."),
    opendj("ds-pwp-password-attribute", Takes::Nothing, "It is always userPassword."),
    opendj(
        "ds-pwp-require-secure-authentication",
        Takes::Nothing,
        "Not used: see `authentication.confidentiality`.",
    ),
    opendj(
        "ds-pwp-require-secure-password-changes",
        Takes::Nothing,
        "Not used: see `authentication.confidentiality`.",
    ),
    opendj(
        "ds-pwp-state-update-failure-policy",
        Takes::Nothing,
        "Not used: no bind waits for its state to be written.",
    ),
    opendj(
        "ds-pwp-expire-passwords-without-warning",
        Takes::Nothing,
        "Not used: passwords expire at their time.",
    ),
    opendj(
        "ds-pwp-allow-expired-password-changes",
        Takes::Nothing,
        "Not used: allow grace logins.",
    ),
    opendj(
        "ds-pwp-length-based-min-password-length",
        Takes::Validator(|s, n| s.policy.min_length = n),
        "pwdMinLength.",
    ),
    opendj(
        "ds-pwp-length-based-max-password-length",
        Takes::Validator(|s, n| s.policy.max_length = n),
        "pwdMaxLength.",
    ),
    opendj(
        "ds-pwp-character-set-min-character-sets",
        Takes::Validator(|s, n| s.policy.quality.min_categories = n),
        "passwordMinCategories; the sets are those of 389.",
    ),
    opendj(
        "ds-pwp-repeated-characters-max-consecutive-length",
        Takes::Validator(|s, n| s.policy.quality.max_repeats = n),
        "passwordMaxRepeats.",
    ),
    opendj(
        "ds-pwp-unique-characters-min-unique-characters",
        Takes::Validator(|s, n| s.policy.quality.min_unique = n),
        "Minimum number of different characters.",
    ),
    opendj(
        "ds-pwp-similarity-based-min-password-difference",
        Takes::Validator(|s, n| s.policy.quality.min_difference = n),
        "Minimum number of changed characters; checked if the old password is sent.",
    ),
    opendj(
        "ds-pwp-attribute-value-match-attribute",
        Takes::Own(|s, names| s.policy.quality.own_attributes = names),
        "passwordUserAttributes.",
    ),
    opendj(
        "ds-pwp-attribute-value-min-substring-length",
        Takes::Validator(|s, n| s.policy.quality.min_own_substring = n),
        "Parts of those values of this length must not occur in the password.",
    ),
    opendj(
        "ds-pwp-attribute-value-test-reversed-password",
        Takes::Switch(|s, on| s.policy.quality.looks_backwards = on),
        "The values must not occur reversed, either.",
    ),
    opendj(
        "ds-pwp-dictionary-data",
        Takes::There(|s| {
            s.switches.has_validator = true;
            s.policy.quality.dictionary = true;
        }),
        "Any value: passwordDictCheck, with the server's word list.",
    ),
];

const fn opendj(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row::of(Product::OpenDj, attribute, takes, does)
}
