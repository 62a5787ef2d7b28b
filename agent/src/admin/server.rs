//! The HTTP server on the admin port.

use crate::{
    metrics::{self, Format},
    stats::{ReadStats, Snapshot},
    view::{Published, TablesView, View},
};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{future::Future, io, sync::Arc};
use tokio::{net::TcpListener, sync::watch, task};

/// What the server answers from.
#[derive(Clone)]
pub struct Admin {
    /// The state that the agent's loop published last.
    pub published: watch::Receiver<Arc<Published>>,
    /// Reads the counters.
    pub stats: Arc<dyn ReadStats>,
}

/// Serves until `shutdown` completes and every request under way is answered.
///
/// # Errors
///
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    admin: Admin,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router(admin)).with_graceful_shutdown(shutdown).await
}

fn router(admin: Admin) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/metrics", get(scrape))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/tables", get(tables))
        .route("/status", get(status))
        .with_state(admin)
}

/// Why a request cannot be answered.
#[derive(Debug, thiserror::Error)]
enum AdminError {
    #[error("the counters cannot be read: {0}")]
    Counters(Box<dyn std::error::Error + Send + Sync>),
    #[error("the metrics cannot be written as text")]
    Metrics(#[from] std::fmt::Error),
    #[error("the request was dropped while the agent stops")]
    Stopping(#[from] task::JoinError),
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        tracing::warn!(error = %self, "a request on the admin port failed");
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{self}\n")).into_response()
    }
}

impl Admin {
    /// Takes a reading and the state that goes with it. Work that is as long as the tables are runs
    /// on a thread of its own, so that a scrape never delays the agent's loop.
    async fn answer<T: Send + 'static>(
        self,
        make: impl FnOnce(Arc<Published>, Snapshot) -> Result<T, AdminError> + Send + 'static,
    ) -> Result<T, AdminError> {
        task::spawn_blocking(move || {
            let snapshot = self.stats.snapshot().map_err(AdminError::Counters)?;
            let published = Arc::clone(&self.published.borrow());
            make(published, snapshot)
        })
        .await?
    }
}

async fn index() -> &'static str {
    "weir: /metrics /healthz /readyz /tables /status\n"
}

async fn scrape(State(admin): State<Admin>, headers: HeaderMap) -> Result<Response, AdminError> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let text = admin.answer(move |published, stats| Ok(metrics::exposition(published, stats, format)?)).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

async fn healthz(State(admin): State<Admin>) -> Response {
    // The loop owns the sender: without it nothing is applied any more.
    if admin.published.has_changed().is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the agent's loop has ended: restart the agent\n").into_response();
    }
    "ok\n".into_response()
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let missing = admin.published.borrow().missing();
    if missing.is_empty() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n").into_response()
}

async fn tables(State(admin): State<Admin>) -> Result<Json<TablesView>, AdminError> {
    let published = Arc::clone(&admin.published.borrow());
    Ok(Json(task::spawn_blocking(move || TablesView::new(&published.tables, &published.names)).await?))
}

async fn status(State(admin): State<Admin>) -> Result<Json<View>, AdminError> {
    Ok(Json(admin.answer(|published, stats| Ok(View::new(&published, &stats))).await?))
}
