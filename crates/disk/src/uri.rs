//! Where a volume is: `nvme-tcp://HOST:PORT[,HOST:PORT…]/NQN`.

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    str::FromStr,
};

/// A subsystem and every address where a target may serve it: one serves, the others are where its
/// successors will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    pub addresses: Vec<SocketAddr>,
    pub nqn: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    #[error("{0:?} is not of the form nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN")]
    Form(String),
    #[error("the address {address:?} cannot be resolved: {reason}")]
    Address { address: String, reason: String },
}

const SCHEME: &str = "nvme-tcp://";

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let form = || UriError::Form(text.into());
        let rest = text.strip_prefix(SCHEME).ok_or_else(form)?;
        let (hosts, nqn) = rest.split_once('/').ok_or_else(form)?;
        if !nqn.starts_with("nqn.") || nqn.len() > 223 {
            return Err(form());
        }
        let mut addresses = Vec::new();
        for host in hosts.split(',') {
            let failed = |reason: String| UriError::Address { address: host.into(), reason };
            let mut found = host.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
            addresses.push(found.next().ok_or_else(|| failed("no address".into()))?);
        }
        Ok(Self { addresses, nqn: nqn.into() })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "{SCHEME}{}/{}", hosts.join(","), self.nqn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_may_have_several_addresses() {
        let text = "nvme-tcp://127.0.0.1:4420,127.0.0.1:4421/nqn.2014-08.org.nvmexpress:uuid:1";
        let uri: Uri = text.parse().unwrap();
        assert_eq!((uri.addresses.len(), uri.to_string().as_str()), (2, text));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in ["", "nvme-tcp://", "nvme-tcp://127.0.0.1:4420", "tcp://127.0.0.1:1/nqn.x"] {
            assert_eq!(text.parse::<Uri>(), Err(UriError::Form(text.into())));
        }
        let error = "nvme-tcp://127.0.0.1/nqn.x".parse::<Uri>().unwrap_err();
        assert!(matches!(error, UriError::Address { .. }), "{error}");
    }
}
