//! What must not be done on the engine's thread, because it takes long: applying records, telling
//! those who wait. One thread does it, in order.
//!
//! Invariant: errands are done one after the other, in the order in which they were given.

use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, unbounded};
use tokio::sync::oneshot;

type Errand = Box<dyn FnOnce() + Send>;

/// Where errands are given; clones are the same place.
#[derive(Clone)]
pub(crate) struct Errands(Option<Sender<Errand>>);

impl Errands {
    /// Done by a thread of their own, which ends when the last clone is gone.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn on_thread(name: &str) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (given, taken) = unbounded::<Errand>();
        let run = move || taken.into_iter().for_each(|errand| errand());
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok((Self(Some(given)), thread))
    }

    /// Done at once, by whoever gives them: for simulations, which are one thread.
    #[cfg(test)]
    pub(crate) const fn inline() -> Self {
        Self(None)
    }

    /// Gives an errand and does not wait for it.
    pub(crate) fn give(&self, errand: impl FnOnce() + Send + 'static) {
        match &self.0 {
            None => errand(),
            // The thread ends only when nobody can give errands any more.
            Some(given) => drop(given.send(Box::new(errand))),
        }
    }

    /// Gives an errand and waits for it; none when its thread is gone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        errand: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, heard) = oneshot::channel();
        self.give(move || drop(answer.send(errand())));
        heard.await.ok()
    }
}
