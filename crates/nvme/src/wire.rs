//! What lies on the wire, byte for byte. Shapes only: what they mean is decided elsewhere.

pub mod command;
pub mod fabrics;
pub mod identify;
pub mod log;
pub mod pdu;
pub mod reservation;
