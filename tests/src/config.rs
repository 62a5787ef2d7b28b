//! The configuration folder of an agent under test.

use crate::leftovers;
use anyhow::{Context as _, Result};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// A folder of YAML files. Dropping it removes it.
#[derive(Debug)]
pub struct ConfigDir {
    path: PathBuf,
}

impl ConfigDir {
    /// Makes an empty folder.
    ///
    /// # Errors
    ///
    /// If the temporary folder cannot be written.
    pub fn new() -> Result<Self> {
        let path = leftovers::folder("config");
        fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    /// Makes a folder with one file, `main.yaml`.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn with(text: impl AsRef<str>) -> Result<Self> {
        let folder = Self::new()?;
        folder.write("main.yaml", text)?;
        Ok(folder)
    }

    /// Makes a copy of a folder's files.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn copy_of(source: &Path) -> Result<Self> {
        let folder = Self::new()?;
        for entry in fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), folder.path.join(entry.file_name()))?;
            }
        }
        Ok(folder)
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces a file in one step.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: impl AsRef<str>) -> Result<()> {
        let next = self.path.join(format!(".{name}.next"));
        fs::write(&next, text.as_ref())?;
        fs::rename(next, self.path.join(name))?;
        Ok(())
    }

    /// Writes a file in place, as an editor without care does.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_in_place(&self, name: &str, text: impl AsRef<str>) -> Result<()> {
        Ok(fs::write(self.path.join(name), text.as_ref())?)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.path.join(name))?)
    }

    /// Writes a file as the kubelet updates a mounted ConfigMap: a new hidden folder of its own, and
    /// the link `..data` swung to it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn swap(&self, version: &str, name: &str, text: impl AsRef<str>) -> Result<()> {
        let hidden = format!("..{version}");
        fs::create_dir(self.path.join(&hidden))?;
        fs::write(self.path.join(&hidden).join(name), text.as_ref())?;
        let data = self.path.join("..data");
        let old = fs::read_link(&data).ok();
        symlink(&hidden, self.path.join("..data_tmp"))?;
        fs::rename(self.path.join("..data_tmp"), &data)?;
        let visible = self.path.join(name);
        if fs::symlink_metadata(&visible).is_err() {
            symlink(Path::new("..data").join(name), visible)?;
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.path.join(old))?;
        }
        Ok(())
    }
}

impl Drop for ConfigDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
