//! What the discovery service tells a host: where the subsystems are that it may connect to.

use alloc::vec::Vec;

use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U64},
};

use super::{
    core::Core,
    subsystem::{Family, Listen},
};
use crate::{
    limits,
    wire::{
        fabrics::{ANY_CONTROLLER, put_name},
        log::{DiscoveryHeader, DiscoveryRecord},
    },
};

const TCP: u8 = 3;
const NVM_SUBSYSTEM: u8 = 2;
/// Neither needs nor forbids a secure channel.
const NOT_SPECIFIED: u8 = 0;

impl Core {
    /// The same bytes for the same generation, so that a host may read it in pieces.
    pub(crate) fn discovery_page(&self, host: &str) -> Vec<u8> {
        let here = self.subsystems.iter().map(|(_, exported)| &exported.subsystem);
        let here = here.map(|subsystem| (subsystem.nqn.as_str(), &subsystem.hosts));
        let there = self.routes.iter().map(|(nqn, route)| (nqn.as_str(), &route.hosts));
        let mut records = Vec::new();
        for (nqn, _) in here.chain(there).filter(|(_, hosts)| hosts.admit(host)) {
            for (port, listen) in (1u16..).zip(&self.listen) {
                records.extend_from_slice(record(nqn, port, listen).as_bytes());
            }
        }
        let mut header = DiscoveryHeader::new_zeroed();
        header.generation = U64::new(self.discovery_changes);
        let count = records.len() / size_of::<DiscoveryRecord>();
        header.records = U64::new(u64::try_from(count).unwrap_or_default());
        let mut page = header.as_bytes().to_vec();
        page.extend_from_slice(&records);
        page
    }
}

fn record(nqn: &str, port: u16, listen: &Listen) -> DiscoveryRecord {
    let mut record = DiscoveryRecord::new_zeroed();
    record.transport = TCP;
    record.family = match listen.family {
        Family::V4 => 1,
        Family::V6 => 2,
    };
    record.subtype = NVM_SUBSYSTEM;
    record.requirements = NOT_SPECIFIED;
    record.port = U16::new(port);
    record.cntlid = U16::new(ANY_CONTROLLER);
    record.admin_queue = U16::new(limits::QUEUE_ENTRIES);
    put_padded(&mut record.service, &listen.service);
    put_padded(&mut record.address, &listen.address);
    put_name(&mut record.subnqn, nqn);
    record
}

/// Text, filled up with spaces.
fn put_padded(field: &mut [u8], text: &str) {
    let len = text.len().min(field.len());
    field.fill(b' ');
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
}
