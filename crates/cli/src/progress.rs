//! What a person sees while a change is waited for: one line that is written over.
//!
//! Only on a terminal; pipes and files get nothing of it.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::Duration,
};

use rest::{Client, NodeShown, ReplicaShown, VolumeShown};
use tokio::time::sleep;

use crate::arguments::Kind;

/// Nothing is shown of what is done at once.
const FIRST_AFTER: Duration = Duration::from_millis(700);
const LOOK_EVERY: Duration = Duration::from_millis(400);
const WIDTH: usize = 24;

/// Waits for the work, and shows how far it is meanwhile. The name is one as in paths.
pub(crate) async fn beside<T>(
    client: &Client,
    kind: Kind,
    name: &str,
    work: impl Future<Output = T>,
) -> T {
    if !stderr().is_terminal() {
        return work.await;
    }
    tokio::pin!(work);
    let mut most = 0;
    let mut pause = FIRST_AFTER;
    let mut is_shown = false;
    loop {
        tokio::select! {
            done = &mut work => {
                if is_shown {
                    show("");
                }
                return done;
            }
            () = sleep(pause) => {}
        }
        pause = LOOK_EVERY;
        if let Some(line) = look(client, kind, name, &mut most).await {
            show(&line);
            is_shown = true;
        }
    }
}

/// Whoever closed the terminal needs no progress.
fn show(line: &str) {
    let _ = write!(stderr(), "\r\x1b[K{line}");
    let _ = stderr().flush();
}

async fn look(client: &Client, kind: Kind, name: &str, most: &mut usize) -> Option<String> {
    match kind {
        Kind::Nodes => {
            let path = format!("/v1/nodes/{name}");
            let node: NodeShown = client.get(&path).await.ok()?;
            let left = node.status.replicas + node.status.targets;
            *most = left.max(*most);
            Some(draining(name, left, *most))
        }
        Kind::Volumes => {
            let path = format!("/v1/volumes/{name}");
            let volume: VolumeShown = client.get(&path).await.ok()?;
            let replicas: Vec<ReplicaShown> = client.all("/v1/replicas").await.ok()?;
            let own = replicas.iter().filter(|copy| copy.volume == volume.volume.meta.name);
            let copied = own.filter_map(|copy| copy.copied).min();
            let words = volume.status.status.words.first().map_or("", String::as_str);
            Some(copying(name, copied, words))
        }
        _ => None,
    }
}

fn draining(name: &str, left: usize, most: usize) -> String {
    let done = (most - left.min(most)) * 100 / most.max(1);
    let percent = u8::try_from(done).unwrap_or(100);
    format!("node/{name} {} {left} of {most} left to move", bar(percent))
}

fn copying(name: &str, copied: Option<u8>, words: &str) -> String {
    let words: String = words.chars().take(60).collect();
    match copied {
        Some(percent) => format!("volume/{name} {} copied; {words}", bar(percent)),
        None => format!("volume/{name} {words}"),
    }
}

fn bar(percent: u8) -> String {
    let full = usize::from(percent.min(100)) * WIDTH / 100;
    format!("[{}{}] {percent:>3} %", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RC-5 in part: a running repair shows its progress.
    #[test]
    fn a_line_tells_how_far_a_copy_or_a_drain_is() {
        let half = "[############------------]  50 %";
        assert_eq!(copying("db", Some(50), "copying"), format!("volume/db {half} copied; copying"));
        assert_eq!(copying("db", None, "a replica is made"), "volume/db a replica is made");
        assert_eq!(draining("n1", 2, 4), format!("node/n1 {half} 2 of 4 left to move"));
        assert_eq!(draining("n1", 0, 0), format!("node/n1 {} 0 of 0 left to move", bar(0)));
        assert_eq!(bar(100), format!("[{}] 100 %", "#".repeat(WIDTH)));
    }
}
