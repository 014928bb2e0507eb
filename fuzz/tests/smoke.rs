//! A few thousand changed files for every parser, in a few seconds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use etalon_fuzz::{Mutator, Outcome, Scratch, TARGETS};

/// Time per target.
const EACH: Duration = Duration::from_millis(200);

/// Maximum number of inputs per target.
const MOST: usize = 2000;

#[test]
fn valid_files_are_accepted_and_changed_ones_cause_no_failure() {
    for target in TARGETS {
        let scratch = Scratch::new(target).unwrap();
        let seeds = scratch.seeds();
        for (number, seed) in seeds.iter().enumerate() {
            assert_eq!(scratch.check(seed).unwrap(), Outcome::Accepted, "{}, valid file {number}", target.name);
        }
        for (path, input) in scratch.found().unwrap() {
            let outcome = scratch.check(&input).unwrap();
            assert!(!matches!(outcome, Outcome::Wrong(_)), "{}: {outcome:?}", path.display());
        }
        let (mut mutator, began) = (Mutator::new(1), Instant::now());
        for _ in 0..MOST {
            let input = mutator.next(&seeds);
            if let Outcome::Wrong(what) = scratch.check(&input).unwrap() {
                let kept = std::env::temp_dir().join(format!("etalon-fuzz-{}", target.name));
                std::fs::write(&kept, &input).unwrap();
                panic!("{}: {what}\nthe input is kept as {}", target.name, kept.display());
            }
            if began.elapsed() > EACH {
                break;
            }
        }
    }
}
