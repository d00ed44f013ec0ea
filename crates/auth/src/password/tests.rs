//! Every scheme against values that other implementations made.

use environment::SeededChance;

use super::*;

#[track_caller]
fn check(stored: &str, clear: &str, want: bool) {
    let want = if want { Verdict::Right } else { Verdict::Wrong };
    let got = verify(stored.as_bytes(), clear.as_bytes(), &HashCostMax::default());
    assert_eq!(got, want, "{stored} / {clear}");
}

/// Costs that tests can afford.
fn low() -> HashCosts {
    HashCosts {
        argon2: Argon2Cost { memory_kib: 64, passes: 1, lanes: 2 },
        pbkdf2_iterations: 100,
        scram_iterations: 100,
        bcrypt_cost: 4,
        scrypt_log_n: 4,
        crypt_rounds: 1_000,
    }
}

#[test]
fn each_scheme_verifies_its_own_hashes_and_nothing_else() {
    let mut chance = SeededChance(1);
    for word in Scheme::words() {
        let scheme = Scheme::of_word(word).unwrap();
        assert_eq!(scheme.word(), word);
        let storage = PasswordStorage { scheme, costs: low() };
        let stored = storage.hash(b"secret", &mut chance).unwrap();
        assert!(is_hashed(&stored));
        assert_ne!(stored, storage.hash(b"secret", &mut chance).unwrap(), "salted");
        assert_eq!(storage.is_slow(), is_slow(&stored, &HashCostMax::default()), "{word}");
        let stored = String::from_utf8(stored).unwrap();
        check(&stored, "secret", true);
        check(&stored, "Secret", false);
        check(&stored, "", false);
        check(&stored, &stored, false);
        for other in Scheme::words() {
            let other = PasswordStorage { scheme: Scheme::of_word(other).unwrap(), costs: low() };
            assert_eq!(other.is_current(stored.as_bytes()), other == storage, "{stored} {other:?}");
        }
    }
}

#[test]
fn a_value_of_other_costs_is_not_current() {
    let mut chance = SeededChance(2);
    for (word, change) in [
        ("ARGON2", (|costs| costs.argon2.memory_kib *= 2) as fn(&mut HashCosts)),
        ("ARGON2", |costs| costs.argon2.passes += 1),
        ("ARGON2", |costs| costs.argon2.lanes += 1),
        ("PBKDF2-SHA256", |costs| costs.pbkdf2_iterations += 1),
        ("PBKDF2_SHA256", |costs| costs.pbkdf2_iterations += 1),
        ("PBKDF2", |costs| costs.pbkdf2_iterations += 1),
        ("SCRAM-SHA-256", |costs| costs.scram_iterations += 1),
        ("BCRYPT", |costs| costs.bcrypt_cost += 1),
        ("SCRYPT", |costs| costs.scrypt_log_n += 1),
        ("CRYPT-SHA512", |costs| costs.crypt_rounds += 1),
    ] {
        let scheme = Scheme::of_word(word).unwrap();
        let storage = PasswordStorage { scheme, costs: low() };
        let stored = storage.hash(b"secret", &mut chance).unwrap();
        let mut other = storage;
        change(&mut other.costs);
        assert!(storage.is_current(&stored) && !other.is_current(&stored), "{word}");
    }
    let ssha512 = PasswordStorage::from(Scheme::Ssha512);
    assert!(!ssha512.is_current(b"secret") && !ssha512.is_current(b"{SSHA512}damaged"));
}

/// All of "secret".
const MADE_ELSEWHERE: &[&str] = &[
    // Python's hashlib, and slappasswd of OpenLDAP 2.5 with pw-sha2.
    "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
    "{SHA256}K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=",
    "{SHA384}WKd1ukESvjAFrkQHznV9iP2nHUBJe7gCbsrFTU4//HIyzo3jq1rLMK45dg/ufFPt",
    "{SHA512}vSsar3708Jvp9Szi2NWZZ02Bqp1qRCFpbcTZPdBhnWgs5WtNZKnvCXdhztmeD2cmW192CF5bDufK\
     RpayrW/isg==",
    "{SSHA}cqVbhtveg6UlUYb4hGPrp7XYoikAAQIDBAUGBw==",
    "{SSHA}eNPv5hUOITeia1O7G6jPv3Hrz55oou/q",
    "{SSHA256}lAejl/Of0h/+J/b6px7T8LLPd/QxmtSbDDvk8djjRJEAAQIDBAUGBw==",
    "{SSHA256}am57Khjr7PCAarnSa/SA8DyCw/VgaYOrOb8xZjs5nJZvEVO10TCZ7w==",
    "{SSHA384}ovWmOuRxardiAXRoZ0oJ3oNrimvG3way/lnwSIrxRCQs3mxTACkzZgBei27d9HRgAAECAwQFBgc=",
    "{SSHA384}s3Zb0o+NyJpFOraY7Qsm7WclLz/K/kzaSA4XPqFkbpytdR5eCJiZDl4WreJhlNGAsbkXoUBKeC8=",
    "{SSHA512}sA0uxvTZmjjgeqepQzW+3VNsblhqzltje58zvmzlAr0V6DwpiazN2VxnSFYthOpYDzqKXnv8rNmI\
     QMOVX9alQgABAgMEBQYH",
    "{SSHA512}sGlreecRlw3VBKctGY0EnRkZQBytDYNfNYdHzioSuV+Lxc9kNBdwc7tRVEmRGYxXccuYOUIMpmq3\
     eBKQ1bkOwqYju3iln0xm",
    "{MD5}Xr4ilOzQ4PCOq3aQ0qbuaQ==",
    "{SMD5}xY+YahN/y2G2Vl6EVOOBIwiFkIg=",
    "{SMD5}VAfQ6nCkaw9o3u+x706wnXNhbHRzYWx0",
    // crypt(3) of libxcrypt; openssl agrees on $1$ to $6$.
    "{CRYPT}abNANd1rDfiNc",
    "{CRYPT}_7C/.saltnIAQkBgY6m2",
    "{CRYPT}$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
    "{CRYPT}$sha1$1000$saltsalt$Afd9xS7u8w4h.ywETK2u0ha2i2TG",
    "{CRYPT}$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
    "{CRYPT}$5$rounds=5000$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
    "{CRYPT}$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT\
     0Y77vwPZN.Pq.H91p5hVO1",
    "{CRYPT}$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q\
     13LEv0DRY/x8v0/crpIjl8NJSAqXV/",
    "{CRYPT}$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
    "{CRYPT}$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
    "{CRYPT}$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
    "{CRYPT}$y$j75$saltsaltsaltsalt$DsMjm5uqUiFBUYLB9CLnX8E/M0k0mOVJBUWdpCrUik9",
    "{CRYPT}$y$j9T$saltsaltsaltsalt$.Zt5W26jjocuW0wIHGgB6AJelofw6GEpOypHGyow2y5",
    "{CRYPT}$7$9/..../..../saltsalt$QT6EOn4RV8S9VVWGb4lpN9pStNnF.5UJP0QkNQ5m8h1",
    // bcrypt of Python (OpenBSD's code), and of OpenDJ's tests (jBCrypt).
    "{BCRYPT}$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
    "{BCRYPT}$2a$08$sxnezK9Dp9cQvU56LHRwIeI0RvfNn//fFzGnOgQ2l7TOZcZ1wbOVO",
    // Passlib.
    "{PBKDF2}1000$AAECAwQFBgcICQoLDA0ODw$sFSyXPFcXgkxACFLfL2dSbbhY6k",
    "{PBKDF2-SHA1}1000$AAECAwQFBgcICQoLDA0ODw$sFSyXPFcXgkxACFLfL2dSbbhY6k",
    "{PBKDF2-SHA256}1000$AAECAwQFBgcICQoLDA0ODw$Tvsru20utY6o3q7VRBeuL9h/1QqKhWhwk2PaYNRWBgY",
    "{PBKDF2-SHA512}1000$AAECAwQFBgcICQoLDA0ODw$8ltlLe5cI6KNrWOmMFkTi2iE7fEXJKJJR9lhjd/xSn68\
     .xOqzv2h20C4IDv/enqlx8f6AaRHE.6XnvHKXKhAjA",
    "{PKCS5S2}AAECAwQFBgcICQoLDA0OD8O7V+ZxDKCL9nOaS+G4edWKL3+dAn80P9ezRVfqT6er",
    "{SCRYPT}$scrypt$ln=10,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$Mdc/jTCPy+uU8aSLbM+FGBQC/AXSzfWCs\
     AUkF/VYCgk",
    // Python's hashlib in the layouts of RFC 5803, and of Dovecot.
    "{SCRAM-SHA-1}4096:AAECAwQFBgcICQoLDA0ODw==$Y70Wjxts9xDvZXVZpf765VU+gt4=:6tMKK7QnVeI0U1t+\
     EDZXP1e5Qys=",
    "{SCRAM-SHA-256}4096:AAECAwQFBgcICQoLDA0ODw==$THoPhoTAuqyoQsK4dUHncUzgfD8fdmhsgKZhWVqNP5U\
     =:7YiHMMi2OcXGRogub03Ek06JRZ9bkhTOdCzHa5iPLiQ=",
    "{SCRAM-SHA-512}4096:AAECAwQFBgcICQoLDA0ODw==$p0NRv7AnRYEnDMi+LJb8mmadO7hlzCayf5kUIROPSkM\
     ktBhWBSZC2SSTpwiX/wTgdhXP1yVCxYG20zDPvsYR2w==:bSXNr+94D+xhqC+uXuzD1riNAGhDKr/M6m56dsacFL\
     vOEouvG0Z24H/Oubr0fNZf9S4Z4ThZcUxXGF/QI8ek+A==",
    "{SCRAM-SHA-256}4096,AAECAwQFBgcICQoLDA0ODw==,THoPhoTAuqyoQsK4dUHncUzgfD8fdmhsgKZhWVqNP5U\
     =,7YiHMMi2OcXGRogub03Ek06JRZ9bkhTOdCzHa5iPLiQ=",
    // Python's hashlib (OpenSSL) in the layouts of 389 and OpenDJ.
    "{PBKDF2-SHA256}1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKnc\
     JQTOTPCGw=",
    "{PBKDF2-SHA512}1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$oMHAMk/CmAlyx6ch0SqS6b3WdFXPBNEW1a\
     ViiNQ+FgHZXrYHVlGD+iQloGSkHT1Emaf5zETJbd1DRbZZN3C30Q==",
    "{PBKDF2}1000:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==",
    "{PBKDF2-HMAC-SHA256}1000:Tvsru20utY6o3q7VRBeuL9h/1QqKhWhwk2PaYNRWBgYAAQIDBAUGBwgJCgsMDQ\
     4P",
    "{PBKDF2-HMAC-SHA512}1000:8ltlLe5cI6KNrWOmMFkTi2iE7fEXJKJJR9lhjd/xSn68+xOqzv2h20C4IDv/en\
     qlx8f6AaRHE+6XnvHKXKhAjAABAgMEBQYHCAkKCwwNDg8=",
    "{PBKDF2_SHA256}AAAD6AABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzAx\
     MjM0NTY3ODk6Ozw9Pj9UBxgXHzEA0wedQV6xsRwUKho+mvb+TXEkzlkIpy63lg0Y0S48MGX58IJ9YxzP8jfoz6/\
     Hp+YOg+xDMwW7RzHNXFh8TkQNp5s8BClsSegYnVtLH4S47BYv3Xnxc31y2DtUo3+csfvJ9RsONJjarJ8/KIA3dL\
     55wHe7Tu3/0TTZCcpwOf9MOyZRfjNRib8bjd+dpZ/nb44Yaph2QUzyTtkm6m4Yno3sjqUaeNsRMjDdgPxIBJuyI\
     G50CaKQFtcqyI3m28JR4gxRWjScCCdeXRSceIheVKv+jBXMppBOYoPVmk40Me6VCqauG8/N/Js3xlHim8DhDOjw\
     lDCtvQRzRY/w",
    // The reference implementation, through Python's argon2-cffi and through OpenLDAP's slappasswd.
    "{ARGON2}$argon2id$v=19$m=64,t=2,p=1$AAECAwQFBgcICQoLDA0ODw$fQXnu2lcRVW87PU7wSxCyjf7dkJa\
     CTH9lUUs2L+PJMw",
    "{ARGON2}$argon2i$v=19$m=64,t=2,p=1$AAECAwQFBgcICQoLDA0ODw$PtcbFC9zUCVFwvSIQNdyy8FvQPdm1\
     CxsFLCFthF8IhI",
    "{ARGON2}$argon2d$v=19$m=64,t=2,p=1$AAECAwQFBgcICQoLDA0ODw$FUsQxN4R7dJM0FZiZm5wfzzXAs2Zk\
     JOLapUa3JUPxfI",
    "{ARGON2}$argon2id$v=16$m=64,t=2,p=2$AAECAwQFBgcICQoLDA0ODw$vitxYaQTie9O8ePGnMLKCg",
    "{ARGON2}$argon2id$v=19$m=64,t=2,p=4$AAECAwQFBgcICQoLDA0ODw$L/tpb9X493cTDRGS0KuGCc1iytnA\
     TOOfQJtQEsBiBXe45ZKHkrQdRrWNLPdLhQlrD2n0MdxY/+ep9i7GPt4Hqg",
    "{ARGON2}$argon2i$v=19$m=64,t=1,p=1$zUcvvIo8x4IJnT+o3Z4PWA$AmK9S74jQWCbzZO+HOHdE4dO1VosR\
     Q7YtLEPVbXWPBQ",
];

#[test]
fn hashes_made_elsewhere_verify() {
    for stored in MADE_ELSEWHERE {
        check(stored, "secret", true);
        let (name, rest) = stored.split_once('}').unwrap();
        check(&format!("{}}}{rest}", name.to_lowercase()), "secret", true);
        for wrong in ["Secret", "secret ", "secre", "", stored] {
            check(stored, wrong, false);
        }
        assert!(is_hashed(stored.as_bytes()) && is_well_formed(stored.as_bytes()), "{stored}");
        let is_digest = ["{S", "{MD5}"].iter().any(|start| stored.starts_with(start))
            && !stored.starts_with("{SCR");
        assert_eq!(is_slow(stored.as_bytes(), &HashCostMax::default()), !is_digest, "{stored}");
    }
}

#[test]
fn what_is_only_named_like_a_hash_is_none() {
    for clear in [
        "{SHA}5en6G6MezRroT3XKqkdPOmY",
        "{SSHA}my horse has four legs and a tail",
        "{SSHA}c2hvcnQ=",
        "{MD5}",
        "{CRYPT}hunter2",
        "{crypt}thirteen-----",
        "{CRYPT}_hunter2",
        "{CRYPT}$1$money$money",
        "{BCRYPT}$2b$10$short",
        "{ARGON2}horse",
        "{PBKDF2}a$b$c",
        "{SCRAM-SHA-256}4096:salt",
        "{SASL}user@REALM",
        "{MY}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "{}",
    ] {
        assert!(!is_well_formed(clear.as_bytes()), "{clear}");
    }
}

#[test]
fn values_of_servers_in_use_verify() {
    // 389 Directory Server 1.4 (from the tests of a tool that checks such values).
    check(
        "{PBKDF2_SHA256}AAAnEGTxXtnR/oox922/jZyjH6fmiIdW4AwIYZE2LfCVL/SUz5GbAHfjRj4NbN2u8ul0/j/dU\
         zJ4gQSawGALGHZV74nOAtPttoZDTsh7BeGCLD/Ps7vRugwDdz9uPARXzF3bD/8qCpumvRGb4pehzfQsk+FnGgTwi0\
         rUeVaN8a7Kbv8ZpRfU2sd+208F/YL42BWAh/2tv0I4vY7ZsrCZcrUJtgKWy5Nr+t78zmPkrZsX/kgfnGdXhr50kN1\
         0cmkLQ0/cZOXo9CAkpeZyFu+wQ5vQdUaES2Vd5kBjJYPCkr4b2ocr4ETQi3IGO2GGCoCetmMIETsudRVSxUNBbva\
         +Vgxin5Apu4wIP/0ZyuGK6TuWLqLnNpmK3RkRx0xjqJ4nN2Ok0ul0XYBJcYIBt4UoaVM2uSa/Etw28Uy+zAsUv2A\
         OiRo5",
        "Password123",
        true,
    );
    // OpenDJ (from the template of a sample data set).
    check(
        "{PBKDF2-HMAC-SHA256}10000:xKsMmlzVLRYdYzcgBuD3ZIAeSj8tNhjDHGFDqhth8Kcbw5qjL5UZxaiS2awL1H\
         jO",
        "password",
        true,
    );
    // Atlassian Crowd, and the same password as OpenLDAP has it.
    let clear = "CALYX-zippy-whiten-pinhead";
    check("{PKCS5S2}MW+VUen5ZKtw2xxOljoZKS2A2XO8PTIA9bVMVmjHfy5bG8pXF41muDjOwjp4UBA1", clear, true);
    check("{PBKDF2}10000$MW.VUen5ZKtw2xxOljoZKQ$LYDZc7w9MgD1tUxWaMd/Llsbylc", clear, true);
}

#[test]
fn what_costs_too_much_is_not_computed() {
    let max = HashCostMax::default();
    let memory = "$AAECAwQFBgcICQoLDA0ODw$fQXnu2lcRVW87PU7wSxCyjf7dkJaCTH9lUUs2L+PJMw";
    for stored in [
        format!("{{ARGON2}}$argon2id$v=19$m=4194304,t=1,p=1{memory}"),
        format!("{{ARGON2}}$argon2id$v=19$m=1024,t=4294967295,p=1{memory}"),
        format!("{{ARGON2}}$argon2id$v=19$m=1024,t=1,p=17{memory}"),
        format!("{{SCRYPT}}$scrypt$ln=22,r=8,p=1{memory}"),
        format!("{{SCRYPT}}$scrypt$ln=10,r=8,p=100{memory}"),
        "{BCRYPT}$2b$31$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a".to_owned(),
        "{CRYPT}$2b$16$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a".to_owned(),
        "{CRYPT}$6$rounds=999999999$saltsalt$x".to_owned(),
        "{CRYPT}$5$rounds=5000001$saltsalt$x".to_owned(),
        "{CRYPT}$sha1$4294967295$saltsalt$x".to_owned(),
        "{CRYPT}_zzzzsaltnIAQkBgY6m2".to_owned(),
        "{CRYPT}$7$K6..../....saltsalt$QT6EOn4RV8S9VVWGb4lpN9pStNnF.5UJP0QkNQ5m8h1".to_owned(),
        "{PBKDF2}4294967295$AAECAwQFBgcICQoLDA0ODw$sFSyXPFcXgkxACFLfL2dSbbhY6k".to_owned(),
        "{SCRAM-SHA-256}9999999:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4q\
         Y=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
            .to_owned(),
        "{PBKDF2-HMAC-SHA256}4294967295:Tvsru20utY6o3q7VRBeuL9h/1QqKhWhwk2PaYNRWBgYAAQI".to_owned(),
    ] {
        let verdict = verify(stored.as_bytes(), b"secret", &max);
        assert!(matches!(verdict, Verdict::TooCostly(_)), "{stored}: {verdict:?}");
        assert!(!is_slow(stored.as_bytes(), &max), "{stored}: nothing is computed");
        assert!(is_hashed(stored.as_bytes()));
    }
    let long = vec![b'x'; PASSWORD_MAX_BYTES + 1];
    let stored = PasswordStorage::from(Scheme::Ssha).hash(&long, &mut SeededChance(1)).unwrap();
    assert_eq!(verify(&stored, &long, &max), Verdict::Wrong, "long passwords are not hashed");
}

#[test]
fn schemes_of_others_are_told_from_clear_text() {
    for foreign in [
        "{PBKDF2-HMAC-MD5}10:x",
        "{PBKDF2-SHA384}10$x$y",
        "{SASL/MD5}x",
        "{SASL}user@REALM",
        "{X- ORCLNTV}x",
        "{SSHA3-256}x",
        "{AES}x",
        "{SCRAM-SHA-384}x",
        "{ARGON2D}x",
    ] {
        assert!(is_foreign(foreign.as_bytes()) && !is_hashed(foreign.as_bytes()), "{foreign}");
        assert!(is_stored_form(foreign.as_bytes()));
        check(foreign, foreign, false);
    }
    for other in ["{SSHA}x", "{CRYPT}x", "{}x", "{x}y", "{AESTHETIC}x", "MD5", "{MD5", ""] {
        assert!(!is_foreign(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_damaged_or_unknown_hash_matches_nothing() {
    check("{SSHA512}", "", false);
    check("{SSHA512}%%%", "%%%", false);
    check("{SSHA}c2hvcnQ=", "short", false);
    for damaged in [
        "",
        "x",
        "xx",
        "$",
        "$6$",
        "$6$salt",
        "$2b$",
        "$2b$05$short",
        "$y$j9T$x$y",
        "$y$",
        "$7$",
        "$6$rounds=$salt$x",
        "$6$rounds=x$salt$x",
        "$sha1$$",
        "_",
        "_7C/.",
        "ää",
        "$1$ä$ä",
        "$5$$",
    ] {
        let stored = format!("{{CRYPT}}{damaged}");
        for clear in ["", "x", damaged, &stored] {
            check(&stored, clear, false);
        }
    }
    // Each value that is right, cut short or with a letter changed in the middle.
    for stored in MADE_ELSEWHERE {
        let start = stored.find('}').unwrap() + 1;
        for end in start..(stored.len() - 3).min(start + 40) {
            check(&stored[..end], "secret", false);
        }
        // Of a hash that is longer than the hash function's, the first block tells.
        let is_long = stored.starts_with("{PBKDF2_SHA256}");
        let middle = if is_long { start + 20 } else { (start + stored.len()) / 2 };
        let changed = if &stored[middle..=middle] == "a" { "b" } else { "a" };
        let changed = format!("{}{changed}{}", &stored[..middle], &stored[middle + 1..]);
        let verdict = verify(changed.as_bytes(), b"secret", &HashCostMax::default());
        assert_ne!(verdict, Verdict::Right, "{changed}");
    }
    check("{UNKNOWN}x", "x", false);
    check("{UNKNOWN}x", "{UNKNOWN}x", false);
    check("clear", "clear", true);
    check("{", "{", true);
    check("", "", true);
}
