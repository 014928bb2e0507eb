//! `autointerp` with a judge over HTTP: cost, recorded answers, failures, keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::chat_server::{ChatServer, Reply};
use common::everything::{SITE, make_model};
use common::{Output, Sandbox, TIME_LIMIT, etalon, finish, words};

/// A key that must appear nowhere.
const KEY: &str = "sk-test-0123456789";

/// A capture and a dictionary for it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 60);
    sandbox
        .done(&format!("capture --model model --input texts.jsonl --site {SITE} --context 16 --pack --out captured"));
    sandbox.done(&format!(
        "train --store captured/sites/{SITE} --arch topk --latents 12 --k 4 --steps 20 --batch 64 --out sae"
    ));
    sandbox
}

/// The command line of an evaluation of three latents: nine questions.
fn command(judge: &str) -> String {
    format!(
        "eval autointerp --sae sae --store captured/sites/{SITE} --capture captured --buffer 2 --judged-latents 3 --judge {judge}"
    )
}

fn run(sandbox: &Sandbox, arguments: &str) -> Output {
    let mut command = etalon(&sandbox.path("."), &words(arguments));
    command.env("ETALON_CACHE", sandbox.path("cache")).env("OPENAI_API_KEY", KEY);
    finish(command, TIME_LIMIT)
}

/// An evaluation with quick repeats.
fn judged(sandbox: &Sandbox, server: &ChatServer, settings: &str) -> Output {
    run(sandbox, &command(&format!("{}#tiny/judge,wait=0.01{settings}", server.address())))
}

/// Files below the directory that contain the key.
fn files_with_key(sandbox: &Sandbox) -> Vec<String> {
    let has_key = |name: &String| {
        let bytes = std::fs::read(sandbox.path(name)).unwrap();
        bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
    };
    sandbox.files(".").into_iter().filter(has_key).collect()
}

#[test]
fn questions_are_asked_once_and_recorded() {
    let (sandbox, server) = (sandbox(), ChatServer::new(|_, request| request.sensible()));
    let judge = format!("{}#tiny/judge", server.address());
    let first = run(&sandbox, &format!("{} --out a.json", command(&judge)));
    assert_eq!(first.code, Some(0), "{first:#?}");
    assert!(first.err.contains("judge: tiny/judge gets at most 9 questions of about"), "{}", first.err);
    let requests = server.requests();
    assert_eq!(requests.len(), 9);
    for request in &requests {
        assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
        assert!(request.head.to_ascii_lowercase().contains(&format!("authorization: bearer {KEY}")));
        assert_eq!((&request.body["model"], &request.body["temperature"]), (&"tiny/judge".into(), &0.0.into()));
    }
    let explained = requests.iter().filter(|request| request.body["max_tokens"] == 30).count();
    assert_eq!(explained, 3);
    let result = sandbox.json("a.json");
    assert!(result["headline"]["autointerp_score"]["value"].is_number(), "{result}");
    assert_eq!(result["headline"]["autointerp_unparsed"]["value"], 0.0);
    assert!(result["tables"]["latent"]["explanation"].to_string().contains("odd words"));
    // The same again, and with limits that change no answer: nothing is sent, and the result is the same.
    run(&sandbox, &format!("{} --out b.json", command(&format!("{judge},per-minute=1,attempts=1"))));
    assert_eq!(server.requests().len(), 9);
    let without_seconds = |name: &str| {
        let mut value = sandbox.json(name);
        value.as_object_mut().unwrap().remove("seconds");
        value
    };
    assert_eq!(without_seconds("a.json"), without_seconds("b.json"));
    // Recorded answers can be given instead of the server.
    let answers = std::fs::read_dir(sandbox.path("cache/answers")).unwrap().next().unwrap().unwrap().path();
    let replay = run(&sandbox, &format!("{} --out c.json", command(&answers.display().to_string())));
    assert_eq!(replay.code, Some(0), "{replay:#?}");
    assert_eq!(sandbox.json("c.json")["headline"], result["headline"]);
    assert_eq!(files_with_key(&sandbox), Vec::<String>::new());
    assert!(!format!("{first:?}{replay:?}").contains(KEY));
}

#[test]
fn busy_servers_are_asked_again() {
    let server = ChatServer::new(|number, request| match number {
        0 => Reply::Http(429, "Retry-After: 1\r\n", r#"{"error": {"message": "slow down"}}"#.into()),
        1 => Reply::Http(500, "", "oops".into()),
        2 => Reply::Http(503, "retry-after: 0\r\n", String::new()),
        _ => request.sensible(),
    });
    let (sandbox, began) = (sandbox(), Instant::now());
    let output = judged(&sandbox, &server, "");
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(server.requests().len() == 12 && began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn servers_that_stay_busy_are_given_up() {
    let sandbox = sandbox();
    let busy = ChatServer::new(|_, _| Reply::Http(429, "", r#"{"error": "quota exceeded"}"#.into()));
    let output = judged(&sandbox, &busy, ",attempts=3");
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.err.contains("asked 3 times; the last time: status 429: quota exceeded"), "{}", output.err);
    assert!(output.err.contains("run the same command again"), "{}", output.err);
    let later = ChatServer::new(|_, _| Reply::Http(429, "Retry-After: 86400\r\n", String::new()));
    let output = judged(&sandbox, &later, "");
    assert!(output.code == Some(2) && output.err.contains("after 86400 seconds"), "{output:#?}");
    let hanging = ChatServer::new(|_, _| Reply::Hang);
    let output = judged(&sandbox, &hanging, ",attempts=2,timeout=0.2");
    assert!(output.code == Some(2) && output.err.contains("no answer within 200ms"), "{output:#?}");
    // Nobody listens there: one attempt is enough.
    let output = run(&sandbox, &command("http://127.0.0.1:9/v1#m"));
    assert!(output.code == Some(2) && output.err.contains("start the server"), "{output:#?}");
}

#[test]
fn nonsense_is_an_error_and_answers_are_kept() {
    let sandbox = sandbox();
    let answers = ",answers=kept";
    for nonsense in ["<html>not found</html>", "{\"choices\": []}", "[1, 2", ""] {
        let server = ChatServer::new(move |_, _| Reply::Http(200, "", nonsense.into()));
        let output = judged(&sandbox, &server, "");
        assert_eq!(output.code, Some(2), "{output:#?}");
        assert!(output.err.contains("did not answer with a chat completion"), "{}", output.err);
    }
    let long = ChatServer::new(|_, _| Reply::Http(200, "", "x".repeat(2 << 20)));
    let output = judged(&sandbox, &long, "");
    assert!(output.code == Some(2) && output.err.contains("sent too much"), "{output:#?}");
    // Five answers, then nonsense. The next run asks for the other four only.
    let breaks = std::sync::atomic::AtomicBool::new(true);
    let server = ChatServer::new(move |number, request| match number {
        5 if breaks.swap(false, std::sync::atomic::Ordering::Relaxed) => Reply::Http(200, "", "nonsense".into()),
        _ => request.sensible(),
    });
    let judge = format!("{}#m{answers} --threads 1", server.address());
    assert_eq!(run(&sandbox, &command(&judge)).code, Some(2));
    assert_eq!((server.requests().len(), sandbox.files("kept").len()), (6, 6));
    assert_eq!(run(&sandbox, &command(&judge)).code, Some(0));
    assert_eq!((server.requests().len(), sandbox.files("kept").len()), (10, 10));
    // The directory belongs to one judge.
    let other = run(&sandbox, &command(&format!("{}#other{answers}", server.address())));
    assert!(other.code == Some(2) && other.err.contains("another judge"), "{other:#?}");
}

#[test]
fn useless_answers_are_counted() {
    let sandbox = sandbox();
    let server = ChatServer::new(|_, _| Reply::answer("I cannot help with that."));
    let output = run(&sandbox, &format!("{} --out a.json", command(&format!("{}#m", server.address()))));
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert!(output.err.contains("3 of 3 predictions could not be read"), "{}", output.err);
    let null = r#"{"choices": [{"message": {"content": null}}]}"#;
    let refusing = ChatServer::new(move |_, _| Reply::Http(200, "", null.into()));
    let output = run(&sandbox, &format!("{} --out b.json", command(&format!("{}#m", refusing.address()))));
    assert_eq!(
        (output.code, &sandbox.json("b.json")["headline"]["autointerp_unparsed"]["value"]),
        (Some(0), &1.0.into())
    );
}

#[test]
fn keys_are_hidden() {
    let sandbox = sandbox();
    let server = ChatServer::new(|_, request| {
        let key = request.head.lines().find_map(|line| line.split_once("Bearer ")).unwrap().1.trim().to_string();
        Reply::Http(401, "", format!(r#"{{"error": {{"message": "the key {key} is not valid"}}}}"#))
    });
    let output = judged(&sandbox, &server, "");
    assert_eq!((output.code, server.requests().len()), (Some(2), server.requests().len().min(2)), "{output:#?}");
    assert!(output.err.contains("the key *** is not valid") && output.err.contains("OPENAI_API_KEY"), "{}", output.err);
    let echo = ChatServer::new(|_, _| Reply::answer(&format!("This latent activates on {KEY}.")));
    let output = judged(&sandbox, &echo, "");
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(files_with_key(&sandbox), Vec::<String>::new());
    assert!(!output.err.contains(KEY) && !output.out.contains(KEY));
    // Redirects are not followed: the other server would get questions and key.
    let other = ChatServer::new(|_, request| request.sensible());
    let header: &'static str = Box::leak(format!("Location: {}/x\r\n", other.address()).into_boxed_str());
    let redirecting = ChatServer::new(move |_, _| Reply::Http(307, header, String::new()));
    let output = judged(&sandbox, &redirecting, "");
    assert!(output.code == Some(2) && output.err.contains("status 307") && other.requests().is_empty(), "{output:#?}");
}

#[test]
fn nothing_is_sent_beyond_the_limit() {
    let (sandbox, server) = (sandbox(), ChatServer::new(|_, request| request.sensible()));
    let output = judged(&sandbox, &server, ",max-tokens=500");
    assert_eq!((output.code, server.requests().len()), (Some(2), 0), "{output:#?}");
    assert!(output.err.contains("at most 500 tokens") && output.err.contains("9 questions of about"), "{}", output.err);
    // The advice has a limit that is enough.
    let advice = output.err.split("raise the limit: ").nth(1).unwrap().trim().to_string();
    assert_eq!(run(&sandbox, &command(&advice)).code, Some(0), "{advice}");
    for (judge, message) in [
        ("http://127.0.0.1/v1", "names no model"),
        ("http://127.0.0.1/v1#m,maxtokens=1", "max-tokens"),
        ("http://127.0.0.1/v1#m,key=NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
    ] {
        let output = run(&sandbox, &command(judge));
        assert!(output.code == Some(2) && output.err.contains(message), "{judge}: {output:#?}");
    }
}

#[cfg(not(feature = "https"))]
#[test]
fn encrypted_addresses_need_a_feature() {
    let output = run(&sandbox(), &command("https://127.0.0.1/v1#m"));
    assert!(output.code == Some(2) && output.err.contains("--features https"), "{output:#?}");
}

#[test]
fn questions_can_be_worded_by_the_user() {
    let (sandbox, server) = (sandbox(), ChatServer::new(|_, request| request.sensible()));
    sandbox.write("mine.txt", "My own words.\n[detect]\nName the pieces with {count} choices.\n");
    let judge = format!("{}#m", server.address());
    let output = run(&sandbox, &format!("{} --prompt mine.txt", command(&judge)));
    assert_eq!(output.code, Some(0), "{output:#?}");
    let own = server.requests().iter().filter(|request| request.system() == "Name the pieces with 14 choices.").count();
    assert_eq!((own, server.requests().len()), (3, 9));
    sandbox.write("wrong.txt", "[detekt]\nx\n");
    let output = run(&sandbox, &format!("{} --prompt wrong.txt", command(&judge)));
    assert!(output.code == Some(2) && output.err.contains("did you mean `detect`"), "{output:#?}");
    assert_eq!(server.requests().len(), 9);
}

#[test]
fn studies_have_judges_and_baselines() {
    let (sandbox, server) = (sandbox(), ChatServer::new(|_, request| request.sensible()));
    for baseline in ["pca", "identity"] {
        sandbox.done(&format!("train --store captured/sites/{SITE} --arch {baseline} --out {baseline}"));
    }
    sandbox.write(
        "study.toml",
        format!(
            "out = \"out\"\nmetrics = [\"autointerp\"]\n[inputs]\nembeddings = \"captured/sites/{SITE}\"\ncapture = \"captured\"\n\
             judge = [\"{}#m\"]\n[[set]]\nname = \"sae\"\nsae = \"sae\"\n[[set]]\nname = \"pca\"\nsae = \"pca\"\n\
             [[set]]\nname = \"residual\"\nsae = \"identity\"\n[[set]]\nname = \"neurons\"\ncodes = \"captured/sites/{SITE}\"\n\
             [params.autointerp]\nbuffer = 2\njudged_latents = 2\n",
            server.address()
        ),
    );
    let output = run(&sandbox, "run study.toml --json");
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(output.json()["failed"].as_array().unwrap().len(), 0, "{output:#?}");
    let results: Vec<serde_json::Value> =
        sandbox.files("out/results").iter().map(|file| sandbox.json(&format!("out/results/{file}"))).collect();
    assert_eq!(results.len(), 4);
    for result in results {
        assert_eq!(result["headline"]["autointerp_score"]["n"], 2, "{result}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn waiting_ends_with_ctrl_c() {
    let sandbox = sandbox();
    let hanging = ChatServer::new(|_, _| Reply::Hang);
    let busy = ChatServer::new(|_, _| Reply::Http(429, "Retry-After: 500\r\n", String::new()));
    let slow = ChatServer::new(|_, request| request.sensible());
    for (server, settings) in [(&hanging, ""), (&busy, ""), (&slow, ",per-minute=0.1")] {
        let judge = format!("{}#m{settings}", server.address());
        let mut child = etalon(&sandbox.path("."), &words(&command(&judge)));
        child.env("ETALON_CACHE", sandbox.path("cache")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let began = Instant::now();
        while server.requests().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(100));
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let began = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(began.elapsed() < common::interrupt::WALL_LIMIT, "{:?}", began.elapsed());
    }
}
