//! Stored activations and codes, from outside: import, reading, damage, crashes.
#![expect(clippy::single_range_in_vec_init, reason = "a split of one range is a list of one range")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use etalon::codes::{Codes, CodesWriter, Latent};
use etalon::context::{Budget, Context, Progress};
use etalon::error::{Error, Result};
use etalon::input::{Finite, RowReader, Shape};
use etalon::store::{ActivationStore, ImportOptions, SplitRanges, StoredNumber, import, verify};
use proptest::prelude::*;

/// An array that is computed on demand: every value is a function of its row and column.
struct Made {
    shape: Shape,
    next: usize,
    /// Returns at most this many rows at a time, as a decompressor would.
    most: usize,
    /// Rows and columns of values that are NaN.
    spoiled: Vec<(usize, usize)>,
    salt: u32,
}

impl Made {
    fn new(rows: usize, width: usize) -> Made {
        let shape = Shape { rows, width, rows_per_sample: None };
        Made { shape, next: 0, most: usize::MAX, spoiled: Vec::new(), salt: 0 }
    }

    fn value(&self, row: usize, column: usize) -> f32 {
        if self.spoiled.contains(&(row, column)) {
            return f32::NAN;
        }
        let index = (row * self.shape.width + column) as u32 ^ self.salt;
        (index.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 20) as f32 - 8.0
    }

    fn all(&self) -> Vec<f32> {
        let width = self.shape.width;
        (0..self.shape.rows * width).map(|index| self.value(index / width, index % width)).collect()
    }
}

impl RowReader for Made {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        "made"
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let width = self.shape.width;
        let rows = (out.len() / width).min(self.shape.rows - self.next).min(self.most);
        for (index, value) in out[..rows * width].iter_mut().enumerate() {
            *value = self.value(self.next + index / width, index % width);
        }
        self.next += rows;
        Ok(rows)
    }
}

fn options() -> ImportOptions {
    let splits: SplitRanges = [("train".into(), vec![0..10, 30..40]), ("test".into(), vec![10..30])].into();
    let samples = Some((0..40).map(|row| row / 4).collect());
    ImportOptions { shard_rows: Some(16), samples, splits, ..ImportOptions::default() }
}

fn quietly(reader: &mut dyn RowReader, out: &Path, options: &ImportOptions) -> Result<ActivationStore> {
    import(reader, out, options, &Context::silent(1, 1 << 30)?)
}

/// The small store that most tests use: 40 rows in shards of 16, 16 and 8.
fn small(out: &Path) -> ActivationStore {
    quietly(&mut Made::new(40, 3), out, &options()).unwrap()
}

fn small_codes() -> Codes {
    let dense: Vec<f32> = (0..30 * 7).map(|i| if i * i % 5 == 1 { i as f32 - 100.5 } else { 0.0 }).collect();
    Codes::from_dense(&dense, 7).unwrap()
}

/// All files by name.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn all(store: &ActivationStore) -> Result<Vec<f32>> {
    Ok(store.tile(0..store.rows())?.values.into_owned())
}

/// Row number, latents, values.
type Entry = (usize, Vec<u32>, Vec<f32>);

fn entries(codes: &Codes) -> Result<Vec<Entry>> {
    Ok(codes.all()?.iter().map(|(row, latents, values)| (row, latents.to_vec(), values.to_vec())).collect())
}

#[test]
fn memory_files_and_shards_give_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let made = Made::new(40, 3);
    let stored = small(&directory.path().join("store"));
    let samples: Vec<u32> = (0..40).map(|row| row / 4).collect();
    let memory = ActivationStore::from_rows(made.all(), 3).unwrap().with_samples(samples.clone()).unwrap();
    // With a padding of 5 the array begins where no f32 can, so it has to be copied out.
    for padding in [0, 5] {
        let path = directory.path().join(format!("plain-{padding}"));
        let bytes = [&vec![1u8; padding], bytemuck::cast_slice::<f32, u8>(&made.all())].concat();
        fs::write(&path, &bytes).unwrap();
        let open = |end: usize| ActivationStore::mapped(&path, padding as u64..end as u64, 3);
        let plain = open(bytes.len()).unwrap();
        assert_eq!(all(&plain).unwrap(), made.all());
        assert_eq!(plain.with_samples(samples.clone()).unwrap().id().unwrap(), memory.id().unwrap());
        assert!(open(bytes.len() + 12).is_err() && open(bytes.len() - 1).is_err());
    }
    assert_eq!(stored.id().unwrap(), memory.id().unwrap());
    assert_eq!(stored.samples(), memory.samples());
    for rows in [0..0, 0..16, 3..5, 15..17, 0..40, 39..40, 40..40] {
        let tile = stored.tile(rows.clone()).unwrap();
        assert_eq!((tile.first_row, tile.rows()), (rows.start, rows.len()));
        assert_eq!(tile.values, memory.tile(rows.clone()).unwrap().values);
        let in_one_shard = rows.is_empty() || rows.start / 16 == (rows.end - 1) / 16;
        assert_eq!(matches!(tile.values, std::borrow::Cow::Borrowed(_)), in_one_shard, "{rows:?}");
    }
    assert!(stored.tile(39..41).is_err());
    let train = stored.select_split("train").unwrap();
    assert_eq!((train.rows(), train.samples().unwrap()[10]), (20, 7));
    let seam = [memory.tile(9..10).unwrap().values, memory.tile(30..31).unwrap().values].concat();
    assert_eq!(train.tile(9..11).unwrap().values, seam);
    // Three shards and the samples, each with its checksums, and the manifest.
    let verified = verify(&directory.path().join("store")).unwrap();
    assert_eq!((verified.files, verified.rows, verified.id), (9, 40, memory.id().unwrap()));
    let copied = quietly(&mut stored.reader(), &directory.path().join("copy"), &options()).unwrap();
    assert_eq!(copied.id().unwrap(), stored.id().unwrap());
}

#[test]
fn stores_may_have_no_rows_or_one_row() {
    let directory = tempfile::tempdir().unwrap();
    for rows in [0, 1] {
        let out = directory.path().join(format!("store-{rows}"));
        let options = ImportOptions { samples: Some(vec![7; rows]), ..ImportOptions::default() };
        let store = quietly(&mut Made::new(rows, 3), &out, &options).unwrap();
        assert_eq!((store.rows(), store.width(), store.samples()), (rows, 3, Some(&vec![7; rows][..])));
        assert_eq!(all(&store).unwrap(), Made::new(rows, 3).all());
        assert_eq!(verify(&out).unwrap().rows, rows);
        let out = directory.path().join(format!("codes-{rows}"));
        let codes = Codes::from_dense(&vec![0.0; rows * 4], 4).unwrap();
        codes.save(&out).unwrap();
        let opened = Codes::open(&out).unwrap();
        assert_eq!((opened.rows(), opened.latents(), opened.entries()), (rows, 4, 0));
        assert_eq!(entries(&opened).unwrap(), entries(&codes).unwrap());
        assert_eq!(verify(&out).unwrap().id, codes.id().unwrap());
    }
}

#[test]
fn rows_of_three_dimensional_arrays_know_their_sample() {
    let directory = tempfile::tempdir().unwrap();
    for most in [1, 4, 6] {
        let mut made = Made::new(6, 2);
        made.shape.rows_per_sample = Some(2);
        made.most = most;
        made.spoiled = vec![(1, 0), (4, 1)];
        let splits: SplitRanges = [("late".into(), vec![1..2, 3..6])].into();
        let options = ImportOptions { finite: Finite::DropRows, splits, ..ImportOptions::default() };
        let store = quietly(&mut made, directory.path(), &options).unwrap();
        // Rows 0 2 3 5 are kept; row 1 was the only row of the first range.
        assert_eq!(store.samples(), Some(&[0, 1, 1, 2][..]));
        assert_eq!(store.splits()["late"], [2..4]);
        assert_eq!(store.tile(1..2).unwrap().row(0), [made.value(2, 0), made.value(2, 1)]);
        verify(directory.path()).unwrap();
    }
}

#[test]
fn values_that_are_not_finite_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut made = Made::new(40, 3);
    made.spoiled = vec![(17, 2), (18, 0)];
    let out = directory.path().join("store");
    let error = quietly(&mut made, &out, &options()).unwrap_err().to_string();
    assert!(error.contains("row 17, column 2") && error.contains("2 such values"), "{error}");
    assert!(!out.join("manifest.json").exists());
    let path = directory.path().join("plain");
    fs::write(&path, bytemuck::cast_slice::<f32, u8>(&made.all())).unwrap();
    // One block contains all rows here, so reading any row finds it.
    let plain = ActivationStore::mapped(&path, 0..480, 3).unwrap();
    let error = plain.tile(30..31).unwrap_err().to_string();
    assert!(error.contains("row 17, column 2") && error.contains("plain"), "{error}");
}

#[test]
fn a_source_that_ends_early_is_refused() {
    struct Short(Made);
    impl RowReader for Short {
        fn shape(&self) -> Shape {
            Shape { rows: 50, ..self.0.shape() }
        }
        fn kind(&self) -> &str {
            "short"
        }
        fn read(&mut self, out: &mut [f32]) -> Result<usize> {
            self.0.read(out)
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let error = quietly(&mut Short(Made::new(40, 3)), directory.path(), &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains("expected: 50 rows\n  found: 40 rows"), "{error}");
    assert!(!directory.path().join("manifest.json").exists());
}

#[test]
fn a_changed_file_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plain");
    fs::write(&path, [0; 48]).unwrap();
    let plain = ActivationStore::mapped(&path, 0..48, 3).unwrap();
    plain.tile(0..1).unwrap();
    fs::write(&path, [0; 24]).unwrap();
    let error = plain.tile(0..4).unwrap_err().to_string();
    assert!(error.contains("changed while it was read") && error.contains("24 bytes"), "{error}");
}

/// Cancels the context that it belongs to after some rows.
struct StopAfter {
    rows: u64,
    done: AtomicU64,
    context: Arc<OnceLock<Context>>,
}

impl Progress for StopAfter {
    fn start(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, steps: u64) {
        let done = self.done.fetch_add(steps, Ordering::Relaxed) + steps;
        if done >= self.rows {
            self.context.get().unwrap().cancel();
        }
    }
    fn finish(&self) {}
}

#[test]
fn a_cancelled_import_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let (out, whole) = (directory.path().join("a"), directory.path().join("b"));
    small(&whole);
    let cell = Arc::new(OnceLock::new());
    let progress = StopAfter { rows: 20, done: AtomicU64::new(0), context: cell.clone() };
    let context = cell.get_or_init(|| Context::new(1, Budget::new(1 << 30), progress).unwrap());
    let mut made = Made::new(40, 3);
    made.most = 5;
    let error = import(&mut made, &out, &options(), context).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    assert_eq!(contents(&out).into_keys().collect::<Vec<_>>(), ["shard-00000.crc", "shard-00000.f32"]);
    let inode = || fs::metadata(out.join("shard-00000.f32")).unwrap().ino();
    let kept = inode();
    assert!(ActivationStore::open(&out).unwrap_err().to_string().contains("not a finished"));
    small(&out);
    assert_eq!(contents(&out), contents(&whole));
    assert_eq!(inode(), kept);
}

#[test]
fn unfinished_work_of_another_source_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (out, whole) = (directory.path().join("a"), directory.path().join("b"));
    small(&whole);
    let mut other = Made::new(90, 3);
    other.salt = 1 << 7;
    quietly(&mut other, &out, &ImportOptions { shard_rows: Some(16), ..ImportOptions::default() }).unwrap();
    fs::remove_file(out.join("manifest.json")).unwrap();
    fs::copy(whole.join("shard-00001.crc"), out.join("shard-00001.crc")).unwrap();
    small(&out);
    assert_eq!(contents(&out), contents(&whole));
}

#[test]
fn a_finished_directory_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("store");
    small(&out);
    let before = contents(&out);
    small(&out);
    let mut other = Made::new(40, 3);
    other.salt = 1 << 31;
    let refused = [
        quietly(&mut other, &out, &options()),
        quietly(&mut Made::new(40, 3), &out, &ImportOptions { splits: SplitRanges::new(), ..options() }),
        quietly(&mut Made::new(40, 3), &out, &ImportOptions { samples: None, ..options() }),
        quietly(&mut Made::new(40, 3), &out, &ImportOptions { shard_rows: None, ..options() }),
        quietly(&mut Made::new(41, 3), &out, &ImportOptions::default()),
    ];
    for error in refused {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("another finished store") && error.contains("choose another directory"), "{error}");
    }
    assert!(small_codes().save(&out).is_err());
    assert_eq!(contents(&out), before);
    let foreign = directory.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "x").unwrap();
    let error = quietly(&mut Made::new(40, 3), &foreign, &options()).unwrap_err().to_string();
    assert!(error.contains("thesis.tex"), "{error}");
    assert_eq!(contents(&foreign).len(), 1);
}

#[test]
fn codes_are_the_same_however_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let codes = small_codes();
    let saved = directory.path().join("saved");
    codes.save(&saved).unwrap();
    codes.save(&saved).unwrap();
    for step in [1, 7, 30] {
        let out = directory.path().join(format!("step-{step}"));
        let mut writer = CodesWriter::create(&out, 7).unwrap();
        for first in (0..30).step_by(step) {
            writer.append(codes.view(first..(first + step).min(30)).unwrap()).unwrap();
        }
        let opened = writer.finish().unwrap();
        assert_eq!(opened.id().unwrap(), codes.id().unwrap());
        assert_eq!(entries(&opened).unwrap(), entries(&codes).unwrap());
        let column = |codes: &Codes| codes.columns().unwrap().latent(Latent(3)).0.to_vec();
        assert_eq!(column(&opened), column(&codes));
        let picked = |codes: &Codes| codes.select(&[29, 2]).unwrap().id().unwrap();
        assert_eq!(picked(&opened), picked(&codes));
        for rows in [0..0, 5..9, 30..30] {
            assert_eq!(opened.view(rows.clone()).unwrap().rows(), rows.len());
        }
        assert!(opened.view(30..31).is_err() && codes.view(30..31).is_err());
        assert_eq!(contents(&out), contents(&saved));
    }
    let mut narrow = CodesWriter::create(&directory.path().join("narrow"), 6).unwrap();
    assert!(narrow.append(codes.all().unwrap()).is_err());
    let error = codes.select(&[0, 1]).unwrap().save(&saved).unwrap_err().to_string();
    assert!(error.contains("another finished store"), "{error}");
    Codes::open(&saved).unwrap().save(&directory.path().join("again")).unwrap();
    assert_eq!(contents(&directory.path().join("again")), contents(&saved));
}

/// One bit of every byte in turn: verifying must fail, reading must fail or give the same answer.
fn flip_everything<T: PartialEq>(directory: &Path, read: impl Fn() -> Result<T>) {
    let expected = read().unwrap();
    for (name, bytes) in contents(directory) {
        let path = directory.join(&name);
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 1 << (index % 8);
            fs::write(&path, &flipped).unwrap();
            assert!(verify(directory).is_err(), "byte {index} of {name}");
            assert!(read().is_ok_and(|found| found == expected) || read().is_err(), "byte {index} of {name}");
        }
        let longer = [&bytes[..], b"\n"].concat();
        for damaged in [&bytes[..0], &bytes[..bytes.len() / 2], &bytes[..bytes.len() - 1], &longer] {
            fs::write(&path, damaged).unwrap();
            assert!(verify(directory).is_err() && read().is_err(), "{name} with {} bytes", damaged.len());
        }
        fs::remove_file(&path).unwrap();
        assert!(verify(directory).is_err() && read().is_err(), "{name} is gone");
        fs::write(&path, &bytes).unwrap();
    }
    verify(directory).unwrap();
}

#[test]
fn no_flipped_byte_of_activations_changes_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    small(directory.path());
    flip_everything(directory.path(), || {
        let store = ActivationStore::open(directory.path())?;
        Ok((all(&store)?, store.samples().map(<[u32]>::to_vec), store.splits().clone(), store.id()?))
    });
}

#[test]
fn no_flipped_byte_of_codes_changes_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    small_codes().save(directory.path()).unwrap();
    flip_everything(directory.path(), || {
        let codes = Codes::open(directory.path())?;
        Ok((entries(&codes)?, codes.latents(), codes.id()?))
    });
}

#[test]
fn an_error_names_file_and_block() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("store");
    // 3 MB in one shard, so three blocks.
    quietly(&mut Made::new(1000, 750), &out, &ImportOptions::default()).unwrap();
    let path = out.join("shard-00000.f32");
    let mut bytes = fs::read(&path).unwrap();
    bytes[(1 << 20) + 5] ^= 4;
    fs::write(&path, bytes).unwrap();
    let error = verify(&out).unwrap_err().to_string();
    assert!(error.contains("bytes 1048576 to 2097152") && error.contains("shard-00000.f32"), "{error}");
    let store = ActivationStore::open(&out).unwrap();
    store.tile(0..300).unwrap();
    store.tile(900..1000).unwrap();
    assert!(store.tile(300..400).unwrap_err().to_string().contains("damaged"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_gives_the_same_content(
        (rows, width) in (0usize..60, 1usize..6),
        (shard, most, budget) in (1usize..70, 1usize..70, 64u64..4000),
        (from, length) in (0usize..60, 0usize..60),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut made = Made::new(rows, width);
        made.most = most;
        let options = ImportOptions { shard_rows: Some(shard), ..ImportOptions::default() };
        let context = Context::silent(1, budget).unwrap();
        let store = import(&mut made, directory.path(), &options, &context).unwrap();
        let memory = ActivationStore::from_rows(made.all(), width).unwrap();
        prop_assert_eq!(store.id().unwrap(), memory.id().unwrap());
        let start = from.min(rows);
        let tile = start..(start + length).min(rows);
        prop_assert_eq!(store.tile(tile.clone()).unwrap().values, memory.tile(tile).unwrap().values);
        verify(directory.path()).unwrap();
    }
}

/// Names the work that a child process of this test does, and where.
const WORK: &str = "ETALON_STORE_WORK";
const OUT: &str = "ETALON_STORE_OUT";

/// Not a test by itself: what the tests below run in a process that they can measure or kill.
#[test]
fn child() {
    let (Ok(work), Ok(out)) = (std::env::var(WORK), std::env::var(OUT)) else { return };
    let out = PathBuf::from(out);
    match work.as_str() {
        "small" => {
            let mut made = Made::new(40, 3);
            made.most = 11;
            quietly(&mut made, &out, &options()).unwrap();
        }
        "codes" => small_codes().save(&out).unwrap(),
        "large" => import_and_scan(&out),
        "long" => {
            let mut made = Made::new(4_000, 256);
            made.most = 100;
            quietly(&mut made, &out, &ImportOptions { shard_rows: Some(500), ..ImportOptions::default() }).unwrap();
        }
        other => panic!("unknown work {other}"),
    }
}

fn start(work: &str, out: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "store::child", "--nocapture"])
        .env(WORK, work)
        .env(OUT, out)
        .env_remove("ETALON_CRASH_AT");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// 64 MB through a budget of 4 MB. The peak also counts pages of the program itself that this work is the first to
/// touch, a few MB that differ between machines; it must stay far below the size of the array.
fn import_and_scan(out: &Path) {
    let before = peak_memory();
    let held = || peak_memory() - before;
    let (rows, width) = (32_768, 512);
    let context = Context::silent(1, 4_000_000).unwrap();
    let made = &mut Made::new(rows, width);
    let options = ImportOptions { shard_rows: Some(10_000), ..ImportOptions::default() };
    let store = import(made, out, &options, &context).unwrap();
    assert_eq!(context.budget().left(), 4_000_000);
    assert!(held() < 16_000_000, "{} bytes while importing", held());
    // Once more: all rows are compared with the stored ones.
    made.next = 0;
    import(made, out, &options, &context).unwrap();
    assert!(held() < 16_000_000, "{} bytes while comparing", held());
    for first in (0..rows).step_by(1024) {
        let tile = store.tile(first..first + 1024).unwrap();
        assert_eq!(tile.row(1023)[511], made.value(first + 1023, 511));
        assert!(tile.values.iter().all(|value| value.abs() <= 8.0));
    }
    verify(out).unwrap();
    assert!(held() < 48_000_000, "{} bytes while scanning", held());
}

/// The most memory that this process ever had, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn an_array_larger_than_the_budget_is_imported_and_scanned() {
    let directory = tempfile::tempdir().unwrap();
    let output = start("large", &directory.path().join("store")).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_import_that_was_killed_ends_with_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole");
    let clock = std::time::Instant::now();
    assert!(start("long", &whole).status().unwrap().success());
    let time = clock.elapsed();
    for part in 0..5 {
        let out = directory.path().join(format!("killed-{part}"));
        for turn in 0..2 {
            let mut running = start("long", &out).spawn().unwrap();
            std::thread::sleep(time * (2 * part + turn) / 10);
            // Signal 9; it may have ended already.
            let _ = running.kill();
            running.wait().unwrap();
            if let Ok(store) = ActivationStore::open(&out) {
                assert_eq!(store.rows(), 4_000);
            }
        }
        assert!(start("long", &out).status().unwrap().success());
        assert!(contents(&out) == contents(&whole), "part {part}");
    }
}

/// Aborts at every storage operation in turn, runs again, and compares every byte with an undisturbed run.
#[cfg(feature = "crash-points")]
fn crash_sweep(work: &str) {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole");
    assert!(start(work, &whole).status().unwrap().success());
    let expected = contents(&whole);
    for operation in 1.. {
        let out = directory.path().join(format!("crash-{operation}"));
        let ended = start(work, &out).env("ETALON_CRASH_AT", operation.to_string()).status().unwrap().success();
        if out.join("manifest.json").exists() {
            verify(&out).unwrap();
        }
        assert!(start(work, &out).status().unwrap().success(), "after a crash at operation {operation}");
        assert!(contents(&out) == expected, "after a crash at operation {operation}");
        if ended {
            assert!(operation > 30, "only {operation} operations");
            return;
        }
    }
}

#[cfg(feature = "crash-points")]
#[test]
fn crash_sweep_of_import() {
    crash_sweep("small");
}

#[cfg(feature = "crash-points")]
#[test]
fn crash_sweep_of_codes() {
    crash_sweep("codes");
}

#[test]
fn half_precision_is_checked_like_single_precision() {
    let directory = tempfile::tempdir().unwrap();
    for (dtype, error) in [(StoredNumber::F16, 2f32.powi(-11)), (StoredNumber::Bf16, 2f32.powi(-8))] {
        let out = directory.path().join(dtype.name());
        let options = ImportOptions { dtype, ..options() };
        let store = quietly(&mut Made::new(40, 3), &out, &options).unwrap();
        let found = store.tile(0..40).unwrap();
        for (found, value) in found.values.iter().zip(Made::new(40, 3).all()) {
            assert!((found - value).abs() <= error * value.abs() + 1e-6, "{found} {value}");
        }
        verify(&out).unwrap();
        // The same again is confirmed, another type is refused.
        quietly(&mut Made::new(40, 3), &out, &options).unwrap();
        assert!(quietly(&mut Made::new(40, 3), &out, &self::options()).is_err());
        let path = out.join(format!("shard-00001.{}", dtype.name()));
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 16 * 3 * 2);
        bytes[7] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(verify(&out).unwrap_err().to_string().contains("damaged"));
        assert!(ActivationStore::open(&out).unwrap().tile(16..20).is_err());
    }
}
