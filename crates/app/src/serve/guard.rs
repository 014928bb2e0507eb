//! Who may ask, and how. Everything that is refused is refused here, before anything is looked up.

use super::address::Address;
use super::answer::Answer;
use super::request::Request;
use super::token::Token;

/// The name of the cookie. Browsers share cookies between the ports of a machine, so it carries the port.
pub fn cookie_name(address: &Address) -> String {
    format!("etalon-{}", address.port)
}

/// What a request that may be answered still needs.
pub enum Pass {
    /// Nothing.
    Known,
    /// It came with the token in its address: a cookie for the next ones.
    New(String),
}

/// Checks method, `Host`, `Origin`, body and token, in this order.
pub fn check(request: &Request, address: &Address, token: &Token) -> Result<Pass, Answer> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Err(Answer::refused(405, "only GET: nothing can be changed here"));
    }
    // Names that a foreign page made to point at this machine (DNS rebinding).
    if !request.header("host").is_some_and(|host| address.answers_to(host)) {
        return Err(Answer::refused(421, "this server does not answer to that name"));
    }
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| address.answers_to(host));
    if request.has("origin") && !request.header("origin").is_some_and(own) {
        return Err(Answer::refused(403, "other web pages may not ask here"));
    }
    // A link may lead here from anywhere; scripts, pictures and frames of other sites may not.
    let site = request.header("sec-fetch-site").unwrap_or("none");
    if !matches!(site, "none" | "same-origin") && request.header("sec-fetch-mode") != Some("navigate") {
        return Err(Answer::refused(403, "other web pages may not ask here"));
    }
    let empty = request.header("content-length").is_none_or(|length| length == "0");
    if request.has("transfer-encoding") || !empty {
        return Err(Answer::refused(413, "a request here has no body"));
    }
    let name = cookie_name(address);
    if request.asked("token").is_some_and(|given| token.is(given)) {
        return Ok(Pass::New(format!("{name}={}; HttpOnly; SameSite=Strict; Path=/", token.text())));
    }
    if request.cookie(&name).is_some_and(|given| token.is(given)) {
        return Ok(Pass::Known);
    }
    Err(Answer::refused(401, "Please open the whole address that `etalon serve` printed: it ends with a token."))
}
