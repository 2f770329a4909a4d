//! Where etcd is and how it is spoken to.

use core::{fmt, time::Duration};

use ports::StoreError;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// How to reach a cluster. `Config::new` has the usual values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `http://host:port` or `https://host:port`, one for each member.
    pub endpoints: Vec<String>,
    /// Stands before every key, so that one etcd can serve several clusters:
    /// `/holdfast/<cluster>/`.
    pub namespace: String,
    /// Needed for `https` endpoints.
    pub tls: Option<Tls>,
    pub credentials: Option<Credentials>,
    pub connect_timeout: Duration,
    /// For a whole request, over all endpoints that are tried for it.
    pub request_timeout: Duration,
}

/// PEM texts.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The authority that signed etcd's certificates.
    pub ca: String,
    /// Our own certificate and key, where etcd asks for one.
    pub identity: Option<(String, String)>,
    /// The name in etcd's certificates, where it is not the host of the endpoint.
    pub domain: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

impl Config {
    /// A leader lease lasts 3 s and is renewed every second: a request that takes longer than 2 s
    /// must be given up in time to renew at another member.
    pub fn new(endpoints: Vec<String>, namespace: String) -> Self {
        Self {
            endpoints,
            namespace,
            tls: None,
            credentials: None,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
        }
    }

    /// One channel for each endpoint. They connect when they are used.
    pub(super) fn channels(&self) -> Result<Vec<Channel>, StoreError> {
        if self.endpoints.is_empty() {
            return Err(invalid("etcd needs at least one endpoint"));
        }
        if !self.namespace.ends_with('/') {
            return Err(invalid("the namespace in etcd must end with a slash"));
        }
        self.endpoints.iter().map(|endpoint| self.channel(endpoint)).collect()
    }

    fn channel(&self, address: &str) -> Result<Channel, StoreError> {
        let wrong = |error: tonic::transport::Error| {
            invalid(&format!("the etcd endpoint {address} is not usable: {error}"))
        };
        let mut endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(wrong)?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true);
        match (&self.tls, address.starts_with("https://")) {
            (Some(tls), true) => endpoint = endpoint.tls_config(tls.client()).map_err(wrong)?,
            (None, true) => {
                return Err(invalid(&format!("the etcd endpoint {address} needs TLS settings")));
            }
            (_, false) => {}
        }
        Ok(endpoint.connect_lazy())
    }
}

impl Tls {
    fn client(&self) -> ClientTlsConfig {
        let mut client = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        if let Some((certificate, key)) = &self.identity {
            client = client.identity(Identity::from_pem(certificate, key));
        }
        if let Some(domain) = &self.domain {
            client = client.domain_name(domain);
        }
        client
    }
}

/// Keys and passwords never reach a log.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

fn invalid(reason: &str) -> StoreError {
    StoreError::Invalid { reason: reason.to_owned() }
}
