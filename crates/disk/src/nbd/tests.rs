//! A client's bytes, cut anywhere, and what the server makes of them.

use block::Durability::Durable;

use super::*;

fn go() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(0x4948_4156_454f_5054_u64.to_be_bytes());
    bytes.extend(7_u32.to_be_bytes());
    bytes.extend(8_u32.to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend([0, 1, 0, 3]);
    bytes
}

fn request(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// A conversation: a write, a read, a trim, zeroes that must stay, a flush, goodbye.
fn conversation() -> Vec<u8> {
    let mut bytes = go();
    bytes.extend(request(1, 1, 10, 4096, 8192));
    bytes.extend((0..8192_u32).map(|byte| u8::try_from(byte % 251).unwrap()));
    bytes.extend(request(0, 0, 11, 0, 4096));
    bytes.extend(request(4, 0, 12, 0, 4096));
    bytes.extend(request(6, 2, 13, 0, 4096));
    bytes.extend(request(3, 0, 14, 0, 0));
    bytes.extend(request(2, 0, 15, 0, 0));
    bytes
}

#[test]
fn a_conversation_is_understood_however_it_is_cut() {
    let whole = conversation();
    let mut expected = Vec::new();
    let mut server = Nbd::new(100);
    server.receive(&whole, &mut expected).unwrap();
    assert!(server.is_ended());
    assert_eq!(
        expected.iter().map(|request| request.cookie).collect::<Vec<_>>(),
        [10, 11, 12, 13, 14]
    );
    let Op::Write { span, data, durability: Durable } = &expected[0].op else {
        panic!("{expected:?}")
    };
    assert_eq!((*span, data.bytes()[300]), (Span { offset: 4096, len: 8192 }, 49));
    for size in [1, 2, 3, 7, 27, 28, 29, 4096] {
        let mut server = Nbd::new(100);
        let mut requests = Vec::new();
        for piece in whole.chunks(size) {
            server.receive(piece, &mut requests).unwrap();
        }
        assert_eq!(requests, expected, "cut every {size} bytes");
    }
}

#[test]
fn what_is_empty_or_past_the_end_is_refused_and_the_stream_goes_on() {
    let mut bytes = go();
    bytes.extend(request(1, 0, 1, 100 * 4096 - 511, 512));
    bytes.extend([7; 512]);
    bytes.extend(request(0, 0, 2, 99 * 4096, 8192));
    bytes.extend(request(0, 0, 3, u64::MAX - 4095, 4096));
    bytes.extend(request(9, 0, 4, 0, 4096));
    bytes.extend(request(0, 0, 5, 99 * 4096 + 7, 11));
    let mut server = Nbd::new(100);
    let mut requests = Vec::new();
    server.receive(&bytes, &mut requests).unwrap();
    let span = Span { offset: 99 * 4096 + 7, len: 11 };
    assert_eq!(requests, [Request { cookie: 5, op: Op::Read { span } }]);
    let replies = &server.outgoing[server.outgoing.len() - 64..];
    let error = |at: usize| u32::from_be_bytes(replies[at + 4..at + 8].try_into().unwrap());
    assert_eq!([error(0), error(16), error(32), error(48)], [22, 22, 22, 95]);
}

#[test]
fn nonsense_is_an_error_and_takes_no_memory() {
    let mut server = Nbd::new(100);
    assert_eq!(server.receive(&[9; 64], &mut Vec::new()), Err(NbdError::NotNbd));
    let mut server = Nbd::new(100);
    let mut bytes = go();
    bytes.extend(request(1, 0, 1, 0, u32::MAX));
    let error = server.receive(&bytes, &mut Vec::new());
    assert_eq!(error, Err(NbdError::RequestTooLarge { size: u32::MAX }));
}

#[test]
fn a_write_of_a_few_bytes_lies_in_whole_blocks() {
    let mut bytes = go();
    bytes.extend(request(1, 0, 1, 4094, 4));
    bytes.extend([1, 2, 3, 4]);
    let mut requests = Vec::new();
    Nbd::new(100).receive(&bytes, &mut requests).unwrap();
    let Op::Write { span, data, .. } = &requests[0].op else { panic!("{requests:?}") };
    assert_eq!((span.covering(), data.len()), (block::Extent::new(0, 2), 8192));
    assert_eq!(data.bytes()[4093..4099], [0, 1, 2, 3, 4, 0]);
}
