//! Brokers of Kafka that do what no broker should.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use super::of_people;

/// A broker with a topic of one partition.
pub(crate) struct Broker {
    port: u16,
}

/// A request: its octets, those of its kind and its version among them.
struct Asked {
    kind: i16,
    version: i16,
    octets: Vec<u8>,
}

/// What a broker answers when it was sent so many records: a code of an error; none: nothing.
type Produce = dyn Fn(&TcpStream, u32) -> Option<i16> + Send + Sync;

impl Broker {
    pub(crate) fn start(
        produce: impl Fn(&TcpStream, u32) -> Option<i16> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let produce: Arc<Produce> = Arc::new(produce);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let produce = Arc::clone(&produce);
                thread::spawn(move || serve(stream, port, &*produce));
            }
        });
        Self { port }
    }

    /// The line of a sink.
    pub(crate) fn line(&self, options: &str) -> String {
        let place = format!("127.0.0.1:{} topic=t cleartext=yes", self.port);
        of_people(&format!("bad: kafka {place} {options}"))
    }
}

fn serve(mut stream: TcpStream, port: u16, produce: &Produce) -> Option<()> {
    loop {
        let asked = ask(&mut stream)?;
        let body = match asked.kind {
            18 => versions(asked.version),
            3 => metadata(port),
            0 => {
                let records = records(&asked.octets)?;
                let code = produce(&stream, records)?;
                let name: &[u8] = &[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0];
                [name, &code.to_be_bytes(), &[0; 8], &[255; 8], &[0; 4]].concat()
            }
            _ => return None,
        };
        answer(&mut stream, &asked, &body)?;
    }
}

/// The next request. What is long is not read to its end: it is a message.
fn ask(stream: &mut TcpStream) -> Option<Asked> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    let mut octets = vec![0; length.min(LONG_BYTES)];
    stream.read_exact(&mut octets).ok()?;
    let number = |at: usize| Some(i16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?]));
    Some(Asked { kind: number(0)?, version: number(2)?, octets })
}

fn answer(stream: &mut TcpStream, asked: &Asked, body: &[u8]) -> Option<()> {
    let length = u32::try_from(4 + body.len()).ok()?;
    let answer = [&length.to_be_bytes(), asked.octets.get(4..8)?, body].concat();
    stream.write_all(&answer).ok()
}

/// How many records a request has: behind the length of them, the 24th octet and the next three.
fn records(octets: &[u8]) -> Option<u32> {
    let name = u16::from_be_bytes([*octets.get(8)?, *octets.get(9)?]);
    // The name of the client, no transaction, acks, a time, one topic, one partition.
    let at = 10 + usize::from(name) + 2 + 2 + 4 + 4 + 3 + 4 + 4 + 4;
    let last = octets.get(at + 23..at + 27)?;
    Some(u32::from_be_bytes(last.try_into().ok()?) + 1)
}

/// One broker, one topic with one partition.
fn metadata(port: u16) -> Vec<u8> {
    let one = &1_u32.to_be_bytes()[..];
    let host = &[&[0, 9][..], b"127.0.0.1"].concat();
    let broker = [one, one, host, &u32::from(port).to_be_bytes(), &[255, 255]].concat();
    // Without an error, of no topic of the broker's own; of the partition 0 the broker 1 leads.
    let topic = [one, &[0, 0, 0, 1, b't', 0], one, &[0; 6], one, one, one, one, one].concat();
    [&broker, one, &topic].concat()
}

/// One that asks who signs in to work for hours.
pub(crate) fn scram(mut stream: TcpStream) -> Option<()> {
    loop {
        let asked = ask(&mut stream)?;
        let body = match asked.kind {
            18 => versions(asked.version),
            // SaslHandshake: one mechanism.
            17 => [&[0, 0, 0, 0, 0, 1, 0, 13], &b"SCRAM-SHA-512"[..]].concat(),
            // SaslAuthenticate.
            36 => {
                let text = String::from_utf8_lossy(&asked.octets).into_owned();
                let nonce = text.split("r=").nth(1)?.trim_end_matches('\0');
                let first = format!("r={nonce}more,s=c2FsdHNhbHRzYWx0,i=4294967295");
                let length = i32::try_from(first.len()).ok()?.to_be_bytes();
                let lifetime: &[u8] = if asked.version > 0 { &[0; 8] } else { &[] };
                [&[0, 0, 255, 255], &length[..], first.as_bytes(), lifetime].concat()
            }
            _ => return None,
        };
        answer(&mut stream, &asked, &body)?;
    }
}

/// Which requests the broker takes, in which versions.
fn versions(version: i16) -> Vec<u8> {
    let all = [[0_u16, 3, 3], [3, 1, 1], [17, 1, 1], [18, 0, 3], [36, 0, 1]];
    let is_new = version >= 3;
    let mut body = vec![0, 0];
    match is_new {
        true => body.push(u8::try_from(all.len()).unwrap() + 1),
        false => body.extend(u32::try_from(all.len()).unwrap().to_be_bytes()),
    }
    for one in all {
        one.iter().for_each(|number| body.extend(number.to_be_bytes()));
        body.extend(is_new.then_some(0));
    }
    body.extend([0; 4].iter().take(if version > 0 { 4 } else { 0 }));
    body.extend(is_new.then_some(0));
    body
}

/// The code of that error.
pub(crate) const MESSAGE_TOO_LARGE: i16 = 10;
/// No other request has as many octets.
const LONG_BYTES: usize = 1 << 20;
