//! Blocks and the readers of blocks find what one reader of the whole file finds.

use std::io;

use proptest::prelude::*;

use super::super::{LdifReader, SliceReader};
use super::*;

type Read = Result<(u64, String, Vec<(String, Vec<u8>)>), LdifError>;

fn owned(entry: &super::super::LdifEntry<'_>) -> (u64, String, Vec<(String, Vec<u8>)>) {
    let attributes = entry.attributes().map(|(name, value)| (name.to_owned(), value.to_vec()));
    (entry.line, entry.dn.to_owned(), attributes.collect())
}

fn whole(text: &[u8]) -> Vec<Read> {
    let mut reader = LdifReader::new(text, LdifLimits::default());
    let mut read = Vec::new();
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => read.push(Ok(owned(&entry))),
            Ok(None) => return read,
            Err(error) => read.push(Err(error)),
        }
    }
}

fn in_blocks(text: &[u8], block_bytes: usize) -> Vec<Read> {
    let mut blocks = LdifBlocks::new(text, block_bytes, LdifLimits::default());
    let mut read = Vec::new();
    loop {
        let block = match blocks.next_block() {
            Ok(Some(block)) => block,
            Ok(None) => return read,
            Err(error) => {
                read.push(Err(error));
                continue;
            }
        };
        let before = read.len();
        let mut reader = SliceReader::new(&block, LdifLimits::default());
        loop {
            match reader.next_entry() {
                Ok(Some(entry)) => read.push(Ok(owned(&entry))),
                Ok(None) => break,
                Err(error) => read.push(Err(error)),
            }
            reader.skip_record();
            assert!(block.text.get(reader.record_range()).is_some_and(|text| !text.is_empty()));
        }
        assert!((read.len() - before) as u64 <= block.record_count_max);
    }
}

#[track_caller]
fn check(text: &str) {
    let expected = whole(text.as_bytes());
    for block_bytes in [1, 2, 3, 5, 8, 13, 40, 1000] {
        assert_eq!(in_blocks(text.as_bytes(), block_bytes), expected, "{text:?} by {block_bytes}");
    }
}

#[test]
fn blocks_hold_the_records_of_the_file() {
    check("");
    check("\n\n\n");
    check("dn: cn=a\ncn: a\n");
    check("dn: cn=a\ncn: a");
    check("dn: cn=a\ncn: a\n\ndn: cn=b\ncn: b\n\n\n\ndn: cn=c\ncn: c");
    check("dn: cn=a\r\ncn: a\r\n\r\ndn: cn=b\ncn: b\n\r\ndn: cn=c\r\ncn: c\n\n");
    check(
        "version: 1\n\n# comment\n  of two lines\n\ndn: cn=a\n# within\ncn:: YQ==\ncn: b\n c\n d\n",
    );
    check("version: 1\ndn:: Y249w\n 6Q=\ncn:: w\n 6\n Q=\nd\n escription: x\n\n");
    check("\u{feff}dn: cn=a\ncn: a\n\n\u{feff}dn: cn=b\ncn: b\n");
    check("dn: cn=a\nchangetype: add\ncn: a\n\ndn: cn=b\nchangetype: delete\n\ndn: cn=c\ncn: c\n");
    check("dn: cn=a\ncontrol: 1.2\nchangetype: add\ncn: a\n\ndn: cn=a\nchangetype: add\n");
    check("nonsense\nmore\n\ndn: cn=a\nbad\ncn: a\n\n x\n\ndn: cn=c\ncn:: %\ncn: c\n\ncn: d\n");
    check("dn: cn=a\ncn: a\0b\n\0\n\ndn: cn=\0\ncn: \0\n");
    check("dn: cn=a\ncn: a\n \n \n\ndn: cn=b\ncn:\n\ncn:\n \ndn: cn=b\n-\n");
    check("dn: cn=a\ncn: a\r\r\n\r\r\n\n\r");
    check("dn: cn=a\ncn;deleted-x;deleted:\ncn;deleted:\n");
}

#[test]
fn paragraphs_that_say_nothing_are_no_records() {
    let limits = LdifLimits { line_length_max_bytes: 30, ..LdifLimits::default() };
    for (text, count) in [
        ("", 0),
        ("\n\r\n\n", 0),
        ("# a\n\n# b\r\n#c\r\n\r\n# d\n  e\n\n#", 0),
        ("# a\n\n# b\ndn: cn=a\n# c\ncn: a\n\n\n# d\n", 1),
        ("dn: cn=a\n\n\ndn: cn=b", 2),
        // Each of these is an error.
        ("# a\n\n b\n\nc\n", 2),
        ("# a comment that is longer than a line\n\n# a\n", 1),
        ("# a comment that is\n  longer than a line\n\n# a\n", 1),
    ] {
        let mut blocks = LdifBlocks::new(text.as_bytes(), 1000, limits);
        let block = blocks.next_block().unwrap();
        assert_eq!(block.map_or(0, |block| block.record_count_max), count, "{text:?}");
    }
}

#[test]
fn lines_are_counted_across_blocks() {
    let mut text = String::from("version: 1\n\n");
    for number in 0..500 {
        text.push_str(&format!("dn: cn={number}\ncn: {number}\r\n# c\ndescription: x\n  y\n\n"));
    }
    let lines: Vec<u64> =
        in_blocks(text.as_bytes(), 100).into_iter().map(|read| read.unwrap().0).collect();
    let expected: Vec<u64> = (0..500).map(|number| 3 + 6 * number).collect();
    assert_eq!(lines, expected);
    check(&text);
}

#[test]
fn a_record_of_many_blocks_is_one_block() {
    let mut text = String::from("dn: cn=a\ncn: a\n\ndn: cn=b\ncn: b\n");
    (0..1000).for_each(|number| text.push_str(&format!("member: cn={number}\n")));
    text.push_str("\ndn: cn=c\ncn: c\n\n");
    let mut blocks = LdifBlocks::new(text.as_bytes(), 64, LdifLimits::default());
    let lines: Vec<u64> =
        std::iter::from_fn(|| blocks.next_block().unwrap()).map(|block| block.first_line).collect();
    assert_eq!(lines, [1, 4]);
    check(&text);
}

#[test]
fn a_record_longer_than_the_limit_is_skipped_and_named_by_its_line() {
    let limits = LdifLimits { record_length_max_bytes: 400, ..LdifLimits::default() };
    for line_end in ["\n", "\r\n"] {
        let mut text = String::from("dn: cn=a\ncn: a\n\ndn: cn=b\ncn: b\n");
        (0..1000).for_each(|number| text.push_str(&format!("member: cn={number}\n")));
        text.push_str(line_end);
        text.push_str("dn: cn=c\ncn: c\n\n");
        (0..99).for_each(|number| text.push_str(&format!("dn: cn={number}\ncn: {number}\n\n")));
        (0..1000).for_each(|_| text.push_str("x: y\n"));
        for block_bytes in [16, 64, 300] {
            let mut blocks = LdifBlocks::new(text.as_bytes(), block_bytes, limits);
            let (mut seen, mut errors) = (String::new(), Vec::new());
            loop {
                match blocks.next_block() {
                    Ok(Some(block)) => {
                        let before = text.lines().take(block.first_line as usize - 1);
                        let at: usize = before.map(|line| line.len() + 1).sum();
                        let at = at + if block.first_line > 1000 { line_end.len() - 1 } else { 0 };
                        assert!(text.as_bytes()[at..].starts_with(&block.text));
                        seen.push_str(std::str::from_utf8(&block.text).unwrap());
                    }
                    Ok(None) => break,
                    Err(LdifError { line, reason: LdifReason::RecordTooLong { .. } }) => {
                        errors.push(line);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(errors, [4, 1307]);
            assert_eq!(seen.matches("dn: ").count(), 101, "by {block_bytes}");
        }
    }
}

#[test]
fn a_file_in_utf_16_is_refused_at_once() {
    for text in [&b"\xFF\xFEd\0n\0"[..], b"\xFE\xFF\0d\0n"] {
        let mut blocks = LdifBlocks::new(text, 100, LdifLimits::default());
        let error = blocks.next_block().unwrap_err();
        assert_eq!((error.line, error.reason), (1, LdifReason::Utf16));
        assert_eq!(blocks.next_block(), Ok(None));
    }
}

struct Broken<'a>(&'a [u8]);

impl io::Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("disk on fire")),
            length => Ok(length),
        }
    }
}

#[test]
fn a_failing_source_is_an_error_at_its_line() {
    let mut blocks = LdifBlocks::new(Broken(b"dn: cn=a\ncn: a\n\ndn"), 8, LdifLimits::default());
    let mut error = None;
    while error.is_none() {
        match blocks.next_block() {
            Ok(block) => assert!(block.is_some()),
            Err(failed) => error = Some(failed),
        }
    }
    let reason = LdifReason::Io("disk on fire".to_owned());
    assert_eq!(error, Some(LdifError { line: 4, reason }));
    assert_eq!(blocks.next_block(), Ok(None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_reads_the_same(
        text in "((dn|cn|-|changetype|add|version|#|control|[a ])(:|::|:<|)( |)\
                 (1|modify|add|cn=a|YQ==|)(\r?\n|\n\n|\r\n\r\n|\r)){0,14}",
    ) {
        check(&text);
    }
}
