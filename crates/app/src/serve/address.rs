//! Where the server listens, and by which names a browser may call it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etalon::error::{InputError, Result};

/// Where the server listens.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The address of the machine.
    pub ip: IpAddr,
    /// The port; 0 takes any that is free.
    pub port: u16,
}

impl Address {
    /// Reads `--bind` and `--port`. Without `--bind` only programs of this machine can reach the server.
    pub fn new(bind: Option<&str>, port: u16) -> Result<Address> {
        let ip = match bind {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => text.trim_matches(['[', ']']).parse().map_err(|_| {
                InputError::new("`--bind` is not the address of a machine")
                    .expected("an IP address, such as 127.0.0.1 or 0.0.0.0 or ::1")
                    .found(format!("`{}`", text.escape_debug()))
                    .advice("leave it out to be reachable from this machine only")
            })?,
        };
        Ok(Address { ip, port })
    }

    /// Can other machines reach it?
    pub fn is_open(&self) -> bool {
        !self.ip.is_loopback()
    }

    /// The address a browser on this machine uses.
    pub fn url(&self) -> String {
        let ip = match self.ip {
            ip if !ip.is_unspecified() => ip,
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        format!("http://{}", SocketAddr::new(ip, self.port))
    }

    /// May a request call the server by this `Host`? A name that a foreign page made to point here must not do: so only
    /// the names of this machine, and addresses in digits if the server is open to others.
    pub fn answers_to(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else {
            // Browsers leave the port out when it is 80.
            return self.port == 80 && self.answers_to(&format!("{host}:80"));
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
    fn only_names_of_this_machine() {
        let here = Address::new(None, 8000).unwrap();
        for host in ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"] {
            assert!(here.answers_to(host), "{host}");
        }
        for host in
            ["", "evil.example:8000", "127.0.0.1", "127.0.0.1:80", "192.168.0.7:8000", "localhost.evil.example:8000"]
        {
            assert!(!here.answers_to(host), "{host}");
        }
        let open = Address::new(Some("0.0.0.0"), 8000).unwrap();
        assert!(open.is_open() && open.answers_to("192.168.0.7:8000") && !open.answers_to("evil.example:8000"));
        assert_eq!(open.url(), "http://127.0.0.1:8000");
        assert!(Address::new(Some("everywhere"), 1).unwrap_err().is_input());
    }
}
