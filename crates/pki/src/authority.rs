//! The authority: it is made once, and signs who belongs to the cluster.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::{
    Certificate, Files, Peer, PkiError, Role,
    folder::{self, AUTHORITY_KEY, Readers},
    limits,
};

/// Clocks of machines differ; a new certificate is good on one that is an hour behind.
const SKEW: Duration = Duration::HOUR;

/// A folder with a certificate that is believed and the key that signs.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    pub certificate: Certificate,
    key: KeyPair,
}

/// What a certificate shall say.
#[derive(Clone, Debug)]
pub struct Order {
    pub peer: Peer,
    /// Where others dial it: names and IP addresses.
    pub addresses: Vec<String>,
    pub days: u32,
    /// Replace one that is still good, or says something else.
    pub renew: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Made,
    /// It was there, says the same, and has time left.
    Kept,
}

impl Authority {
    /// Makes one, or finds the one that is there.
    pub fn init(folder: &Path, days: u32) -> Result<(Self, Outcome), PkiError> {
        let (cert, key) = paths(folder);
        let half = |what| PkiError::Half { path: folder.to_owned(), what };
        match (cert.exists(), key.exists()) {
            (true, true) => return Ok((Self::open(folder)?, Outcome::Kept)),
            (true, false) => return Err(half("ca.crt")),
            (false, true) => return Err(half(AUTHORITY_KEY)),
            (false, false) => {}
        }
        let signing = KeyPair::generate()?;
        let mut params = params(&name_of(&signing), days)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let made = params.self_signed(&signing)?;
        folder::make(folder)?;
        folder::write(&key, &signing.serialize_pem(), Readers::Owner)?;
        folder::write(&cert, &made.pem(), Readers::All)?;
        Ok((Self::open(folder)?, Outcome::Made))
    }

    pub fn open(folder: &Path) -> Result<Self, PkiError> {
        let (cert, key) = paths(folder);
        if !cert.exists() || !key.exists() {
            return Err(PkiError::NoAuthority { path: folder.to_owned() });
        }
        let certificate = Certificate::read(&cert)?;
        let pem = folder::secret(&key)?;
        let empty = || PkiError::Empty { path: key.clone(), what: "key" };
        let pem = String::from_utf8(pem).map_err(|_| empty())?;
        let key = KeyPair::from_pem(&pem).map_err(|_| empty())?;
        Ok(Self { folder: folder.to_owned(), certificate, key })
    }

    /// Where a certificate goes, if nothing else is said.
    pub fn place(&self, peer: &Peer) -> PathBuf {
        self.folder.join(format!("{}-{}", peer.role, peer.name))
    }

    /// Puts a certificate, its key and the authority's certificate into a folder that can be
    /// carried to its machine as it is.
    pub fn issue(&self, order: &Order, to: &Path) -> Result<(Certificate, Outcome), PkiError> {
        let names = names(order)?;
        let files = Files::in_folder(to);
        if let Some(kept) = self.kept(order, &files)? {
            return Ok((kept, Outcome::Kept));
        }
        let key = KeyPair::generate()?;
        let mut params = params(&order.peer.to_string(), order.days)?;
        params.subject_alt_names = names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        if order.peer.role.is_dialled() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let made = params.signed_by(&key, &self.issuer()?)?;
        folder::make(to)?;
        folder::write(&files.ca, &self.pem()?, Readers::All)?;
        folder::write(&files.key, &key.serialize_pem(), Readers::Owner)?;
        folder::write(&files.cert, &made.pem(), Readers::All)?;
        Ok((Certificate::read(&files.cert)?, Outcome::Made))
    }

    /// What is there, if it will do; an error if it is something else.
    fn kept(&self, order: &Order, files: &Files) -> Result<Option<Certificate>, PkiError> {
        if order.renew || !files.cert.exists() {
            return Ok(None);
        }
        let found = Certificate::read(&files.cert)?;
        let mut wanted: Vec<String> = order.addresses.iter().map(|text| plain(text)).collect();
        let mut has = found.addresses.clone();
        wanted.sort();
        has.sort();
        let is_same = found.peer.as_ref() == Some(&order.peer)
            && wanted == has
            && found.issuer == self.certificate.subject;
        if !is_same {
            let path = files.cert.clone();
            let whom = found.peer.map_or(found.subject, |peer| peer.to_string());
            let found = format!("of {whom} for {:?} by {}", found.addresses, found.issuer);
            return Err(PkiError::Other { path, found });
        }
        let is_whole = files.key.exists() && files.ca.exists();
        Ok((is_whole && !found.is_old()).then_some(found))
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, PkiError> {
        let mut params = CertificateParams::new([])?;
        params.distinguished_name = named(&self.certificate.subject);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // A copy, because a key cannot be lent to an issuer that outlives the call.
        Ok(Issuer::new(params, KeyPair::from_pem(&self.key.serialize_pem())?))
    }

    fn pem(&self) -> Result<String, PkiError> {
        let (cert, _) = paths(&self.folder);
        let unreadable = || PkiError::Unreadable { path: cert.clone() };
        String::from_utf8(folder::read(&cert)?).map_err(|_| unreadable())
    }
}

fn paths(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("ca.crt"), folder.join(AUTHORITY_KEY))
}

/// Different for each authority, so that people can tell them apart.
fn name_of(key: &KeyPair) -> String {
    let bytes = key.public_key_raw().get(1..5).and_then(|bytes| bytes.try_into().ok());
    format!("Holdfast authority {:08x}", u32::from_be_bytes(bytes.unwrap_or_default()))
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn params(name: &str, days: u32) -> Result<CertificateParams, PkiError> {
    if !(1..=limits::DAYS_MAX).contains(&days) {
        return Err(PkiError::Days { days });
    }
    let mut params = CertificateParams::new([])?;
    let now = OffsetDateTime::now_utc();
    params.not_before = now - SKEW;
    params.not_after = now + Duration::days(days.into());
    params.distinguished_name = named(name);
    Ok(params)
}

/// An address as certificates write it.
fn plain(text: &str) -> String {
    text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |address| address.to_string())
}

fn names(order: &Order) -> Result<Vec<SanType>, PkiError> {
    let role = order.peer.role;
    if role.is_dialled() && order.addresses.is_empty() && role != Role::Etcd {
        return Err(PkiError::NoAddress { role });
    }
    let refused = |text: &str| PkiError::Address { text: text.to_owned() };
    let mut names = vec![SanType::URI(order.peer.uri().try_into()?)];
    for text in &order.addresses {
        names.push(match text.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) if is_dns(text) => {
                SanType::DnsName(text.as_str().try_into().map_err(|_| refused(text))?)
            }
            Err(_) => return Err(refused(text)),
        });
    }
    Ok(names)
}

fn is_dns(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    !text.is_empty() && text.len() < 254 && text.chars().all(plain) && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests;
