//! What a workload runs on: a volume over NVMe/TCP, or whatever a host offers as NBD.

use std::time::Instant;

use nvme::Op;

use crate::{Client, ClientError, Done, NbdClient};

pub trait Device {
    fn blocks(&self) -> u64;
    /// Bytes of one command, at most.
    fn max_transfer(&self) -> usize;
    fn submit(&mut self, tag: u64, op: Op);
    /// Waits for at least one answer, or for the time. Answers come in `done`.
    fn wait(&mut self, done: &mut Vec<Done>, until: Option<Instant>) -> Result<(), ClientError>;
    /// Waits for what somebody else has left under way: its answers are nobody's.
    fn settle(&mut self) -> Result<(), ClientError>;
    /// How often the path changed, as far as it shows.
    fn switches(&self) -> u64;
}

impl Device for Client {
    fn blocks(&self) -> u64 {
        self.blocks()
    }

    fn max_transfer(&self) -> usize {
        self.attached().max_transfer
    }

    fn submit(&mut self, tag: u64, op: Op) {
        self.submit(tag, op);
    }

    fn wait(&mut self, done: &mut Vec<Done>, until: Option<Instant>) -> Result<(), ClientError> {
        self.wait(done, until)
    }

    fn settle(&mut self) -> Result<(), ClientError> {
        self.settle()
    }

    fn switches(&self) -> u64 {
        self.switches
    }
}

impl Device for NbdClient {
    fn blocks(&self) -> u64 {
        self.blocks()
    }

    fn max_transfer(&self) -> usize {
        // Far below what NBD allows: large enough that more would gain nothing.
        256 * 1024
    }

    fn submit(&mut self, tag: u64, op: Op) {
        self.submit(tag, &op);
    }

    fn wait(&mut self, done: &mut Vec<Done>, until: Option<Instant>) -> Result<(), ClientError> {
        self.wait(done, until)
    }

    fn settle(&mut self) -> Result<(), ClientError> {
        self.settle()
    }

    /// The host changes it behind the device's back: that is the point of the device.
    fn switches(&self) -> u64 {
        0
    }
}
