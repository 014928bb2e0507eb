//! The steps of a study: commands that make its inputs, such as captures and dictionaries.

use std::path::Path;
use std::process::{Command as Process, ExitCode, Stdio};

use etalon::error::{Error, InFile, InputError, Result};
use etalon::study::Study;

use crate::cli::Command;
use crate::console::Console;

/// The commands that a step may be: they write files that inputs can name, and resume if interrupted.
const ALLOWED: [&str; 6] = ["capture", "train", "data", "encode", "similarity", "layout"];

/// Runs the steps of a study file in its directory, one after the other. Returns the exit code of the first that fails.
pub fn run(study: &Path, console: &Console) -> Result<Option<ExitCode>> {
    let steps = Study::steps(study)?;
    for step in &steps {
        check(step).in_file(study)?;
    }
    let folder = study.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let program =
        std::env::current_exe().map_err(Error::io("find the program", Path::new("the file of this program")))?;
    for step in &steps {
        console.context.check()?;
        console.status(format!("$ etalon {}", step.join(" ")));
        // A process of its own, because the paths of a step are relative to the study. What a step prints is not the result.
        let mut process = Process::new(&program);
        process.args(step).args(console.options()).current_dir(folder).stdin(Stdio::null());
        process.stdout(if console.is_quiet() { Stdio::null() } else { Stdio::from(std::io::stderr()) });
        let status = process.status().map_err(Error::io("run a step of the study", &program))?;
        if !status.success() {
            console.context.check()?;
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            console.status(format!("a step of the study failed: etalon {}", step.join(" ")));
            return Ok(Some(ExitCode::from(code)));
        }
    }
    Ok(None)
}

/// Refuses what is no step, before the first one is run.
fn check(step: &[String]) -> Result<()> {
    let refused = |error: InputError| Err(error.at("key `steps`").into());
    let name = step.first().map_or("", String::as_str);
    if !ALLOWED.contains(&name) {
        let error = InputError::new("a step of a study is no command that makes inputs");
        return refused(error.one_of(name, &ALLOWED));
    }
    let words: Vec<String> = std::iter::once("etalon".to_string()).chain(step.iter().cloned()).collect();
    match crate::parse(&words) {
        Ok((cli, _)) if !matches!(cli.command, Command::Run(_)) => Ok(()),
        Ok(_) => Err(Error::Bug("a step that runs a study".into())),
        Err(error) => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
            refused(InputError::new(format!("a step of the study is invalid: {}", step.join(" "))).found(line))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(step: &str) -> Result<()> {
        check(&step.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn only_commands_that_make_inputs_are_steps() {
        checked("capture --model m --input i --site s --out o").unwrap();
        checked("train --store x --arch topk --latents 8 --out saes").unwrap();
        let error = checked("fetch imdb").unwrap_err().to_string();
        assert!(error.contains("capture") && error.contains("steps"), "{error}");
        assert!(checked("run study.toml").is_err() && checked("").is_err());
        let error = checked("train --stor x --arch topk --out saes").unwrap_err().to_string();
        assert!(error.contains("--stor"), "{error}");
    }
}
