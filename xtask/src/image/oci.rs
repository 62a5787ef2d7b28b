//! Images in OCI layout (OCI image specification 1.1): one layer, one configuration, one manifest.

use super::{archive::Archive, program::Program};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeMap, fs};

/// An image to write.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Full names with tags.
    pub(crate) names: Vec<String>,
    /// What a container of it runs.
    pub(crate) entrypoint: Vec<String>,
    /// Static programs, which lie in the top folder.
    pub(crate) programs: Vec<Program>,
}

/// Content by its digest.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Takes content in and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = digest(&bytes);
        let descriptor = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()});
        self.0.insert(digest, bytes);
        descriptor
    }
}

impl Image {
    /// Returns the image as a tar file.
    ///
    /// # Errors
    ///
    /// If a program cannot be read.
    pub(super) fn archive(&self) -> Result<Vec<u8>> {
        let layer = self.layer()?;
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "Env": ["PATH=/"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))]},
        });
        let mut blobs = Blobs::default();
        let layer = blobs.add("application/vnd.oci.image.layer.v1.tar", layer);
        let config = blobs.add("application/vnd.oci.image.config.v1+json", serde_json::to_vec(&config)?);
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer]});
        let manifest = blobs.add(media_type, serde_json::to_vec(&manifest)?);
        let named = self.names.iter().map(|name| {
            let mut manifest = manifest.clone();
            // containerd reads the first, others the second.
            let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
            manifest["annotations"] =
                json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag});
            manifest
        });
        let index = json!({"schemaVersion": 2, "manifests": named.collect::<Vec<_>>()});

        let mut archive = Archive::default();
        archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
        archive.file("index.json", 0o644, &serde_json::to_vec(&index)?);
        for (digest, bytes) in &blobs.0 {
            archive.file(&format!("blobs/sha256/{digest}"), 0o644, bytes);
        }
        Ok(archive.finish())
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = Archive::default();
        for program in &self.programs {
            let bytes = fs::read(&program.path).with_context(|| format!("cannot read {}", program.path.display()))?;
            layer.file(&program.name, 0o755, &bytes);
        }
        Ok(layer.finish())
    }
}

/// Returns the name of this machine's architecture in images, which is Go's.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns a SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::Path, process::Command};

    fn unpacked(image: &Image, folder: &Path) {
        let file = folder.join("image.tar");
        fs::write(&file, image.archive().unwrap()).unwrap();
        assert!(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(folder).status().unwrap().success());
    }

    fn blob(folder: &Path, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = fs::read(folder.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(super::digest(&bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    #[test]
    fn the_index_leads_to_the_program_and_how_to_start_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("built");
        fs::write(&path, "the program").unwrap();
        let image = Image {
            names: vec!["weir.dev/weir:1.2".to_owned(), "weir.dev/weir:next".to_owned()],
            entrypoint: vec!["/weir".to_owned()],
            programs: vec![Program { name: "weir".to_owned(), path }],
        };
        unpacked(&image, folder.path());
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let index = json(&fs::read(folder.path().join("index.json")).unwrap());
        let names = index["manifests"].as_array().unwrap().iter().map(|manifest| &manifest["annotations"]);
        assert_eq!(
            names.map(|names| names["io.containerd.image.name"].as_str().unwrap()).collect::<Vec<_>>(),
            image.names
        );
        let manifest = json(&blob(folder.path(), &index["manifests"][0]));
        let config = json(&blob(folder.path(), &manifest["config"]));
        assert_eq!(config["config"]["Entrypoint"], json!(["/weir"]));
        let layer = blob(folder.path(), &manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", digest(&layer)));
        assert!(layer.windows(11).any(|part| part == b"the program"));
    }

    #[test]
    fn the_same_program_gives_the_same_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("built");
        fs::write(&path, "the program").unwrap();
        let programs = vec![Program { name: "weir".to_owned(), path }];
        let image = Image { names: vec!["a:b".to_owned()], entrypoint: Vec::new(), programs };
        assert_eq!(image.archive().unwrap(), image.archive().unwrap());
    }
}
