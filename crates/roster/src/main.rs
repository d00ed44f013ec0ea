//! The program `roster`; everything it does is in the library of the same name.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    server::on_release(give_back);
    roster::run(std::env::args_os())
}

/// Has the allocator give back to the system what this thread has freed.
#[allow(unsafe_code, reason = "the allocator is not written in Rust, and has no other interface")]
fn give_back() {
    // SAFETY: it takes no pointer, and may be called on any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
