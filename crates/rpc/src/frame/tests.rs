//! Messages of any size arrive whole and in order; what is too large or garbled is refused.

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

use super::*;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap());
    let (here, there) = tokio::join!(dialled, listener.accept());
    (here.unwrap(), there.unwrap().0)
}

#[tokio::test]
async fn a_message_larger_than_a_frame_arrives_whole() {
    let (here, there) = pair().await;
    let (_, mut sender) = split::<(), String>(here).unwrap();
    let (mut receiver, _) = split::<String, ()>(there).unwrap();
    let large = "x".repeat(3 * FRAME_MAX + 7);
    let send = async {
        sender.send(&large).await.unwrap();
        sender.send(&"small".to_string()).await.unwrap();
        drop(sender);
    };
    let receive = async {
        assert_eq!(receiver.next().await.unwrap(), Some(large.clone()));
        assert_eq!(receiver.next().await.unwrap().as_deref(), Some("small"));
        assert_eq!(receiver.next().await.unwrap(), None);
    };
    tokio::join!(send, receive);
}

#[tokio::test]
async fn a_frame_beyond_the_limit_is_refused_before_it_is_read() {
    let (mut here, there) = pair().await;
    let (mut receiver, _) = split::<String, ()>(there).unwrap();
    here.write_all(&(MORE - 1).to_le_bytes()).await.unwrap();
    let error = receiver.next().await.unwrap_err();
    assert!(matches!(error, FrameError::TooLarge { what: "frame", .. }), "{error:?}");
}

#[tokio::test]
async fn a_cut_message_is_an_error_and_not_an_end() {
    let (mut here, there) = pair().await;
    let (mut receiver, _) = split::<String, ()>(there).unwrap();
    here.write_all(&10u32.to_le_bytes()).await.unwrap();
    here.write_all(b"\"half").await.unwrap();
    drop(here);
    assert!(matches!(receiver.next().await, Err(FrameError::Io(_))));
}
