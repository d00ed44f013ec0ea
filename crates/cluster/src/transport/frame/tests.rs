//! Frames over streams that break anywhere, and what a frame may not say.

use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;

use super::*;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn octets(frame: &Frame, purpose: Purpose) -> Vec<u8> {
    [&frame.head(purpose).unwrap()[..], &frame.body].concat()
}

fn head(length: u32, kind: u8) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = length.to_le_bytes();
    [a, b, c, d, kind, 7, 0, 0, 0]
}

proptest! {
    #[test]
    fn frames_read_back_the_same_however_they_arrive(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..5),
        piece in 1..20_usize,
    ) {
        let frames: Vec<Frame> = bodies
            .into_iter()
            .zip(1..)
            .map(|(body, number)| Frame { kind: Kind::Append, number, body })
            .collect();
        let all: Vec<u8> = frames.iter().flat_map(|it| octets(it, Purpose::Log)).collect();
        let read = run(async {
            let (mut near, far) = tokio::io::duplex(piece);
            let write = async move {
                for piece in all.chunks(piece) {
                    near.write_all(piece).await.unwrap();
                }
            };
            let read = async {
                let mut reader = FrameReader::new(far, Purpose::Log);
                let mut read = Vec::new();
                // The future is dropped whenever it has to wait.
                loop {
                    tokio::select! {
                        biased;
                        frame = reader.next() => match frame.unwrap() {
                            Some(frame) => read.push(frame),
                            None => return read,
                        },
                        () = tokio::task::yield_now() => {}
                    }
                }
            };
            tokio::join!(write, read).1
        });
        prop_assert_eq!(read, frames);
    }

    #[test]
    fn any_head_is_within_its_limit_or_refused(octets in any::<[u8; HEAD_BYTES]>()) {
        for purpose in Purpose::ALL {
            if let Ok(head) = read_head(octets, *purpose) {
                prop_assert!(head.length <= head.kind.max_bytes(*purpose).unwrap());
            }
        }
    }
}

#[test]
fn the_limit_of_each_kind_is_kept_before_the_body_comes() {
    let append = u32::try_from(APPEND_MAX_BYTES).unwrap();
    let small = u32::try_from(SMALL_MAX_BYTES).unwrap();
    let long = Err("a frame is longer than its kind may be");
    let read = |length, kind: Kind, purpose| {
        read_head(head(length, kind as u8), purpose).map(|head| head.length)
    };
    assert_eq!(read(append, Kind::Append, Purpose::Log), Ok(APPEND_MAX_BYTES));
    assert_eq!(read(append + 1, Kind::Append, Purpose::Log), long);
    assert_eq!(read(u32::MAX, Kind::Append, Purpose::Log), long);
    assert_eq!(read(small, Kind::Append, Purpose::Votes), Ok(SMALL_MAX_BYTES));
    assert_eq!(read(small + 1, Kind::Append, Purpose::Votes), long);
    assert_eq!(read(u32::MAX, Kind::Ask, Purpose::Asks), long);
    let stranger = Err("a frame has no business on this connection");
    assert_eq!(read(1, Kind::Vote, Purpose::Log), stranger);
    assert_eq!(read(1, Kind::Append, Purpose::Asks), stranger);
    assert_eq!(read(1, Kind::Ask, Purpose::Votes), stranger);
    let unknown = Err("a frame is of no known kind");
    assert_eq!(read_head(head(0, 0x77), Purpose::Log).map(|_| ()), unknown);
}

#[test]
fn a_frame_that_is_too_long_is_not_written() {
    let frame = Frame { kind: Kind::Vote, number: 1, body: vec![0; SMALL_MAX_BYTES + 1] };
    assert_eq!(frame.head(Purpose::Votes), None);
    let long = "ä".repeat(FAILURE_MAX_BYTES);
    let failure = Frame::failure(1, &long);
    assert_eq!(failure.body.len(), FAILURE_MAX_BYTES);
    assert!(failure.head(Purpose::Asks).is_some());
}

#[test]
fn a_stream_that_ends_in_the_middle_is_an_error() {
    let frame = Frame { kind: Kind::Ask, number: 3, body: b"octets".to_vec() };
    let all = octets(&frame, Purpose::Asks);
    for end in 0..=all.len() {
        let mut reader = FrameReader::new(&all[..end], Purpose::Asks);
        let read = run(reader.next());
        match end {
            0 => assert_eq!(read.unwrap(), None),
            _ if end == all.len() => assert_eq!(read.unwrap().as_ref(), Some(&frame)),
            _ => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{end}"),
        }
    }
}
