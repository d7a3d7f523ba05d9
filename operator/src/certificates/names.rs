//! The names by which a port is reached, and which its certificate contains.

use std::net::IpAddr;
use std::str::FromStr;

use rcgen::SanType;
use rustls::pki_types::{DnsName, ServerName};
use thiserror::Error;
use x509_parser::extensions::GeneralName;

/// A name that no certificate can contain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is neither a DNS name nor an IP address: write such as webhook.example.com or 192.0.2.7")]
pub struct NameError(String);

/// A DNS name or an IP address. DNS names come first in order, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A DNS name, in lower case.
    Dns(String),
    /// An IP address.
    Ip(IpAddr),
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let name = text.to_ascii_lowercase();
        // A trailing dot is valid in DNS, but not in a certificate.
        match DnsName::try_from(name.as_str()) {
            Ok(_) if !name.ends_with('.') => Ok(Self::Dns(name)),
            _ => Err(NameError(text.to_owned())),
        }
    }
}

impl Name {
    /// Returns the names of a Service in `namespace` and the `extra` names, sorted and without duplicates.
    pub(super) fn of_service(service: &str, namespace: &str, extra: &[Self]) -> Vec<Self> {
        let service = format!("{service}.{namespace}.svc");
        let mut names = vec![Self::Dns(format!("{service}.cluster.local")), Self::Dns(service)];
        names.extend_from_slice(extra);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the name in a certificate's form; none if a certificate cannot contain it.
    pub(super) fn to_san(&self) -> Option<SanType> {
        match self {
            Self::Dns(name) => name.clone().try_into().ok().map(SanType::DnsName),
            Self::Ip(address) => Some(SanType::IpAddress(*address)),
        }
    }

    /// Reads a name in a certificate's form; none for other kinds of names.
    pub(super) fn from_san(san: &GeneralName<'_>) -> Option<Self> {
        match san {
            GeneralName::DNSName(name) => Some(Self::Dns(name.to_ascii_lowercase())),
            GeneralName::IPAddress(octets) => {
                let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
                v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from))
                    .ok()
                    .map(Self::Ip)
            }
            _ => None,
        }
    }

    /// Returns the name in the form in which a client asks for it.
    pub(super) fn to_server_name(&self) -> Option<ServerName<'static>> {
        match self {
            Self::Dns(name) => ServerName::try_from(name.clone()).ok(),
            Self::Ip(address) => Some(ServerName::from(*address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_names_and_addresses() {
        for (text, name) in [
            ("webhook.example.com", Name::Dns("webhook.example.com".to_owned())),
            (" Webhook.Example.COM ", Name::Dns("webhook.example.com".to_owned())),
            ("127.0.0.1", Name::Ip([127, 0, 0, 1].into())),
            ("::1", Name::Ip("::1".parse().unwrap())),
        ] {
            assert_eq!(text.parse(), Ok(name), "{text}");
        }
        for text in [
            "",
            " ",
            "a b",
            "https://x",
            "x:443",
            "ä.example",
            "127.0.0.1/8",
            "-",
            "..",
            "a.",
            "*.a",
            "a,b",
        ] {
            let error = text.parse::<Name>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{:?}", text.trim())), "{error}");
        }
    }

    #[test]
    fn the_service_comes_with_the_extra_names() {
        let extra = ["127.0.0.1", "webhook.cardgate-system.svc", "a.example"].map(|text| text.parse().unwrap());
        let names = Name::of_service("webhook", "cardgate-system", &extra);
        let expected = [
            "a.example",
            "webhook.cardgate-system.svc",
            "webhook.cardgate-system.svc.cluster.local",
            "127.0.0.1",
        ];
        assert_eq!(names, expected.map(|text| text.parse().unwrap()));
    }
}
