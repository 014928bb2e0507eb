//! The command line of Etalon.

mod bar;
mod cli;
mod commands;
mod options;
mod serve;
mod session;
mod tensorboard;

use std::process::ExitCode;

use clap::FromArgMatches;

use cli::{Cli, Command};
use session::Session;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let matches = options::command(&words).get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let session = match Session::new(&cli.common) {
        Ok(session) => session,
        Err(error) => return session::report_failure(&error, cli.common.json),
    };
    let inner = matches.subcommand().map(|(_, inner)| inner);
    let done = match &cli.command {
        Command::Demo(args) => commands::demo::run(args, &session),
        Command::Data(args) => commands::data::run(args, inner, &session),
        Command::Train(args) => commands::train::run(args, &session),
        Command::Archs(args) => commands::archs::run(args, &session),
        Command::Encode(args) => commands::encode::run(args, &session),
        Command::Convert(args) => commands::convert::run(args, &session),
        Command::Layout(args) => commands::layout::run(args, &session),
        Command::Eval(args) => commands::eval::run(args, inner, &session),
        Command::Sanity(args) => commands::sanity::run(args, &session),
        Command::Run(args) => commands::run::run(args, &session),
        Command::Unit(args) => commands::unit::run(args, &session),
        Command::Report(args) => commands::report::run(args, &session),
        Command::Samples(args) => commands::samples::run(args, &session),
        Command::Serve(args) => commands::serve::run(args, &session),
        Command::Export(args) => commands::serve::export(args, &session),
        Command::ImportResults(args) => commands::import_results::run(args, &session),
        Command::Verify(args) => commands::verify::run(args, &session),
        Command::Metrics(args) => commands::metrics::run(args, &session),
        Command::Completions(args) => commands::completions::run(args),
    };
    match done {
        Ok(code) => code,
        Err(error) => session::report_failure(&error, cli.common.json),
    }
}
