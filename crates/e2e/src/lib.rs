//! Whole data planes of real engines on real files, with the membership record in a real store; and
//! whole clusters (`bed`), with applications on them that verify; and the processes of a cluster
//! inside of a test's own (`in_process`).
//!
//! A small stand-in for the controller (`brain`) hands out configs and raises epochs; everything
//! else is what users run. It decides as little as it can: where the target is.
#![forbid(unsafe_code)]

pub mod application;
pub mod asking;
pub mod bed;
pub mod binary;
pub mod brain;
pub mod in_process;
pub mod plan;
pub mod work;
