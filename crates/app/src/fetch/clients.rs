//! The package clients of the user: how to call them, and what to do when one is missing or fails.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use etalon::context::Context;
use etalon::error::{Error, InputError, Result};
use etalon::store::disk;

use super::redact::redact;

/// Lines of a failed client that are shown.
const SHOWN_LINES: usize = 8;

/// A package client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Python packages.
    Pip,
    /// Node packages.
    Npm,
    /// Debian packages.
    Apt,
    /// Repositories of the Hugging Face hub.
    Hub,
}

/// A package of a pinned version.
#[derive(Debug)]
pub struct Package {
    /// Who downloads it.
    pub client: Client,
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The name of the archive.
    pub file: &'static str,
    /// The length of the archive in bytes.
    pub bytes: u64,
    /// The SHA-256 of the archive.
    pub sha256: &'static str,
    /// The SHA-256 of the members that are used, for archives that distributions build themselves.
    pub members: &'static [(&'static str, &'static str)],
}

/// A program and its arguments.
pub(super) type CommandLine = (&'static str, Vec<String>);

impl Client {
    /// The name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Client::Pip => "pip",
            Client::Npm => "npm",
            Client::Apt => "apt-get",
            Client::Hub => "hf",
        }
    }

    /// What to do when no client is installed.
    fn advice(self) -> &'static str {
        match self {
            Client::Pip => "install Python with pip, such as `apt install python3-pip`",
            Client::Npm => "install Node.js with npm, such as `apt install npm`",
            Client::Apt => {
                "apt-get is part of Debian and its derivatives; elsewhere, download the package there and pass its folder \
                 with `--from`"
            }
            Client::Hub => "install the client with `pip install huggingface_hub`",
        }
    }

    /// What to check when the client fails.
    fn hint(self) -> &'static str {
        match self {
            Client::Apt => "check the network; `apt-get update` (as root) refreshes the list of packages",
            Client::Hub => "check the name, the network, and access to the repository (`hf auth login`)",
            Client::Pip | Client::Npm => "check the network and the settings of the client, and run the command again",
        }
    }

    /// The command lines that can download a package, in the order in which they are tried.
    fn commands(self, package: &Package, directory: &Path) -> Result<Vec<CommandLine>> {
        let (name, version) = (package.name, package.version);
        let line = |program, arguments: &[&str]| -> CommandLine {
            (program, arguments.iter().map(|argument| argument.to_string()).collect())
        };
        Ok(match self {
            Client::Pip => {
                // pip runs the build script of a source package. Here it compares the hash before it does.
                let requirement = format!("{name}=={version} --hash=sha256:{}\n", package.sha256);
                disk::write(&directory.join(REQUIREMENTS), requirement.as_bytes())?;
                let download =
                    ["download", "--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check"];
                let all =
                    [&download[..], &["--progress-bar", "off", "--dest", ".", "--requirement", REQUIREMENTS]].concat();
                let module = [&["-m", "pip"], &all[..]].concat();
                vec![line("pip", &all), line("pip3", &all), line("python3", &module), line("python", &module)]
            }
            Client::Npm => vec![line("npm", &["pack", "--silent", "--ignore-scripts", &format!("{name}@{version}")])],
            Client::Apt => vec![line("apt-get", &["--quiet", "download", &format!("{name}={version}")])],
            Client::Hub => Vec::new(),
        })
    }

    /// Downloads a package into an empty directory.
    pub fn download(
        self,
        package: &Package,
        directory: &Path,
        path: Option<&OsString>,
        context: &Context,
    ) -> Result<()> {
        self.run(self.commands(package, directory)?, directory, path, context).map(drop)
    }

    /// Runs the first of these programs that is installed, in a directory; returns what it printed to standard output.
    pub fn run(
        self,
        commands: Vec<CommandLine>,
        directory: &Path,
        path: Option<&OsString>,
        context: &Context,
    ) -> Result<String> {
        let tried: Vec<&str> = commands.iter().map(|(program, _)| *program).collect();
        for (program, arguments) in &commands {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(directory).stdin(Stdio::null());
            path.into_iter().for_each(|path| {
                command.env("PATH", path);
            });
            // No questions, advertisements or progress bars.
            command.env("PIP_NO_INPUT", "1").env("NPM_CONFIG_UPDATE_NOTIFIER", "false").env("NPM_CONFIG_FUND", "false");
            command.env("HF_HUB_DISABLE_PROGRESS_BARS", "1").env("HF_HUB_DISABLE_TELEMETRY", "1");
            if let Some((status, out, log)) = run_logged(&mut command, directory, context)? {
                let failed = || self.failed(program, arguments, status, &out, &log);
                return if status.success() { Ok(out) } else { Err(failed().into()) };
            }
        }
        Err(InputError::new(format!("the client `{}` is not installed", self.name()))
            .expected(format!("one of the programs {} on the PATH", tried.join(", ")))
            .advice(self.advice())
            .into())
    }

    fn failed(self, program: &str, arguments: &[String], status: ExitStatus, out: &str, log: &str) -> InputError {
        let lines: Vec<&str> = out.lines().chain(log.lines()).filter(|line| !line.trim().is_empty()).collect();
        let last =
            lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().map(|line| format!("\n    {}", redact(line)));
        InputError::new(format!("`{program} {}` failed", redact(&arguments.join(" "))))
            .found(format!("{status}; its last lines:{}", last.collect::<String>()))
            .advice(self.hint())
    }
}

/// The requirements file of pip, and the output of a client.
const REQUIREMENTS: &str = "requirements.txt";
const OUT: &str = "client.out";
const LOG: &str = "client.log";

/// Whether a file in the directory of a client is none of its downloads.
pub(super) fn is_own(name: &str) -> bool {
    [REQUIREMENTS, OUT, LOG].contains(&name)
}

/// Runs a command to its end, or kills it when the user cancels; `None` if there is no such program.
fn run_logged(
    command: &mut Command,
    directory: &Path,
    context: &Context,
) -> Result<Option<(ExitStatus, String, String)>> {
    let (out, log) = (directory.join(OUT), directory.join(LOG));
    let create = |path: &Path| File::create(path).map_err(Error::io("create a file", path));
    command.stdout(create(&out)?).stderr(create(&log)?);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("start a client", Path::new(command.get_program()))(error)),
    };
    let status = loop {
        let waited = child.try_wait().map_err(Error::io("wait for a client", directory))?;
        if let Some(status) = waited {
            break status;
        }
        if let Err(error) = context.check() {
            // Already ended if this fails.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read =
        |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    Ok(Some((status, read(&out), read(&log))))
}
