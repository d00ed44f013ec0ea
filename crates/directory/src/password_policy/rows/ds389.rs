//! The names of 389 Directory Server, and of Sun before it had the draft's.

use super::row::{Product, Row};
use super::takes::Takes;

pub(super) const ROWS: &[Row] = &[
    ds389(
        "passwordExp",
        Takes::Switch(|s, on| s.switches.expires = on),
        "Whether passwordMaxAge applies.",
    ),
    ds389(
        "passwordMaxAge",
        Takes::Seconds(|s, n| s.switches.max_age = n),
        "pwdMaxAge; 100 days if only passwordExp is on.",
    ),
    ds389(
        "passwordWarning",
        Takes::Seconds(|s, n| s.policy.expire_warning = n),
        "pwdExpireWarning; default: a day.",
    ),
    ds389(
        "passwordGraceLimit",
        Takes::Number(|s, n| s.policy.grace_logins = n),
        "pwdGraceAuthNLimit.",
    ),
    ds389("passwordMinAge", Takes::Seconds(|s, n| s.policy.min_age = n), "pwdMinAge."),
    ds389(
        "passwordHistory",
        Takes::Switch(|s, on| s.switches.is_remembered = Some(on)),
        "off: passwordInHistory does not apply.",
    ),
    ds389(
        "passwordInHistory",
        Takes::History(|s, n| s.policy.in_history = n),
        "pwdInHistory; 6 if only passwordHistory is on.",
    ),
    ds389(
        "passwordChange",
        Takes::Switch(|s, on| s.policy.allow_user_change = on),
        "pwdAllowUserChange.",
    ),
    ds389(
        "passwordMustChange",
        Takes::Switch(|s, on| (s.policy.must_change, s.policy.must_change_new) = (on, on)),
        "pwdMustChange.",
    ),
    ds389("passwordLockout", Takes::Switch(|s, on| s.policy.lockout = on), "pwdLockout."),
    ds389(
        "passwordMaxFailure",
        Takes::Number(|s, n| s.policy.max_failures = n),
        "pwdMaxFailure; default: 3.",
    ),
    ds389(
        "passwordResetFailureCount",
        Takes::Seconds(|s, n| s.policy.failure_interval = n),
        "pwdFailureCountInterval; default: 10 minutes.",
    ),
    ds389(
        "passwordLockoutDuration",
        Takes::Seconds(|s, n| s.policy.lockout_duration = n),
        "pwdLockoutDuration; default: an hour.",
    ),
    ds389(
        "passwordUnlock",
        Takes::Switch(|s, on| s.switches.stays_locked = !on),
        "off: an account stays locked until an administrator unlocks it.",
    ),
    ds389(
        "passwordStorageScheme",
        Takes::Scheme(|s, scheme| s.policy.scheme = Some(scheme)),
        "Storage scheme, overrides `[password] scheme`.",
    ),
    ds389(
        "passwordCheckSyntax",
        Takes::Switch(|s, on| s.switches.is_checked = on),
        "pwdCheckQuality 1, with the defaults of 389: 8 characters of 3 kinds, no words of 3 \
         characters from the name.",
    ),
    ds389(
        "passwordMinLength",
        Takes::Number(|s, n| s.switches.min_length = Some(n)),
        "pwdMinLength.",
    ),
    ds389(
        "passwordMinDigits",
        Takes::Number(|s, n| s.policy.quality.min_digits = n),
        "Minimum number of digits.",
    ),
    ds389(
        "passwordMinAlphas",
        Takes::Number(|s, n| s.policy.quality.min_alphas = n),
        "Minimum number of ASCII letters.",
    ),
    ds389(
        "passwordMinUppers",
        Takes::Number(|s, n| s.policy.quality.min_uppers = n),
        "Minimum number of upper case letters.",
    ),
    ds389(
        "passwordMinLowers",
        Takes::Number(|s, n| s.policy.quality.min_lowers = n),
        "Minimum number of lower case letters.",
    ),
    ds389(
        "passwordMinSpecials",
        Takes::Number(|s, n| s.policy.quality.min_specials = n),
        "Minimum number of ASCII characters that are neither letters nor digits.",
    ),
    ds389(
        "passwordMin8bit",
        Takes::Number(|s, n| s.policy.quality.min_8bit = n),
        "Minimum number of characters that are not ASCII.",
    ),
    ds389(
        "passwordMinCategories",
        Takes::Number(|s, n| s.switches.min_categories = Some(n)),
        "Minimum number of categories: digits, upper case, lower case, special and other \
         characters.",
    ),
    ds389(
        "passwordMaxRepeats",
        Takes::Number(|s, n| s.policy.quality.max_repeats = n),
        "Maximum number of repetitions of a character in a row.",
    ),
    ds389(
        "passwordMaxSequence",
        Takes::Number(|s, n| s.policy.quality.max_sequence = n),
        "Maximum length of a sequence such as `abcd` or `4321`.",
    ),
    ds389(
        "passwordMaxSeqSets",
        Takes::Number(|s, n| s.policy.quality.max_sequence_sets = n),
        "Longer sequences must not occur twice.",
    ),
    ds389(
        "passwordMaxClassChars",
        Takes::Number(|s, n| s.policy.quality.max_class_characters = n),
        "Maximum number of characters of one category in a row.",
    ),
    ds389(
        "passwordPalindrome",
        Takes::Switch(|s, on| s.policy.quality.no_palindrome = on),
        "The password must not be a palindrome.",
    ),
    ds389(
        "passwordDictCheck",
        Takes::Switch(|s, on| s.policy.quality.dictionary = on),
        "The password must not be a common one.",
    ),
    ds389(
        "passwordDictPath",
        Takes::Nothing,
        "Not used: the server has its own word list; use passwordBadWords for others.",
    ),
    ds389(
        "passwordBadWords",
        Takes::Words(|s, words| s.policy.quality.bad_words = words),
        "Words that must not occur in the password, separated by spaces.",
    ),
    ds389(
        "passwordUserAttributes",
        Takes::Words(|s, names| s.policy.quality.own_attributes = names),
        "Attributes of the entry whose values must not occur in the password, in addition to \
         uid, cn, sn, givenName, displayName, mail and ou.",
    ),
    ds389(
        "passwordMinTokenLength",
        Takes::Number(|s, n| s.switches.min_token_length = Some(n)),
        "Shorter words of those values are allowed; default: 4.",
    ),
    ds389(
        "passwordTPRMaxUse",
        Takes::Unless(|s, n| s.policy.temporary.max_uses = n),
        "Number of binds, successful or not, that a password to be changed first allows; -1: \
         any number.",
    ),
    ds389(
        "passwordTPRDelayValidFrom",
        Takes::SecondsUnless(|s, n| s.policy.temporary.valid_after = n),
        "Time after which such a password becomes valid.",
    ),
    ds389(
        "passwordTPRDelayExpireAt",
        Takes::SecondsUnless(|s, n| s.policy.temporary.expires_after = n),
        "Time after which such a password expires.",
    ),
    ds389("passwordTrackUpdateTime", Takes::Nothing, "Not needed: pwdChangedTime is always kept."),
    ds389(
        "passwordSendExpiringTime",
        Takes::Nothing,
        "Not needed: a control says when the password expires.",
    ),
    ds389(
        "passwordLegacyPolicy",
        Takes::Nothing,
        "Not used: the failure that reaches passwordMaxFailure locks the account.",
    ),
    ds389("passwordIsGlobalPolicy", Takes::Nothing, "Not needed: state is replicated."),
    ds389("passwordAdminDN", Takes::Nothing, "Not used: give the privilege `password-reset`."),
];

const fn ds389(attribute: &'static str, takes: Takes, does: &'static str) -> Row {
    Row::of(Product::Ds389, attribute, takes, does)
}
