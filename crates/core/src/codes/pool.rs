//! Pools token rows into samples: one row of codes per text or image.

use std::collections::BTreeMap;

use super::{Codes, CodesBuilder};
use crate::error::{Error, InputError, Result};

/// How the rows of a sample are combined into one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The largest value of each latent, zeros included.
    Max,
    /// The mean over all rows of the sample.
    Mean,
    /// The sum.
    Sum,
    /// The first row, such as the class token of a vision transformer.
    First,
}

impl Pool {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Pool::Max => "max",
            Pool::Mean => "mean",
            Pool::Sum => "sum",
            Pool::First => "cls",
        }
    }
}

impl std::str::FromStr for Pool {
    type Err = Error;

    fn from_str(name: &str) -> Result<Pool> {
        match name {
            "max" => Ok(Pool::Max),
            "mean" => Ok(Pool::Mean),
            "sum" => Ok(Pool::Sum),
            "cls" => Ok(Pool::First),
            other => {
                let wrong = InputError::new("unknown way to pool").expected("max, mean, sum or cls");
                Err(wrong.found(format!("`{other}`")).into())
            }
        }
    }
}

impl Codes {
    /// One row per sample, `0..samples`; a sample without rows is empty. `sample` is the sample of each row.
    pub fn pooled(&self, sample: &[u32], samples: usize, pool: Pool) -> Result<Codes> {
        if sample.len() != self.rows() {
            return Err(InputError::new("there is not one sample id per row of the codes")
                .expected(format!("{} ids, one per row", self.rows()))
                .found(format!("{} ids", sample.len()))
                .advice("export codes and sample ids from the same split")
                .into());
        }
        if let Some(row) = sample.iter().position(|&id| id as usize >= samples) {
            return Err(InputError::new("a row belongs to a sample that does not exist")
                .expected(format!("a sample below {samples}"))
                .found(sample[row])
                .at(format!("row {row}"))
                .advice("check the sample ids; they are counted from 0")
                .into());
        }
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); samples];
        sample.iter().enumerate().for_each(|(row, &id)| members[id as usize].push(row));
        let all = self.all()?;
        let mut builder = CodesBuilder::new(self.latents);
        for rows in &members {
            let rows = if pool == Pool::First { &rows[..rows.len().min(1)] } else { rows };
            // Per latent: the number of its rows, its sum, its largest value.
            let mut pooled: BTreeMap<u32, (usize, f64, f32)> = BTreeMap::new();
            for &row in rows {
                let (latents, values) = all.row(row);
                for (&latent, &value) in latents.iter().zip(values) {
                    let entry = pooled.entry(latent).or_insert((0, 0.0, f32::NEG_INFINITY));
                    *entry = (entry.0 + 1, entry.1 + f64::from(value), entry.2.max(value));
                }
            }
            let (latents, values): (Vec<u32>, Vec<f32>) = pooled
                .into_iter()
                .map(|(latent, (present, sum, largest))| {
                    let value = match pool {
                        Pool::Max if present < rows.len() => largest.max(0.0),
                        Pool::Max => largest,
                        Pool::Mean => (sum / rows.len() as f64) as f32,
                        Pool::Sum | Pool::First => sum as f32,
                    };
                    (latent, value)
                })
                .unzip();
            builder.push(&latents, &values)?;
        }
        Ok(builder.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_pool() {
        // Rows 0 and 2 are sample 0, row 1 is sample 2, sample 1 has no rows.
        let codes = Codes::from_dense(&[1.0, 0.0, -2.0, 5.0, 5.0, 5.0, 3.0, 4.0, -1.0], 3).unwrap();
        let row = |pool, sample| {
            let pooled = codes.pooled(&[0, 2, 0], 3, pool).unwrap();
            let (latents, values) = pooled.all().unwrap().row(sample);
            latents.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>()
        };
        assert_eq!(row(Pool::Max, 0), [(0, 3.0), (1, 4.0), (2, -1.0)]);
        assert_eq!(row(Pool::Mean, 0), [(0, 2.0), (1, 2.0), (2, -1.5)]);
        assert_eq!(row(Pool::Sum, 0), [(0, 4.0), (1, 4.0), (2, -3.0)]);
        assert_eq!(row(Pool::First, 0), [(0, 1.0), (2, -2.0)]);
        assert_eq!((row(Pool::Max, 1), row(Pool::First, 1)), (vec![], vec![]));
        assert_eq!(row(Pool::Max, 2), [(0, 5.0), (1, 5.0), (2, 5.0)]);
        assert!(codes.pooled(&[0, 3, 0], 3, Pool::Max).is_err());
        for pool in [Pool::Max, Pool::Mean, Pool::Sum, Pool::First] {
            assert_eq!(pool.name().parse::<Pool>().unwrap(), pool);
        }
    }
}
