//! The transport of one connection: TCP, a Unix socket, or TLS over TCP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// What a connection reads from and writes to.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    // Boxed: it is many times larger than the others, and most connections are plain.
    Tls(Box<TlsStream<TcpStream>>),
    /// Given to a handshake that has not succeeded.
    Gone,
    /// A peer that a test plays.
    #[cfg(test)]
    Simulated(crate::tests::simulated::Transport),
}

impl Stream {
    // Reading through `poll_read`, not `try_read`: a read that does not fill the buffer tells tokio
    // that nothing more is there, which saves one system call for each request.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let polled = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, &mut buffer),
            Self::Gone => Poll::Ready(Ok(())),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
        };
        polled.map_ok(|()| buffer.filled().len())
    }

    /// Sends as much of `bytes` as the peer takes now, and says how much. When that is not all, the
    /// task is woken when the peer takes more.
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(more)) => sent += more,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        Ok(sent)
    }

    /// Whether [`Stream::try_send`] may be asked: without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => true,
            Self::Tls(_) | Self::Gone => false,
            #[cfg(test)]
            Self::Simulated(stream) => stream.is_plain,
        }
    }

    /// Sends as much of `bytes` as the peer takes now, and says how much. Nobody is woken when it
    /// takes more.
    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tls(_) | Self::Gone => return Err(io::ErrorKind::NotConnected.into()),
            #[cfg(test)]
            Self::Simulated(stream) => stream.try_write(bytes),
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
            Self::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Sends what TLS still holds; nothing to do without TLS.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Gone => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Says to the peer that nothing more will come.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Self::Gone => Poll::Ready(Ok(())),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
