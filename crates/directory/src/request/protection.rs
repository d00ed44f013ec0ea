//! What protects a connection, as the transport found it out.

use std::fmt;

/// TLS of one connection.
#[derive(Clone, Default)]
pub struct Tls {
    /// Bits of the key that encrypts; the security strength factor of access rules.
    pub strength_bits: u32,
    /// Who the client is, when it showed a certificate that was verified.
    pub client: Option<ClientCertificate>,
    /// What only the two ends of this connection know.
    pub bindings: ChannelBindings,
}

/// A client certificate whose chain, dates and revocation were checked.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The subject as a DN (RFC 4514).
    pub subject: String,
    /// The certificate itself (DER).
    pub der: Vec<u8>,
}

/// Values that tie an authentication to the connection it happens on (RFC 5056).
#[derive(Clone, Default)]
pub struct ChannelBindings {
    /// `tls-exporter` (RFC 9266); none before TLS 1.3.
    pub exporter: Option<Vec<u8>>,
    /// `tls-server-end-point` (RFC 5929 §4); none when the certificate's signature has no digest.
    pub server_end_point: Option<Vec<u8>>,
}

impl ChannelBindings {
    /// The value of the type of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&[u8]> {
        match name {
            "tls-exporter" => self.exporter.as_deref(),
            "tls-server-end-point" => self.server_end_point.as_deref(),
            _ => None,
        }
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        self.exporter.is_some() || self.server_end_point.is_some()
    }
}

// The exporter's value is a secret of the connection.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = self.client.as_ref().map(|client| &client.subject);
        f.debug_struct("Tls")
            .field("strength_bits", &self.strength_bits)
            .field("client", &client)
            .finish_non_exhaustive()
    }
}
