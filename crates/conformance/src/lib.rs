//! One suite per port, run on the real part and on its fake.
//!
//! A fake that passes the same suite as the real thing is what makes a simulation prove something.
//! The suites are functions, so that whoever has another implementor can run them too; the tests of
//! this crate run them on ours.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this crate is test: a panic is a failed check, and a report is printed"
)]

pub mod engine;
pub mod etcd;
pub mod store;
