//! What is not Weir's is left alone: Services without a route, UDP, endpoints that are dialled
//! directly, other ports and processes outside of the cgroup.

use crate::stage::{Family, SERVICE_NET, Stage, families, shop_route};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::{
    cgroup::Cgroup,
    client::{Client, Dial},
    server::Server,
};

families!(what_has_no_route_goes_where_it_went);

fn what_has_no_route_goes_where_it_went(family: Family) -> Result<()> {
    let manifest =
        shop_route(&[("shop/a", 80, 1)]).service("shop/plain", &["10.96.0.20", "fd00:96::20"], &[("http", 80)]);
    let stage = Stage::set(&manifest)?;
    let _servers = stage.serve_shop(family)?;
    let plain = SocketAddr::new(family.address(SERVICE_NET, 20), 80);
    let other_port = SocketAddr::new(family.address(SERVICE_NET, 10), 81);
    let _untouched = [
        stage.serve_untouched(plain)?,
        stage.serve_untouched(other_port)?,
        stage.serve_untouched(family.frontend())?,
        Server::udp(stage.net.backend(1), family.frontend(), "datagram")?,
    ];
    let goes = |dial: &Dial, to: &str| -> Result<()> {
        let report = stage.connect(dial, 10)?;
        assert_eq!(report.answered_by(to), 10, "{dial:?}: {report:?}");
        Ok(())
    };
    goes(&family.dial_frontend(), "a/")?;
    goes(&family.dial(plain), "untouched")?;
    goes(&family.dial(other_port), "untouched")?;
    goes(&Dial { udp: true, ..family.dial_frontend() }, "datagram")?;
    for host in [1, 2, 3] {
        goes(&family.dial(family.endpoint(host)), &format!("a/{host}"))?;
    }
    let outside = Cgroup::new("outside")?;
    let report = Client::new(stage.net.client(0), &outside)?.connect(&family.dial_frontend(), 10)?;
    assert_eq!(report.answered("untouched"), 10, "a process outside of the cgroup: {report:?}");
    Ok(())
}
