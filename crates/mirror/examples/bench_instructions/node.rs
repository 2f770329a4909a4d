//! One replica with its pool, on a disk in memory.

use std::collections::VecDeque;

use block::{BLOCK, Buffer};
use mirror::{Class, DiskOp, DiskResult, Geometry, Replica, ReplicaOutput};
use model::{InstanceId, PoolId, ReplicaId, Revision};
use pool::{
    Boot, Flaws, Format, FormatOptions, FormatStep, Image, Import, ImportOptions, ImportStep, Io,
    IoId, NewReplica, Out, Pool, Request, RequestId, Sizes,
};

use crate::{
    host::{BLOCKS, VOLUME},
    outside_the_machines,
};

const DISK_BLOCKS: u64 = 1 << 14;

/// Does what it is asked at once.
struct Disk {
    bytes: Vec<u8>,
}

impl Disk {
    /// A read gets its buffer from `buffer`.
    fn perform(&mut self, io: &Io, buffer: impl FnOnce(usize) -> Buffer) -> Option<Buffer> {
        let at = |offset: u64| usize::try_from(offset).unwrap();
        match io {
            Io::Read { offset, len } => {
                let mut buffer = buffer(*len);
                outside_the_machines(|| {
                    let from = &self.bytes[at(*offset)..at(*offset) + len];
                    buffer.get_mut().unwrap().copy_from_slice(from);
                });
                Some(buffer)
            }
            Io::Write { offset, data, .. } => {
                outside_the_machines(|| {
                    let to = at(*offset)..at(*offset) + data.len();
                    self.bytes[to].copy_from_slice(data.bytes());
                });
                None
            }
            Io::Sync | Io::Discard { .. } => None,
        }
    }
}

pub(crate) struct Node {
    id: ReplicaId,
    replica: Replica<Buffer>,
    pool: Pool,
    disk: Disk,
    /// Done by the disk, as a ring would tell: all at once, later.
    done: VecDeque<(IoId, Option<Buffer>)>,
    out: Vec<ReplicaOutput<Buffer>>,
    answers: VecDeque<(u64, mirror::Answer<Buffer>)>,
}

impl Node {
    pub(crate) fn new(id: ReplicaId) -> Self {
        let bytes = vec![0; usize::try_from(DISK_BLOCKS).unwrap() * BLOCK];
        let mut disk = Disk { bytes };
        let mut pool = open(&mut disk);
        let new = NewReplica {
            replica: id,
            volume: VOLUME,
            blocks: BLOCKS,
            thin: true,
            birth: None,
            carried: (Revision(1), Vec::new()),
            origin: None,
        };
        pool.submit(RequestId(0), Request::Create(Box::new(new)));
        while let Some(out) = pool.poll() {
            if let Out::Io { id, io } = out {
                pool.io_done(id, Ok(disk.perform(&io, Buffer::zeroed)));
            }
        }
        let header = pool::Header::default();
        let instance = InstanceId::from_u128(1);
        let replica = Replica::import(instance, Boot(1), Geometry::default(), header, Vec::new());
        let (done, out, answers) = (VecDeque::new(), Vec::new(), VecDeque::new());
        Self { id, replica, pool, disk, done, out, answers }
    }

    pub(crate) fn ask(&mut self, session: u64, tag: u64, request: mirror::Request<Buffer>) {
        self.replica.request(session, tag, request, &mut self.out);
    }

    /// Runs until the replica has an answer; `None` when nothing is left to do.
    pub(crate) fn poll(&mut self) -> Option<(u64, mirror::Answer<Buffer>)> {
        loop {
            for output in self.out.drain(..) {
                match output {
                    ReplicaOutput::Disk { id, op, .. } => {
                        self.pool.submit(RequestId(id), request(self.id, op));
                    }
                    ReplicaOutput::Reply { tag, answer, .. } => {
                        self.answers.push_back((tag, answer));
                    }
                    ReplicaOutput::Close { .. } => {}
                }
            }
            if let Some(answer) = self.answers.pop_front() {
                return Some(answer);
            }
            match self.pool.poll() {
                Some(Out::Io { id, io }) => {
                    let data = self.disk.perform(&io, |len| self.pool.read_buffer(len));
                    self.done.push_back((id, data));
                }
                Some(Out::Done { request, result }) => {
                    let result = match result.unwrap() {
                        pool::Reply::Data(data) => DiskResult::Data(data),
                        _ => DiskResult::Done,
                    };
                    self.replica.done(request.0, result, &mut self.out);
                }
                None => {
                    let (id, data) = self.done.pop_front()?;
                    self.pool.io_done(id, Ok(data));
                }
            }
        }
    }
}

fn request(replica: ReplicaId, op: DiskOp<Buffer>) -> Request {
    let fua = |class: Class| class == Class::Durable;
    match op {
        DiskOp::Read { extent } => Request::Read { image: Image::Replica(replica), extent },
        DiskOp::Write { extent, data, class } => {
            Request::Write { replica, extent, data, fua: fua(class) }
        }
        DiskOp::Flush => Request::Flush,
        DiskOp::Note(note) => Request::Note { replica, notes: vec![note] },
        other => panic!("nobody asks for {other:?} here"),
    }
}

fn open(disk: &mut Disk) -> Pool {
    let mut format = Format::new(FormatOptions {
        pool: PoolId::from_u128(1),
        name: "bench".into(),
        blocks: DISK_BLOCKS,
        sizes: Sizes::usual(DISK_BLOCKS),
        force: false,
    });
    while let Some(step) = format.poll() {
        match step {
            FormatStep::Io { id, io } => format.io_done(id, Ok(disk.perform(&io, Buffer::zeroed))),
            FormatStep::Done(result) => drop(result.unwrap()),
        }
    }
    let flaws = Flaws::default();
    let options = ImportOptions { blocks: DISK_BLOCKS, boot: Boot(1), discard: false, flaws };
    let mut import = Import::new(options);
    loop {
        match import.poll() {
            Some(ImportStep::Io { id, io }) => {
                import.io_done(id, Ok(disk.perform(&io, Buffer::zeroed)));
            }
            Some(ImportStep::Done(result)) => return result.unwrap().pool,
            None => panic!("the import stands still"),
        }
    }
}
