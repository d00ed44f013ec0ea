//! Passwords that the server makes up, to be typed once: such that the policy accepts them.

use environment::Chance;
use ldap::result::ResultCode;
use zeroize::Zeroizing;

use super::quality::{LOOKED_AT_MAX_CHARACTERS, NewPassword, Words};
use super::rules::PasswordPolicy;
use crate::request::refusal::Refusal;

/// Letters and digits without those that look alike, and of other kinds what the policy asks for.
///
/// Refuses when the policy is such that none is found.
pub(crate) fn generate(
    policy: Option<&PasswordPolicy>,
    chance: &mut dyn Chance,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let Some(policy) = policy else { return Ok(octets(&any(GENERATED_CHARACTERS, BASE, chance))) };
    for _ in 0..ATTEMPTS_MAX {
        let made = Zeroizing::new(attempt(policy, chance));
        let text = Zeroizing::new(made.iter().collect::<String>());
        let new = NewPassword { clear: &text, ..NewPassword::default() };
        if policy.check_quality(&new, Words::built_in()).is_ok() {
            return Ok(octets(&made));
        }
    }
    Err(Refusal::new(
        ResultCode::UnwillingToPerform,
        "the password policy accepts none of the passwords that the server generates; send one",
    ))
}

fn octets(characters: &[char]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(characters.iter().collect::<String>().into_bytes())
}

fn attempt(policy: &PasswordPolicy, chance: &mut dyn Chance) -> Vec<char> {
    let quality = &policy.quality;
    let kinds = quality.min_categories;
    let wanted = [
        (quality.min_digits.max(u32::from(kinds >= 2)), DIGITS),
        (quality.min_lowers.max(u32::from(kinds >= 1)), LOWERS),
        (quality.min_uppers.max(u32::from(kinds >= 3)), UPPERS),
        (quality.min_specials.max(u32::from(kinds >= 4)), SPECIALS),
        (quality.min_8bit.max(u32::from(kinds >= 5)), OTHERS),
        (quality.min_alphas.saturating_sub(quality.min_lowers + quality.min_uppers), LOWERS),
    ];
    let mut made = Vec::new();
    for (count, alphabet) in wanted {
        let count = usize::try_from(count.min(LOOKED_AT_MAX_CHARACTERS)).unwrap_or(0);
        made.extend(any(count, alphabet, chance));
    }
    let least = policy.min_length.min(LOOKED_AT_MAX_CHARACTERS);
    let mut length = GENERATED_CHARACTERS.max(usize::try_from(least).unwrap_or(0));
    if policy.max_length > 0 {
        length = length.min(usize::try_from(policy.max_length).unwrap_or(usize::MAX));
    }
    made.extend(any(length.saturating_sub(made.len()), BASE, chance));
    shuffle(&mut made, chance);
    made
}

/// So many characters of an alphabet, each as likely as the others.
fn any(count: usize, alphabet: &[u8], chance: &mut dyn Chance) -> Vec<char> {
    let fair = 256 - 256 % alphabet.len();
    let mut made = Vec::with_capacity(count);
    let mut octet = [0_u8; 1];
    while made.len() < count {
        chance.fill(&mut octet);
        let [value] = octet.map(usize::from);
        if value < fair {
            // The alphabet beyond ASCII is that of Latin-1.
            made.extend(alphabet.get(value % alphabet.len()).copied().map(char::from));
        }
    }
    made
}

/// Puts them into any order (Fisher and Yates).
fn shuffle(made: &mut [char], chance: &mut dyn Chance) {
    for last in (1..made.len()).rev() {
        let mut octets = [0_u8; 8];
        chance.fill(&mut octets);
        let among = u64::try_from(last + 1).unwrap_or(u64::MAX);
        let other = usize::try_from(u64::from_ne_bytes(octets) % among).unwrap_or(0);
        made.swap(last, other);
    }
}

/// 32 characters, so that every octet maps evenly: 5 bits each.
const BASE: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
const DIGITS: &[u8] = b"23456789";
const LOWERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz";
const UPPERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZ";
const SPECIALS: &[u8] = b"-+*/=.,:;!?%&()";
/// Of Latin-1: a, o and u with two dots, e with accents.
const OTHERS: &[u8] = &[0xe4, 0xf6, 0xfc, 0xe8, 0xe9];

/// 16 characters of 5 bits: 80 bits of chance.
const GENERATED_CHARACTERS: usize = 16;
/// Sequences, repeats and words come by chance at times.
const ATTEMPTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password_policy::{CheckQuality, Quality};
    use environment::SeededChance;

    #[test]
    fn what_is_made_up_is_accepted() {
        let strict = PasswordPolicy {
            check_quality: CheckQuality::WherePossible,
            min_length: 24,
            quality: Quality {
                min_digits: 3,
                min_uppers: 4,
                min_specials: 2,
                min_8bit: 1,
                min_alphas: 12,
                max_repeats: 1,
                max_sequence: 2,
                dictionary: true,
                ..Quality::default()
            },
            ..PasswordPolicy::default()
        };
        let short = PasswordPolicy {
            check_quality: CheckQuality::WherePossible,
            max_length: 9,
            quality: Quality { min_categories: 5, ..Quality::default() },
            ..PasswordPolicy::default()
        };
        let mut chance = SeededChance(7);
        for policy in [&strict, &short, &PasswordPolicy::built_in()] {
            for _ in 0..50 {
                let made = generate(Some(policy), &mut chance).unwrap();
                let clear = std::str::from_utf8(&made).unwrap();
                let new = NewPassword { clear, ..NewPassword::default() };
                assert_eq!(policy.check_quality(&new, Words::built_in()), Ok(()));
            }
        }
        assert_eq!(generate(None, &mut chance).unwrap().len(), GENERATED_CHARACTERS);
        let never = PasswordPolicy { min_length: 20, max_length: 10, ..strict };
        assert!(generate(Some(&never), &mut chance).is_err());
    }
}
