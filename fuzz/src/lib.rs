//! What the fuzz targets share: where their input is cut, and a target and an initiator that have
//! come as far as they can come without it.

pub mod cut;
pub mod pair;
