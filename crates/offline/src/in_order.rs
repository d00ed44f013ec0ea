//! Text made on many threads and handed over in order: exports and made-up entries.
//!
//! Tasks go to the threads in turn. Each thread makes the text of its tasks in chunks, which wait
//! in a channel of its own until it is their turn: so at most `CHUNKS_AHEAD` chunks a thread are in
//! memory, whoever is slow, and chunks that were handed over are filled again.
//!
//! Invariant: what is handed over does not depend on the number of threads.

use std::io::{self, Write as _};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use flate2::write::GzEncoder;

/// How text is compressed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As gzip does: each chunk is a member of its own, which gzip reads as one file.
    Gzip,
    /// As zstd does: each chunk is a frame of its own, which zstd reads as one file.
    Zstd,
}

impl Compression {
    /// What the ending of a file's name says: `.gz` or `.zst`.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name.rsplit_once('.') {
            Some((_, "gz")) => Self::Gzip,
            Some((_, "zst" | "zstd")) => Self::Zstd,
            Some(_) | None => Self::None,
        }
    }

    /// What is worth compressing at once, or fits into the caches of a core.
    const fn chunk_bytes(self) -> usize {
        match self {
            Self::None => 256 << 10,
            Self::Gzip | Self::Zstd => 1 << 20,
        }
    }
}

/// Where a thread puts the text it makes.
#[derive(Debug)]
pub struct Chunks<E> {
    text: Vec<u8>,
    records: u64,
    compression: Compression,
    chunks: Sender<Message<E>>,
    used: Receiver<Vec<u8>>,
}

/// Text that is ready to be handed over.
#[derive(Debug)]
pub struct Chunk {
    /// As it is to be written.
    pub octets: Vec<u8>,
    /// How many octets it has without compression.
    pub text_bytes: u64,
    /// How many records end in it.
    pub records: u64,
}

#[derive(Debug)]
enum Message<E> {
    Chunk(Chunk),
    /// The task is done.
    End,
    Failed(E),
}

impl<E: From<io::Error>> Chunks<E> {
    /// The text so far: append to it.
    pub const fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Says that a record ends here; false when nobody wants more.
    ///
    /// # Errors
    /// When compressing fails.
    pub fn end_record(&mut self) -> Result<bool, E> {
        self.records += 1;
        self.end_line()
    }

    /// Says that a line ends here, of a record that may have very many; false when nobody wants
    /// more.
    ///
    /// # Errors
    /// When compressing fails.
    pub fn end_line(&mut self) -> Result<bool, E> {
        if self.text.len() < self.compression.chunk_bytes() {
            return Ok(true);
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<bool, E> {
        if self.text.is_empty() {
            return Ok(true);
        }
        let text_bytes = self.text.len() as u64;
        let mut next = self.used.try_recv().unwrap_or_default();
        next.clear();
        let octets = match self.compression {
            Compression::None => std::mem::replace(&mut self.text, next),
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(next, flate2::Compression::new(GZIP_LEVEL));
                encoder.write_all(&self.text)?;
                self.text.clear();
                encoder.finish()?
            }
            Compression::Zstd => {
                zstd::stream::copy_encode(&*self.text, &mut next, ZSTD_LEVEL)?;
                self.text.clear();
                next
            }
        };
        let chunk = Chunk { octets, text_bytes, records: std::mem::take(&mut self.records) };
        Ok(self.chunks.send(Message::Chunk(chunk)).is_ok())
    }
}

/// Takes a task; false when nobody wants more.
pub type Take<'a, T> = &'a mut dyn FnMut(T) -> bool;

/// Makes the text of the tasks that `feed` sends, on `threads` threads, each with what `maker`
/// gives it, and hands it over in the order of the tasks.
///
/// # Errors
/// The first error of a task, of making text from one, or of handing it over, by their order.
pub fn in_order<T, E, M>(
    threads: usize,
    compression: Compression,
    feed: impl FnOnce(Take<'_, T>) -> Result<(), E> + Send,
    maker: impl Fn() -> Result<M, E> + Sync,
    mut hand_over: impl FnMut(&Chunk) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send,
    E: From<io::Error> + Send,
    M: FnMut(T, &mut Chunks<E>) -> Result<(), E>,
{
    let threads = threads.max(1);
    let (to_use, used) = bounded(threads * (CHUNKS_AHEAD + 2));
    thread::scope(|scope| {
        let mut lanes = Vec::with_capacity(threads);
        let mut inputs = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (input, tasks) = bounded(TASKS_AHEAD);
            let (chunks, output) = bounded(CHUNKS_AHEAD);
            let (used, maker) = (used.clone(), &maker);
            inputs.push(input);
            lanes.push(output);
            let chunks = Chunks { text: Vec::new(), records: 0, compression, chunks, used };
            scope.spawn(move || work(&tasks, maker, chunks));
        }
        scope.spawn(move || {
            let mut turn = inputs.iter().cycle();
            let mut send = |task| turn.next().is_some_and(|input| input.send(task).is_ok());
            if let Err(error) = feed(&mut |task| send(Ok(task))) {
                send(Err(error));
            }
        });
        // Moved in, so that an error closes the channels and the threads end.
        collect(lanes, to_use, &mut hand_over)
    })
}

/// Makes the text of the tasks of one thread.
fn work<T, E, M>(
    tasks: &Receiver<Result<T, E>>,
    maker: impl Fn() -> Result<M, E>,
    mut chunks: Chunks<E>,
) where
    E: From<io::Error>,
    M: FnMut(T, &mut Chunks<E>) -> Result<(), E>,
{
    let mut run = || {
        let mut make = maker()?;
        for task in tasks {
            make(task?, &mut chunks)?;
            if !chunks.flush()? || chunks.chunks.send(Message::End).is_err() {
                break;
            }
        }
        Ok(())
    };
    if let Err(error) = run() {
        // What was made before the error comes first, and whoever does not listen has another.
        let _ = chunks.flush();
        let _ = chunks.chunks.send(Message::Failed(error));
    }
}

fn collect<E>(
    lanes: Vec<Receiver<Message<E>>>,
    to_use: Sender<Vec<u8>>,
    hand_over: &mut impl FnMut(&Chunk) -> Result<(), E>,
) -> Result<(), E> {
    for lane in lanes.iter().cycle() {
        loop {
            match lane.recv() {
                Ok(Message::Chunk(chunk)) => {
                    hand_over(&chunk)?;
                    // When there is no room it is not needed.
                    let _ = to_use.try_send(chunk.octets);
                }
                Ok(Message::End) => break,
                Ok(Message::Failed(error)) => return Err(error),
                // There are no more tasks; a thread that panicked is told of when it is joined.
                Err(_) => return Ok(()),
            }
        }
    }
    Ok(())
}

/// Chunks of one thread that wait until it is their turn.
const CHUNKS_AHEAD: usize = 3;
/// Tasks that wait for one thread.
const TASKS_AHEAD: usize = 2;
/// Of 9, as gzip numbers them: half the time of the usual 6.
const GZIP_LEVEL: u32 = 4;
/// What zstd takes by itself.
const ZSTD_LEVEL: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers below `count`, `wide` of them a task, each on a line of its own.
    fn lines(threads: usize, compression: Compression, count: u64, wide: u64) -> Vec<u8> {
        let tasks = |take: Take<'_, u64>| {
            (0..count.div_ceil(wide)).all(|task| take(task * wide));
            Ok(())
        };
        let maker = || {
            Ok(|first: u64, chunks: &mut Chunks<io::Error>| {
                for number in first..count.min(first + wide) {
                    chunks.text().extend_from_slice(format!("{number:0100}\n").as_bytes());
                    if !chunks.end_record()? {
                        break;
                    }
                }
                Ok(())
            })
        };
        let (mut all, mut records) = (Vec::new(), 0);
        in_order(threads, compression, tasks, maker, |chunk| {
            all.extend_from_slice(&chunk.octets);
            records += chunk.records;
            Ok(())
        })
        .unwrap();
        assert_eq!(records, count);
        all
    }

    #[test]
    fn a_record_of_many_lines_is_not_held_as_a_whole() {
        let (mut records, mut all, mut longest) = (0, 0, 0);
        let tasks = |take: Take<'_, usize>| {
            take(20_000);
            Ok(())
        };
        let maker = || {
            Ok(|lines, chunks: &mut Chunks<io::Error>| {
                for _ in 0..lines {
                    chunks.text().extend_from_slice(&[b'x'; 100]);
                    assert!(chunks.end_line()?);
                }
                chunks.end_record().map(drop)
            })
        };
        in_order(2, Compression::None, tasks, maker, |chunk| {
            (records, all) = (records + chunk.records, all + chunk.text_bytes);
            longest = longest.max(chunk.octets.len());
            Ok(())
        })
        .unwrap();
        assert_eq!((records, all), (1, 20_000 * 100));
        assert!(longest < Compression::None.chunk_bytes() + 200, "{longest}");
    }

    #[test]
    fn text_is_the_same_with_any_number_of_threads() {
        let one = lines(1, Compression::None, 20_000, 7);
        assert_eq!(one.len(), 20_000 * 101);
        for (threads, wide) in [(2, 7), (3, 100), (5, 5_000), (8, 1)] {
            assert!(lines(threads, Compression::None, 20_000, wide) == one, "{threads}, {wide}");
        }
        assert_eq!(lines(3, Compression::None, 0, 7), b"");
    }

    #[test]
    fn compressed_chunks_are_one_file() {
        use std::io::Read as _;
        let plain = lines(1, Compression::None, 50_000, 20_000);
        let gzip = lines(3, Compression::Gzip, 50_000, 20_000);
        let mut read = Vec::new();
        flate2::read::MultiGzDecoder::new(&*gzip).read_to_end(&mut read).unwrap();
        assert!(read == plain);
        let zstd = lines(2, Compression::Zstd, 50_000, 20_000);
        assert!(zstd::stream::decode_all(&*zstd).unwrap() == plain);
        assert!(zstd.len() < plain.len() / 5 && gzip.len() < plain.len() / 5);
    }

    #[test]
    fn the_first_error_ends_it() {
        for threads in [1, 2, 5] {
            let tasks = |take: Take<'_, u64>| {
                (0..70).all(take);
                Err(io::Error::other("task 70"))
            };
            let maker = || {
                Ok(|task: u64, chunks: &mut Chunks<io::Error>| {
                    chunks.text().push(b'x');
                    chunks.end_record()?;
                    if task == 50 { Err(io::Error::other("made 50")) } else { Ok(()) }
                })
            };
            let mut records = 0;
            let ended = in_order(threads, Compression::None, tasks, maker, |chunk| {
                records += chunk.records;
                Ok(())
            });
            assert_eq!(ended.unwrap_err().to_string(), "made 50");
            assert_eq!(records, 51);
            let tasks = |take: Take<'_, u64>| {
                (0..).all(take);
                Ok(())
            };
            let maker = || {
                Ok(|_: u64, chunks: &mut Chunks<io::Error>| {
                    chunks.text().push(b'x');
                    chunks.end_record().map(|_| ())
                })
            };
            let ended = in_order(threads, Compression::None, tasks, maker, |_| {
                Err(io::Error::from(io::ErrorKind::BrokenPipe))
            });
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn names_tell_the_compression() {
        assert_eq!(Compression::of_name("a.ldif"), Compression::None);
        assert_eq!(Compression::of_name("a.ldif.gz"), Compression::Gzip);
        assert_eq!(Compression::of_name("a.ldif.zst"), Compression::Zstd);
        assert_eq!(Compression::of_name("gz"), Compression::None);
    }
}
