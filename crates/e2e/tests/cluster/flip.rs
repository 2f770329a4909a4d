//! A wire that flips bits, between engines.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// Passes everything on, and flips a bit of every so many bytes while told to.
#[derive(Clone, Debug)]
pub struct Wire {
    pub address: SocketAddr,
    /// Bytes between two flips; none, if zero.
    every: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
    flipped: Arc<AtomicU64>,
}

impl Wire {
    /// Leads to this address until the runtime ends.
    pub async fn to(end: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let zero = || Arc::new(AtomicU64::new(0));
        let wire = Self { address, every: zero(), passed: zero(), flipped: zero() };
        let ends = wire.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let wire = ends.clone();
                tokio::spawn(async move {
                    if let Ok(far) = TcpStream::connect(end).await {
                        wire.join(near, far).await;
                    }
                });
            }
        });
        wire
    }

    pub fn flip_every(&self, bytes: u64) {
        self.every.store(bytes, Ordering::Relaxed);
    }

    pub fn flipped(&self) -> u64 {
        self.flipped.load(Ordering::Relaxed)
    }

    /// Both ways, until one of them ends.
    async fn join(self, near: TcpStream, far: TcpStream) {
        let (near_in, near_out) = near.into_split();
        let (far_in, far_out) = far.into_split();
        tokio::select! {
            () = self.pass(near_in, far_out) => {}
            () = self.pass(far_in, near_out) => {}
        }
    }

    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut bytes).await {
            self.disturb(&mut bytes[..len]);
            if to.write_all(&bytes[..len]).await.is_err() {
                return;
            }
        }
    }

    fn disturb(&self, bytes: &mut [u8]) {
        let (len, every) = (bytes.len() as u64, self.every.load(Ordering::Relaxed));
        let passed = self.passed.fetch_add(len, Ordering::Relaxed);
        if every == 0 || passed / every == (passed + len) / every {
            return;
        }
        let flips = self.flipped.fetch_add(1, Ordering::Relaxed);
        let at = (every - passed % every).min(len) - 1;
        bytes[usize::try_from(at).unwrap()] ^= 1 << (flips % 8);
    }
}
