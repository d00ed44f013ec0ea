//! The thread of one worker: how it starts, what it runs, and the orders it gets.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::ServerError;
use crate::listen::accept;
use crate::listen::listeners::Listener;
use crate::log::AccessRecorder;
use crate::worker::{Order, Shared, Worker};

/// A worker that runs.
pub(super) struct WorkerThread {
    orders: UnboundedSender<Order>,
    thread: JoinHandle<()>,
}

impl WorkerThread {
    /// Starts it; `ended` hears when it has ended. When this returns, its clients are served.
    pub(super) fn start(
        number: usize,
        shared: &Arc<Shared>,
        listeners: Vec<Listener>,
        recorder: AccessRecorder,
        ended: &UnboundedSender<()>,
    ) -> Result<Self, ServerError> {
        let shared = Arc::clone(shared);
        let (orders, receiver) = unbounded_channel();
        let (started, starting) = std::sync::mpsc::sync_channel(1);
        let ended = NotifyOnDrop(ended.clone());
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                let _ended = ended;
                run(shared, listeners, recorder, receiver, &|outcome| {
                    let _ = started.send(outcome);
                });
            })
            .map_err(ServerError::Thread)?;
        let error = match starting.recv() {
            Ok(Ok(())) => return Ok(Self { orders, thread }),
            Ok(Err(error)) => ServerError::Thread(error),
            Err(_) => ServerError::WorkerEnded,
        };
        let _ = thread.join();
        Err(error)
    }

    /// A worker that is gone needs no order.
    pub(super) fn send(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Waits until it has ended.
    pub(super) fn join(self) {
        let _ = self.thread.join();
    }
}

/// Runs a worker on the calling thread until it has to end. `started` hears whether its event
/// loop could be set up.
fn run(
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    recorder: AccessRecorder,
    orders: UnboundedReceiver<Order>,
    started: &dyn Fn(io::Result<()>),
) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return started(Err(error)),
    };
    runtime.block_on(async {
        let worker = Rc::new(Worker::new(shared, recorder));
        for listener in listeners {
            if let Err(error) = accept::start(&worker, listener) {
                return started(Err(error));
            }
        }
        started(Ok(()));
        worker.serve(orders).await;
    });
}

/// Says that its thread has ended, however that came about.
struct NotifyOnDrop(UnboundedSender<()>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}
