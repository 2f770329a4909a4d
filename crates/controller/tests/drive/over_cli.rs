//! The same through the command line.

use clap::Parser;
use rest::Client;

use super::{over_rest::serve, *};

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: cli::Command,
}

/// What a command prints, and whether it says that it succeeded.
pub async fn say(client: &Client, words: &str) -> (String, bool) {
    let line = std::iter::once("holdfast").chain(words.split(' '));
    let command = Line::try_parse_from(line).unwrap().command;
    let mut out = Vec::new();
    let done = cli::run(command, client, &mut out).await;
    let printed = String::from_utf8(out).unwrap();
    match done {
        Ok(code) => (printed, code == std::process::ExitCode::SUCCESS),
        Err(error) => (error.to_string(), false),
    }
}

pub async fn done(client: &Client, words: &str) -> String {
    let (printed, succeeded) = say(client, words).await;
    assert!(succeeded, "{words}: {printed}");
    printed
}

/// LC-1, LC-5: a day's work at the command line.
#[tokio::test]
async fn an_operator_makes_publishes_resizes_cordons_and_deletes() {
    let store = Memory::default();
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let _engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let host = TestHost::start(&[controller.address]);
    let client = serve(&controller, store.clone()).await;
    controller.leads().await;
    controller.until("all nodes", |i| (i.world.nodes.len() == 3).then_some(())).await;
    controller.until("a host", move |i| i.world.hosts.get(&host.host).map(|_| ())).await;
    assert_eq!(done(&client, "get volumes").await, "no volumes\n");
    for (number, disk) in (1..).zip(&disks) {
        let words = format!("create pool p{number} --node n{number} --disk {}", disk.path());
        assert_eq!(done(&client, &words).await, format!("pool/p{number} created\n"));
    }
    let preview = done(&client, "create volume v1 --size 1GiB --replicas 2 --dry-run").await;
    assert!(preview.starts_with("nothing was done"), "{preview}");
    let words = "create volume v1 --size 1GiB --replicas 2";
    assert_eq!(done(&client, words).await, "volume/v1 created\n");
    assert_eq!(done(&client, "get volumes -o name").await, "volume/v1\n");
    assert_eq!(done(&client, "publish v1 --host h7").await, "volume/v1 published\n");
    let table = done(&client, "get volumes").await;
    assert!(table.contains("v1    1 GiB  2/2     healthy"), "{table}");
    assert!(table.contains("h7"), "{table}");
    assert_eq!(done(&client, "resize v1 --size 2GiB").await, "volume/v1 resized\n");
    let (words, succeeded) = say(&client, "resize v1 --size 1GiB").await;
    assert!(!succeeded && words.contains("volumes do not shrink"), "{words}");
    let told = done(&client, "describe volume v1").await;
    assert!(told.contains("PublishVolume was asked for"), "{told}");
    assert_eq!(done(&client, "unpublish v1 --host h7").await, "volume/v1 unpublished\n");
    assert_eq!(done(&client, "label n1 zone=z1").await, "node/n1 labelled\n");
    let (words, succeeded) = say(&client, "cordon n1 --if-revision 99").await;
    assert!(!succeeded && words.contains("not 99: read it again"), "{words}");
    let node: rest::NodeShown = client.get("/v1/nodes/n1").await.unwrap();
    let words = format!("cordon n1 --if-revision {}", node.node.meta.spec_revision);
    assert_eq!(done(&client, &words).await, "node/n1 cordoned\n");
    for words in ["drain n1", "forget node n1", "delete pool p3", "forget pool p3", "scale v1"] {
        let more = if words.starts_with("scale") { " --replicas 3" } else { "" };
        let (said, succeeded) = say(&client, &format!("{words}{more} --if-revision 99")).await;
        assert!(!succeeded && said.contains("read it again"), "{words}: {said}");
    }
    assert!(done(&client, "get nodes").await.contains("cordoned"));
    assert_eq!(done(&client, "uncordon n1").await, "node/n1 uncordoned\n");
    assert_eq!(done(&client, "delete volume v1").await, "volume is gone\n");
    let mut out = Vec::new();
    let code = cli::doctor(&client, &mut out).await.unwrap();
    let words = String::from_utf8(out).unwrap();
    assert_eq!(code, std::process::ExitCode::SUCCESS, "{words}");
    controller.end().await;
}

/// `why` names what holds a volume up, and the next step.
#[tokio::test]
async fn why_leads_from_a_volume_to_the_machine_and_the_next_step() {
    let store = Memory::default();
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let mut engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let client = serve(&controller, store.clone()).await;
    controller.leads().await;
    controller.until("all nodes", |i| (i.world.nodes.len() == 3).then_some(())).await;
    for (number, disk) in (1..).zip(&disks) {
        let words = format!("create pool p{number} --node n{number} --disk {}", disk.path());
        done(&client, &words).await;
    }
    done(&client, "create volume v1 --size 1GiB --replicas 3").await;
    assert!(done(&client, "why volume v1").await.contains("as it was asked for"));
    let lost = engines.pop().unwrap().node;
    let dead = move |seen: &Seen<'_>| (seen.world.liveness(lost) == Liveness::Dead).then_some(());
    controller.until("a dead node", dead).await;
    let words = done(&client, "why node n3").await;
    assert!(words.contains("node n3 does not answer"), "{words}");
    assert!(words.contains("-> start its engine"), "{words}");
    let (words, succeeded) = say(&client, "create volume v2 --size 1GiB --replicas 3").await;
    assert!(!succeeded && words.contains("no pool can take another replica"), "{words}");
    controller.end().await;
}
