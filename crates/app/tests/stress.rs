//! `etalon stress`: sheets hide the generator, and filled sheets are scored.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::Sandbox;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};
use serde_json::Value;

fn png(shade: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&[shade; 12], 2, 2, ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// Two generators, three prompts, two images of each: those of `a` are dark.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("prompts.txt", "a feeder in a garden\n\na feeder on a wall\na feeder in snow\n");
    for index in 0..6 {
        sandbox.write(&format!("a/{index}.png"), png(index));
        sandbox.write(&format!("b/{index}.png"), png(200 + index));
    }
    sandbox
}

const SHEET: &str = "stress sheet --concept feeder --prompts prompts.txt --images a=a --images b=b --per-prompt 2 --reviewers 2 --out review";

/// Fills a sheet: the reviewer sees the images only.
fn fill(sandbox: &Sandbox, reviewer: usize, answer: impl Fn(usize, u8) -> &'static str) {
    let name = format!("review/sheet-{reviewer}.csv");
    let mut lines = vec!["image,file,depicted".to_string()];
    for line in sandbox.read(&name).lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let bytes = std::fs::read(sandbox.path(&format!("review/{}", cells[1]))).unwrap();
        let shade = image::load_from_memory(&bytes).unwrap().to_rgb8().get_pixel(0, 0)[0];
        lines.push(format!("{},{},{}", cells[0], cells[1], answer(cells[0].parse().unwrap(), shade)));
    }
    sandbox.write(&name, lines.join("\n") + "\n");
}

#[test]
fn generators_are_compared_blindly() {
    let sandbox = sandbox();
    sandbox.done(SHEET);
    // Sheets and pages have neither names of generators nor of their files, and every reviewer has another order.
    let sheets = [1, 2].map(|reviewer| sandbox.read(&format!("review/sheet-{reviewer}.csv")));
    assert_ne!(sheets[0], sheets[1]);
    assert_eq!(sheets[0].lines().count(), 13);
    let key = sandbox.json("review/key.json");
    assert_eq!(key["images"].as_array().unwrap().len(), 12);
    for number in 0..12 {
        let bytes = std::fs::read(sandbox.path(&format!("review/images/{number:05}.png"))).unwrap();
        let shade = image::load_from_memory(&bytes).unwrap().to_rgb8().get_pixel(0, 0)[0];
        let (generator, prompt) = (usize::from(shade >= 200), usize::from(shade % 200) / 2);
        assert_eq!(key["images"][number], serde_json::json!([generator, prompt]), "{number}");
    }
    // The first reviewer sees the feeder in all images of `b` and in one of `a`; the second agrees except for one image.
    fill(&sandbox, 1, |_, shade| if shade >= 200 || shade == 0 { "yes" } else { "no" });
    fill(&sandbox, 2, |_, shade| if shade > 200 || shade == 0 { "1" } else { "0" });
    let output = sandbox.done("stress score review --out stress.json");
    assert!(output.out.contains("majority") && output.err.contains("1 of 12 images have no majority"), "{output:#?}");
    let tables = &sandbox.json("stress.json")["tables"];
    let column = |table: &str, name: &str| tables[table][name].as_array().unwrap().clone();
    assert_eq!(column("generator", "depicted"), [1, 6, 1, 5, 1, 5].map(Value::from));
    assert_eq!(column("generator", "images"), [6, 6, 6, 6, 6, 5].map(Value::from));
    // 1 of 6 against 6 of 6: C(6,1) C(6,6) / C(12,7) = 6 / 792, and as many with 6 of 6 against 1 of 6.
    let p = column("comparison", "p")[0].as_f64().unwrap();
    assert!((p - 12.0 / 792.0).abs() < 1e-9, "{p}");
    // 11 of 12 agree; by chance 7/12 · 6/12 + 5/12 · 6/12 = 1/2.
    let kappa = column("agreement", "kappa")[0].as_f64().unwrap();
    assert!((kappa - (11.0 / 12.0 - 0.5) / 0.5).abs() < 1e-9, "{kappa}");
}

#[test]
fn wrong_reviews_are_explained() {
    let sandbox = sandbox();
    std::fs::remove_file(sandbox.path("b/5.png")).unwrap();
    let output = sandbox.run(SHEET);
    assert!(
        output.code == Some(2)
            && output.err.contains("generator `b`")
            && output.err.contains("12 images") == output.err.contains("found: 12"),
        "{output:#?}"
    );
    assert!(output.err.contains("6 images: 2 for each prompt") && !sandbox.path("review").exists(), "{output:#?}");
    sandbox.write("b/5.png", png(205));
    sandbox.done(SHEET);
    assert_eq!(sandbox.run(SHEET).code, Some(2));
    let unfilled = sandbox.done("stress score review");
    assert!(unfilled.err.contains("24 answers are missing"), "{unfilled:#?}");
    sandbox.write("review/sheet-2.csv", "image,file,depicted\n3,images/00003.png,maybe\n");
    let output = sandbox.run("stress score review");
    assert!(output.code == Some(2) && output.err.contains("line 2") && output.err.contains("maybe"), "{output:#?}");
    sandbox.write("review/sheet-2.csv", "image,file,depicted\n99,x,yes\n");
    assert!(sandbox.run("stress score review").err.contains("unknown image"));
}
