//! One self-signed certificate a process, for every server name of the tests.

use anyhow::{Context as _, Result};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// What the certificate is for. Whoever answers tells its own name inside the connection.
pub const CERTIFIED: [&str; 4] = ["shop.example", "*.shop.example", "pay.example", "*.pay.example"];

/// Application protocols that the servers speak.
pub const ALPN: [&str; 3] = ["h2", "http/1.1", "weir"];

/// Most bytes of early data that a server takes.
const EARLY_BYTES: u32 = 16 * 1_024;

/// The crypto provider of everything here.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(ring::default_provider())))
}

/// A certificate and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    pem: String,
    key: Vec<u8>,
}

impl Identity {
    /// Returns the identity of this process.
    #[must_use]
    pub fn shared() -> &'static Self {
        static IDENTITY: OnceLock<Identity> = OnceLock::new();
        IDENTITY.get_or_init(|| {
            let names: Vec<String> = CERTIFIED.map(str::to_owned).to_vec();
            let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).expect("well-formed names");
            Self { certificate: cert.der().clone(), pem: cert.pem(), key: signing_key.serialize_der() }
        })
    }

    /// Returns what a server needs: both versions, [`ALPN`], resumption and early data.
    ///
    /// # Errors
    ///
    /// If the key is not one that the provider knows.
    pub fn server(&self) -> Result<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(rustls::ALL_VERSIONS)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .context("a certificate of our own")?;
        config.alpn_protocols = ALPN.map(|name| name.as_bytes().to_vec()).to_vec();
        config.max_early_data_size = EARLY_BYTES;
        Ok(config)
    }

    /// Writes the certificate to a folder, for clients that are commands.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn write_pem(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join("certificate.pem");
        fs::write(&path, &self.pem).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
