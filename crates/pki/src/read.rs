//! A certificate as people see it: for whom, for which addresses, until when.

use std::{net::IpAddr, path::Path};

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use time::OffsetDateTime;

use crate::{
    Peer, PkiError,
    der::{self, Elements, INTEGER, OBJECT, OCTETS, SEQUENCE, SET},
    folder,
};

/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name.
    pub subject: String,
    pub issuer: String,
    /// The process that it speaks for; `None` for an authority or a stranger's.
    pub peer: Option<Peer>,
    /// Names and IP addresses, in order.
    pub addresses: Vec<String>,
    pub not_before: OffsetDateTime,
    pub not_after: OffsetDateTime,
}

impl Certificate {
    /// The first one of a PEM file.
    pub fn read(path: &Path) -> Result<Self, PkiError> {
        let der = folder::certificates(path)?;
        let unreadable = || PkiError::Unreadable { path: path.to_owned() };
        der.first().and_then(Self::parse).ok_or_else(unreadable)
    }

    pub fn from_pem(text: &str) -> Option<Self> {
        Self::parse(&CertificateDer::from_pem_slice(text.as_bytes()).ok()?)
    }

    pub(crate) fn parse(der: &CertificateDer<'_>) -> Option<Self> {
        let mut body = Elements(der.as_ref()).enter(SEQUENCE)?.enter(SEQUENCE)?;
        let version_or_serial = body.next()?;
        if version_or_serial.0 != INTEGER {
            body.expect(INTEGER)?;
        }
        body.expect(SEQUENCE)?;
        let issuer = common_name(body.enter(SEQUENCE)?).unwrap_or_default();
        let mut validity = body.enter(SEQUENCE)?;
        let not_before = der::date(validity.next()?)?;
        let not_after = der::date(validity.next()?)?;
        let subject = common_name(body.enter(SEQUENCE)?).unwrap_or_default();
        let mut read =
            Self { subject, issuer, peer: None, addresses: Vec::new(), not_before, not_after };
        for (tag, name) in alternative_names(body).into_iter().flatten() {
            read.take(tag, name);
        }
        Some(read)
    }

    /// One of its names; those of other kinds say nothing to us.
    fn take(&mut self, tag: u8, name: &[u8]) {
        match tag {
            0x82 => self.addresses.extend(std::str::from_utf8(name).map(str::to_owned)),
            0x86 => {
                let peer = std::str::from_utf8(name).ok().and_then(Peer::from_uri);
                self.peer = self.peer.take().or(peer);
            }
            0x87 => {
                let v4 = <[u8; 4]>::try_from(name).map(IpAddr::from);
                let address = v4.or_else(|_| <[u8; 16]>::try_from(name).map(IpAddr::from));
                self.addresses.extend(address.map(|address| address.to_string()));
            }
            _ => {}
        }
    }

    /// Whole days until it ends; negative afterwards.
    pub fn days_left(&self) -> i64 {
        (self.not_after - OffsetDateTime::now_utc()).whole_days()
    }

    /// Less than a third of its time is left.
    pub fn is_old(&self) -> bool {
        let whole = self.not_after - self.not_before;
        self.not_after - OffsetDateTime::now_utc() < whole / 3
    }

    pub fn is_valid(&self) -> bool {
        (self.not_before..self.not_after).contains(&OffsetDateTime::now_utc())
    }
}

fn common_name(names: Elements<'_>) -> Option<String> {
    let sets = names.filter(|(tag, _)| *tag == SET);
    let mut parts = sets.filter_map(|(_, set)| Elements(set).enter(SEQUENCE));
    parts.find_map(|mut part| {
        let is_name = part.expect(OBJECT)? == COMMON_NAME;
        let (_, text) = part.next()?;
        is_name.then(|| String::from_utf8_lossy(text).into_owned())
    })
}

/// The alternative names, which are among the extensions at the end.
fn alternative_names(mut body: Elements<'_>) -> Option<Elements<'_>> {
    let (_, extensions) = body.find(|(tag, _)| *tag == 0xa3)?;
    let mut extensions = Elements(extensions).enter(SEQUENCE)?;
    extensions.find_map(|(_, extension)| {
        let mut extension = Elements(extension);
        if extension.expect(OBJECT)? != ALTERNATIVE_NAMES {
            return None;
        }
        let (_, octets) = extension.find(|(tag, _)| *tag == OCTETS)?;
        Elements(octets).enter(SEQUENCE)
    })
}

#[cfg(test)]
mod tests;
