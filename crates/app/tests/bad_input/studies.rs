//! Study files that cannot be followed.

use crate::common::Sandbox;
use crate::{Case, case};

const SET: &str = "[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\nlabels = \"labels.csv\"\n";

/// A study that is right but for what is put before and after its set.
fn study(room: &Sandbox, before: &str, after: &str) -> String {
    room.write("s.toml", format!("out = \"out\"\n{before}\n{SET}{after}"));
    "run s.toml".into()
}

const MATCH: &str = "metrics = [\"match\"]";

pub fn cases() -> Vec<Case> {
    vec![
        case("missing", |_| "run no.toml".into(), &["no such file", "file: no.toml"]),
        case(
            "a directory",
            |room| {
                std::fs::create_dir(room.path("s.toml")).unwrap();
                "run s.toml".into()
            },
            &["a directory", "file: s.toml"],
        ),
        case(
            "a pipe",
            |room| {
                assert!(std::process::Command::new("mkfifo").arg(room.path("s.toml")).status().unwrap().success());
                "run s.toml".into()
            },
            &["expected: a regular file", "found: a pipe", "file: s.toml"],
        ),
        case(
            "not text",
            |room| {
                room.write("s.toml", b"title = \"\xff\"");
                "run s.toml".into()
            },
            &["UTF-8", "file: s.toml"],
        ),
        case(
            "not TOML",
            |room| study(room, "metrics = [\"match\"", ""),
            &["the study is invalid", "missing comma", "line 3", "file: s.toml"],
        ),
        case(
            "an unknown key",
            |room| study(room, &format!("{MATCH}\nseed = 3"), ""),
            &["unknown field `seed`", "seeds", "line 3", "file: s.toml"],
        ),
        case("no metrics", |room| study(room, "", ""), &["missing field `metrics`", "file: s.toml"]),
        case(
            "an empty list of metrics",
            |room| study(room, "metrics = []", ""),
            &["at least one metric", "file: s.toml"],
        ),
        case(
            "no sets",
            |room| {
                room.write("s.toml", "metrics = [\"match\"]\nout = \"out\"\n");
                "run s.toml".into()
            },
            &["set", "file: s.toml"],
        ),
        case("no seeds", |room| study(room, &format!("{MATCH}\nseeds = []"), ""), &["one seed", "file: s.toml"]),
        case(
            "a seed below 0",
            |room| study(room, &format!("{MATCH}\nseeds = [-1]"), ""),
            &["-1", "line 3", "file: s.toml"],
        ),
        case(
            "an unknown metric",
            |room| study(room, "metrics = [\"mach\"]", ""),
            &["no metric `mach`", "expected: match", "key `metrics`", "file: s.toml"],
        ),
        case(
            "a metric twice",
            |room| study(room, "metrics = [\"match\", \"match\"]", ""),
            &["`match`", "twice", "key `metrics`", "file: s.toml"],
        ),
        case(
            "an unknown profile",
            |room| study(room, &format!("{MATCH}\nprofile = \"quick\""), ""),
            &["quick", "line 3", "file: s.toml"],
        ),
        case("two sets of the same name", |room| study(room, MATCH, SET), &["two sets are called `a`", "file: s.toml"]),
        case(
            "a set without a name",
            |room| study(room, MATCH, "[[set]]\ncodes = \"codes.npy\"\n"),
            &["a set has no name", "[[set]]", "file: s.toml"],
        ),
        case(
            "an unknown key in a set",
            |room| study(room, MATCH, "label = \"labels.csv\"\n"),
            &["the set `a`", "unknown field `label`", "labels", "file: s.toml"],
        ),
        case(
            "an unknown key in the inputs",
            |room| study(room, &format!("{MATCH}\n[inputs]\ncode = \"x\""), ""),
            &["unknown field `code`", "line 4", "file: s.toml"],
        ),
        case(
            "parameters of a metric that is not evaluated",
            |room| study(room, &format!("{MATCH}\n[params.cknna]\nneighbours = 3"), ""),
            &["`cknna`", "[params.cknna]", "file: s.toml"],
        ),
        case(
            "an unknown parameter",
            |room| study(room, &format!("{MATCH}\n[params.match]\nbetas = 1"), ""),
            &["no parameter `betas`", "matcher, beta", "file: s.toml"],
        ),
        case(
            "a parameter out of range",
            |room| study(room, &format!("{MATCH}\n[params.match]\nk = 0"), ""),
            &["`--k`", "from 1 to 1000", "found: `0`", "file: s.toml"],
        ),
        case(
            "results where a file is",
            |room| study(room, MATCH, "").replace("s.toml", "s.toml --out labels.csv"),
            &["the results directory is a file", "file: labels.csv"],
        ),
        case("an engine that does not exist", |room| study(room, MATCH, "") + " --engine cloud", &["cloud", "local"]),
    ]
}
