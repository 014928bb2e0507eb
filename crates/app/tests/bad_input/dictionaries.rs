//! Checkpoints that cannot be used.

use crate::common::Sandbox;
use crate::common::files::{SAELENS, SAELENS_SETTINGS, npy_f32, saelens};
use crate::{Case, case};

/// A SAELens dictionary with other settings.
fn settings(room: &Sandbox, from: &str, to: &str) -> String {
    assert!(SAELENS_SETTINGS.contains(from));
    room.write("sae/cfg.json", SAELENS_SETTINGS.replacen(from, to, 1));
    room.write("sae/sae_weights.safetensors", saelens(&SAELENS));
    ENCODE.into()
}

/// A SAELens dictionary with other weights.
fn weights(room: &Sandbox, bytes: impl AsRef<[u8]>) -> String {
    room.write("sae/cfg.json", SAELENS_SETTINGS);
    room.write("sae/sae_weights.safetensors", bytes);
    ENCODE.into()
}

const ENCODE: &str = "encode --sae sae --store embeddings.npy --out out";

pub fn cases() -> Vec<Case> {
    vec![
        case("missing", |_| ENCODE.into(), &["not a dictionary", "SAELens (cfg.json", "found: nothing", "file: sae"]),
        case(
            "a directory without one",
            |room| {
                room.write("sae/readme.txt", "weights to follow");
                ENCODE.into()
            },
            &["not a dictionary", "readme.txt", "file: sae"],
        ),
        case("an array", |_| ENCODE.replace("--sae sae", "--sae codes.npy"), &["not a dictionary", "file: codes.npy"]),
        case("settings that are not JSON", |room| settings(room, "{", "["), &["file: sae/cfg.json"]),
        case(
            "settings of another size than the weights",
            |room| settings(room, "\"d_sae\": 6", "\"d_sae\": 7"),
            &["7", "6", "file: sae"],
        ),
        case(
            "an architecture that is not read",
            |room| settings(room, "standard", "quantum"),
            &["quantum", "standard", "file: sae/cfg.json"],
        ),
        case(
            "cut weights",
            |room| weights(room, &saelens(&SAELENS)[..300]),
            &["safetensors", "file: sae/sae_weights.safetensors"],
        ),
        case(
            "a tensor is missing",
            |room| weights(room, saelens(&SAELENS[..3])),
            &["b_dec", "file: sae/sae_weights.safetensors"],
        ),
        case(
            "a tensor of another shape",
            |room| weights(room, saelens(&[SAELENS[0], SAELENS[1], ("W_dec", &[6, 5]), SAELENS[3]])),
            &["W_dec", "file: sae/sae_weights.safetensors"],
        ),
        case(
            "a weight that is NaN",
            |room| {
                let mut bytes = saelens(&SAELENS);
                let end = bytes.len();
                bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
                weights(room, bytes)
            },
            &["NaN", "b_dec", "file: sae/sae_weights.safetensors"],
        ),
        case(
            "another width than the activations",
            |room| {
                room.write("wide.npy", npy_f32(&[8, 3], &[0.5; 24]));
                weights(room, saelens(&SAELENS)).replace("embeddings.npy", "wide.npy")
            },
            &["4 values per row in sae", "3 values per row in wide.npy"],
        ),
        case(
            "another width than the embeddings",
            |room| {
                weights(room, saelens(&SAELENS));
                room.write("wide.npy", npy_f32(&[8, 3], &[0.5; 24]));
                "eval match --sae sae --store wide.npy --labels labels.csv --out out.json".into()
            },
            &["4", "3", "values per row"],
        ),
        case(
            "a dictionary and nothing to encode",
            |room| {
                weights(room, saelens(&SAELENS));
                "eval match --sae sae --labels labels.csv --out out.json".into()
            },
            &["`match` lacks an input", "no embeddings", "`--embeddings`"],
        ),
        case(
            "stability without another dictionary",
            |room| {
                weights(room, saelens(&SAELENS));
                "eval stability --sae sae --out out.json".into()
            },
            &["`stability` lacks an input", "no other", "`--other`"],
        ),
        case(
            "a format that is not written",
            |_| "convert sae --to gguf --out out".into(),
            &["gguf", "etalon, saelens"],
        ),
        case("convert: missing", |_| "convert sae --to etalon --out out".into(), &["not a dictionary", "file: sae"]),
        case(
            "convert: an output that exists",
            |room| {
                weights(room, saelens(&SAELENS));
                "convert sae --to etalon --out labels.csv".into()
            },
            &["file: labels.csv"],
        ),
    ]
}
