//! What `build.rs` generates from `proto/etcd.proto`.
#![allow(clippy::all, clippy::pedantic, unreachable_pub, missing_debug_implementations)]

tonic::include_proto!("etcdserverpb");
