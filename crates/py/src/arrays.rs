//! Arrays of NumPy as inputs. Rows of numbers are not copied.

use std::sync::Arc;

use etalon::codes::CodesBuilder;
use etalon::error::InputError;
use etalon::labels::{Annotations, Label};
use etalon::store::ActivationStore;
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::raised;
use crate::session::Session;

/// Activations: rows of numbers.
#[pyclass(frozen)]
pub struct Rows(pub Arc<ActivationStore>);

#[pymethods]
impl Rows {
    /// The rows of a contiguous array, which must not change while they are used; `samples` has the sample of every row.
    #[new]
    fn new(
        py: Python<'_>,
        array: &Bound<'_, PyArray2<f32>>,
        samples: Option<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<Rows> {
        let width = array.shape()[1];
        let samples = samples.map(|samples| samples.as_slice().map(<[u32]>::to_vec)).transpose()?;
        let memory = ArrayMemory::of(array)?;
        let store = py.detach(|| {
            let store = ActivationStore::from_memory(memory, width)?;
            match samples {
                Some(samples) => store.with_samples(samples),
                None => Ok(store),
            }
        });
        Ok(Rows(Arc::new(raised(py, store)?)))
    }

    /// Rows and width.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.rows(), self.0.width())
    }
}

/// The memory of a NumPy array, which lives as long as this does.
struct ArrayMemory {
    _array: Py<PyArray2<f32>>,
    start: *const f32,
    count: usize,
}

impl ArrayMemory {
    fn of(array: &Bound<'_, PyArray2<f32>>) -> PyResult<ArrayMemory> {
        // Also checks that it is contiguous and aligned, and that no other Rust code writes to it now.
        let readable = array.try_readonly()?;
        let values = readable.as_slice()?;
        Ok(ArrayMemory { _array: array.clone().unbind(), start: values.as_ptr(), count: values.len() })
    }
}

#[allow(unsafe_code, reason = "the lifetime of the array is that of its Python object, which is held")]
impl AsRef<[f32]> for ArrayMemory {
    fn as_ref(&self) -> &[f32] {
        // SAFETY: `start` and `count` are a slice of the array, whose object is held, so that its memory is not freed. NumPy
        // moves no memory of an array that is referenced (`resize` refuses it). That Python does not write to it meanwhile is
        // asked of the caller, as every NumPy function that releases the lock does.
        unsafe { std::slice::from_raw_parts(self.start, self.count) }
    }
}

// SAFETY: the memory is only read; dropping the object in another thread is what `Py` is made for.
#[allow(unsafe_code, reason = "the memory is only read")]
unsafe impl Send for ArrayMemory {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "the memory is only read")]
unsafe impl Sync for ArrayMemory {}

/// Sparse codes.
#[pyclass(frozen)]
pub struct Codes(pub Arc<etalon::codes::Codes>);

#[pymethods]
impl Codes {
    /// The codes of a CSR matrix with sorted indices.
    #[staticmethod]
    fn sparse(
        py: Python<'_>,
        session: &Session,
        offsets: PyReadonlyArray1<'_, i64>,
        indices: PyReadonlyArray1<'_, i64>,
        values: PyReadonlyArray1<'_, f32>,
        latents: usize,
    ) -> PyResult<Codes> {
        let (offsets, indices, values) = (offsets.as_slice()?, indices.as_slice()?, values.as_slice()?);
        let codes = session.run(py, |context| {
            let mut builder = CodesBuilder::within(latents, context.budget());
            let mut row = Vec::new();
            for bounds in offsets.windows(2) {
                let range = usize::try_from(bounds[0]).ok().zip(usize::try_from(bounds[1]).ok());
                let entries = range.and_then(|(start, end)| Some((indices.get(start..end)?, values.get(start..end)?)));
                let Some((latents_of_row, values)) = entries else {
                    return Err(InputError::new("the offsets of sparse codes are no ranges of their values").into());
                };
                row.clear();
                for &latent in latents_of_row {
                    let known = u32::try_from(latent).ok().filter(|latent| (*latent as usize) < latents);
                    row.push(known.ok_or_else(|| {
                        InputError::new("a latent of sparse codes is out of range")
                            .expected(format!("0 to {}", latents.saturating_sub(1)))
                            .found(latent)
                    })?);
                }
                builder.push(&row, values)?;
            }
            Ok(builder.finish())
        })?;
        Ok(Codes(Arc::new(codes)))
    }

    /// The codes of a dense array.
    #[staticmethod]
    fn dense(py: Python<'_>, session: &Session, array: PyReadonlyArray2<'_, f32>) -> PyResult<Codes> {
        let (latents, values) = (array.shape()[1], array.as_slice()?);
        let codes = session.run(py, |context| {
            let mut builder = CodesBuilder::within(latents, context.budget());
            values.chunks_exact(latents.max(1)).try_for_each(|row| builder.push_dense(row))?;
            Ok(builder.finish())
        })?;
        Ok(Codes(Arc::new(codes)))
    }

    /// Rows and latents.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.rows(), self.0.latents())
    }
}

/// Annotated concepts.
#[pyclass(frozen)]
pub struct Labels(pub Arc<Annotations>);

#[pymethods]
impl Labels {
    /// Concepts with names; 1 is yes, 0 is no, and everything else is not annotated.
    #[new]
    fn new(py: Python<'_>, names: Vec<String>, array: PyReadonlyArray2<'_, i8>) -> PyResult<Labels> {
        let (rows, concepts) = (array.shape()[0], array.shape()[1]);
        let values = array.as_slice()?;
        let label = |row: usize, concept: usize| match values[row * concepts + concept] {
            1 => Label::Yes,
            0 => Label::No,
            _ => Label::Unknown,
        };
        Ok(Labels(Arc::new(raised(py, Annotations::new(names, rows, label))?)))
    }
}
