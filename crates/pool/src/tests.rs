//! What a pool promises, shown on a disk that forgets.

mod basics;
mod bytes;
mod crashes;
mod damage;
mod flaws;
mod model;
mod random;
mod world;
