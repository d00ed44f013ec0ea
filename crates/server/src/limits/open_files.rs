//! How many files the process may have open, and how many connections fit into them.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::error::ServerError;
use crate::settings::{LimitSettings, Settings};

/// Asks the system for as many open files as connections may need; the default of most is 1,024.
/// Returns how many there may be; none: any number.
pub(crate) fn raise_file_limit(limits: &LimitSettings) -> Option<u64> {
    let connections = limits.connections_max.saturating_add(limits.connections_reserved);
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(FILES_RESERVED);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return limit.current;
    }
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    // Whether it worked shows in the limit that holds afterwards.
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(current), ..limit });
    getrlimit(Resource::Nofile).current
}

/// Lowers the limits to the connections that fit into so many open files. Were there more, none
/// would be accepted any more at some point, the administrator's neither, and nobody would give up
/// a slot.
///
/// Returns the number of files when that is to be told at once: somebody has asked for more
/// connections. Nobody asked for as many as the default has: of them it is told when it matters.
pub(crate) fn fit_connections(
    limits: &mut LimitSettings,
    files: Option<u64>,
) -> Result<Option<u64>, ServerError> {
    let Some(files) = files else { return Ok(None) };
    let fit = usize::try_from(files.saturating_sub(FILES_RESERVED)).unwrap_or(usize::MAX);
    let (max, reserved) = (limits.connections_max, limits.connections_reserved);
    if fit >= max.saturating_add(reserved) {
        return Ok(None);
    }
    if fit < CONNECTIONS_FIT_MIN {
        return Err(ServerError::TooFewFiles { files, needed: FILES_RESERVED + max as u64 });
    }
    limits.connections_reserved = reserved.min(fit / 2);
    limits.connections_max = max.min(fit - limits.connections_reserved);
    limits.open_files_max = Some(files);
    let is_default = max == Settings::default().limits.connections_max;
    Ok((!is_default).then_some(files))
}

/// There are fewer connections than the settings say.
pub(crate) fn warn_of_files(connections: usize, files: u64) {
    tracing::warn!(
        "only {connections} connections fit into the {files} open files that this process may \
         have, fewer than limits.connections_max, and no more are served: raise them (LimitNOFILE \
         of a unit, 'ulimit -Hn'), or lower the setting"
    );
}

/// Files a server has open besides connections: listeners, store, logs, and connections of the
/// admin listener, or that are refused because there are too many.
const FILES_RESERVED: u64 = 256;

/// With fewer connections a server is not worth starting.
const CONNECTIONS_FIT_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_connections_than_open_files() {
        // All of limits.connections_max stayed in force: when the files were used up, nobody was
        // accepted, and nobody gave up a slot.
        let fit = |max, reserved, files| {
            let mut limits = LimitSettings { connections_max: max, ..LimitSettings::default() };
            limits.connections_reserved = reserved;
            fit_connections(&mut limits, files)
                .map(|_| (limits.connections_max, limits.connections_reserved))
                .map_err(|error| error.to_string())
        };
        assert_eq!(fit(50_000, 32, Some(1_024)), Ok((736, 32)));
        assert_eq!(fit(50_000, 32, Some(60_000)), Ok((50_000, 32)));
        assert_eq!(fit(50_000, 32, None), Ok((50_000, 32)));
        assert_eq!(fit(700, 100, Some(1_024)), Ok((668, 100)));
        assert_eq!(fit(10, 0, Some(266)), Ok((10, 0)), "all that were asked for");
        assert_eq!(fit(50_000, 32, Some(256 + 16)), Ok((8, 8)));
        // Nobody who has set nothing is bothered by it before it matters: every start warned.
        let lowered = |max| {
            let mut limits = LimitSettings { connections_max: max, ..Settings::default().limits };
            let told = fit_connections(&mut limits, Some(1_024)).unwrap();
            (told, limits.open_files_max)
        };
        let usual = Settings::default().limits.connections_max;
        assert_eq!(lowered(700), (None, None));
        assert_eq!(lowered(usual), (None, Some(1_024)));
        assert_eq!(lowered(usual - 1), (Some(1_024), Some(1_024)));
        for files in [0, 256, 271] {
            let refusal = fit(50_000, 32, Some(files)).unwrap_err();
            assert_eq!(
                refusal,
                format!(
                    "this process may have {files} open files only, which leaves hardly \
                     any for clients: allow it 50256 (LimitNOFILE of a unit, 'ulimit -n')"
                )
            );
        }
    }
}
