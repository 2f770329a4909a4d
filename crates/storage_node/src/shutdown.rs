//! On the way out: targets let their hosts go, flush and have it written down; then pools are left
//! clean.

use core::time::Duration;

use pool::Request;

use crate::{Effect, config::ConfigWork, shard::Shard};

/// Targets have this long to flush and to have it written down that they ended cleanly. The store
/// may be away: then the next target finds out what differs.
const TARGETS_END_WITHIN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shutdown {
    #[default]
    No,
    Targets {
        until: Duration,
    },
    Pools,
    Over,
}

impl Shutdown {
    pub(crate) fn begin(shard: &mut Shard) -> Self {
        let until = shard.cx.now + TARGETS_END_WITHIN;
        shard.cx.is_stopping = true;
        shard.targets.stop_all(&mut shard.cx);
        shard.cx.wake_by(until);
        Self::Targets { until }
    }

    /// Goes on to the pools when every target has ended, or has had its time.
    pub(crate) fn advance(self, shard: &mut Shard) -> Self {
        match self {
            Self::Targets { until } if shard.targets.are_over() || shard.cx.now >= until => {
                export_pools(shard);
                Self::Pools.advance(shard)
            }
            Self::Targets { until } => {
                shard.cx.wake_by(until);
                self
            }
            Self::Pools if shard.config.exports_left == Some(0) => {
                shard.cx.put(Effect::Stopped);
                Self::Over
            }
            other => other,
        }
    }
}

fn export_pools(shard: &mut Shard) {
    let Shard { cx, storage, targets, config, .. } = shard;
    targets.remove_all(cx);
    storage.release_all(cx);
    let open = storage.pools.keys().filter(|pool| storage.open_pool(**pool).is_some());
    let open: alloc::vec::Vec<_> = open.copied().collect();
    config.exports_left = Some(open.len());
    for pool in open {
        config.begin(cx, storage, pool, ConfigWork::Export(pool), Request::Export);
    }
}
