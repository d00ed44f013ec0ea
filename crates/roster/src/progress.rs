//! Progress bars: shown on a terminal only, always on standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts to `total`, or only up when the total is not known.
pub(crate) fn bar(total: Option<u64>, unit: &'static str) -> ProgressBar {
    // Without a terminal indicatif draws nothing.
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let template = match (total, unit) {
        (Some(_), "bytes") => {
            "{msg:12} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}"
        }
        (Some(_), _) => "{msg:12} {wide_bar} {human_pos}/{human_len} {eta}",
        (None, "bytes") => "{msg:12} {spinner} {bytes} {binary_bytes_per_sec}",
        (None, _) => "{msg:12} {spinner} {human_pos}",
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
