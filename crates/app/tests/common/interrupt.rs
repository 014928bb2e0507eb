//! Ctrl-C, and the time until a command ends.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Sandbox, TIME_LIMIT, etalon, words};

/// Clock ticks per second of the times in `/proc`.
const TICKS: f64 = 100.0;

/// The state of a process (`Z` after its end, before it is waited for) and the processor seconds of all its threads.
fn state(child: &Child) -> (char, f64) {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (fields[0].chars().next().unwrap(), (ticks(11) + ticks(12)) / TICKS)
}

/// The longest time from Ctrl-C to the end, on a machine that may run other tests at the same time. Alone it is a second.
pub const WALL_LIMIT: Duration = Duration::from_secs(5);

/// How a command ended after Ctrl-C.
pub struct Interrupted {
    /// Processor seconds per thread from Ctrl-C to the end, which do not depend on what else runs on the machine.
    pub seconds: f64,
    /// The time from Ctrl-C to the end.
    pub wall: Duration,
    /// The exit code.
    pub code: Option<i32>,
}

impl Interrupted {
    /// Checks both times.
    pub fn assert_in_time(&self, what: &str) {
        let Interrupted { seconds, wall, .. } = self;
        assert!(*seconds < 1.0 && *wall < WALL_LIMIT, "{what}: {seconds} s of the processor, {wall:?}");
    }
}

/// Runs a command and sends it Ctrl-C; `None` if the command ended before.
pub fn interrupted(sandbox: &Sandbox, arguments: &str, after: Duration) -> Option<Interrupted> {
    const THREADS: f64 = 2.0;
    let mut command = etalon(&sandbox.path("."), &words(&format!("{arguments} --threads {THREADS}")));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let (running, before) = state(&child);
    if running == 'Z' {
        child.wait().unwrap();
        return None;
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let began = Instant::now();
    let spent = loop {
        let (now, spent) = state(&child);
        if now == 'Z' {
            break spent - before;
        }
        assert!(began.elapsed() < TIME_LIMIT, "{arguments}");
        std::thread::sleep(Duration::from_millis(3));
    };
    let wall = began.elapsed();
    Some(Interrupted { seconds: spent / THREADS, wall, code: child.wait().unwrap().code() })
}
