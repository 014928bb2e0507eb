//! Request checks: one layer in front of all others, so that a refused request is never looked up.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, COOKIE, HOST, HeaderName, ORIGIN, SET_COOKIE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::response::refused;
use super::server::ServerState;

/// Maximum length of an address.
const MAX_TARGET: usize = 2 << 10;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Passes a request on, or refuses it.
pub async fn guard(State(state): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    if let Err((status, reason)) = check(&request, &state) {
        return refused(status, reason);
    }
    let with_token = has_token(request.uri(), &state);
    let mut response = next.run(request).await;
    if with_token {
        let (name, token) = (cookie_name(&state), state.token.text());
        let cookie = HeaderValue::try_from(format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/"));
        response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
        // The token must not reach the browser's cache.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// The name of the cookie. It contains the port, because browsers share cookies between the ports of a host.
fn cookie_name(state: &ServerState) -> String {
    format!("etalon-{}", state.address.port)
}

/// Checks address, method, `Host`, `Origin`, body and token, in this order.
fn check(request: &Request, state: &ServerState) -> Result<(), (StatusCode, &'static str)> {
    let (uri, address) = (request.uri(), &state.address);
    if uri.authority().is_some() || !uri.path().starts_with('/') {
        return Err((StatusCode::BAD_REQUEST, "the address of a request must start with `/`"));
    }
    if uri.path_and_query().is_some_and(|target| target.as_str().len() > MAX_TARGET) {
        return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the address is too long"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed"));
    }
    // Against DNS rebinding.
    if !header(request, HOST).is_some_and(|host| address.accepts_host(host)) {
        return Err((StatusCode::MISDIRECTED_REQUEST, "unknown host"));
    }
    let foreign = Err((StatusCode::FORBIDDEN, "requests from other sites are refused"));
    let own = |origin: &str| origin.strip_prefix("http://").is_some_and(|host| address.accepts_host(host));
    if request.headers().contains_key(ORIGIN) && !header(request, ORIGIN).is_some_and(own) {
        return foreign;
    }
    // Links from other sites are allowed; scripts, images and frames are not.
    let same_site = matches!(header(request, FETCH_SITE), Some("none" | "same-origin"));
    if request.headers().contains_key(FETCH_SITE) && !same_site && header(request, FETCH_MODE) != Some("navigate") {
        return foreign;
    }
    if !request.body().is_end_stream() {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "requests must not have a body"));
    }
    let has_cookie = cookie(request, &cookie_name(state)).is_some_and(|given| state.token.is(given));
    if !has_cookie && !has_token(uri, state) {
        let reason = "open the full address that `etalon serve` printed, including the token";
        return Err((StatusCode::UNAUTHORIZED, reason));
    }
    Ok(())
}

/// A header; `None` if it is missing, repeated, or not text.
fn header(request: &Request, name: HeaderName) -> Option<&str> {
    let mut values = request.headers().get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    value_of(name, header(request, COOKIE)?.split(';').map(str::trim))
}

/// Whether the address contains the token.
fn has_token(uri: &Uri, state: &ServerState) -> bool {
    value_of("token", uri.query().unwrap_or_default().split('&')).is_some_and(|given| state.token.is(given))
}

/// The first value of a name in a list of `name=value`.
fn value_of<'a>(name: &str, mut pairs: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    pairs.find_map(|pair| pair.split_once('=').filter(|(other, _)| *other == name)).map(|(_, value)| value)
}
