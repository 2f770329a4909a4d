//! The way to a controller, tried again for as long as a process lives.

use std::{io, time::Duration};

use pki::{Keyring, Stream};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::FrameError;

const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Where a controller is, and how to know it.
#[derive(Clone, Debug)]
pub struct Controller {
    pub address: String,
    pub keyring: Option<Keyring>,
}

impl Controller {
    pub async fn dial(&self) -> Result<Stream, FrameError> {
        let dialled = timeout(DIAL_TIMEOUT, pki::dial(&self.address, self.keyring.as_ref())).await;
        Ok(dialled.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??)
    }
}

/// When a stream that ended is dialled again, and what people are told of it: each thing once.
#[derive(Debug)]
pub struct Redial {
    /// A controller that refuses or is silent is tried again after this; doubled up to the maximum.
    min: Duration,
    max: Duration,
    pause: Duration,
    is_told: bool,
    is_missed: bool,
}

impl Redial {
    pub const fn between(min: Duration, max: Duration) -> Self {
        Self { min, max, pause: min, is_told: false, is_missed: false }
    }

    /// How long to wait after a stream that lasted so long, whether or not it ever stood.
    pub fn ended(
        &mut self,
        controller: &str,
        end: Result<(), FrameError>,
        lasted: Duration,
        was_up: bool,
    ) -> Duration {
        match end {
            Ok(()) => debug!(%controller, "the controller closed the stream"),
            Err(error) if error.is_lasting() && !self.is_told => {
                self.is_told = true;
                warn!(%controller, %error, "this process cannot work with the controller");
            }
            Err(error) if !error.is_lasting() && !self.is_missed => {
                self.is_missed = true;
                warn!(%controller, %error, "no controller: it is tried until one answers");
            }
            Err(error) => debug!(%controller, %error, "the stream to the controller failed"),
        }
        if lasted > self.max {
            self.pause = self.min;
            self.is_told = false;
            self.is_missed &= !was_up;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(self.max);
        pause
    }
}
