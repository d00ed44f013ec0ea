//! `/readyz`: whether clients should be sent here, and why not.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use serde_json::json;

use crate::metrics::{Metrics, Readiness};

/// 200 when the server is ready, else 503; either way with what was looked at, as JSON.
pub(super) async fn answer(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    let Readiness { refusals, warnings } = metrics.readiness();
    let is_ready = refusals.is_empty();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "ready": is_ready, "reasons": refusals, "warnings": warnings });
    let head = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, head, format!("{body}\n"))
}
