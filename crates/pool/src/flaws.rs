//! Rules left out on purpose, to show that the checks notice.

/// A rule that a broken pool does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A flush is answered when the data is durable, whatever its mappings are.
    FlushSkipsJournal,
    /// A freed cluster is used again before it is durable that it was freed.
    ReuseTooEarly,
    /// A page of the table counts without its checksum.
    TornPageTrusted,
    /// A mapping counts before its data is durable.
    MapBeforeData,
}

impl Flaw {
    pub const ALL: &[Self] =
        &[Self::FlushSkipsJournal, Self::ReuseTooEarly, Self::TornPageTrusted, Self::MapBeforeData];
}

/// None, but in tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    #[cfg(any(test, feature = "simulate"))]
    flaw: Option<Flaw>,
}

impl Flaws {
    #[cfg(any(test, feature = "simulate"))]
    pub const fn with(flaw: Flaw) -> Self {
        Self { flaw: Some(flaw) }
    }

    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn has(self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    #[cfg(not(any(test, feature = "simulate")))]
    #[expect(clippy::unused_self, reason = "the same call with and without flaws")]
    pub(crate) const fn has(self, _: Flaw) -> bool {
        false
    }
}
