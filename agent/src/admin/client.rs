//! Asks an agent's admin port: plain HTTP, one request a connection.
//!
//! Errors tell the whole story in one line, so what caused them is no `source` of theirs: it would
//! be told twice.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there.
    #[error(
        "no agent answers on {address} ({cause}): start one with `weir run`, or name its admin address with --admin"
    )]
    NoAgent {
        /// The address asked.
        address: String,
        /// What connecting came to.
        cause: io::Error,
    },
    /// It took too long.
    #[error("the agent on {address} did not answer within {} seconds", PATIENCE.as_secs())]
    TimedOut {
        /// The address asked.
        address: String,
    },
    /// It does not speak HTTP.
    #[error("what listens on {address} is not a Weir agent: {cause}")]
    NotHttp {
        /// The address asked.
        address: String,
        /// What HTTP came to.
        cause: hyper::Error,
    },
    /// It answered, but not with what was asked for.
    #[error("the agent on {address} answered {path} with {status}: {text}")]
    Refused {
        /// The address asked.
        address: String,
        /// The path asked for.
        path: String,
        /// The status.
        status: StatusCode,
        /// The body.
        text: String,
    },
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The content type, empty if none was named.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// Gets `path` from the agent at `address`, whatever the status.
///
/// # Errors
///
/// If nobody listens there, or no HTTP answer comes in time.
pub async fn ask(address: &str, path: &str, accept: &str) -> Result<Answer, AskError> {
    let late = |_| AskError::TimedOut { address: address.to_owned() };
    timeout(PATIENCE, exchange(address, path, accept)).await.map_err(late)?
}

/// Gets `path` from the agent at `address`; anything but success is an error.
///
/// # Errors
///
/// As [`ask`], and if the agent answers with another status than 200.
pub async fn get(address: &str, path: &str) -> Result<Bytes, AskError> {
    let answer = ask(address, path, "*/*").await?;
    if answer.status == StatusCode::OK {
        return Ok(answer.body);
    }
    let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
    Err(AskError::Refused { address: address.to_owned(), path: path.to_owned(), status: answer.status, text })
}

async fn exchange(address: &str, path: &str, accept: &str) -> Result<Answer, AskError> {
    let not_http = |cause| AskError::NotHttp { address: address.to_owned(), cause };
    let no_agent = |cause| AskError::NoAgent { address: address.to_owned(), cause };
    let stream = TcpStream::connect(address).await.map_err(no_agent)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(not_http)?;
    let request = Request::get(path)
        .header(header::HOST, address)
        .header(header::ACCEPT, accept)
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| no_agent(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let talk = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let named = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = named.unwrap_or_default().to_owned();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, content_type, body })
    };
    // Both ends of the exchange run here; the connection ends by itself once the body is read.
    tokio::pin!(connection);
    let mut talk = std::pin::pin!(talk);
    tokio::select! {
        answer = &mut talk => answer.map_err(not_http),
        ended = &mut connection => {
            ended.map_err(not_http)?;
            talk.await.map_err(not_http)
        }
    }
}
