//! Bearer tokens that are signed: JSON Web Tokens (RFC 7519) and the keys they are verified with
//! (RFC 7517).
//!
//! Invariant: a token is verified with a key of this server's configuration, by the algorithm that
//! the key names, or else by one of its family; what the token says of itself chooses among these
//! at the most. No key is fetched, and `none` is no algorithm.

use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use environment::Timestamp;
use jsonwebtoken::jwk::{JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation};
use serde_json::{Map, Value};

/// The keys that tokens may be signed with.
#[derive(Debug, Default)]
pub struct TokenKeys(Vec<TokenKey>);

#[derive(Debug)]
struct TokenKey {
    /// `kid`.
    id: Option<String>,
    /// What it may verify: `alg`, or all that keys of its kind can.
    algorithms: &'static [Algorithm],
    key: DecodingKey,
}

/// What a bearer token must say to be accepted (RFC 7519 §4.1).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TokenOptions {
    /// `iss`; empty: no token is accepted.
    pub issuer: String,
    /// `aud` has this among its values; empty: no token is accepted.
    pub audience: String,
    /// The claim that names the user; empty stands for `sub`.
    pub claim: String,
    /// Seconds by which clocks may differ.
    pub clock_skew_s: u32,
}

/// Why a token is not accepted: for the log, not for the client.
pub type Reason = &'static str;

impl TokenKeys {
    /// Reads a JSON Web Key Set, as issuers publish it. Keys for encryption, of unknown kinds
    /// and for unknown algorithms are left out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut keys = Vec::new();
        for jwk in &set.keys {
            let is_for_signatures =
                jwk.common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
            let Some(key) = DecodingKey::from_jwk(jwk).ok().filter(|_| is_for_signatures) else {
                continue;
            };
            let id = jwk.common.key_id.clone();
            let algorithms = match key.family() {
                AlgorithmFamily::Rsa => RSA,
                AlgorithmFamily::Ec => EC,
                AlgorithmFamily::Ed => ED,
                AlgorithmFamily::Hmac => HMAC,
            };
            let algorithms = match jwk.common.key_algorithm {
                // RFC 7517 §4.4: the key is meant for that one.
                Some(only) => {
                    let named = algorithms.iter().find(|one| KeyAlgorithm::from(**one) == only);
                    let Some(named) = named else { continue };
                    slice::from_ref(named)
                }
                None => algorithms,
            };
            if key.family() == AlgorithmFamily::Hmac
                && key.try_get_as_bytes().is_ok_and(|octets| octets.len() < HMAC_KEY_MIN_BYTES)
            {
                return Err(format!("a shared key has less than {HMAC_KEY_MIN_BYTES} octets"));
            }
            keys.push(TokenKey { id, algorithms, key });
        }
        if keys.is_empty() {
            return Err("it has no key that signatures could be verified with".to_owned());
        }
        Ok(Self(keys))
    }

    /// The claims of a token whose signature is right.
    fn verify(&self, token: &[u8]) -> Result<Map<String, Value>, Reason> {
        let header = header(token).ok_or("it is no signed JSON Web Token")?;
        if has_critical_extensions(token) {
            return Err("it has critical header extensions, and none is known here");
        }
        let candidates = self.0.iter().filter(|one| {
            one.algorithms.contains(&header.alg)
                && (header.kid.is_none() || one.id.is_none() || one.id == header.kid)
        });
        for one in candidates.take(KEYS_TRIED_MAX) {
            let mut validation = Validation::new(header.alg);
            // The claims are looked at below, by the clock that was handed in.
            validation.validate_exp = false;
            validation.validate_nbf = false;
            validation.validate_aud = false;
            validation.required_spec_claims.clear();
            if let Ok(data) =
                jsonwebtoken::decode::<Map<String, Value>>(token, &one.key, &validation)
            {
                return Ok(data.claims);
            }
        }
        Err("no key of ours has signed it")
    }

    /// The name of the user that a token vouches for.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn user(
        &self,
        token: &[u8],
        options: &TokenOptions,
        now: Timestamp,
    ) -> Result<String, Reason> {
        if token.len() > TOKEN_MAX_BYTES {
            return Err("it is too long");
        }
        let claims = self.verify(token)?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&options.issuer) {
            return Err("its issuer is another");
        }
        let is_ours = match claims.get("aud") {
            Some(Value::String(one)) => *one == options.audience,
            Some(Value::Array(all)) => all.iter().any(|one| one == options.audience.as_str()),
            _ => false,
        };
        if !is_ours {
            return Err("it is for others");
        }
        // Numbers may have a fraction (RFC 7519 §2).
        let time = |name: &str| claims.get(name).and_then(Value::as_f64);
        let (now, skew) = (now.seconds() as f64, f64::from(options.clock_skew_s));
        if time("exp").ok_or("it never expires")? + skew <= now {
            return Err("it has expired");
        }
        match claims.get("nbf") {
            Some(_) if time("nbf").is_none_or(|begin| begin - skew > now) => {
                return Err("it is not valid yet");
            }
            Some(_) | None => {}
        }
        let claim = if options.claim.is_empty() { "sub" } else { &options.claim };
        match text(claim) {
            Some(name) if !name.is_empty() => Ok(name.to_owned()),
            Some(_) | None => Err("it names no user"),
        }
    }
}

/// The header of a token, which nothing vouches for.
pub(crate) fn header(token: &[u8]) -> Option<Header> {
    (token.len() <= TOKEN_MAX_BYTES).then(|| jsonwebtoken::decode_header(token).ok()).flatten()
}

/// Whether the header says that whoever reads the token must know certain extensions
/// (RFC 7515 §4.1.11). We know none, so that it need not say which.
fn has_critical_extensions(token: &[u8]) -> bool {
    // Read once more: in a decoded header, a `crit` of null is the same as none.
    let octets = token
        .split(|octet| *octet == b'.')
        .next()
        .and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    let header =
        octets.and_then(|octets| serde_json::from_slice::<Map<String, Value>>(&octets).ok());
    header.is_none_or(|header| header.contains_key("crit"))
}

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
const EC: &[Algorithm] = &[Algorithm::ES256, Algorithm::ES384];
const ED: &[Algorithm] = &[Algorithm::EdDSA];
const HMAC: &[Algorithm] = &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];

/// RFC 7518 §3.2: a key of the size of the hash or larger.
const HMAC_KEY_MIN_BYTES: usize = 32;
/// Octets of a token.
const TOKEN_MAX_BYTES: usize = 16_384;
/// Keys tried for one token; it names its key unless there is one only.
const KEYS_TRIED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha2::Sha256;

    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: u64 = 1_800_000_000;

    fn keys() -> TokenKeys {
        let secret = URL_SAFE_NO_PAD.encode(SECRET);
        TokenKeys::read(&format!(r#"{{"keys":[{{"kty":"oct","kid":"k","k":"{secret}"}}]}}"#))
            .unwrap()
    }

    fn token(header: &str, claims: &str) -> String {
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
        mac.update(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    #[track_caller]
    fn check(token: &str, want: Result<&str, &str>) {
        let options = TokenOptions {
            issuer: "https://idp.example".to_owned(),
            audience: "ldap".to_owned(),
            claim: String::new(),
            clock_skew_s: 60,
        };
        let user = keys().user(token.as_bytes(), &options, Timestamp(NOW * 1_000_000));
        assert_eq!(user.as_deref().map_err(|reason| *reason), want);
    }

    const HEADER: &str = r#"{"alg":"HS256","kid":"k"}"#;

    #[track_caller]
    fn check_claims(claims: &str, want: Result<&str, &str>) {
        check(&token(HEADER, claims), want);
    }

    #[test]
    fn a_token_of_our_issuer_names_its_user() {
        let claims = r#"{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":1800000001}"#;
        check_claims(claims, Ok("anna"));
        check_claims(&claims.replace(r#""ldap""#, r#"["x","ldap"]"#), Ok("anna"));
        check_claims(&claims.replace("1800000001", "1799999940.5"), Ok("anna"));
        check(&token(r#"{"alg":"HS256"}"#, claims), Ok("anna"));
    }

    #[test]
    fn every_claim_counts() {
        let claims = r#"{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":1800000001}"#;
        let changed = |from: &str, to: &str| claims.replace(from, to);
        check_claims(&changed("idp", "x"), Err("its issuer is another"));
        check_claims(&changed("ldap", "imap"), Err("it is for others"));
        check_claims(&changed(r#""ldap""#, "7"), Err("it is for others"));
        check_claims(&changed("1800000001", "1799999940"), Err("it has expired"));
        check_claims(&changed("1800000001", r#""soon""#), Err("it never expires"));
        check_claims(&changed("exp", "ex"), Err("it never expires"));
        check_claims(&changed("}", r#","nbf":1800000060}"#), Ok("anna"));
        check_claims(&changed("}", r#","nbf":1800000061}"#), Err("it is not valid yet"));
        check_claims(&changed("}", r#","nbf":"x"}"#), Err("it is not valid yet"));
        check_claims(&changed(r#""anna""#, "7"), Err("it names no user"));
        check_claims(&changed("anna", ""), Err("it names no user"));
    }

    #[test]
    fn only_our_keys_sign() {
        let claims = r#"{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":1800000001}"#;
        let good = token(HEADER, claims);
        let unsigned = good.rsplit_once('.').unwrap().0.to_owned();
        check(&format!("{unsigned}."), Err("no key of ours has signed it"));
        check(&unsigned, Err("it is no signed JSON Web Token"));
        check("", Err("it is no signed JSON Web Token"));
        check(&token(r#"{"alg":"none"}"#, claims), Err("it is no signed JSON Web Token"));
        check(&token(r#"{"alg":"RS256"}"#, claims), Err("no key of ours has signed it"));
        check(
            &token(r#"{"alg":"HS256","kid":"other"}"#, claims),
            Err("no key of ours has signed it"),
        );
        check(&"x".repeat(TOKEN_MAX_BYTES + 1), Err("it is too long"));
    }

    #[test]
    fn a_token_with_critical_extensions_is_refused() {
        // What `crit` names changes what a token means. It was read over: a token bound to
        // something that this server does not know was taken as one that is not bound.
        let claims = r#"{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":1800000001}"#;
        let refused = Err("it has critical header extensions, and none is known here");
        for crit in [r#"["b64"]"#, r#"["exp","alg"]"#, "[]", "null"] {
            let header = format!(r#"{{"alg":"HS256","kid":"k","crit":{crit},"b64":true}}"#);
            check(&token(&header, claims), refused);
        }
        for crit in [r#""b64""#, "7", "{}", "[1]"] {
            let header = format!(r#"{{"alg":"HS256","kid":"k","crit":{crit}}}"#);
            check(&token(&header, claims), Err("it is no signed JSON Web Token"));
        }
        check(&token(r#"{"alg":"HS256","kid":"k","b64":true}"#, claims), Ok("anna"));
    }

    #[test]
    fn an_algorithm_of_a_key_binds() {
        // A key that was for HS512 alone was taken for whatever its kind allows.
        let claims = r#"{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":1800000001}"#;
        let token = token(r#"{"alg":"HS256"}"#, claims);
        let secret = URL_SAFE_NO_PAD.encode(SECRET);
        let key = |alg: &str| format!(r#"{{"kty":"oct","k":"{secret}","alg":"{alg}"}}"#);
        let verifies = |keys: &[String]| {
            let set = format!("{{\"keys\":[{}]}}", keys.join(","));
            TokenKeys::read(&set).map(|keys| keys.verify(token.as_bytes()).is_ok())
        };
        assert_eq!(verifies(&[key("HS256")]), Ok(true));
        assert_eq!(verifies(&[key("HS512")]), Ok(false));
        assert_eq!(verifies(&[key("HS512"), key("HS256")]), Ok(true));
        // Those of other kinds of key, for encryption, and unknown ones are for no signature.
        for alg in ["RS256", "A128KW", "RSA-OAEP", "HS1", ""] {
            assert!(verifies(&[key(alg)]).unwrap_err().starts_with("it has no key"), "{alg}");
            assert_eq!(verifies(&[key(alg), key("HS384")]), Ok(false), "{alg}");
        }
    }

    #[test]
    fn a_key_set_must_have_keys_to_verify_with() {
        let refused = |text: &str| TokenKeys::read(text).unwrap_err();
        assert!(refused("").contains("EOF"));
        assert!(refused(r#"{"keys":[]}"#).starts_with("it has no key"));
        assert!(refused(r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#).starts_with("a shared key"));
        // An encryption key and one of a kind that is not known.
        let other = r#"{"keys":[{"kty":"oct","use":"enc","k":"c2hvcnQ"},{"kty":"new"}]}"#;
        assert!(refused(other).starts_with("it has no key"));
    }

    /// Algorithm, public key, and its signature of the claims below; made with OpenSSL.
    const SIGNED: &[(&str, &str, &str)] = &[
        (
            "RS256",
            "{\"kty\": \"RSA\", \"use\": \"sig\", \"kid\": \"RS256\", \"n\": \"q6WvxcWt\
             _0zC1p5IZoNDA4nnpzMrw853YKgOtvAI0Qdrc0NtW0Q9HAzjc-3jyxwroht-t8jOy1sXQx2X8B\
             p70YPDRi-HLMETm2lQ6X-S6dRU58TvxOegj3MZg7zQqkNwhOZ4cPc3y65lKkfysergCyirWJqq\
             THZJL-PlQbED_ok90ziOev2eE88VtBTLNzcBK5QhsA7DgdDFodyZGkrv8PaoktLoEHatEy_WlE\
             Blleh42KZoF35xzZK60WXk7QyXLKeyQIAjFGbf1Wz2IySJD9vc163uMPtutGJAF4_DEXn_KiFi\
             lx8rSmiM_BmwH8uR1GMusZxiM7VIfIrHSFB-bQ\", \"e\": \"AQAB\"}",
            "lDdXa1900vwNnBvesnWwMVsfw-t-I81F9O354_yy4XL8ZpdRPXUpX9pZZ4UsIeGzcNXQAmWMio\
             s6FbxuFaRAI5w4px-eO1rJ682WV4f6jP4f1QWdtCBy2Sr4MCihYFjRd-_CpgxEOpP-eyFuJx0t\
             uJxy05coDiEnoL2reT81Yy9o6jpZEW8SIfejl9t0nVnoDK6IcgNkztfvG1sh8hpLeN9sZ2wPpn\
             zEmfG2ETR8vVnqTx3YwhACvm8ze4FumBfCPngXocqM-gysg8K1B32zP6TwulCQHhrpyJTiOTi8\
             1S20Pngj2eXoY4YD4Znn7pay3Pnqs2RmfOzFTkZ77MzaWw",
        ),
        (
            "ES256",
            "{\"kty\": \"EC\", \"crv\": \"P-256\", \"kid\": \"ES256\", \"x\": \"163CW0E\
             1GNM7sQOOoM5YCYpzBB-L3zIRJt0YVeHrnNc\", \"y\": \"P1DiwHgei5_CcQ3LPvyWmy8K-\
             H-tSAh0GF5BtSVA_iA\"}",
            "l8ZP1FKOVh7RVIgK11COfifQ5WzycAstiS96d-Ae2_vFgtm596NRMQ3qcyq4YWrBxkwJCE9_Kc\
             7HAJ2bYipRhQ",
        ),
        (
            "EdDSA",
            "{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"kid\": \"EdDSA\", \"x\": \"wkUo\
             J9BZEcPrL_AU-1cH3H3eXBZ07HlVZWQmxXPCxQE\"}",
            "puUgxlenB4_GlpQzSYETIWt1joXtF42D2Ns1S-_mf6UUNgOLtutCHZI-2h8caeAGSEOWF3BpvH\
             EVVtPRNqa9BA",
        ),
    ];

    #[test]
    fn public_keys_of_each_kind_verify() {
        let claims = r#"{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":1800000001}"#;
        let all = SIGNED.iter().map(|(_, key, _)| *key).collect::<Vec<_>>().join(",");
        let keys = TokenKeys::read(&format!("{{\"keys\":[{all}]}}")).unwrap();
        for (algorithm, _, signature) in SIGNED {
            let header = format!("{{\"alg\": \"{algorithm}\", \"kid\": \"{algorithm}\"}}");
            let token = |claims: &str| {
                let (header, claims) =
                    (URL_SAFE_NO_PAD.encode(&header), URL_SAFE_NO_PAD.encode(claims));
                format!("{header}.{claims}.{signature}")
            };
            let verified = keys.verify(token(claims).as_bytes()).unwrap();
            assert_eq!(verified.get("sub").and_then(Value::as_str), Some("anna"), "{algorithm}");
            assert!(keys.verify(token(&claims.replace("anna", "anne")).as_bytes()).is_err());
        }
    }
}
