//! What keeps a host from starting.

use super::*;

fn settings(run: &Path, way: Way) -> Settings {
    Settings {
        host: HostId::from_u128(1),
        name: "h".into(),
        nqn: None,
        node: None,
        controllers: Vec::new(),
        keyring: None,
        run: run.into(),
        way,
        give_up: limits::GIVE_UP,
        backend: Backend::Auto,
    }
}

#[tokio::test]
async fn two_hosts_never_share_a_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let first = start(settings(&run, Way::User)).unwrap();
    let second = start(settings(&run, Way::User));
    assert!(matches!(second, Err(StartError::Taken { .. })), "{second:?}");
    first.stop().await;
    start(settings(&run, Way::User)).unwrap();
}

#[tokio::test]
async fn a_folder_whose_sockets_could_not_be_named_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a".repeat(limits::RUN_FOLDER_LENGTH_MAX));
    let refused = start(settings(&run, Way::User));
    assert!(matches!(refused, Err(StartError::TooLong { .. })), "{refused:?}");
}
