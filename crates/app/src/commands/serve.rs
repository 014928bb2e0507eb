//! `etalon serve` and `etalon export`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::{InputError, Result};
use etalon::results::Archive;
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;
use crate::serve::{self, Address, Catalog, Server, Token};

/// Serves the explorer until Ctrl-C.
pub fn run(args: &cli::Serve, console: &Console) -> Result<ExitCode> {
    let address = Address::new(args.bind.as_deref(), args.port)?;
    let server = Server::bind(address, Token::new()?, catalog(&args.directory, args.directions.as_deref(), console)?)?;
    if address.is_open() {
        console
            .status("warning: other machines can reach this server; anyone with the full address can see the results");
    }
    let url = server.url();
    console.print(&url, || json!({"url": url}))?;
    let context = console.context.clone();
    server.run(move || context.check().is_err())?;
    Ok(ExitCode::SUCCESS)
}

/// Exports the explorer as files.
pub fn export(args: &cli::Export, console: &Console) -> Result<ExitCode> {
    if args.out.is_none() && args.single.is_none() {
        return Err(InputError::new("`--out` or `--single` is required")
            .expected("--out DIR for a folder, --single FILE.html for one file, or both")
            .into());
    }
    let read = ["results", "samples.jsonl", "images"].map(|part| ("DIR", args.directory.join(part)));
    let read = read.into_iter().chain(args.directions.clone().map(|path| ("--directions", path)));
    let paths = read.fold(Paths::default(), |paths, (option, path)| paths.input(option, path));
    paths.output("--out", args.out.as_ref()).output("--single", args.single.as_ref()).check()?;
    let catalog = catalog(&args.directory, args.directions.as_deref(), console)?;
    if catalog.results() == 0 {
        return Err(Archive::open_existing(&args.directory)?.no_results().into());
    }
    let mut text = Vec::new();
    let mut json = json!({"results": catalog.results()});
    if let Some(out) = &args.out {
        let files = serve::folder(&catalog, out)?;
        text.push(format!("explorer: {} ({files} files, for any web server)", out.join("index.html").display()));
        json["out"] = json!(out);
    }
    if let Some(file) = &args.single {
        let length = serve::single(&catalog, file)?;
        text.push(format!("explorer: {} ({} kB, standalone)", file.display(), length / 1000));
        json["single"] = json!(file);
    }
    console.print(text.join("\n"), || json)?;
    Ok(ExitCode::SUCCESS)
}

fn catalog(directory: &Path, directions: Option<&Path>, console: &Console) -> Result<Catalog> {
    // A relative path such as `.` has no file name.
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
    Catalog::open(directory, name.unwrap_or_else(|| "Results".into()), directions, console.budget())
}
