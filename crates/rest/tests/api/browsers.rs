//! A page that somebody looks at cannot make their browser speak to a controller on this machine.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// The status of a request with these headers; `HOST` stands for the server's own address.
async fn status(server: &Server, line: &str, headers: &str, body: &str) -> u16 {
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let headers = headers.replace("HOST", &server.address.to_string()).replace('\n', "\r\n");
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\n{headers}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_a_foreign_page_can_send_is_refused() {
    let server = Bench::new(SCENE).start().await;
    let (get, cordon) = ("GET /v1/nodes", "PUT /v1/nodes/a/cordon");
    assert_eq!(status(&server, get, "Host: HOST", "").await, 200);
    assert_eq!(status(&server, get, "Host: localhost:7421", "").await, 200);
    // A name that somebody else makes point here.
    assert_eq!(status(&server, get, "Host: evil.example:7421", "").await, 403);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let headers = format!("Host: HOST\nOrigin: {origin}");
        assert_eq!(status(&server, cordon, &headers, "").await, 403, "{origin}");
    }
    assert_eq!(status(&server, cordon, "Host: HOST\nOrigin: http://HOST", "").await, 200);
    let (label, body) = ("PUT /v1/nodes/a/labels", "{\"zone\":\"x\"}");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let headers = format!("Host: HOST\nContent-Type: {kind}");
        assert_eq!(status(&server, label, &headers, body).await, 415, "{kind}");
    }
    assert_eq!(status(&server, label, "Host: HOST", body).await, 415);
    let headers = "Host: HOST\nContent-Type: application/json; charset=utf-8";
    assert_eq!(status(&server, label, headers, body).await, 200);
}
