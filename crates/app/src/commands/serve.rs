//! `etalon serve` and `etalon export`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::{InputError, Result};
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::serve::{self, Address, Catalog, Server, Token};

/// Serves the explorer until Ctrl-C.
pub fn run(args: &cli::Serve, console: &Console) -> Result<ExitCode> {
    let address = Address::new(args.bind.as_deref(), args.port)?;
    let server = Server::bind(address, Token::new()?, catalog(&args.directory, args.directions.as_deref(), console)?)?;
    if address.is_open() {
        console.say("other machines can reach this server: whoever has the whole address sees the results");
    }
    let url = server.url();
    console.answer(&url, || json!({"url": url}));
    let context = console.context.clone();
    server.run(move || context.check().is_err())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the explorer as files.
pub fn export(args: &cli::Export, console: &Console) -> Result<ExitCode> {
    if args.out.is_none() && args.single.is_none() {
        return Err(InputError::new("nothing says where to write")
            .expected("--out DIR for a folder, --single FILE.html for one file, or both")
            .into());
    }
    let catalog = catalog(&args.directory, args.directions.as_deref(), console)?;
    if catalog.results() == 0 {
        return Err(InputError::new("there are no results here")
            .expected("a directory that `etalon run`, `etalon sanity` or `etalon demo` wrote")
            .file(&args.directory)
            .into());
    }
    let mut said = Vec::new();
    let mut answer = json!({"results": catalog.results()});
    if let Some(out) = &args.out {
        let files = serve::folder(&catalog, out)?;
        said.push(format!("explorer: {} ({files} files, for any web server)", out.join("index.html").display()));
        answer["out"] = json!(out);
    }
    if let Some(file) = &args.single {
        let length = serve::single(&catalog, file)?;
        said.push(format!("explorer: {} ({} kB, opens by itself)", file.display(), length / 1000));
        answer["single"] = json!(file);
    }
    console.answer(said.join("\n"), || answer);
    Ok(ExitCode::SUCCESS)
}

fn catalog(directory: &Path, directions: Option<&Path>, console: &Console) -> Result<Catalog> {
    // The last part of `.` has no name of its own.
    let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
    Catalog::open(directory, name.unwrap_or_else(|| "Results".into()), directions, console.budget())
}
