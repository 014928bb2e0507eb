//! Public data sets in a wrong layout.

use std::fs;

use crate::common::Sandbox;
use crate::common::files::{npy, shape, zip};
use crate::{Case, case};

const INSTANCES: &str = r#"{"images":[{"id":1,"file_name":"a.jpg"},{"id":2,"file_name":"b.jpg"}],
"annotations":[{"image_id":1,"category_id":3,"bbox":[0,0,2,2]},{"image_id":2,"category_id":3,"bbox":[0,0,2,2]}],
"categories":[{"id":3,"name":"cat"}]}"#;

/// A COCO file with one thing replaced.
fn coco(room: &Sandbox, from: &str, to: &str) -> String {
    assert!(INSTANCES.contains(from));
    room.write("i.json", INSTANCES.replacen(from, to, 1));
    "data coco --from i.json --out out".into()
}

/// A small CUB with one file replaced, or removed.
fn cub(room: &Sandbox, file: &str, text: Option<&str>) -> String {
    for (name, text) in [
        ("images.txt", "1 a/1.jpg\n2 a/2.jpg\n"),
        ("classes.txt", "1 a\n"),
        ("image_class_labels.txt", "1 1\n2 1\n"),
        ("train_test_split.txt", "1 1\n2 0\n"),
        ("attributes/attributes.txt", "1 red\n2 round\n"),
        ("attributes/image_attribute_labels.txt", "1 1 1 4 0.5\n1 2 0 4 0.5\n2 1 0 4 0.5\n2 2 1 4 0.5\n"),
    ] {
        room.write(&format!("cub/{name}"), text);
    }
    match text {
        Some(text) => drop(room.write(&format!("cub/{file}"), text)),
        None => fs::remove_file(room.path(&format!("cub/{file}"))).unwrap(),
    }
    "data cub --from cub --out out".into()
}

const SYNCUB: &str = "pair_id,orig_image,syn_image,class_id,class_name,old_attr,new_attr,old_attr_idx,new_attr_idx,orig_attr_idx,syn_attr_idx\n\
                      1,images/a.png,images/b.png,1,wren,red,round,0,1,[0],[1]\n";

fn syncub(room: &Sandbox, from: &str, to: &str) -> String {
    assert!(SYNCUB.contains(from));
    room.write("sc/metadata.csv", SYNCUB.replacen(from, to, 1));
    room.write("sc/attributes.txt", "1 red\n2 round\n3 soft\n");
    room.write("sc/images/a.png", "a");
    room.write("sc/images/b.png", "b");
    "data syncub --from sc --out out".into()
}

const SYNCOCO: &str = "pair_id,orig_image,syn_image,coco_idx,removed_cls_idx,removed_class,orig_labels,syn_labels\n\
                       1,images/a.png,images/b.png,17,15,cat,\"[0, 15]\",[0]\n";

fn syncoco(room: &Sandbox, from: &str, to: &str) -> String {
    assert!(SYNCOCO.contains(from));
    room.write("so/metadata.csv", SYNCOCO.replacen(from, to, 1));
    room.write("so/images/a.png", "a");
    room.write("so/images/b.png", "b");
    "data syncoco --from so --out out".into()
}

/// A file of two images of dSprites with some classes.
fn dsprites(room: &Sandbox, images: usize, width: usize, classes: &[i64]) -> String {
    let pixels = npy("|u1", false, &shape(&[images, 2, 2]), &vec![1; 4 * images]);
    let bytes: Vec<u8> = classes.iter().flat_map(|class| class.to_le_bytes()).collect();
    let classes = npy("<i8", false, &shape(&[classes.len() / width, width]), &bytes);
    room.write("d.npz", zip(&[("imgs.npy", &pixels), ("latents_classes.npy", &classes)]));
    "data dsprites-file --from d.npz --out out".into()
}

/// Data sets of images that are described by factors.
pub fn factors() -> Vec<Case> {
    vec![
        case(
            "dsprites: missing",
            |_| "data dsprites-file --from no.npz --out out".into(),
            &["no such file", "file: no.npz"],
        ),
        case("dsprites: not an archive", |_| "data dsprites-file --from codes.npy --out out".into(), &["codes.npy"]),
        case(
            "dsprites: no factors",
            |room| {
                room.write("d.npz", zip(&[("imgs.npy", &npy("|u1", false, &shape(&[1, 2, 2]), &[1; 4]))]));
                "data dsprites-file --from d.npz --out out".into()
            },
            &["latents_classes", "d.npz"],
        ),
        case(
            "dsprites: other factors",
            |room| dsprites(room, 1, 4, &[0; 4]),
            &["expected: 5 columns of `latents_classes`", "found: 4 columns", "d.npz"],
        ),
        case(
            "dsprites: a class that the data set does not have",
            |room| dsprites(room, 2, 6, &[0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0]),
            &["expected: an integer from 0 to 5", "found: 6", "row 1 of `latents_classes`, factor `scale`"],
        ),
        case(
            "dsprites: another number of images",
            |room| dsprites(room, 3, 6, &[0; 12]),
            &["images and factors differ in number", "expected: 2 images", "found: 3 images"],
        ),
        case(
            "3dshapes: the factors of dSprites",
            |room| dsprites(room, 2, 5, &[0; 10]).replace("dsprites-file", "3dshapes-file"),
            &["expected: 6 columns of `latents_classes`", "found: 5 columns"],
        ),
        case(
            "dsprites: a setting that it does not have",
            |_| "data dsprites --delta 0.5 --out out".into(),
            &["delta", "dsprites"],
        ),
        case("dsprites: lambda", |_| "data dsprites --lambda 9 --rows 10 --out out".into(), &["lambda", "9"]),
        case("dsprites: variant", |_| "data dsprites --variant book --rows 10 --out out".into(), &["variant", "book"]),
        case("shapes3d: corruption", |_| "data shapes3d-like --corruption 2 --out out".into(), &["corruption", "2"]),
    ]
}

pub fn cases() -> Vec<Case> {
    vec![
        case("coco: missing", |_| "data coco --from no.json --out out".into(), &["no such file", "file: no.json"]),
        case(
            "coco: a directory",
            |room| {
                fs::create_dir(room.path("d")).unwrap();
                "data coco --from d --out out".into()
            },
            &["a directory", "file: d"],
        ),
        case(
            "coco: a pipe",
            |room| {
                assert!(std::process::Command::new("mkfifo").arg(room.path("p.json")).status().unwrap().success());
                "data coco --from p.json --out out".into()
            },
            &["found: a pipe", "file: p.json"],
        ),
        case(
            "coco: empty",
            |room| {
                room.write("i.json", "");
                "data coco --from i.json --out out".into()
            },
            &["the file is empty", "file: i.json"],
        ),
        case(
            "coco: cut",
            |room| {
                room.write("i.json", &INSTANCES[..100]);
                "data coco --from i.json --out out".into()
            },
            &["not an instances file", "EOF", "line 2", "file: i.json"],
        ),
        case(
            "coco: no categories",
            |room| coco(room, "categories", "kinds"),
            &["missing field `categories`", "i.json"],
        ),
        case(
            "coco: an image that is not listed",
            |room| coco(room, "\"image_id\":2", "\"image_id\":7"),
            &["7", "i.json"],
        ),
        case(
            "coco: a category that is not listed",
            |room| coco(room, "\"category_id\":3", "\"category_id\":4"),
            &["4", "file: i.json"],
        ),
        case(
            "coco: two images of the same id",
            |room| coco(room, "\"id\":2", "\"id\":1"),
            &["same id", "found: 1", "i.json"],
        ),
        case(
            "coco: a name that leads out",
            |room| coco(room, "b.jpg", "../b.jpg"),
            &["leads out", "`../b.jpg`", "i.json"],
        ),
        case("cub: missing", |_| "data cub --from gone --out out".into(), &["file: gone/images.txt"]),
        case(
            "cub: no attributes",
            |room| cub(room, "attributes/attributes.txt", None),
            &[
                "names of the attributes are missing",
                "attributes/attributes.txt",
                "file: cub/attributes/attributes.txt",
            ],
        ),
        case("cub: no split", |room| cub(room, "train_test_split.txt", None), &["file: cub/train_test_split.txt"]),
        case(
            "cub: a number is skipped",
            |room| cub(room, "images.txt", Some("1 a/1.jpg\n3 a/2.jpg\n")),
            &["skips or repeats", "expected: number 2", "found: number 3", "line 2", "file: cub/images.txt"],
        ),
        case(
            "cub: a list without numbers",
            |room| cub(room, "classes.txt", Some("wren\n")),
            &["a number from 1, a space, a name", "found: `wren`", "line 1", "file: cub/classes.txt"],
        ),
        case(
            "cub: a class that is not listed",
            |room| cub(room, "image_class_labels.txt", Some("1 1\n2 2\n")),
            &["a number from 1 to 1", "found: `2 2`", "line 2", "file: cub/image_class_labels.txt"],
        ),
        case(
            "cub: an image without a split",
            |room| cub(room, "train_test_split.txt", Some("1 1\n")),
            &["not in the list", "image 2", "file: cub/train_test_split.txt"],
        ),
        case(
            "cub: a label out of range",
            |room| cub(room, "attributes/image_attribute_labels.txt", Some("1 1 1 4 0.5\n1 9 0 4 0.5\n")),
            &["attribute 1 to 2", "found: `1 9 0 4 0.5`", "line 2", "file: cub/attributes/image_attribute_labels.txt"],
        ),
        case(
            "cub: an image that leads out",
            |room| cub(room, "images.txt", Some("1 ../../a\n2 b\n")),
            &["leads out", "image 1", "file: cub/images.txt"],
        ),
        case(
            "cub: two attributes of the same name",
            |room| cub(room, "attributes/attributes.txt", Some("1 red\n2 red\n")),
            &["two concepts have the same name", "`red`", "file: cub/attributes/attributes.txt"],
        ),
        case(
            "syncub: no metadata",
            |room| {
                let arguments = syncub(room, "wren", "wren");
                fs::remove_file(room.path("sc/metadata.csv")).unwrap();
                arguments
            },
            &["no such file", "file: sc/metadata.csv"],
        ),
        case(
            "syncub: no such column",
            |room| syncub(room, "class_id", "klass"),
            &["no column `class_id`", "sc/metadata.csv"],
        ),
        case(
            "syncub: an image is missing",
            |room| syncub(room, "images/b.png", "images/c.png"),
            &["an image is missing", "images/c.png", "column `syn_image`", "file: sc/metadata.csv"],
        ),
        case(
            "syncub: name and number disagree",
            |room| syncub(room, "red,round", "red,soft"),
            &["name and the number of an attribute disagree", "`round`", "`soft`", "file: sc/metadata.csv"],
        ),
        case(
            "syncub: another difference than promised",
            |room| syncub(room, "[0],[1]", "[0],[2]"),
            &["exactly the two attributes", "[0, 2]", "file: sc/metadata.csv"],
        ),
        case(
            "syncub: a file in no pair",
            |room| {
                let arguments = syncub(room, "wren", "wren");
                room.write("sc/images/z.png", "z");
                arguments
            },
            &["a file is in no pair", "`images/z.png`", "file: sc/metadata.csv"],
        ),
        case(
            "syncoco: no such category",
            |room| syncoco(room, "17,15,cat", "17,80,cat"),
            &["a whole number from 0 to 79", "found: `80`", "file: so/metadata.csv"],
        ),
        case(
            "syncoco: name and number disagree",
            |room| syncoco(room, "15,cat", "16,cat"),
            &["`dog`", "found: `cat`", "file: so/metadata.csv"],
        ),
        case(
            "syncoco: a list that is none",
            |room| syncoco(room, ",[0]", ",0"),
            &["as in `[7, 17]`", "found: `0`", "column `syn_labels`", "file: so/metadata.csv"],
        ),
        case(
            "syncoco: the removed is still there",
            |room| syncoco(room, ",[0]", ",\"[0, 15]\""),
            &["exactly the category it removes", "file: so/metadata.csv"],
        ),
        case(
            "a data set where another is",
            |room| {
                room.done(&cub(room, "classes.txt", Some("1 a\n")).replace("--out out", "--out there"));
                "data cub --from cub --out there".into()
            },
            &["holds a data set already", "another directory", "file: there"],
        ),
    ]
}
