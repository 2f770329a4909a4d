//! Who made a commit: the store does not know, the simulator does.

use model::{InstanceId, Revision};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// A controller that leads, or thinks so: a planner's step or a user's request, guarded by the
    /// leader key that it created at this revision.
    Leader { created: Revision },
    /// The engine process that owns a target's membership record, whether it wrote by itself or
    /// through the controller's membership service.
    Engine { instance: InstanceId },
    /// `recover`, or a load of records whose history nobody watched.
    Recovery,
    /// Founding, standing for election, a lease that ended.
    Other,
}
