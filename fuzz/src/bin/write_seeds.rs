//! Writes the valid files of every target into a directory, and prints the names of the targets.

use std::io::{self, Write};
use std::path::Path;

use etalon_fuzz::{Scratch, TARGETS};

fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("expected a directory"))?;
    for target in TARGETS {
        let folder = Path::new(&directory).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in Scratch::new(target)?.seeds().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        writeln!(io::stdout(), "{}", target.name)?;
    }
    Ok(())
}
