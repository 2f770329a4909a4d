//! The engine port: what a controller may ask of the process that runs a node's storage.
//!
//! A config says everything and leaves nothing to choose; the inventory is the truth of the
//! machine; changes are a hint, so that nothing waits for a polling period.

use core::future::Future;

use model::{EngineError, Inventory, NodeConfig, Revision};

pub trait Engine: Send + Sync {
    /// Takes a config, in the order pools, replicas, targets, and answers its generation. Taking
    /// the same one again changes nothing. What takes long (import, rebuild) goes on after it.
    fn apply(
        &self,
        config: &NodeConfig,
    ) -> impl Future<Output = Result<Revision, EngineError>> + Send;

    fn inventory(&self) -> impl Future<Output = Result<Inventory, EngineError>> + Send;

    /// Returns once something may differ from the inventory of this sequence number.
    fn changes(&self, since: u64) -> impl Future<Output = Result<(), EngineError>> + Send;
}
