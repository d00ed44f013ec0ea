//! A whole server under hundreds of clients over every kind of socket.

use std::io;
use std::sync::Barrier;
use std::thread;

use rustls::{ClientConnection, StreamOwned};
use socket2::SockRef;

use super::super::tls::{BOTH, connection};
use super::*;

#[test]
fn answers_reach_only_who_asked_for_them() {
    let running = Running::with_both(many);
    let mut administrator = running.connect_root();
    for owner in 0..CLIENTS {
        administrator.send(&add_for(1, owner));
        assert_eq!(administrator.receive(), "1 add success");
    }
    // The measure: one client after the other.
    let mut ids = 10..;
    let draw = |owner, ids: &mut _| {
        Script::draw(&mut Chance::new(1, owner as u64), owner, ids, Endings::Common)
    };
    let scripts = (0..CLIENTS).map(|owner| {
        let mut script = draw(owner, &mut ids);
        for part in script.parts() {
            let mut calm = Connected::open(&running, Transport::Plain);
            calm.write(&part).unwrap();
            calm.finish_sending();
            calm.read_to_end();
            script.learn(&calm.received);
        }
        script.check_learned();
        script
    });
    let scripts = scripts.collect::<Vec<_>>();
    let together = Barrier::new(CLIENTS);
    let failures = thread::scope(|scope| {
        let clients = scripts.iter().enumerate().map(|(owner, script)| {
            let (running, together) = (&running, &together);
            let mut client = Misbehaving { running, script, chance: Chance::new(2, owner as u64) };
            scope.spawn(move || {
                together.wait();
                client.run().map_err(|why| format!("e{owner}: {why}"))
            })
        });
        let clients = clients.collect::<Vec<_>>();
        let outcomes = clients.into_iter().map(|client| client.join().unwrap());
        outcomes.filter_map(Result::err).collect::<Vec<_>>()
    });
    let count = failures.len();
    assert!(failures.is_empty(), "{count} clients failed, the first: {:?}", failures.first());
    running.check_alive();
}

/// Over what a client comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Plain,
    StartTls,
    Ldaps,
    Ldapi,
}

const TRANSPORTS: [Transport; 4] =
    [Transport::Plain, Transport::StartTls, Transport::Ldaps, Transport::Ldapi];

/// A connection whose octets are kept as they come.
struct Connected {
    socket: Socket,
    received: Vec<u8>,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Local(UnixStream),
}

impl Connected {
    fn open(running: &Running, transport: Transport) -> Self {
        if transport == Transport::Ldapi {
            let socket = UnixStream::connect(running.addresses.ldapi.as_ref().unwrap()).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            return Self { socket: Socket::Local(socket), received: Vec::new() };
        }
        let address =
            if transport == Transport::Ldaps { running.addresses.ldaps[0] } else { running.ldap() };
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        if transport == Transport::StartTls {
            socket.write_all(&extended(1, START_TLS)).unwrap();
            let mut answer = Client::plain(socket.try_clone().unwrap());
            assert_eq!(answer.receive(), "1 extended success");
        }
        let socket = match transport {
            Transport::Plain | Transport::Ldapi => Socket::Plain(socket),
            Transport::StartTls | Transport::Ldaps => {
                let tls = connection(running, "localhost", BOTH, None);
                Socket::Tls(Box::new(StreamOwned::new(tls, socket)))
            }
        };
        Self { socket, received: Vec::new() }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            Socket::Plain(socket) => socket.write_all(octets),
            Socket::Tls(socket) => socket.write_all(octets).and_then(|()| socket.flush()),
            Socket::Local(socket) => socket.write_all(octets),
        }
    }

    fn finish_sending(&mut self) {
        // It may have been ended by the server.
        let _ = match &mut self.socket {
            Socket::Plain(socket) => socket.shutdown(Shutdown::Write),
            Socket::Tls(socket) => {
                socket.conn.send_close_notify();
                socket.flush()
            }
            Socket::Local(socket) => socket.shutdown(Shutdown::Write),
        };
    }

    /// Has the kernel reset the connection when it is closed; a local one is only closed.
    fn reset(&self) {
        let socket = match &self.socket {
            Socket::Plain(socket) => socket,
            Socket::Tls(socket) => &socket.sock,
            Socket::Local(_) => return,
        };
        SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Reads once; says whether there may be more.
    fn read(&mut self, count: usize) -> bool {
        let mut buffer = vec![0; count];
        let read = match &mut self.socket {
            Socket::Plain(socket) => socket.read(&mut buffer),
            Socket::Tls(socket) => socket.read(&mut buffer),
            Socket::Local(socket) => socket.read(&mut buffer),
        };
        match read {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) if is_closed(error.kind()) => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    fn read_to_end(&mut self) {
        while self.read(64 * 1024) {}
    }
}

/// Asks the same again and again, and hardly ever waits for all answers.
struct Misbehaving<'a> {
    running: &'a Running,
    script: &'a Script,
    chance: Chance,
}

impl Misbehaving<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut stalled = Vec::new();
        for _ in 0..ROUNDS {
            let transport = *self.chance.pick(&TRANSPORTS).unwrap();
            let mut connected = Connected::open(self.running, transport);
            let sent = self.send(&mut connected);
            match self.chance.below(6) {
                // Closed with all answers unread.
                0 => {}
                // Reset, perhaps when some are read.
                1 => {
                    if sent && self.chance.once_in(2) {
                        let count = 1 + self.chance.below(2_000) as usize;
                        connected.read(count);
                    }
                    connected.reset();
                }
                // Reads when all others are done.
                2 => {
                    stalled.push((transport, connected, sent));
                    continue;
                }
                _ => {
                    connected.finish_sending();
                    connected.read_to_end();
                    self.check(transport, &connected, sent)?;
                    continue;
                }
            }
            self.check(transport, &connected, false)?;
        }
        for (transport, mut connected, sent) in stalled {
            connected.finish_sending();
            connected.read_to_end();
            self.check(transport, &connected, sent)?;
        }
        Ok(())
    }

    /// Sends all requests, in any pieces; says whether all of them have left.
    fn send(&mut self, connected: &mut Connected) -> bool {
        let octets = self.script.octets();
        let mut rest = octets.as_slice();
        while !rest.is_empty() {
            let count = match self.chance.once_in(2) {
                true => rest.len(),
                false => 1 + self.chance.below(rest.len() as u64) as usize,
            };
            let (piece, after) = rest.split_at(count);
            // The server may have ended the session at what came before.
            if connected.write(piece).is_err() {
                return false;
            }
            rest = after;
        }
        true
    }

    fn check(
        &self,
        transport: Transport,
        connected: &Connected,
        whole: bool,
    ) -> Result<(), String> {
        // Whoever ends the session may lose what was under way: the kernel resets a connection
        // that is closed with octets unread, such as the end of TLS behind an unbind.
        let whole = whole && self.script.ending.is_empty();
        let checked = self.script.check(&connected.received, whole);
        checked.map_err(|why| format!("{transport:?}: {why}"))
    }
}

const CLIENTS: usize = 200;

/// Connections of each client, one after the other.
const ROUNDS: usize = 8;
