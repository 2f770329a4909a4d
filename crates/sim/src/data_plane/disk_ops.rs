//! Between a replica and its pool: operations become requests, answers become results.

use block::{BLOCK, Buffer, Extent};
use mirror::{Class, DiskFault, DiskOp, DiskResult, Frozen, Piece, ReplicaOutput};
use pool::{Image, Request, RequestId};

use super::{
    node::State,
    wire::Up,
    world::{World, replica_id},
};

/// Who asked a pool for something.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    Replica {
        id: u64,
    },
    /// A change of blocks, for a target of this epoch.
    Change {
        id: u64,
        epoch: u64,
    },
    Fetch {
        id: u64,
        extent: Extent,
        runs: Vec<(Extent, bool)>,
    },
    Created,
    /// Something that only takes space.
    Filler {
        blocks: u64,
    },
    Other,
}

impl World {
    pub(super) fn ask_pool(&mut self, node: usize, asker: Asker, request: Request) {
        let State::Up(up) = &mut self.nodes[node].state else { return };
        up.last += 1;
        let number = RequestId(up.last);
        up.asked.insert(number, asker);
        up.pool.submit(number, request);
        self.poll_pool(node);
    }

    pub(super) fn replica_says(&mut self, node: usize, outputs: Vec<ReplicaOutput<Buffer>>) {
        for output in outputs {
            match output {
                ReplicaOutput::Disk { id, session, op } => {
                    self.replica_asks(node, id, session, op);
                }
                ReplicaOutput::Reply { session, tag, answer } => {
                    if matches!(answer, mirror::Answer::Fenced(_)) {
                        let epoch = self.wires.get(&session).map_or(0, |wire| wire.epoch);
                        let fenced = &mut self.nodes[node].fenced;
                        *fenced = (*fenced).max(epoch);
                    }
                    self.send_up(session, Up::Answer(tag, answer));
                }
                ReplicaOutput::Close { session } => self.replica_closes(session),
            }
        }
    }

    fn replica_asks(&mut self, node: usize, id: u64, session: Option<u64>, op: DiskOp<Buffer>) {
        let replica = replica_id(node);
        let epoch = session.and_then(|wire| self.wires.get(&wire)).map(|wire| wire.epoch);
        let mut asker = Asker::Replica { id };
        // A session that is gone is as old as can be.
        let change = Asker::Change { id, epoch: epoch.unwrap_or(0) };
        let fua = |class: Class| class == Class::Durable;
        let request = match op {
            DiskOp::Read { extent } => Request::Read { image: Image::Replica(replica), extent },
            DiskOp::Fetch { extent, image, since } => {
                let image =
                    image.map_or(Image::Replica(replica), |image| Image::Snapshot(replica, image));
                let pool = self.nodes[node].up().map(|up| &up.pool);
                let Some(Ok(runs)) = pool.map(|pool| pool.changes(image, since, extent)) else {
                    return self.replica_done(node, id, DiskResult::Failed(DiskFault::Media));
                };
                if runs.iter().all(|(_, has_data)| !has_data) {
                    let hole = |(extent, _)| Piece { extent, data: None };
                    let pieces = runs.into_iter().map(hole).collect();
                    return self.replica_done(node, id, DiskResult::Pieces(pieces));
                }
                asker = Asker::Fetch { id, extent, runs };
                Request::Read { image, extent }
            }
            DiskOp::Write { extent, data, class } => {
                asker = change;
                Request::Write { replica, extent, data, fua: fua(class) }
            }
            DiskOp::Zero { extent, class } => {
                asker = change;
                Request::Zero { replica, extent, fua: fua(class) }
            }
            DiskOp::Flush => Request::Flush,
            DiskOp::Note(one) => Request::Note { replica, notes: vec![one] },
            DiskOp::Snapshot(Frozen { snapshot, attempt, roster, blocks, name }) => {
                let blocks = Some(blocks);
                Request::Snapshot { replica, snapshot, attempt, roster, blocks, name }
            }
            DiskOp::SnapAbort { attempt, .. } => Request::AbortSnapshot { replica, attempt },
        };
        self.ask_pool(node, asker, request);
    }

    pub(super) fn pool_answers(
        &mut self,
        node: usize,
        asker: Asker,
        result: Result<pool::Reply, pool::Error>,
    ) {
        if let Err(error) = &result {
            self.note(|| format!("the pool of node {node} refuses: {error}"));
        }
        let (id, result) = match (asker, result) {
            (Asker::Created, _) => return self.replica_created(node),
            (Asker::Filler { blocks }, Err(_)) => {
                return self.fill(node, blocks.saturating_sub(pool::CLUSTER));
            }
            (Asker::Other | Asker::Filler { .. }, _) => return,
            (Asker::Replica { id }, Ok(pool::Reply::Data(data))) => (id, DiskResult::Data(data)),
            (Asker::Replica { id }, Ok(_)) => (id, DiskResult::Done),
            (Asker::Change { id, epoch }, Ok(_)) => {
                let fenced = self.nodes[node].fenced;
                let is_old = epoch < fenced;
                let words = || format!("epoch {epoch} changes node {node}, fenced by {fenced}");
                self.check("5", if is_old { Err(words()) } else { Ok(()) });
                (id, DiskResult::Done)
            }
            (Asker::Fetch { id, extent, runs }, Ok(pool::Reply::Data(data))) => {
                (id, DiskResult::Pieces(pieces(&data, extent, &runs)))
            }
            (Asker::Fetch { id, .. }, Ok(_)) => (id, DiskResult::Failed(DiskFault::Media)),
            (
                Asker::Replica { id } | Asker::Change { id, .. } | Asker::Fetch { id, .. },
                Err(error),
            ) => (id, DiskResult::Failed(fault(&error))),
        };
        self.replica_done(node, id, result);
    }

    fn replica_done(&mut self, node: usize, id: u64, result: DiskResult<Buffer>) {
        let mut out = Vec::new();
        let Some(replica) = self.nodes[node].replica() else { return };
        replica.done(id, result, &mut out);
        self.replica_says(node, out);
    }

    fn replica_created(&mut self, node: usize) {
        let Some(up) = self.nodes[node].up() else { return };
        let replica = self.import_replica(node, &up.pool);
        if let State::Up(up) = &mut self.nodes[node].state {
            up.replica = replica;
        }
    }
}

/// What was fetched, cut into what is there and what is not.
fn pieces(data: &Buffer, whole: Extent, runs: &[(Extent, bool)]) -> Vec<Piece<Buffer>> {
    let at = |block: u64| usize::try_from(block - whole.start).unwrap_or(0) * BLOCK;
    runs.iter()
        .map(|(extent, has_data)| {
            let data = has_data.then(|| data.slice(at(extent.start)..at(extent.end())));
            Piece { extent: *extent, data }
        })
        .collect()
}

fn fault(error: &pool::Error) -> DiskFault {
    match error {
        pool::Error::NoSpace => DiskFault::NoSpace,
        pool::Error::Faulted { .. } | pool::Error::Exported => DiskFault::Faulted,
        _ => DiskFault::Media,
    }
}
