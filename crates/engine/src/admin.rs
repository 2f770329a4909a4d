//! A small HTTP server for people and their tools: metrics, health, the inventory, the machine's
//! block devices, and faults on purpose.

use std::time::Duration;

use ports::Engine;
use storage_node::InjectedFault;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::handle::Handle;

/// Bytes of a request: a line, some headers, a fault.
const REQUEST_MAX: usize = 16 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: usize = 64;

pub async fn serve(listener: TcpListener, handle: Handle) {
    let mut open = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        while open.try_join_next().is_some() {}
        if open.len() < CONNECTIONS_MAX {
            let handle = handle.clone();
            // One that stalls is dropped: there is nothing to lose.
            open.spawn(async move {
                let _ = timeout(PATIENCE, converse(stream, handle)).await;
            });
        }
    }
}

async fn converse(mut stream: TcpStream, handle: Handle) -> std::io::Result<()> {
    let Some((method, path, body)) = receive(&mut stream).await? else { return Ok(()) };
    let (status, kind, text) = answer(&handle, &method, &path, &body).await;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

async fn answer(
    handle: &Handle,
    method: &str,
    path: &str,
    body: &[u8],
) -> (&'static str, &'static str, String) {
    const PLAIN: &str = "text/plain; version=0.0.4";
    const JSON: &str = "application/json";
    let stopped = || ("503 Service Unavailable", PLAIN, "the engine has stopped\n".to_string());
    match (method, path) {
        ("GET", "/metrics") => match handle.metrics().await {
            Some(text) => ("200 OK", PLAIN, text),
            None => stopped(),
        },
        ("GET", "/healthz") => ("200 OK", PLAIN, "ok\n".into()),
        ("GET", "/inventory") => match handle.inventory().await {
            Ok(seen) => ("200 OK", JSON, serde_json::to_string_pretty(&seen).unwrap_or_default()),
            Err(_) => stopped(),
        },
        ("GET", "/devices") => match uring::BlockDevice::list() {
            Ok(devices) => {
                ("200 OK", JSON, serde_json::to_string_pretty(&devices).unwrap_or_default())
            }
            Err(error) => ("500 Internal Server Error", PLAIN, format!("{error}\n")),
        },
        ("POST", "/faults") => match serde_json::from_slice::<InjectedFault>(body) {
            Ok(fault) => match handle.inject(fault).await {
                Ok(()) => ("200 OK", PLAIN, "injected\n".into()),
                Err(why) => ("403 Forbidden", PLAIN, format!("{why}\n")),
            },
            Err(error) => ("400 Bad Request", PLAIN, format!("not a fault: {error}\n")),
        },
        _ => ("404 Not Found", PLAIN, "try /metrics, /healthz, /inventory or /devices\n".into()),
    }
}

/// The method, the path and the body; `None` for what is no request.
async fn receive(stream: &mut TcpStream) -> std::io::Result<Option<(String, String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() >= REQUEST_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.unwrap_or(0);
    if length > REQUEST_MAX {
        return Ok(None);
    }
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let mut words = head.split_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    Ok(Some((method.into(), path.into(), bytes[end..end + length].to_vec())))
}
