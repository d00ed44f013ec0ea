//! Reading: after an error, up to a limit, from a source that fails.

use std::io::{self, Read};

use super::*;

#[test]
fn reading_goes_on_after_an_error() {
    let text = "dn: cn=a\ncn: a\n\nbad line\ncn: x\n\ndn: cn=b\ncn:: !\nsn: b\n y\n\n\n\
                dn: cn=c\n\n x\ny: z\n\ndn: cn=d\ncn: d\n";
    check(
        text,
        &[
            "1 {cn=a} content cn=[a]",
            "! line 4: ':' is missing: write 'attribute: value', \
             and begin the continuation of a long line with a space",
            "! line 8: the text after '::' is not valid base64: it must be whole, filled up \
             with '=' to a multiple of four characters",
            "! line 13: the entry has no attributes",
            "! line 15: the line begins with a space but there is no line before it to continue",
            "18 {cn=d} content cn=[d]",
        ],
    );
    // The same when the caller skips by hand: it is never one record too many.
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let mut dns = Vec::new();
    loop {
        match reader.next_record() {
            Ok(Some(record)) => dns.push(record.dn),
            Ok(None) => break,
            Err(_) => reader.skip_record().unwrap(),
        }
    }
    assert_eq!(dns, ["cn=a", "cn=d"]);
}

#[test]
fn entries_can_be_borrowed() {
    let text = "dn: cn=a\ncn: a\nsn:: YWI=\n\ndn: cn=b\nchangetype: delete\n\n\
                dn: cn=c\nc_n: x\n\ndn: cn=d\nCN:\n";
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!((entry.line, entry.dn), (1, "cn=a"));
    let attributes: Vec<_> = entry.attributes().collect();
    assert_eq!(attributes, [("cn", &b"a"[..]), ("sn", &b"ab"[..])]);
    let error = reader.next_entry().map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.reason), (5, LdifReason::ChangeOfEntry("delete".to_owned())));
    let error = reader.next_entry().map(|_| ()).unwrap_err();
    assert_eq!(error.line, 9);
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!(entry.attributes().collect::<Vec<_>>(), [("CN", &b""[..])]);
    assert!(reader.next_entry().unwrap().is_none());
    assert!(reader.next_entry().unwrap().is_none());
    assert_eq!(reader.line(), 12);
}

// The line was refused whatever it said.
#[test]
fn controls_of_an_entry_that_is_added_are_read() {
    let text = "dn: cn=a\ncontrol: 1.2.3 false:: YWI=\ncontrol: 1.2.4\nchangetype: add\ncn: a\n\n\
                dn: cn=b\ncontrol: 1.2.3 TRUE: x\nchangetype: add\ncn: b\n\n\
                dn: cn=c\ncontrol: 1.2.3 yes\nchangetype: add\ncn: c\n\n\
                dn: cn=d\ncontrol: 1.2.3\ncn: d\n\n\
                dn: cn=e\ncontrol: 1.2.3:: YWI\nchangetype: add\ncn: e\n";
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let control = |oid: &str, critical, value: Option<&[u8]>| LdifControl {
        oid: oid.to_owned(),
        critical,
        value: value.map(<[u8]>::to_vec),
    };
    let entry = reader.next_entry().unwrap().unwrap();
    let both = [control("1.2.3", false, Some(b"ab")), control("1.2.4", false, None)];
    assert_eq!(entry.controls, both);
    assert_eq!(entry.check_without_controls(), Ok(()));
    assert_eq!(entry.attributes().collect::<Vec<_>>(), [("cn", &b"a"[..])]);
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!(entry.controls, [control("1.2.3", true, Some(b"x"))]);
    let error = entry.check_without_controls().unwrap_err();
    assert_eq!((error.line, error.reason), (7, LdifReason::ControlOfEntry));
    for (line, reason) in [
        (13, LdifReason::BadControl),
        (19, LdifReason::MissingChangetype),
        (22, LdifReason::BadBase64),
    ] {
        let error = reader.next_entry().map(|_| ()).unwrap_err();
        assert_eq!((error.line, error.reason), (line, reason));
    }
}

#[test]
fn limits_hold() {
    let limits =
        LdifLimits { line_length_max_bytes: 20, record_length_max_bytes: 50, record_lines_max: 4 };
    let read = |text: &str| {
        let mut results = Vec::new();
        for buffer_bytes in [1, 16, 4096] {
            let source = BufReader::with_capacity(buffer_bytes, text.as_bytes());
            let mut reader = LdifReader::new(source, limits);
            let first = reader.next_record().map(|record| record.unwrap().dn);
            let second = reader.next_record().map(|record| record.unwrap().dn);
            assert_eq!(second.unwrap(), "cn=n", "in chunks of {buffer_bytes}");
            results.push(first);
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        results.remove(0).map_err(|error| (error.line, error.reason))
    };
    let next = "\n\ndn: cn=n\ncn: n\n";
    let line = |length: usize| format!("cn: {}", "x".repeat(length - 4));

    assert!(read(&format!("dn: cn=a\n{}{next}", line(20))).is_ok());
    let too_long = LdifReason::LineTooLong { max_bytes: 20 };
    assert_eq!(read(&format!("dn: cn=a\n{}{next}", line(21))), Err((2, too_long.clone())));
    let long = "x".repeat(1000);
    assert_eq!(read(&format!("dn: cn=a\ncn: {long}{next}")), Err((2, too_long.clone())));
    // Folding does not help.
    let folded = format!("dn: cn=a\n{}\n {}{next}", line(20), "x");
    assert_eq!(read(&folded), Err((3, too_long.clone())));
    let folded = format!("dn: cn=a\ncn: x{}{next}", "\n x".repeat(1000));
    assert_eq!(read(&folded), Err((18, too_long.clone())));
    assert_eq!(read(&format!("# {long}\n{next}")), Err((1, too_long)));

    let ten = line(10);
    assert!(read(&format!("dn: cn=a\n{ten}\n{ten}\n{ten}{next}")).is_ok());
    let too_many = LdifReason::TooManyLines { max: 4 };
    assert_eq!(read(&format!("dn: cn=a\n{}{next}", "a:\n".repeat(4))), Err((5, too_many)));
    let too_long = LdifReason::RecordTooLong { max_bytes: 50 };
    let text = format!("dn: cn=a\n{0}\n{0}\n{0}{next}", line(20));
    assert_eq!(read(&text), Err((4, too_long)));
}

#[test]
fn long_lines_are_read_whole() {
    let value = "0123456789abcdef".repeat(100_000);
    let text = format!("dn: cn=a\ncn: {value}\nsn: b\n");
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let entry = reader.next_entry().unwrap().unwrap();
    let attributes: Vec<_> = entry.attributes().collect();
    assert_eq!(attributes, [("cn", value.as_bytes()), ("sn", b"b")]);
}

/// Fails after its text, as a disk may.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("disk on fire")),
            length => Ok(length),
        }
    }
}

#[test]
fn a_failing_source_is_an_error_not_an_end() {
    for text in ["", "dn: cn=a\ncn: a\n", "dn: cn=a\ncn: a", "dn: cn=a\nbad\n", "# c"] {
        let mut reader =
            LdifReader::new(BufReader::new(Broken(text.as_bytes())), LdifLimits::default());
        let mut error = reader.next_record().unwrap_err();
        if error.reason == LdifReason::MissingColon {
            error = reader.next_record().unwrap_err();
        }
        assert_eq!(error.reason, LdifReason::Io("disk on fire".to_owned()), "{text:?}");
    }
}

#[test]
fn messages_are_short_and_printable() {
    let text = format!("{}\x07\u{200b}: x\n", "x".repeat(10_000));
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let message = reader.next_record().unwrap_err().to_string();
    assert!(message.len() < 200, "{message}");
    assert!(!message.contains(|c: char| c.is_control()), "{message}");
}
