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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::client::{Answer, AskError, ask},
        view::sample,
    };
    use std::error::Error;
    use tokio::sync::oneshot;

    /// Counters that can be read, or cannot.
    struct Counters(Result<Snapshot, &'static str>);

    impl ReadStats for Counters {
        fn snapshot(&self) -> Result<Snapshot, Box<dyn Error + Send + Sync>> {
            self.0.clone().map_err(Into::into)
        }
    }

    struct Running {
        address: String,
        published: watch::Sender<Arc<Published>>,
        stop: oneshot::Sender<()>,
        server: task::JoinHandle<io::Result<()>>,
    }

    async fn start(published: Published, counters: Result<Snapshot, &'static str>) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address").to_string();
        let (sender, receiver) = watch::channel(Arc::new(published));
        let (stop, stopped) = oneshot::channel::<()>();
        let admin = Admin { published: receiver, stats: Arc::new(Counters(counters)) };
        let shutdown = async move { stopped.await.expect("the test says when to stop") };
        let server = tokio::spawn(serve(listener, admin, shutdown));
        Running { address, published: sender, stop, server }
    }

    async fn get(running: &Running, path: &str) -> (u16, String) {
        let Answer { status, body, .. } = ask(&running.address, path, "*/*").await.expect("an answer");
        (status.as_u16(), String::from_utf8(body.to_vec()).expect("text"))
    }

    fn not_ready() -> Published {
        let unapplied = Published::starting("0.1.0", "node-1".to_owned(), std::time::UNIX_EPOCH);
        Published { generation: 0, ..unapplied }
    }

    #[tokio::test]
    async fn ready_means_applied_and_attached() {
        let running = start(not_ready(), Ok(sample::snapshot())).await;
        assert_eq!(get(&running, "/readyz").await, (503, "no state has been applied yet\n".to_owned()));
        running.published.send_replace(Arc::new(sample::published()));
        assert_eq!(get(&running, "/readyz").await, (200, "ready\n".to_owned()));
        let mut lost = sample::published();
        lost.coverage.lost.push("connect6".to_owned());
        running.published.send_replace(Arc::new(lost));
        let (status, text) = get(&running, "/readyz").await;
        assert_eq!(status, 503);
        assert!(text.contains("connect6"), "{text}");
    }

    #[tokio::test]
    async fn healthy_means_that_the_loop_runs() {
        let running = start(not_ready(), Ok(sample::snapshot())).await;
        assert_eq!(get(&running, "/healthz").await, (200, "ok\n".to_owned()));
        let Running { address, published, stop: _stop, server: _server } = running;
        drop(published);
        assert_eq!(ask(&address, "/healthz", "*/*").await.expect("an answer").status, 503);
    }

    #[tokio::test]
    async fn metrics_come_in_the_format_that_the_scraper_accepts() {
        let running = start(sample::published(), Ok(sample::snapshot())).await;
        let plain = ask(&running.address, "/metrics", "text/plain").await.expect("an answer");
        assert_eq!(plain.content_type, "text/plain; version=0.0.4; charset=utf-8");
        let open = ask(&running.address, "/metrics", "application/openmetrics-text;version=1.0.0").await;
        let open = open.expect("an answer");
        assert_eq!(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(open.body.ends_with(b"# EOF\n"));
        assert!(plain.body.starts_with(b"# HELP weir_connections_forwarded_total "));
    }

    #[tokio::test]
    async fn status_and_tables_are_json() {
        let running = start(sample::published(), Ok(sample::snapshot())).await;
        let (_, text) = get(&running, "/status").await;
        let view: View = serde_json::from_str(&text).expect("a view");
        assert_eq!(view, View::new(&sample::published(), &sample::snapshot()));
        let (_, text) = get(&running, "/tables").await;
        let tables: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(tables["frontends"].as_array().map(Vec::len), Some(2));
    }

    #[tokio::test]
    async fn counters_that_cannot_be_read_are_an_error_of_the_server() {
        let running = start(sample::published(), Err("the map is gone")).await;
        for path in ["/metrics", "/status"] {
            let (status, text) = get(&running, path).await;
            assert_eq!((status, text.as_str()), (500, "the counters cannot be read: the map is gone\n"));
        }
        assert_eq!(get(&running, "/healthz").await.0, 200);
    }

    #[tokio::test]
    async fn only_reading_is_possible() {
        let running = start(sample::published(), Ok(sample::snapshot())).await;
        assert_eq!(get(&running, "/nothing").await.0, 404);
        let mut stream = tokio::net::TcpStream::connect(&running.address).await.expect("a connection");
        tokio::io::AsyncWriteExt::write_all(
            &mut stream,
            b"POST /status HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
        .await
        .expect("sent");
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    }

    #[tokio::test]
    async fn after_the_shutdown_nobody_answers_and_the_client_says_what_to_do() {
        let running = start(sample::published(), Ok(sample::snapshot())).await;
        running.stop.send(()).expect("the server runs");
        running.server.await.expect("no panic").expect("no error");
        let error = ask(&running.address, "/status", "*/*").await.expect_err("nobody is there");
        assert!(matches!(error, AskError::NoAgent { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&running.address) && text.contains("weir run") && text.contains("--admin"), "{text}");
    }
}
