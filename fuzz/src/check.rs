//! Runs a reader on one input and judges the outcome.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use etalon::error::Error;
use tempfile::TempDir;
use zip::CompressionMethod;

use crate::files;
use crate::targets::{Layout, Target};

/// Maximum time for an input, on a busy machine.
const SLOW: Duration = Duration::from_secs(10);

/// Maximum memory for an input of a few kilobytes.
const MOST_MEMORY: u64 = 1 << 29;

/// The outcome of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It accepted the bytes.
    Accepted,
    /// It refused them with a message.
    Refused(String),
    /// It panicked, failed internally, or took too much time or memory.
    Wrong(String),
}

/// A directory in which the inputs of a target are written.
pub struct Scratch {
    target: &'static Target,
    members: Vec<(String, Vec<u8>)>,
    directory: TempDir,
}

impl Scratch {
    /// Creates a directory, in memory if the system has `/dev/shm`.
    pub fn new(target: &'static Target) -> io::Result<Scratch> {
        quiet_panics();
        let in_memory = Path::new("/dev/shm");
        let directory = if in_memory.is_dir() { tempfile::tempdir_in(in_memory)? } else { tempfile::tempdir()? };
        let members = (target.seeds)().map_err(|error| io::Error::other(error.to_string()))?;
        let scratch = Scratch { target, members, directory };
        if matches!(target.layout, Layout::Folder) {
            for (name, bytes) in &scratch.members {
                scratch.write(name, bytes)?;
            }
        }
        Ok(scratch)
    }

    /// Valid inputs to start from.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let contents = self.members.iter().map(|(_, bytes)| bytes.clone());
        match self.target.layout {
            Layout::File(_) => contents.collect(),
            // The first byte chooses the member.
            _ => contents.enumerate().map(|(member, bytes)| [&[member as u8][..], &bytes].concat()).collect(),
        }
    }

    /// Inputs that once caused a wrong outcome, kept in `found/TARGET`.
    pub fn found(&self) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(self.target.name);
        if !directory.is_dir() {
            return Ok(Vec::new());
        }
        let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        paths.into_iter().map(|path| Ok((path.clone(), fs::read(path)?))).collect()
    }

    /// Runs the reader on an input.
    pub fn check(&self, input: &[u8]) -> io::Result<Outcome> {
        let path = self.prepare(input)?;
        let (resident, peak, began) = (memory("VmRSS:"), memory("VmHWM:"), Instant::now());
        let answer = catch_unwind(AssertUnwindSafe(|| (self.target.read)(&path)));
        let (took, new_peak) = (began.elapsed(), memory("VmHWM:"));
        let used = if new_peak > peak { new_peak.saturating_sub(resident) } else { 0 };
        self.restore(input)?;
        Ok(match answer {
            Err(_) => Outcome::Wrong(format!("a panic: {}", LAST_PANIC.take())),
            Ok(Err(Error::Bug(what))) => Outcome::Wrong(format!("an internal error: {what}")),
            Ok(_) if took > SLOW => Outcome::Wrong(format!("{:.1} s of work", took.as_secs_f64())),
            Ok(_) if used > MOST_MEMORY => Outcome::Wrong(format!("{} MB of memory", used >> 20)),
            Ok(Ok(())) => Outcome::Accepted,
            Ok(Err(error)) => Outcome::Refused(error.to_string()),
        })
    }

    /// Writes an input to the path that the reader opens.
    fn prepare(&self, input: &[u8]) -> io::Result<PathBuf> {
        match self.target.layout {
            Layout::File(name) => self.write(name, input),
            Layout::Folder => {
                let (name, bytes) = self.member(input);
                self.write(&name, &bytes)?;
                Ok(self.directory.path().to_path_buf())
            }
            Layout::Archive(name) => {
                let (changed, bytes) = self.member(input);
                let mut members = self.members.clone();
                members.iter_mut().filter(|(member, _)| *member == changed).for_each(|member| member.1 = bytes.clone());
                let archive = files::zip(&members, CompressionMethod::Stored);
                self.write(name, &archive.map_err(|error| io::Error::other(error.to_string()))?)
            }
        }
    }

    /// Restores the valid file.
    fn restore(&self, input: &[u8]) -> io::Result<()> {
        if matches!(self.target.layout, Layout::Folder) {
            let (name, _) = self.member(input);
            for (_, bytes) in self.members.iter().filter(|(member, _)| *member == name) {
                self.write(&name, bytes)?;
            }
        }
        Ok(())
    }

    /// The member that an input replaces, and its new content. Unless the first bit is set, checksums are corrected,
    /// since the code after them would never be reached otherwise.
    fn member(&self, input: &[u8]) -> (String, Vec<u8>) {
        let (&choice, content) = input.split_first().unwrap_or((&0, &[]));
        let member = usize::from(choice & 0x7f) % self.members.len().max(1);
        let name = self.members.get(member).map_or("none", |(name, _)| name);
        let mut content = content.to_vec();
        if choice & 0x80 == 0 {
            repair(name, &mut content);
        }
        (name.to_string(), content)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.directory.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, bytes)?;
        Ok(path)
    }
}

/// Corrects the checksum at the end of a manifest, a result or the index of a training.
fn repair(name: &str, bytes: &mut Vec<u8>) {
    let (mark, covers_mark) = match name {
        _ if name.ends_with("manifest.json") => (&b",\n  \"crc32c\": \""[..], true),
        _ if name.ends_with("training.json") => (&b",\n  \"check\": \"crc32c:"[..], true),
        _ if name.starts_with("results/") => (&b",\n  \"check\": \"crc32c:"[..], false),
        _ => return,
    };
    let Some(start) = bytes.windows(mark.len()).rposition(|window| window == mark) else { return };
    // The checksum of a result ends before the time that it took.
    let seconds = b"\n  \"seconds\": ";
    let end =
        if covers_mark { Some(start) } else { bytes[..start].windows(seconds.len()).rposition(|part| part == seconds) };
    let checksum = crc32c::crc32c(&bytes[..end.unwrap_or(start)]);
    bytes.truncate(start + mark.len());
    bytes.extend(format!("{checksum:08x}\"\n}}\n").bytes());
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Records the message of a panic instead of printing it: the parquet reader catches panics of its library.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| LAST_PANIC.set(panic.to_string()))));
}

/// A memory size of this process from `/proc/self/status`, in bytes; 0 if unknown.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = size.and_then(|size| size.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
