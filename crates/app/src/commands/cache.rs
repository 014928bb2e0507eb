//! `etalon cache`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etalon::error::{InputError, Result, Size};
use etalon_models::{CachedCapture, cached, clear_cached};
use serde_json::json;

use crate::cli::{self, CacheAction};
use crate::console::Console;

/// Lists cached captures, or removes them.
pub fn run(args: &cli::Cache, console: &Console) -> Result<ExitCode> {
    match &args.action {
        None => list(args, console)?,
        Some(CacheAction::Clear(clear)) => {
            let (removed, used) = clear_cached(args.cache.as_deref(), clear.name.as_deref())?;
            if let (Some(name), [_]) = (&clear.name, &used[..]) {
                return Err(InputError::new(format!("a process uses the capture `{name}`"))
                    .advice("wait until it has ended")
                    .into());
            }
            used.iter().for_each(|name| console.warn(format!("kept: {name}, which a process uses")));
            let lines = removed.iter().map(|name| format!("removed: {name}")).collect::<Vec<_>>();
            let text = if lines.is_empty() { "nothing to remove".into() } else { lines.join("\n") };
            console.print(text, || json!({"removed": removed, "in_use": used}))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(args: &cli::Cache, console: &Console) -> Result<()> {
    let captures = cached(args.cache.as_deref())?;
    let total = Size(captures.iter().map(|capture| capture.bytes).sum());
    let line = |capture: &CachedCapture| {
        let what = match capture.finished {
            true => format!("{} on {}, {}", capture.model, capture.input, capture.sites.join(", ")),
            false => "not finished; the same command continues it".into(),
        };
        format!("{}  {:>9}  {:>14}  {what}", capture.name, Size(capture.bytes).to_string(), ago(capture.used))
    };
    let mut lines: Vec<String> = captures.iter().map(line).collect();
    lines.push(format!("{} captures, {total}", captures.len()));
    console.print(lines.join("\n"), || {
        let one = |capture: &CachedCapture| {
            json!({
                "name": capture.name, "directory": capture.directory, "bytes": capture.bytes,
                "finished": capture.finished, "model": capture.model, "input": capture.input, "sites": capture.sites,
                "used_ms": (capture.used > 0).then_some(capture.used),
            })
        };
        json!(captures.iter().map(one).collect::<Vec<_>>())
    })
}

/// How long ago a time was, in milliseconds since 1970.
fn ago(used: u64) -> String {
    if used == 0 {
        return "never used".into();
    }
    let then = UNIX_EPOCH + Duration::from_millis(used);
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
