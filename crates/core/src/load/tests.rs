use std::path::Path;
use std::sync::Arc;

use serde_json::Map;

use super::derive::{drop_rows, pool};
use super::{Given, Opening, label_ids};
use crate::codes::{Codes, Latent, Pool};
use crate::context::Context;
use crate::labels::{Annotations, Concept, Label};
use crate::run::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, GENERATED, Generated, Inputs, LABELS, NULLS, OTHERS, PAIR_CODES,
    POOLING, SAMPLES, Samples,
};
use crate::sae::{Dictionary, checkpoint, untrained};
use crate::store::{ActivationStore, write_npy};

fn context() -> Context {
    Context::silent(2, 1 << 24).unwrap()
}

fn value(row: usize, column: usize) -> f32 {
    ((row * 7 + column * 3) % 11) as f32 - 5.0
}

fn write(directory: &Path, name: &str, rows: usize) {
    write_npy(&directory.join(name), rows, 4, |row, into| {
        into.iter_mut().enumerate().for_each(|(column, into)| *into = value(row, column));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_dictionary_provides_codes_and_directions() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path(), "x.npy", 20);
    write(scratch.path(), "pairs.npy", 6);
    let store = ActivationStore::from_rows((0..80).map(|i| value(i / 4, i % 4)).collect(), 4).unwrap();
    let dictionary = untrained(&store, 9, 2, 0).unwrap();
    checkpoint::save(&dictionary, &Map::new(), "etalon", &scratch.path().join("sae")).unwrap();
    let (context, opening) = (context(), Opening::at(scratch.path()));
    let given = Given::default()
        .with("sae", "sae")
        .with("embeddings", "x.npy")
        .with("pair-embeddings", "pairs.npy")
        .with("generated", "a=x.npy");
    let opened = given.open(&opening, &context).unwrap();
    let inputs = opened.inputs;
    assert_eq!(opened.recognised.unwrap().text, "Etalon, untrained, 4 → 9, k 2");
    let (codes, pair_codes) = (inputs.find(&CODES).unwrap(), inputs.find(&PAIR_CODES).unwrap());
    assert_eq!((codes.rows(), codes.latents(), pair_codes.rows()), (20, 9, 6));
    assert_eq!(codes.view(0..6).unwrap().row(3), pair_codes.all().unwrap().row(3));
    // A generator whose output equals the real rows has their codes.
    let (name, output) = inputs.all(&GENERATED).next().unwrap();
    assert_eq!((name, output.codes.id().unwrap()), ("a", codes.id().unwrap()));
    assert_eq!(output.embeddings.as_ref().unwrap().rows(), 20);
    let directions = inputs.find(&DIRECTIONS).unwrap();
    assert_eq!(directions.tile(8..9).unwrap().values[..], *dictionary.direction(Latent(8)));
    assert_eq!(inputs.find(&DICTIONARY).unwrap().id(), dictionary.id());

    // A dictionary that is only compared with others needs no rows; the others may be arrays.
    let compared = Given::default().with("sae", "sae").with("other", "sae").with("other", "x.npy");
    let alone = compared.open(&opening, &context).unwrap().inputs;
    assert_eq!(alone.all(&OTHERS).map(|(_, other)| other.rows()).collect::<Vec<_>>(), [9, 20]);
    assert!(!alone.has(&CODES) && alone.has(&DIRECTIONS));

    // Codes besides a dictionary are refused. A dictionary without rows has directions and no codes.
    let error = given.with("codes", "x.npy").open(&opening, &context).unwrap_err().to_string();
    assert!(error.contains("differ in latents") || error.contains("both codes and a dictionary"), "{error}");
    let alone = Given::default().with("sae", "sae").open(&opening, &context).unwrap().inputs;
    assert!(!alone.has(&CODES) && alone.has(&DIRECTIONS));
    for (metric, missing) in [("stability", "other"), ("match", "embeddings")] {
        let card = crate::metrics::find(metric).unwrap().card();
        assert_eq!(card.missing(&alone)[0], missing);
    }

    // Directions may be a dictionary too.
    for path in ["sae", "sae/weights.safetensors"] {
        let inputs = Given::default().with("directions", path).open(&opening, &context).unwrap().inputs;
        let directions = inputs.find(&DIRECTIONS).unwrap();
        assert_eq!(directions.tile(8..9).unwrap().values[..], *dictionary.direction(Latent(8)));
    }
}

#[test]
fn a_null_may_be_a_dictionary() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path(), "x.npy", 20);
    let store = ActivationStore::from_rows((0..80).map(|i| value(i / 4, i % 4)).collect(), 4).unwrap();
    let dictionary = untrained(&store, 9, 2, 0).unwrap();
    checkpoint::save(&dictionary, &Map::new(), "etalon", &scratch.path().join("null")).unwrap();
    let (context, opening) = (context(), Opening::at(scratch.path()));
    let given = Given::default().with("sae", "null").with("embeddings", "x.npy").with("null", "null");
    let inputs = given.open(&opening, &context).unwrap().inputs;
    let (_, null) = inputs.all(&NULLS).next().unwrap();
    assert_eq!(null.id().unwrap(), inputs.find(&CODES).unwrap().id().unwrap());
    let error = Given::default().with("codes", "x.npy").with("null", "null").open(&opening, &context).unwrap_err();
    assert!(error.to_string().contains("nothing to encode"), "{error}");
}

#[test]
fn inputs_that_disagree_name_axis_sizes_and_files() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path(), "codes.npy", 20);
    write(scratch.path(), "x.npy", 19);
    let given = Given::default().with("codes", "codes.npy").with("embeddings", "x.npy");
    let error = given.open(&Opening::at(scratch.path()), &context()).unwrap_err().to_string();
    for part in ["`codes` and `embeddings` differ in rows", "20 rows", "19 rows", "codes.npy", "x.npy"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Inputs that are encoded while they are loaded, generators, and tokens to be pooled are compared like all others.
#[test]
fn encoded_inputs_that_disagree_name_axis_sizes_and_files() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path(), "x.npy", 20);
    write(scratch.path(), "few.npy", 19);
    write_npy(&scratch.path().join("narrow.npy"), 20, 3, |_, into| {
        into.fill(1.0);
        Ok(())
    })
    .unwrap();
    let store = ActivationStore::from_rows((0..80).map(|i| value(i / 4, i % 4)).collect(), 4).unwrap();
    checkpoint::save(&untrained(&store, 9, 2, 0).unwrap(), &Map::new(), "etalon", &scratch.path().join("sae")).unwrap();
    let codes = Given::default().with("codes", "x.npy");
    let sae = Given::default().with("sae", "sae").with("embeddings", "x.npy");
    let pooled = Given::default().with("pool", "max").with("sae", "sae").with("embeddings", "narrow.npy");
    let null = codes.clone().with("embeddings", "narrow.npy").with("null", "sae");
    for (given, parts) in [
        (
            codes.with("generated", "a=few.npy"),
            ["`codes` and `generated` a differ in rows", "20 rows in", "x.npy", "19 rows in", "few.npy"],
        ),
        (
            sae.clone().with("generated", "a=few.npy"),
            ["`embeddings` and `generated` a differ in rows", "20 rows in", "x.npy", "19 rows in", "few.npy"],
        ),
        (
            sae.with("generated", "a=narrow.npy"),
            [
                "`sae` and `generated` differ in values per row",
                "4 values per row in",
                "sae",
                "3 values per row in",
                "narrow.npy",
            ],
        ),
        (
            null,
            [
                "`embeddings` and `null` differ in values per row",
                "3 values per row in",
                "narrow.npy",
                "4 values per row in",
                "sae",
            ],
        ),
        (
            pooled,
            [
                "`sae` and `embeddings` differ in values per row",
                "4 values per row in",
                "sae",
                "3 values per row in",
                "narrow.npy",
            ],
        ),
    ] {
        let error = given.open(&Opening::at(scratch.path()), &context()).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}\n{error}");
    }
}

#[test]
fn a_generator_has_a_name_and_a_path() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path(), "x=y.npy", 3);
    let open = |texts: &[&str]| {
        let given = texts.iter().fold(Given::default(), |given, text| given.with("generated", *text));
        given.open(&Opening::at(scratch.path()), &context())
    };
    // The first equals sign separates name and path.
    assert_eq!(open(&["a=x=y.npy"]).unwrap().inputs.all(&GENERATED).next().unwrap().0, "a");
    for wrong in ["x.npy", "=x.npy", "a="] {
        let error = open(&[wrong]).unwrap_err().to_string();
        assert!(error.contains("NAME=PATH") && error.contains(wrong), "{error}");
    }
    let error = open(&["a=x=y.npy", "a=x=y.npy"]).unwrap_err().to_string();
    assert!(error.contains("are called `a`"), "{error}");
}

/// Labels of one concept, which only row 1 has.
fn labels(rows: usize) -> Annotations {
    Annotations::new(vec!["a".into()], rows, |row, _| if row == 1 { Label::Yes } else { Label::No }).unwrap()
}

fn tokens() -> Inputs {
    let codes = Arc::new(Codes::from_dense(&[0.0, 4.0, 5.0, 0.0, 6.0, 0.0], 2).unwrap());
    Inputs::default()
        .with(&CODES, Codes::from_dense(&[1.0, 0.0, 2.0, 0.0, 0.0, 3.0], 2).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(vec![1.0, 3.0, 5.0], 1).unwrap())
        .and(&GENERATED, "a", Generated { codes, embeddings: None })
        .with(&LABELS, labels(3))
}

#[test]
fn rows_are_dropped_from_all_inputs() {
    let mut inputs = tokens();
    drop_rows(&mut inputs, &[0]).unwrap();
    assert_eq!(inputs.find(&CODES).unwrap().all().unwrap().row(0), (&[0u32][..], &[2.0f32][..]));
    assert_eq!(inputs.find(&GENERATED).unwrap().codes.all().unwrap().row(0), (&[0u32][..], &[5.0f32][..]));
    assert_eq!(inputs.find(&LABELS).unwrap().label(0, Concept(0)), Label::Yes);
}

#[test]
fn tokens_are_pooled_to_samples() {
    // Rows 0 and 2 are sample 7; sample 9 is row 1.
    let numbers = |how: Pool| {
        let inputs = tokens().with(&POOLING, how).with(&SAMPLES, Samples(vec![7, 9, 7]));
        inputs.with(&LABELS, labels(2))
    };
    let mut inputs = numbers(Pool::Max);
    let before = pool(&mut inputs, true, &mut Vec::new()).unwrap();
    let real = before.real.unwrap();
    assert_eq!((real.codes.rows(), &*real.samples, before.models.len()), (3, &[0u32, 1, 0][..], 1));
    let codes = inputs.find(&CODES).unwrap();
    assert_eq!((codes.rows(), codes.all().unwrap().row(0)), (2, (&[0u32, 1][..], &[1.0f32, 3.0][..])));
    assert_eq!(&*inputs.find(&EMBEDDINGS).unwrap().tile(0..2).unwrap().values, &[3.0, 3.0]);
    assert_eq!(inputs.find(&GENERATED).unwrap().codes.all().unwrap().row(0), (&[0u32, 1][..], &[6.0f32, 4.0][..]));
    let mut first = numbers(Pool::First);
    let none = pool(&mut first, false, &mut Vec::new()).unwrap();
    assert!(none.real.is_none() && none.models.is_empty());
    assert_eq!(first.find(&GENERATED).unwrap().codes.all().unwrap().row(0), (&[1u32][..], &[4.0f32][..]));
    assert_eq!(&*first.find(&EMBEDDINGS).unwrap().tile(0..2).unwrap().values, &[1.0, 3.0]);
    let short = Generated { codes: Arc::new(Codes::from_dense(&[1.0, 1.0], 2).unwrap()), embeddings: None };
    let mut short = numbers(Pool::Max).without(&GENERATED).and(&GENERATED, "a", short);
    let error = pool(&mut short, true, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("tokens of the generator `a`"), "{error}");
    assert!(pool(&mut tokens().with(&POOLING, Pool::Max), true, &mut Vec::new()).is_err());
}

#[test]
fn labels_are_aligned_with_samples_by_id() {
    let ids = |ids: &[&str]| labels(ids.len()).with_ids(ids.iter().map(|id| id.to_string()).collect());
    let pooled = |samples: &[u32], labels: Annotations| {
        let mut inputs = tokens().with(&POOLING, Pool::Max).with(&SAMPLES, Samples(samples.to_vec()));
        inputs.put(&LABELS, labels);
        let mut notes = Vec::new();
        pool(&mut inputs, false, &mut notes).map_err(|error| error.to_string())?;
        let labels = inputs.find(&LABELS).unwrap();
        Ok::<_, String>(
            (0..labels.rows())
                .map(|row| labels.label(row, Concept(0)))
                .zip(notes.into_iter().map(Some).chain([None, None]))
                .collect::<Vec<_>>(),
        )
    };
    // The second line of the labels has the concept: it belongs to sample 7, which is the first one.
    let rows = pooled(&[7, 9, 7], ids(&["9", "7", "8"])).unwrap();
    assert_eq!(rows.iter().map(|(label, _)| *label).collect::<Vec<_>>(), [Label::Yes, Label::No]);
    assert!(rows[0].1.as_ref().unwrap().contains("1 of 3 rows"), "{rows:?}");
    // Without ids, the numbers must be 0 to N - 1 or ascend, and there is one row per sample.
    assert!(pooled(&[7, 9, 9], labels(2)).is_ok() && pooled(&[1, 0, 1], labels(2)).is_ok());
    let error = pooled(&[9, 7, 9], labels(2)).unwrap_err();
    assert!(error.contains("in which order") && error.contains("`id`"), "{error}");
    for (samples, labels) in [(&[0, 1, 0], labels(3)), (&[0, 2, 0], labels(3)), (&[0, 1, 0], labels(1))] {
        let error = pooled(samples, labels).unwrap_err();
        assert!(error.contains("2 rows, one per sample"), "{error}");
    }
    // Ids that lack a sample are refused, unless both only count.
    let error = pooled(&[7, 9, 7], ids(&["7", "8"])).unwrap_err();
    assert!(error.contains("sample 9"), "{error}");
    assert!(pooled(&[0, 1, 0], ids(&["139", "285"])).is_ok());
    assert!(pooled(&[0, 1, 0], ids(&["285", "139"])).is_err());
}

#[test]
fn labels_are_aligned_with_rows_that_have_numbers() {
    let ids = |ids: &[&str]| labels(ids.len()).with_ids(ids.iter().map(|id| id.to_string()).collect());
    let aligned = |samples: &[u32], labels: Annotations| {
        let store = ActivationStore::from_rows(vec![0.0; samples.len()], 1).unwrap();
        let mut inputs = Inputs::default().with(&LABELS, labels);
        inputs.put(&EMBEDDINGS, store.with_samples(samples.to_vec()).unwrap());
        let mut notes = Vec::new();
        label_ids::align(&mut inputs, &mut notes).map_err(|error| error.to_string())?;
        label_ids::check_order(&inputs).map_err(|error| error.to_string())?;
        label_ids::note_unused(&mut inputs);
        let labels = inputs.find(&LABELS).unwrap();
        let yes = (0..labels.rows()).find(|&row| labels.label(row, Concept(0)) == Label::Yes);
        Ok::<_, String>((yes, notes, inputs.notes(&[&LABELS])))
    };
    // The second line has the concept, and id 285: that is row 2. Line 4 belongs to no row.
    let (yes, notes, unused) = aligned(&[632, 139, 285], ids(&["139", "285", "632", "4"])).unwrap();
    assert_eq!((yes, unused), (Some(2), vec![]));
    assert!(notes[0].contains("1 of 4 rows"), "{notes:?}");
    let error = aligned(&[632, 139, 7], ids(&["139", "285", "632"])).unwrap_err();
    assert!(error.contains("no id 7"), "{error}");
    // An index of pandas, and tokens of samples: by position, with a note where ids are not row numbers.
    assert_eq!(aligned(&[632, 139, 7], ids(&["0", "1", "2"])).unwrap(), (Some(1), vec![], vec![]));
    let (yes, _, unused) = aligned(&[5, 5, 6], ids(&["139", "285", "632"])).unwrap();
    assert!(yes == Some(1) && unused[0].contains("are not compared"), "{unused:?}");
    assert!(aligned(&[5, 5, 6], ids(&["139", "632", "285"])).is_err());
}
