//! One input, tried: what the reader did with it.

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

/// An input may take this long, on a machine that does other things as well.
const SLOW: Duration = Duration::from_secs(10);

/// Memory that is too much for an input of a few kilobytes.
const MUCH_MEMORY: u64 = 1 << 29;

/// What a reader did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It accepted the bytes.
    Accepted,
    /// It refused them with a message.
    Refused(String),
    /// It did what no bytes may make it do.
    Wrong(String),
}

/// A directory in which the inputs of a target are written.
pub struct Scratch {
    target: &'static Target,
    members: Vec<(String, Vec<u8>)>,
    directory: TempDir,
}

impl Scratch {
    /// Prepares a directory: in memory, if the system has such a place.
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

    /// Good inputs to start from.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let contents = self.members.iter().map(|(_, bytes)| bytes.clone());
        match self.target.layout {
            Layout::File(_) => contents.collect(),
            // The first byte chooses the member.
            _ => contents.enumerate().map(|(member, bytes)| [&[member as u8][..], &bytes].concat()).collect(),
        }
    }

    /// Inputs that were wrong once, kept in `found/TARGET`.
    pub fn found(&self) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(self.target.name);
        if !directory.is_dir() {
            return Ok(Vec::new());
        }
        let mut paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        paths.into_iter().map(|path| Ok((path.clone(), fs::read(path)?))).collect()
    }

    /// Gives the reader an input.
    pub fn check(&self, input: &[u8]) -> io::Result<Verdict> {
        let path = self.prepare(input)?;
        let (resident, peak, began) = (memory("VmRSS:"), memory("VmHWM:"), Instant::now());
        let answer = catch_unwind(AssertUnwindSafe(|| (self.target.read)(&path)));
        let (took, new_peak) = (began.elapsed(), memory("VmHWM:"));
        let used = if new_peak > peak { new_peak.saturating_sub(resident) } else { 0 };
        self.restore(input)?;
        Ok(match answer {
            Err(_) => Verdict::Wrong(format!("a panic: {}", LAST_PANIC.take())),
            Ok(Err(Error::Bug(what))) => Verdict::Wrong(format!("an internal error: {what}")),
            Ok(_) if took > SLOW => Verdict::Wrong(format!("{:.1} s of work", took.as_secs_f64())),
            Ok(_) if used > MUCH_MEMORY => Verdict::Wrong(format!("{} MB of memory", used >> 20)),
            Ok(Ok(())) => Verdict::Accepted,
            Ok(Err(error)) => Verdict::Refused(error.to_string()),
        })
    }

    /// Writes an input where the reader finds it.
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

    /// Puts the good file back.
    fn restore(&self, input: &[u8]) -> io::Result<()> {
        if matches!(self.target.layout, Layout::Folder) {
            let (name, _) = self.member(input);
            for (_, bytes) in self.members.iter().filter(|(member, _)| *member == name) {
                self.write(&name, bytes)?;
            }
        }
        Ok(())
    }

    /// The member that an input replaces, and its new content. Unless the first bit says otherwise, checksums are made
    /// to fit, since nothing behind them would ever be reached.
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

/// Makes the checksum at the end of a manifest or a result fit what comes before it.
fn repair(name: &str, bytes: &mut Vec<u8>) {
    let (mark, covers_mark) = match name {
        _ if name.ends_with("manifest.json") => (&b",\n  \"crc32c\": \""[..], true),
        _ if name.starts_with("results/") => (&b",\n  \"check\": \"crc32c:"[..], false),
        _ => return,
    };
    let Some(at) = bytes.windows(mark.len()).rposition(|window| window == mark) else { return };
    // The checksum of a result ends before the time that it took.
    let seconds = b"\n  \"seconds\": ";
    let end = if covers_mark { Some(at) } else { bytes[..at].windows(seconds.len()).rposition(|part| part == seconds) };
    let checksum = crc32c::crc32c(&bytes[..end.unwrap_or(at)]);
    bytes.truncate(at + mark.len());
    bytes.extend(format!("{checksum:08x}\"\n}}\n").bytes());
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the words of a panic instead of printing them: the reader of parquet files catches those of its library.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| LAST_PANIC.set(panic.to_string()))));
}

/// The memory that this process has or had at most, where the system tells.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = size.and_then(|size| size.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
