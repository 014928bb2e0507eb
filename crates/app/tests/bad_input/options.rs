//! Options and their values.

use crate::{Case, case};

const MATCH: &str = "eval match --codes codes.npy --labels labels.csv --out out.json";

pub fn cases() -> Vec<Case> {
    vec![
        case(
            "no such metric",
            |_| "eval macht --codes codes.npy --out out.json".into(),
            &["there is no metric `macht`", "expected: match, tapa", "etalon metrics"],
        ),
        case(
            "no such metric among several",
            |_| format!("{MATCH} ").replace("match", "match,tapas"),
            &["there is no metric `tapas`"],
        ),
        case("a metric without a name", |_| MATCH.replace("match", "match,"), &["there is no metric ``"]),
        case("the card of no metric", |_| "metrics purity".into(), &["there is no metric `purity`", "expected: match"]),
        case(
            "beta below its range",
            |_| format!("{MATCH} --beta=-1"),
            &["invalid value for `--beta`", "a number from 0.01 to 100", "found: `-1`"],
        ),
        case("beta that is no number", |_| format!("{MATCH} --beta NaN"), &["`--beta`", "found: `NaN`"]),
        case("one of several beta", |_| format!("{MATCH} --beta 0.5,x,1"), &["`--beta`", "found: `x`"]),
        case("a list that ends with a comma", |_| format!("{MATCH} --k 1,3,"), &["`--k`", "found: ``"]),
        case("k of 0", |_| format!("{MATCH} --k 0"), &["`--k`", "a whole number from 1 to 1000", "found: `0`"]),
        case("k with a fraction", |_| format!("{MATCH} --k 2.5"), &["`--k`", "found: `2.5`"]),
        case("k of 2^70", |_| format!("{MATCH} --k 1180591620717411303424"), &["`--k`", "from 1 to 1000"]),
        case(
            "a matcher that does not exist",
            |_| format!("{MATCH} --matcher best"),
            &["`--matcher`", "one-to-one | naive | fbmp | nnomp", "found: `best`"],
        ),
        case("several values where one is taken", |_| format!("{MATCH} --threshold 0,1"), &["`--threshold`", "`0,1`"]),
        case(
            "an option of another metric",
            |_| format!("{MATCH} --neighbours 5"),
            &["none of these metrics has the option `--neighbours`", "cknna", "etalon metrics"],
        ),
        case("an option that nobody has", |_| format!("{MATCH} --colour red"), &["--colour"]),
        case("a profile that does not exist", |_| format!("{MATCH} --profile fast"), &["fast", "paper, reference"]),
        case("a seed below 0", |_| format!("{MATCH} --seed=-1"), &["--seed", "-1"]),
        case("a rule for NaN that does not exist", |_| format!("{MATCH} --nan zero"), &["zero", "drop-rows"]),
        case("a size that is none", |_| format!("{MATCH} --memory much"), &["`--memory` is not a size", "found: much"]),
        case("a size below 0", |_| format!("{MATCH} --memory=-2GB"), &["`--memory` is not a size", "found: -2GB"]),
        case(
            "too little memory for a table",
            |_| format!("{MATCH} --memory 100B"),
            &["not enough memory for", "needed: ", "left in the budget: 100 B", "raise `--memory`"],
        ),
        case(
            "too little memory for an array",
            |room| {
                room.write("y.npy", crate::common::files::npy_f32(&[8, 2], &[1.0; 16]));
                "eval probe_ceiling --embeddings embeddings.npy --labels y.npy --memory 20B --out out.json".into()
            },
            &["not enough memory for an array of 8 × 2 numbers", "needed: 64 B", "left in the budget: 20 B"],
        ),
        case(
            "too little memory for a world",
            |_| "data superposition --memory 1MB --out out".into(),
            &["not enough memory for a world of 20000 rows", "left in the budget: 1.0 MB"],
        ),
        case("a million threads", |_| format!("{MATCH} --threads 1000000"), &["--threads", "1000000"]),
        case("threads that are no number", |_| format!("{MATCH} --threads two"), &["--threads", "two"]),
        case("no such command", |_| "evaluate".into(), &["evaluate", "eval"]),
        case(
            "both names of the embeddings",
            |_| format!("{MATCH} --store x.npy --embeddings y.npy"),
            &["--embeddings"],
        ),
        case(
            "a result file that is a directory",
            |room| {
                std::fs::create_dir(room.path("folder")).unwrap();
                MATCH.replace("out.json", "folder")
            },
            &["a directory", "file: folder"],
        ),
        case(
            "a result file that is a pipe",
            |room| {
                assert!(std::process::Command::new("mkfifo").arg(room.path("pipe")).status().unwrap().success());
                MATCH.replace("out.json", "pipe")
            },
            &["a file cannot be written to this path", "a device, a pipe or a socket", "file: pipe"],
        ),
        case(
            "codes as an array where a pipe is, behind a link",
            |room| {
                assert!(std::process::Command::new("mkfifo").arg(room.path("pipe")).status().unwrap().success());
                std::os::unix::fs::symlink("pipe", room.path("link.npy")).unwrap();
                encode("untrained --latents 8 --k 2").replace("--out out", "--out link.npy")
            },
            &["a file cannot be written to this path", "a device, a pipe or a socket", "file: link.npy"],
        ),
        case("a result file below a file", |_| MATCH.replace("out.json", "labels.csv/x.json"), &["labels.csv"]),
        case(
            "no such world",
            |_| "data superpositions --out out".into(),
            &["no world or data set `superpositions`", "expected: superposition, shapes", "etalon data --list"],
        ),
        case(
            "a setting of another world",
            |_| "data tabular-toy --side 8 --out out".into(),
            &["the world `tabular-toy` has no setting `side`", "rows, delta"],
        ),
        case(
            "a setting out of range",
            |_| "data superposition --active=-3 --out out".into(),
            &["invalid value for `--active`", "found: `-3`"],
        ),
        case("a world of 2^62 rows", |_| "data superposition --rows 4611686018427387904 --out out".into(), &["rows"]),
        case(
            "a setting of a world for an array",
            |_| "data array --from codes.npy --rows 5 --out out".into(),
            &["`array` has no setting `rows`"],
        ),
        case("a data set without --from", |_| "data cub --out out".into(), &["`--from` is required for `cub`"]),
        case(
            "a world with --from",
            |_| "data tabular-toy --from codes.npy --out out".into(),
            &["`tabular-toy`", "--from"],
        ),
        case(
            "a dictionary that does not exist",
            |_| encode("trained.pt"),
            &["not a dictionary", "nothing of this name", "file: trained.pt"],
        ),
        case("random codes cannot be decoded", |_| encode("random --reconstruction r.npy"), &["--reconstruction"]),
        case("no latents", |_| encode("untrained --latents 0"), &["latent", "0"]),
        case("no active latents", |_| encode("untrained --latents 8 --k 0"), &["active", "0"]),
        case("more active latents than latents", |_| encode("untrained --latents 8 --k 9"), &["8", "9"]),
        case("more active random latents than latents", |_| encode("random --latents 8 --k 9"), &["8", "9"]),
        case("2^40 latents", |_| encode("untrained --latents 1099511627776 --k 4"), &["latents"]),
        case("2^40 random latents", |_| encode("random --latents 1099511627776 --k 4"), &["latents"]),
        case("the sanity check with 10^8 nulls", |_| sanity("--nulls 100000000"), &["at most 100", "found: 100000000"]),
        case("the sanity check with k of 0", |_| sanity("--k 0"), &["active", "0"]),
        case("the sanity check with the name of a baseline", |_| sanity("--name untrained"), &["untrained", "--name"]),
        case("a shell that does not exist", |_| "completions cmd".into(), &["cmd", "bash"]),
    ]
}

fn encode(rest: &str) -> String {
    format!("encode --store embeddings.npy --out out --sae {rest}")
}

fn sanity(rest: &str) -> String {
    format!("sanity --codes codes.npy --embeddings embeddings.npy --labels labels.csv --out out {rest}")
}
