//! The nouns of Holdfast.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod ids;

pub use ids::*;
