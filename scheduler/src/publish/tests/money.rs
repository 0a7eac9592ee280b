//! What queues show of a quota of money.

use capstan_core::money::MicroUsd;

use super::super::queues;
use super::*;

#[test]
fn the_price_column_shows_quota_of_money_and_usage_is_in_dollars() {
    let line = |resource: &str, used: i64, nominal: i64, borrowed: i64| QuotaView {
        flavor: "spot".into(),
        resource: resource.into(),
        used,
        nominal,
        borrowed,
        lent: 0,
        available: 0,
    };
    let money = "capstan.sh/usd-per-hour";
    let view = QueueView {
        quotas: vec![
            line("nvidia.com/gpu", 2, 8, 0),
            line(money, 12_500_000, 10_000_000, 2_500_000),
            line(money, 0, 2_000_000, 0),
        ],
        per_hour: Some(MicroUsd(12_500_000)),
        ..queue_view()
    };
    let status = queues::cluster_queue(&Default::default(), &view, at(0));
    assert_eq!((status.usd_per_hour.as_str(), status.gpus.as_str()), ("12.50/12.00", "2/8"));
    let usage = json!(status.flavors_usage[0].resources);
    let of_money = usage.as_array().and_then(|all| all.iter().find(|it| it["name"] == money));
    let of_money = of_money.expect("it is shown");
    assert_eq!((&of_money["total"], &of_money["borrowed"]), (&json!("12500m"), &json!("2500m")));
    let idle = QueueView { per_hour: None, ..view };
    let status = queues::cluster_queue(&Default::default(), &idle, at(0));
    assert_eq!(status.usd_per_hour, "0.00/12.00");
}
