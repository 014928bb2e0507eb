//! Dictionaries.

use std::path::PathBuf;
use std::sync::Arc;

use etalon::codes::Latent;
use etalon::run::Checkpoint;
use etalon::sae::train::Record;
use etalon::sae::{checkpoint, encode_store};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::arrays::{Codes, Rows};
use crate::session::Session;

/// A dictionary with the metadata of its file.
#[pyclass(frozen)]
pub struct Dictionary {
    /// The dictionary as an input of metrics.
    pub checkpoint: Arc<Checkpoint>,
    about: Map<String, Value>,
}

/// Offsets, indices and values of a CSR matrix.
type SparseArrays<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f32>>);

impl Dictionary {
    /// A dictionary that was read from a checkpoint.
    pub fn of(loaded: checkpoint::Loaded) -> Dictionary {
        let checkpoint = Checkpoint {
            record: Record::of(&loaded.about),
            dictionary: Arc::from(loaded.dictionary),
            recognised: loaded.recognised,
            notes: loaded.notes,
        };
        Dictionary { checkpoint: Arc::new(checkpoint), about: loaded.about }
    }
}

#[pymethods]
impl Dictionary {
    /// Reads a checkpoint of any format; `settings` is JSON with what its files do not contain.
    #[staticmethod]
    fn load(py: Python<'_>, session: &Session, path: PathBuf, settings: &str) -> PyResult<Dictionary> {
        let settings: Map<String, Value> =
            serde_json::from_str(settings).map_err(|error| PyValueError::new_err(format!("`settings`: {error}")))?;
        session.run(py, |context| checkpoint::load_with(&path, settings, context.budget()).map(Dictionary::of))
    }

    /// Writes it in a format.
    fn save(&self, py: Python<'_>, session: &Session, path: PathBuf, format: &str) -> PyResult<()> {
        session.run(py, |_| checkpoint::save(&*self.checkpoint.dictionary, &self.about, format, &path))
    }

    /// Its architecture.
    #[getter]
    fn arch(&self) -> &str {
        &self.checkpoint.dictionary.card().arch
    }

    /// Latents, width of what it reads, width of what it writes.
    #[getter]
    fn sizes(&self) -> (usize, usize, usize) {
        let card = self.checkpoint.dictionary.card();
        (card.latents, card.width, card.output_width())
    }

    /// The number of active latents per row, if it is fixed.
    #[getter]
    fn k(&self) -> Option<usize> {
        self.checkpoint.dictionary.card().k
    }

    /// The site that it reads, if its file records one.
    #[getter]
    fn site(&self) -> Option<String> {
        self.checkpoint.dictionary.card().site.clone()
    }

    /// The content hash.
    #[getter]
    fn id(&self) -> String {
        self.checkpoint.dictionary.id()
    }

    /// The detected format.
    #[getter]
    fn recognised(&self) -> &str {
        &self.checkpoint.recognised
    }

    /// What a user must know about its file.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.checkpoint.notes.clone()
    }

    /// Other metadata of its file, as JSON.
    #[getter]
    fn about(&self) -> String {
        Value::Object(self.about.clone()).to_string()
    }

    /// The decoder: a row per latent.
    fn directions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (latents, _, width) = self.sizes();
        PyArray1::from_slice(py, self.checkpoint.dictionary.directions()).reshape([latents, width])
    }

    /// The encoder: a row per latent.
    fn encoder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (latents, width, _) = self.sizes();
        let mut rows = vec![0.0; latents * width];
        for (latent, row) in rows.chunks_exact_mut(width.max(1)).enumerate() {
            self.checkpoint.dictionary.encoder_row(Latent(latent as u32), row);
        }
        PyArray1::from_vec(py, rows).reshape([latents, width])
    }

    /// The bias of every latent.
    fn encoder_bias<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, self.checkpoint.dictionary.encoder_bias())
    }

    /// Encodes rows.
    fn encode<'py>(&self, py: Python<'py>, session: &Session, rows: &Rows) -> PyResult<SparseArrays<'py>> {
        let dictionary = &*self.checkpoint.dictionary;
        let (offsets, indices, values) = session.run(py, |context| {
            let codes = encode_store(dictionary, &rows.0, context)?;
            let view = codes.all()?;
            let ends = (0..view.rows()).map(|row| view.entries(row).end as i64);
            let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
            let indices: Vec<i64> = view.latents().iter().map(|&latent| i64::from(latent)).collect();
            Ok((offsets, indices, view.values().to_vec()))
        })?;
        Ok((PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, indices), PyArray1::from_vec(py, values)))
    }

    /// Decodes codes; dictionaries that normalise rows or have a skip connection need the encoded rows.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        session: &Session,
        codes: &Codes,
        source: Option<&Rows>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let dictionary = &*self.checkpoint.dictionary;
        let (rows, width) = (codes.0.rows(), dictionary.card().output_width());
        let out = session.run(py, |_| {
            let mut out = vec![0.0; rows * width];
            let source = source.map(|source| source.0.tile(0..source.0.rows())).transpose()?;
            dictionary.decode(&codes.0.all()?, source.as_ref(), &mut out)?;
            Ok(out)
        })?;
        PyArray1::from_vec(py, out).reshape([rows, width])
    }
}
