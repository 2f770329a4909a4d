//! A real controller drives real engines and a real host, and an application uses the volume.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod nbd;
mod rig;
mod strangers;

use std::time::{Duration, Instant};

use disk::{Client, Options, PathState, Uri};
use e2e::in_process::VOLUME;
use model::PathHealth;

use crate::{
    nbd::{Nbd, Work, check, pattern},
    rig::{Rig, node},
};

/// With default timers and a machine that does other things, too.
const GAP_MAX: Duration = Duration::from_secs(10);

/// HA-1, HA-3, HA-4: the target's process is killed under an application, which sees a pause and no
/// error, and nothing that it was promised is lost; the killed one comes back and is brought up.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_survives_the_death_of_its_target() {
    let mut rig = Rig::new(2).await;
    let host = rig.host(7);
    let socket = rig.publish(host.host).await;
    let nbd = Nbd::connect(&socket).unwrap();
    assert_eq!(nbd.size, 64 << 20);
    let work = Work::begin(nbd);
    work.goes_on(200).await;
    for _ in 0..2 {
        let old = rig.settled().await;
        rig.lose(old).await;
        work.goes_on(200).await;
        let new = rig.settled().await;
        assert_ne!(old, new);
        rig.bring(old).await;
        rig.whole(2).await;
        work.goes_on(200).await;
    }
    let (_, seen) = work.end().await;
    assert!(seen.gap < GAP_MAX, "{seen:?}");
    host.stop().await;
}

/// LC-4, M-17 in part: a host leaves when it is told to, and another is let in only after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_moves_from_one_host_to_another() {
    let mut rig = Rig::new(2).await;
    let (first, second) = (rig.host(7), rig.host(8));
    let socket = rig.publish(first.host).await;
    let work = Work::begin(Nbd::connect(&socket).unwrap());
    work.goes_on(100).await;
    let (mut nbd, seen) = work.end().await;
    let (leaver, comer) = (first.host, second.host);
    rig.unpublish(leaver).await;
    let has_left = move |seen: &controller::Seen<'_>| {
        let world = seen.world;
        let paths = &world.hosts.get(&leaver)?.inventory.as_ref()?.paths;
        let hosts = &world.volume(VOLUME)?.record.layout.hosts;
        (!paths.contains_key(&VOLUME) && hosts.is_empty()).then_some(())
    };
    rig.until("the first host gone", has_left).await;
    assert!(nbd.write(0, &[0; 4096]).is_err(), "a volume that was taken away is written");
    assert!(!socket.exists());
    let socket = rig.publish(comer).await;
    check(&mut Nbd::connect(&socket).unwrap(), seen.writes);
    first.stop().await;
    second.stop().await;
}

/// RS-1 for hosts: one that starts again is empty, hears what it shall have, and has it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_host_has_its_volumes_again() {
    let mut rig = Rig::new(2).await;
    let host = rig.host(7);
    let socket = rig.publish(host.host).await;
    let work = Work::begin(Nbd::connect(&socket).unwrap());
    work.goes_on(100).await;
    let (_, seen) = work.end().await;
    let (id, old) = (host.host, host.instance);
    host.stop().await;
    let host = rig.host(7);
    assert_ne!(host.instance, old);
    let new = host.instance;
    let is_back = move |seen: &controller::Seen<'_>| {
        let inventory = seen.world.hosts.get(&id)?.inventory.as_ref()?;
        let paths = inventory.paths.get(&VOLUME).filter(|_| inventory.instance == new)?;
        (paths.first()?.health == PathHealth::Live).then_some(())
    };
    rig.until("the restarted host's path", is_back).await;
    let socket = rig.socket(id).await;
    check(&mut Nbd::connect(&socket).unwrap(), seen.writes);
    host.stop().await;
}

/// RS-4: a controller that is killed and started again disturbs no application, and drives on.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_controller_disturbs_nobody() {
    let mut rig = Rig::new(2).await;
    let host = rig.host(7);
    let socket = rig.publish(host.host).await;
    let work = Work::begin(Nbd::connect(&socket).unwrap());
    work.goes_on(100).await;
    rig.restart_controller().await;
    work.goes_on(200).await;
    let old = rig.settled().await;
    rig.lose(old).await;
    work.goes_on(200).await;
    assert_ne!(rig.settled().await, old);
    work.end().await;
    host.stop().await;
}

/// HA-3: what a machine sent before it connected again must not be done after what it sends again.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_connects_again_ends_its_earlier_session() {
    let mut rig = Rig::new(2).await;
    let host = rig.host(7);
    rig.publish(host.host).await;
    let uri = Uri { addresses: vec![rig.target_address().await], nqn: VOLUME.nqn() };
    let (host_nqn, host_id) = (host.host.nqn(), host.host.0);
    let options = Options { host_nqn, host_id, ..Options::default() };
    host.stop().await;
    let ended = tokio::task::spawn_blocking(move || {
        let mut earlier = Client::connect(&uri, options.clone()).unwrap();
        assert_eq!(earlier.state(), PathState::Live);
        let later = Client::connect(&uri, options).unwrap();
        let end = Instant::now() + GAP_MAX;
        while earlier.state() == PathState::Live && Instant::now() < end {
            earlier.step(&mut Vec::new(), &mut Vec::new()).unwrap();
        }
        drop(later);
        earlier.state()
    });
    assert!(matches!(ended.await.unwrap(), PathState::Lost { .. }));
}

/// HA-4: without any target the application waits for the give-up time, gets an error, and works
/// again on the same device as soon as somebody serves.
#[tokio::test(flavor = "multi_thread")]
async fn commands_fail_only_after_the_give_up_time() {
    let give_up = Duration::from_secs(2);
    let mut rig = Rig::new(2).await;
    let host = rig.host_that_gives_up(7, give_up);
    let socket = rig.publish(host.host).await;
    let mut nbd = Nbd::connect(&socket).unwrap();
    nbd.write(1, &pattern(1, 0)).unwrap();
    let lost = Instant::now();
    for at in 0..3 {
        rig.lose(node(at)).await;
    }
    let refused = tokio::task::spawn_blocking(move || {
        assert!(nbd.write(2, &pattern(2, 0)).is_err(), "nobody has written that");
        (nbd, lost.elapsed())
    });
    let (mut nbd, waited) = refused.await.unwrap();
    assert!(waited >= give_up, "{waited:?}");
    for at in 0..3 {
        rig.bring(node(at)).await;
    }
    rig.settled().await;
    let again = tokio::task::spawn_blocking(move || {
        let end = Instant::now() + GAP_MAX;
        while nbd.write(2, &pattern(2, 1)).is_err() {
            assert!(Instant::now() < end, "it does not work again");
        }
        assert_eq!(nbd.read(1).unwrap(), pattern(1, 0));
        assert_eq!(nbd.read(2).unwrap(), pattern(2, 1));
    });
    again.await.unwrap();
    host.stop().await;
}
