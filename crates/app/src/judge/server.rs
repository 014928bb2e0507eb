//! A server as a judge: cost, pace, repeats.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etalon::context::Context;
use etalon::error::{Error, InputError, Key, Result};
use etalon::network::{Judge, Question, QuestionCost};
use etalon_kernel::random::{stream, unit};
use ureq::Agent;

use super::address::Address;
use super::chat::{MAX_BYTES, Outcome, Response, body, outcome};
use super::key::ApiKey;
use super::pace::{Pace, STEP, backoff, wait};
use crate::console::Console;

/// Characters of a token on average, for the estimate.
const CHARACTERS: u64 = 4;

/// The longest time that a server can ask to wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A judge that is asked over HTTP.
pub struct ServerJudge {
    address: Address,
    key: Option<ApiKey>,
    agent: Agent,
    pace: Pace,
    /// Where answers are recorded, for messages.
    answers: PathBuf,
    console: Option<Console>,
    /// The cost that was printed last.
    announced: Mutex<Option<QuestionCost>>,
    /// Whether the server has answered.
    has_answered: AtomicBool,
}

impl ServerJudge {
    /// A judge of a server.
    pub fn new(address: Address, answers: PathBuf, console: Option<Console>) -> Result<ServerJudge> {
        let key = ApiKey::find(&address, |name| std::env::var(name).ok())?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirected question would reach a server that the user did not name.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(address.settings.timeout));
        let config = if address.is_local { config.proxy(None) } else { config };
        let pace = Pace::new(address.settings.per_minute);
        Ok(ServerJudge {
            agent: config.build().new_agent(),
            address,
            key,
            pace,
            answers,
            console,
            announced: Mutex::default(),
            has_answered: AtomicBool::new(false),
        })
    }

    /// Sends a question once. The request runs in a thread of its own, which is left behind when the user cancels.
    fn send(&self, body: &str, context: &Context) -> Result<Outcome> {
        let (agent, body, endpoint) = (self.agent.clone(), body.to_string(), self.address.endpoint());
        let header = self.key.as_ref().map(ApiKey::header);
        let (sender, receiver) = mpsc::sync_channel(1);
        let request = move || {
            // The receiver is gone if the user cancelled.
            let _ = sender.send(post(&agent, &endpoint, header.as_deref(), &body));
        };
        let thread = std::thread::Builder::new().name("judge".into()).spawn(request);
        thread.map_err(|error| {
            InputError::new("the system cannot start a thread for a question")
                .found(error)
                .advice(format!("lower {}", Key("threads")))
        })?;
        let response = loop {
            match receiver.recv_timeout(STEP) {
                Ok(response) => break response,
                Err(RecvTimeoutError::Timeout) => context.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Bug("a request ended without a result".into()));
                }
            }
        };
        Ok(match response {
            Ok(response) => outcome(&response, &self.address, self.key.as_ref()),
            Err(ureq::Error::BodyExceedsLimit(_)) => Outcome::Refused(
                InputError::new("the server of the judge sent too much")
                    .expected(format!("an answer of at most {MAX_BYTES} bytes"))
                    .at(self.address.endpoint()),
            ),
            Err(error) => Outcome::Failed {
                is_unreachable: is_unreachable(&error),
                why: match error {
                    ureq::Error::Timeout(_) => format!("no answer within {:?}", self.address.settings.timeout),
                    error => ApiKey::hide(self.key.as_ref(), &error.to_string()),
                },
                after: None,
            },
        })
    }

    fn gave_up(&self, attempts: usize, why: &str) -> InputError {
        let times = if attempts == 1 { "once".into() } else { format!("{attempts} times") };
        InputError::new("the server of the judge did not answer")
            .found(format!("asked {times}; the last time: {why}"))
            .at(self.address.endpoint())
            .advice(format!(
                "answers so far are kept in {}; run the same command again to continue",
                self.answers.display()
            ))
    }
}

fn post(agent: &Agent, endpoint: &str, authorization: Option<&str>, body: &str) -> Result<Response, ureq::Error> {
    let mut request = agent.post(endpoint).header("content-type", "application/json");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    let mut response = request.send(body)?;
    let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(String::from);
    let status = response.status().as_u16();
    Ok(Response { status, retry_after, body: response.body_mut().with_config().limit(MAX_BYTES).read_to_vec()? })
}

/// Whether no server listens at the address.
fn is_unreachable(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
        ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        _ => false,
    }
}

impl Judge for ServerJudge {
    fn id(&self) -> String {
        self.address.id()
    }

    fn announce(&self, cost: &QuestionCost) -> Result<()> {
        let asked = cost.characters.div_ceil(CHARACTERS);
        let most = self.address.settings.max_tokens;
        if asked + cost.answer_tokens > most {
            return Err(InputError::new(format!("the questions to {} exceed its limit", self.address.model))
                .expected(format!("at most {} tokens (setting `max-tokens`)", most))
                .found(format!(
                    "{} questions of about {} tokens, and answers of at most {}",
                    cost.questions, asked, cost.answer_tokens
                ))
                .advice(format!(
                    "nothing was sent; lower {}, or raise the limit: {}#{},max-tokens={}",
                    Key("judged_latents"),
                    self.address.base,
                    self.address.model,
                    asked + cost.answer_tokens
                ))
                .into());
        }
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        if *announced != Some(*cost) {
            *announced = Some(*cost);
            if let Some(console) = &self.console {
                console.status(format!(
                    "judge: {} gets at most {} questions of about {} tokens, and gives at most {} tokens; answers: {}",
                    self.address.model,
                    cost.questions,
                    asked,
                    cost.answer_tokens,
                    self.answers.display()
                ));
            }
        }
        Ok(())
    }

    fn answer(&self, question: &Question, context: &Context) -> Result<String> {
        let (body, settings) = (body(question, &self.address)?, &self.address.settings);
        // Any number that differs between questions: it only spreads their repeats.
        let block = u64::from_str_radix(question.key().get(..16).unwrap_or_default(), 16).unwrap_or_default();
        let mut random = stream(0, "judge/repeats", block);
        for attempt in 1.. {
            self.pace.take(context)?;
            let (why, after) = match self.send(&body, context)? {
                Outcome::Answered(answer) => {
                    self.has_answered.store(true, Ordering::Relaxed);
                    return Ok(answer);
                }
                Outcome::Refused(error) => return Err(error.into()),
                Outcome::Failed { why, is_unreachable, .. }
                    if is_unreachable && !self.has_answered.load(Ordering::Relaxed) =>
                {
                    return Err(self.gave_up(attempt, &why).advice("start the server, and check its address").into());
                }
                Outcome::Failed { why, after, .. } => (why, after),
            };
            if attempt >= settings.attempts {
                return Err(self.gave_up(attempt, &why).into());
            }
            match after {
                Some(time) if time > LONGEST_PAUSE => {
                    let why = format!("{why}; it wants to be asked again after {} seconds", time.as_secs());
                    return Err(self.gave_up(attempt, &why).into());
                }
                Some(time) => self.pace.pause(time),
                None => wait(backoff(settings.wait, attempt, unit(&mut random)), context)?,
            }
        }
        Err(Error::Bug("questions end".into()))
    }
}
