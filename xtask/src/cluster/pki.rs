//! Keys and certificates of a cluster, and the kubeconfigs that go with them.
//!
//! One authority signs the server's certificate and one for each user; there are no tokens or passwords.

use super::place::{CONTROL_ADDRESS, Place};
use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Files in the state folder.
#[derive(Clone, Debug)]
pub(super) struct Pki {
    folder: PathBuf,
}

/// Who may do everything.
pub(super) const ADMIN: &str = "admin";
/// The server itself, where it calls a kubelet.
pub(super) const SERVER: &str = "kube-apiserver-kubelet-client";
/// The controllers.
pub(super) const CONTROLLERS: &str = "system:kube-controller-manager";
/// The scheduler.
pub(super) const SCHEDULER: &str = "system:kube-scheduler";

/// Members of this group may do everything.
const MASTERS: &str = "system:masters";

impl Pki {
    /// Makes everything anew.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(super) fn make(place: &Place) -> Result<Self> {
        let pki = Self { folder: place.state().join("pki") };
        for folder in [&pki.folder, &place.state().join("users")] {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        }
        let authority = authority(&format!("{} test cluster", place.name()))?;
        pki.write("ca.crt", &authority.pem())?;
        pki.write("ca.key", &authority.key().serialize_pem())?;

        let accounts = KeyPair::generate()?;
        pki.write("accounts.key", &accounts.serialize_pem())?;
        pki.write("accounts.pub", &accounts.public_key_pem())?;

        let names = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "127.0.0.1",
            CONTROL_ADDRESS,
            "10.96.0.1",
        ];
        pki.sign(&authority, "server", "kube-apiserver", None, &names, ExtendedKeyUsagePurpose::ServerAuth)?;

        let nodes = place.nodes();
        let mut users: Vec<(&str, String, Option<&str>)> = vec![
            (ADMIN, ADMIN.to_owned(), Some(MASTERS)),
            (SERVER, SERVER.to_owned(), Some(MASTERS)),
            (CONTROLLERS, CONTROLLERS.to_owned(), None),
            (SCHEDULER, SCHEDULER.to_owned(), None),
        ];
        users.extend(nodes.iter().map(|node| (node.as_str(), format!("system:node:{node}"), Some("system:nodes"))));
        for (file, user, group) in users {
            pki.sign(&authority, file, &user, group, &[], ExtendedKeyUsagePurpose::ClientAuth)?;
            fs::write(place.kubeconfig(file), pki.kubeconfig(file))?;
        }
        Ok(pki)
    }

    /// Path of one of the files.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn sign(
        &self,
        authority: &CertifiedIssuer<'_, KeyPair>,
        file: &str,
        name: &str,
        group: Option<&str>,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.remove(DnType::CommonName);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, authority)?;
        self.write(&format!("{file}.crt"), &certificate.pem())?;
        self.write(&format!("{file}.key"), &key.serialize_pem())
    }

    fn kubeconfig(&self, user: &str) -> String {
        // JSON is YAML, too.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://{CONTROL_ADDRESS}:6443"),
                "certificate-authority": self.path("ca.crt"),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate": self.path(&format!("{user}.crt")),
                "client-key": self.path(&format!("{user}.key")),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        });
        format!("{config:#}\n")
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path: &Path = &self.folder.join(name);
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}
