//! The messages of SCRAM, one by one, with the values of RFC 7677 §3.

use super::*;

fn exchange(binding: &[u8]) -> Challenge {
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    Challenge {
        keys: ScramKeys::derive(ScramHash::Sha256, b"pencil", salt, 4_096),
        binding: binding.to_vec(),
        nonce: nonce.to_owned(),
        auth_message: format!(
            "n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        ),
    }
}

const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

#[test]
fn the_example_of_rfc_7677_is_accepted() {
    let last = ClientFinal::read(LAST.as_bytes()).unwrap();
    let answer = exchange(b"n,,").verify(&last).unwrap();
    assert_eq!(answer.unwrap(), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn anything_else_is_refused() {
    let check = |exchange: &Challenge, last: &str, is_malformed: bool| {
        let last = ClientFinal::read(last.as_bytes()).unwrap();
        assert!(exchange.verify(&last).map_or(is_malformed, |proof| proof.is_none()));
        assert_eq!(exchange.verify(&last).is_err(), is_malformed);
    };
    // Another proof, a proof that is too short, another binding, another nonce.
    check(&exchange(b"n,,"), &LAST.replace("p=dH", "p=dG"), false);
    check(
        &exchange(b"n,,"),
        &LAST.replace("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "p="),
        false,
    );
    check(&exchange(b"y,,"), LAST, false);
    check(&exchange(b"n,,"), &LAST.replace("$k0", "$k1"), true);
}

#[test]
fn a_first_message_has_its_parts() {
    let first = ClientFirst::read(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
    assert_eq!(first.binding, Binding::Unsupported);
    assert_eq!((first.header, first.bare), ("n,,", "n=user,r=rOprNGfwEbeRWgbNEkqO"));
    assert_eq!((&*first.username, first.nonce), ("user", "rOprNGfwEbeRWgbNEkqO"));
    let first = ClientFirst::read(b"p=tls-exporter,a=u:x=2Cy,n=a=3Db=2C,r=x,ext=1").unwrap();
    assert_eq!(first.binding, Binding::Used("tls-exporter"));
    assert_eq!((&*first.authzid, &*first.username), ("u:x,y", "a=b,"));
    assert_eq!(first.header, "p=tls-exporter,a=u:x=2Cy,");
    assert_eq!(ClientFirst::read(b"y,,n=a,r=x").unwrap().binding, Binding::Unoffered);
}

#[test]
fn what_is_not_as_the_rfc_says_is_refused() {
    for wrong in [
        &b""[..],
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,r=x,n=user",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=x",
        b"n,,n=us=2cer,r=x",
        b"n,,n=user=,r=x",
        b"n,,n=user,r=a b",
        b"n,b,n=user,r=x",
        b"x,,n=user,r=x",
        b"p=,,n=user,r=x",
        b"p=a b,,n=user,r=x",
        b"n,,n=us\0er,r=x",
        b"n,,n=us\xffer,r=x",
    ] {
        assert!(ClientFirst::read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
    }
    for wrong in
        [&b""[..], b"c=biws,r=x", b"r=x,c=biws,p=AA==", b"c=!,r=x,p=AA==", b"c=biws,r=x,p=!"]
    {
        assert!(ClientFinal::read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
    }
}
