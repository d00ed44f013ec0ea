//! How a process knows that it does a task of a server, and behaves so.

use rustix::process::{Signal, getppid, nice, set_parent_process_death_signal};

use crate::failure::Failure;

/// The variable with the process of the server.
pub(crate) const OF: &str = "ROSTER_TASK_OF";
/// How much rather others have the processor.
const NICENESS: i32 = 10;

/// Has this process behave as that of a task, if it is one: it ends with the server, and lets
/// others have the processor first.
pub(crate) fn behave() -> Result<(), Failure> {
    let Some(server) = std::env::var_os(OF) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(Failure::local)?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().to_string());
    // It may have ended before.
    if parent.is_none_or(|parent| server != *parent) {
        return Err(Failure::interrupted("interrupted: the server ended whose task this is"));
    }
    let _ = nice(NICENESS);
    Ok(())
}

/// Whether this process is that of a task.
pub(crate) fn is_one() -> bool {
    std::env::var_os(OF).is_some()
}
