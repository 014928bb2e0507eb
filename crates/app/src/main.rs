//! The command line of Etalon.

mod bar;
mod cli;
mod commands;
mod console;
mod fetch;
mod judge;
mod network_args;
mod options;
mod outputs;
mod serve;
mod tensorboard;

use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches};

use cli::{Cli, Command};
use console::Console;

fn main() -> ExitCode {
    etalon::network::provide_networks(etalon_models::open_text_run);
    etalon::input::provide_packages(|name| etalon_models::data::resolve(name, None));
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let (cli, matches) = match parse(&words) {
        Ok(parsed) => parsed,
        Err(error) => return explain(&error),
    };
    let console = match Console::new(&cli.common) {
        Ok(console) => console,
        Err(error) => return console::report_failure(&error, cli.common.json),
    };
    judge::provide(&console);
    dispatch(&cli, &matches, &console).unwrap_or_else(|error| console::report_failure(&error, cli.common.json))
}

/// Reads a command line, with the name of the program in front.
fn parse(words: &[String]) -> Result<(Cli, ArgMatches), clap::Error> {
    let matches = options::command(words).try_get_matches_from(words)?;
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

/// Runs a command.
fn dispatch(cli: &Cli, matches: &ArgMatches, console: &Console) -> etalon::error::Result<ExitCode> {
    let own_matches = matches.subcommand().map(|(_, own)| own);
    match &cli.command {
        Command::Demo(args) if args.real => commands::demo_real::run(args, console),
        Command::Demo(args) => commands::demo::run(args, console),
        Command::Data(args) => commands::data::run(args, own_matches, console),
        Command::Fetch(args) => commands::fetch::run(args, console),
        Command::Inspect(args) => commands::inspect::run(args, console),
        Command::Models(args) => commands::models::run(args, console),
        Command::Capture(args) => commands::capture::run(args, console),
        Command::Similarity(args) => commands::similarity::run(args, console),
        Command::Cache(args) => commands::cache::run(args, console),
        Command::Generate(args) => commands::generate::run(args, console),
        Command::Train(args) => commands::train::run(args, console),
        Command::Archs(args) => commands::archs::run(args, console),
        Command::Encode(args) => commands::encode::run(args, console),
        Command::Convert(args) => commands::convert::run(args, console),
        Command::Layout(args) => commands::layout::run(args, console),
        Command::Eval(args) => commands::eval::run(args, own_matches, console),
        Command::Stress(args) => commands::stress::run(args, console),
        Command::Tasks(args) => commands::tasks::run(args, console),
        Command::Sanity(args) => commands::sanity::run(args, console),
        Command::Run(args) => commands::run::run(args, console),
        Command::Unit(args) => commands::unit::run(args, console),
        Command::Report(args) => commands::report::run(args, console),
        Command::Samples(args) => commands::samples::run(args, console),
        Command::Serve(args) => commands::serve::run(args, console),
        Command::Export(args) => commands::serve::export(args, console),
        Command::ImportResults(args) => commands::import_results::run(args, console),
        Command::Verify(args) => commands::verify::run(args, console),
        Command::Metrics(args) => commands::metrics::run(args, console),
        Command::Completions(args) => commands::completions::run(args, console),
    }
}

/// Prints help, the version, or what is wrong with the arguments.
fn explain(error: &clap::Error) -> ExitCode {
    match console::printed(error.print()) {
        Ok(()) => ExitCode::from(error.exit_code() as u8),
        Err(error) => console::report_failure(&error, false),
    }
}
