//! Where the built commands are.

use anyhow::{Context as _, Result, bail};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Built commands of one profile.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Takes the commands beside the running one: those of the same build.
    ///
    /// # Errors
    ///
    /// If the running program's path cannot be read.
    pub fn beside_this() -> Result<Self> {
        let this = env::current_exe().context("cannot find the running program")?;
        let folder = this.parent().unwrap_or(Path::new("."));
        // Test programs are one folder further down.
        let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
        Ok(Self { folder: folder.to_owned() })
    }

    /// Takes the commands in a folder, for instance `target/release`.
    #[must_use]
    pub fn inside(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns the path of the agent's command; the variable `WEIR_BIN` goes first.
    ///
    /// # Errors
    ///
    /// If it has not been built.
    pub fn weir(&self) -> Result<PathBuf> {
        match env::var_os("WEIR_BIN") {
            Some(path) => Ok(path.into()),
            None => self.find("weir", "cargo build --package weir"),
        }
    }

    /// Returns the path of the test client.
    ///
    /// # Errors
    ///
    /// If it has not been built.
    pub fn probe(&self) -> Result<PathBuf> {
        self.find("weir-probe", "cargo build --package weir-tests")
    }

    fn find(&self, name: &str, build: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if !path.exists() {
            bail!("{} is not there: run `{build}` first", path.display());
        }
        Ok(path)
    }
}
