//! Upgraded and rolled back, one process after the other.

use super::*;
use crate::records::{has_stranger, put_stranger, raise_schema};

/// Only the other build can have such a volume.
const TRICK: &str = "next-build-trick";
pub(crate) const VOLUME: &str = "v";

impl Rolling {
    /// Old engines refuse by name what only new ones know, and say who is to be upgraded.
    async fn is_refused_by_name(&self) {
        self.make_trick().await;
        until("a refusal by name", PATIENCE, || async {
            let said = self.say(Build::Next, &["why", "volume", "trick"]);
            let is_told = ["node-1", TRICK, "upgrade it"].iter().all(|word| said.contains(word));
            Ok(is_told.then_some(()))
        })
        .await
        .unwrap();
        self.say(Build::Next, &["delete", "volume", "trick"]);
        self.healed().await;
    }

    async fn make_trick(&self) {
        let spec = model::VolumeSpec { size: Bytes::mib(8), replicas: 3, ..Default::default() };
        let labels = [(TRICK.to_owned(), "yes".to_owned())].into();
        let put = rest::VolumePut { id: None, labels, spec };
        self.asking.change(hyper::Method::PUT, "/v1/volumes/trick", Some(&put)).await.unwrap();
    }

    /// New ones do it.
    async fn is_known_now(&self) {
        self.make_trick().await;
        until("the volume", PATIENCE, || async {
            Ok(self.asking.volume("trick").await?.status.available.then_some(()))
        })
        .await
        .unwrap();
        self.say(Build::Next, &["delete", "volume", "trick"]);
    }

    /// This build rewrites records that the other one wrote, and takes nothing from them.
    async fn nothing_unknown_is_lost(&self) {
        let before = self.unknown().await;
        for kind in ["cluster", "node/", "volume/", "membership/"] {
            let is_there = before.iter().any(|(key, _)| key.starts_with(kind));
            assert!(is_there || kind == "cluster", "the other build wrote no {kind}: {before:?}");
        }
        let this = Build::This;
        self.say(this, &["cordon", "node-1"]);
        self.say(this, &["uncordon", "node-1"]);
        self.say(this, &["resize", VOLUME, "--size", "72MiB"]);
        self.say(this, &["create", "snapshot", "s", "--volume", VOLUME]);
        self.healed().await;
        let after = self.unknown().await;
        let lost: Vec<_> = before.difference(&after).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }

    /// A controller of this build that finds records of a later one, led by the other build.
    async fn does_not_lead_on_a_newer_schema(&mut self) {
        self.replace(Member::Controller(2), Build::Next).await;
        raise_schema(&self.etcd().await).await;
        until("the newer one to lead", PATIENCE, || async {
            let (old, new) = (self.controller(1).await?, self.controller(2).await?);
            let says_why = old.read_only.is_some_and(|why| why.contains("upgrade it"));
            Ok((says_why && !old.leading && new.leading).then_some(()))
        })
        .await
        .unwrap();
        assert!(self.log(Member::Controller(1)).contains("it does not lead"));
        self.replace(Member::Controller(1), Build::Next).await;
    }
}

/// OP-6, M-12: this build and the next one work together, whichever has the controllers and
/// whichever the engines; each is replaced by the other, one process at a time, and back again. No
/// block is wrong, a copy is missed only while its own node is replaced, nothing that the other
/// build wrote is lost, and what cannot be understood is refused in words.
#[tokio::test(flavor = "multi_thread")]
async fn two_builds_mix_are_upgraded_and_rolled_back_one_by_one() {
    let mut test = Rolling::start().await;
    let place = bed::attach(&test.cluster, &test.asking, VOLUME, 3).await.unwrap();
    let application = Application::start(place, tempo());
    let watch = Watch::start(test.asking.clone(), VOLUME);
    put_stranger(&test.etcd().await).await;

    // Old engines beside new controllers.
    test.replace_controllers(Build::Next).await;
    test.is_refused_by_name().await;
    test.replace_engines(Build::Next).await;
    test.replace(Member::Host(1), Build::Next).await;
    test.is_known_now().await;

    // New engines beside old controllers.
    test.replace_controllers(Build::This).await;
    test.nothing_unknown_is_lost().await;
    test.replace_engines(Build::This).await;
    test.replace(Member::Host(1), Build::This).await;

    test.does_not_lead_on_a_newer_schema().await;
    let engine = test.log(Member::Engine(1));
    assert!(engine.contains("NextBuild"), "an old engine names the message it does not know");
    assert!(test.log(Member::Controller(1)).contains("NextBuild"));
    assert_eq!(watch.fewest(), 2, "a copy is missed only while its node is replaced");
    drop(watch);
    judge(application).await;
    test.healed().await;
    assert!(has_stranger(&test.etcd().await).await);
    for build in [Build::This, Build::Next] {
        println!("{build:?}: {}", test.say(build, &["doctor"]).trim());
    }
    assert_eq!(test.cluster.ended().unwrap(), []);
    test.cluster.stop_all().unwrap();
}
