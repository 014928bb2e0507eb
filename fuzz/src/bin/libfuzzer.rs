//! The target that `ETALON_FUZZ` names, driven by libFuzzer. `cargo xtask fuzz` builds and calls this.
#![no_main]

use std::process::abort;
use std::sync::LazyLock;

use etalon_fuzz::{Outcome, Scratch, find};

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| {
    let name = std::env::var("ETALON_FUZZ").unwrap_or_default();
    let scratch = find(&name).map(Scratch::new);
    scratch.and_then(Result::ok).unwrap_or_else(|| {
        eprintln!("ETALON_FUZZ must name a target, found `{name}`");
        abort()
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match SCRATCH.check(input) {
        Ok(Outcome::Accepted | Outcome::Refused(_)) => {}
        Ok(Outcome::Wrong(what)) => {
            eprintln!("{what}");
            abort()
        }
        Err(error) => {
            eprintln!("cannot write an input: {error}");
            abort()
        }
    }
});
