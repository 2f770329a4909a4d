//! What a pool promises, shown on a disk that forgets.

extern crate std;

mod basics;
mod world;
