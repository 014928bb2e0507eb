//! The members of downloaded archives: wheels (zip), tar.gz and Debian packages. Members are only read, never unpacked by their
//! names; a name that leads out of the archive is refused all the same.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Component, Path, PathBuf};

use etalon::error::{Error, InputError, Result};
use flate2::read::GzDecoder;

use super::debian;

/// Maximum length of a member in bytes.
const LONGEST_MEMBER: u64 = 1 << 30;

/// Maximum length of all members of an archive.
const LARGEST_ARCHIVE: u64 = 4 << 30;

/// The archives of an entry, in the order of its packages.
pub(super) struct Archives {
    files: Vec<PathBuf>,
}

/// A file in an archive.
pub(super) struct Member<'a> {
    /// Its path, without `./` at the start.
    pub name: &'a str,
    /// Its length in bytes.
    pub size: u64,
    /// Its content.
    pub content: &'a mut dyn Read,
    archive: &'a Path,
}

/// Whether to visit more members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpacked {
    More,
    Enough,
}

/// Called for every member.
pub(super) type Visitor<'v> = dyn FnMut(&mut Member<'_>) -> Result<Unpacked> + 'v;

impl Member<'_> {
    /// The whole content.
    pub fn read(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.size as usize);
        let read = self.content.take(self.size.saturating_add(1)).read_to_end(&mut bytes);
        let read = read.map_err(|error| damaged(self.archive, error))?;
        if read as u64 != self.size {
            return Err(damaged(self.archive, format!("`{}` does not have its stated length", self.name)));
        }
        Ok(bytes)
    }
}

impl Archives {
    /// The archives of an entry.
    pub fn new(files: Vec<PathBuf>) -> Archives {
        Archives { files }
    }

    /// The file of an archive.
    pub fn file(&self, number: usize) -> Result<&Path> {
        self.files.get(number).map(PathBuf::as_path).ok_or_else(|| Error::Bug(format!("no package {number}")))
    }

    /// Calls a function for every member of an archive, in the order of the archive.
    pub fn visit(&self, number: usize, visitor: &mut Visitor<'_>) -> Result<()> {
        visit(self.file(number)?, visitor)
    }

    /// The contents of some members, in the order asked for.
    pub fn read<const N: usize>(&self, number: usize, names: [&str; N]) -> Result<[Vec<u8>; N]> {
        let mut found: [Option<Vec<u8>>; N] = [const { None }; N];
        self.visit(number, &mut |member| {
            if let Some(index) = names.iter().position(|name| *name == member.name) {
                found[index] = Some(member.read()?);
            }
            Ok(if found.iter().all(Option::is_some) { Unpacked::Enough } else { Unpacked::More })
        })?;
        let mut contents = [const { Vec::new() }; N];
        for ((content, found), name) in contents.iter_mut().zip(found).zip(names) {
            *content = found.ok_or_else(|| self.missing(number, name))?;
        }
        Ok(contents)
    }

    /// The error for a member that is not there.
    pub fn missing(&self, number: usize, name: &str) -> Error {
        let file = self.files.get(number).map(PathBuf::as_path).unwrap_or(Path::new(""));
        damaged(file, format!("no member `{name}`"))
    }
}

/// The error for an archive that cannot be read.
pub(super) fn damaged(archive: &Path, found: impl std::fmt::Display) -> Error {
    InputError::new("a package cannot be unpacked")
        .found(found)
        .advice("remove the file, and run the command again")
        .file(archive)
        .into()
}

/// Calls a function for every member of an archive.
pub(super) fn visit(archive: &Path, visitor: &mut Visitor<'_>) -> Result<()> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let file = File::open(archive).map_err(Error::io("open a package", archive))?;
    match () {
        () if name.ends_with(".whl") || name.ends_with(".zip") => visit_zip(archive, file, visitor),
        () if name.ends_with(".tgz") || name.ends_with(".tar.gz") => {
            visit_tar(archive, GzDecoder::new(BufReader::with_capacity(1 << 18, file)), visitor)
        }
        () if name.ends_with(".deb") => visit_tar(archive, debian::open_data(archive, file)?, visitor),
        () => Err(Error::Bug(format!("the package `{name}` has an unknown format"))),
    }
}

fn visit_zip(archive: &Path, file: File, visitor: &mut Visitor<'_>) -> Result<()> {
    let mut zip = zip::ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(archive, error))?;
    let mut limits = Limits::default();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(|error| damaged(archive, error))?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.name().map_err(|error| damaged(archive, error))?.into_owned();
        let size = entry.size();
        limits.check(archive, &name, size)?;
        if visitor(&mut Member { name: &name, size, content: &mut entry, archive })? == Unpacked::Enough {
            return Ok(());
        }
    }
    Ok(())
}

fn visit_tar(archive: &Path, reader: impl Read, visitor: &mut Visitor<'_>) -> Result<()> {
    let mut tar = tar::Archive::new(reader);
    let mut limits = Limits::default();
    for entry in tar.entries().map_err(|error| damaged(archive, error))? {
        let mut entry = entry.map_err(|error| damaged(archive, error))?;
        // Folders and links have no content.
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(|error| damaged(archive, error))?.to_string_lossy().into_owned();
        let name = name.strip_prefix("./").unwrap_or(&name).to_string();
        let size = entry.size();
        limits.check(archive, &name, size)?;
        if visitor(&mut Member { name: &name, size, content: &mut entry, archive })? == Unpacked::Enough {
            return Ok(());
        }
    }
    Ok(())
}

#[derive(Default)]
struct Limits {
    total: u64,
}

impl Limits {
    /// Refuses names that lead out of the archive, and sizes beyond the limits.
    fn check(&mut self, archive: &Path, name: &str, size: u64) -> Result<()> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || name.is_empty() || name.contains(['\\', '\0']) {
            return Err(damaged(archive, format!("a member with the path `{}`", name.escape_debug())));
        }
        self.total = self.total.saturating_add(size);
        if size > LONGEST_MEMBER || self.total > LARGEST_ARCHIVE {
            return Err(damaged(archive, format!("`{name}` is too large ({size} bytes)")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{tgz, zip};
    use super::*;

    fn names(file: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        visit(file, &mut |member| {
            let bytes = member.read()?;
            names.push(format!("{}:{}", member.name, bytes.len()));
            Ok(Unpacked::More)
        })?;
        Ok(names)
    }

    #[test]
    fn members_of_both_formats_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let members: &[(&str, &[u8])] = &[("a/b.txt", b"one"), ("c", b"")];
        let (wheel, tar) = (folder.path().join("x.whl"), folder.path().join("x.tgz"));
        std::fs::write(&wheel, zip(members)).unwrap();
        std::fs::write(&tar, tgz(members)).unwrap();
        for file in [&wheel, &tar] {
            assert_eq!(names(file).unwrap(), ["a/b.txt:3", "c:0"]);
            let archives = Archives::new(vec![file.clone()]);
            assert_eq!(archives.read(0, ["c", "a/b.txt"]).unwrap(), [b"".to_vec(), b"one".to_vec()]);
            let error = archives.read(0, ["d"]).unwrap_err().to_string();
            assert!(error.contains("no member `d`"), "{error}");
        }
        for file in [&wheel, &tar] {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
            assert!(names(file).unwrap_err().is_input());
        }
    }

    #[test]
    fn members_that_lead_out_of_the_archive_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../evil", "a/../../evil", "/etc/evil", "a\\..\\evil"] {
            for (ending, bytes) in [("whl", zip(&[(name, b"x")])), ("tgz", tgz(&[(name, b"x")]))] {
                let file = folder.path().join(format!("x.{ending}"));
                std::fs::write(&file, bytes).unwrap();
                let error = names(&file).unwrap_err().to_string();
                assert!(error.contains("evil"), "{name} {ending}: {error}");
            }
        }
    }
}
