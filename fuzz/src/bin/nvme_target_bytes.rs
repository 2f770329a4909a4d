//! Any bytes to a target: on a new connection, or on a queue of a controller that is enabled.
#![no_main]

use std::time::Duration;

use fuzz::{cut::Input, pair};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let choice = input.byte();
    let now = Duration::ZERO;
    let mut port;
    let conn;
    match choice & 3 {
        0 => {
            port = pair::port(pair::kind(choice >> 2));
            conn = port.accept(now).expect("there is room");
        }
        queue => {
            let pair = pair::pair(pair::kind(choice >> 2), pair::digests(choice >> 3));
            port = pair.port;
            conn = pair.conns[&u16::from(queue & 1)];
        }
    }
    let step = usize::from(input.byte()) + 1;
    while !input.is_empty() {
        port.receive(now, conn, input.bytes(step));
        pair::drain(&mut port);
    }
    port.closed(conn);
    port.tick(Duration::from_secs(60));
    pair::drain(&mut port);
    assert_eq!(port.sessions().count(), 0, "whatever was said, it ends");
});
