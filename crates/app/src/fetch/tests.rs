//! Fetching with programs that pretend to be a client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use etalon::error::Error;
use etalon_models::data::packaged;

use super::archive::Unpacked;
use super::clients::{Client, Package};
use super::*;

/// Copies the text of the package.
fn convert(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    archives.visit(0, &mut |member| {
        if member.name == "package/texts.txt" {
            output.copy("texts.txt", member.content, member.size)?;
        }
        Ok(Unpacked::More)
    })?;
    output.part("", "texts.txt", None);
    output.count("texts", 2);
    Ok(())
}

static CARD: Card = Card {
    name: "etalon-test",
    kind: Kind::Data,
    what: "Two texts",
    licence: "MIT",
    attribution: "nobody",
    version: 1,
    convert,
    packages: &[Package {
        client: Client::Npm,
        name: "etalon-test",
        version: "1.0.0",
        file: "etalon-test-1.0.0.tgz",
        bytes: 165,
        sha256: "d3c851999a0499bb724730b0e43fdbf55c6cbd983a739709b562b6b72abce4c4",
        members: &[],
    }],
};

/// A cache, and a folder with the only programs on the path.
struct Scene {
    folder: tempfile::TempDir,
    context: Context,
    messages: Mutex<Vec<String>>,
}

impl Scene {
    /// A scene with an `npm` that runs a script; the package is `$PACKAGE`.
    fn new(script: &str) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let context = Context::silent(1, 1 << 26).unwrap();
        let scene = Scene { folder, context, messages: Mutex::new(Vec::new()) };
        fs::create_dir(scene.path("programs")).unwrap();
        scene.npm(script);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn package() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/fetch/etalon-test-1.0.0.tgz")
    }

    fn npm(&self, script: &str) {
        let program = self.path("programs/npm");
        let text = format!(
            "#!/bin/sh\nPACKAGE='{}'\necho \"$@\" >> '{}'\n{script}\n",
            Scene::package().display(),
            self.path("calls").display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The arguments of each call.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    fn fetch_from(&self, from: Option<&Path>) -> Result<Fetched> {
        let status = |text: String| self.messages.lock().unwrap().push(text);
        let (cache, path) = (self.path("cache"), Some(self.path("programs").into_os_string()));
        fetch(&CARD, &FetchSettings { cache: &cache, from, path, context: &self.context, status: &status })
    }

    fn fetch(&self) -> Result<Fetched> {
        self.fetch_from(None)
    }

    fn failure(&self) -> String {
        let error = self.fetch().map(drop).unwrap_err();
        assert!(error.is_input(), "{error}");
        assert!(!self.path("cache/packages/etalon-test").exists());
        error.to_string()
    }

    /// Everything below the folder of unfinished work.
    fn partial(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![self.path("cache/packages/.partial/etalon-test")];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                found.push(path.file_name().unwrap().to_string_lossy().into_owned());
                left.push(path);
            }
        }
        found.sort();
        found
    }
}

const COPY: &str = "/bin/cp \"$PACKAGE\" .";

#[test]
fn a_package_is_fetched_once() {
    let scene = Scene::new(COPY);
    let fetched = scene.fetch().unwrap();
    assert!(fetched.is_new);
    assert_eq!(scene.calls(), ["pack --silent --ignore-scripts etalon-test@1.0.0"]);
    assert_eq!(
        scene.messages.lock().unwrap().join("\n"),
        "npm downloads etalon-test 1.0.0 (165 B)\nconverting etalon-test"
    );
    let file = packaged("etalon-test", &scene.path("cache")).unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "one\ntwo\n");
    assert_eq!(scene.partial(), [""; 0]);
    // Nothing is run, not even found, when it is there already.
    fs::remove_file(scene.path("programs/npm")).unwrap();
    let again = scene.fetch().unwrap();
    assert!(!again.is_new && again.entry == fetched.entry);
}

#[test]
fn a_failing_client_is_shown() {
    let lines =
        "for line in 1 2 3 4 5 6 7 8 9; do echo line $line >&2; done; echo 'from https://me:secret@host/x'; exit 7";
    let error = Scene::new(lines).failure();
    assert!(error.contains("`npm pack") && error.contains("7") && error.contains("line 9"), "{error}");
    assert!(!error.contains("line 1\n") && !error.contains("secret"), "{error}");
}

#[test]
fn a_missing_client_is_named_with_what_to_install() {
    let scene = Scene::new(COPY);
    fs::remove_file(scene.path("programs/npm")).unwrap();
    let error = scene.failure();
    assert!(error.contains("`npm` is not installed") && error.contains("apt install npm"), "{error}");
}

#[test]
fn another_package_is_not_unpacked() {
    let scene = Scene::new("echo something else > etalon-test-1.0.0.tgz");
    let error = scene.failure();
    assert!(
        error.contains("d3c851999a") && error.contains("15 bytes") && error.contains("nothing was unpacked"),
        "{error}"
    );
    scene.npm("echo x > other.tgz");
    let error = scene.failure();
    assert!(error.contains("found: other.tgz"), "{error}");
    scene.npm(COPY);
    assert!(scene.fetch().unwrap().is_new);
}

#[test]
fn what_a_killed_process_left_is_removed_or_used() {
    let scene = Scene::new("exit 1");
    let partial = scene.path("cache/packages/.partial/etalon-test");
    for folder in ["archives", "download-1-0", "entry"] {
        fs::create_dir_all(partial.join(folder)).unwrap();
    }
    fs::write(partial.join("entry/texts.txt"), "hal").unwrap();
    fs::write(partial.join("download-1-0/etalon-test-1.0.0.tgz"), "hal").unwrap();
    fs::copy(Scene::package(), partial.join("archives/etalon-test-1.0.0.tgz")).unwrap();
    // The verified archive is enough: the client is not run.
    let fetched = scene.fetch().unwrap();
    assert_eq!(scene.calls(), [""; 0]);
    assert_eq!(fs::read_to_string(fetched.directory.join("texts.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(scene.partial(), [""; 0]);
}

#[test]
fn a_damaged_archive_is_downloaded_again() {
    let scene = Scene::new(COPY);
    let archives = scene.path("cache/packages/.partial/etalon-test/archives");
    fs::create_dir_all(&archives).unwrap();
    fs::write(archives.join("etalon-test-1.0.0.tgz"), "damaged").unwrap();
    assert!(scene.fetch().unwrap().is_new);
    assert_eq!(scene.calls().len(), 1);
}

#[test]
fn an_entry_of_another_version_is_replaced() {
    let scene = Scene::new(COPY);
    let mut fetched = scene.fetch().unwrap();
    fetched.entry.version = 0;
    fs::write(Entry::file(&fetched.directory), serde_json::to_vec(&fetched.entry).unwrap()).unwrap();
    fs::write(fetched.directory.join("old"), "").unwrap();
    let again = scene.fetch().unwrap();
    assert!(again.is_new && !again.directory.join("old").exists());
}

#[test]
fn packages_can_be_given() {
    let scene = Scene::new("exit 1");
    let from = scene.path("from");
    fs::create_dir(&from).unwrap();
    fs::copy(Scene::package(), from.join("etalon-test-1.0.0.tgz")).unwrap();
    assert!(scene.fetch_from(Some(&from)).unwrap().is_new);
    assert!(scene.calls().is_empty() && from.join("etalon-test-1.0.0.tgz").exists());
}

#[test]
fn one_process_fetches_a_name_at_a_time() {
    let scene = Scene::new(COPY);
    let stage = Stage::claim("etalon-test", &scene.path("cache")).unwrap();
    assert!(scene.failure().contains("another process"));
    drop(stage);
    assert!(scene.fetch().unwrap().is_new);
}

#[test]
fn cancelling_ends_the_client() {
    let scene = Scene::new("exec /bin/sleep 60");
    let context = scene.context.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        context.cancel();
    });
    let began = Instant::now();
    assert!(matches!(scene.fetch().map(drop), Err(Error::Cancelled)));
    assert!(began.elapsed() < Duration::from_secs(30));
    canceller.join().unwrap();
}
