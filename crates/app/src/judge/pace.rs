//! When requests may be sent, and waiting that ends with Ctrl-C.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use etalon::context::Context;
use etalon::error::Result;

/// How often cancellation is checked.
pub const STEP: Duration = Duration::from_millis(20);

/// Spreads requests over time, for all threads together.
pub struct Pace {
    interval: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    /// Largest number of requests per minute; 0 for any number.
    pub fn new(per_minute: f64) -> Pace {
        let interval = if per_minute > 0.0 { Duration::from_secs_f64(60.0 / per_minute) } else { Duration::ZERO };
        Pace { interval, next: Mutex::new(Instant::now()) }
    }

    /// Waits until the next request may be sent.
    pub fn take(&self, context: &Context) -> Result<()> {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (*next).max(Instant::now());
            *next = at + self.interval;
            at
        };
        wait_until(at, context)
    }

    /// Lets no thread send a request for some time.
    pub fn pause(&self, time: Duration) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = (*next).max(Instant::now() + time);
    }
}

/// Waits, or returns an error when the user cancels.
pub fn wait(time: Duration, context: &Context) -> Result<()> {
    wait_until(Instant::now() + time, context)
}

fn wait_until(end: Instant, context: &Context) -> Result<()> {
    loop {
        context.check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(STEP));
    }
}

/// The time in a header `Retry-After`: seconds, or a date.
pub fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

/// The time before a question is sent again after `failures` failures: doubled after each, at most a minute, and less by a random
/// part of up to a half, so that threads do not return together.
pub fn backoff(first: Duration, failures: usize, random: f64) -> Duration {
    let doubled = first.saturating_mul(1 << (failures.saturating_sub(1)).min(16));
    doubled.min(Duration::from_secs(60).max(first)).mul_f64(1.0 - random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_servers_are_read() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(retry_after("2", now), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(" 0.25 ", now), Some(Duration::from_millis(250)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!([retry_after("-1", now), retry_after("soon", now), retry_after("NaN", now)], [None; 3]);
    }

    #[test]
    fn waits_double_to_a_minute() {
        let seconds = |failures| backoff(Duration::from_secs(1), failures, 0.0).as_secs();
        assert_eq!([1, 2, 3, 6, 7, 99].map(seconds), [1, 2, 4, 32, 60, 60]);
        assert_eq!(backoff(Duration::from_secs(1), 2, 1.0), Duration::from_secs(1));
    }

    #[test]
    fn requests_are_spread() {
        let (context, began) = (Context::silent(1, 1 << 20).unwrap(), Instant::now());
        let pace = Pace::new(60.0 / 0.05);
        (0..4).for_each(|_| pace.take(&context).unwrap());
        assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
        pace.pause(Duration::from_secs(3600));
        context.cancel();
        assert!(pace.take(&context).is_err());
    }
}
