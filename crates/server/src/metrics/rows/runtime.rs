//! Logs, the certificate, and the process itself.

use directory::LogState;

use super::super::scrape::Scrape;
use super::super::table::{Kind, MONITOR_ONLY, Metric, Samples};

pub(super) const ROWS: &[Metric] = &[
    Metric::new(
        "roster_log_lines_total",
        "cn=logs",
        "roster-log-lines",
        "Lines written; in the audit log, changes.",
        |scrape, out| of_logs(scrape, out, |log| log.lines),
    )
    .by_entry(&["log"]),
    Metric::new(
        "roster_log_written_bytes_total",
        "cn=logs",
        "roster-log-bytes",
        "Bytes written.",
        |scrape, out| of_logs(scrape, out, |log| log.bytes),
    )
    .by_entry(&["log"]),
    Metric::new(
        "roster_log_dropped_total",
        "cn=logs",
        "roster-log-dropped",
        "Lines that could not be written, or for which there was no space.",
        |scrape, out| of_logs(scrape, out, |log| log.dropped),
    )
    .by_entry(&["log"]),
    Metric::new(
        "roster_log_failed",
        "cn=logs",
        "roster-log-failed",
        "1 while the log cannot be written.",
        |scrape, out| of_logs(scrape, out, |log| u64::from(log.error.is_some())),
    )
    .by_entry(&["log"]),
    Metric::new(
        "roster_certificate_expiry_timestamp_seconds",
        "cn=tls",
        "roster-tls-expires-us",
        "When the certificate of the server expires, since 1970-01-01T00:00:00Z.",
        |scrape, out| out.one(scrape.shared.tls.state().expires_s.saturating_mul(1_000_000)),
    ),
    Metric::new(
        MONITOR_ONLY,
        "cn=tls",
        "roster-tls-days",
        "Whole days until the certificate of the server expires; negative if it has expired.",
        |scrape, out| out.signed(scrape.shared.tls.state().days_left(scrape.now().seconds())),
    ),
    Metric::new(
        "roster_certificate_failed",
        "cn=tls",
        "roster-tls-failed",
        "1 if changed files cannot be used, so the previous ones are still in use.",
        |scrape, out| out.one(u64::from(scrape.shared.tls.state().error.is_some())),
    ),
    Metric::new(
        "roster_build_info",
        "cn=process",
        "roster-process-version",
        "The running version.",
        |_, out| out.labelled(&[env!("CARGO_PKG_VERSION")], 1),
    )
    .of_kind(Kind::Info)
    .by(&["version"]),
    Metric::new(
        "roster_process_id",
        "cn=process",
        "roster-process-id",
        "The process id.",
        |_, out| out.one(u64::from(std::process::id())),
    ),
    Metric::new(
        "process_start_time_seconds",
        "cn=process",
        "roster-process-start-us",
        "When the server was started, since 1970-01-01T00:00:00Z.",
        |scrape, out| out.one(scrape.started().0),
    ),
    Metric::new(
        "roster_uptime_seconds",
        "cn=process",
        "roster-process-uptime-us",
        "How long the server has run.",
        |scrape, out| out.one(scrape.uptime_us()),
    ),
    Metric::new(
        "process_cpu_seconds_total",
        "cn=process",
        "roster-process-cpu-us",
        "CPU time of all threads.",
        |scrape, out| out.one(scrape.spent().cpu_us),
    ),
    Metric::new(
        "roster_process_cpu_user_seconds_total",
        "cn=process",
        "roster-process-cpu-user-us",
        "CPU time outside the kernel, to 10 ms.",
        |scrape, out| out.known(scrape.spent().user_us),
    ),
    Metric::new(
        "roster_process_cpu_system_seconds_total",
        "cn=process",
        "roster-process-cpu-system-us",
        "CPU time in the kernel, to 10 ms.",
        |scrape, out| out.known(scrape.spent().system_us),
    ),
    Metric::new(
        "process_resident_memory_bytes",
        "cn=process",
        "roster-process-resident-bytes",
        "Resident memory, including pages of the database.",
        |scrape, out| out.known(scrape.spent().resident_bytes),
    ),
    Metric::new(
        "roster_process_anonymous_memory_bytes",
        "cn=process",
        "roster-process-anonymous-bytes",
        "Memory that is not backed by a file: what the server itself uses.",
        |scrape, out| out.known(scrape.spent().anonymous_bytes),
    ),
    Metric::new(
        "process_virtual_memory_bytes",
        "cn=process",
        "roster-process-virtual-bytes",
        "Address space, including what is reserved for the database.",
        |scrape, out| out.known(scrape.spent().virtual_bytes),
    ),
    Metric::new(
        "process_open_fds",
        "cn=process",
        "roster-process-open-files",
        "Open file descriptors.",
        |scrape, out| out.known(scrape.spent().open_files),
    ),
    Metric::new(
        "process_max_fds",
        "cn=process",
        "roster-process-open-files-limit",
        "Maximum of open file descriptors.",
        |scrape, out| out.known(scrape.spent().files_max),
    ),
    Metric::new(
        "roster_process_threads",
        "cn=process",
        "roster-process-threads",
        "Threads.",
        |scrape, out| out.known(scrape.spent().threads),
    ),
    Metric::new(
        "roster_process_voluntary_switches_total",
        "cn=process",
        "roster-process-voluntary-switches",
        "Context switches of threads that waited for something.",
        |scrape, out| out.known(scrape.spent().voluntary_switches),
    ),
    Metric::new(
        "roster_process_involuntary_switches_total",
        "cn=process",
        "roster-process-involuntary-switches",
        "Context switches of threads whose time slice ended.",
        |scrape, out| out.known(scrape.spent().involuntary_switches),
    ),
    Metric::new(
        "roster_process_major_faults_total",
        "cn=process",
        "roster-process-major-faults",
        "Times that a thread waited for a page to be read from disk: of the database, if it does \
         not fit into the memory that is left for it.",
        |scrape, out| out.known(scrape.spent().major_faults),
    ),
    Metric::new(
        "roster_process_read_bytes_total",
        "cn=process",
        "roster-process-read-bytes",
        "Bytes read from disks.",
        |scrape, out| out.known(scrape.spent().read_bytes),
    ),
    Metric::new(
        "roster_process_written_bytes_total",
        "cn=process",
        "roster-process-written-bytes",
        "Bytes written to disks.",
        |scrape, out| out.known(scrape.spent().written_bytes),
    ),
];

fn of_logs(scrape: &Scrape<'_>, out: &mut Samples, pick: fn(&LogState) -> u64) {
    for log in scrape.logs() {
        out.labelled(&[log.name], pick(log));
    }
}
