//! Where the workspace and its folders are.

use anyhow::{Context, Result};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Folders of one checkout.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Finds the checkout that this command was started for.
    ///
    /// # Errors
    ///
    /// If neither cargo nor the current folder leads to it.
    pub(crate) fn find() -> Result<Self> {
        let start = match env::var_os("CARGO_MANIFEST_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => env::current_dir().context("cannot read the current folder")?,
        };
        let root = start.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
        let root = root.context("run this inside of a checkout of the project")?;
        Ok(Self { root: root.to_owned() })
    }

    /// The checkout's top folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What cargo builds.
    pub(crate) fn target(&self) -> PathBuf {
        match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => self.root.join(folder),
            None => self.root.join("target"),
        }
    }

    /// Downloads that a second run uses again.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root.join(".cache")
    }
}
