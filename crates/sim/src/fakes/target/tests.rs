//! Claims about single targets are made in `cluster::tests`, where copies, store and hosts answer.
