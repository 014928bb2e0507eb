//! Interleaved measurements: our program and the peer stay loaded and run one repetition at a time, so that variations of
//! the machine affect all of them alike.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

use crate::steps::root;

/// A program that measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Ours.
    Etalon,
    /// The peer in Python.
    Python,
    /// The peer on candle: a package of its own in `benches/candle`.
    Candle,
}

/// One measured program. The peer that makes files which others read comes first in the list.
#[derive(Clone, Copy, PartialEq)]
pub struct Entry {
    /// The program.
    pub by: By,
    /// The name of the measurement.
    pub name: &'static str,
    /// The name in reports.
    pub title: &'static str,
}

/// A promised ratio: the fastest of `slower` takes at least `ratio` times as long as `faster`.
pub struct Promise {
    /// Sizes for which it must hold.
    pub sizes: &'static [usize],
    /// Titles of entries.
    pub slower: &'static [&'static str],
    /// Title of an entry.
    pub faster: &'static str,
    /// The ratio.
    pub ratio: Ratio,
}

/// The ratio of a promise, by int8 instruction set.
#[derive(Clone, Copy)]
pub enum Ratio {
    /// The same on every processor.
    Always(f64),
    /// Higher on processors with AMX.
    Amx {
        /// With AMX.
        with: f64,
        /// Without AMX.
        without: f64,
    },
}

impl Ratio {
    fn by(self, arithmetic: &str) -> f64 {
        match self {
            Ratio::Always(ratio) => ratio,
            Ratio::Amx { with, without } => {
                if arithmetic == "AMX" {
                    with
                } else {
                    without
                }
            }
        }
    }
}

/// A benchmark of several programs at several sizes.
pub struct Contest {
    /// The name of the programs and of the results.
    pub name: &'static str,
    /// The description.
    pub asks: &'static str,
    /// The arguments of the programs.
    pub sizes: &'static [&'static [usize]],
    /// The measured programs.
    pub entries: &'static [Entry],
    /// Repetitions after a warm-up.
    pub rounds: usize,
    /// The promised ratios.
    pub promises: &'static [Promise],
    /// Steps per entry for the total over all sizes, if it is reported.
    pub steps: Option<f64>,
}

/// Seconds of the repetitions of one entry.
#[derive(Clone, Copy)]
struct Times {
    /// Wall-clock time.
    median: f64,
    best: f64,
    /// Minimum processor time.
    work: f64,
}

impl Times {
    fn of(mut taken: Vec<[f64; 2]>) -> Times {
        let work = taken.iter().map(|taken| taken[1]).fold(f64::INFINITY, f64::min);
        taken.sort_by(|a, b| a[0].total_cmp(&b[0]));
        Times { median: taken[taken.len() / 2][0], best: taken[0][0], work }
    }
}

/// A running program that measures on request.
struct Program {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(command: &mut Command, arguments: &[usize]) -> Result<Program> {
        let arguments = arguments.iter().map(usize::to_string);
        let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(root());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (ask, answers) = (child.stdin.take(), child.stdout.take().context("no output")?);
        Ok(Program { child, ask, answers: BufReader::new(answers) })
    }

    /// Sends a line and reads one.
    fn ask(&mut self, name: &str) -> Result<String> {
        let mut line = String::new();
        writeln!(self.ask.as_mut().context("no input")?, "{name}")?;
        self.answers.read_line(&mut line)?;
        Ok(line.trim().to_string())
    }

    /// Seconds of wall-clock and processor time.
    fn measure(&mut self, name: &str) -> Result<[f64; 2]> {
        let line = self.ask(name)?;
        let seconds: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        seconds.try_into().ok().with_context(|| format!("the program gave no seconds for `{name}`"))
    }

    fn end(mut self) -> Result<()> {
        drop(self.ask.take());
        self.child.wait().map(drop).context("a program did not end")
    }
}

impl Contest {
    /// Returns the report and whether all promises were kept.
    pub fn run(&self, programs: &Path, python: &Path) -> Result<(String, bool)> {
        let mut text = format!("{}\n", self.asks);
        let (mut kept, mut sums) = (true, [0.0, 0.0]);
        for size in self.sizes {
            let (times, arithmetic) = self.times(size, programs, python)?;
            let words: Vec<String> = size.iter().map(usize::to_string).collect();
            text += &format!("\n{:<40} {:>12} {:>12} {:>12}\n", words.join(" x "), "best", "median", "processors");
            for (entry, times) in self.entries.iter().zip(&times) {
                let [best, median, work] = [times.best, times.median, times.work].map(|seconds| seconds * 1e3);
                text += &format!("{:<40} {best:>9.1} ms {median:>9.1} ms {work:>9.1} ms\n", entry.title);
                sums[usize::from(entry.by != By::Etalon)] += times.work;
            }
            for promise in self.promises.iter().filter(|promise| promise.sizes.contains(&size[size.len() - 1])) {
                let (line, holds) = self.judge(promise, &times, &arithmetic)?;
                (text, kept) = (text + &line, kept && holds);
            }
        }
        if let Some(steps) = self.steps {
            let [ours, theirs] = sums.map(|seconds| seconds * steps / 3600.0);
            text +=
                &format!("\nall of it, {steps} steps each, hours of a processor: etalon {ours:.1}, peer {theirs:.1}\n");
        }
        Ok((text, kept))
    }

    /// The times of every entry, interleaved, and the int8 instruction set of our program.
    fn times(&self, size: &[usize], programs: &Path, python: &Path) -> Result<(Vec<Times>, String)> {
        let script = root().join(format!("benches/peers/{}.py", self.name));
        let mut ours = Program::start(&mut Command::new(programs.join(self.name)), size)?;
        let has = |by: By| self.entries.iter().any(|entry| entry.by == by);
        let mut theirs = match has(By::Python) {
            // Passive waiting, because spinning threads would count as processor time.
            true => Some(Program::start(Command::new(python).arg(script).env("OMP_WAIT_POLICY", "passive"), size)?),
            false => None,
        };
        let mut candle = match has(By::Candle) {
            true => Some(Program::start(&mut Command::new(programs.join(format!("{}_candle", self.name))), size)?),
            false => None,
        };
        let arithmetic = ours.ask("arithmetic")?;
        let mut seconds = vec![Vec::new(); self.entries.len()];
        for round in 0..=self.rounds {
            for (entry, seconds) in self.entries.iter().zip(&mut seconds) {
                let program = match entry.by {
                    By::Etalon => &mut ours,
                    By::Python => theirs.as_mut().context("no peer")?,
                    By::Candle => candle.as_mut().context("no peer on candle")?,
                };
                let took = program.measure(entry.name)?;
                if round > 0 {
                    seconds.push(took);
                }
            }
        }
        ours.end()?;
        theirs.map_or(Ok(()), Program::end)?;
        candle.map_or(Ok(()), Program::end)?;
        Ok((seconds.into_iter().map(Times::of).collect(), arithmetic))
    }

    /// Checks a promise by processor time, because wall-clock time depends on other load.
    fn judge(&self, promise: &Promise, times: &[Times], arithmetic: &str) -> Result<(String, bool)> {
        let of = |title: &str| -> Result<Times> {
            let index = self.entries.iter().position(|entry| entry.title == title).context("no such entry")?;
            Ok(times[index])
        };
        let slower: Vec<Times> = promise.slower.iter().map(|title| of(title)).collect::<Result<_>>()?;
        let least = |part: fn(&Times) -> f64| slower.iter().map(part).fold(f64::INFINITY, f64::min);
        let faster = of(promise.faster)?;
        let work = least(|times| times.work) / faster.work;
        let best = least(|times| times.best) / faster.best;
        let median = least(|times| times.median) / faster.median;
        let ratio = promise.ratio.by(arithmetic);
        let holds = work >= ratio;
        let why = if let Ratio::Amx { .. } = promise.ratio { format!(" with {arithmetic}") } else { String::new() };
        let line = format!(
            "  {} / {}: {work:.2} (clock: bests {best:.2}, medians {median:.2}), promised {ratio:.2}{why}: {}\n",
            promise.slower.join(" or "),
            promise.faster,
            if holds { "kept" } else { "NOT KEPT" },
        );
        Ok((line, holds))
    }
}
