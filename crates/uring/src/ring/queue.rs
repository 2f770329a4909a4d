//! The two queues shared with the kernel.

use std::{io, os::fd::AsFd, time::Duration};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use super::{
    entry::{entry, ready},
    outcome,
    slots::Slots,
};
use crate::limits;

/// Entries that are not flights; slots are numbered from zero and never get so far.
const BELL: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

pub(super) struct Queue {
    ring: IoUring,
    /// Entries for disks that the kernel has not been told of.
    disk_lot: usize,
}

/// One entry of the completion queue.
#[derive(Debug)]
pub(super) enum Answer {
    Flight { index: usize, result: Result<usize, Errno> },
    Cancelled,
    Bell,
}

impl Queue {
    /// A ring as modern as the kernel has it; an error if it is forbidden or too old to be of use.
    pub fn new() -> io::Result<Self> {
        let ring = build(Taskrun::Deferred).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => build(Taskrun::AnyTime),
            _ => Err(error),
        })?;
        let params = ring.params();
        let is_fit = params.is_feature_ext_arg()
            && params.is_feature_nodrop()
            && params.is_feature_fast_poll()
            && params.is_feature_submit_stable();
        let too_old = || io::Error::new(io::ErrorKind::Unsupported, "io_uring is too old here");
        is_fit.then_some(Self { ring, disk_lot: 0 }).ok_or_else(too_old)
    }

    /// The next step of the flight in this slot; false if there is no room for it.
    pub fn push_flight(&mut self, slots: &mut Slots, index: usize) -> bool {
        let Some(slot) = slots.get_mut(index) else { return false };
        let Some(entry) = entry(slot) else { return false };
        let number = u64::try_from(index).expect("an index fits");
        let is_pushed = self.push(&entry.user_data(number));
        if is_pushed && slot.flight.as_ref().is_some_and(|flight| flight.work.is_for_disk()) {
            self.disk_lot += 1;
            if self.disk_lot >= limits::DISK_LOT {
                // An error will be met again, and told, by the poll at the end of the turn.
                let _ = self.submit();
            }
        }
        is_pushed
    }

    /// A cancellation that finds no room is lost: the flight then ends by itself, marked cancelled.
    pub fn push_cancel(&mut self, index: usize) {
        let number = u64::try_from(index).expect("an index fits");
        self.push(&opcode::AsyncCancel::new(number).build().user_data(CANCEL));
    }

    pub fn push_watch(&mut self, bell: &impl AsFd) -> bool {
        self.push(&ready(bell, libc::POLLIN).user_data(BELL))
    }

    #[allow(unsafe_code, reason = "the kernel keeps addresses that a borrow cannot follow")]
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        if self.ring.submission().is_full() && self.submit().is_err() {
            return false;
        }
        // SAFETY: `push` wants whatever the entry points to, and its descriptor, to be valid until
        // the operation is over. Entries are made in `entry` from a flight that lies in a slot, and
        // point to bytes of its buffers (filled ones have one owner, the flight, by `get_mut`) and
        // to lists of the slot's scratch; all of that is on the heap and does not move with them.
        // The flight holds a handle onto the descriptor. A flight leaves its slot only when the
        // completion entry with its number was taken, or when this push said false; the scratch
        // is written again only for the next flight in that slot. A dropped ring waits for its
        // slots or leaks them. Bell and cancellation point to no memory.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// One system call if there is something to hand over or to be run, else none.
    pub fn hand_over(&mut self) -> io::Result<()> {
        let submission = self.ring.submission();
        if submission.is_empty() && !submission.taskrun() && !submission.cq_overflow() {
            return Ok(());
        }
        drop(submission);
        self.submit()
    }

    pub fn has_news(&mut self) -> bool {
        let submission = self.ring.submission();
        if submission.taskrun() || submission.cq_overflow() || !submission.is_empty() {
            return true;
        }
        drop(submission);
        !self.ring.completion().is_empty()
    }

    pub fn take_answers(&mut self, answers: &mut Vec<Answer>) {
        answers.extend(self.ring.completion().map(|entry| match entry.user_data() {
            BELL => Answer::Bell,
            CANCEL => Answer::Cancelled,
            number => Answer::Flight {
                index: usize::try_from(number).expect("it was an index"),
                result: outcome(entry.result()),
            },
        }));
    }

    /// Hands over, and sleeps until an answer comes or the time is up.
    pub fn block(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        self.disk_lot = 0;
        let submitter = self.ring.submitter();
        settled(match at_most {
            Some(time) => {
                let time = types::Timespec::from(time);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
            None => submitter.submit_and_wait(1),
        })
    }

    fn submit(&mut self) -> io::Result<()> {
        self.disk_lot = 0;
        settled(self.ring.submit())
    }
}

/// When the kernel does what other threads' interrupts left for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taskrun {
    /// Only when we ask, and it says when there is something to ask for (6.1).
    Deferred,
    AnyTime,
}

fn build(taskrun: Taskrun) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(limits::COMPLETIONS);
    if taskrun == Taskrun::Deferred {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    }
    builder.build(limits::SUBMISSIONS)
}

/// Not errors: interrupted, time is up, or answers are to be taken first.
fn settled(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error) => match error.raw_os_error() {
            Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(error),
        },
        Ok(_) => Ok(()),
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
