//! How long does it take, and how much memory, to find for each of 65,536 directions of width 768 the largest cosine with
//! another? Peer: products of blocks of rows with all rows in NumPy, of which 4,096 rows are measured.

use etalon::codes::CodesBuilder;
use etalon::error::Result;
use etalon::results::Profile;
use etalon::run::{CODES, DIRECTIONS, Inputs};
use etalon_bench::{answer, best_seconds, embeddings, run};

const LATENTS: usize = 65_536;

fn main() -> Result<()> {
    // The metric needs codes too; two rows cost nothing.
    let mut codes = CodesBuilder::new(LATENTS);
    codes.push(&[0, 7], &[1.0, 2.0])?;
    codes.push(&[3], &[0.5])?;
    let inputs = Inputs::default().with(&CODES, codes.finish()).with(&DIRECTIONS, embeddings(LATENTS, 768)?);
    let seconds = best_seconds(1, || run("core", &inputs, &[], Profile::Paper).map(drop))?;
    answer(seconds, &[]);
    Ok(())
}
