//! Generated options: those of inputs, metrics, architectures and worlds follow from roles and cards.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches};
use etalon::labels::worlds::{WORLDS, WorldMaker};
use etalon::load::Given;
use etalon::metrics::{self, METRICS, Metric};
use etalon::run::{AnyRole, EMBEDDINGS, Many, ROLES};

use etalon::sae::arch::{self, ArchOption};
use etalon::sae::train::Preset;

use crate::cli::Cli;
use crate::network_args::CaptureOptions;

/// Inputs: one option per role.
pub struct InputArgs {
    /// The inputs by role.
    pub given: Given,
}

fn given_roles() -> impl Iterator<Item = &'static dyn AnyRole> {
    ROLES.iter().copied().filter(|role| role.is_given())
}

impl Args for InputArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(given_roles().map(input_option))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        InputArgs::augment_args(command)
    }
}

impl FromArgMatches for InputArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<InputArgs, clap::Error> {
        let mut given = Given::default();
        for key in given_roles().map(|role| role.card().key) {
            for value in matches.get_many::<String>(key).into_iter().flatten() {
                given.add(key, value);
            }
        }
        Ok(InputArgs { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = InputArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn input_option(role: &'static dyn AnyRole) -> Arg {
    let card = role.card();
    let action = if card.many == Many::One { ArgAction::Set } else { ArgAction::Append };
    let option = Arg::new(card.key).long(card.key).value_name(card.value).help(card.help).action(action);
    let option = option.help_heading("Inputs");
    match card.alias {
        Some(alias) => option.visible_alias(alias),
        None => option,
    }
}

/// Parameters of architectures: one option per parameter of their cards.
pub struct ArchArgs {
    /// Values by option.
    pub given: BTreeMap<String, String>,
}

impl Args for ArchArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(arch::options().iter().filter_map(arch_option))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ArchArgs::augment_args(command)
    }
}

impl FromArgMatches for ArchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ArchArgs, clap::Error> {
        let mut given = BTreeMap::new();
        for name in arch::options().iter().filter_map(|option| option.param.card().option) {
            let values: Vec<&str> =
                matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect();
            if !values.is_empty() {
                given.insert(name.to_string(), values.join(","));
            }
        }
        Ok(ArchArgs { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ArchArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arch_option(option: &ArchOption) -> Option<Arg> {
    let card = option.param.card();
    let defaults = defaults(option.users.iter().map(|(name, param)| (*name, param.default_text(Preset::Etalon))));
    let action = if option.param.is_list() { ArgAction::Append } else { ArgAction::Set };
    let name = card.option?;
    let arg = Arg::new(name).long(name).value_name(card.value).action(action);
    Some(arg.help(format!("{} [default: {defaults}]", card.doc)).help_heading("Architecture options"))
}

/// The defaults of a shared option, names with the same default together: `1 for topk, relu; 2 for mp`.
fn defaults<'a>(users: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, default) in users {
        match groups.iter_mut().find(|(other, _)| *other == default) {
            Some((_, names)) => names.push(name),
            None => groups.push((default, vec![name])),
        }
    }
    let text = |(default, names): &(String, Vec<&str>)| format!("{default} for {}", names.join(", "));
    groups.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// The whole command. If the words contain `eval METRIC`, its help shows the inputs and options of that metric only.
pub fn command(words: &[String]) -> clap::Command {
    let chosen = chosen_metrics(words);
    Cli::command()
        .version(version())
        .mut_subcommand("capture", |capture| {
            // Commands that can do without a network share the options of those that cannot.
            let needed = ["model", "input", "site"];
            let capture = needed.into_iter().fold(capture, |all, id| all.mut_arg(id, |option| option.required(true)));
            capture.mut_arg("weights_seed", |option| option.visible_alias("seed"))
        })
        .mut_subcommand("eval", |eval| {
            let eval = needing_a_network(eval).mut_arg("model", |o| o.conflicts_with(EMBEDDINGS.card().key));
            let eval = eval.args(metric_options(&chosen));
            if chosen.is_empty() { eval } else { eval.mut_args(|option| for_metrics(option, &chosen)) }
        })
        .mut_subcommand("train", needing_a_network)
        .mut_subcommand("data", |data| data.args(world_options()))
}

/// The command with capture options that are refused without a network: they would be ignored.
fn needing_a_network(command: clap::Command) -> clap::Command {
    let options = CaptureOptions::augment_args(clap::Command::new("capture"));
    let ids: Vec<clap::Id> = options.get_arguments().map(|option| option.get_id().clone()).collect();
    ids.into_iter().fold(command, |command, id| command.mut_arg(id, |option| option.requires("model")))
}

/// Version, commit, and the vector and int8 instructions of this processor.
fn version() -> String {
    let (vectors, int8) = (etalon_kernel::neural::instruction_set(), etalon_kernel::int8::Arithmetic::fastest().name());
    format!("{} ({}, {vectors}, int8 by {int8})", env!("CARGO_PKG_VERSION"), env!("ETALON_COMMIT"))
}

/// The metrics named after `eval`; none if any is unknown.
fn chosen_metrics(words: &[String]) -> Vec<&'static dyn Metric> {
    let after = words.iter().skip_while(|word| *word != "eval").skip(1);
    let named = after
        .filter(|word| !word.starts_with('-'))
        .find(|word| word.split(',').all(|name| metrics::find(name).is_some()));
    named.into_iter().flat_map(|word| word.split(',').filter_map(metrics::find)).collect()
}

/// Sorts an input under a heading by how the chosen metrics use it; hides it if they do not.
fn for_metrics(option: Arg, chosen: &[&'static dyn Metric]) -> Arg {
    let Some(role) = given_roles().find(|role| option.get_id() == role.card().key) else { return option };
    let card = role.card();
    let among = |roles: &[&'static dyn AnyRole]| roles.iter().any(|role| role.card().key == card.key);
    let needed = chosen.iter().any(|metric| among(metric.card().needs));
    let used = chosen.iter().any(|metric| among(metric.card().uses));
    let asked: Vec<&str> =
        chosen.iter().flat_map(|metric| metric.card().roles()).map(|role| role.card().name).collect();
    let serves = card.serves.iter().any(|role| asked.contains(&role.card().name));
    match (needed, used, serves) {
        (true, ..) => option.help_heading("Required inputs"),
        (_, true, _) => option.help_heading("Optional inputs"),
        (.., true) => option.help_heading("Other ways to provide inputs"),
        _ => option.hide(true),
    }
}

fn option(name: &'static str, value: &'static str, help: String, heading: &'static str) -> Arg {
    Arg::new(name).long(name.replace('_', "-")).value_name(value).help(help).help_heading(heading)
}

/// One option per parameter. A name shared by several metrics has the same meaning in all of them.
fn metric_options(chosen: &[&'static dyn Metric]) -> Vec<Arg> {
    let mut options: Vec<Arg> = Vec::new();
    for param in METRICS.iter().flat_map(|metric| metric.card().params) {
        if options.iter().any(|option| option.get_id() == param.name) {
            continue;
        }
        let declares =
            |metric: &&&'static dyn Metric| metric.card().params.iter().any(|other| other.name == param.name);
        let users: Vec<&str> = METRICS.iter().filter(declares).map(|metric| metric.card().name).collect();
        let users = if chosen.is_empty() { format!("; {}", users.join(", ")) } else { String::new() };
        let help = format!("{} [{}; default: {}{users}]", param.doc, param.kind.describe(), param.default);
        let value = if param.several { "V[,V..]" } else { "V" };
        let hidden = !chosen.is_empty() && !chosen.iter().any(|metric| declares(&metric));
        options.push(option(param.name, value, help, "Metric options").hide(hidden));
    }
    options
}

fn world_options() -> Vec<Arg> {
    let mut options: Vec<Arg> = Vec::new();
    for setting in WORLDS.iter().flat_map(|world| world.card().settings) {
        if options.iter().any(|option| option.get_id() == setting.name) {
            continue;
        }
        let default = |world: &&'static dyn WorldMaker| {
            let own = world.card().settings.iter().find(|other| other.name == setting.name)?;
            Some((world.card().name, own.default.to_string()))
        };
        let help = format!("{} [default: {}]", setting.doc, defaults(WORLDS.iter().filter_map(default)));
        options.push(option(setting.name, "V", help, "World options"));
    }
    options
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_are_consistent() {
        super::command(&[]).debug_assert();
    }

    #[test]
    fn help_of_a_metric_shows_its_inputs_only() {
        let help = |metric: &str| {
            let words = ["etalon", "eval", metric, "--help"].map(String::from);
            let mut command = super::command(&words);
            let eval = command.find_subcommand_mut("eval");
            eval.map(|eval| eval.render_long_help().to_string()).unwrap_or_default()
        };
        let rows = help("monosemanticity");
        assert!(rows.contains("--embeddings") && rows.contains("Required inputs"), "{rows}");
        assert!(!rows.contains("--pair-labels") && !rows.contains("--generated"), "{rows}");
        // Codes can be made by a dictionary, and pairs point into rows that a dictionary can encode.
        assert!(rows.contains("--sae") && !rows.contains("--pair-store"), "{rows}");
        let pairs = help("tapa");
        assert!(pairs.contains("--pair-store") && pairs.contains("Other ways to provide inputs"), "{pairs}");
    }
}
