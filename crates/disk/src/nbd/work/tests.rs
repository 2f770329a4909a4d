//! Requests on a disk of whole blocks whose answers come in any order, beside plain bytes.

use block::Durability::Volatile;

use super::*;

const BLOCKS: usize = 12;

/// Answers commands, the oldest or the newest first as `random` says.
struct Disk {
    bytes: Vec<u8>,
    waiting: Vec<(u64, nvme::Op)>,
}

impl Disk {
    fn run(&mut self, op: &nvme::Op) -> Reply {
        let at = |extent: &Extent| {
            let start = usize::try_from(extent.offset()).unwrap();
            start..start + usize::try_from(extent.bytes()).unwrap()
        };
        match op {
            nvme::Op::Read { extent } => Reply::Data(Buffer::copy_of(&self.bytes[at(extent)])),
            nvme::Op::Write { extent, data, .. } => {
                self.bytes[at(extent)].copy_from_slice(data.bytes());
                Reply::Done
            }
            nvme::Op::Zero { extent, .. } => {
                self.bytes[at(extent)].fill(0);
                Reply::Done
            }
            _ => Reply::Done,
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

fn write(span: Span, fill: u8) -> Op {
    let mut data = Buffer::zeroed(span.covering_bytes());
    let at = span.head();
    data.get_mut().unwrap()[at..at + span.len as usize].fill(fill);
    Op::Write { span, data, durability: Volatile }
}

/// Spans that share blocks but no bytes, one after the other.
fn disjoint(random: &mut Random) -> Vec<Span> {
    let (mut spans, mut at) = (Vec::new(), random.below(3000));
    loop {
        let len = 1 + random.below(6000);
        if at + len > BLOCKS * BLOCK {
            return spans;
        }
        let offset = u64::try_from(at).unwrap();
        spans.push(Span { offset, len: u32::try_from(len).unwrap() });
        at += len + random.below(2) * random.below(5000);
    }
}

/// One round: all at once, answered in any order; the disk must be what plain bytes are.
fn round(random: &mut Random, disk: &mut Disk, expected: &mut [u8]) {
    let mut work = Work::new(2 * BLOCK);
    let mut next = Next::default();
    let (mut spans, mut numbers) = (disjoint(random), 0);
    while !spans.is_empty() {
        let span = spans.swap_remove(random.below(spans.len()));
        let start = usize::try_from(span.offset).unwrap();
        let bytes = &mut expected[start..start + span.len as usize];
        let op = match random.below(4) {
            0 => {
                bytes.fill(0);
                Op::Zero { span, may_deallocate: true, durability: Volatile }
            }
            1 => Op::Trim { span, durability: Volatile },
            _ => {
                let fill = u8::try_from(1 + random.below(255)).unwrap();
                bytes.fill(fill);
                write(span, fill)
            }
        };
        if let Op::Trim { span, .. } = &op {
            let whole = span.whole();
            let start = usize::try_from(whole.offset()).unwrap();
            expected[start..start + place(whole.blocks.into())].fill(0);
        }
        work.start(op, &mut next);
        numbers += 1;
    }
    let mut finished = 0;
    loop {
        disk.waiting.append(&mut next.commands);
        for done in next.finished.drain(..) {
            assert_eq!(done.result, Ok(None));
            finished += 1;
        }
        if disk.waiting.is_empty() {
            break;
        }
        let at = random.below(disk.waiting.len());
        let (tag, op) = disk.waiting.swap_remove(at);
        let reply = disk.run(&op);
        work.answered(tag, Ok(reply), &mut next);
    }
    assert_eq!(finished, numbers);
    assert!(work.is_idle());
}

#[test]
fn neighbours_within_a_block_never_undo_each_other() {
    let mut random = Random(0x9e37_79b9);
    let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(|at| (at % 251).to_le_bytes()[0]).collect();
    let mut expected = bytes.clone();
    let mut disk = Disk { bytes, waiting: Vec::new() };
    for turn in 0..500 {
        round(&mut random, &mut disk, &mut expected);
        assert!(disk.bytes == expected, "round {turn}");
    }
}

#[test]
fn any_bytes_are_read_as_they_are() {
    let bytes: Vec<u8> = (0..BLOCKS * BLOCK).map(|at| (at % 249).to_le_bytes()[0]).collect();
    let mut disk = Disk { bytes, waiting: Vec::new() };
    let mut work = Work::new(2 * BLOCK);
    for (offset, len) in [(0, 1), (4095, 2), (513, 20_000), (8192, 4096), (49_151, 1)] {
        let mut next = Next::default();
        work.start(Op::Read { span: Span { offset, len } }, &mut next);
        while let Some((tag, op)) = next.commands.pop() {
            let reply = disk.run(&op);
            work.answered(tag, Ok(reply), &mut next);
        }
        let got = next.finished.pop().unwrap().result.unwrap().unwrap();
        let start = usize::try_from(offset).unwrap();
        assert_eq!(got.bytes(), &disk.bytes[start..start + len as usize]);
    }
}

#[test]
fn changes_of_one_block_take_turns_and_a_failed_read_fails_its_write() {
    let mut work = Work::new(2 * BLOCK);
    let mut next = Next::default();
    let first = work.start(write(Span { offset: 512, len: 512 }, 1), &mut next);
    let second = work.start(write(Span { offset: 0, len: 4096 }, 2), &mut next);
    let third = work.start(write(Span { offset: 4096, len: 4096 }, 3), &mut next);
    let commands = std::mem::take(&mut next.commands);
    let [(read, nvme::Op::Read { .. }), (other, nvme::Op::Write { .. })] = commands.as_slice()
    else {
        panic!("{commands:?}")
    };
    work.answered(*other, Ok(Reply::Done), &mut next);
    work.answered(*read, Err(Code::UnrecoveredRead.into()), &mut next);
    let finished: Vec<_> = next.finished.drain(..).collect();
    let done = |number, result| Finished { number, result };
    assert_eq!(finished, [done(third, Ok(None)), done(first, Err(Errno::Io))]);
    let (tag, _) = next.commands.pop().expect("the second's turn");
    work.answered(tag, Ok(Reply::Done), &mut next);
    assert_eq!(next.finished, [done(second, Ok(None))]);
}
