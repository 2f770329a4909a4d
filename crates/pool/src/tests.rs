//! What a pool promises, shown on a disk that forgets.

mod basics;
mod crashes;
mod flaws;
mod model;
mod random;
mod world;
