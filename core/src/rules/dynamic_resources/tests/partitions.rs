//! Partitions of many devices: what most of them cannot hold is found on the one that can.

use super::*;

/// GPUs of a node, in partitions, each of seven slices.
const GPUS: i64 = 8;

fn counter(at: usize) -> Text {
    format!("slice-{at}").into()
}

/// A part of a GPU, so many slices from one on.
fn part(gpu: i64, size: usize, from: usize) -> DeviceFacts {
    let set: Text = format!("gpu-{gpu}").into();
    let takes = (from..from + size).map(|at| (set.clone(), counter(at), Nano(1)));
    let consumes = takes.collect();
    DeviceFacts { consumes, ..with(&format!("g{gpu}-{size}-{from}"), "parent", gpu) }
}

/// All of them in one pool; the query of a size is `1`, `2` or `3`.
fn partitioned() -> Devices {
    let ways = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6)];
    let ways = ways.into_iter().chain([(2, 0), (2, 2), (2, 4), (3, 0), (3, 4)]);
    let ways: Vec<(i64, usize, usize)> =
        (0..GPUS).flat_map(|gpu| ways.clone().map(move |(size, from)| (gpu, size, from))).collect();
    let parts = ways.iter().map(|(gpu, size, from)| part(*gpu, *size, *from));
    let sets = (0..GPUS).map(|gpu| {
        let slices = (0..7).map(|at| (counter(at), Nano(1)));
        (format!("gpu-{gpu}").into(), slices.collect())
    });
    let counters =
        SliceFacts { name: "c".into(), slices: 2, counters: sets.collect(), ..slice(Vec::new()) };
    let mut devices = all(vec![counters, SliceFacts { slices: 2, ..slice(parts.collect()) }]);
    for wanted in 1..=3 {
        let is = |size: usize| if size == wanted { Answer::Yes } else { Answer::No };
        let answers: Vec<Answer> = ways.iter().map(|(_, size, _)| is(*size)).collect();
        devices.put_answers(wanted.to_string().into(), "s".into(), answers.into());
    }
    devices
}

#[test]
fn what_seven_gpus_cannot_hold_together_is_found_on_the_eighth() {
    let mut devices = partitioned();
    for gpu in 0..GPUS - 1 {
        // Neither half has three slices left.
        let (low, high) = (format!("g{gpu}-1-0"), format!("g{gpu}-1-4"));
        allocated(&mut devices, &[&low, &high], false);
    }
    let sized = |name: &str, size: &str| DeviceAsk { query: size.into(), ..ask(name, 1) };
    let asks = vec![sized("a", "1"), sized("b", "1"), sized("c", "2"), sized("d", "3")];
    let constraints = vec![same("gpu.example.com/parent")];
    let spec = ClaimSpec { constraints, ..claim(asks) };
    let wanted = ["g7-1-0", "g7-1-1", "g7-2-2", "g7-3-4"].map(str::to_owned);
    assert_eq!(found(&devices, &[&spec]), Ok(wanted.to_vec()));
}
