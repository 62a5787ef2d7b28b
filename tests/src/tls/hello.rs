//! Client configurations, and the ClientHellos that rustls makes of them.

use super::{identity::provider, options::TlsOptions};
use anyhow::{Context as _, Result};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::sync::Arc;

/// Longest name of an application protocol (RFC 7301).
const LONGEST_PROTOCOL: usize = 255;

/// Bytes before the body of a TLS record.
const RECORD_HEADER: usize = 5;

/// Makes the configuration of clients that speak so.
///
/// # Errors
///
/// If options contradict each other.
pub fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>> {
    let versions = if options.tls12 { &[&rustls::version::TLS12][..] } else { &[&rustls::version::TLS13][..] };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.enable_sni = options.sni.is_some();
    config.alpn_protocols = options.alpn.iter().map(|name| name.clone().into_bytes()).collect();
    if options.hello_bytes > 0 {
        if options.alpn.is_empty() {
            // The servers want one that they know among those that are offered.
            config.alpn_protocols.push(b"weir".to_vec());
        }
        config.alpn_protocols.extend(fillers(options.hello_bytes));
    }
    if options.record > 0 {
        config.max_fragment_size = Some(options.record + RECORD_HEADER);
    }
    if !options.resume {
        config.resumption = Resumption::disabled();
    }
    config.enable_early_data = options.early > 0;
    Ok(Arc::new(config))
}

/// Begins a connection.
///
/// # Errors
///
/// If the server name is not one.
pub fn connection(config: &Arc<ClientConfig>, options: &TlsOptions) -> Result<ClientConnection> {
    // Without SNI, the name stays inside: rustls wants one for the certificate.
    let name = options.sni.clone().unwrap_or_else(|| "nobody.example".to_owned());
    let name = ServerName::try_from(name).context("server name")?;
    ClientConnection::new(Arc::clone(config), name).context("a TLS client")
}

/// Makes a ClientHello as it goes over the wire, cut into records as the options say.
///
/// # Errors
///
/// As [`config`] and [`connection`].
pub fn bytes(options: &TlsOptions) -> Result<Vec<u8>> {
    let whole = TlsOptions { record: 0, early: 0, ..options.clone() };
    let mut bytes = Vec::new();
    let mut connection = connection(&config(&whole)?, &whole)?;
    while connection.wants_write() {
        connection.write_tls(&mut bytes)?;
    }
    Ok(if options.record > 0 { cut(&bytes, options.record) } else { bytes })
}

/// Puts the bodies of records into records of at most `size` bytes each.
#[must_use]
pub fn cut(records: &[u8], size: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = records;
    while let [_, _, _, high, low, more @ ..] = rest {
        let (these, next) = more.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(more.len()));
        body.extend_from_slice(these);
        rest = next;
    }
    let head = &records[..records.len().min(3)];
    body.chunks(size).flat_map(|part| [head, &(part.len() as u16).to_be_bytes(), part].concat()).collect()
}

/// Names of protocols with at least so many bytes in all.
fn fillers(bytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let count = bytes.div_ceil(LONGEST_PROTOCOL + 1);
    (0..count).map(|number| format!("{number:0>LONGEST_PROTOCOL$}").into_bytes())
}

/// Takes every certificate: what is tested is who answers, and that tells its name itself.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_names_the_server_if_and_only_if_it_is_told_to() {
        let named = bytes(&TlsOptions::hello("a.shop.example")).expect("a hello");
        let contains = |bytes: &[u8]| bytes.windows(14).any(|part| part == b"a.shop.example");
        assert!(contains(&named));
        let nameless = bytes(&TlsOptions { sni: None, ..TlsOptions::hello("") }).expect("a hello");
        assert!(!contains(&nameless) && nameless.len() < named.len());
    }

    #[test]
    fn a_hello_is_at_least_as_long_as_it_is_told_to_be() {
        for size in [300, 8_193, 20_000] {
            let options = TlsOptions { hello_bytes: size, ..TlsOptions::hello("a.shop.example") };
            let made = bytes(&options).expect("a hello").len();
            assert!((size..size + 1_000).contains(&made), "{size}: {made}");
        }
    }

    #[test]
    fn cut_records_hold_the_same_bytes() {
        let record = [&[22, 3, 1, 0, 7][..], b"abcdefg"].concat();
        let cut = cut(&record, 3);
        let wanted = [&[22, 3, 1, 0, 3][..], b"abc", &[22, 3, 1, 0, 3], b"def", &[22, 3, 1, 0, 1], b"g"].concat();
        assert_eq!(cut, wanted);
        assert_eq!(super::cut(&cut, 100), record);
    }
}
