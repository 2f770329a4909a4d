//! Rules that a proof leaves out, one at a time, to show that something notices.
//!
//! In the product the question is answered "no" at compile time.

/// The rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flaw {
    /// A new session of the same epoch is let in while commands of the older one are under way.
    SameEpochUndrained,
    /// A replica takes commands of any epoch.
    EpochUnchecked,
    /// A claim does not flush the replicas that it fenced.
    ClaimUnflushed,
    /// A successor starts with nothing unflushed and nothing lacked by those it excludes.
    InheritsNothing,
    /// Any fenced replica becomes the source of a recovery.
    SourceNotIntact,
    /// A recovery ends without a flush of what was copied.
    RecoveryUnflushed,
    /// While replicas may differ from the source they are read like it.
    SyncingIsRead,
    /// Reads complete without a lease.
    ReadUnleased,
    /// The lock goes with the acknowledgement, not with the last child.
    LockEndsWithAck,
    /// Writes go on between the exclusion in the store and on the survivors.
    WritesDuringRoster,
    /// A flush forgets the writes that are under way when it starts.
    FlushForgetsInFlight,
    /// Regions are called clean while they are to be copied or not flushed.
    CleanUnchecked,
    /// A returning peer's own dirty regions are not copied.
    ReturnerTrusted,
    /// Copies set no dirty and no out-of-sync bits.
    CopiesUnmarked,
    /// A copy is admitted though writes acknowledged without it are still on their way to it.
    JoinUndrained,
    /// A copy is admitted without a flush.
    JoinUnflushed,
    /// Acknowledgements do not wait for a copy that is being admitted.
    JoinUnacknowledged,
    /// A copy is admitted before its own roster says so.
    JoinUnrostered,
    /// Writes are acknowledged before the exclusion of who lacks them is recorded.
    AckBeforeExclusion,
    /// A replica that has less than it once had is taken for what it was.
    SetBackAccepted,
    /// The same, if it had what it has in the time of the same target.
    SetBackSameEpochAccepted,
    /// Whoever fences a replica gives it the mark of a flush.
    EvidenceErasedByFence,
    /// The flush of a claim has a mark.
    EvidenceErasedByFlush,
    /// Regions are cleared without telling what has flushed them.
    CleanUnproven,
    /// The source of a recovery is any intact one, however little it has flushed.
    SourceNotNewest,
}

impl Flaw {
    pub const ALL: &[Self] = &[
        Self::SameEpochUndrained,
        Self::EpochUnchecked,
        Self::ClaimUnflushed,
        Self::InheritsNothing,
        Self::SourceNotIntact,
        Self::RecoveryUnflushed,
        Self::SyncingIsRead,
        Self::ReadUnleased,
        Self::LockEndsWithAck,
        Self::WritesDuringRoster,
        Self::FlushForgetsInFlight,
        Self::CleanUnchecked,
        Self::ReturnerTrusted,
        Self::CopiesUnmarked,
        Self::JoinUndrained,
        Self::JoinUnflushed,
        Self::JoinUnacknowledged,
        Self::JoinUnrostered,
        Self::AckBeforeExclusion,
        Self::SetBackAccepted,
        Self::SetBackSameEpochAccepted,
        Self::EvidenceErasedByFence,
        Self::EvidenceErasedByFlush,
        Self::CleanUnproven,
        Self::SourceNotNewest,
    ];
}

/// Carried by each machine; without the feature it is nothing, and every rule holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flawed {
    #[cfg(feature = "flaws")]
    flaw: Option<Flaw>,
}

impl Flawed {
    #[cfg(feature = "flaws")]
    pub(crate) const fn by(flaw: Flaw) -> Self {
        Self { flaw: Some(flaw) }
    }

    #[cfg(feature = "flaws")]
    pub(crate) fn leaves_out(self, rule: Flaw) -> bool {
        self.flaw == Some(rule)
    }

    #[cfg(not(feature = "flaws"))]
    #[allow(clippy::unused_self, reason = "the product has no flaw to look at")]
    pub(crate) const fn leaves_out(self, _rule: Flaw) -> bool {
        false
    }
}
