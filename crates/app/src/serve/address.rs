//! The address of the server, and the host names that it accepts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etalon::error::{InputError, Result};

/// The address on which the server listens.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// The port; 0 selects a free one.
    pub port: u16,
}

impl Address {
    /// Parses `--bind` and `--port`. Without `--bind` the server is reachable from this machine only.
    pub fn new(bind: Option<&str>, port: u16) -> Result<Address> {
        let ip = match bind {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => text.trim_matches(['[', ']']).parse().map_err(|_| {
                InputError::new("`--bind` is not an IP address")
                    .expected("an address such as 127.0.0.1, 0.0.0.0 or ::1")
                    .found(format!("`{}`", text.escape_debug()))
                    .advice("remove it to be reachable from this machine only")
            })?,
        };
        Ok(Address { ip, port })
    }

    /// Whether other machines can reach the server.
    pub fn is_open(&self) -> bool {
        !self.ip.is_loopback()
    }

    /// The URL for a browser on this machine.
    pub fn url(&self) -> String {
        let ip = match self.ip {
            ip if !ip.is_unspecified() => ip,
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        format!("http://{}", SocketAddr::new(ip, self.port))
    }

    /// Whether to accept a request with this `Host`. Against DNS rebinding, only `localhost` and IP addresses of this server
    /// are accepted.
    pub fn accepts_host(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else {
            // Browsers omit port 80.
            return self.port == 80 && self.accepts_host(&format!("{host}:80"));
        };
        if port.parse() != Ok(self.port) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return false;
        }
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || (self.is_open() && (self.ip.is_unspecified() || ip == self.ip)),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_this_machine_are_accepted() {
        let here = Address::new(None, 8000).unwrap();
        for host in ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"] {
            assert!(here.accepts_host(host), "{host}");
        }
        for host in
            ["", "evil.example:8000", "127.0.0.1", "127.0.0.1:80", "192.168.0.7:8000", "localhost.evil.example:8000"]
        {
            assert!(!here.accepts_host(host), "{host}");
        }
        let open = Address::new(Some("0.0.0.0"), 8000).unwrap();
        assert!(open.is_open() && open.accepts_host("192.168.0.7:8000") && !open.accepts_host("evil.example:8000"));
        assert_eq!(open.url(), "http://127.0.0.1:8000");
        assert!(Address::new(Some("everywhere"), 1).unwrap_err().is_input());
    }
}
