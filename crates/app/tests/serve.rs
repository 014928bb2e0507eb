//! The explorer's server against requests from other pages and machines, and against invalid requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::Sandbox;
use common::files::{SAELENS, SAELENS_SETTINGS, npy_f32, npy_i64, saelens};
use common::served::{Served, serve_sandbox};
use serde_json::Value;

/// A results directory with one small study, a layout, samples that contain markup, and an image.
fn results() -> Sandbox {
    let sandbox = Sandbox::with_inputs();
    sandbox.done(
        "sanity --codes codes.npy --embeddings embeddings.npy --labels labels.csv --metrics match --out out --quiet",
    );
    sandbox.write("out/points.csv", "latent,x,y,name\n0,0.1,0.2,red\n1,0.5,0.4,<img src=x>\n2,0.9,0.1,\n");
    sandbox.write(
        "out/samples.jsonl",
        "{\"id\": \"s1\", \"text\": \"</script><script>alert(1)</script>\", \"activations\": [{\"latent\": 0, \"value\": 2.5}, {\"latent\": 1, \"value\": 1}]}\n\
         {\"id\": \"s2\", \"image\": \"0123456789abcdef\", \"activations\": [{\"latent\": 0, \"value\": 0.5}]}\n",
    );
    sandbox.write("out/images/0123456789abcdef.png", b"\x89PNG\r\n\x1a\n0000IHDR");
    sandbox.write("out/images/fedcba9876543210.png", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>");
    sandbox.write("out/secret.json", "{\"secret\": true}");
    sandbox.write("secret.txt", "secret");
    sandbox
}

fn serve(options: &str) -> Served {
    serve_sandbox(results(), options)
}

#[test]
fn access_needs_a_token_or_its_cookie() {
    let served = serve("");
    assert_eq!(served.token.len(), 32);
    let first = served.ask("GET", &format!("/?token={}", served.token), "");
    assert_eq!(first.status, 200);
    assert!(String::from_utf8_lossy(&first.body).contains("app.js"));
    assert_eq!(first.header("cache-control"), Some("no-store"));
    let cookie = first.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains(&served.token));
    for path in ["/", "/app.js", "/app.css", "/api/v1/manifest.json", "/api/v1/metrics.json", "/api/v1/runs.json"] {
        assert_eq!(served.get(path).status, 200, "{path}");
        for headers in ["", "Cookie: etalon=1\r\n", &format!("Cookie: etalon-{}=00\r\n", served.port)] {
            let refused = served.ask("GET", path, headers);
            assert_eq!(refused.status, 401, "{path}");
            assert!(!String::from_utf8_lossy(&refused.body).contains("match"));
        }
    }
    assert_eq!(served.ask("GET", "/?token=00000000000000000000000000000000", "").status, 401);
    let head = served.ask("HEAD", &format!("/?token={}", served.token), "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn every_response_has_security_headers() {
    let served = serve("");
    for reply in [served.get("/"), served.get("/nothing"), served.ask("GET", "/", ""), served.ask("POST", "/", "")] {
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert!(reply.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn unknown_hosts_and_other_sites_are_refused() {
    let served = serve("");
    let path = format!("/api/v1/runs.json?token={}", served.token);
    for host in
        ["evil.example", &format!("evil.example:{}", served.port), "127.0.0.1", "127.0.0.1:1", "", "10.0.0.1:80"]
    {
        let reply = served.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(reply.status, 421, "{host}");
    }
    assert_eq!(served.send(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).status, 421);
    let twice = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nHost: evil.example\r\n\r\n", served.port);
    assert_eq!(served.send(twice.as_bytes()).status, 421);
    for origin in
        ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "http://localhost.evil.example"]
    {
        assert_eq!(served.ask("GET", &path, &format!("Origin: {origin}\r\n")).status, 403, "{origin}");
    }
    let own = format!("Origin: http://localhost:{}\r\n", served.port);
    assert_eq!(served.ask("GET", &path, &own).status, 200);
    let script = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    assert_eq!(served.ask("GET", &path, script).status, 403);
    assert_eq!(served.ask("GET", &path, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n").status, 200);
}

#[test]
fn nothing_can_be_written() {
    let served = serve("");
    let cookie = format!("Cookie: etalon-{}={}\r\n", served.port, served.token);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get"] {
        assert_eq!(served.ask(method, "/api/v1/runs.json", &cookie).status, 405, "{method}");
    }
    for headers in [
        "Content-Length: 1073741824\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nContent-Length: 0\r\n",
    ] {
        let reply = served.ask("GET", "/", &format!("{cookie}{headers}"));
        // Two contradictory lengths are invalid HTTP.
        assert!(matches!(reply.status, 400 | 413), "{headers}");
        assert_ne!(served.ask("POST", "/", &format!("{cookie}{headers}")).status, 200);
    }
    assert_eq!(served.ask("GET", "/", &format!("{cookie}Content-Length: 1073741824\r\n")).status, 413);
}

#[test]
fn no_address_reaches_the_disk() {
    let served = serve("");
    let manifest = served.get("/api/v1/manifest.json").json();
    let id = manifest["results"][0]["id"].as_str().unwrap();
    assert_eq!(served.get(&format!("/api/v1/results/{id}.json")).json()["metric"], "match");
    let tricks = [
        "/secret.txt",
        "/../secret.txt",
        "/api/v1/../../secret.json",
        "/api/v1/results/../../secret.json",
        "/api/v1/results/..%2f..%2fsecret.json",
        "/api/v1/results/%2e%2e/%2e%2e/secret.json",
        "/api/v1/results/%252e%252e/secret.json",
        "/api/v1/results/..\\..\\secret.json",
        "/api/v1/layouts/../secret.json",
        "/api/v1/layouts/../points.json",
        "/api/v1/figures/../runs.json",
        "/api/v1/concepts/../../secret.json",
        "/api/v1/concepts/-1.json",
        "/api/v1/concepts/0x0.json",
        "/api/v1/concepts/99999999999.json",
        "/img/../secret.json",
        "/img/..%2fsecret.json",
        "/img/fedcba9876543210",
        "/img/0123456789abcdef.png",
        "//etc/passwd",
        "/etc/passwd",
        "/%00",
        "/api/v1//manifest.json",
        "/api//v1/manifest.json",
        "/api/v1/manifest.json/",
        "/API/v1/manifest.json",
        "/results/",
        "/out/secret.json",
        "/api/v1/results/.json",
        "/api/v1/.json",
        "/./",
        "/index.html/..",
        "/app.js%00.css",
        "/app.js;x",
    ];
    for path in tricks {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("secret"), "{path}");
    }
    // A fragment after `#` is never part of a request.
    assert_eq!(served.get("/#/../secret.txt").body, served.get("/").body);
    assert_eq!(served.get(&format!("/{}", "a".repeat(2 << 10))).status, 431);
    for line in [
        "GET secret.txt HTTP/1.1",
        "GET http://127.0.0.1/ HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET / HTTP/9",
        "nonsense",
        "GET  / HTTP/1.1",
    ] {
        assert_eq!(
            served.send(format!("{line}\r\nHost: 127.0.0.1:{}\r\n\r\n", served.port).as_bytes()).status,
            400,
            "{line:?}"
        );
    }
}

#[test]
fn images_and_text_have_their_content_types() {
    let served = serve("");
    let image = served.get("/img/0123456789abcdef");
    assert_eq!((image.status, image.header("content-type")), (200, Some("image/png")));
    let concept = served.get("/api/v1/concepts/0.json");
    assert!(concept.header("content-type").unwrap().starts_with("application/json"));
    let concept = concept.json();
    assert_eq!(concept["fired"], 2);
    assert_eq!(concept["sets"][0]["top"][0]["text"], "</script><script>alert(1)</script>");
    assert_eq!(concept["sets"][0]["top"][1]["image"], "0123456789abcdef");
    assert_eq!(
        (concept["partners"][0]["latent"].as_u64(), concept["partners"][0]["jaccard"].as_f64()),
        (Some(1), Some(0.5))
    );
    let layout = served.get("/api/v1/layouts/points.json").json();
    assert_eq!(layout["latent"], serde_json::json!([0, 1, 2]));
    assert_eq!(served.get("/api/v1/metrics.json").json()[0]["name"].as_str().map(str::is_empty), Some(false));
    let runs = served.get("/api/v1/runs.json").json();
    let sets = runs["data"][0]["sets"].as_array().unwrap();
    assert!(
        sets.iter().any(|set| set["baseline"] == "floor") && sets.iter().any(|set| set["baseline"].is_null()),
        "{sets:?}"
    );
    let slug = runs["data"][0]["slug"].as_str().unwrap();
    let album = served.get(&format!("/api/v1/figures/{slug}.json")).json();
    assert!(album["figures"][0]["svg"].as_str().unwrap().starts_with("<svg"));
}

#[test]
fn slow_large_and_many_requests_are_limited() {
    let served = serve("");
    let long = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX: {}\r\n\r\n", served.port, "a".repeat(1 << 20));
    assert_eq!(served.send(long.as_bytes()).status, 431);
    // More clients than connection slots; none completes its request.
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let _ = stream.write_all(b"GET / HT");
            stream
        })
        .collect();
    let mut statuses = Vec::new();
    for stream in &mut slow {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        statuses.push(text.split(' ').nth(1).unwrap_or("closed").to_string());
    }
    assert!(began.elapsed() < Duration::from_secs(19), "{:?}", began.elapsed());
    assert!(statuses.iter().any(|status| status == "408"), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status.as_str(), "408" | "503" | "closed")), "{statuses:?}");
    assert_eq!(served.get("/").status, 200);
}

/// Results with a layout long enough to be streamed.
fn with_layouts() -> Served {
    let sandbox = results();
    let points: String = (0..60_000).map(|latent| format!("{latent},{},0.25,red {latent}\n", latent % 97)).collect();
    sandbox.write("out/layouts/long.csv", format!("latent,x,y,name\n{points}"));
    serve_sandbox(sandbox, "")
}

#[test]
fn text_is_compressed_on_request() {
    let served = with_layouts();
    let gzip = |path: &str| {
        // HTTP 1.0 has no chunks, so the body is the content.
        let cookie = format!("Cookie: etalon-{}={}", served.port, served.token);
        let lines = [&format!("GET {path} HTTP/1.0"), &format!("Host: 127.0.0.1:{}", served.port), &cookie];
        let head = lines.map(|line| format!("{line}\r\n")).concat();
        served.send(format!("{head}Accept-Encoding: gzip, br\r\n\r\n").as_bytes())
    };
    for path in ["/", "/app.js", "/api/v1/metrics.json", "/api/v1/layouts/long.json"] {
        let (plain, packed) = (served.get(path), gzip(path));
        assert_eq!(
            (plain.header("content-encoding"), packed.header("content-encoding")),
            (None, Some("gzip")),
            "{path}"
        );
        assert_eq!(plain.header("content-length"), Some(plain.body.len().to_string().as_str()), "{path}");
        assert_eq!(plain.header("etag"), packed.header("etag"), "{path}");
        assert!(packed.header("vary").unwrap().eq_ignore_ascii_case("accept-encoding"));
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut content).unwrap();
        assert!(content == plain.body && packed.body.len() < plain.body.len(), "{path}");
    }
    let image = gzip("/img/0123456789abcdef");
    assert_eq!((image.header("content-encoding"), image.header("content-length")), (None, Some("16")));
    let layout = served.get("/api/v1/layouts/long.json");
    assert!(layout.body.len() > 1 << 20, "{}", layout.body.len());
    assert_eq!(layout.json()["name"][59_999], "red 59999");
    served.sandbox.done("export out --out static");
    assert!(std::fs::read(served.sandbox.path("static/api/v1/layouts/long.json")).unwrap() == layout.body);
}

#[test]
fn unchanged_content_is_not_sent_again() {
    let served = with_layouts();
    let cookie = format!("Cookie: etalon-{}={}\r\n", served.port, served.token);
    let id = served.get("/api/v1/manifest.json").json()["results"][0]["id"].as_str().unwrap().to_string();
    for path in ["/", "/app.css", "/api/v1/layouts/long.json", &format!("/api/v1/results/{id}.json")] {
        let first = served.get(path);
        let tag = first.header("etag").unwrap();
        assert_eq!(first.header("cache-control"), Some("private, no-cache"));
        let again = served.ask("GET", path, &format!("{cookie}If-None-Match: \"0\", {tag}\r\n"));
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)), "{path}");
        assert!(again.header("content-security-policy").is_some());
        let other = served.ask("GET", path, &format!("{cookie}If-None-Match: \"0\"\r\n"));
        assert!(other.status == 200 && other.body == first.body, "{path}");
        // Without the token, cached content is not confirmed.
        assert_eq!(served.ask("GET", path, &format!("If-None-Match: {tag}\r\n")).status, 401);
        let head = served.ask("HEAD", path, &cookie);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), first.header("content-length"), "{path}");
        assert_eq!(head.header("content-type"), first.header("content-type"), "{path}");
    }
    let before = served.get("/api/v1/manifest.json").header("etag").unwrap().to_string();
    served.sandbox.write("out/layouts/long.csv", "latent,x,y\n0,1,2\n");
    let after = served.ask("GET", "/api/v1/manifest.json", &format!("{cookie}If-None-Match: {before}\r\n"));
    assert_eq!(after.json()["layouts"][0]["points"], 1);
    let refused = served.ask("POST", "/", &cookie);
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn simultaneous_requests_get_complete_responses() {
    let served = with_layouts();
    let paths = ["/app.js", "/api/v1/layouts/long.json", "/api/v1/runs.json", "/img/0123456789abcdef"];
    let expected = paths.map(|path| served.get(path).body);
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let (served, expected) = (&served, &expected);
            scope.spawn(move || {
                for turn in 0..8 {
                    let which = (thread + turn) % paths.len();
                    let reply = served.get(paths[which]);
                    assert!(reply.status == 200 && reply.body == expected[which], "{}", paths[which]);
                }
            });
        }
    });
}

#[test]
fn a_browser_that_does_not_read_is_disconnected() {
    let sandbox = results();
    let image = [b"\x89PNG\r\n\x1a\n0000".to_vec(), vec![0; 15 << 20]].concat();
    sandbox.write("out/images/00000000000000ff.png", &image);
    let served = serve_sandbox(sandbox, "");
    assert!(served.get("/img/00000000000000ff").body == image);
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let cookie = format!("Cookie: etalon-{}={}", served.port, served.token);
    write!(stream, "GET /img/00000000000000ff HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{cookie}\r\n\r\n", served.port)
        .unwrap();
    std::thread::sleep(Duration::from_secs(18));
    assert_eq!(served.get("/").status, 200);
    // Bytes already sent still arrive, the rest does not.
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut all = Vec::new();
    let ended = stream.read_to_end(&mut all);
    assert!(all.len() < image.len(), "{} bytes, {ended:?}", all.len());
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_server_within_a_second() {
    let mut served = with_layouts();
    // One client has not completed its request, another does not read the response.
    let mut open: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(("127.0.0.1", served.port)).unwrap()).collect();
    let cookie = format!("Cookie: etalon-{}={}", served.port, served.token);
    open[0].write_all(b"GET / HT").unwrap();
    let host = format!("Host: 127.0.0.1:{}", served.port);
    write!(open[1], "GET /api/v1/layouts/long.json HTTP/1.1\r\n{host}\r\n{cookie}\r\n\r\n").unwrap();
    assert_eq!(served.get("/").status, 200);
    let began = Instant::now();
    let process = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let status = served.child.wait().unwrap();
    assert!(status.success() && began.elapsed() < Duration::from_secs(1), "{status}, {:?}", began.elapsed());
}

#[test]
fn new_results_and_broken_files_show_without_a_restart() {
    let served = serve("");
    assert_eq!(served.get("/api/v1/manifest.json").json()["problems"], serde_json::json!([]));
    served.sandbox.write("out/points.csv", "latent,x\n1,2\n");
    served.sandbox.write("out/results/0a.json", "{");
    let manifest = served.get("/api/v1/manifest.json").json();
    let problem = manifest["problems"][0].as_str().unwrap();
    assert!(problem.contains("has no column `y`") && problem.contains("file: points.csv"), "{problem}");
    assert_eq!(manifest["damaged"][0]["file"], "0a.json");
    assert_eq!(served.get("/api/v1/layouts/points.json").status, 404);
}

#[test]
fn an_open_server_still_requires_its_token() {
    let served = serve("--bind 0.0.0.0");
    assert_eq!(served.ask("GET", "/", "").status, 401);
    assert_eq!(served.get("/").status, 200);
    let reply = served.send(format!("GET / HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n", served.port).as_bytes());
    assert_eq!(reply.status, 421);
}

#[test]
fn wrong_options_are_explained() {
    let sandbox = results();
    for (arguments, expected) in [
        ("serve out --bind everywhere", "`--bind` is not an IP address"),
        ("serve nowhere", "no such results directory"),
        ("export out", "--single"),
        ("export nowhere --out x", "no such results directory"),
    ] {
        let reply = sandbox.run(arguments);
        assert_eq!(reply.code, Some(2), "{arguments}: {}", reply.err);
        assert!(reply.err.contains(expected), "{}", reply.err);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reply = sandbox.run(&format!("serve out --port {}", taken.local_addr().unwrap().port()));
    assert!(reply.code == Some(2) && reply.err.contains("--port"), "{}", reply.err);
}

#[test]
fn an_export_holds_every_address_of_the_server() {
    let served = serve("");
    let sandbox = &served.sandbox;
    sandbox.done("export out --out static --single all.html");
    let files = sandbox.files("static");
    for name in [
        "index.html",
        "app.js",
        "app.css",
        "api/v1/manifest.json",
        "api/v1/runs.json",
        "api/v1/concepts/0.json",
        "img/0123456789abcdef",
    ] {
        assert!(files.iter().any(|file| file == name), "{name} in {files:?}");
    }
    for file in files.iter().filter(|file| *file != "index.html") {
        assert_eq!(
            std::fs::read(sandbox.path("static").join(file)).unwrap(),
            served.get(&format!("/{file}")).body,
            "{file}"
        );
    }
    let single = sandbox.read("all.html");
    assert!(single.contains("Content-Security-Policy") && !single.contains("src=\"./app.js\""));
    // Data can neither end its element nor start another.
    assert_eq!(single.matches("</script>").count(), 2);
    assert!(single.contains("\\u003c/script>"));
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn neighbours_are_computed_for_latents_that_have_a_direction() {
    let sandbox = results();
    // (3, 4)/5 · (1, 0) = 0.6; (−1.5, −2) is opposite to (3, 4): −1.
    sandbox.write("out/directions.npy", common::files::npy_f32(&[3, 2], &[3.0, 4.0, 2.0, 0.0, -1.5, -2.0]));
    let served = serve_sandbox(sandbox, "");
    assert_eq!(served.get("/api/v1/manifest.json").json()["directions"], 3);
    let near = served.get("/api/v1/neighbours/0.json").json();
    let nearest = near["nearest"].as_array().unwrap();
    assert_eq!(nearest.iter().map(|one| one["latent"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!((nearest[0]["cosine"].as_f64().unwrap() - 0.6).abs() < 1e-6);
    assert!((near["opposite"]["cosine"].as_f64().unwrap() + 1.0).abs() < 1e-6);
    for path in ["3", "-1", "0x0", "", "99999999999", "0/1"] {
        assert_eq!(served.get(&format!("/api/v1/neighbours/{path}.json")).status, 404, "{path}");
    }
    // An export has files for latents with samples.
    served.sandbox.done("export out --out static");
    let files = served.sandbox.files("static/api/v1/neighbours");
    assert_eq!(files, ["0.json", "1.json"]);
    // Unreadable directions next to the results are a listed problem; explicit ones are an error.
    served.sandbox.write("out/directions.npy", "nothing");
    let manifest = served.get("/api/v1/manifest.json").json();
    assert!(manifest["problems"][0].as_str().unwrap().contains("directions.npy"), "{manifest}");
    assert_eq!((manifest["directions"].as_u64(), served.get("/api/v1/neighbours/0.json").status), (Some(0), 404));
    let refused = served.sandbox.run("serve out --directions nowhere.npy");
    assert!(refused.code == Some(2) && refused.err.contains("nowhere.npy"), "{}", refused.err);
}

#[test]
fn samples_are_written_and_served() {
    let sandbox = Sandbox::with_inputs();
    sandbox.done(
        "sanity --codes codes.npy --embeddings embeddings.npy --labels labels.csv --metrics match --out out --quiet",
    );
    sandbox.write("bird.png", b"\x89PNG\r\n\x1a\n0000IHDR");
    sandbox.write("rows.csv", "row,image,caption\n0,bird.png,<b>red</b>\n5,,no picture\n");
    sandbox.write("boxes.csv", "row,concept,x,y,width,height\n0,red,0.1,0.2,0.3,0.4\n");
    let output = sandbox
        .done("samples --codes codes.npy --labels labels.csv --rows rows.csv --boxes boxes.csv --out out --json")
        .json();
    assert_eq!((output["samples"].as_u64(), output["images"].as_u64()), (Some(2), Some(1)));
    sandbox.write("boxes.csv", "row,concept,x,y,width,height\n0,red,0.9,0.2,0.3,0.4\n");
    let refused = sandbox.run("samples --codes codes.npy --boxes boxes.csv --out out");
    assert!(refused.code == Some(2) && refused.err.contains("line 2"), "{}", refused.err);
    let served = serve_sandbox(sandbox, "");
    let manifest = served.get("/api/v1/manifest.json").json();
    assert_eq!((manifest["samples"].as_u64(), &manifest["problems"]), (Some(2), &serde_json::json!([])));
    // The samples refer to the tested codes, not to the baselines.
    let results = manifest["results"].as_array().unwrap();
    assert!(results.iter().any(|one| one["codes"] == manifest["sample_codes"] && one["about"]["inputs"] == "trained"));
    assert!(results.iter().any(|one| one["codes"] != manifest["sample_codes"]));
    let samples = served.get("/api/v1/samples.json").json();
    assert_eq!((samples[0]["row"].as_u64(), samples[0]["caption"].as_str()), (Some(0), Some("<b>red</b>")));
    assert!(samples[0]["concepts"].is_array() && samples[0].get("activations").is_none());
    assert_eq!(samples[0]["boxes"][0]["name"], "red");
    let image = served.get(&format!("/img/{}", samples[0]["image"].as_str().unwrap()));
    assert_eq!((image.status, image.header("content-type")), (200, Some("image/png")));
    let latent = manifest["concepts"][0].as_u64().unwrap();
    let concept = served.get(&format!("/api/v1/concepts/{latent}.json")).json();
    assert_eq!(concept["on"].as_array().unwrap().len(), concept["values"].as_array().unwrap().len());
}

/// Six images of a class token and 2 × 2 patches for a dictionary of 6 latents, and generated images in another order.
fn patches() -> Sandbox {
    let sandbox = Sandbox::new();
    let value = |index: usize| ((index * 37 + index / 11) % 23) as f32 / 7.0 - 1.5;
    let real: Vec<f32> = (0..6 * 5 * 4).map(value).collect();
    let made: Vec<f32> = real.iter().rev().copied().collect();
    sandbox.write("x.npy", npy_f32(&[6, 5, 4], &real));
    sandbox.write("y.npy", npy_f32(&[6, 5, 4], &made));
    sandbox.write("sae/cfg.json", SAELENS_SETTINGS);
    sandbox.write("sae/sae_weights.safetensors", saelens(&SAELENS));
    sandbox.write("bird.png", b"\x89PNG\r\n\x1a\n0000IHDR");
    let lines: Vec<String> =
        (0..6).flat_map(|row| ["real", "sd"].map(|set| format!("{row},{set},bird.png,bird {row}"))).collect();
    sandbox.write("rows.csv", format!("row,set,image,caption\n{}\n", lines.join("\n")));
    sandbox
}

#[test]
fn samples_contain_activations_of_every_patch() {
    let sandbox = patches();
    let inputs = "--store x.npy --generated sd=y.npy --pool mean --rows rows.csv";
    let output = sandbox.done(&format!("samples --sae sae {inputs} --out out --json")).json();
    assert_eq!(
        (output["samples"].as_u64(), output["images"].as_u64(), output["unplaced"].as_u64()),
        (Some(12), Some(1), Some(0))
    );
    let lines = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(sandbox.path(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Reference: encode all tokens to a dense array and select those of the patches.
    sandbox.done("encode --sae sae --store x.npy --out z.npy");
    sandbox.done("encode --sae sae --store y.npy --out z2.npy");
    let dense = |name: &str| -> Vec<f32> {
        let bytes = std::fs::read(sandbox.path(name)).unwrap();
        let values = &bytes[bytes.len() - 6 * 5 * 6 * 4..];
        values.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    };
    let samples = lines("out/samples.jsonl");
    let mut maps = 0;
    for (sample, codes) in
        samples[..6].iter().zip(dense("z.npy").chunks(30)).chain(samples[6..].iter().zip(dense("z2.npy").chunks(30)))
    {
        for firing in sample["activations"].as_array().unwrap() {
            let latent = firing["latent"].as_u64().unwrap() as usize;
            let tokens: Vec<f32> = (0..5).map(|token| codes[token * 6 + latent]).collect();
            let mean = tokens.iter().sum::<f32>() / 5.0;
            assert!((firing["value"].as_f64().unwrap() - f64::from(mean)).abs() < 1e-5, "{firing}: {tokens:?}");
            let grid =
                firing["grid"].as_array().map(|grid| grid.iter().map(|one| one.as_f64().unwrap()).collect::<Vec<_>>());
            let Some(grid) = grid else {
                assert!(tokens[1..].iter().all(|&value| value == 0.0), "{firing}: {tokens:?}");
                continue;
            };
            assert_eq!(grid.len(), 4);
            // Three digits.
            assert!(
                grid.iter().zip(&tokens[1..]).all(|(a, b)| (a - f64::from(*b)).abs() <= 0.005 * a.abs()),
                "{firing}"
            );
            maps += 1;
        }
    }
    assert!(maps > 10 && output["maps"] == maps, "{maps}: {output}");

    // Codes of tokens give the same samples as the dictionary.
    let codes = "--codes z.npy --generated sd=z2.npy --store x.npy --pool mean --rows rows.csv";
    sandbox.done(&format!("samples {codes} --out again --quiet"));
    assert_eq!(samples, lines("again/samples.jsonl"));
    // With a subset of the rows, shares still refer to all rows.
    sandbox.done(&format!("samples --sae sae {inputs} --most 3 --out few --quiet"));
    let few = lines("few/samples.jsonl");
    assert!(few.len() == 6 && few[0]["activations"][0]["above"].is_number(), "{}", few[0]);

    // Inconsistent inputs are refused with their location; unknown positions are omitted with a note.
    for (options, words) in [("--grid 3x3", "at least 3 × 3 = 9 tokens"), ("--grid 4", "14x14")] {
        let refused = sandbox.run(&format!("samples --sae sae {inputs} {options} --out no"));
        assert!(refused.code == Some(2) && refused.err.contains(words), "{}", refused.err);
    }
    let refused = sandbox.run("samples --codes z.npy --rows rows.csv --grid 2x2 --out no");
    assert!(refused.code == Some(2) && refused.err.contains("--pool"), "{}", refused.err);
    sandbox.write("groups.npy", npy_i64(&[0; 29]));
    let refused = sandbox.run("samples --codes z.npy --samples groups.npy --pool mean --out no");
    assert!(refused.code == Some(2) && refused.err.contains("30 ids"), "{}", refused.err);
    sandbox.write("texts.csv", "row,text\n0,a bird at the blue wall\n1,two birds\n");
    let output = sandbox.done("samples --sae sae --store x.npy --pool max --rows texts.csv --out texts");
    assert!(output.err.contains("token positions unknown for 2 samples"), "{}", output.err);
    sandbox.write("texts.csv", "row,words\n0,\"[\"\"<s>\"\",\"\"a\"\",\"\" bird\"\",\"\" s\"\",\"\"ings\"\"]\"\n");
    sandbox.done("samples --sae sae --store x.npy --pool max --rows texts.csv --out texts --quiet");
    let texts = lines("texts/samples.jsonl");
    assert_eq!(texts[0]["text"], "<s>a bird sings");
    assert_eq!(texts[0]["activations"][0]["tokens"].as_array().unwrap().len(), 5);
}

#[test]
fn layout_files_are_served() {
    let sandbox = results();
    sandbox.write(
        "directions.npy",
        common::files::npy_f32(&[20, 3], &(0..60).map(|i| ((i * 7 % 11) as f32) - 5.0).collect::<Vec<_>>()),
    );
    for name in ["points.csv", "layouts/array.npy"] {
        std::fs::create_dir_all(sandbox.path("out/layouts")).unwrap();
        sandbox.done(&format!("layout directions.npy --neighbours 5 --out out/{name} --quiet"));
    }
    let served = serve_sandbox(sandbox, "");
    let manifest = served.get("/api/v1/manifest.json").json();
    assert_eq!(manifest["problems"], serde_json::json!([]));
    let (table, array) =
        (served.get("/api/v1/layouts/points.json").json(), served.get("/api/v1/layouts/array.json").json());
    assert_eq!(table["latent"], serde_json::json!((0..20).collect::<Vec<u32>>()));
    assert_eq!((&table["x"], &table["latent"]), (&array["x"], &array["latent"]));
}
