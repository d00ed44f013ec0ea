//! Room on the disk: writes stop before there is none, and go on by themselves when there is.
//!
//! Invariant: what is refused for want of room was not begun; reading never depends on room.
//! The disk is asked when something is to be written, once in [`LOOK_EVERY`] or
//! [`LOOK_EVERY_BYTES`]; whoever writes nothing needs no room. What is acknowledged and not in the
//! data file yet has its room already: it is not given away a second time.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ldap::result::ResultCode;

use crate::request::refusal::Refusal;
use crate::write::request::{WriteOp, WriteRequest};

/// What tells how much room there is.
pub trait DiskSpace: fmt::Debug + Send + Sync {
    /// Bytes this process may still write where the data directory is.
    ///
    /// # Errors
    /// What the operating system says.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// The room of the file system a path is on.
#[derive(Debug)]
pub struct FileSystemSpace {
    path: PathBuf,
}

impl FileSystemSpace {
    /// The file system of `path`.
    pub fn of(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Bytes that the whole file system has.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn total_bytes(&self) -> io::Result<u64> {
        let system = rustix::fs::statvfs(&self.path)?;
        Ok(system.f_blocks.saturating_mul(system.f_frsize))
    }
}

impl DiskSpace for FileSystemSpace {
    fn free_bytes(&self) -> io::Result<u64> {
        let system = rustix::fs::statvfs(&self.path)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }
}

/// Below which room what is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SpaceLimits {
    /// Free bytes below which only the administrator may write.
    pub low_bytes: u64,
    /// Free bytes below which nobody may write; at most `low_bytes`.
    pub full_bytes: u64,
}

impl Default for SpaceLimits {
    fn default() -> Self {
        Self { low_bytes: 200 << 20, full_bytes: 100 << 20 }
    }
}

/// How things stood when the disk was last asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FreeSpace {
    Enough,
    Low { free_bytes: u64 },
    Full { free_bytes: u64 },
}

/// The writer's watch over the disk.
#[derive(Debug)]
pub(crate) struct SpaceWatch {
    space: Arc<dyn DiskSpace>,
    limits: SpaceLimits,
    room: FreeSpace,
    /// When the disk is to be asked again, by the clock that never goes back.
    next_look: Option<Duration>,
    /// What was logged since it was asked, in bytes.
    logged_bytes: u64,
    /// The disk could not be asked; said once.
    is_blind: bool,
}

impl SpaceWatch {
    pub(crate) fn new(space: Arc<dyn DiskSpace>, limits: SpaceLimits) -> Self {
        Self {
            space,
            limits,
            room: FreeSpace::Enough,
            next_look: None,
            logged_bytes: 0,
            is_blind: false,
        }
    }

    /// How things stand at `elapsed`; asks the disk when it was not asked for a while, and what is
    /// still to be written to the data file, in bytes.
    pub(crate) fn look(
        &mut self,
        elapsed: Duration,
        owed_bytes: impl FnOnce() -> u64,
    ) -> FreeSpace {
        let is_soon = self.next_look.is_some_and(|next| elapsed < next);
        if is_soon && self.logged_bytes < LOOK_EVERY_BYTES {
            return self.room;
        }
        self.next_look = Some(elapsed + LOOK_EVERY);
        self.logged_bytes = 0;
        match self.space.free_bytes() {
            Ok(free_bytes) => {
                self.is_blind = false;
                self.set(self.limits.room(free_bytes, owed_bytes()));
            }
            // What cannot be asked cannot be guarded: the write itself will tell.
            Err(error) if !self.is_blind => {
                self.is_blind = true;
                tracing::warn!(%error, "the free disk space cannot be determined");
            }
            Err(_) => {}
        }
        self.room
    }

    /// So many bytes more go to the log.
    pub(crate) fn logged(&mut self, bytes: usize) {
        self.logged_bytes = self.logged_bytes.saturating_add(bytes as u64);
    }

    /// A write has failed for want of room: what was known is not true any more.
    pub(crate) fn look_again(&mut self) {
        self.next_look = None;
    }

    /// The refusal of a request, if there is not room enough for it.
    pub(crate) fn refusal_of(&self, request: &WriteRequest) -> Option<Refusal> {
        match (&request.op, self.room) {
            // It is short, follows what was sent, and without it all of that is sent again.
            (WriteOp::SinkProgress(_), FreeSpace::Full { free_bytes })
                if free_bytes >= self.limits.full_bytes / 2 =>
            {
                None
            }
            _ => self.refusal(request.access.is_root()),
        }
    }

    /// The refusal of a write, if there is not room enough for it.
    fn refusal(&self, is_root: bool) -> Option<Refusal> {
        let (free_bytes, limit_bytes, what) = match self.room {
            FreeSpace::Enough => return None,
            FreeSpace::Low { .. } if is_root => return None,
            FreeSpace::Low { free_bytes } => {
                (free_bytes, self.limits.low_bytes, "only the administrator can write")
            }
            FreeSpace::Full { free_bytes } => {
                (free_bytes, self.limits.full_bytes, "nothing can be written")
            }
        };
        Some(Refusal::new(
            ResultCode::UnwillingToPerform,
            format!(
                "the disk of the server has {} MiB left: {what} until it has {} MiB",
                free_bytes >> 20,
                limit_bytes >> 20
            ),
        ))
    }

    fn set(&mut self, room: FreeSpace) {
        let before = std::mem::replace(&mut self.room, room);
        if std::mem::discriminant(&before) == std::mem::discriminant(&room) {
            return;
        }
        let SpaceLimits { low_bytes, full_bytes } = self.limits;
        match room {
            FreeSpace::Enough => tracing::info!(
                low_bytes,
                "the disk has space again: everybody may \
                                                       write"
            ),
            FreeSpace::Low { free_bytes } => tracing::warn!(
                free_bytes,
                low_bytes,
                "the disk is nearly full: only the administrator may write"
            ),
            FreeSpace::Full { free_bytes } => {
                tracing::error!(free_bytes, full_bytes, "the disk is full: nobody may write");
            }
        }
    }
}

impl SpaceLimits {
    fn room(self, free_bytes: u64, owed_bytes: u64) -> FreeSpace {
        let left_bytes = free_bytes.saturating_sub(owed_bytes);
        if left_bytes < self.full_bytes {
            FreeSpace::Full { free_bytes: left_bytes }
        } else if free_bytes < self.low_bytes {
            FreeSpace::Low { free_bytes }
        } else {
            FreeSpace::Enough
        }
    }
}

/// How often the disk is asked while little is written.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so much in the log it is asked at once: a fast writer fills 100 MiB in a second.
const LOOK_EVERY_BYTES: u64 = 4 << 20;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// `u64::MAX` cannot be found out.
    #[derive(Debug, Default)]
    struct FixedSpace(AtomicU64);

    impl DiskSpace for FixedSpace {
        fn free_bytes(&self) -> io::Result<u64> {
            match self.0.load(Ordering::Relaxed) {
                u64::MAX => Err(io::ErrorKind::PermissionDenied.into()),
                free_bytes => Ok(free_bytes),
            }
        }
    }

    fn watch(free_bytes: u64) -> (Arc<FixedSpace>, SpaceWatch) {
        let told = Arc::new(FixedSpace(AtomicU64::new(free_bytes)));
        let limits = SpaceLimits { low_bytes: 200 << 20, full_bytes: 100 << 20 };
        (Arc::clone(&told), SpaceWatch::new(told, limits))
    }

    #[track_caller]
    fn check(free_bytes: u64, is_root: bool, want: Option<&str>) {
        let (_, mut watch) = watch(free_bytes);
        watch.look(Duration::ZERO, || 0);
        let refusal = watch.refusal(is_root);
        assert_eq!(refusal.as_ref().map(|refusal| refusal.diagnostic.as_ref()), want);
        assert!(refusal.is_none_or(|refusal| refusal.code == ResultCode::UnwillingToPerform));
    }

    #[test]
    fn two_thresholds_refuse_with_figures() {
        check(200 << 20, false, None);
        check(
            (200 << 20) - 1,
            false,
            Some(
                "the disk of the server has 199 MiB left: only the administrator can write until \
                 it has 200 MiB",
            ),
        );
        check((200 << 20) - 1, true, None);
        check(100 << 20, true, None);
        let full =
            "the disk of the server has 0 MiB left: nothing can be written until it has 100 MiB";
        check(0, false, Some(full));
        check(0, true, Some(full));
    }

    #[test]
    fn the_disk_is_asked_again_after_a_second_or_when_a_write_failed() {
        let (told, mut watch) = watch(1 << 30);
        assert_eq!(watch.look(Duration::from_secs(5), || 0), FreeSpace::Enough);
        told.0.store(0, Ordering::Relaxed);
        assert_eq!(watch.look(Duration::from_millis(5_999), || 0), FreeSpace::Enough);
        assert_eq!(watch.look(Duration::from_secs(6), || 0), FreeSpace::Full { free_bytes: 0 });
        told.0.store(1 << 30, Ordering::Relaxed);
        assert_eq!(watch.look(Duration::from_secs(6), || 0), FreeSpace::Full { free_bytes: 0 });
        watch.look_again();
        assert_eq!(watch.look(Duration::from_secs(6), || 0), FreeSpace::Enough);
        assert!(watch.refusal(false).is_none(), "it goes on by itself");
    }

    #[test]
    fn a_fast_writer_is_noticed_within_its_second() {
        let (told, mut watch) = watch(1 << 30);
        assert_eq!(watch.look(Duration::ZERO, || 0), FreeSpace::Enough);
        told.0.store(0, Ordering::Relaxed);
        watch.logged((4 << 20) - 1);
        assert_eq!(watch.look(Duration::ZERO, || 0), FreeSpace::Enough);
        watch.logged(1);
        assert_eq!(watch.look(Duration::ZERO, || 0), FreeSpace::Full { free_bytes: 0 });
    }

    #[test]
    fn room_that_is_owed_to_the_data_file_is_not_given_away_again() {
        let (_, mut watch) = watch(300 << 20);
        assert_eq!(watch.look(Duration::ZERO, || 100 << 20), FreeSpace::Enough);
        assert_eq!(watch.look(Duration::from_secs(1), || 200 << 20), FreeSpace::Enough);
        let full = FreeSpace::Full { free_bytes: 99 << 20 };
        assert_eq!(watch.look(Duration::from_secs(2), || 201 << 20), full);
        let full = FreeSpace::Full { free_bytes: 0 };
        assert_eq!(watch.look(Duration::from_secs(3), || 301 << 20), full);
    }

    #[test]
    fn a_disk_that_cannot_be_asked_keeps_what_was_known() {
        let (told, mut watch) = watch(150 << 20);
        assert_eq!(watch.look(Duration::ZERO, || 0), FreeSpace::Low { free_bytes: 150 << 20 });
        told.0.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(
            watch.look(Duration::from_secs(1), || 0),
            FreeSpace::Low { free_bytes: 150 << 20 }
        );
    }

    #[test]
    fn a_real_file_system_has_room() {
        assert!(FileSystemSpace::of(std::env::temp_dir()).free_bytes().unwrap() > 0);
        assert!(FileSystemSpace::of("/nowhere/at/all").free_bytes().is_err());
    }
}
