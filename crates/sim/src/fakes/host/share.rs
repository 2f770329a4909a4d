//! The server of a share, as a row of stages that each take a moment.

use model::{HostId, Millis, ShareSeen, ShareStage, Time, VolumeId};

use super::Host;
use crate::{Ctx, names};

#[derive(Debug)]
pub(super) struct Share {
    epoch: u32,
    stage: ShareStage,
    since: Time,
}

const STAGE_TAKES: Millis = Millis(300);
const GRACE_TAKES: Millis = Millis(1_500);

impl Share {
    pub(super) fn is_mounted(&self) -> bool {
        (ShareStage::Mounting..=ShareStage::Serving).contains(&self.stage)
    }

    pub(super) fn seen(&self, host: HostId) -> ShareSeen {
        let reachable = matches!(self.stage, ShareStage::Grace | ShareStage::Serving);
        ShareSeen {
            epoch: self.epoch,
            stage: self.stage,
            endpoint: reachable.then(|| format!("{}:2049", names::label(host.0))),
            failed: None,
        }
    }
}

impl Host {
    /// Goes on to the next stage when the one before it is over.
    pub(super) fn follow_share(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        let Some(attachment) = self.attached.get_mut(&volume) else { return };
        let live = attachment.has_live_path();
        let Some(item) = attachment.part.share else {
            if attachment.share.take().is_some() {
                ctx.out.changed = true;
            }
            return;
        };
        let since = ctx.now;
        let Some(share) = attachment.share.as_mut().filter(|share| share.epoch == item.epoch)
        else {
            let stage = ShareStage::Attaching;
            attachment.share = item.serve.then_some(Share { epoch: item.epoch, stage, since });
            ctx.out.changed = true;
            return;
        };
        let waited = ctx.now.since(share.since);
        let next = match share.stage {
            ShareStage::Stopping if waited > STAGE_TAKES => {
                attachment.share = None;
                ctx.out.changed = true;
                return;
            }
            ShareStage::Stopping => return,
            _ if !item.serve => ShareStage::Stopping,
            ShareStage::Attaching if live => ShareStage::Mounting,
            ShareStage::Mounting if waited > STAGE_TAKES && live => ShareStage::Starting,
            ShareStage::Starting if waited > STAGE_TAKES => ShareStage::Grace,
            ShareStage::Grace if waited > GRACE_TAKES => ShareStage::Serving,
            _ => return,
        };
        (share.stage, share.since) = (next, since);
        ctx.out.changed = true;
    }
}
