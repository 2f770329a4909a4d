//! Connect: how a connection becomes a queue of a controller.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::time::Duration;

use zerocopy::FromBytes;

use super::{
    core::{Answer, Connected, Core, Done, Role},
    port::{ConnId, Out},
    session::{Events, Features, Session, SessionId, State},
    subsystem::SubsystemId,
};
use crate::{
    limits,
    status::{Code, Status},
    wire::{
        command::Sqe,
        fabrics::{
            ANY_CONTROLLER, ConnectData, DISCOVERY_NQN, NO_FLOW_CONTROL, connect_at, name_of,
        },
    },
};

/// What Connect says.
struct Ask {
    qid: u16,
    sqsize: u16,
    has_flow_control: bool,
    keep_alive: Duration,
    host_id: [u8; 16],
    cntlid: u16,
    host_nqn: String,
    subnqn: String,
}

/// Which field is wrong.
enum Wrong {
    Command(u16),
    Data(u16),
    Status(Code),
}

impl From<Wrong> for Answer {
    fn from(wrong: Wrong) -> Self {
        // The offending offset, and in bit 16 whether it lies in the data.
        let (code, value) = match wrong {
            Wrong::Command(at) => (Code::ConnectInvalid, u64::from(at)),
            Wrong::Data(at) => (Code::ConnectInvalid, u64::from(at) | 1 << 16),
            Wrong::Status(code) => (code, 0),
        };
        Self::Now(Done { status: Some(Status::new(code)), value, data: None })
    }
}

impl Core {
    pub(crate) fn connect(&mut self, conn: ConnId, sqe: &Sqe, data: &[u8]) -> Answer {
        let ask = match Ask::parse(sqe, data) {
            Ok(ask) => ask,
            Err(wrong) => return wrong.into(),
        };
        if let Some(route) = self.routes.get(&ask.subnqn) {
            return Answer::Elsewhere { place: route.place };
        }
        let connected =
            if ask.qid == 0 { self.connect_admin(conn, &ask) } else { self.connect_io(conn, &ask) };
        match connected {
            Ok((role, cntlid)) => Answer::Connected(Connected {
                role,
                qid: ask.qid,
                cntlid,
                entries: ask.sqsize.saturating_add(1),
                has_flow_control: ask.has_flow_control,
            }),
            Err(wrong) => wrong.into(),
        }
    }

    fn connect_admin(&mut self, conn: ConnId, ask: &Ask) -> Result<(Role, u16), Wrong> {
        if ask.cntlid != ANY_CONTROLLER {
            return Err(Wrong::Data(ConnectData::CNTLID_AT));
        }
        let (subsystem, cntlid) = if ask.subnqn == DISCOVERY_NQN {
            (None, self.discovery_cntlid()?)
        } else {
            let (id, cntlid) = self.admit(ask)?;
            (Some(id), cntlid)
        };
        let session = Session {
            host_nqn: ask.host_nqn.clone(),
            host_id: ask.host_id,
            cntlid,
            subsystem,
            state: State::Live,
            conns: Vec::from([conn]),
            queues: BTreeMap::from([(0, conn)]),
            cc: 0,
            csts: 0,
            keep_alive: ask.keep_alive,
            heard: self.now,
            features: Features::default(),
            events: Events::default(),
            io_in_flight: 0,
        };
        let id = SessionId(self.sessions.insert(session));
        self.outs.push_back(Out::SessionOpened {
            session: id,
            subsystem,
            host_nqn: ask.host_nqn.clone(),
            host_id: ask.host_id,
            cntlid,
        });
        Ok((Role::Admin(id), cntlid))
    }

    /// The subsystem that a host may connect to, and a number for its controller.
    fn admit(&mut self, ask: &Ask) -> Result<(SubsystemId, u16), Wrong> {
        let named = |exported: &super::subsystem::Exported| exported.subsystem.nqn == ask.subnqn;
        let found = self.subsystems.iter().find(|(_, exported)| named(exported));
        let (key, exported) = found.ok_or(Wrong::Data(ConnectData::SUBNQN_AT))?;
        if ask.host_id == [0; 16] {
            return Err(Wrong::Data(ConnectData::HOST_ID_AT));
        }
        if !exported.subsystem.hosts.admit(&ask.host_nqn) {
            return Err(Wrong::Status(Code::ConnectHostRefused));
        }
        let id = SubsystemId(key);
        let of_it = self.sessions.iter().filter(|(_, session)| session.subsystem == Some(id));
        let used: Vec<u16> = of_it.map(|(_, session)| session.cntlid).collect();
        let exported = self.subsystems.get_mut(key).ok_or(Wrong::Status(Code::InternalError))?;
        let count = exported.subsystem.cntlids;
        if used.len() >= limits::CONTROLLERS.min(usize::from(count)) {
            return Err(Wrong::Status(Code::ConnectBusy));
        }
        // The next number in turn, so that one just given up is not met again soon.
        for _ in 0..count {
            let cntlid = exported.subsystem.first_cntlid.wrapping_add(exported.next_cntlid);
            exported.next_cntlid = (exported.next_cntlid + 1) % count;
            if !used.contains(&cntlid) {
                return Ok((id, cntlid));
            }
        }
        Err(Wrong::Status(Code::ConnectBusy))
    }

    fn discovery_cntlid(&mut self) -> Result<u16, Wrong> {
        let of_it = self.sessions.iter().filter(|(_, session)| session.subsystem.is_none());
        let used: Vec<u16> = of_it.map(|(_, session)| session.cntlid).collect();
        if used.len() >= limits::CONTROLLERS {
            return Err(Wrong::Status(Code::ConnectBusy));
        }
        loop {
            self.next_discovery_cntlid = self.next_discovery_cntlid % 0xffef + 1;
            if !used.contains(&self.next_discovery_cntlid) {
                return Ok(self.next_discovery_cntlid);
            }
        }
    }

    fn connect_io(&mut self, conn: ConnId, ask: &Ask) -> Result<(Role, u16), Wrong> {
        let nqn_of = |id: SubsystemId| {
            self.subsystems.get(id.0).map(|exported| exported.subsystem.nqn.as_str())
        };
        if self.subsystems.iter().all(|(_, exported)| exported.subsystem.nqn != ask.subnqn) {
            return Err(Wrong::Data(ConnectData::SUBNQN_AT));
        }
        let found = self.sessions.iter().find(|(_, session)| {
            session.cntlid == ask.cntlid
                && session.state == State::Live
                && session.subsystem.and_then(nqn_of) == Some(ask.subnqn.as_str())
        });
        let (key, _) = found.ok_or(Wrong::Data(ConnectData::CNTLID_AT))?;
        let session = self.sessions.get_mut(key).ok_or(Wrong::Status(Code::InternalError))?;
        if session.host_id != ask.host_id {
            return Err(Wrong::Data(ConnectData::HOST_ID_AT));
        }
        if session.host_nqn != ask.host_nqn {
            return Err(Wrong::Data(ConnectData::HOSTNQN_AT));
        }
        if !session.is_enabled() || session.queues.contains_key(&ask.qid) {
            return Err(Wrong::Status(Code::CommandSequence));
        }
        if ask.qid > limits::IO_QUEUES {
            return Err(Wrong::Command(connect_at::QID));
        }
        session.conns.push(conn);
        session.queues.insert(ask.qid, conn);
        session.heard = self.now;
        Ok((Role::Io(SessionId(key)), ask.cntlid))
    }
}

impl Ask {
    fn parse(sqe: &Sqe, data: &[u8]) -> Result<Self, Wrong> {
        let [format_low, format_high, qid_low, qid_high] = sqe.word(10).to_le_bytes();
        let [size_low, size_high, attributes, _] = sqe.word(11).to_le_bytes();
        if (format_low, format_high) != (0, 0) {
            return Err(Wrong::Status(Code::ConnectFormat));
        }
        let (data, _) = ConnectData::ref_from_prefix(data)
            .map_err(|_| Wrong::Status(Code::SglLengthInvalid))?;
        let sqsize = u16::from_le_bytes([size_low, size_high]);
        if sqsize == 0 || sqsize >= limits::QUEUE_ENTRIES {
            return Err(Wrong::Command(connect_at::SQSIZE));
        }
        Ok(Self {
            qid: u16::from_le_bytes([qid_low, qid_high]),
            sqsize,
            has_flow_control: attributes & NO_FLOW_CONTROL == 0,
            keep_alive: Duration::from_millis(sqe.word(12).into()),
            host_id: data.host_id,
            cntlid: data.cntlid.get(),
            host_nqn: name_of(&data.hostnqn).ok_or(Wrong::Data(ConnectData::HOSTNQN_AT))?,
            subnqn: name_of(&data.subnqn).ok_or(Wrong::Data(ConnectData::SUBNQN_AT))?,
        })
    }
}
