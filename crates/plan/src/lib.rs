//! What to do next: pure rules from the world to steps and waits.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod request;

pub use request::{Refusal, Request};
